//! ROUTE: one file tells one story, from a request's body to its answer. The only place that knows all stages.

pub mod admin;
pub mod chat;
pub mod completions;
mod coupled;
mod debug;
pub mod derender;
mod heavy;
pub mod live;
mod plan;
mod prompts;
pub mod render;
pub mod route;
mod structured;
pub mod tokenize;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use crate::api::error::ApiError;
use crate::api::validate;
use crate::engine::Pool;
use crate::grammar::{GrammarError, Grammars};
use crate::metrics::{GrammarMetrics, Metrics, Record};
use crate::model::Model;
use crate::parsers::{Dialect, Fallback};
use crate::respond::http::{self as response, Response};
use crate::traces::{Trace, Tracer};
pub use heavy::Heavy;
use route::Route;

/// What every request can reach. Immutable but for counters.
#[derive(Clone)]
pub struct Context {
    /// The served models; the first is the default.
    pub models: Vec<Arc<Served>>,
    /// Settings of the server.
    pub settings: Settings,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Bounds long work.
    pub heavy: Arc<Heavy>,
    /// Where spans go to.
    pub tracer: Tracer,
    /// What came with the derender routes' streams before.
    pub known: Arc<derender::Known>,
}

/// What comes with a request's body.
#[derive(Debug, Clone)]
pub struct Head {
    /// Its headers.
    pub headers: HeaderMap,
    /// What is known of it, for its line in the log.
    pub record: Arc<Record>,
    /// Where it stands in a trace.
    pub trace: Trace,
}

/// An id for a request that has none.
pub fn random_id() -> String {
    format!("{:016x}", coupled::random())
}

/// A model with the engines that run it.
pub struct Served {
    /// The model itself.
    pub model: Arc<Model>,
    /// What it speaks; `None` where no parser is configured.
    pub dialect: Option<Arc<Dialect>>,
    /// Engines; `None` where only the raw steps are served.
    pub pool: Option<Arc<Pool>>,
    grammars: OnceLock<Result<Grammars, GrammarError>>,
    grammar_metrics: Arc<GrammarMetrics>,
}

impl Served {
    /// A model, what it speaks, and its engines.
    pub fn new(model: Arc<Model>, dialect: Option<Arc<Dialect>>, pool: Option<Arc<Pool>>, metrics: &Metrics) -> Self {
        let name = model.names().first().map_or("", String::as_str);
        let grammar_metrics = metrics.grammar(name);
        let coupled = [Route::Chat, Route::Completions].map(Route::name);
        metrics.expect_model(name, if pool.is_some() { &coupled } else { &[] });
        let served = Self { model, dialect, pool, grammars: OnceLock::new(), grammar_metrics };
        if served.dialect.is_some() {
            let parser = metrics.parser(served.parser_name());
            Fallback::ALL.iter().for_each(|reason| parser.fell_back(reason.name(), 0));
        }
        served
    }

    /// Its tokens, ready for grammars; read when the first one comes.
    fn grammars(&self) -> Result<&Grammars, ApiError> {
        let grammars = self.grammars.get_or_init(|| Grammars::new(&self.model));
        grammars.as_ref().map_err(|error| structured::refused(error.clone()))
    }

    /// The name that answers carry.
    pub fn name(&self) -> &str {
        self.model.names().first().map_or("", String::as_str)
    }

    /// The name that the answer to a request for `asked` carries: the adapter's, where it asks for one.
    pub fn called<'a>(&'a self, asked: Option<&'a str>) -> &'a str {
        self.adapter(asked).unwrap_or(self.name())
    }

    /// The LoRA adapter that a request for `asked` means. Adapters are the engines': whatever is asked for and is no name
    /// of the model is one.
    pub fn adapter<'a>(&self, asked: Option<&'a str>) -> Option<&'a str> {
        asked.filter(|asked| !asked.is_empty() && !self.has_name(asked))
    }

    /// The LoRA adapters that its engines have loaded: names, and where from.
    pub fn adapters(&self) -> BTreeMap<String, Option<String>> {
        self.pool.as_ref().map(|pool| pool.adapters()).unwrap_or_default()
    }

    fn has_name(&self, name: &str) -> bool {
        self.model.names().iter().any(|known| known == name)
    }

    /// The engines.
    pub fn pool(&self) -> Result<&Arc<Pool>, ApiError> {
        self.pool.as_ref().ok_or_else(|| {
            ApiError::unavailable(
                "no engine is configured for this model: only the render and derender routes are served; start couplet \
                 with --engine URL",
            )
        })
    }

    /// Whether the model may decide to call tools.
    pub fn auto_tools(&self) -> bool {
        let options = self.model.options();
        options.enable_auto_tool_choice && options.tool_parser.is_some()
    }

    /// The parser's name in metrics.
    pub fn parser_name(&self) -> &str {
        let options = self.model.options();
        options.tool_parser.as_deref().or(options.reasoning_parser.as_deref()).unwrap_or("none")
    }

    /// Whether answers tell how many of their tokens were reasoning.
    pub fn has_reasoning_parser(&self) -> bool {
        self.model.options().reasoning_parser.is_some()
    }
}

/// Settings that endpoints read.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Keys that clients have to present; none lets everybody in.
    pub api_keys: Vec<String>,
    /// Longest request body, in bytes.
    pub max_body_bytes: usize,
    /// Whether prompts and replies are written to the log.
    pub log_prompts: bool,
    /// Whether `/metrics` tells of replies under vLLM's names too.
    pub vllm_metric_names: bool,
    /// After a signal to stop: how long requests are still taken.
    pub drain_grace: Duration,
    /// After that: how long requests may go on.
    pub drain_timeout: Duration,
}

impl Context {
    /// Whether a model has this name.
    pub fn is_model(&self, name: &str) -> bool {
        self.models.iter().any(|served| served.has_name(name))
    }

    /// The model that a request names, by its own names or those of its adapters; any request that names none gets the
    /// first.
    pub fn served(&self, name: Option<&str>) -> Result<&Served, ApiError> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(&self.models[0]) };
        let named = self.models.iter().find(|served| served.has_name(name));
        let has_adapter = |served: &&Arc<Served>| served.adapters().contains_key(name);
        named.or_else(|| self.models.iter().find(has_adapter)).map(AsRef::as_ref).ok_or_else(|| {
            let names: Vec<&str> =
                self.models.iter().flat_map(|served| served.model.names()).map(String::as_str).collect();
            let message = format!("The model `{name}` does not exist. Valid aliases: {}.", names.join(", "));
            ApiError::not_found(Some("model"), message)
        })
    }
}

/// Answers a request with a body.
pub async fn answer(context: Arc<Context>, route: Route, head: &Head, body: Bytes) -> Result<Response, ApiError> {
    let kind = head.headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !validate::is_json_type(kind) {
        return Err(validate::unsupported_media_type());
    }
    let render = |work: fn(&Context, &HeaderMap, &Bytes) -> Result<Bytes, ApiError>| {
        context.heavy.render(&body, || work(&context, &head.headers, &body)).map(response::json)
    };
    match route {
        Route::Chat => chat::create(Arc::clone(&context), head, &body).await,
        Route::Completions => completions::create(Arc::clone(&context), head, &body).await,
        Route::ChatRender => render(render::chat),
        Route::CompletionsRender => render(render::completions),
        Route::ChatDerender => derender::chat(&context, &body).map(response::json),
        Route::CompletionsDerender => derender::completions(&context, &body).map(response::json),
        Route::Tokenize => render(|context, _, body| tokenize::tokenize(context, body)),
        Route::Detokenize => {
            context.heavy.read(body.len(), || tokenize::detokenize(&context, &body)).map(response::json)
        }
        Route::Models
        | Route::Health
        | Route::Ready
        | Route::Ping
        | Route::Version
        | Route::Load
        | Route::Metrics
        | Route::Engines => Ok(admin::answer(&context, route)),
    }
}
