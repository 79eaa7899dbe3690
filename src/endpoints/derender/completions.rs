//! The completions route: one-shot for all prompts at once, and one chunk of a stream.

use bytes::Bytes;

use super::super::plan::{Reader, TextFields};
use super::{Served, checks, envelope, plan, read_whole, write_chunk_usage, write_usage};
use crate::api::completions::CompletionRequest;
use crate::api::derender::{CompletionBody, OneOrMany};
use crate::api::error::ApiError;
use crate::api::generate::{GenerateChoice, GenerateResponse};
use crate::derender::logprobs::{CompletionLogprobs, Style};
use crate::derender::pieces::Pieces;
use crate::derender::stream_state::StreamState;
use crate::derender::text;
use crate::respond::completion;
use crate::respond::json::JsonBuffer;
use crate::respond::stream_state;

pub(super) fn whole(
    served: &Served,
    body: CompletionBody<'_, StreamState<'_>>,
    request: Option<&CompletionRequest>,
    prompts: Option<&[u8]>,
) -> Result<Bytes, ApiError> {
    let answers = checks::required(body.generate_responses, "generate_responses")?;
    answers.iter().try_for_each(checks::check_mode)?;
    let counts = checks::prompt_counts(body.prompt_tokens, answers.len())?;
    let prompts = checks::prompt_lists(prompts, answers.len())?;
    let Some(first) = answers.first() else {
        return Err(ApiError::bad_request("generate_responses must not be empty"));
    };
    checks::check_bounds(served, &answers)?;
    prompts.iter().flatten().try_for_each(|prompt| checks::check_prompt(served, prompt.len()))?;
    let reader = CompletionReader::new(served, request);
    let mut json = JsonBuffer::default();
    envelope(served, first, body.model.as_deref(), "text_completion").open(&mut json);
    let (mut index, mut generated) = (0, 0);
    for (answer, prompt) in answers.iter().zip(&prompts) {
        let prompt = prompt.as_deref().or(answer.prompt_token_ids.as_deref()).unwrap_or_default();
        for choice in &answer.choices {
            generated += reader.write_whole(answer, choice, prompt, index, &mut json)?;
            index += 1;
        }
    }
    json.raw("],\"service_tier\":null,\"system_fingerprint\":null").key("usage");
    write_usage(counts.iter().sum(), generated as u64, &mut json);
    let transfer = |answer: &GenerateResponse| answer.kv_transfer_params.as_ref().map(|raw| raw.get().to_owned());
    let same = answers.iter().all(|answer| transfer(answer) == transfer(first));
    json.key("kv_transfer_params").value(&first.kv_transfer_params.as_ref().filter(|_| same));
    json.key("metrics").value(&first.metrics.as_ref().filter(|_| answers.len() == 1));
    json.raw("}");
    Ok(json.into_bytes())
}

pub(super) fn chunk(
    served: &Served,
    body: CompletionBody<'_, StreamState<'_>>,
    request: Option<&CompletionRequest>,
    prompt: Option<&[u32]>,
) -> Result<Bytes, ApiError> {
    let chunk = checks::required(body.generate_chunk, "generate_chunk")?;
    checks::check_mode(&chunk)?;
    checks::check_state(body.stream_state.as_ref())?;
    if request.is_some_and(|request| !request.stop.0.is_empty()) && !body.compact_state {
        return Err(ApiError::bad_request(checks::STOP_STRINGS));
    }
    let prompt_tokens = match body.prompt_tokens {
        None => None,
        Some(OneOrMany::One(count)) => Some(count),
        Some(OneOrMany::Many(_)) => return Err(checks::stream_form("prompt_tokens", "an integer")),
    };
    checks::check_prompt(served, prompt.map_or(0, <[u32]>::len))?;
    checks::one_choice(&chunk, "derender_completion_stream")?;
    let reader = CompletionReader::new(served, request);
    let seed = prompt.or(chunk.prompt_token_ids.as_deref()).unwrap_or_default();
    let begun = body.stream_state.is_some();
    let mut wire = body.stream_state.unwrap_or_default();
    let mut state = match begun {
        true => wire.take_text(&reader.plan).map_err(checks::invalid_state)?,
        false => reader.plan.start(seed),
    };
    let mut json = JsonBuffer::default();
    json.raw("{\"chunk\":");
    envelope(served, &chunk, body.model.as_deref(), "text_completion").open(&mut json);
    let mut ended = wire.stopped();
    if let Some(choice) = chunk.choices.first() {
        ended |= reader.write_chunk(&chunk, choice, &mut state, ended, &mut json);
    }
    wire.set_text(&reader.plan, state, ended);
    json.raw("]");
    write_chunk_usage(prompt_tokens, &chunk, &mut json);
    json.key("metrics").value(&chunk.metrics).raw("}").key("stream_state");
    stream_state::write(&wire, &mut json);
    json.raw("}");
    Ok(json.into_bytes())
}

/// How the replies to one completion request are read and written.
struct CompletionReader<'a> {
    plan: text::Plan,
    request: Option<&'a CompletionRequest>,
    style: Style,
}

impl<'a> CompletionReader<'a> {
    fn new(served: &Served, request: Option<&'a CompletionRequest>) -> Self {
        let style = match request {
            Some(request) => Style::completion(
                request.logprobs,
                request.logprob_token_ids.as_ref().is_some_and(|ids| !ids.is_empty()),
                false,
            ),
            None => Style::default(),
        };
        let text = request.map(|request| TextFields::completion(request, Reader::Derenderer)).unwrap_or_default();
        Self { plan: plan::text(served, &text), request, style }
    }

    fn returns_ids(&self) -> bool {
        self.request.is_some_and(|request| request.return_token_ids == Some(true))
    }

    fn logprobs(
        &self,
        choice: &GenerateChoice,
        context: &mut Vec<u32>,
        offset: &mut usize,
    ) -> Option<CompletionLogprobs> {
        let positions = choice.logprobs.as_ref()?.content.as_deref().unwrap_or_default();
        let mut logprobs = CompletionLogprobs::default();
        logprobs.extend(&self.plan.vocabulary, positions, self.style, context, offset);
        Some(logprobs)
    }

    fn write_whole(
        &self,
        answer: &GenerateResponse,
        choice: &GenerateChoice,
        prompt: &[u32],
        index: u32,
        json: &mut JsonBuffer,
    ) -> Result<usize, ApiError> {
        let ids = choice.token_ids.as_deref().unwrap_or_default();
        if ids.is_empty() {
            let id = answer.request_id.as_deref().unwrap_or_default();
            let message = format!("choice {} in response {id} has empty or null token_ids", choice.index);
            return Err(ApiError::bad_request(message));
        }
        let logprobs = self.logprobs(choice, &mut Vec::new(), &mut 0);
        let (pieces, finish) = read_whole(&self.plan, prompt, choice);
        let written = completion::Choice {
            index,
            text: pieces.text(),
            logprobs: logprobs.as_ref(),
            finish_reason: Some(finish.reason.as_str()).filter(|reason| !reason.is_empty()),
            stop_reason: finish.stop_reason.as_ref(),
            prompt_token_ids: answer.prompt_token_ids.as_deref().filter(|_| self.returns_ids()),
            token_ids: self.returns_ids().then_some(ids),
        };
        completion::write_whole_choice(&written, None, index == 0, json);
        Ok(ids.len())
    }

    /// Returns whether a stop string ended the reply.
    fn write_chunk(
        &self,
        chunk: &GenerateResponse,
        choice: &GenerateChoice,
        state: &mut text::State,
        stopped: bool,
        json: &mut JsonBuffer,
    ) -> bool {
        let mut offset = state.counts.text_offset;
        let logprobs = self.logprobs(choice, &mut state.counts.context.clone(), &mut offset);
        let mut pieces = Pieces::default();
        let step = if stopped { text::Step::default() } else { self.plan.step(state, choice, &mut pieces) };
        let listed = logprobs.as_ref().is_some_and(|logprobs| !logprobs.tokens.is_empty());
        state.counts.text_offset = if listed { offset } else { offset + pieces.text().chars().count() };
        let finish = step.finish.as_ref();
        let written = completion::Choice {
            index: choice.index,
            text: pieces.text(),
            logprobs: logprobs.as_ref(),
            finish_reason: finish.map(|finish| finish.reason.as_str()),
            stop_reason: finish.and_then(|finish| finish.stop_reason.as_ref()),
            prompt_token_ids: chunk.prompt_token_ids.as_deref().filter(|_| self.returns_ids()),
            token_ids: choice.token_ids.as_deref().filter(|_| self.returns_ids()),
        };
        completion::write_chunk_choice(&written, json);
        finish.is_some_and(|finish| finish.stopped_here)
    }
}
