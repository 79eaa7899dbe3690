//! Wires the parts: loads the models, learns what the engines are, serves until told to stop, and takes over other
//! settings meanwhile.

mod reload;
mod roster;
mod running;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::config::{ConfigError, ModelSettings, Settings};
use crate::endpoints::live::Live;
use crate::endpoints::route::Route;
use crate::endpoints::{self, Context, Heavy};
use crate::metrics::Metrics;
use crate::model::LoadError;
use crate::parsers::DialectError;
use crate::server::{self, Doors, Drain};
use crate::traces::{TraceError, Tracer};
pub use reload::Source;
use running::{Running, Watch};

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
    #[error("cannot listen on {address}: {cause}; choose another with {flags}")]
    Listen {
        /// What was asked for.
        address: String,
        /// What the system said.
        cause: std::io::Error,
        /// What chooses it.
        flags: &'static str,
    },
    /// No threads.
    #[error("the runtime cannot be started: {0}")]
    Runtime(std::io::Error),
    /// The metrics cannot be registered.
    #[error("the metrics cannot be set up: {0}")]
    Metrics(#[from] prometheus::Error),
    /// Spans cannot be exported.
    #[error(transparent)]
    Traces(#[from] TraceError),
    /// DNS cannot be asked.
    #[error("DNS cannot be asked: {0}")]
    Dns(String),
    /// Loading a model panicked.
    #[error("loading panicked; this is a defect of couplet")]
    Panicked,
    /// The HTTP client for engines cannot be built.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(#[from] reqwest::Error),
}

/// How couplet is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// By whoever runs it among others: load balancers have to see it first.
    Terminate,
    /// By a person at a terminal.
    Interrupt,
}

/// couplet, loaded and ready to listen.
pub struct App {
    live: Arc<Live>,
    running: Vec<Running>,
    /// What watches over the engines, while it serves.
    watches: Vec<Watch>,
    settings: Settings,
    source: Option<Source>,
}

impl App {
    /// Loads the models. Blocks.
    pub fn load(settings: Settings) -> Result<Self, StartError> {
        if settings.log_prompts {
            warn_of_prompts();
        }
        let metrics = Arc::new(Metrics::new()?);
        Route::announce(&metrics);
        let load = |model: &ModelSettings| Running::load(model.clone(), &metrics, None);
        let running: Vec<Running> = settings.models.iter().map(load).collect::<Result<_, StartError>>()?;
        metrics.lifecycle.config_holds();
        let context = Context {
            models: running.iter().map(|running| Arc::clone(&running.served)).collect(),
            settings: endpoint_settings(&settings),
            metrics,
            tracer: Tracer::default(),
            known: Arc::default(),
            heavy: Arc::new(Heavy::new(std::thread::available_parallelism().map_or(1, usize::from))),
        };
        Ok(Self { live: Arc::new(Live::new(context)), running, watches: Vec::new(), settings, source: None })
    }

    /// While it serves, changes of what this gives are followed.
    pub fn reloading_from(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Spans go there.
    pub fn tracing_to(self, tracer: Tracer) -> Self {
        self.live.replace(Context { tracer, ..Context::clone(&self.live.context()) });
        self
    }

    /// What requests that begin now can reach.
    pub fn context(&self) -> Arc<Context> {
        self.live.context()
    }

    /// Opens the ports.
    pub async fn listen(&self) -> Result<Doors, StartError> {
        let Settings { host, port, admin, .. } = &self.settings;
        let clients = listen(&format!("{host}:{port}"), "--host and --port").await?;
        let admin = match admin {
            Some(address) => Some(listen(address, "--admin").await?),
            None => None,
        };
        Ok(Doors { clients, admin })
    }

    /// Looks for engines and asks each what it is, once. Tells what DNS does not answer.
    pub async fn look(&self) -> Vec<String> {
        let mut unanswered = Vec::new();
        for roster in self.running.iter().filter_map(|running| running.roster.as_ref()) {
            roster.take_seats().await;
            unanswered.extend(roster.discover().await.err());
        }
        unanswered
    }

    /// Serves until `stop` is done.
    pub async fn serve(mut self, doors: Doors, stop: impl Future<Output = Stop>) {
        self.watches = watch(&self.running).await;
        let live = Arc::clone(&self.live);
        let stop = async {
            let stop = stop.await;
            let settings = &live.context().settings;
            let waits = stop == Stop::Terminate && live.is_watched();
            let grace = if waits { settings.drain_grace } else { Duration::ZERO };
            Drain { grace, timeout: settings.drain_timeout }
        };
        tokio::select! {
            () = server::serve(doors, Arc::clone(&live), stop) => {}
            never = self.follow() => match never {}
        }
        let tracer = live.context().tracer.clone();
        let _ = tokio::task::spawn_blocking(move || tracer.flush()).await; // what it could not send, it told
    }

    async fn follow(&mut self) -> Infallible {
        match self.source.take() {
            Some(source) => reload::follow(self, source).await,
            None => std::future::pending().await,
        }
    }

    fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.live.context().metrics)
    }

    /// Serves by other settings: requests that have begun keep what they began with. On failure nothing changes.
    async fn reload(&mut self, settings: Settings) -> Result<(), StartError> {
        let running = self.load_anew(&settings).await?;
        let context = self.live.context();
        self.watches.clear();
        self.watches = watch(&running).await;
        self.live.replace(Context {
            models: running.iter().map(|running| Arc::clone(&running.served)).collect(),
            settings: endpoint_settings(&settings),
            // What was read of requests depends on the models' settings, and is soon read again.
            known: Arc::default(),
            ..Context::clone(&context)
        });
        let doors = |settings: &Settings| (settings.host.clone(), settings.port, settings.admin.clone());
        if doors(&settings) != doors(&self.settings) {
            tracing::warn!(
                "host, port and admin are taken over when couplet starts; it goes on listening where it does"
            );
        }
        if settings.log_prompts && !self.settings.log_prompts {
            warn_of_prompts();
        }
        (self.running, self.settings) = (running, settings);
        context.metrics.lifecycle.config_holds();
        tracing::info!(models = self.running.len(), "the new configuration holds");
        Ok(())
    }

    /// Loads what is new in the settings.
    async fn load_anew(&self, settings: &Settings) -> Result<Vec<Running>, StartError> {
        let (running, models, metrics) = (self.running.clone(), settings.models.clone(), self.metrics());
        let load = move || {
            let before = running::predecessors(&running, &models);
            let load = |(model, before)| Running::load(model, &metrics, before);
            models.iter().cloned().zip(before).map(load).collect()
        };
        tokio::task::spawn_blocking(load).await.unwrap_or(Err(StartError::Panicked))
    }
}

async fn listen(address: &str, flags: &'static str) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|cause| StartError::Listen { address: address.to_owned(), cause, flags })
}

/// Nobody should find out later.
fn warn_of_prompts() {
    tracing::warn!(
        "PROMPTS AND REPLIES ARE WRITTEN TO THE LOG, as clear text, for as long as log_prompts is set: whoever can read the \
         log can read what users write"
    );
}

async fn watch(running: &[Running]) -> Vec<Watch> {
    futures_util::future::join_all(running.iter().map(Running::watch)).await.into_iter().flatten().collect()
}

fn endpoint_settings(settings: &Settings) -> endpoints::Settings {
    endpoints::Settings {
        api_keys: settings.api_keys.clone(),
        max_body_bytes: settings.max_body_bytes,
        log_prompts: settings.log_prompts,
        vllm_metric_names: settings.vllm_metric_names,
        drain_grace: settings.drain_grace,
        drain_timeout: settings.drain_timeout,
    }
}
