//! A model that is served, with the settings that it came from.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::StartError;
use super::roster::Roster;
use crate::config::ModelSettings;
use crate::endpoints::Served;
use crate::engine::fit::Expectation;
use crate::metrics::Metrics;
use crate::model::Model;
use crate::model::tokenizer::Path;
use crate::parsers::Dialect;

/// A model and its engines.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) settings: ModelSettings,
    pub(super) served: Arc<Served>,
    pub(super) roster: Option<Arc<Roster>>,
}

/// A task that ends with whoever started it.
pub(super) struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Running {
    /// Loads what the settings say, but for what `before` has loaded already. Blocks.
    pub(super) fn load(
        settings: ModelSettings,
        metrics: &Arc<Metrics>,
        before: Option<&Self>,
    ) -> Result<Self, StartError> {
        let loaded = before.filter(|before| before.settings.load == settings.load);
        let (model, dialect) = match loaded {
            Some(before) => (Arc::clone(&before.served.model), before.served.dialect.clone()),
            None => load_model(&settings, metrics)?,
        };
        let expected = Expectation {
            name: None,
            served_names: model.names().to_vec(),
            model: settings.load.model.clone(),
            max_model_len: model.max_model_len(),
            vocab_size: model.config().vocab_size,
        };
        let roster = Roster::new(&settings, expected, metrics, before.and_then(|before| before.roster.as_deref()))?;
        let roster = roster.map(Arc::new);
        let pool = roster.as_ref().map(|roster| Arc::clone(roster.pool()));
        Ok(Self { settings, served: Arc::new(Served::new(model, dialect, pool, metrics)), roster })
    }

    /// Asks the engines what they are, and watches over them from then on.
    pub(super) async fn watch(&self) -> Vec<Watch> {
        let Some(roster) = &self.roster else { return Vec::new() };
        roster.take_seats().await;
        let pool = tokio::spawn(Arc::clone(roster.pool()).watch());
        let discovery = tokio::spawn(Arc::clone(roster).follow());
        vec![Watch(pool), Watch(discovery)]
    }
}

/// For each model the running one whose place it takes: one that is loaded in the same way, else one of the same files,
/// whose engines may be taken over.
pub(super) fn predecessors<'r>(running: &'r [Running], models: &[ModelSettings]) -> Vec<Option<&'r Running>> {
    let same = |model: &ModelSettings| running.iter().position(|before| before.settings.load == model.load);
    let mut places: Vec<Option<usize>> = models.iter().map(same).collect();
    for (at, model) in models.iter().enumerate() {
        let is_free = |place: &usize| !places.contains(&Some(*place));
        let of_files = |place: &usize| running[*place].settings.load.model == model.load.model;
        let found = (0..running.len()).filter(is_free).find(of_files);
        places[at] = places[at].or(found);
    }
    places.into_iter().map(|place| place.and_then(|place| running.get(place))).collect()
}

fn load_model(settings: &ModelSettings, metrics: &Metrics) -> Result<(Arc<Model>, Option<Arc<Dialect>>), StartError> {
    let mut model = Model::load(settings.load.clone())?;
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
    Ok((Arc::new(model), dialect.map(Arc::new)))
}
