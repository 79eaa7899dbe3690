//! A small HTTP client: whole answers, and streams of events as they arrive.

use std::sync::OnceLock;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, Response};
use serde_json::Value;

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {:?}", self.text))
    }

    /// The data of its events.
    pub fn events(&self) -> Vec<String> {
        assert!(self.text.ends_with("\n\n"), "the last event is cut: {:?}", self.text);
        self.text.split_terminator("\n\n").map(data).collect()
    }
}

/// Sends a request; `body` goes as JSON unless `headers` say something else.
pub async fn send(method: &str, url: &str, headers: &[(&str, &str)], body: Option<Vec<u8>>) -> Answer {
    let response = request(method, url, headers, body).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Answer { status, headers, text: response.text().await.unwrap() }
}

/// GET.
pub async fn get(url: &str) -> Answer {
    send("GET", url, &[], None).await
}

/// POST with a JSON body.
pub async fn post(url: &str, body: &Value) -> Answer {
    send("POST", url, &[], Some(body.to_string().into_bytes())).await
}

/// A request that is not sent yet.
pub fn request(method: &str, url: &str, headers: &[(&str, &str)], body: Option<Vec<u8>>) -> reqwest::RequestBuilder {
    let mut request = client().request(Method::from_bytes(method.as_bytes()).unwrap(), url);
    let typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if body.is_some() && !typed {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    match body {
        Some(body) => request.body(body),
        None => request,
    }
}

/// One for all tests, as making one is slow; it keeps no connection, as a connection belongs to one test's runtime.
fn client() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        // A client needs a provider of TLS even for plain HTTP; an error only says that there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap()
    })
}

/// Events as they arrive. Dropping it closes the connection, as a client does that goes away.
pub struct Events {
    response: Response,
    buffer: Vec<u8>,
}

impl Events {
    /// POSTs `body` and expects a stream.
    pub async fn open(url: &str, body: &Value) -> Self {
        let response = request("POST", url, &[], Some(body.to_string().into_bytes())).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/event-stream"));
        Self { response, buffer: Vec::new() }
    }

    /// The data of the next event; `None` at a proper end, an error where the connection broke.
    pub async fn next(&mut self) -> Result<Option<String>, reqwest::Error> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return Ok(Some(data(std::str::from_utf8(&event[..at]).unwrap())));
            }
            match self.response.chunk().await? {
                Some(bytes) => self.buffer.extend_from_slice(&bytes),
                None => {
                    assert!(self.buffer.is_empty(), "the last event is cut");
                    return Ok(None);
                }
            }
        }
    }
}

fn data(event: &str) -> String {
    event.strip_prefix("data: ").unwrap_or_else(|| panic!("not a data line: {event:?}")).to_owned()
}
