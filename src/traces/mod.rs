//! Where a request stands in a trace: W3C's trace context in and out, and spans of couplet's own between them.
//!
//! In: the headers of a request. Out: the headers for engines; and, in a couplet that is built with the feature `otlp` and
//! told where to, a span for each request and one for each time an engine is asked, by the names of OpenTelemetry's GenAI
//! conventions. Without spans what came in is passed on as it is. Never what was asked or answered.

#[cfg(not(feature = "otlp"))]
mod none;
#[cfg(feature = "otlp")]
mod otlp;

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};

use crate::metrics::Outcome;
#[cfg(not(feature = "otlp"))]
use none as exporter;
#[cfg(feature = "otlp")]
use otlp as exporter;

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be exported: {0}")]
pub struct TraceError(String);

/// Makes spans, where they go anywhere.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<exporter::Tracer>);

impl Tracer {
    /// Exports to where OpenTelemetry's environment variables say (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like); nowhere
    /// where they say nothing.
    pub fn from_environment(runtime: &tokio::runtime::Handle, http: reqwest::Client) -> Result<Self, TraceError> {
        exporter::Tracer::from_environment(runtime, http).map(Self).map_err(TraceError)
    }

    /// A request comes in that engines are going to be asked for.
    pub fn begin(&self, route: &'static str, headers: &HeaderMap) -> Trace {
        let names = ["traceparent", "tracestate"].map(HeaderName::from_static);
        let came_with: HeaderMap =
            names.into_iter().filter_map(|name| headers.get(&name).cloned().map(|value| (name, value))).collect();
        let span = self.0.as_ref().map(|tracer| tracer.request(route, &came_with));
        Trace(Arc::new(Place { came_with, span }))
    }

    /// Sends what has not been sent. Blocks for a while.
    pub fn flush(&self) {
        if let Some(tracer) = &self.0 {
            tracer.flush();
        }
    }
}

/// A request's place in a trace.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Place>);

#[derive(Debug, Default)]
struct Place {
    came_with: HeaderMap,
    span: Option<exporter::Span>,
}

/// Longest name of a model that is taken over: clients choose it.
const LONGEST_NAME: usize = 256;
/// The parameters of a request that have a name in the conventions, and that name.
const PARAMETERS: [(&str, &str); 7] = [
    ("max_tokens", "gen_ai.request.max_tokens"),
    ("temperature", "gen_ai.request.temperature"),
    ("top_p", "gen_ai.request.top_p"),
    ("frequency_penalty", "gen_ai.request.frequency_penalty"),
    ("presence_penalty", "gen_ai.request.presence_penalty"),
    ("seed", "gen_ai.request.seed"),
    ("n", "gen_ai.request.choice.count"),
];
/// Parameters that are whole numbers in the conventions; others are not, also where a whole number is written.
const WHOLE: [&str; 3] = ["max_tokens", "seed", "n"];

impl Trace {
    /// It asks for this operation (`chat`, `text_completion`) of a model, with these parameters.
    pub fn asks(&self, operation: &'static str, model: &str, parameters: &Map<String, Value>) {
        let Some(span) = &self.0.span else { return };
        let model = model.get(..model.floor_char_boundary(LONGEST_NAME)).unwrap_or_default();
        span.rename(format!("{operation} {model}"));
        span.set("gen_ai.operation.name", operation);
        span.set("gen_ai.provider.name", "vllm");
        span.set("gen_ai.request.model", model);
        for (parameter, name) in PARAMETERS {
            match parameters.get(parameter) {
                Some(Value::Number(number)) if WHOLE.contains(&parameter) => {
                    number.as_i64().into_iter().for_each(|number| span.set(name, number));
                }
                Some(Value::Number(number)) => number.as_f64().into_iter().for_each(|number| span.set(name, number)),
                _ => {}
            }
        }
    }

    /// A part of it begins, which ends when what is returned is dropped.
    pub fn stage(&self, name: &'static str) -> Leg {
        Leg { span: self.0.span.as_ref().map(|span| span.stage(name)), place: Trace::clone(self) }
    }

    /// An engine is asked, at this URL.
    pub fn engine(&self, url: &str) -> Leg {
        let span = self.0.span.as_ref().map(|span| span.call("POST /inference/v1/generate"));
        if let (Some(span), Ok(uri)) = (&span, url.parse::<http::Uri>()) {
            span.set("server.address", uri.host().unwrap_or_default());
            let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
            span.set("server.port", i64::from(port));
        }
        Leg { span, place: Trace::clone(self) }
    }

    /// Its answer has ended.
    pub fn end(&self, status: u16, outcome: impl FnOnce() -> Outcome) {
        let Some(span) = &self.0.span else { return };
        let outcome = outcome();
        span.set("http.response.status_code", i64::from(status));
        let set_count = |name, count: Option<u64>| {
            if let Some(count) = count.and_then(|count| i64::try_from(count).ok()) {
                span.set(name, count);
            }
        };
        set_count("gen_ai.usage.input_tokens", outcome.prompt_tokens);
        set_count("gen_ai.usage.output_tokens", outcome.completion_tokens);
        set_count("couplet.resumed", Some(outcome.resumed).filter(|resumed| *resumed > 0));
        if let Some(model) = &outcome.model {
            span.set("gen_ai.response.model", model.as_str());
        }
        if let Some(reason) = &outcome.finish_reason {
            span.set("gen_ai.response.finish_reasons", vec![reason.clone()]);
        }
        if let Some(time) = outcome.ttft {
            span.set("gen_ai.response.time_to_first_chunk", time.as_secs_f64());
        }
        match outcome.aborted {
            Some(cause) => span.failed(cause),
            // What the client did wrong is no failure of a server.
            None if status >= 500 => span.failed(&status.to_string()),
            None => {}
        }
        span.end();
    }
}

/// A part of what is done for a request.
#[derive(Debug)]
pub struct Leg {
    span: Option<exporter::Span>,
    place: Trace,
}

impl Leg {
    /// The headers by which whoever is asked learns where it stands.
    pub fn headers(&self) -> HeaderMap {
        match &self.span {
            Some(span) => span.headers(),
            None => self.place.0.came_with.clone(),
        }
    }

    /// It went wrong in this way.
    pub fn failed(&self, kind: &str) {
        if let Some(span) = &self.span {
            span.failed(kind);
        }
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        if let Some(span) = &self.span {
            span.end();
        }
    }
}

/// Whether the environment says where spans go to.
fn is_wanted() -> bool {
    let given = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_off = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    !is_off && (given("OTEL_EXPORTER_OTLP_ENDPOINT") || given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
}
