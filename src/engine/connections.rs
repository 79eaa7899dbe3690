//! Connections to engines: kept for the next request, and made anew where a kept one proves to be closed.
//!
//! A server closes a connection that nobody uses for a while. Where a request is sent in just that moment, the server never
//! sees it, and the connection breaks without an answer. That is nobody's failure: the request is sent again, once, on a new
//! connection. An engine that is gone refuses that one at once, so that nothing is lost by asking.

use std::error::Error;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use http::Method;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response};

use crate::metrics::EngineMetrics;

/// uvicorn, which vLLM runs in, closes connections that are idle for 5 s: those are not used any more by then, also where
/// the engine is so busy that it reads a request seconds after it came.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// A busy engine gets to closing a connection, and not to the request that has come on it, seconds later. One that breaks
/// after more than this broke at work, and the engine with it.
const SOON: Duration = Duration::from_secs(10);

/// A client for anybody else who is asked now and then: no proxies from the environment, no overall timeout.
pub fn http_client(connect_timeout: Duration) -> Result<Client, reqwest::Error> {
    builder(connect_timeout).build()
}

fn builder(connect_timeout: Duration) -> ClientBuilder {
    // Fails where a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().connect_timeout(connect_timeout).tcp_nodelay(true).no_proxy()
}

/// A client for engines: no proxies from the environment, no overall timeout (streams are long).
#[derive(Debug, Clone)]
pub struct Connections {
    kept: Client,
    /// Keeps no connection, so it makes one for each request.
    fresh: Client,
}

impl Connections {
    /// For engines that take no longer than this to accept a connection.
    pub fn new(connect_timeout: Duration) -> Result<Self, reqwest::Error> {
        let kept = builder(connect_timeout).pool_idle_timeout(IDLE_TIMEOUT);
        Ok(Self { kept: kept.build()?, fresh: builder(connect_timeout).pool_max_idle_per_host(0).build()? })
    }

    /// A request that is not sent yet.
    pub(super) fn request(&self, method: Method, url: String) -> RequestBuilder {
        self.kept.request(method, url)
    }

    /// Sends a request that may be sent twice; the metrics count those that are.
    pub(super) async fn send(
        &self,
        request: RequestBuilder,
        metrics: &EngineMetrics,
    ) -> Result<Response, reqwest::Error> {
        let request = request.build()?;
        let (again, began) = (request.try_clone(), Instant::now());
        match (self.kept.execute(request).await, again) {
            (Err(error), Some(again)) if began.elapsed() < SOON && is_closed(&error) => {
                tracing::debug!(url = %again.url(), %error, "a connection was closed; the request is sent again");
                metrics.reconnects.inc();
                self.fresh.execute(again).await
            }
            (sent, _) => sent,
        }
    }
}

/// Whether the connection broke before an answer came.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<hyper::Error>()
        && (error.is_incomplete_message() || error.is_canceled() || error.is_closed())
    {
        return true;
    }
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe))
        || error.source().is_some_and(is_closed)
}
