//! What a real engine refuses, and in which words.

use std::collections::HashMap;

use super::options::Options;
use super::request::{Body, Extra, Sampling, invalid};
use crate::api::error::ApiError;

/// `SamplingParams`' checks of itself.
pub(super) fn sampling(sampling: &Sampling) -> Result<(), ApiError> {
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
    lengths(sampling)?;
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
    grammar_kinds(sampling)
}

fn lengths(sampling: &Sampling) -> Result<(), ApiError> {
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
fn grammar_kinds(sampling: &Sampling) -> Result<(), ApiError> {
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

/// The generate route's checks.
pub(super) fn server(body: &Body, options: &Options) -> Result<(), ApiError> {
    let known = |model: &String| options.model_name.contains(model) || options.lora_name.contains(model);
    if let Some(model) = body.model.as_ref().filter(|model| !known(model)) {
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
pub(super) fn admission(sampling: &Sampling, prompt: &[u32], extra: &Extra, options: &Options) -> Result<(), ApiError> {
    logprobs(sampling, options)?;
    vocabulary("stop_token_ids", sampling.stop_token_ids.iter().flatten(), options)?;
    vocabulary("logit_bias", sampling.logit_bias.iter().flat_map(HashMap::keys), options)?;
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
    prompt_length(prompt.len(), options.max_model_len as usize)
}

fn logprobs(sampling: &Sampling, options: &Options) -> Result<(), ApiError> {
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

fn vocabulary<'a>(param: &str, ids: impl Iterator<Item = &'a i64>, options: &Options) -> Result<(), ApiError> {
    let size = i64::from(options.vocab_size);
    let out: Vec<_> = ids.filter(|id| !(0..size).contains(*id)).collect();
    if out.is_empty() {
        return Ok(());
    }
    let message = format!("token_id(s) {out:?} in {param} contain out-of-vocab token ids. Vocabulary size: {size}");
    Err(bad_value(param, message, &format!("{out:?}")))
}

fn prompt_length(length: usize, most: usize) -> Result<(), ApiError> {
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
