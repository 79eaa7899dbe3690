//! `config.json`: the model's type, the width of its vocabulary, its context length.
//!
//! Format: transformers' configurations; the context length is derived as vLLM derives it.

use serde_json::{Map, Value};

use super::LoadError;
use super::files::ModelFiles;

/// Keys that may hold the context length; the smallest wins.
const LENGTH_KEYS: [&str; 9] = [
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
];
/// Keys of a multimodal configuration that hold the language model's own.
const TEXT_KEYS: [&str; 5] = ["text_config", "language_config", "llm_config", "thinker_config", "text_cfg"];
/// Context length of a model that names none.
const DEFAULT_LENGTH: f64 = 2048.0;
/// Scalings whose factor is already in the context length.
const SCALED_ALREADY: [&str; 6] = ["su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"];

/// What render needs of `config.json`.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// `model_type`, which decides the tokenizer's class and the few encoders without a template.
    pub model_type: String,
    /// `architectures`, the first.
    pub architecture: Option<String>,
    /// Width of the logits.
    pub vocab_size: u64,
    text: Map<String, Value>,
    whole: Map<String, Value>,
}

impl ModelConfig {
    pub(crate) fn load(files: &ModelFiles) -> Result<Self, LoadError> {
        let file = files.required("config.json", "it comes with every transformers model")?;
        let Value::Object(whole) = file.json()? else {
            return Err(LoadError::broken(&file.path, "is not a JSON object"));
        };
        let text = TEXT_KEYS
            .iter()
            .find_map(|key| whole.get(*key).and_then(Value::as_object))
            .filter(|text| text.contains_key("vocab_size") || text.contains_key("hidden_size"))
            .unwrap_or(&whole)
            .clone();
        let vocab_size = text.get("vocab_size").or_else(|| whole.get("vocab_size")).and_then(Value::as_u64);
        let Some(vocab_size) = vocab_size else {
            return Err(LoadError::broken(&file.path, "has no `vocab_size`"));
        };
        let model_type = whole.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let architecture =
            whole.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str).map(str::to_owned);
        Ok(Self { model_type, architecture, vocab_size, text, whole })
    }

    /// The context length in tokens: `asked` (`--max-model-len`), or what the configuration says.
    pub(crate) fn max_model_len(&self, asked: Option<u64>) -> Result<u64, LoadError> {
        let derived = self.derived_len();
        let Some(asked) = asked else { return Ok(self.default_len(derived)) };
        let upper = self.whole.get("model_max_length").and_then(Value::as_f64);
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
        let asked_float = asked as f64;
        if derived.is_some_and(|derived| asked_float > derived) && upper.is_none_or(|upper| asked_float > upper) {
            let derived = derived.unwrap_or(DEFAULT_LENGTH);
            return Err(LoadError::Setting {
                setting: "--max-model-len",
                reason: format!(
                    "{asked} is greater than the model's own context length {derived} (config.json); give at most that"
                ),
            });
        }
        Ok(asked)
    }

    fn default_len(&self, derived: Option<f64>) -> u64 {
        let longrope = self.ropes().iter().any(|rope| rope_type(rope) == Some("longrope"));
        let original = self.whole.get("original_max_position_embeddings").and_then(Value::as_f64);
        let length = if longrope { original.or(derived) } else { derived };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive length")]
        let length = length.unwrap_or(DEFAULT_LENGTH).max(1.0) as u64;
        length
    }

    fn derived_len(&self) -> Option<f64> {
        let lengths = LENGTH_KEYS.iter().filter_map(|key| self.text.get(*key).and_then(Value::as_f64));
        let smallest = lengths.fold(f64::INFINITY, f64::min);
        let length = self.text.get("model_max_length").and_then(Value::as_f64).filter(|l| *l > 0.0).unwrap_or(smallest);
        if length.is_infinite() {
            return None;
        }
        if self.model_type.contains("gemma3") {
            return Some(length);
        }
        let factors = self.ropes().into_iter().filter(|rope| !SCALED_ALREADY.contains(&rope_type(rope).unwrap_or("")));
        let factor = factors.filter_map(|rope| rope.get("factor").and_then(Value::as_f64)).next_back();
        Some(length * factor.unwrap_or(1.0))
    }

    /// The scalings of rotary embeddings: one, or one per kind of layer.
    fn ropes(&self) -> Vec<&Map<String, Value>> {
        let rope = ["rope_parameters", "rope_scaling"].iter().find_map(|key| self.text.get(*key)?.as_object());
        match rope {
            Some(rope) if rope_type(rope).is_some() => vec![rope],
            Some(per_layer) => per_layer.values().filter_map(Value::as_object).collect(),
            None => Vec::new(),
        }
    }
}

fn rope_type(rope: &Map<String, Value>) -> Option<&str> {
    rope.get("rope_type").or_else(|| rope.get("type")).and_then(Value::as_str)
}
