//! Spans, as a collector gets them: their names, their places in the trace, and what engines learn of them.

#![cfg(feature = "otlp")]
#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use support::chat::chat;
use support::couplet::Couplet;
use support::http;
use support::sim::Engine;
use support::tiny;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TEXT: &str = "</think>\n\nOne, two, three, four, five.";
const CHAT: &str = "/v1/chat/completions";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A span, with the fields of OTLP's `Span` that are looked at.
#[derive(Debug, Clone, Default)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    attributes: BTreeMap<String, Value>,
    failed: bool,
}

/// The wire format of protobuf, as far as OTLP uses it.
mod protobuf {
    pub(super) enum Field<'a> {
        Number(u64),
        Real(f64),
        Bytes(&'a [u8]),
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
        }
        unreachable!()
    }

    fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(count);
        *bytes = rest;
        taken
    }

    /// The fields of a message, by their numbers.
    pub(super) fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Real(f64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Field::Bytes(take(&mut bytes, length))
                }
                5 => Field::Number(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap()).into()),
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        fields
    }

    /// The messages, or texts, of one field.
    pub(super) fn all(bytes: &[u8], number: u64) -> Vec<&[u8]> {
        let is_meant = |(at, field)| match field {
            Field::Bytes(bytes) if at == number => Some(bytes),
            _ => None,
        };
        fields(bytes).into_iter().filter_map(is_meant).collect()
    }
}

use protobuf::{Field, all, fields};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An `AnyValue`.
fn any(bytes: &[u8]) -> Value {
    match fields(bytes).into_iter().next() {
        Some((1, Field::Bytes(bytes))) => text(bytes).into(),
        Some((3, Field::Number(number))) => (number as i64).into(),
        Some((4, Field::Real(number))) => number.into(),
        Some((5, Field::Bytes(list))) => all(list, 1).into_iter().map(any).collect(),
        _ => Value::Null,
    }
}

/// `KeyValue`s.
fn attributes(message: &[u8], number: u64) -> BTreeMap<String, Value> {
    all(message, number).into_iter().map(|pair| (text(all(pair, 1)[0]), any(all(pair, 2)[0]))).collect()
}

fn span(bytes: &[u8]) -> Span {
    let of = |number| all(bytes, number).first().copied().unwrap_or_default();
    let number = |wanted| {
        let is_meant = |(at, field)| match field {
            Field::Number(number) if at == wanted => Some(number),
            _ => None,
        };
        fields(bytes).into_iter().find_map(is_meant).unwrap_or(0)
    };
    let status = fields(of(15));
    Span {
        trace: hex(of(1)),
        id: hex(of(2)),
        parent: hex(of(4)),
        name: text(of(5)),
        kind: number(6),
        attributes: attributes(bytes, 9),
        failed: status.iter().any(|field| matches!(field, (3, Field::Number(2)))),
    }
}

/// What a collector got: the bodies of the requests.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Vec<u8>>>>);

impl Collector {
    async fn start() -> (String, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let got = Self::default();
        let kept = got.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(collect(socket, got.clone()));
            }
        });
        (url, kept)
    }

    fn spans(&self) -> Vec<Span> {
        let bodies = self.0.lock().unwrap();
        let resources = bodies.iter().flat_map(|body| all(body, 1));
        let scopes = resources.flat_map(|resource| all(resource, 2));
        scopes.flat_map(|scope| all(scope, 2)).map(span).collect()
    }

    fn resource(&self) -> BTreeMap<String, Value> {
        attributes(all(all(&self.0.lock().unwrap()[0], 1)[0], 1)[0], 1)
    }

    fn bytes(&self) -> String {
        self.0.lock().unwrap().iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect()
    }
}

/// Reads requests with a `Content-Length`, and takes them.
async fn collect(mut socket: TcpStream, got: Collector) {
    let mut read = Vec::new();
    loop {
        let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            if socket.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        assert!(head.starts_with("post /v1/traces ") && head.contains("application/x-protobuf"), "{head}");
        let length: usize = head.split_once("content-length: ").unwrap().1.lines().next().unwrap().parse().unwrap();
        while read.len() < end + 4 + length {
            assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0);
        }
        got.0.lock().unwrap().push(read[end + 4..end + 4 + length].to_vec());
        read.drain(..end + 4 + length);
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    }
}

/// In front of an engine, and remembers what it is sent.
async fn eavesdrop(engine: &str) -> (String, Arc<Mutex<String>>) {
    let (listener, heard) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::<Mutex<String>>::default());
    let (url, tell) = (format!("http://{}", listener.local_addr().unwrap()), Arc::clone(&heard));
    let engine = engine.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, tell) = (TcpStream::connect(&engine).await.unwrap(), Arc::clone(&tell));
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            tokio::spawn(async move {
                let mut piece = vec![0; 65536];
                while let Ok(length @ 1..) = from_client.read(&mut piece).await {
                    tell.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..length]));
                    to_server.write_all(&piece[..length]).await.unwrap();
                }
            });
        }
    });
    (url, heard)
}

fn traced(engines: &[&str], collector: &str) -> Couplet {
    // So late that what comes came because couplet stopped.
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector), ("OTEL_BSP_SCHEDULE_DELAY", "600000")];
    Couplet::with_env(engines, &["--reasoning-parser", "qwen3"], &variables)
}

async fn stopped(couplet: &mut Couplet) {
    couplet.signal("INT");
    assert_eq!(couplet.ended(Duration::from_secs(10)).await, Some(0));
}

#[tokio::test]
async fn a_request_is_a_span_and_so_is_each_ask_of_an_engine() {
    let engine = Engine::start(tiny::engine_options()).await;
    let (url, heard) = eavesdrop(&engine.url).await;
    let (collector, got) = Collector::start().await;
    let mut couplet = traced(&[&url], &collector);
    let more = json!({
        "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 50, "temperature": 0.5, "top_p": 0.9,
    });
    let ask = async |id: &str, parent: &str| {
        let headers = [("x-request-id", id), ("traceparent", parent), ("tracestate", "a=1")];
        let body = chat(TEXT, more.clone()).to_string();
        let answer = http::send("POST", &format!("{}{CHAT}", couplet.url), &headers, Some(body.into_bytes())).await;
        couplet.line_of(id).await;
        answer
    };
    let answer = ask("sampled", &format!("00-{TRACE}-{PARENT}-01")).await;
    let unsampled = TRACE.replace('0', "1");
    ask("unsampled", &format!("00-{unsampled}-{PARENT}-00")).await;
    stopped(&mut couplet).await;

    let usage: Value = serde_json::from_str(&answer.events()[answer.events().len() - 2]).unwrap();
    let spans = got.spans();
    let [request] = &spans.iter().filter(|span| span.kind == 2).collect::<Vec<_>>()[..] else { panic!("{spans:#?}") };
    assert_eq!((request.name.as_str(), &*request.trace, &*request.parent), ("chat tiny", TRACE, PARENT));
    let wanted = json!({
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "tiny",
        "gen_ai.response.model": "tiny",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.usage.input_tokens": usage["usage"]["prompt_tokens"],
        "gen_ai.usage.output_tokens": usage["usage"]["completion_tokens"],
        "gen_ai.response.finish_reasons": ["stop"],
        "http.request.method": "POST",
        "http.route": CHAT,
        "http.response.status_code": 200,
    });
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(request.attributes.get(name), Some(value), "{name} of {request:#?}");
    }
    assert!(request.attributes["gen_ai.response.time_to_first_chunk"].as_f64().unwrap() > 0.0);
    assert!(!request.failed && !request.attributes.contains_key("error.type"));

    let child = |kind| spans.iter().find(|span| span.kind == kind && span.parent == request.id).unwrap();
    assert_eq!((child(1).name.as_str(), child(1).trace.as_str()), ("render", TRACE));
    let call = child(3);
    assert_eq!((call.name.as_str(), call.trace.as_str()), ("POST /inference/v1/generate", TRACE));
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(
        (&call.attributes["server.address"], &call.attributes["server.port"]),
        (&json!("127.0.0.1"), &json!(port))
    );

    let heard = heard.lock().unwrap().to_lowercase();
    let parent = format!("traceparent: 00-{TRACE}-{}-01\r\n", call.id);
    assert!(heard.contains(&parent) && heard.contains("tracestate: a=1\r\n"), "no {parent} in {heard}");
    assert!(heard.contains(&format!("traceparent: 00-{unsampled}-")), "it is passed on: {heard}");
    assert!(spans.iter().all(|span| span.trace == TRACE), "but makes no spans: {spans:#?}");
    assert_eq!((spans.len(), &got.resource()["service.name"]), (3, &json!("couplet")));
    assert!(!got.bytes().contains("weather in Paris") && !got.bytes().contains("three, four"));
}

#[tokio::test]
async fn what_goes_wrong_is_told_by_its_kind() {
    let (collector, got) = Collector::start().await;
    let mut couplet = traced(&["http://127.0.0.1:1"], &collector);
    let body = chat(TEXT, json!({"request_id": "lost"}));
    let answer = http::post(&format!("{}{CHAT}", couplet.url), &body).await;
    couplet.line_of("lost").await;
    http::post(&format!("{}{CHAT}", couplet.url), &json!({"model": "tiny", "request_id": "wrong"})).await;
    stopped(&mut couplet).await;
    let spans = got.spans();
    let request = spans.iter().find(|span| span.name == "chat tiny").unwrap();
    assert!(request.failed && answer.status >= 500, "{request:#?}");
    assert_eq!(request.attributes["error.type"], answer.status.to_string());
    assert_eq!(request.parent, "", "nobody said where it stands");
    let call = spans.iter().find(|span| span.kind == 3).unwrap();
    assert!(call.failed && call.trace == request.trace);
    assert_eq!(call.attributes["error.type"], "connect");
    let wrong = spans.iter().find(|span| span.name == format!("POST {CHAT}")).unwrap();
    assert!(!wrong.failed, "the client's fault");
    assert_eq!(wrong.attributes["http.response.status_code"], 400);
}

#[tokio::test]
async fn a_collector_that_is_away_is_told_and_waited_for_by_nobody() {
    let engine = Engine::start(tiny::engine_options()).await;
    let mut couplet = traced(&[&engine.url], "http://127.0.0.1:1");
    let answer = http::post(&format!("{}{CHAT}", couplet.url), &chat(TEXT, json!({"request_id": "fine"}))).await;
    assert_eq!(answer.status, 200);
    couplet.line_of("fine").await;
    stopped(&mut couplet).await;
    let start = std::time::Instant::now();
    while !couplet.log().contains("BatchSpanProcessor.ExportError") {
        assert!(start.elapsed() < Duration::from_secs(5), "{}", couplet.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
