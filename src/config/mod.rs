//! Settings: the YAML file, environment variables and flags, merged and checked.
//!
//! In: [`file::File`] from YAML, over which the command line lays flags and environment. Out: [`Settings`].
//! A flag wins over an environment variable, which wins over the file.

pub mod file;
pub mod pool;

use std::path::Path;

use file::{EngineFile, File, ModelFile};

use crate::engine::pool::{Options, Place};
use crate::model::LoadOptions;
use crate::model::template::ContentFormat;

/// What vLLM listens on too.
const DEFAULT_HOST: &str = "0.0.0.0";
const DEFAULT_PORT: u16 = 8000;
/// Long prompts are a few MiB of JSON; what is larger is an accident or an attack.
const DEFAULT_MAX_BODY_BYTES: usize = 32 << 20;

/// Settings, complete and checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Keys that clients have to present.
    pub api_keys: Vec<String>,
    /// Longest request body, in bytes.
    pub max_body_bytes: usize,
    /// Models to serve, at least one.
    pub models: Vec<ModelSettings>,
}

/// Settings of one model.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// How it is loaded. The parsers in it are as written: a name, `auto`, or `None` for none.
    pub load: LoadOptions,
    /// Its engines.
    pub engines: Vec<EngineSettings>,
    /// How requests are shared out among them.
    pub pool: Options,
}

/// Settings of one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSettings {
    /// Base URL.
    pub url: String,
    /// Where it stands in its pool.
    pub place: Place,
}

/// Everything that is wrong with the settings, one line each.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub struct ConfigError {
    /// The problems: key, value, what to do.
    pub problems: Vec<String>,
}

impl File {
    /// Reads a YAML file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let problem = |reason: String| ConfigError { problems: vec![format!("{}: {reason}", path.display())] };
        let text = std::fs::read_to_string(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
        serde_saphyr::from_str(&text).map_err(|error| problem(error.to_string()))
    }

    /// Fills in defaults and checks everything.
    pub fn check(self) -> Result<Settings, ConfigError> {
        let mut problems = Vec::new();
        if self.models.is_empty() {
            problems
                .push("models: none is given; name one with --model, COUPLET_MODEL or models: in the file".to_owned());
        }
        if self.api_key.iter().any(String::is_empty) {
            problems.push("api_key: an empty key would let everybody in; remove it or give one".to_owned());
        }
        let models: Vec<ModelSettings> = self
            .models
            .into_iter()
            .enumerate()
            .filter_map(|(at, model)| check_model(at, model, &mut problems))
            .collect();
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        Ok(Settings {
            host: self.host.unwrap_or_else(|| DEFAULT_HOST.to_owned()),
            port: self.port.unwrap_or(DEFAULT_PORT),
            api_keys: self.api_key,
            max_body_bytes: self.max_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES),
            models,
        })
    }
}

fn check_model(at: usize, file: ModelFile, problems: &mut Vec<String>) -> Option<ModelSettings> {
    let Some(model) = file.model.filter(|model| !model.is_empty()) else {
        problems.push(format!("models[{at}].model: missing; give a directory or a hub id (--model)"));
        return None;
    };
    let mut load = LoadOptions::new(model);
    load.revision = file.revision;
    load.served_model_names = file.served_model_name;
    load.chat_template = file.chat_template;
    load.trust_request_chat_template = file.trust_request_chat_template.unwrap_or(false);
    load.default_chat_template_kwargs = file.default_chat_template_kwargs.unwrap_or_default();
    load.max_model_len = file.max_model_len;
    load.tool_parser = parser(file.tool_call_parser);
    load.reasoning_parser = parser(file.reasoning_parser);
    load.enable_auto_tool_choice = file.enable_auto_tool_choice.unwrap_or(false);
    load.override_generation_config = file.override_generation_config.unwrap_or_default();
    load.exclude_tools_when_tool_choice_none = file.exclude_tools_when_tool_choice_none.unwrap_or(false);
    load.escape_special_tokens = file.escape_special_tokens.unwrap_or(false);
    if let Some(max) = file.max_logprobs {
        load.max_logprobs = max;
    }
    if let Some(config) = file.generation_config {
        load.generation_config = config;
    }
    match file.chat_template_content_format.as_deref() {
        None | Some("auto") => {}
        Some("string") => load.content_format = ContentFormat::String,
        Some("openai") => load.content_format = ContentFormat::Openai,
        Some(other) => problems
            .push(format!("models[{at}].chat_template_content_format: {other:?} is not one of auto, string, openai")),
    }
    let pool = file.pool.check(&format!("models[{at}].pool"), problems);
    let engines = file.engines.into_iter().map(|engine| check_engine(at, engine, problems)).collect();
    Some(ModelSettings { load, engines, pool })
}

fn check_engine(at: usize, file: EngineFile, problems: &mut Vec<String>) -> EngineSettings {
    if let Err(reason) = check_url(&file.url) {
        problems.push(format!("models[{at}].engines: {:?} {reason}", file.url));
    }
    let weight = file.weight.unwrap_or(1);
    if weight == 0 {
        problems
            .push(format!("models[{at}].engines: weight 0 of {:?} would never get a request; leave it out", file.url));
    }
    EngineSettings { url: file.url, place: Place { weight, zone: file.zone } }
}

/// `none` is no parser.
fn parser(name: Option<String>) -> Option<String> {
    name.filter(|name| !name.is_empty() && name != "none")
}

fn check_url(url: &str) -> Result<(), String> {
    let parsed: http::Uri = url.parse().map_err(|error| format!("is no URL ({error}); write http://HOST:PORT"))?;
    match (parsed.scheme_str(), parsed.host()) {
        (Some("http" | "https"), Some(_)) => Ok(()),
        _ => Err("is no base URL of an engine; write http://HOST:PORT".to_owned()),
    }
}
