//! The YAML file as written. Every key is optional; unknown keys are refused. Times are in seconds.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::pool::PoolFile;
use crate::engine::member::Role;

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the keys of a configuration")]
pub struct File {
    /// Address to listen on.
    pub host: Option<String>,
    /// Port to listen on.
    pub port: Option<u16>,
    /// `ADDRESS:PORT` where `/metrics` and `/debug/engines` are, apart from clients.
    pub admin: Option<String>,
    /// Keys that clients have to present, or `file:PATH` of one.
    pub api_key: Vec<String>,
    /// Longest request body, in bytes.
    pub max_body_bytes: Option<usize>,
    /// Whether `/metrics` tells of replies under vLLM's names too.
    pub vllm_metric_names: Option<bool>,
    /// After a signal to stop: how long requests are still taken, so that load balancers see that readiness is off.
    pub drain_grace: Option<f64>,
    /// After that: how long streams may go on.
    pub drain_timeout: Option<f64>,
    /// Whether prompts and replies are written to the log.
    pub log_prompts: Option<bool>,
    /// How often the file is looked at; 0: only on SIGHUP.
    pub reload_interval: Option<f64>,
    /// Models to serve. Flags and environment variables speak of the first.
    pub models: Vec<ModelFile>,
}

/// One model.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the keys of a model")]
pub struct ModelFile {
    /// A directory or a hub id.
    pub model: Option<String>,
    /// Branch, tag or commit on the hub.
    pub revision: Option<String>,
    /// What clients call it.
    pub served_model_name: Vec<String>,
    /// The engines that run it.
    pub engines: Vec<EngineFile>,
    /// Engines that DNS tells of, beside those.
    pub discovery: Option<DiscoveryFile>,
    /// How requests are shared out among them.
    pub pool: PoolFile,
    /// A tool parser's name, `auto` or `none`.
    pub tool_call_parser: Option<String>,
    /// A reasoning parser's name, `auto` or `none`.
    pub reasoning_parser: Option<String>,
    /// Whether the model may decide to call tools.
    pub enable_auto_tool_choice: Option<bool>,
    /// A file, or the template itself.
    pub chat_template: Option<String>,
    /// `auto`, `string` or `openai`.
    pub chat_template_content_format: Option<String>,
    /// Whether requests may bring their own template.
    pub trust_request_chat_template: Option<bool>,
    /// Template arguments for requests that give none.
    pub default_chat_template_kwargs: Option<Map<String, Value>>,
    /// Longest prompt plus reply, in tokens.
    pub max_model_len: Option<u64>,
    /// Most candidates per position.
    pub max_logprobs: Option<i64>,
    /// `auto`, `vllm` or a directory.
    pub generation_config: Option<String>,
    /// Overrides of the generation config.
    pub override_generation_config: Option<Map<String, Value>>,
    /// Leaves tools out of the prompt where `tool_choice` is none.
    pub exclude_tools_when_tool_choice_none: Option<bool>,
    /// Encodes message text that spells a special token as ordinary text.
    pub escape_special_tokens: Option<bool>,
}

/// One engine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the keys of an engine")]
pub struct EngineFile {
    /// Base URL, such as `http://127.0.0.1:8000`.
    pub url: String,
    /// Its share of the requests, compared with the other engines'.
    pub weight: Option<u32>,
    /// Where it runs; a pool prefers engines of its own zone.
    pub zone: Option<String>,
    /// `prefill` or `decode`, where these are apart.
    pub role: Option<Role>,
    /// What it calls the model, where that is neither a served name nor the model's path.
    pub model: Option<String>,
    /// The key that it wants, or `file:PATH` of it.
    pub api_key: Option<String>,
    /// Further headers for it; a value may be `file:PATH`.
    pub headers: BTreeMap<String, String>,
}

/// Engines that DNS tells of.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the keys of a discovery")]
pub struct DiscoveryFile {
    /// `NAME:PORT`: an engine per address of the name.
    pub dns: Option<String>,
    /// A name with SRV records: an engine per address of each target, at the record's port, with its weight.
    pub srv: Option<String>,
    /// How often DNS is asked.
    pub interval: Option<f64>,
    /// `ADDRESS:PORT` of the DNS server to ask, instead of the system's.
    pub server: Option<String>,
    /// What the engines call the model.
    pub model: Option<String>,
    /// The key that they want, or `file:PATH` of it.
    pub api_key: Option<String>,
    /// Further headers for them.
    pub headers: BTreeMap<String, String>,
}
