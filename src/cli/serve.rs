//! Flags of `couplet serve`. Each has an environment variable and a key in the YAML file.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};

use crate::app::{App, Source, StartError};
use crate::config::file::{EngineFile, ModelFile};
use crate::config::{ConfigError, Draft, Problems, Settings};
use crate::engine::connections::http_client;
use crate::traces::Tracer;

/// Longest wait for a connection to where spans are exported.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// Address and port of a listener of its own for /metrics and /debug/engines, without a key (default: none).
    #[arg(long, env = "COUPLET_ADMIN", value_name = "ADDRESS:PORT")]
    pub admin: Option<String>,
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
    /// Write every prompt and reply of the coupled routes to the log, as clear text.
    #[arg(long, env = "COUPLET_LOG_PROMPTS", num_args = 0..=1, default_missing_value = "true")]
    pub log_prompts: Option<bool>,
    /// Tell of replies in /metrics under vLLM's names too (vllm:time_to_first_token_seconds and others).
    #[arg(long, env = "COUPLET_VLLM_METRIC_NAMES", num_args = 0..=1, default_missing_value = "true")]
    pub vllm_metric_names: Option<bool>,
}

impl ServeArgs {
    /// Merges flags and environment over the file, and checks the result.
    pub fn settings(self) -> Result<Settings, ConfigError> {
        let mut draft = self.config.as_deref().map(Draft::read).transpose()?.unwrap_or_default();
        self.lay_over(&mut draft);
        draft.check()
    }

    fn lay_over(self, Draft { file, problems }: &mut Draft) {
        let mut over = Over(problems);
        lay_over!(over, "", file, self: host port admin max_body_bytes vllm_metric_names log_prompts);
        over.set_list("api_key", &mut file.api_key, self.api_key);
        if file.models.is_empty() {
            file.models.push(ModelFile::default());
        }
        let model = &mut file.models[0];
        over.set("models[0].model", &mut model.model, self.model.or(self.model_tag));
        over.set_list("models[0].served_model_name", &mut model.served_model_name, self.served_model_name);
        let engines = self.engine.into_iter().map(|url| EngineFile { url, ..EngineFile::default() });
        over.set_list("models[0].engines", &mut model.engines, engines.collect());
        lay_over!(over, "models[0].", model, self: revision tool_call_parser reasoning_parser enable_auto_tool_choice
            chat_template chat_template_content_format trust_request_chat_template default_chat_template_kwargs
            max_model_len max_logprobs generation_config override_generation_config
            exclude_tools_when_tool_choice_none escape_special_tokens);
    }
}

/// Lays the flags of these names over the keys of the same names.
macro_rules! lay_over {
    ($over:ident, $path:literal, $into:ident, $flags:ident: $($name:ident)*) => {$(
        $over.set(concat!($path, stringify!($name)), &mut $into.$name, $flags.$name);
    )*};
}
use lay_over;

/// Lays what flags give over what the file gives.
struct Over<'a>(&'a mut Problems);

impl Over<'_> {
    fn set<T>(&mut self, key: &str, into: &mut Option<T>, value: Option<T>) {
        if value.is_some() {
            *into = value;
            self.0.overlaid(key);
        }
    }

    fn set_list<T>(&mut self, key: &str, into: &mut Vec<T>, values: Vec<T>) {
        if !values.is_empty() {
            *into = values;
            self.0.overlaid(key);
        }
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
    let (runtime, settings) = (super::runtime()?, args.clone().settings()?);
    let source = {
        let _entered = runtime.enter();
        Source::new(move || args.clone().settings())
    };
    let tracer = Tracer::from_environment(runtime.handle(), http_client(COLLECTOR_TIMEOUT)?)?;
    let app = App::load(settings)?.reloading_from(source).tracing_to(tracer);
    runtime.block_on(async {
        let doors = app.listen().await?;
        if let Ok(address) = doors.clients.local_addr() {
            let admin = doors.admin.as_ref().and_then(|door| door.local_addr().ok());
            tracing::info!(%address, admin = admin.map(tracing::field::display), "listening");
        }
        tokio::select! {
            () = app.serve(doors, super::stop_signal()) => {}
            () = twice() => tracing::warn!("told to stop a second time; what still goes on is dropped"),
        }
        Ok(())
    })
}

/// Done when couplet was told to stop, and told again.
async fn twice() {
    super::stop_signal().await;
    super::stop_signal().await;
}
