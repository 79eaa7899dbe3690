//! Asks couplet for its metrics, and for what it knows of its engines where it tells that.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::header::AUTHORIZATION;

use super::exposition::Scrape;
use super::told::Told;
use crate::engine::client::root_cause;
use crate::engine::connections::http_client;

/// couplet answers at once, or it is away.
const PATIENCE: Duration = Duration::from_secs(5);
/// A scrape of hundreds of engines is less.
const LONGEST: usize = 16 << 20;

/// Where couplet is.
pub(super) struct Source {
    http: reqwest::Client,
    url: String,
    key: Option<String>,
}

/// What it said.
pub(super) struct Look {
    /// When.
    pub(super) at: Instant,
    /// The same, in seconds since 1970.
    pub(super) time: f64,
    /// Its metrics.
    pub(super) scrape: Scrape,
    /// Its engines.
    pub(super) told: Option<Told>,
}

impl Source {
    pub(super) fn new(url: &str, key: Option<String>) -> Result<Self, reqwest::Error> {
        let (http, url) = (http_client(PATIENCE)?, url.trim_end_matches('/').to_owned());
        // The variable may hold several, as it does for couplet itself.
        let key = key.and_then(|keys| keys.split(',').next().map(str::to_owned));
        Ok(Self { http, url, key })
    }

    /// Asks once. The error says what is wrong.
    pub(super) async fn look(&self) -> Result<Look, String> {
        let (metrics, engines) = tokio::join!(self.get("/metrics"), self.get("/debug/engines"));
        let scrape = match metrics? {
            (200, text) => Scrape::parse(&text).map_err(|error| error.to_string())?,
            (404, _) => return Err("it has no /metrics here; with --admin it has them there".to_owned()),
            (status, _) => return Err(format!("it answers {status} to /metrics")),
        };
        let told = engines.ok().filter(|(status, _)| *status == 200);
        let told = told.and_then(|(_, text)| serde_json::from_str(&text).ok());
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        Ok(Look { at: Instant::now(), time, scrape, told })
    }

    async fn get(&self, path: &str) -> Result<(u16, String), String> {
        let request = self.http.get(format!("{}{path}", self.url)).timeout(PATIENCE);
        let request = match &self.key {
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        };
        let mut response = request.send().await.map_err(|error| root_cause(&error))?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| root_cause(&error))? {
            if body.len() + piece.len() > LONGEST {
                return Err(format!("it answers with more than {LONGEST} bytes"));
            }
            body.extend_from_slice(&piece);
        }
        let text = String::from_utf8(body).map_err(|_| "it answers with what is no text".to_owned())?;
        Ok((response.status().as_u16(), text))
    }
}
