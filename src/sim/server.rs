//! The socket: accept, route, answer.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::answer::{self, Body};
use super::engine::Engine;
use super::generation::Generation;
use super::options::Options;
use super::request;
use crate::api::error::ApiError;

/// Larger than any prompt in JSON; only there to have a bound.
const MAX_BODY_BYTES: usize = 256 << 20;

/// What streams may still take once the engine was asked to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// After a failed accept (out of file descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A simulated engine that has its address but does not answer yet.
#[derive(Debug)]
pub struct Sim {
    listener: TcpListener,
    address: SocketAddr,
    engine: Arc<Engine>,
}

/// Runs a simulated engine until `stop` completes.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(options: Options, stop: impl Future<Output = ()>) -> io::Result<()> {
    let sim = Sim::bind(options).await?;
    tracing::info!(address = %sim.address(), "simulated engine listens");
    sim.run(stop).await;
    Ok(())
}

impl Sim {
    /// Takes the address; port 0 finds a free one.
    ///
    /// # Errors
    /// The address is taken or not ours.
    pub async fn bind(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((options.host, options.port)).await?;
        Ok(Self { address: listener.local_addr()?, listener, engine: Engine::new(options) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` completes; streams then have five seconds to end. Dropping the future instead is the
    /// engine's sudden death: every connection breaks.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let _ = stream.set_nodelay(true); // a socket that has just died says so when it is read
                        let engine = self.engine.clone();
                        let service = service_fn(move |request| handle(request, engine.clone()));
                        let connection = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .serve_connection(TokioIo::new(stream), service);
                        connections.spawn(graceful.watch(connection));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = &mut stop => break,
            }
        }
        drop(self.listener);
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await; // what is left then is cut
    }
}

/// One row per route: path, methods, and whether the table of routes in `/openapi.json` shows it.
const ROUTES: [(&str, &[Method], bool); 10] = [
    ("/inference/v1/generate", &[Method::POST], true),
    ("/inference/v1/abort_requests", &[Method::POST], true),
    (LEGACY_ABORT, &[Method::POST], true),
    ("/v1/models", &[Method::GET], true),
    ("/health", &[Method::GET], true),
    ("/ping", &[Method::GET, Method::POST], true),
    ("/version", &[Method::GET], true),
    ("/load", &[Method::GET], true),
    ("/metrics", &[Method::GET], true),
    ("/openapi.json", &[Method::GET], false),
];

/// Only a tokens-only engine has this route: it is how the two kinds are told apart.
const LEGACY_ABORT: &str = "/abort_requests";

const VERSION: &str = "0.32.0";

/// Answers one request. An error cuts the connection: it is how a simulated engine dies.
async fn handle(request: Request<Incoming>, engine: Arc<Engine>) -> io::Result<Response<Body>> {
    let path = request.uri().path();
    let known = routes(&engine).find(|(known, ..)| *known == path);
    let Some((_, methods, _)) = known else {
        return Ok(answer::error(&ApiError::detail(404, "Not Found")));
    };
    if !methods.contains(request.method()) {
        let mut response = answer::error(&ApiError::detail(405, "Method Not Allowed"));
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow(methods)));
        return Ok(response);
    }
    match path {
        "/inference/v1/generate" => generate(request, &engine).await,
        "/inference/v1/abort_requests" | LEGACY_ABORT => Ok(abort(request, &engine).await),
        "/v1/models" => Ok(models(&engine)),
        "/version" => Ok(answer::json(200, &json!({"version": VERSION}))),
        "/load" => Ok(answer::json(200, &json!({"server_load": engine.load()}))),
        "/metrics" => Ok(answer::typed(200, "text/plain; version=1.0.0; charset=utf-8", engine.metrics())),
        "/openapi.json" => Ok(openapi(&engine)),
        "/health" => Ok(answer::empty(engine.options.faults.health_status.unwrap_or(200))),
        _ => Ok(answer::empty(200)),
    }
}

fn routes(engine: &Engine) -> impl Iterator<Item = &'static (&'static str, &'static [Method], bool)> {
    let hidden = if engine.options.scale_out { LEGACY_ABORT } else { "" };
    ROUTES.iter().filter(move |(path, ..)| *path != hidden)
}

fn allow(methods: &[Method]) -> &'static str {
    match methods {
        [Method::GET] => "GET",
        [Method::POST] => "POST",
        _ => "GET, POST",
    }
}

async fn generate(request: Request<Incoming>, engine: &Arc<Engine>) -> io::Result<Response<Body>> {
    if !is_json(&request) {
        let message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed";
        return Ok(answer::error(&ApiError::invalid_body(None, message)));
    }
    let header_id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let body = match body(request).await {
        Ok(body) => body,
        Err(refusal) => return Ok(answer::error(&refusal)),
    };
    let job = match request::read(&body, header_id.as_deref(), &engine.options) {
        Ok(job) => job,
        Err(refusal) => return Ok(answer::error(&refusal)),
    };
    if let Some(refusal) = job.faults.refusal() {
        return Ok(answer::error(&refusal));
    }
    if let Err(refusal) = job.admit() {
        return Ok(if job.stream { answer::error_in_stream(&refusal) } else { answer::error(&refusal) });
    }
    let (stream, wrong_type) = (job.stream, job.faults.wrong_type);
    let generation = Generation::new(job, engine);
    let mut response = if stream { answer::streamed(generation) } else { answer::whole(generation).await? };
    if wrong_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    }
    Ok(response)
}

fn is_json(request: &Request<Incoming>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.split(';').next().is_some_and(|kind| kind.trim() == "application/json"))
}

async fn body(request: Request<Incoming>) -> Result<bytes::Bytes, ApiError> {
    match Limited::new(request.into_body(), MAX_BODY_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(_) => Err(ApiError::body_too_large(MAX_BODY_BYTES)), // or the client is gone, and nobody reads this
    }
}

#[derive(Deserialize)]
struct Abort {
    request_ids: Option<Vec<String>>,
}

async fn abort(request: Request<Incoming>, engine: &Engine) -> Response<Body> {
    let body = match body(request).await {
        Ok(body) => body,
        Err(refusal) => return answer::error(&refusal),
    };
    match serde_json::from_slice::<Abort>(&body) {
        Ok(Abort { request_ids: Some(ids) }) => {
            engine.abort(&ids);
            answer::empty(200)
        }
        Ok(Abort { request_ids: None }) => {
            answer::error(&ApiError::invalid_body(None, "Missing 'request_ids' in request body"))
        }
        Err(error) => answer::error(&ApiError::invalid_body(None, format!("JSON decode error: {error}"))),
    }
}

fn models(engine: &Engine) -> Response<Body> {
    let Options { model_name, lora_name, max_model_len, .. } = &engine.options;
    let root = model_name.first();
    let card = |name| {
        json!({
            "id": name, "object": "model", "created": 0, "owned_by": "vllm", "root": root, "parent": null,
            "max_model_len": max_model_len, "permission": [],
        })
    };
    let adapter = |name| {
        json!({
            "id": name, "object": "model", "created": 0, "owned_by": "vllm", "root": format!("/loras/{name}"),
            "parent": root, "max_model_len": null, "permission": [],
        })
    };
    let data: Vec<_> = model_name.iter().map(card).chain(lora_name.iter().map(adapter)).collect();
    answer::json(200, &json!({"object": "list", "data": data}))
}

fn openapi(engine: &Engine) -> Response<Body> {
    let paths: serde_json::Map<_, _> = routes(engine)
        .filter(|(.., listed)| *listed)
        .map(|(path, methods, _)| {
            let methods = methods.iter().map(|method| (method.as_str().to_ascii_lowercase(), json!({})));
            ((*path).to_owned(), methods.collect::<serde_json::Map<_, _>>().into())
        })
        .collect();
    answer::json(200, &json!({"openapi": "3.1.0", "info": {"title": "FastAPI", "version": "0.1.0"}, "paths": paths}))
}
