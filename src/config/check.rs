//! From what the file and the flags say to [`Settings`]: defaults are filled in, values are checked.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::expand::secret;
use super::file::{DiscoveryFile, EngineFile, File, ModelFile};
use super::problem::Problems;
use super::{Access, DiscoverySettings, EngineSettings, ModelSettings, Settings};
use crate::engine::dns::Question;
use crate::engine::member::{Place, Role};
use crate::model::LoadOptions;
use crate::model::template::ContentFormat;

/// What vLLM listens on too.
const DEFAULT_HOST: &str = "0.0.0.0";
const DEFAULT_PORT: u16 = 8000;
/// Long prompts are a few MiB of JSON; what is larger is an accident or an attack.
const DEFAULT_MAX_BODY_BYTES: usize = 32 << 20;
/// Load balancers look every few seconds.
const DEFAULT_DRAIN_GRACE: Duration = Duration::from_secs(5);
/// With the grace just below what Kubernetes waits before it kills.
const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(24);
/// Reading the file is nothing; a change is wanted soon.
const DEFAULT_RELOAD_INTERVAL: Duration = Duration::from_secs(5);
/// As Kubernetes' own DNS keeps answers.
const DEFAULT_DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// Fills in defaults; what is wrong goes to `problems`, and the settings are of no use then.
pub(super) fn settings(file: File, problems: &mut Problems) -> Settings {
    if file.models.is_empty() {
        problems.add("models", "none is given; name one with --model, COUPLET_MODEL or models: in the file");
    }
    let mut api_keys = Vec::new();
    for (at, written) in file.api_key.into_iter().enumerate() {
        let key = format!("api_key[{at}]");
        if written.is_empty() {
            problems.add(&key, "an empty key would let everybody in; remove it or give one");
        }
        api_keys.push(secret(&key, written, problems));
    }
    let admin = file.admin.inspect(|written| check_address("admin", written, problems));
    let drain_grace = time("drain_grace", file.drain_grace, problems).unwrap_or(DEFAULT_DRAIN_GRACE);
    let drain_timeout = time("drain_timeout", file.drain_timeout, problems).unwrap_or(DEFAULT_DRAIN_TIMEOUT);
    let reload_interval = time("reload_interval", file.reload_interval, problems).unwrap_or(DEFAULT_RELOAD_INTERVAL);
    let models = file.models.into_iter().enumerate().filter_map(|(at, model)| check_model(at, model, problems));
    let models: Vec<ModelSettings> = models.collect();
    check_names(&models, problems);
    Settings {
        host: file.host.unwrap_or_else(|| DEFAULT_HOST.to_owned()),
        port: file.port.unwrap_or(DEFAULT_PORT),
        admin,
        api_keys,
        max_body_bytes: file.max_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES),
        vllm_metric_names: file.vllm_metric_names.unwrap_or(false),
        drain_grace,
        drain_timeout,
        log_prompts: file.log_prompts.unwrap_or(false),
        reload_interval: Some(reload_interval).filter(|interval| !interval.is_zero()),
        models,
    }
}

/// What is no address with a port cannot be listened on.
fn check_address(key: &str, written: &str, problems: &mut Problems) {
    let port = written.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(_))) {
        problems.add(key, format!("{written:?} is no address with a port; give one such as 127.0.0.1:9100"));
    }
}

/// A name that two models have would always mean the first.
fn check_names(models: &[ModelSettings], problems: &mut Problems) {
    let mut seen = HashMap::new();
    for (at, model) in models.iter().enumerate() {
        let names = &model.load.served_model_names;
        for name in if names.is_empty() { std::slice::from_ref(&model.load.model) } else { names } {
            match seen.entry(name.as_str()) {
                Entry::Occupied(first) if *first.get() != at => {
                    let first = first.get();
                    let said = format!("{name:?} is a name of models[{first}] already; give another");
                    problems.add(format!("models[{at}].served_model_name"), said);
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(entry) => {
                    entry.insert(at);
                }
            }
        }
    }
}

fn check_model(at: usize, file: ModelFile, problems: &mut Problems) -> Option<ModelSettings> {
    let path = format!("models[{at}]");
    let Some(model) = file.model.filter(|model| !model.is_empty()) else {
        problems.add(format!("{path}.model"), "missing; give a directory or a hub id (--model)");
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
        Some(other) => problems.add(
            format!("{path}.chat_template_content_format"),
            format!("{other:?} is not one of auto, string, openai"),
        ),
    }
    let mut found = Vec::new();
    let pool = file.pool.check(&format!("{path}.pool"), &mut found);
    problems.add_lines(found);
    let engines = check_engines(&path, file.engines, problems);
    let discovery = file.discovery.and_then(|file| check_discovery(&format!("{path}.discovery"), file, problems));
    let only_computes = |engine: &EngineSettings| engine.place.role == Some(Role::Prefill);
    if discovery.is_none() && !engines.is_empty() && engines.iter().all(only_computes) {
        problems.add(format!("{path}.engines"), "all have the role prefill, so that none answers; add one to decode");
    }
    Some(ModelSettings { load, engines, discovery, pool })
}

fn check_engines(path: &str, files: Vec<EngineFile>, problems: &mut Problems) -> Vec<EngineSettings> {
    let mut engines: Vec<EngineSettings> = Vec::new();
    for (at, file) in files.into_iter().enumerate() {
        let path = format!("{path}.engines[{at}]");
        let engine = check_engine(&path, file, problems);
        if engines.iter().any(|other| other.url == engine.url) && !engine.url.is_empty() {
            problems.add(format!("{path}.url"), format!("{:?} is listed twice; give it a weight instead", engine.url));
        }
        engines.push(engine);
    }
    engines
}

fn check_engine(path: &str, file: EngineFile, problems: &mut Problems) -> EngineSettings {
    if file.url.is_empty() {
        problems.add(format!("{path}.url"), "missing; give the engine's base URL, http://HOST:PORT");
    } else if let Err(reason) = check_url(&file.url) {
        problems.add(format!("{path}.url"), format!("{:?} {reason}", file.url));
    }
    let weight = file.weight.unwrap_or(1);
    if weight == 0 {
        problems.add(format!("{path}.weight"), "weight 0 would never get a request; leave the engine out, or give 1");
    }
    let access = check_access(path, file.model, file.api_key, file.headers, problems);
    EngineSettings {
        url: file.url.trim_end_matches('/').to_owned(),
        place: Place { weight, zone: file.zone, role: file.role },
        access,
    }
}

fn check_access(
    path: &str,
    model: Option<String>,
    api_key: Option<String>,
    written: BTreeMap<String, String>,
    problems: &mut Problems,
) -> Access {
    let mut headers = HeaderMap::new();
    for (name, value) in written {
        let key = format!("{path}.headers.{name}");
        let value = secret(&key, value, problems);
        match (HeaderName::try_from(&name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            (Err(_), _) => problems.add(key, "is no name of an HTTP header"),
            (_, Err(_)) => problems.add(key, "its value cannot stand in an HTTP header"),
        }
    }
    if let Some(written) = api_key.filter(|key| !key.is_empty()) {
        let key = format!("{path}.api_key");
        match HeaderValue::try_from(format!("Bearer {}", secret(&key, written, problems))) {
            Ok(mut value) => {
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
            Err(_) => problems.add(key, "the key cannot stand in an HTTP header"),
        }
    }
    Access { model, headers }
}

fn check_discovery(path: &str, file: DiscoveryFile, problems: &mut Problems) -> Option<DiscoverySettings> {
    let interval = time(&format!("{path}.interval"), file.interval, problems).unwrap_or(DEFAULT_DISCOVERY_INTERVAL);
    if interval.is_zero() {
        problems.add(format!("{path}.interval"), "0 would ask without end; give seconds above 0");
    }
    let access = check_access(path, file.model, file.api_key, file.headers, problems);
    let server = file.server.and_then(|server| {
        let parsed = server.parse().ok();
        if parsed.is_none() {
            problems.add(format!("{path}.server"), format!("{server:?} is no ADDRESS:PORT, such as 10.96.0.10:53"));
        }
        parsed
    });
    let question = match (file.dns, file.srv) {
        (Some(dns), None) => match dns.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
            Some((name, Ok(port))) if !name.is_empty() => Question::Addresses { name: name.to_owned(), port },
            _ => {
                problems.add(format!("{path}.dns"), format!("{dns:?} is no NAME:PORT, such as vllm.default.svc:8000"));
                return None;
            }
        },
        (None, Some(srv)) if !srv.is_empty() => Question::Services(srv),
        _ => {
            problems.add(path, "give either dns: NAME:PORT or srv: NAME");
            return None;
        }
    };
    Some(DiscoverySettings { question, interval, server, access })
}

fn time(key: &str, given: Option<f64>, problems: &mut Problems) -> Option<Duration> {
    let given = given?;
    let time = Duration::try_from_secs_f64(given).ok();
    if time.is_none() {
        problems.add(key, format!("{given} is no time; give seconds, such as 2.5"));
    }
    time
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
