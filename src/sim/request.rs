//! Reading a generate request.
//!
//! vLLM checks in two places: the API server before it answers ([`read`]), and the engine when the request is admitted
//! ([`Job::admit`]). A streamed request has its status by then, so the second kind arrives as an error event.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::checks;
use super::faults::Faults;
use super::options::Options;
use super::transfer::{self, Transfer};
use crate::api::error::ApiError;

/// A request that passed the first checks.
#[derive(Debug)]
pub(super) struct Job {
    /// The id as the engine writes it: `generate-tokens-` and the client's.
    pub(super) id: String,
    pub(super) model: String,
    pub(super) prompt: Vec<u32>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
    pub(super) return_token_ids: bool,
    pub(super) n: u32,
    pub(super) max_tokens: Option<u32>,
    pub(super) min_tokens: u32,
    pub(super) stop_token_ids: Vec<u32>,
    pub(super) ignore_eos: bool,
    pub(super) seed: Option<u64>,
    /// Candidates per position; `Some(0)` still reports the sampled token.
    pub(super) logprobs: Option<u32>,
    pub(super) prompt_logprobs: Option<u32>,
    pub(super) allowed_token_ids: Option<Vec<u32>>,
    pub(super) scripts: Option<Scripts>,
    pub(super) script_eos: Option<u32>,
    pub(super) script_from: Option<usize>,
    /// Ids and their weights, from which every token is drawn (`distribution`: `[id, weight, id, weight, …]`).
    pub(super) distribution: Vec<(u32, u64)>,
    pub(super) faults: Faults,
    /// What it wants of the KV connector.
    pub(super) transfer: Option<Transfer>,
    /// What the engine itself will say against it.
    admission: Result<(), ApiError>,
}

/// The scripts of a request's choices.
#[derive(Debug)]
pub(super) struct Scripts {
    common: Arc<[u32]>,
    of_choice: HashMap<u32, Arc<[u32]>>,
}

impl Scripts {
    pub(super) fn of(&self, choice: u32) -> Arc<[u32]> {
        self.of_choice.get(&choice).unwrap_or(&self.common).clone()
    }
}

impl Job {
    /// The engine's own checks.
    pub(super) fn admit(&self) -> Result<(), ApiError> {
        self.admission.clone()
    }

    /// The prompt without what an earlier engine said, where the request tells (`script_from`).
    pub(super) fn first_prompt(&self) -> &[u32] {
        let end = self.script_from.unwrap_or(self.prompt.len()).min(self.prompt.len());
        &self.prompt[..end]
    }

    /// Tokens of the reply that exist already.
    pub(super) fn resumed_tokens(&self) -> u64 {
        (self.prompt.len() - self.first_prompt().len()) as u64
    }
}

#[derive(Deserialize)]
pub(super) struct Body {
    pub(super) request_id: Option<String>,
    pub(super) token_ids: Vec<i64>,
    pub(super) sampling_params: Sampling,
    pub(super) model: Option<String>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) return_token_ids: Option<bool>,
    pub(super) output_mode: Option<String>,
    pub(super) kv_transfer_params: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Sampling {
    pub(super) n: Option<i64>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) top_k: Option<i64>,
    pub(super) max_tokens: Option<i64>,
    pub(super) min_tokens: Option<i64>,
    pub(super) stop: Option<Stop>,
    pub(super) stop_token_ids: Option<Vec<i64>>,
    pub(super) ignore_eos: Option<bool>,
    pub(super) seed: Option<i64>,
    pub(super) logprobs: Option<i64>,
    pub(super) prompt_logprobs: Option<i64>,
    pub(super) allowed_token_ids: Option<Vec<i64>>,
    pub(super) logit_bias: Option<HashMap<i64, f64>>,
    pub(super) structured_outputs: Option<HashMap<String, Value>>,
    pub(super) detokenize: Option<bool>,
    pub(super) extra_args: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Stop {
    Many(Vec<String>),
    One(IgnoredAny),
}

impl Sampling {
    pub(super) fn has_stop(&self) -> bool {
        match &self.stop {
            None => false,
            Some(Stop::Many(list)) => !list.is_empty(),
            Some(Stop::One(_)) => true,
        }
    }
}

/// Reads a body. `header_id` is the `X-Request-Id` header, which wins over `request_id`.
pub(super) fn read(body: &[u8], header_id: Option<&str>, options: &Options) -> Result<Job, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| ApiError::detail(400, "There was an error parsing the body"))?;
    let body: Body = serde_json::from_str(text).map_err(|error| explain(text, &error))?;
    let prompt = token_ids(&body.token_ids)?;
    let sampling = &body.sampling_params;
    checks::sampling(sampling)?;
    checks::server(&body, options)?;
    let extra = Extra::read(sampling.extra_args.as_deref())?;
    let admission = checks::admission(sampling, &prompt, &extra, options);
    let transfer = match body.kv_transfer_params.as_ref().filter(|_| options.kv_connector) {
        Some(params) => transfer::read(params, &prompt, sampling.max_tokens)?,
        None => None,
    };
    let id = header_id.or(body.request_id.as_deref()).unwrap_or("sim");
    let usage = body.stream_options.as_ref();
    let include_usage = usage.is_some_and(|options| options.include_usage == Some(true));
    Ok(Job {
        id: format!("generate-tokens-{id}"),
        model: body.model.or_else(|| options.model_name.first().cloned()).unwrap_or_default(),
        prompt,
        stream: body.stream == Some(true),
        include_usage,
        continuous_usage: include_usage && usage.is_some_and(|options| options.continuous_usage_stats == Some(true)),
        return_token_ids: body.return_token_ids == Some(true),
        n: small(sampling.n).unwrap_or(1),
        max_tokens: small(sampling.max_tokens),
        min_tokens: small(sampling.min_tokens).unwrap_or(0),
        stop_token_ids: ids(sampling.stop_token_ids.as_deref()).unwrap_or_default(),
        ignore_eos: sampling.ignore_eos == Some(true),
        seed: sampling.seed.map(i64::cast_unsigned),
        logprobs: small(sampling.logprobs),
        prompt_logprobs: small(sampling.prompt_logprobs),
        allowed_token_ids: ids(sampling.allowed_token_ids.as_deref()),
        scripts: extra.scripts(sampling.seed, small(sampling.n).unwrap_or(1)).ok().flatten(),
        script_eos: extra.number("script_eos").and_then(|eos| u32::try_from(eos).ok()),
        script_from: extra.number("script_from").and_then(|from| usize::try_from(from).ok()),
        distribution: extra.distribution(),
        faults: extra.faults.or(&options.faults),
        transfer,
        admission,
    })
}

fn small(value: Option<i64>) -> Option<u32> {
    value.map(|value| u32::try_from(value).unwrap_or(u32::MAX))
}

fn ids(list: Option<&[i64]>) -> Option<Vec<u32>> {
    Some(list?.iter().filter_map(|id| u32::try_from(*id).ok()).collect())
}

fn token_ids(list: &[i64]) -> Result<Vec<u32>, ApiError> {
    if list.is_empty() {
        return Err(invalid("token_ids", "List should have at least 1 item after validation, not 0"));
    }
    if list.iter().any(|id| *id < 0) {
        return Err(invalid("token_ids", "Value error, token_ids must not contain negative values"));
    }
    Ok(list.iter().map(|id| u32::try_from(*id).unwrap_or(u32::MAX)).collect())
}

pub(super) fn invalid(field: &str, message: &str) -> ApiError {
    let param = format!("body.{field}");
    ApiError::invalid_body(Some(&param), format!("1 validation error:\n  {{'loc': '{param}', 'msg': '{message}'}}"))
}

/// Which field a body that could not be read is about. Only for errors, so it may read the body again.
fn explain(text: &str, error: &serde_json::Error) -> ApiError {
    if text.is_empty() {
        return ApiError::invalid_body(Some("body"), "1 validation error:\n  {'loc': 'body', 'msg': 'Field required'}");
    }
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return invalid(&error.column().to_string(), "JSON decode error");
    };
    let Value::Object(object) = value else {
        let message = "1 validation error:\n  {'loc': 'body', 'msg': 'Input should be a valid dictionary'}";
        return ApiError::invalid_body(Some("body"), message);
    };
    for field in ["token_ids", "sampling_params"] {
        if !object.contains_key(field) {
            return invalid(field, "Field required");
        }
    }
    let not_integer = |value: &Value| value.as_i64().is_none();
    match object.get("token_ids").and_then(Value::as_array).map(|ids| ids.iter().position(not_integer)) {
        None => invalid("token_ids", "Input should be a valid list"),
        Some(Some(at)) => invalid(&format!("token_ids.{at}"), "Input should be a valid integer"),
        Some(None) => invalid("sampling_params", &format!("Input should be an instance of SamplingParams ({error})")),
    }
}

/// `sampling_params.extra_args`, read only as far as the simulator knows it.
#[derive(Default)]
pub(super) struct Extra {
    fields: HashMap<String, Box<RawValue>>,
    faults: Faults,
}

impl Extra {
    fn read(raw: Option<&RawValue>) -> Result<Self, ApiError> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        let fields = serde_json::from_str(raw.get())
            .map_err(|_| invalid("sampling_params", "extra_args should be a valid dictionary"))?;
        let faults = serde_json::from_str(raw.get())
            .map_err(|error| ApiError::bad_request(format!("bad fault in extra_args: {error}")))?;
        Ok(Self { fields, faults })
    }

    fn number(&self, key: &str) -> Option<i64> {
        serde_json::from_str(self.fields.get(key)?.get()).ok()
    }

    fn distribution(&self) -> Vec<(u32, u64)> {
        let list = self.fields.get("distribution").and_then(|raw| serde_json::from_str::<Vec<u32>>(raw.get()).ok());
        list.unwrap_or_default().as_chunks().0.iter().map(|[id, weight]| (*id, u64::from(*weight))).collect()
    }

    /// The script of every choice: choice i has the seed `seed + i`, and says `script_j` with j its distance from
    /// `script_seed`, where there is one.
    pub(super) fn scripts(&self, seed: Option<i64>, n: u32) -> Result<Option<Scripts>, ApiError> {
        let Some(common) = self.fields.get("script") else { return Ok(None) };
        let common = script_ids(common)?;
        let mut of_choice = HashMap::new();
        if let (Some(seed), Some(base)) = (seed, self.number("script_seed")) {
            for choice in 0..n {
                let distance = seed.saturating_add(i64::from(choice)).saturating_sub(base);
                if let Some(script) = self.fields.get(&format!("script_{distance}")) {
                    of_choice.insert(choice, script_ids(script)?);
                }
            }
        }
        Ok(Some(Scripts { common, of_choice }))
    }
}

/// A list of ids, one id, or ids in a string, separated by commas or spaces.
fn script_ids(raw: &RawValue) -> Result<Arc<[u32]>, ApiError> {
    let text = raw.get();
    let listed: Result<Vec<u32>, String> = match text.as_bytes().first() {
        Some(b'[') => serde_json::from_str(text).map_err(|error| error.to_string()),
        Some(b'"') => match serde_json::from_str::<String>(text) {
            Ok(list) => list.split([',', ' ']).filter(|id| !id.is_empty()).map(script_id).collect(),
            Err(error) => Err(error.to_string()),
        },
        _ => script_id(text).map(|id| vec![id]),
    };
    listed.map(Arc::from).map_err(|why| ApiError::bad_request(format!("bad script: {why}")))
}

fn script_id(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("invalid literal for int() with base 10: '{text}'"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(sampling: Value) -> Result<Job, ApiError> {
        let body = json!({"token_ids": [1, 2, 3], "sampling_params": sampling}).to_string();
        read(body.as_bytes(), None, &Options::default())
    }

    #[test]
    fn scripts_come_as_lists_numbers_and_strings() {
        for script in [json!([4, 5]), json!("4,5"), json!(" 4 5 ")] {
            let job = job(json!({"extra_args": {"script": script}})).unwrap();
            assert_eq!(&*job.scripts.unwrap().of(0), [4, 5]);
        }
        assert_eq!(&*job(json!({"extra_args": {"script": 4}})).unwrap().scripts.unwrap().of(0), [4]);
    }

    #[test]
    fn each_choice_finds_its_script_by_seed() {
        let extra = json!({"script": [1], "script_seed": 10, "script_1": [2], "script_2": "3"});
        let scripts = job(json!({"n": 2, "seed": 11, "extra_args": extra})).unwrap().scripts.unwrap();
        assert_eq!((&*scripts.of(0), &*scripts.of(1)), (&[2][..], &[3][..]));
    }

    #[test]
    fn what_the_engine_refuses_is_not_refused_before_admission() {
        let job = job(json!({"logprobs": 21})).unwrap();
        assert_eq!(job.admit().unwrap_err().status, 400);
    }

    #[test]
    fn a_resumed_request_knows_its_first_prompt() {
        let job = job(json!({"extra_args": {"script": [9], "script_from": 2}})).unwrap();
        assert_eq!(job.first_prompt(), [1, 2]);
        assert_eq!(job.resumed_tokens(), 1);
    }
}
