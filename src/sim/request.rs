//! Reading and checking a generate request, with the real engine's wording.
//!
//! vLLM checks in two places: the API server before it answers ([`read`]), and the engine when the request is admitted
//! ([`Job::admit`]). A streamed request has its status by then, so the second kind arrives as an error event.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::faults::Faults;
use super::options::Options;
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
    pub(super) faults: Faults,
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
struct Body {
    request_id: Option<String>,
    token_ids: Vec<i64>,
    sampling_params: Sampling,
    model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    return_token_ids: Option<bool>,
    output_mode: Option<String>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Sampling {
    n: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    max_tokens: Option<i64>,
    min_tokens: Option<i64>,
    stop: Option<Stop>,
    stop_token_ids: Option<Vec<i64>>,
    ignore_eos: Option<bool>,
    seed: Option<i64>,
    logprobs: Option<i64>,
    prompt_logprobs: Option<i64>,
    allowed_token_ids: Option<Vec<i64>>,
    logit_bias: Option<HashMap<i64, f64>>,
    structured_outputs: Option<HashMap<String, Value>>,
    detokenize: Option<bool>,
    extra_args: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stop {
    Many(Vec<String>),
    One(IgnoredAny),
}

/// Reads a body. `header_id` is the `X-Request-Id` header, which wins over `request_id`.
pub(super) fn read(body: &[u8], header_id: Option<&str>, options: &Options) -> Result<Job, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| ApiError::detail(400, "There was an error parsing the body"))?;
    let body: Body = serde_json::from_str(text).map_err(|error| explain(text, &error))?;
    let prompt = token_ids(&body.token_ids)?;
    let sampling = &body.sampling_params;
    check_sampling(sampling)?;
    check_server(&body, options)?;
    let extra = Extra::read(sampling.extra_args.as_deref())?;
    let admission = check_admission(sampling, &prompt, &extra, options);
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
        faults: extra.faults.or(&options.faults),
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

fn invalid(field: &str, message: &str) -> ApiError {
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

/// `SamplingParams`' checks of itself.
fn check_sampling(sampling: &Sampling) -> Result<(), ApiError> {
    let n = sampling.n.unwrap_or(1);
    if n < 1 {
        return Err(ApiError::bad_request(format!("n must be at least 1, got {n}.")));
    }
    if let Some(temperature) = sampling.temperature.filter(|t| *t < 0.0) {
        let message = "temperature must be non-negative, got";
        return Err(bad_value("temperature", format!("{message} {temperature:?}."), &format!("{temperature:?}")));
    }
    if let Some(top_p) = sampling.top_p.filter(|p| *p <= 0.0 || *p > 1.0) {
        return Err(bad_value("top_p", format!("top_p must be in (0, 1], got {top_p:?}."), &format!("{top_p:?}")));
    }
    if let Some(top_k) = sampling.top_k.filter(|k| *k < -1) {
        return Err(ApiError::bad_request(format!("top_k must be 0 (disable), or at least 1, got {top_k}.")));
    }
    check_lengths(sampling)?;
    if let Some(k) = sampling.prompt_logprobs.filter(|k| *k < -1) {
        let message = format!("prompt_logprobs must be non-negative or -1, got {k}.");
        return Err(bad_value("prompt_logprobs", message, &k.to_string()));
    }
    if sampling.detokenize == Some(false) && sampling.has_stop() {
        return Err(ApiError::bad_request(
            "stop strings are only supported when detokenize is True. Set detokenize=True to use stop.",
        ));
    }
    if sampling.temperature == Some(0.0) && n > 1 {
        return Err(ApiError::bad_request(format!("n must be 1 when using greedy sampling, got {n}.")));
    }
    check_grammar_kinds(sampling)
}

fn check_lengths(sampling: &Sampling) -> Result<(), ApiError> {
    let min = sampling.min_tokens.unwrap_or(0);
    match sampling.max_tokens {
        Some(max) if max < 1 => {
            Err(bad_value("max_tokens", format!("max_tokens must be at least 1, got {max}."), &max.to_string()))
        }
        Some(max) if min > max => {
            Err(ApiError::bad_request(format!("min_tokens must be less than or equal to max_tokens={max}, got {min}.")))
        }
        _ => Ok(()),
    }
}

/// A grammar is one kind of constraint; options that go with it do not count.
fn check_grammar_kinds(sampling: &Sampling) -> Result<(), ApiError> {
    const KINDS: [&str; 6] = ["json", "regex", "choice", "grammar", "json_object", "structural_tag"];
    let Some(grammar) = &sampling.structured_outputs else { return Ok(()) };
    let count = KINDS.iter().filter(|kind| grammar.get(**kind).is_some_and(|value| !value.is_null())).count();
    match count {
        0 => {
            Err(ApiError::bad_request("You must use one kind of structured outputs constraint but none are specified"))
        }
        1 => Ok(()),
        _ => Err(ApiError::bad_request(
            "You can only use one kind of structured outputs constraint but multiple are specified",
        )),
    }
}

impl Sampling {
    fn has_stop(&self) -> bool {
        match &self.stop {
            None => false,
            Some(Stop::Many(list)) => !list.is_empty(),
            Some(Stop::One(_)) => true,
        }
    }
}

/// The generate route's checks.
fn check_server(body: &Body, options: &Options) -> Result<(), ApiError> {
    if let Some(model) = body.model.as_ref().filter(|model| !options.model_name.contains(model)) {
        let names = options.model_name.join(", ");
        let message = format!("The model `{model}` does not exist. Valid aliases: {names}.");
        return Err(ApiError::not_found(Some("model"), message));
    }
    let n = body.sampling_params.n.unwrap_or(1);
    let most = options.max_num_seqs;
    if n > i64::from(most) {
        return Err(ApiError::bad_request(format!(
            "sampling_params.n must be at most the server's max_num_seqs ({most}), got {n}."
        )));
    }
    if !options.scale_out && body.sampling_params.has_stop() {
        return Err(ApiError::bad_request(
            "stop strings are not supported on a --tokens-only server because detokenization is disabled. Check stop \
             strings on the coordinator, or use stop_token_ids.",
        ));
    }
    match body.output_mode.as_deref() {
        None | Some("tokens") => Ok(()),
        Some("text") => Err(ApiError::bad_request(
            "output_mode='text' requires a tokenizer, but this server does not load one (--tokens-only or \
             --skip-tokenizer-init). Send the request to a server that loads a tokenizer, or use output_mode='tokens'.",
        )),
        Some(_) => Err(invalid("output_mode", "Input should be 'tokens' or 'text'")),
    }
}

/// What the engine refuses when the request reaches it.
fn check_admission(sampling: &Sampling, prompt: &[u32], extra: &Extra, options: &Options) -> Result<(), ApiError> {
    check_logprobs(sampling, options)?;
    check_vocabulary("stop_token_ids", sampling.stop_token_ids.iter().flatten(), options)?;
    check_vocabulary("logit_bias", sampling.logit_bias.iter().flat_map(HashMap::keys), options)?;
    if let Some(allowed) = &sampling.allowed_token_ids {
        let problem = if allowed.is_empty() {
            "allowed_token_ids is not None and empty!"
        } else if allowed.iter().any(|id| !(0..i64::from(options.vocab_size)).contains(id)) {
            "allowed_token_ids contains out-of-vocab token id!"
        } else {
            ""
        };
        if !problem.is_empty() {
            return Err(bad_value("allowed_token_ids", problem.to_owned(), &format!("{allowed:?}")));
        }
    }
    if !options.scale_out && sampling.structured_outputs.is_some() {
        return Err(ApiError::bad_request(
            "Structured outputs requires a tokenizer so it can't be used with 'skip_tokenizer_init'",
        ));
    }
    extra.scripts(sampling.seed, 1)?;
    check_prompt_length(prompt.len(), options.max_model_len as usize)
}

fn check_logprobs(sampling: &Sampling, options: &Options) -> Result<(), ApiError> {
    let all = i64::from(options.vocab_size);
    let most = i64::from(options.max_logprobs);
    let asked = [("logprobs", "sample", sampling.logprobs), ("prompt_logprobs", "prompt", sampling.prompt_logprobs)];
    for (param, what, count) in asked {
        let count = count.map_or(0, |count| if count == -1 { all } else { count });
        if count > most {
            let message = format!("Requested {what} logprobs of {count}, which is greater than max allowed: {most}");
            return Err(bad_value(param, message, &count.to_string()));
        }
    }
    Ok(())
}

fn check_vocabulary<'a>(param: &str, ids: impl Iterator<Item = &'a i64>, options: &Options) -> Result<(), ApiError> {
    let size = i64::from(options.vocab_size);
    let out: Vec<_> = ids.filter(|id| !(0..size).contains(*id)).collect();
    if out.is_empty() {
        return Ok(());
    }
    let message = format!("token_id(s) {out:?} in {param} contain out-of-vocab token ids. Vocabulary size: {size}");
    Err(bad_value(param, message, &format!("{out:?}")))
}

fn check_prompt_length(length: usize, most: usize) -> Result<(), ApiError> {
    let start = format!("The decoder prompt (length {length})");
    let hint = "Make sure that `max_model_len` is no smaller than the number of text tokens";
    if length > most {
        let message = format!("{start} is longer than the maximum model length of {most}. {hint}.");
        return Err(ApiError::bad_request(message));
    }
    if length == most {
        return Err(ApiError::bad_request(format!(
            "{start} plus the number of requested output tokens (at least 1) is longer than the maximum model length of \
             {most}. {hint} (prompt + requested output tokens)."
        )));
    }
    Ok(())
}

fn bad_value(param: &str, message: String, value: &str) -> ApiError {
    ApiError::bad_param(param, format!("{message} (parameter={param}, value={value})"))
}

/// `sampling_params.extra_args`, read only as far as the simulator knows it.
#[derive(Default)]
struct Extra {
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

    /// The script of every choice: choice i has the seed `seed + i`, and says `script_j` with j its distance from
    /// `script_seed`, where there is one.
    fn scripts(&self, seed: Option<i64>, n: u32) -> Result<Option<Scripts>, ApiError> {
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
