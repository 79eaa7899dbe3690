//! Flags of `couplet serve`. Each has an environment variable and a key in the YAML file.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value};

use crate::app::{App, StartError};
use crate::config::file::{EngineFile, File, ModelFile};
use crate::config::{ConfigError, Settings};

/// Flags that exist in vLLM have vLLM's name and meaning.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Model directory or hub id (may also be given as --model).
    #[arg(value_name = "MODEL")]
    pub model_tag: Option<String>,
    /// YAML file with all settings; flags and environment variables win over it.
    #[arg(long, env = "COUPLET_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Model directory or hub id.
    #[arg(long, env = "COUPLET_MODEL", value_name = "DIR_OR_HUB_ID")]
    pub model: Option<String>,
    /// Branch, tag or commit of the model on the hub.
    #[arg(long, env = "COUPLET_REVISION", value_name = "REVISION")]
    pub revision: Option<String>,
    /// Names under which clients may ask for the model.
    #[arg(long, env = "COUPLET_SERVED_MODEL_NAME", value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    pub served_model_name: Vec<String>,
    /// Base URL of an engine; may be given several times.
    #[arg(long, env = "COUPLET_ENGINE", value_name = "URL", value_delimiter = ',')]
    pub engine: Vec<String>,
    /// Address to listen on.
    #[arg(long, env = "COUPLET_HOST", value_name = "ADDRESS")]
    pub host: Option<String>,
    /// Port to listen on.
    #[arg(long, env = "COUPLET_PORT", value_name = "PORT")]
    pub port: Option<u16>,
    /// Tool call parser: a name, auto or none.
    #[arg(long, env = "COUPLET_TOOL_CALL_PARSER", value_name = "NAME|auto|none")]
    pub tool_call_parser: Option<String>,
    /// Reasoning parser: a name, auto or none.
    #[arg(long, env = "COUPLET_REASONING_PARSER", value_name = "NAME|auto|none")]
    pub reasoning_parser: Option<String>,
    /// Let the model decide to call tools.
    #[arg(long, env = "COUPLET_ENABLE_AUTO_TOOL_CHOICE", num_args = 0..=1, default_missing_value = "true")]
    pub enable_auto_tool_choice: Option<bool>,
    /// Chat template: a file or the template itself.
    #[arg(long, env = "COUPLET_CHAT_TEMPLATE", value_name = "FILE_OR_TEXT")]
    pub chat_template: Option<String>,
    /// Whether the template takes message content as a string or as OpenAI's parts.
    #[arg(long, env = "COUPLET_CHAT_TEMPLATE_CONTENT_FORMAT", value_name = "auto|string|openai")]
    pub chat_template_content_format: Option<String>,
    /// Accept chat templates that come with requests.
    #[arg(long, env = "COUPLET_TRUST_REQUEST_CHAT_TEMPLATE", num_args = 0..=1, default_missing_value = "true")]
    pub trust_request_chat_template: Option<bool>,
    /// Template arguments for requests that give none, as a JSON object.
    #[arg(long, env = "COUPLET_DEFAULT_CHAT_TEMPLATE_KWARGS", value_name = "JSON", value_parser = json_object)]
    pub default_chat_template_kwargs: Option<Map<String, Value>>,
    /// Longest prompt plus reply, in tokens.
    #[arg(long, env = "COUPLET_MAX_MODEL_LEN", value_name = "TOKENS")]
    pub max_model_len: Option<u64>,
    /// Most candidates per position that a request may ask for; -1 for the whole vocabulary.
    #[arg(long, env = "COUPLET_MAX_LOGPROBS", value_name = "N", allow_negative_numbers = true)]
    pub max_logprobs: Option<i64>,
    /// Default sampling parameters: auto (the model's), vllm (none), or a directory.
    #[arg(long, env = "COUPLET_GENERATION_CONFIG", value_name = "auto|vllm|DIR")]
    pub generation_config: Option<String>,
    /// Overrides of the generation config, as a JSON object.
    #[arg(long, env = "COUPLET_OVERRIDE_GENERATION_CONFIG", value_name = "JSON", value_parser = json_object)]
    pub override_generation_config: Option<Map<String, Value>>,
    /// Leave tools out of the prompt where tool_choice is none.
    #[arg(long, env = "COUPLET_EXCLUDE_TOOLS_WHEN_TOOL_CHOICE_NONE", num_args = 0..=1, default_missing_value = "true")]
    pub exclude_tools_when_tool_choice_none: Option<bool>,
    /// Encode message text that spells a special token as ordinary text.
    #[arg(long, env = "COUPLET_ESCAPE_SPECIAL_TOKENS", num_args = 0..=1, default_missing_value = "true")]
    pub escape_special_tokens: Option<bool>,
    /// Keys that clients have to present.
    #[arg(long, env = "COUPLET_API_KEY", value_name = "KEY", num_args = 1.., value_delimiter = ',', hide_env_values = true)]
    pub api_key: Vec<String>,
    /// Longest request body, in bytes.
    #[arg(long, env = "COUPLET_MAX_BODY_BYTES", value_name = "BYTES")]
    pub max_body_bytes: Option<usize>,
}

impl ServeArgs {
    /// Merges flags and environment over the file, and checks the result.
    pub fn settings(self) -> Result<Settings, ConfigError> {
        let mut file = self.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        self.lay_over(&mut file);
        file.check()
    }

    fn lay_over(self, file: &mut File) {
        set(&mut file.host, self.host);
        set(&mut file.port, self.port);
        set(&mut file.max_body_bytes, self.max_body_bytes);
        set_list(&mut file.api_key, self.api_key);
        if file.models.is_empty() {
            file.models.push(ModelFile::default());
        }
        let model = &mut file.models[0];
        set(&mut model.model, self.model.or(self.model_tag));
        set(&mut model.revision, self.revision);
        set_list(&mut model.served_model_name, self.served_model_name);
        set_list(
            &mut model.engines,
            self.engine.into_iter().map(|url| EngineFile { url, ..EngineFile::default() }).collect(),
        );
        set(&mut model.tool_call_parser, self.tool_call_parser);
        set(&mut model.reasoning_parser, self.reasoning_parser);
        set(&mut model.enable_auto_tool_choice, self.enable_auto_tool_choice);
        set(&mut model.chat_template, self.chat_template);
        set(&mut model.chat_template_content_format, self.chat_template_content_format);
        set(&mut model.trust_request_chat_template, self.trust_request_chat_template);
        set(&mut model.default_chat_template_kwargs, self.default_chat_template_kwargs);
        set(&mut model.max_model_len, self.max_model_len);
        set(&mut model.max_logprobs, self.max_logprobs);
        set(&mut model.generation_config, self.generation_config);
        set(&mut model.override_generation_config, self.override_generation_config);
        set(&mut model.exclude_tools_when_tool_choice_none, self.exclude_tools_when_tool_choice_none);
        set(&mut model.escape_special_tokens, self.escape_special_tokens);
    }
}

fn set<T>(into: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *into = value;
    }
}

fn set_list<T>(into: &mut Vec<T>, values: Vec<T>) {
    if !values.is_empty() {
        *into = values;
    }
}

fn json_object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("is not a JSON object; write {\"key\": value}".to_owned()),
        Err(error) => Err(format!("is not JSON ({error}); write {{\"key\": value}}")),
    }
}

/// Serves until a signal says stop.
pub fn run(args: ServeArgs) -> Result<(), StartError> {
    let app = App::load(args.settings()?)?;
    super::runtime()?.block_on(async {
        let listener = app.listen().await?;
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "listening");
        }
        app.serve(listener, super::stop_signal()).await;
        Ok(())
    })
}
