//! Spans by OpenTelemetry's SDK, exported in batches over HTTP.
//!
//! The SDK's own thread gathers them, and logs what it cannot send; what is sent goes through the runtime and the HTTP client that couplet has anyway.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider as _};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::EnvResourceDetector;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

/// Longest wait for the collector, as OpenTelemetry's exporters wait by default.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for the last batch when couplet stops.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// Makes spans and hands them to the exporter.
#[derive(Debug, Clone)]
pub(super) struct Tracer {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Tracer {
    /// `None` where no endpoint is set.
    pub(super) fn from_environment(runtime: &Handle, http: reqwest::Client) -> Result<Option<Self>, String> {
        if !super::is_wanted() {
            return Ok(None);
        }
        let client = Client { http, runtime: runtime.clone() };
        let exporter = SpanExporter::builder().with_http().with_http_client(client).build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter.map_err(|error| error.to_string())?)
            .with_resource(resource())
            .build();
        tracing::info!("spans are exported over OTLP");
        Ok(Some(Self { tracer: provider.tracer("couplet"), provider }))
    }

    /// A span for a request on a route, that came with these headers.
    pub(super) fn request(&self, route: &'static str, headers: &HeaderMap) -> Span {
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Incoming(headers));
        let span = Span::begin(&self.tracer, format!("POST {route}"), SpanKind::Server, &parent);
        span.set("http.request.method", "POST");
        span.set("http.route", route);
        span
    }

    pub(super) fn flush(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_PATIENCE) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

/// Who couplet is: what the environment says, over its own name.
fn resource() -> Resource {
    let named = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder_empty().with_service_name("couplet").with_attribute(version);
    let builder = builder.with_detector(Box::new(EnvResourceDetector::new()));
    named.into_iter().fold(builder, opentelemetry_sdk::resource::ResourceBuilder::with_service_name).build()
}

/// A span that goes on until its end is told, or nobody has it any more.
pub(super) struct Span {
    tracer: SdkTracer,
    context: Context,
}

impl Span {
    fn begin(
        tracer: &SdkTracer,
        name: impl Into<std::borrow::Cow<'static, str>>,
        kind: SpanKind,
        parent: &Context,
    ) -> Self {
        let span = tracer.build_with_context(SpanBuilder::from_name(name).with_kind(kind), parent);
        Self { tracer: tracer.clone(), context: parent.with_span(span) }
    }

    /// A part of it within couplet.
    pub(super) fn stage(&self, name: &'static str) -> Self {
        Self::begin(&self.tracer, name, SpanKind::Internal, &self.context)
    }

    /// A part of it that somebody else is asked for.
    pub(super) fn call(&self, name: &'static str) -> Self {
        Self::begin(&self.tracer, name, SpanKind::Client, &self.context)
    }

    pub(super) fn rename(&self, name: String) {
        self.context.span().update_name(name);
    }

    pub(super) fn set(&self, key: &'static str, value: impl Attribute) {
        self.context.span().set_attribute(KeyValue::new(key, value.value()));
    }

    /// It went wrong, in a way that has a short name.
    pub(super) fn failed(&self, kind: &str) {
        self.set("error.type", kind);
        self.context.span().set_status(Status::error(String::new()));
    }

    /// The headers that make what somebody else does a part of it.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = Outgoing(HeaderMap::new());
        TraceContextPropagator::new().inject_context(&self.context, &mut headers);
        headers.0
    }

    pub(super) fn end(&self) {
        self.context.span().end();
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.span().span_context().fmt(f)
    }
}

/// What an attribute may be.
pub(super) trait Attribute {
    fn value(self) -> Value;
}

impl Attribute for &str {
    fn value(self) -> Value {
        self.to_owned().into()
    }
}

impl Attribute for i64 {
    fn value(self) -> Value {
        self.into()
    }
}

impl Attribute for f64 {
    fn value(self) -> Value {
        self.into()
    }
}

impl Attribute for Vec<String> {
    fn value(self) -> Value {
        Value::Array(Array::String(self.into_iter().map(StringValue::from).collect()))
    }
}

/// Headers that came.
struct Incoming<'a>(&'a HeaderMap);

impl Extractor for Incoming<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// Headers that go.
struct Outgoing(HeaderMap);

impl Injector for Outgoing {
    fn set(&mut self, key: &str, value: String) {
        // An empty tracestate says nothing.
        if let (false, Ok(name), Ok(value)) =
            (value.is_empty(), key.parse::<HeaderName>(), value.parse::<HeaderValue>())
        {
            self.0.insert(name, value);
        }
    }
}

/// Sends batches: the SDK's thread waits, the runtime works.
#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut request = reqwest::Request::try_from(request)?;
        *request.timeout_mut() = Some(PATIENCE);
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move {
            let answer = http.execute(request).await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, answer.bytes().await?))
        });
        let (status, headers, body) = sent.await??;
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}
