//! tokenizer.json and tokenizer_config.json: the tokenizer as transformers (and so vLLM) would have it.
//!
//! In: the model's files. Out: tokenizer.json rewritten where transformers rewrites it, and the named special tokens.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokenizers::Tokenizer;

use super::classes::Class;
use crate::model::LoadError;
use crate::model::files::{FileText, ModelFiles};

/// The named special tokens, in transformers' order.
const NAMES: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What makes a tokenizer.
pub(crate) struct TokenizerParts {
    /// tokenizer.json, rewritten.
    pub(crate) json: Value,
    /// Where it came from, for errors.
    pub(crate) path: std::path::PathBuf,
    /// tokenizer_config.json.
    pub(crate) config: Map<String, Value>,
    /// Name (`bos_token`, …) and text of the special tokens that are set. Templates see these as variables.
    pub(crate) specials: Vec<(String, String)>,
    /// Special tokens without a name (`additional_special_tokens`).
    pub(crate) extra: Vec<String>,
}

impl TokenizerParts {
    /// The tokenizer as vLLM has it.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer, LoadError> {
        Tokenizer::deserialize(&self.json).map_err(|error| LoadError::broken(&self.path, error))
    }

    /// Gives added tokens the ids that the tokenizer gave them: it closes gaps, whatever the file says.
    pub(crate) fn renumber(&mut self, tokenizer: &Tokenizer) {
        let added = self.json.get_mut("added_tokens").and_then(Value::as_array_mut);
        for token in added.into_iter().flatten() {
            let id = token_text(token).and_then(|text| tokenizer.token_to_id(text));
            if let (Some(id), Value::Object(token)) = (id, token) {
                token.insert("id".to_owned(), Value::from(id));
            }
        }
    }

    /// Ids of all special tokens that the configuration names, ascending.
    pub(crate) fn special_ids(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let texts = self.specials.iter().map(|(_, text)| text).chain(&self.extra);
        let mut ids: Vec<u32> = texts.filter_map(|text| tokenizer.token_to_id(text)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Where a tokenizer can be read, more than once.
pub(crate) struct TokenizerSource {
    /// The model's files.
    pub(crate) files: ModelFiles,
    /// `model_type` of config.json.
    pub(crate) model_type: String,
}

impl TokenizerSource {
    /// Reads the files.
    pub(crate) fn read(&self) -> Result<TokenizerParts, LoadError> {
        load(&self.files, &self.model_type)
    }
}

fn load(files: &ModelFiles, model_type: &str) -> Result<TokenizerParts, LoadError> {
    let remedy = "couplet reads only fast tokenizers: make one with transformers' `save_pretrained`";
    let file = files.required("tokenizer.json", remedy)?;
    let Value::Object(mut json) = file.json()? else {
        return Err(LoadError::broken(&file.path, "is not a JSON object"));
    };
    let mut config = optional_object(files, "tokenizer_config.json")?;
    if !config.contains_key("added_tokens_decoder") {
        for (key, value) in optional_object(files, "special_tokens_map.json")? {
            config.insert(key, value);
        }
    }
    let class = Class::resolve(model_type, config.get("tokenizer_class").and_then(Value::as_str));
    let specials = specials(class, &config);
    let unk = specials.iter().find(|(name, _)| name == "unk_token").map(|(_, text)| text.as_str());
    class.rebuild(&mut json, &config, unk);
    let extra = extra_specials(&config);
    mark_specials(&mut json, &specials, &extra);
    json.insert("truncation".to_owned(), Value::Null);
    json.insert("padding".to_owned(), Value::Null);
    Ok(TokenizerParts { json: Value::Object(json), path: file.path, config, specials, extra })
}

fn optional_object(files: &ModelFiles, name: &str) -> Result<Map<String, Value>, LoadError> {
    let Some(file) = files.optional(name)? else { return Ok(Map::new()) };
    object(&file)
}

fn object(file: &FileText) -> Result<Map<String, Value>, LoadError> {
    match file.json()? {
        Value::Object(map) => Ok(map),
        _ => Err(LoadError::broken(&file.path, "is not a JSON object")),
    }
}

/// A token is written as its text, or as an object with its text under `content`.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content").and_then(Value::as_str))
}

fn specials(class: Class, config: &Map<String, Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in NAMES {
        let default = class.default_specials().iter().find(|(key, _)| *key == name).map(|(_, text)| *text);
        let text = match config.get(name) {
            Some(given) => token_text(given),
            None => default,
        };
        if let Some(text) = text {
            found.push((name.to_owned(), text.to_owned()));
        }
    }
    // Tokens named by the model itself (`image_token`, …) are template variables too.
    if let Some(named) = config.get("extra_special_tokens").and_then(Value::as_object) {
        for (name, value) in named {
            if let Some(text) = token_text(value) {
                found.push((name.clone(), text.to_owned()));
            }
        }
    }
    found
}

fn extra_specials(config: &Map<String, Value>) -> Vec<String> {
    let listed =
        ["extra_special_tokens", "additional_special_tokens"].iter().find_map(|key| config.get(*key)?.as_array());
    listed.into_iter().flatten().filter_map(token_text).map(str::to_owned).collect()
}

/// Special tokens become added tokens with the special flag, new ones at the end of the vocabulary.
fn mark_specials(json: &mut Map<String, Value>, named: &[(String, String)], extra: &[String]) {
    let mut added = match json.remove("added_tokens") {
        Some(Value::Array(added)) => added,
        _ => Vec::new(),
    };
    let vocab = json.get("model").and_then(|model| model.get("vocab"));
    for text in named.iter().map(|(_, text)| text).chain(extra) {
        let present = added.iter_mut().find(|token| token.get("content").and_then(Value::as_str) == Some(text));
        if let Some(Value::Object(token)) = present {
            token.insert("special".to_owned(), Value::Bool(true));
            continue;
        }
        let in_vocab = vocab.and_then(|vocab| vocab.get(text)).and_then(Value::as_u64);
        let id = in_vocab.unwrap_or_else(|| next_id(vocab, &added));
        added.push(json!({
            "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        }));
    }
    json.insert("added_tokens".to_owned(), Value::Array(added));
}

fn next_id(vocab: Option<&Value>, added: &[Value]) -> u64 {
    let words = match vocab {
        Some(Value::Object(vocab)) => vocab.len(),
        Some(Value::Array(vocab)) => vocab.len(),
        _ => 0,
    };
    let last = added.iter().filter_map(|token| token.get("id").and_then(Value::as_u64)).max();
    last.map_or(0, |id| id + 1).max(words as u64)
}
