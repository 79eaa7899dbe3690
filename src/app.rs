//! Wires the parts: loads the models, learns what the engines are, serves until told to stop.

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::config::{ConfigError, EngineSettings, ModelSettings, Settings};
use crate::endpoints::derender::Known;
use crate::endpoints::{self, Context, Heavy, Served};
use crate::engine::client::http_client;
use crate::engine::pool::Member;
use crate::engine::{Engine, Pool};
use crate::metrics::Metrics;
use crate::model::tokenizer::Path;
use crate::model::{LoadError, Model};
use crate::parsers::{Dialect, DialectError};
use crate::server;

/// Why couplet does not start. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A model cannot be loaded.
    #[error(transparent)]
    Model(#[from] LoadError),
    /// A parser cannot be used with the model.
    #[error(transparent)]
    Dialect(#[from] DialectError),
    /// The port is taken, or the address is not ours.
    #[error("cannot listen on {address}: {cause}; choose another with --host and --port")]
    Listen {
        /// What was asked for.
        address: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// No threads.
    #[error("the runtime cannot be started: {0}")]
    Runtime(std::io::Error),
    /// The metrics cannot be registered.
    #[error("the metrics cannot be set up: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The HTTP client for engines cannot be built.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(#[from] reqwest::Error),
}

/// couplet, loaded and ready to listen.
pub struct App {
    context: Arc<Context>,
    address: String,
}

impl App {
    /// Loads the models. Blocks.
    pub fn load(settings: Settings) -> Result<Self, StartError> {
        let metrics = Metrics::new()?;
        let load = |model| load_model(model, &metrics);
        let models = settings.models.into_iter().map(load).collect::<Result<_, StartError>>()?;
        give_memory_back();
        let context = Context {
            models,
            settings: endpoints::Settings { api_keys: settings.api_keys, max_body_bytes: settings.max_body_bytes },
            metrics,
            known: Known::default(),
            heavy: Heavy::new(std::thread::available_parallelism().map_or(1, usize::from)),
        };
        Ok(Self { context: Arc::new(context), address: format!("{}:{}", settings.host, settings.port) })
    }

    /// What every request can reach.
    pub fn context(&self) -> Arc<Context> {
        Arc::clone(&self.context)
    }

    /// Opens the port.
    pub async fn listen(&self) -> Result<TcpListener, StartError> {
        let listen = TcpListener::bind(&self.address).await;
        listen.map_err(|cause| StartError::Listen { address: self.address.clone(), cause })
    }

    /// Serves until `stop` is done.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let pools = self.context.models.iter().filter_map(|served| served.pool.clone());
        let watches: Vec<_> = pools.map(|pool| tokio::spawn(pool.watch())).collect();
        server::serve(listener, self.context, stop).await;
        watches.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

fn load_model(settings: ModelSettings, metrics: &Metrics) -> Result<Served, StartError> {
    let mut model = Model::load(settings.load)?;
    if [&model.options().tool_parser, &model.options().reasoning_parser]
        .iter()
        .any(|name| name.as_deref() == Some("auto"))
    {
        for choice in model.choose_parsers().into_iter().flatten() {
            tracing::info!(parser = choice.name, why = choice.why, "parser that fits the model");
        }
    }
    let options = model.options();
    let dialect = Dialect::new(
        options.tool_parser.as_deref(),
        options.reasoning_parser.as_deref(),
        &model.parser_vocabulary(),
        &model.config().model_type,
        options.enable_auto_tool_choice,
    )?;
    let path = model.encoder().path();
    metrics.fast_tokenizer(&model.names()[0], matches!(path, Path::Fast { .. }));
    match path {
        Path::Fast { probes } => tracing::info!(probes, "fast tokenizer: the same ids as the exact one"),
        Path::Exact { reason } => tracing::warn!(%reason, "exact tokenizer: slower"),
    }
    tracing::info!(
        model = %model.names()[0],
        tool_call_parser = options.tool_parser.as_deref().unwrap_or("none"),
        reasoning_parser = options.reasoning_parser.as_deref().unwrap_or("none"),
        max_model_len = model.max_model_len(),
        "model loaded"
    );
    let http = http_client(settings.pool.connect_timeout)?;
    let member = |engine: EngineSettings| {
        let metrics = metrics.engine(&engine.url);
        Arc::new(Member::new(Arc::new(Engine::new(&engine.url, http.clone())), engine.place, metrics))
    };
    let members: Vec<Arc<Member>> = settings.engines.into_iter().map(member).collect();
    let pool =
        (!members.is_empty()).then(|| Arc::new(Pool::new(members, settings.pool, metrics.pool(&model.names()[0]))));
    Ok(Served { dialect: dialect.map(Arc::new), model, pool })
}

/// Loading takes several times what a loaded model holds; glibc keeps the rest unless it is told to give it back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a call of the C library without any argument that could be wrong")]
fn give_memory_back() {
    // SAFETY: malloc_trim may be called at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_memory_back() {}
