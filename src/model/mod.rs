//! A served model: what its directory says, loaded once, immutable, shared by all requests.
//!
//! In: a directory or a hub id, and the server's options. Out: [`Model`]: limits, default sampling parameters, the
//! tokenizer as vLLM has it, the compiled chat template. Deliberately absent: weights, requests, the decode side of the
//! vocabulary.

mod config;
mod files;
mod generation;
pub mod template;
pub mod tokenizer;
pub mod vocabulary;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::model::template::{ChatTemplates, ContentFormat};
use crate::model::tokenizer::Encoder;
use crate::model::tokenizer::files::TokenizerSource;
use crate::model::vocabulary::Vocabulary;
use crate::parsers::{self, auto};

pub use config::ModelConfig;
pub use generation::GenerationDefaults;

/// Most logprobs a request may ask for where the server sets no other limit (vLLM's `--max-logprobs`).
const DEFAULT_MAX_LOGPROBS: i64 = 20;
/// Memory for token ids of text seen before, in bytes.
const DEFAULT_SEGMENT_CACHE: usize = 32 << 20;

/// What the server's settings say about its model. Names and meanings are vLLM's flags, where they exist there.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOptions {
    /// A directory, or a hub id such as `Qwen/Qwen3-8B`.
    pub model: String,
    /// Branch, tag or commit on the hub.
    pub revision: Option<String>,
    /// Names under which clients may ask for the model; the first is shown. Empty: `model` itself.
    pub served_model_names: Vec<String>,
    /// `--chat-template`: a file, or the template's text.
    pub chat_template: Option<String>,
    /// `--chat-template-content-format`.
    pub content_format: ContentFormat,
    /// `--trust-request-chat-template`.
    pub trust_request_chat_template: bool,
    /// `--default-chat-template-kwargs`.
    pub default_chat_template_kwargs: Map<String, Value>,
    /// `--max-model-len`, in tokens.
    pub max_model_len: Option<u64>,
    /// `--max-logprobs`; -1 for the whole vocabulary.
    pub max_logprobs: i64,
    /// `--generation-config`: `auto`, `vllm`, or a directory.
    pub generation_config: String,
    /// `--override-generation-config`.
    pub override_generation_config: Map<String, Value>,
    /// `--tool-call-parser`, resolved to a name.
    pub tool_parser: Option<String>,
    /// `--reasoning-parser`, resolved to a name.
    pub reasoning_parser: Option<String>,
    /// `--enable-auto-tool-choice`.
    pub enable_auto_tool_choice: bool,
    /// `--exclude-tools-when-tool-choice-none`.
    pub exclude_tools_when_tool_choice_none: bool,
    /// `--escape-special-tokens`: message text that spells a special token is encoded as ordinary text.
    pub escape_special_tokens: bool,
    /// Whether the fast tokenizer is used where it proves equal.
    pub fast_tokenizer: bool,
    /// Memory for token ids of text seen before, in bytes; 0 turns it off.
    pub segment_cache_bytes: usize,
}

impl LoadOptions {
    /// The defaults for a model.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            revision: None,
            served_model_names: Vec::new(),
            chat_template: None,
            content_format: ContentFormat::Auto,
            trust_request_chat_template: false,
            default_chat_template_kwargs: Map::new(),
            max_model_len: None,
            max_logprobs: DEFAULT_MAX_LOGPROBS,
            generation_config: "auto".to_owned(),
            override_generation_config: Map::new(),
            tool_parser: None,
            reasoning_parser: None,
            enable_auto_tool_choice: false,
            exclude_tools_when_tool_choice_none: false,
            escape_special_tokens: false,
            fast_tokenizer: true,
            segment_cache_bytes: DEFAULT_SEGMENT_CACHE,
        }
    }
}

/// Why a model could not be loaded. The text names the file or setting and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file that every model needs is not there.
    #[error("{path}: not found; {remedy}")]
    Missing {
        /// The file or directory.
        path: String,
        /// What to do.
        remedy: String,
    },
    /// A file is there and cannot be used.
    #[error("{path}: {reason}; {remedy}")]
    Broken {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The hub did not give a file.
    #[error("{repo} on the hub: {reason}; check the id, HF_TOKEN for gated models, and HF_HUB_OFFLINE")]
    Hub {
        /// The hub id.
        repo: String,
        /// The hub's or the network's answer.
        reason: String,
    },
    /// A setting contradicts the model.
    #[error("{setting}: {reason}")]
    Setting {
        /// The flag.
        setting: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

impl LoadError {
    /// A file that cannot be used; the remedy is to get it again.
    pub(crate) fn broken(path: &std::path::Path, reason: impl std::fmt::Display) -> Self {
        Self::Broken {
            path: path.display().to_string(),
            reason: reason.to_string(),
            remedy: "fetch the model's files again, or correct this one".to_owned(),
        }
    }
}

/// A served model.
#[derive(Debug)]
pub struct Model {
    options: LoadOptions,
    names: Vec<String>,
    config: ModelConfig,
    generation: GenerationDefaults,
    encoder: Encoder,
    vocabulary: Arc<Vocabulary>,
    templates: ChatTemplates,
    /// `response_template` of tokenizer_config.json.
    response_template: Option<Value>,
    max_model_len: u64,
    default_template_kwargs: Map<String, Value>,
}

impl Model {
    /// Loads a model from its directory or from the hub. Blocks.
    pub fn load(options: LoadOptions) -> Result<Self, LoadError> {
        let files = files::ModelFiles::find(&options.model, options.revision.as_deref())?;
        let config = ModelConfig::load(&files)?;
        let generation = GenerationDefaults::load(&files, &options)?;
        let source = TokenizerSource { files, model_type: config.model_type.clone() };
        let parts = source.read()?;
        let response_template = parts.config.get("response_template").cloned();
        let templates = ChatTemplates::load(&source.files, &options, &parts)?;
        let tokenizer = parts.tokenizer()?;
        let vocabulary = Arc::new(Vocabulary::new(&tokenizer, &parts.special_ids(&tokenizer)));
        let encoder = Encoder::new(parts, tokenizer, source, &options, &templates);
        let max_model_len = config.max_model_len(options.max_model_len)?;
        let names = match options.served_model_names.as_slice() {
            [] => vec![options.model.clone()],
            names => names.to_vec(),
        };
        // vLLM gives every template this variable, and shows it wherever it shows template variables.
        let mut default_template_kwargs = options.default_chat_template_kwargs.clone();
        default_template_kwargs.entry("cohere_format").or_insert_with(|| Value::from("cmd4"));
        Ok(Self {
            options,
            names,
            config,
            generation,
            encoder,
            vocabulary,
            templates,
            response_template,
            max_model_len,
            default_template_kwargs,
        })
    }

    /// The names under which clients may ask for the model. The first is shown.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The tool call parser and the reasoning parser that the model's files suggest.
    pub fn fitting_parsers(&self) -> [Option<auto::Choice>; 2] {
        let template = self.templates.resolve(None, true).map(|template| template.source().to_owned());
        let vocabulary = self.parser_vocabulary();
        let facts = auto::Facts {
            model_type: &self.config.model_type,
            template: template.as_deref().unwrap_or_default(),
            vocabulary: &vocabulary,
        };
        [auto::tools(facts), auto::reasoning(facts)]
    }

    /// Replaces the parser `auto` by what the model's files suggest, or by none. Returns the choices with their reasons.
    pub fn choose_parsers(&mut self) -> [Option<auto::Choice>; 2] {
        let choices = self.fitting_parsers();
        for (parser, choice) in
            [&mut self.options.tool_parser, &mut self.options.reasoning_parser].into_iter().zip(&choices)
        {
            if parser.as_deref() == Some("auto") {
                *parser = choice.as_ref().map(|choice| choice.name.to_owned());
            }
        }
        choices
    }

    /// The server's options.
    pub fn options(&self) -> &LoadOptions {
        &self.options
    }

    /// What `config.json` says.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Default sampling parameters.
    pub fn generation(&self) -> &GenerationDefaults {
        &self.generation
    }

    /// Longest prompt plus reply, in tokens.
    pub fn max_model_len(&self) -> u64 {
        self.max_model_len
    }

    /// Width of the model's logits; ids at or above it are outside the vocabulary.
    pub fn vocab_size(&self) -> u64 {
        self.config.vocab_size
    }

    /// The tokenizer's own end of sequence.
    pub fn eos_token_id(&self) -> Option<u32> {
        self.encoder.eos_token_id()
    }

    /// All ids at which the engine stops by itself: the tokenizer's, and those of `generation_config.json`.
    pub fn eos_token_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.eos_token_id().into_iter().collect();
        for id in &self.generation.eos_token_ids {
            if !ids.contains(id) {
                ids.push(*id);
            }
        }
        ids
    }

    /// Text to ids.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Ids to text.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// Every token by its text, and the special ones, as dialects need them.
    pub fn parser_vocabulary(&self) -> parsers::Vocabulary {
        let text = |id: &u32| Some((*id, self.encoder.id_to_token(*id)?));
        parsers::Vocabulary {
            ids: self.encoder.tokens(),
            special: self.encoder.special_ids().iter().filter_map(text).collect(),
            response_template: self.response_template.clone(),
        }
    }

    /// The chat templates.
    pub fn templates(&self) -> &ChatTemplates {
        &self.templates
    }

    /// The server's template variables.
    pub fn default_template_kwargs(&self) -> &Map<String, Value> {
        &self.default_template_kwargs
    }
}
