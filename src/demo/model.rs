//! The tiny model, carried in the binary and written to a temporary directory, where couplet loads it as any other.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io, process};

use tokenizers::Tokenizer;

pub(super) const NAME: &str = "tiny";
pub(super) const VOCAB_SIZE: u32 = 2624;
pub(super) const MAX_MODEL_LEN: u32 = 8192;
pub(super) const EOS: [u32; 2] = [2602, 2600];

const TOKENIZER: &str = include_str!("../../models/tiny/tokenizer.json");
const FILES: [(&str, &str); 5] = [
    ("config.json", include_str!("../../models/tiny/config.json")),
    ("generation_config.json", include_str!("../../models/tiny/generation_config.json")),
    ("tokenizer.json", TOKENIZER),
    ("tokenizer_config.json", include_str!("../../models/tiny/tokenizer_config.json")),
    ("chat_template.jinja", include_str!("../../models/tiny/chat_template.jinja")),
];

/// The model's directory, which goes away with this value.
#[derive(Debug)]
pub(super) struct Model {
    dir: PathBuf,
}

impl Model {
    pub(super) fn write() -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let dir = env::temp_dir().join(format!("couplet-demo-{}-{now}", process::id()));
        fs::create_dir(&dir)?;
        let model = Self { dir };
        for (name, text) in FILES {
            fs::write(model.dir.join(name), text)?;
        }
        Ok(model)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir); // a leftover in the temporary directory harms nobody
    }
}

/// The tokenizer, for writing the script and for showing what ids mean.
pub(super) fn tokenizer() -> tokenizers::Result<Tokenizer> {
    Tokenizer::from_bytes(TOKENIZER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_those_of_the_configs() {
        let read = |name: &str| -> serde_json::Value {
            let (_, text) = FILES.iter().find(|(file, _)| *file == name).unwrap();
            serde_json::from_str(text).unwrap()
        };
        let config = read("config.json");
        assert_eq!(config["vocab_size"], VOCAB_SIZE);
        assert_eq!(config["max_position_embeddings"], MAX_MODEL_LEN);
        assert_eq!(read("generation_config.json")["eos_token_id"], serde_json::json!(EOS));
        let size = tokenizer().unwrap().get_vocab_size(true);
        assert!(size <= VOCAB_SIZE as usize, "{size}");
    }

    #[test]
    fn the_directory_goes_away() {
        let model = Model::write().unwrap();
        let dir = model.dir().to_owned();
        assert!(dir.join("chat_template.jinja").exists());
        drop(model);
        assert!(!dir.exists());
    }
}
