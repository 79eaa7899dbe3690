//! `generation_config.json`: default sampling parameters and the ids at which generation ends.
//!
//! Format: transformers' GenerationConfig; which keys become defaults, and how, is vLLM's choice.

use std::path::Path;

use serde_json::{Map, Value};

use super::files::{FileText, ModelFiles};
use super::{LoadError, LoadOptions};

/// Defaults for requests that say nothing.
#[derive(Debug, Clone, Default)]
pub struct GenerationDefaults {
    /// `repetition_penalty`, `temperature`, `top_k`, `top_p`, `min_p`, … as numbers, by name.
    pub sampling: Map<String, Value>,
    /// Upper bound of every reply, from `max_new_tokens`; a request may ask for less.
    pub max_tokens: Option<i64>,
    /// Whether `max_tokens` also bounds requests that ask for more.
    pub max_tokens_is_limit: bool,
    /// `skip_special_tokens`, if it is set.
    pub skip_special_tokens: Option<bool>,
    /// Ids at which the engine stops.
    pub eos_token_ids: Vec<u32>,
}

impl GenerationDefaults {
    pub(crate) fn load(files: &ModelFiles, options: &LoadOptions) -> Result<Self, LoadError> {
        let own = match files.optional("generation_config.json")? {
            Some(file) => object(&file)?,
            None => Map::new(),
        };
        let mut sampling_source = match options.generation_config.as_str() {
            "auto" => own.clone(),
            "vllm" => Map::new(),
            directory => read_directory(directory)?,
        };
        for (key, value) in &options.override_generation_config {
            sampling_source.insert(key.clone(), value.clone());
        }
        let from_file = !matches!(options.generation_config.as_str(), "auto" | "vllm");
        let overridden = options.override_generation_config.contains_key("max_new_tokens");
        Ok(Self::from_maps(&sampling_source, &own, from_file || overridden))
    }

    fn from_maps(source: &Map<String, Value>, own: &Map<String, Value>, max_tokens_is_limit: bool) -> Self {
        const NUMBERS: [&str; 7] =
            ["repetition_penalty", "presence_penalty", "frequency_penalty", "temperature", "top_k", "top_p", "min_p"];
        let mut sampling = Map::new();
        for key in NUMBERS {
            if let Some(value) = source.get(key).filter(|value| value.is_number()) {
                sampling.insert(key.to_owned(), value.clone());
            }
        }
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let eos_token_ids = match own.get("eos_token_id") {
            Some(Value::Array(ids)) => ids.iter().filter_map(id).collect(),
            Some(single) => id(single).into_iter().collect(),
            None => Vec::new(),
        };
        Self {
            sampling,
            max_tokens: source.get("max_new_tokens").and_then(Value::as_i64),
            max_tokens_is_limit,
            skip_special_tokens: source.get("skip_special_tokens").and_then(Value::as_bool),
            eos_token_ids,
        }
    }
}

fn object(file: &FileText) -> Result<Map<String, Value>, LoadError> {
    match file.json()? {
        Value::Object(map) => Ok(map),
        _ => Err(LoadError::broken(&file.path, "is not a JSON object")),
    }
}

fn read_directory(directory: &str) -> Result<Map<String, Value>, LoadError> {
    let path = Path::new(directory).join("generation_config.json");
    match std::fs::read_to_string(&path) {
        Ok(text) => object(&FileText { path, text }),
        Err(_) => Err(LoadError::Missing {
            path: path.display().to_string(),
            remedy: "--generation-config takes `auto`, `vllm` or a directory that holds generation_config.json"
                .to_owned(),
        }),
    }
}
