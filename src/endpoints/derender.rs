//! `POST /v1/{chat/completions,completions}/derender`: token ids back to OpenAI's answers, without any state here.
//!
//! One-shot takes the engine's whole answer; with `stream: true` one of its events and the `stream_state` that the
//! previous call returned. Format: vLLM's Derenderer API; couplet's own are `compact_state` and `stream_state.couplet`.

use bytes::Bytes;

use super::plan::{self, Reader, TextFields};
use super::{Context, Served, coupled};
use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::derender::{ChatBody, CompletionBody, OneOrMany, PromptIds, parse};
use crate::api::error::ApiError;
use crate::api::generate::{FinishReason, GenerateChoice, GenerateResponse, StopReason};
use crate::api::ids::LazyIds;
use crate::derender::chat;
use crate::derender::logprobs::{self, ChatLogprobs, CompletionLogprobs, Style};
use crate::derender::pieces::Pieces;
use crate::derender::stream_state::StreamState;
use crate::derender::text::{self, Finish};
use crate::parsers::Events;
use crate::render;
use crate::respond::chat::{ChunkChoice, WholeChoice, write_chunk_choice, write_whole_choice};
use crate::respond::completion;
use crate::respond::envelope::Envelope;
use crate::respond::json::JsonBuffer;
use crate::respond::usage::Usage;

/// Most choices and responses of one body (vLLM's VLLM_MAX_N_SEQUENCES).
const MAX_SEQUENCES: usize = 16_384;

const NO_CHAT_REQUEST: &str = "chat_request is required when a tool or reasoning parser is configured because plain \
                               detokenization would leak raw parser markup into content.";
const NO_PROMPT: &str = "prompt_token_ids is required when a tool or reasoning parser is configured: the parser has to \
                         see whether the prompt left reasoning open.";
const STOP_STRINGS: &str = "stop strings are not supported by streaming derender because text already sent cannot be \
                            cut. Use non-streaming derender, or \"compact_state\": true with which couplet holds them \
                            back.";

/// Answers `/v1/chat/completions/derender`.
pub fn chat(context: &Context, body: &Bytes) -> Result<Bytes, ApiError> {
    let mut body: ChatBody<'_, StreamState> = parse(body)?;
    let request = body
        .chat_request
        .take()
        .filter(|request| !request.is_null())
        .map(|request| ChatRequest::from_value(request, "body.DerenderChatRequest.chat_request"))
        .transpose()?;
    let served = context.served(body.model.as_deref())?;
    if body.stream { chat_chunk(served, body, request) } else { chat_whole(served, body, request) }
}

/// Answers `/v1/completions/derender`.
pub fn completions(context: &Context, body: &Bytes) -> Result<Bytes, ApiError> {
    let mut body: CompletionBody<StreamState> = parse(body)?;
    let request = body
        .completion_request
        .take()
        .filter(|request| !request.is_null())
        .map(|request| CompletionRequest::from_value(request, "body.completion_request"))
        .transpose()?;
    let served = context.served(body.model.as_deref())?;
    if body.stream { completion_chunk(served, body, request) } else { completion_whole(served, body, request) }
}

fn chat_whole(
    served: &Served,
    body: ChatBody<'_, StreamState>,
    request: Option<ChatRequest>,
) -> Result<Bytes, ApiError> {
    let answer = required(body.generate_response, "generate_response")?;
    check_mode(&answer)?;
    check_bounds(served, std::slice::from_ref(&answer))?;
    check_prompt(served, body.prompt_token_ids.as_ref().map_or(0, LazyIds::len))?;
    if served.dialect.is_some() && request.is_none() {
        return Err(ApiError::bad_request(NO_CHAT_REQUEST));
    }
    let given = read_ids(body.prompt_token_ids.as_ref())?;
    let prompt = given.as_deref().or(answer.prompt_token_ids.as_deref()).unwrap_or_default();
    // vLLM gives its one-shot parser the engine's copy of the prompt only.
    let reader =
        ChatReader::new(served, request.as_ref(), answer.prompt_token_ids.as_deref().unwrap_or_default(), None);
    let returned_prompt = reader.wants(|request| request.return_token_ids).then_some(&answer.prompt_token_ids).cloned();
    let mut json = JsonBuffer::default();
    envelope(served, &answer, body.model.as_deref(), "chat.completion").open(&mut json);
    for (at, choice) in answer.choices.iter().enumerate() {
        reader.write_whole(choice, prompt, at == 0, &mut json)?;
    }
    json.raw("],\"service_tier\":null,\"system_fingerprint\":null").key("usage");
    let generated: usize = answer.choices.iter().filter_map(|choice| choice.token_ids.as_ref()).map(Vec::len).sum();
    write_usage(body.prompt_tokens.unwrap_or(0), generated as u64, &mut json);
    json.key("prompt_logprobs").value(&answer.prompt_logprobs);
    json.key("prompt_token_ids").value(&returned_prompt.flatten());
    json.key("kv_transfer_params").value(&answer.kv_transfer_params).key("metrics").value(&answer.metrics);
    Ok(json.raw("}").take())
}

fn chat_chunk(
    served: &Served,
    body: ChatBody<'_, StreamState>,
    request: Option<ChatRequest>,
) -> Result<Bytes, ApiError> {
    let chunk = required(body.generate_chunk, "generate_chunk")?;
    check_mode(&chunk)?;
    check_state(body.stream_state.as_ref())?;
    if request.as_ref().is_some_and(|request| !request.stop.0.is_empty()) && !body.compact_state {
        return Err(ApiError::bad_request(STOP_STRINGS));
    }
    if served.dialect.is_some() && request.is_none() {
        return Err(ApiError::bad_request(NO_CHAT_REQUEST));
    }
    if served.dialect.is_some() && body.prompt_token_ids.is_none() {
        return Err(ApiError::bad_request(NO_PROMPT));
    }
    one_choice(&chunk, "derender_chat_stream")?;
    let prompt_len = body.prompt_token_ids.as_ref().map_or(0, LazyIds::len);
    check_stream_length(served, prompt_len, body.stream_state.as_ref(), &chunk)?;
    // Our own state has all that the prompt could tell.
    let thinks = body.stream_state.as_ref().and_then(StreamState::thinks);
    let given = read_ids(body.prompt_token_ids.as_ref().filter(|_| thinks.is_none()))?;
    let prompt = given.as_deref().or(chunk.prompt_token_ids.as_deref()).unwrap_or_default();
    let reader = ChatReader::new(served, request.as_ref(), prompt, thinks);
    let mut wire = body.stream_state.clone().unwrap_or_default();
    let mut json = JsonBuffer::default();
    json.raw("{\"chunk\":");
    envelope(served, &chunk, body.model.as_deref(), "chat.completion.chunk").open(&mut json);
    if let Some(choice) = chunk.choices.first() {
        let mut state = match &body.stream_state {
            Some(state) => state.chat(&reader.plan, prompt).map_err(invalid_state)?,
            None => reader.plan.start(prompt),
        };
        reader.write_chunk(choice, &mut state, &mut wire, body.compact_state, &mut json);
    }
    json.raw("]");
    write_chunk_usage(body.prompt_tokens, &chunk, &mut json);
    if reader.wants(|request| request.return_token_ids) {
        json.key("prompt_token_ids").value(&chunk.prompt_token_ids);
    }
    json.key("metrics").value(&chunk.metrics).raw("}").key("stream_state").value(&wire);
    Ok(json.raw("}").take())
}

/// How the replies to one chat request are read and written.
struct ChatReader<'a> {
    plan: chat::Plan,
    request: Option<&'a ChatRequest>,
    style: Style,
}

impl<'a> ChatReader<'a> {
    /// `thinks` is what the dialect took from the prompt at the start of the reply, where that is known.
    fn new(served: &Served, request: Option<&'a ChatRequest>, prompt: &[u32], thinks: Option<bool>) -> Self {
        let plan = match request {
            Some(request) => {
                let kwargs = render::effective_template_kwargs(&served.model, request);
                let facts = render::parser_context(request, prompt.to_vec(), kwargs, coupled::random());
                plan::chat(served, request, TextFields::chat(request, Reader::Derenderer), facts, thinks)
            }
            None => plan::plain_chat(served),
        };
        let style = match request {
            Some(request) if request.logprobs == Some(true) => Style::chat(
                Some(request.top_logprobs.0),
                request.logprob_token_ids.as_ref().is_some_and(|ids| !ids.is_empty()),
                false,
            ),
            // A request that asks for no logprobs says nothing about how they are cut.
            _ => Style::default(),
        };
        Self { plan, request, style }
    }

    fn wants(&self, flag: impl Fn(&ChatRequest) -> Option<bool>) -> bool {
        self.request.and_then(flag) == Some(true)
    }

    fn token_ids<'b>(&self, choice: &'b GenerateChoice) -> Option<&'b [u32]> {
        let wanted = self.wants(|request| request.return_token_ids) && !self.plan.hides_metadata();
        choice.token_ids.as_deref().filter(|_| wanted)
    }

    fn logprobs(&self, choice: &GenerateChoice, context: &mut Vec<u32>) -> Option<ChatLogprobs> {
        let given = choice.logprobs.as_ref().filter(|_| !self.plan.hides_metadata())?;
        let Some(positions) = given.content.as_deref() else { return Some(ChatLogprobs::default()) };
        Some(logprobs::chat(&self.plan.text.vocabulary, positions, self.style, context))
    }

    fn write_whole(
        &self,
        choice: &GenerateChoice,
        prompt: &[u32],
        first: bool,
        json: &mut JsonBuffer,
    ) -> Result<(), ApiError> {
        if choice.token_ids.as_deref().unwrap_or_default().is_empty() {
            return Err(ApiError::bad_request(format!("choice {} has empty or null token_ids", choice.index)));
        }
        let logprobs = self.logprobs(choice, &mut Vec::new());
        let (pieces, mut finish) = read_whole(&self.plan.text, prompt, choice);
        if finish.reason.is_empty() {
            // Chat always has a reason; completions say null.
            "stop".clone_into(&mut finish.reason);
        }
        let message = self.plan.message(&pieces);
        let whole = WholeChoice {
            index: choice.index,
            role: "assistant",
            message: &message,
            logprobs: logprobs.as_ref(),
            finish_reason: &self.plan.whole_finish_reason(&finish, &message.tool_calls),
            stop_reason: finish.stop_reason.as_ref(),
            token_ids: self.token_ids(choice),
        };
        write_whole_choice(&whole, first, json);
        Ok(())
    }

    fn write_chunk(
        &self,
        choice: &GenerateChoice,
        state: &mut chat::State,
        wire: &mut StreamState,
        compact: bool,
        json: &mut JsonBuffer,
    ) {
        let logprobs = self.logprobs(choice, &mut state.text.counts.context.clone());
        let (mut pieces, mut events) = (Pieces::default(), Events::default());
        let stopped = wire.stopped();
        let step =
            if stopped { text::Step::default() } else { self.plan.step(state, choice, &mut pieces, &mut events) };
        if self.plan.parser.is_none() && events.content() == Some("") {
            // Without a parser a stateless chunk says nothing where a coupled one says "".
            events.clear();
        }
        pin_call_ids(&mut events, &mut wire.last_tool_call_ids);
        let finish = step.finish.as_ref();
        let chunk = ChunkChoice {
            index: choice.index,
            role: (!wire.role_sent).then_some("assistant"),
            logprobs: logprobs.as_ref(),
            finish: finish.map(|finish| (finish.reason.as_str(), finish.stop_reason.as_ref())),
            token_ids: self.token_ids(choice),
        };
        write_chunk_choice(&chunk, &events, json);
        wire.role_sent = true;
        let ended = stopped || finish.is_some_and(|finish| finish.stopped_here);
        wire.set_chat(&self.plan, state, choice.token_ids.as_deref().unwrap_or_default(), ended, compact);
    }
}

/// A call keeps the id that it got when it first appeared, also where a replay would have given it another.
fn pin_call_ids(events: &mut Events, ids: &mut Vec<String>) {
    let new: Vec<(usize, String)> =
        events.calls().filter_map(|call| Some((call.index, call.head?.0.to_owned()))).collect();
    for (index, id) in new {
        match ids.get(index) {
            Some(known) => events.rename_call(index, known),
            None => ids.push(id),
        }
    }
}

fn completion_whole(
    served: &Served,
    body: CompletionBody<StreamState>,
    request: Option<CompletionRequest>,
) -> Result<Bytes, ApiError> {
    let answers = required(body.generate_responses, "generate_responses")?;
    answers.iter().try_for_each(check_mode)?;
    let counts = prompt_counts(body.prompt_tokens, answers.len())?;
    let prompts = prompt_lists(body.prompt_token_ids, answers.len())?;
    let Some(first) = answers.first() else {
        return Err(ApiError::bad_request("generate_responses must not be empty"));
    };
    check_bounds(served, &answers)?;
    prompts.iter().flatten().try_for_each(|prompt| check_prompt(served, prompt.len()))?;
    let reader = CompletionReader::new(served, request.as_ref());
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
    Ok(json.raw("}").take())
}

fn completion_chunk(
    served: &Served,
    body: CompletionBody<StreamState>,
    request: Option<CompletionRequest>,
) -> Result<Bytes, ApiError> {
    let chunk = required(body.generate_chunk, "generate_chunk")?;
    check_mode(&chunk)?;
    check_state(body.stream_state.as_ref())?;
    if request.as_ref().is_some_and(|request| !request.stop.0.is_empty()) && !body.compact_state {
        return Err(ApiError::bad_request(STOP_STRINGS));
    }
    let prompt = match body.prompt_token_ids {
        None => None,
        Some(PromptIds::One(prompt)) => Some(prompt),
        Some(PromptIds::Many(_)) => return Err(wrong_form("prompt_token_ids", "a list of token ids")),
    };
    let prompt_tokens = match body.prompt_tokens {
        None => None,
        Some(OneOrMany::One(count)) => Some(count),
        Some(OneOrMany::Many(_)) => return Err(wrong_form("prompt_tokens", "an integer")),
    };
    check_prompt(served, prompt.as_ref().map_or(0, Vec::len))?;
    one_choice(&chunk, "derender_completion_stream")?;
    let reader = CompletionReader::new(served, request.as_ref());
    let seed = prompt.as_deref().or(chunk.prompt_token_ids.as_deref()).unwrap_or_default();
    let mut state = match &body.stream_state {
        Some(state) => state.text(&reader.plan).map_err(invalid_state)?,
        None => reader.plan.start(seed),
    };
    let mut wire = body.stream_state.unwrap_or_default();
    let mut json = JsonBuffer::default();
    json.raw("{\"chunk\":");
    envelope(served, &chunk, body.model.as_deref(), "text_completion").open(&mut json);
    let mut ended = wire.stopped();
    if let Some(choice) = chunk.choices.first() {
        ended |= reader.write_chunk(&chunk, choice, &mut state, ended, &mut json);
    }
    wire.set_text(&reader.plan, &state, ended);
    json.raw("]");
    write_chunk_usage(prompt_tokens, &chunk, &mut json);
    json.key("metrics").value(&chunk.metrics).raw("}").key("stream_state").value(&wire);
    Ok(json.raw("}").take())
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

/// Reads a whole reply. Stop strings of the request only count where the engine did not say what stopped it; one that
/// it names is cut whatever the request says.
fn read_whole(plan: &text::Plan, prompt: &[u32], choice: &GenerateChoice) -> (Pieces, Finish) {
    let plan = match (choice.finish_reason.or_stop(), &choice.stop_reason) {
        (Some("stop"), None) => plan.clone(),
        (Some("stop"), Some(StopReason::Text(text))) => plan.with_stop(Some(text.clone())),
        _ => plan.with_stop(None),
    };
    let ended = FinishReason::Ended(choice.finish_reason.or_stop().unwrap_or_default().to_owned());
    let mut state = plan.start(prompt);
    let mut pieces = Pieces::default();
    let step = plan.step(&mut state, &GenerateChoice { finish_reason: ended, ..choice.clone() }, &mut pieces);
    let finish = step.finish.unwrap_or(Finish { reason: String::new(), stop_reason: None, stopped_here: false });
    (pieces, finish)
}

fn envelope(served: &Served, answer: &GenerateResponse, model: Option<&str>, object: &str) -> Envelope {
    let id = answer.request_id.clone().unwrap_or_else(|| format!("{:016x}", coupled::random()));
    Envelope::new(&id, object, coupled::now(), model.unwrap_or(served.name()), coupled::FINGERPRINT)
}

fn write_usage(prompt: i64, completion: u64, json: &mut JsonBuffer) {
    let prompt_tokens = u64::try_from(prompt).unwrap_or(0);
    Usage { prompt_tokens, completion_tokens: completion, reasoning_tokens: None }.write_whole(json);
}

fn write_chunk_usage(prompt: Option<i64>, chunk: &GenerateResponse, json: &mut JsonBuffer) {
    let Some(usage) = chunk.usage else { return };
    let prompt = prompt.unwrap_or_else(|| usage.prompt_tokens.unwrap_or(0).try_into().unwrap_or(i64::MAX));
    json.key("usage");
    write_usage(prompt, usage.completion_tokens.unwrap_or(0), json);
}

fn required<T>(value: Option<T>, key: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| {
        let location = format!("body.{key}");
        let message =
            format!("1 validation error:\n  {{'type': 'missing', 'loc': '{location}', 'msg': 'Field required'}}");
        ApiError::invalid_body(Some(&location), message)
    })
}

fn wrong_form(key: &str, expected: &str) -> ApiError {
    let location = format!("body.{key}");
    ApiError::invalid_body(
        Some(&location),
        format!("1 validation error:\n  {location}: with stream: true it is {expected}"),
    )
}

fn check_mode(answer: &GenerateResponse) -> Result<(), ApiError> {
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
fn check_bounds(served: &Served, answers: &[GenerateResponse]) -> Result<(), ApiError> {
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

fn max_len(served: &Served) -> usize {
    usize::try_from(served.model.max_model_len()).unwrap_or(usize::MAX)
}

fn read_ids(ids: Option<&LazyIds<'_>>) -> Result<Option<Vec<u32>>, ApiError> {
    ids.map(LazyIds::read).transpose().map_err(|error| {
        let message = format!("1 validation error:\n  body.prompt_token_ids: {error}");
        ApiError::invalid_body(Some("body.prompt_token_ids"), message)
    })
}

fn check_prompt(served: &Served, length: usize) -> Result<(), ApiError> {
    let most = max_len(served);
    if length <= most {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("prompt_token_ids length ({length}) exceeds max_model_len ({most}).")))
}

fn check_stream_length(
    served: &Served,
    prompt: usize,
    state: Option<&StreamState>,
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

fn one_choice(chunk: &GenerateResponse, what: &str) -> Result<(), ApiError> {
    match chunk.choices.len() {
        0 | 1 => Ok(()),
        count => Err(ApiError::bad_request(format!("{what} expects at most one choice per chunk (got {count})."))),
    }
}

fn check_state(state: Option<&StreamState>) -> Result<(), ApiError> {
    let checked = state.map_or(Ok(()), StreamState::validate);
    checked.map_err(|reason| {
        ApiError::invalid_body(Some("body.stream_state"), format!("1 validation error:\n  body.stream_state: {reason}"))
    })
}

fn invalid_state(reason: String) -> ApiError {
    ApiError::bad_request(format!("invalid stream_state: {reason}"))
}

/// The prompt token counts of a one-shot completion, one per response.
fn prompt_counts(given: Option<OneOrMany<i64>>, responses: usize) -> Result<Vec<i64>, ApiError> {
    let counts = match given {
        None => return Ok(vec![0; responses]),
        Some(OneOrMany::Many(counts)) => counts,
        Some(OneOrMany::One(_)) => return Err(one_shot_form("prompt_tokens", "a list of integers")),
    };
    same_length("prompt_tokens", counts.len(), responses)?;
    Ok(counts)
}

/// The prompts of a one-shot completion, one per response.
fn prompt_lists(given: Option<PromptIds>, responses: usize) -> Result<Vec<Option<Vec<u32>>>, ApiError> {
    let prompts = match given {
        None => return Ok(vec![None; responses]),
        Some(PromptIds::Many(prompts)) => prompts,
        Some(PromptIds::One(prompt)) if prompt.is_empty() => Vec::new(),
        Some(PromptIds::One(_)) => return Err(one_shot_form("prompt_token_ids", "a list of lists of token ids")),
    };
    same_length("prompt_token_ids", prompts.len(), responses)?;
    Ok(prompts)
}

fn one_shot_form(key: &str, expected: &str) -> ApiError {
    let location = format!("body.{key}");
    ApiError::invalid_body(
        Some(&location),
        format!("1 validation error:\n  {location}: without stream it is {expected}"),
    )
}

fn same_length(key: &str, length: usize, responses: usize) -> Result<(), ApiError> {
    if length == responses {
        return Ok(());
    }
    let message = format!("{key} length ({length}) must equal generate_responses length ({responses})");
    Err(ApiError::invalid_body(Some("body"), format!("1 validation error:\n  {message}")))
}
