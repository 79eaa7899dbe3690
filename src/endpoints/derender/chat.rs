//! The chat route: one-shot, and one chunk of a stream.

use bytes::Bytes;

use super::super::plan::{Reader, TextFields};
use super::{KnownChat, Served, checks, coupled, envelope, plan, read_whole, write_chunk_usage, write_usage};
use crate::api::chat::ChatRequest;
use crate::api::derender::ChatBody;
use crate::api::error::ApiError;
use crate::api::generate::GenerateChoice;
use crate::derender::chat::{Plan, State};
use crate::derender::logprobs::{self, ChatLogprobs, Style};
use crate::derender::pieces::Pieces;
use crate::derender::stream_state::StreamState;
use crate::derender::text;
use crate::metrics::ParserMetrics;
use crate::parsers::{self, Events};
use crate::respond::chat::{ChunkChoice, WholeChoice, write_chunk_choice, write_whole_choice};
use crate::respond::json::JsonBuffer;
use crate::respond::stream_state;

const NO_CHAT_REQUEST: &str = "chat_request is required when a tool or reasoning parser is configured because plain \
                               detokenization would leak raw parser markup into content.";
const NO_PROMPT: &str = "prompt_token_ids is required when a tool or reasoning parser is configured: the parser has to \
                         see whether the prompt left reasoning open.";

pub(super) fn whole(
    served: &Served,
    metrics: &ParserMetrics,
    body: ChatBody<'_, StreamState<'_>>,
    known: Option<&KnownChat>,
    prompt: Option<&[u32]>,
) -> Result<Bytes, ApiError> {
    let answer = checks::required(body.generate_response, "generate_response")?;
    checks::check_mode(&answer)?;
    checks::check_bounds(served, std::slice::from_ref(&answer))?;
    checks::check_prompt(served, prompt.map_or(0, <[u32]>::len))?;
    if served.dialect.is_some() && known.is_none() {
        return Err(ApiError::bad_request(NO_CHAT_REQUEST));
    }
    if let Some(reason) = known.and_then(|known| plan::refusal(served, &known.facts)) {
        return Err(ApiError::bad_request(reason));
    }
    let prompt = prompt.or(answer.prompt_token_ids.as_deref()).unwrap_or_default();
    let reader = ChatReader::new(served, metrics, known, prompt, None);
    let mut json = JsonBuffer::default();
    envelope(served, &answer, body.model.as_deref(), "chat.completion").open(&mut json);
    for (at, choice) in answer.choices.iter().enumerate() {
        reader.write_whole(choice, prompt, at == 0, &mut json)?;
    }
    json.raw("],\"service_tier\":null,\"system_fingerprint\":null").key("usage");
    let generated: usize = answer.choices.iter().filter_map(|choice| choice.token_ids.as_ref()).map(Vec::len).sum();
    write_usage(body.prompt_tokens.unwrap_or(0), generated as u64, &mut json);
    json.key("prompt_logprobs").value(&answer.prompt_logprobs);
    let wants_ids = reader.wants(|request| request.return_token_ids);
    json.key("prompt_token_ids").value(&answer.prompt_token_ids.as_ref().filter(|_| wants_ids));
    json.key("kv_transfer_params").value(&answer.kv_transfer_params).key("metrics").value(&answer.metrics);
    json.raw("}");
    Ok(json.into_bytes())
}

pub(super) fn chunk(
    served: &Served,
    metrics: &ParserMetrics,
    body: ChatBody<'_, StreamState<'_>>,
    known: Option<&KnownChat>,
    prompt: Option<&[u32]>,
) -> Result<Bytes, ApiError> {
    let chunk = checks::required(body.generate_chunk, "generate_chunk")?;
    checks::check_mode(&chunk)?;
    checks::check_state(body.stream_state.as_ref())?;
    if known.is_some_and(|known| !known.request.stop.0.is_empty()) && !body.compact_state {
        return Err(ApiError::bad_request(checks::STOP_STRINGS));
    }
    if served.dialect.is_some() && known.is_none() {
        return Err(ApiError::bad_request(NO_CHAT_REQUEST));
    }
    if served.dialect.is_some() && prompt.is_none() {
        return Err(ApiError::bad_request(NO_PROMPT));
    }
    checks::one_choice(&chunk, "derender_chat_stream")?;
    let prompt_len = prompt.map_or(0, <[u32]>::len);
    checks::check_stream_length(served, prompt_len, body.stream_state.as_ref(), &chunk)?;
    if known.is_some_and(|known| plan::refusal(served, &known.facts).is_some()) {
        return Err(checks::invalid_state("derender failed".to_owned()));
    }
    // Our own state has all that the prompt could tell.
    let begun = body.stream_state.is_some();
    let mut wire = body.stream_state.unwrap_or_default();
    let thinks = wire.thinks();
    let prompt = prompt.filter(|_| thinks.is_none()).or(chunk.prompt_token_ids.as_deref()).unwrap_or_default();
    let reader = ChatReader::new(served, metrics, known, prompt, thinks);
    let state = chunk.choices.first().map(|_| match begun {
        true => wire.take_chat(&reader.plan, prompt).map_err(checks::invalid_state),
        false => Ok(reader.plan.start(prompt)),
    });
    let state = state.transpose()?;
    let mut json = JsonBuffer::default();
    json.raw("{\"chunk\":");
    envelope(served, &chunk, body.model.as_deref(), "chat.completion.chunk").open(&mut json);
    if let (Some(choice), Some(state)) = (chunk.choices.first(), state) {
        reader.write_chunk(choice, state, &mut wire, body.compact_state, &mut json);
    }
    json.raw("]");
    write_chunk_usage(body.prompt_tokens, &chunk, &mut json);
    if reader.wants(|request| request.return_token_ids) {
        json.key("prompt_token_ids").value(&chunk.prompt_token_ids);
    }
    json.key("metrics").value(&chunk.metrics).raw("}").key("stream_state");
    stream_state::write(&wire, &mut json);
    json.raw("}");
    Ok(json.into_bytes())
}

/// How the replies to one chat request are read and written.
struct ChatReader<'a> {
    plan: Plan,
    request: Option<&'a ChatRequest>,
    style: Style,
    metrics: &'a ParserMetrics,
}

impl<'a> ChatReader<'a> {
    /// `thinks` is what the dialect took from the prompt at the start of the reply, where that is known.
    fn new(
        served: &Served,
        metrics: &'a ParserMetrics,
        known: Option<&'a KnownChat>,
        prompt: &[u32],
        thinks: Option<bool>,
    ) -> Self {
        let plan = match known {
            Some(KnownChat { request, facts }) => {
                let prompt_token_ids = prompt.to_vec();
                let facts = parsers::Context { prompt_token_ids, id_seed: coupled::random(), ..facts.clone() };
                plan::chat(served, request, TextFields::chat(request, Reader::Derenderer), facts, thinks)
            }
            None => plan::plain_chat(served),
        };
        let request = known.map(|known| &known.request);
        let style = match request {
            Some(request) if request.logprobs == Some(true) => Style::chat(
                Some(request.top_logprobs.0),
                request.logprob_token_ids.as_ref().is_some_and(|ids| !ids.is_empty()),
                false,
            ),
            // A request that asks for no logprobs says nothing about how they are cut.
            _ => Style::default(),
        };
        Self { plan, request, style, metrics }
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
        coupled::count_fallbacks(self.metrics, message.fallbacks);
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
        mut state: State,
        wire: &mut StreamState<'_>,
        compact: bool,
        json: &mut JsonBuffer,
    ) {
        let logprobs = self.logprobs(choice, &mut state.text.counts.context.clone());
        let (mut pieces, mut events) = (Pieces::default(), Events::default());
        let stopped = wire.stopped();
        let step =
            if stopped { text::Step::default() } else { self.plan.step(&mut state, choice, &mut pieces, &mut events) };
        if self.plan.parser.is_none() && events.content() == Some("") {
            // Without a parser a stateless chunk says nothing where a coupled one says "".
            events.clear();
        }
        coupled::count_fallbacks(self.metrics, events.fallbacks());
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
