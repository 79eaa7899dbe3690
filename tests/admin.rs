//! The admin listener: what is there, what is no longer at the clients' address, and how both end.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::chat::chat;
use support::couplet::Couplet;
use support::http::{self, Events};
use support::sim::Engine;
use support::{pool, tiny};

const ADMIN: [&str; 2] = ["--admin", "127.0.0.1:0"];

async fn status(url: &str, path: &str) -> u16 {
    http::get(&format!("{url}{path}")).await.status
}

#[tokio::test]
async fn what_is_for_those_who_run_it_moves_to_their_address() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::with_flags(&[&engine.url], &ADMIN);
    let admin = couplet.admin.clone().unwrap();
    assert_ne!(admin, couplet.url);
    for path in ["/health", "/ready"] {
        assert_eq!([status(&couplet.url, path).await, status(&admin, path).await], [200, 200], "{path}");
    }
    for path in ["/metrics", "/debug/engines"] {
        assert_eq!([status(&couplet.url, path).await, status(&admin, path).await], [404, 200], "{path}");
    }
    for path in ["/v1/models", "/version", "/load", "/v1/chat/completions"] {
        assert_eq!(status(&admin, path).await, 404, "{path} is for clients");
    }
    let metrics = http::get(&format!("{admin}/metrics")).await;
    assert!(metrics.text.contains("couplet_requests_total{code=\"404\",route=\"other\"} 6"), "{}", metrics.text);
    let engines = http::get(&format!("{admin}/debug/engines")).await.json();
    assert_eq!(engines["models"][0]["engines"][0]["engine"], engine.url);
    assert_eq!(engines["models"][0]["engines"][0]["requests"], 0);
}

#[tokio::test]
async fn it_asks_for_no_key_and_the_clients_address_tells_no_more_with_one() {
    let couplet = Couplet::with_flags(&["http://127.0.0.1:1"], &[&ADMIN[..], &["--api-key", "the-key"]].concat());
    let admin = couplet.admin.clone().unwrap();
    assert_eq!(status(&admin, "/debug/engines").await, 200);
    let url = format!("{}/debug/engines", couplet.url);
    assert_eq!(http::get(&url).await.status, 401);
    assert_eq!(http::send("GET", &url, &[("authorization", "Bearer the-key")], None).await.status, 404);
    assert_eq!(http::send("POST", &format!("{admin}/metrics"), &[], Some(b"{}".to_vec())).await.status, 405);
}

#[tokio::test]
async fn it_answers_until_the_last_stream_has_ended() {
    let engine = pool::slow_engine(1, 50).await;
    let mut couplet = Couplet::with_flags(&[&engine.url], &ADMIN);
    let admin = couplet.admin.clone().unwrap();
    let body = chat("</think>\n\nOne, two, three, four, five, six, seven.", json!({"stream": true}));
    let mut events = Events::open(&format!("{}/v1/chat/completions", couplet.url), &body).await;
    events.next().await.unwrap();
    assert_eq!(status(&admin, "/ready").await, 200);
    let engines = http::get(&format!("{admin}/debug/engines")).await.json();
    assert_eq!(engines["models"][0]["engines"][0]["requests"], 1);
    couplet.signal("INT");
    let told = loop {
        let answer = http::get(&format!("{admin}/ready")).await;
        if answer.status == 503 {
            break answer.json();
        }
    };
    assert_eq!(told["reason"], "couplet is stopping");
    assert_eq!(status(&admin, "/metrics").await, 200, "a last scrape");
    let mut last = String::new();
    while let Some(event) = events.next().await.unwrap() {
        last = event;
    }
    assert_eq!(last, "[DONE]");
    assert_eq!(couplet.ended(Duration::from_secs(5)).await, Some(0));
    assert!(tokio::net::TcpStream::connect(admin.trim_start_matches("http://")).await.is_err());
}

#[test]
fn an_address_has_a_port_and_is_free() {
    let refused = |address: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_couplet"));
        let output = command.args(["serve", tiny::DIR, "--port", "0", "--admin", address]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for address in ["9100", "localhost", ":9100", "127.0.0.1:99999"] {
        assert!(refused(address).contains("admin: "), "{address}: {}", refused(address));
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(refused(&taken.local_addr().unwrap().to_string()).contains("--admin"));
}

#[tokio::test]
async fn without_it_nothing_moves() {
    let couplet = Couplet::with_flags(&["http://127.0.0.1:1"], &[]);
    assert_eq!(couplet.admin, None);
    assert_eq!([status(&couplet.url, "/metrics").await, status(&couplet.url, "/debug/engines").await], [200, 404]);
    let told: Value = http::get(&format!("{}/health", couplet.url)).await.text.into();
    assert_eq!(told, "");
}
