//! What is refused before anything is decoded, in vLLM's words where clients match on them.

use serde::Deserialize;

use super::Served;
use crate::api::derender::OneOrMany;
use crate::api::error::ApiError;
use crate::api::generate::GenerateResponse;
use crate::api::ids::{optional_token_ids, token_ids};
use crate::derender::stream_state::StreamState;

/// Most choices and responses of one body (vLLM's VLLM_MAX_N_SEQUENCES).
const MAX_SEQUENCES: usize = 16_384;
pub(super) const STOP_STRINGS: &str = "stop strings are not supported by streaming derender because text already sent cannot be \
                            cut. Use non-streaming derender, or \"compact_state\": true with which couplet holds them \
                            back.";

pub(super) fn required<T>(value: Option<T>, key: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| {
        let location = format!("body.{key}");
        let message =
            format!("1 validation error:\n  {{'type': 'missing', 'loc': '{location}', 'msg': 'Field required'}}");
        ApiError::invalid_body(Some(&location), message)
    })
}

/// A field that has another form in streams than one-shot; `when` says which form was asked for.
fn wrong_form(key: &str, when: &str, expected: &str) -> ApiError {
    let location = format!("body.{key}");
    let message = format!("1 validation error:\n  {location}: {when} it is {expected}");
    ApiError::invalid_body(Some(&location), message)
}

pub(super) fn stream_form(key: &str, expected: &str) -> ApiError {
    wrong_form(key, "with stream: true", expected)
}

fn one_shot_form(key: &str, expected: &str) -> ApiError {
    wrong_form(key, "without stream", expected)
}

pub(super) fn check_mode(answer: &GenerateResponse) -> Result<(), ApiError> {
    match answer.output_mode.as_deref() {
        None | Some("tokens") => Ok(()),
        Some(mode) => Err(ApiError::invalid_body(
            Some("body.generate_response.output_mode"),
            format!(
                "1 validation error:\n  {{'type': 'literal_error', 'loc': 'body.generate_response.output_mode', 'msg': \
                 \"Input should be 'tokens'\", 'input': '{mode}'}}"
            ),
        )),
    }
}

/// Refuses what is larger than the model, before anything of it is decoded.
pub(super) fn check_bounds(served: &Served, answers: &[GenerateResponse]) -> Result<(), ApiError> {
    if answers.len() > MAX_SEQUENCES {
        return Err(ApiError::bad_request(format!(
            "generate_responses count ({}) exceeds server maximum ({MAX_SEQUENCES}).",
            answers.len()
        )));
    }
    let max_logprobs = usize::try_from(served.model.options().max_logprobs).unwrap_or(usize::MAX);
    for answer in answers {
        if answer.choices.len() > MAX_SEQUENCES {
            let (count, id) = (answer.choices.len(), answer.request_id.as_deref().unwrap_or_default());
            return Err(ApiError::bad_request(format!(
                "choices count ({count}) in response '{id}' exceeds server maximum ({MAX_SEQUENCES})."
            )));
        }
        for choice in &answer.choices {
            let positions = choice.logprobs.as_ref().and_then(|logprobs| logprobs.content.as_deref());
            let top = positions.unwrap_or_default().iter().map(|position| position.top.len()).max().unwrap_or(0);
            let lengths = [
                ("token_ids length", choice.token_ids.as_ref().map_or(0, Vec::len), "max_model_len", max_len(served)),
                ("logprobs.content length", positions.map_or(0, <[_]>::len), "max_model_len", max_len(served)),
                ("top_logprobs count", top, "max_logprobs", max_logprobs),
            ];
            for (what, length, limit, most) in lengths {
                if length > most {
                    return Err(ApiError::bad_request(format!(
                        "{what} ({length}) in choice {} exceeds {limit} ({most}).",
                        choice.index
                    )));
                }
            }
        }
    }
    Ok(())
}

pub(super) fn max_len(served: &Served) -> usize {
    usize::try_from(served.model.max_model_len()).unwrap_or(usize::MAX)
}

/// Reads the JSON text of `prompt_token_ids`.
pub(super) fn read_ids(_: &Served, text: &[u8]) -> Result<Vec<u32>, ApiError> {
    token_ids(&mut serde_json::Deserializer::from_slice(text)).map_err(|error| {
        let message = format!("1 validation error:\n  body.prompt_token_ids: {error}");
        ApiError::invalid_body(Some("body.prompt_token_ids"), message)
    })
}

pub(super) fn check_prompt(served: &Served, length: usize) -> Result<(), ApiError> {
    let most = max_len(served);
    if length <= most {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("prompt_token_ids length ({length}) exceeds max_model_len ({most}).")))
}

pub(super) fn check_stream_length(
    served: &Served,
    prompt: usize,
    state: Option<&StreamState<'_>>,
    chunk: &GenerateResponse,
) -> Result<(), ApiError> {
    let prior = state.map_or(0, StreamState::tokens);
    let delta: usize = chunk.choices.iter().filter_map(|choice| choice.token_ids.as_ref()).map(Vec::len).sum();
    let most = max_len(served);
    if prompt.saturating_add(prior).saturating_add(delta) <= most {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "prompt_token_ids length ({prompt}) plus output_token_ids length ({prior}) plus delta ({delta}) exceeds \
         max_model_len ({most})."
    )))
}

pub(super) fn one_choice(chunk: &GenerateResponse, what: &str) -> Result<(), ApiError> {
    match chunk.choices.len() {
        0 | 1 => Ok(()),
        count => Err(ApiError::bad_request(format!("{what} expects at most one choice per chunk (got {count})."))),
    }
}

pub(super) fn check_state(state: Option<&StreamState<'_>>) -> Result<(), ApiError> {
    let checked = state.map_or(Ok(()), StreamState::validate);
    checked.map_err(|reason| {
        ApiError::invalid_body(Some("body.stream_state"), format!("1 validation error:\n  body.stream_state: {reason}"))
    })
}

pub(super) fn invalid_state(reason: String) -> ApiError {
    ApiError::bad_request(format!("invalid stream_state: {reason}"))
}

/// The prompt token counts of a one-shot completion, one per response.
pub(super) fn prompt_counts(given: Option<OneOrMany<i64>>, responses: usize) -> Result<Vec<i64>, ApiError> {
    let counts = match given {
        None => return Ok(vec![0; responses]),
        Some(OneOrMany::Many(counts)) => counts,
        Some(OneOrMany::One(_)) => return Err(one_shot_form("prompt_tokens", "a list of integers")),
    };
    same_length("prompt_tokens", counts.len(), responses)?;
    Ok(counts)
}

/// The prompts of a one-shot completion, one per response; null where the response carries its own.
pub(super) fn prompt_lists(given: Option<&[u8]>, responses: usize) -> Result<Vec<Option<Vec<u32>>>, ApiError> {
    #[derive(Deserialize)]
    struct Prompt(#[serde(deserialize_with = "optional_token_ids")] Option<Vec<u32>>);

    let Some(given) = given else { return Ok(vec![None; responses]) };
    let Ok(prompts) = serde_json::from_slice::<Vec<Prompt>>(given) else {
        return Err(one_shot_form("prompt_token_ids", "a list of lists of token ids (integers from 0)"));
    };
    same_length("prompt_token_ids", prompts.len(), responses)?;
    Ok(prompts.into_iter().map(|Prompt(ids)| ids).collect())
}

fn same_length(key: &str, length: usize, responses: usize) -> Result<(), ApiError> {
    if length == responses {
        return Ok(());
    }
    let message = format!("{key} length ({length}) must equal generate_responses length ({responses})");
    Err(ApiError::invalid_body(Some("body"), format!("1 validation error:\n  {message}")))
}
