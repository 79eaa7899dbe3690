//! A model directory, as far as these tests need it: text of tokens, stop tokens, vocabulary.

use std::collections::HashMap;
use std::path::Path;

use couplet::parsers::Vocabulary;
use serde_json::Value;
use tokenizers::Tokenizer;

pub(crate) struct Model {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) model_type: String,
    pub(crate) eos: Vec<u32>,
}

impl Model {
    pub(crate) fn load(dir: &Path) -> Self {
        let tokenizer = Tokenizer::from_file(dir.join("tokenizer.json")).unwrap();
        let config = json(&dir.join("config.json"));
        let settings = json(&dir.join("tokenizer_config.json"));
        let ids: HashMap<String, u32> = tokenizer.get_vocab(true);
        let named = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
        let texts = named.iter().filter_map(|name| content(&settings[*name]));
        let special: Vec<_> = texts.filter_map(|text| Some((*ids.get(&text)?, text))).collect();
        let eos = content(&settings["eos_token"]).and_then(|text| ids.get(&text).copied());
        let more = &json(&dir.join("generation_config.json"))["eos_token_id"];
        let more = more.as_array().cloned().unwrap_or_else(|| vec![more.clone()]);
        let more = more.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok());
        let model_type = config["model_type"].as_str().unwrap_or_default().to_owned();
        let vocabulary = Vocabulary { ids, special };
        Self { tokenizer, vocabulary, model_type, eos: eos.into_iter().chain(more).collect() }
    }

    /// The text by which each token lengthens the output.
    pub(crate) fn texts(&self, prompt: &[u32], output: &[u32]) -> Vec<String> {
        let mut window = prompt[prompt.len().saturating_sub(6)..].to_vec();
        let mut read = window.len();
        output
            .iter()
            .map(|id| {
                window.push(*id);
                let (before, all) = (self.decode(&window[..read]), self.decode(&window));
                if all.len() <= before.len() || all.ends_with('\u{fffd}') {
                    return String::new();
                }
                window.drain(..read);
                read = window.len();
                all[before.len()..].to_owned()
            })
            .collect()
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids, false).unwrap()
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn content(token: &Value) -> Option<String> {
    token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned)
}
