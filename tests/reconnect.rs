//! An engine that closes idle connections just when a request is sent: the request is sent again, and nobody notices.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use couplet::sim::Faults;
use serde_json::{Value, json};
use support::chat::{chat, collect};
use support::couplet::Couplet;
use support::pool::{TEXT, engine, metric, raw_engine, serve};
use support::sim::Engine;
use support::{http, tiny};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// How long a connection may be idle at [`Closing`].
const IDLE: Duration = Duration::from_millis(50);

/// A front of an engine that closes idle connections at the worst time: when a request has just come.
struct Closing {
    url: String,
    /// Requests to generate that were read and not answered.
    unanswered: Arc<AtomicUsize>,
}

/// What else is wrong with [`Closing`].
#[derive(Clone, Copy, Default)]
struct Flaw {
    /// It answers no request to generate, on whichever connection.
    broken: bool,
    /// So busy that it closes a connection so long after a request came on it.
    busy: Duration,
}

impl Closing {
    async fn before(engine: &Engine, flaw: Flaw) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let unanswered = Arc::<AtomicUsize>::default();
        let (behind, count) = (engine.url.trim_start_matches("http://").to_owned(), Arc::clone(&unanswered));
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(serve_connection(client, behind.clone(), Arc::clone(&count), flaw));
            }
        });
        Self { url, unanswered }
    }

    fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }
}

async fn serve_connection(client: TcpStream, behind: String, unanswered: Arc<AtomicUsize>, flaw: Flaw) {
    let (mut from_engine, mut to_engine) = TcpStream::connect(behind).await.unwrap().into_split();
    let (from_client, mut to_client) = client.into_split();
    let mut from_client = BufReader::new(from_client);
    let answered = Arc::<Mutex<Option<Instant>>>::default();
    let note = Arc::clone(&answered);
    let answers = tokio::spawn(async move {
        let mut bytes = vec![0; 65536];
        while let Ok(count @ 1..) = from_engine.read(&mut bytes).await {
            *note.lock().unwrap() = Some(Instant::now());
            let _ = to_client.write_all(&bytes[..count]).await; // the client may go away at any time
        }
    });
    while let Some(request) = read(&mut from_client).await {
        let generates = request.starts_with(b"POST /inference/v1/generate") && !is_probe(&request);
        let idle = answered.lock().unwrap().is_some_and(|at| at.elapsed() > IDLE);
        if idle || (flaw.broken && generates) {
            tokio::time::sleep(flaw.busy).await;
            unanswered.fetch_add(usize::from(generates), Ordering::Relaxed);
            break;
        }
        to_engine.write_all(&request).await.unwrap();
    }
    answers.abort();
}

/// The question for the size of the vocabulary.
fn is_probe(request: &[u8]) -> bool {
    String::from_utf8_lossy(request).contains("couplet-vocabulary")
}

/// The next request; `None` where the client closed the connection.
async fn read(from: &mut BufReader<tokio::net::tcp::OwnedReadHalf>) -> Option<Vec<u8>> {
    let (mut request, mut length) = (Vec::new(), 0);
    loop {
        let start = request.len();
        if from.read_until(b'\n', &mut request).await.ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&request[start..]).to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).await.ok()?;
    request.extend(body);
    Some(request)
}

/// A chat: free, or bound to a schema that it breaks, so that the engine is asked several times.
fn request(bound: bool, stream: bool) -> Value {
    if !bound {
        return chat(TEXT, json!({"stream": stream}));
    }
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    chat("</think>[{\"n\": 7}", json!({"stream": stream, "response_format": format, "max_tokens": 200}))
}

fn content(answer: &http::Answer, stream: bool) -> String {
    if stream {
        return collect(&answer.events()).content;
    }
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

/// couplet, and an idle connection of its own behind it.
async fn serve_idle(closing: &Closing) -> Couplet {
    let couplet = serve(&[&closing.url], &["health_interval: 60"]);
    tokio::time::sleep(10 * IDLE).await;
    couplet
}

#[tokio::test]
async fn a_request_on_a_connection_that_was_closed_is_sent_again() {
    let engine = Engine::start(tiny::engine_options()).await;
    let closing = Closing::before(&engine, Flaw::default()).await;
    let couplet = serve_idle(&closing).await;
    let url = format!("{}/v1/chat/completions", couplet.url);
    for (bound, stream) in [(false, false), (false, true), (true, false), (true, true)] {
        let before = closing.unanswered();
        // One that is sent again leaves no idle connection to the next.
        for _ in 0..2 {
            let answer = http::post(&url, &request(bound, stream)).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            let content = content(&answer, stream);
            if bound {
                let value: Value = serde_json::from_str(&content).unwrap_or_default();
                assert!(value["n"].is_number(), "{content:?}");
            } else {
                assert_eq!(content, TEXT.trim_start_matches("</think>"));
            }
            tokio::time::sleep(2 * IDLE).await;
        }
        assert!(closing.unanswered() > before, "bound {bound}, stream {stream}: no connection was closed");
    }
    assert!(metric(&couplet, "couplet_engine_reconnects_total").await >= closing.unanswered() as f64);
    assert_eq!(metric(&couplet, "couplet_engine_failures_total").await, 0.0);
    assert_eq!(metric(&couplet, "couplet_engine_resumes_total").await, 0.0);
    assert_eq!(metric(&couplet, "couplet_pool_retries_total").await, 0.0);
}

#[tokio::test]
async fn it_is_sent_again_also_where_the_engine_was_busy_before_it_closed_the_connection() {
    let engine = Engine::start(tiny::engine_options()).await;
    let closing = Closing::before(&engine, Flaw { busy: Duration::from_millis(2500), ..Flaw::default() }).await;
    let couplet = serve_idle(&closing).await;
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &request(false, true)).await;
    assert_eq!(content(&answer, true), TEXT.trim_start_matches("</think>"));
    assert_eq!(closing.unanswered(), 1);
    assert_eq!(metric(&couplet, "couplet_engine_failures_total").await, 0.0);
}

#[tokio::test]
async fn it_is_sent_twice_at_most() {
    let engine = Engine::start(tiny::engine_options()).await;
    let closing = Closing::before(&engine, Flaw { broken: true, ..Flaw::default() }).await;
    let couplet = serve_idle(&closing).await;
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &request(false, false)).await;
    assert_eq!(answer.status, 502, "{}", answer.text);
    assert_eq!(closing.unanswered(), 2);
    assert_eq!(metric(&couplet, "couplet_engine_failures_total").await, 1.0);
}

#[tokio::test]
async fn an_engine_that_closes_every_connection_fails() {
    let closing = raw_engine(String::new(), true).await;
    let couplet = serve(&[&closing], &["health_interval: 60"]);
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &chat(TEXT, json!({}))).await;
    assert_eq!(answer.status, 502, "{}", answer.text);
    assert_eq!(metric(&couplet, "couplet_engine_failures_total").await, 1.0);
}

#[tokio::test]
async fn an_answer_that_has_begun_is_not_asked_for_again() {
    let faulty = engine(Faults { die_after_tokens: Some(0), ..Faults::default() }).await;
    let couplet = serve(&[&faulty.url], &["health_interval: 60"]);
    let answer =
        http::post(&format!("{}/v1/chat/completions", couplet.url), &chat(TEXT, json!({"stream": true}))).await;
    assert!(answer.text.contains("broke off"), "{}", answer.text);
    assert_eq!(metric(&couplet, "couplet_engine_reconnects_total").await, 0.0);
}
