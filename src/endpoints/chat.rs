//! `POST /v1/chat/completions`: a conversation in, a reply out, streamed or whole.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value};

use super::plan::{self, Reader, TextFields};
use super::prompts::Transcript;
use super::structured::{self, Answer};
use super::{Context, Head, Served, coupled};
use crate::api::chat::ChatRequest;
use crate::api::error::ApiError;
use crate::api::generate::{GenerateChoice, GenerateResponse};
use crate::derender::chat::{Plan, State};
use crate::derender::logprobs::{self, ChatLogprobs, Style};
use crate::derender::pieces::Pieces;
use crate::derender::prompt_logprobs::PromptLogprobs;
use crate::derender::text::Finish;
use crate::engine::EngineError;
use crate::metrics::{Expected, Meter, ParserMetrics, Stage};
use crate::parsers::{Events, Message};
use crate::render;
use crate::respond::body::ByteStream;
use crate::respond::chat::{ChunkChoice, Prompt, WholeChoice, write_chunk, write_role, write_whole_choice};
use crate::respond::envelope::Envelope;
use crate::respond::http::{self as response, Response};
use crate::respond::json::JsonBuffer;
use crate::respond::sse;
use crate::respond::usage::Usage;

/// Answers a chat request.
pub async fn create(context: Arc<Context>, head: &Head, body: &Bytes) -> Result<Response, ApiError> {
    let request = context.metrics.stages.time(Stage::Parse, || ChatRequest::parse(body))?;
    let served = context.served(request.model.as_deref())?;
    head.record.model(served.name());
    let id = coupled::answer_id("chatcmpl", head, request.request_id.0.as_deref());
    let settings = coupled::for_engine_settings(&id);
    let rendered = {
        let _stage = head.trace.stage("render");
        context.heavy.render(body, || coupled::render_chat(&context, served, &request, &settings))?
    };
    let asked = request.model.as_deref().unwrap_or(served.name());
    head.trace.asks("chat", asked, &rendered.generate.sampling_params);
    let pool = served.pool()?;
    let prompt = rendered.generate.token_ids.clone();
    let plan = plan(served, &request, prompt.clone(), rendered.chat_template_kwargs)?;
    let streams = request.stream == Some(true);
    let mut generate = coupled::for_engine(rendered.generate, served, streams || !plan.text.stop.is_empty());
    let object = if streams { "chat.completion.chunk" } else { "chat.completion" };
    let envelope = Envelope::new(&id, object, coupled::now(), served.called(request.model.as_deref()));
    let counts_reasoning = served.has_reasoning_parser();
    let metrics = context.metrics.parser(served.parser_name());
    let choices = request.n.unwrap_or(1).max(1);
    let prompts = std::iter::once(prompt.as_slice());
    let transcript = Transcript::begin(&context, head, &plan.text.vocabulary, prompts, choices as usize);
    let measure = coupled::measure(&context, head, served);
    let caller = coupled::caller(head, pool, request.user.as_deref());
    let interval = pool.options().keep_alive_interval;
    let grammar = context.heavy.read(body.len(), || structured::take(served, &mut generate, Some(&plan)))?;
    let engine_streams = generate.streams() || grammar.is_some();
    let generations =
        coupled::generate(Arc::clone(pool), caller, vec![(generate, grammar)], Arc::clone(&context.metrics.stages));
    let reply = async move {
        let generation = generations.await?.pop().ok_or_else(|| ApiError::internal("no engine was asked"))?;
        Ok::<_, ApiError>(Reply {
            envelope,
            style: style(&request),
            meter: measure(Expected { prompt: prompt.len(), choices: choices as usize, engine_streams }),
            transcript,
            choices: (0..choices).map(|_| Choice::new(&plan, &prompt)).collect(),
            role: role(&request).to_owned(),
            echo: echo(&request),
            prompt_text: (request.return_prompt_text == Some(true)).then_some(rendered.prompt_text).flatten(),
            counts_reasoning,
            metrics,
            generation,
            plan,
            prompt,
            request,
        })
    };
    if !streams {
        return reply.await?.whole().await.map(response::json);
    }
    let opening = async move { Ok(Streamed::new(reply.await?).bytes()) };
    coupled::stream(opening, interval, Arc::clone(&head.record)).await
}

/// How the reply is read. The refusal of what the model's dialect cannot do is the client's to see.
fn plan(
    served: &Served,
    request: &ChatRequest,
    prompt: Vec<u32>,
    template_kwargs: Map<String, Value>,
) -> Result<Plan, ApiError> {
    let facts = render::parser_context(request, prompt, template_kwargs, coupled::random());
    match plan::refusal(served, &facts) {
        Some(reason) => Err(ApiError::bad_request(reason)),
        None => Ok(plan::chat(served, request, TextFields::chat(request, Reader::Engine), facts, None)),
    }
}

fn style(request: &ChatRequest) -> Style {
    Style::chat(
        Some(request.top_logprobs.0),
        request.logprob_token_ids.as_ref().is_some_and(|ids| !ids.is_empty()),
        request.return_tokens_as_token_ids == Some(true),
    )
}

/// `assistant`, or the role of the message that is being continued.
fn role(request: &ChatRequest) -> &str {
    match request.messages.last() {
        Some(last) if !request.add_generation_prompt => last.role(),
        _ => "assistant",
    }
}

/// With `echo`, the last message where it has the role of the reply.
fn echo(request: &ChatRequest) -> Option<String> {
    let last = request.messages.last().filter(|last| request.echo && last.role() == role(request))?;
    last.text().filter(|text| !text.is_empty())
}

/// A reply on its way: what is fixed, and where each choice stands.
struct Reply {
    request: ChatRequest,
    plan: Plan,
    prompt: Vec<u32>,
    prompt_text: Option<String>,
    role: String,
    echo: Option<String>,
    style: Style,
    counts_reasoning: bool,
    metrics: ParserMetrics,
    meter: Meter,
    transcript: Option<Transcript>,
    envelope: Envelope,
    generation: Answer,
    choices: Vec<Choice>,
}

/// One of the `n` choices.
struct Choice {
    state: State,
    finish: Option<Finish>,
    /// For whole answers only: all that came.
    pieces: Pieces,
    token_ids: Vec<u32>,
    logprobs: ChatLogprobs,
}

impl Choice {
    fn new(plan: &Plan, prompt: &[u32]) -> Self {
        Self {
            state: plan.start(prompt),
            finish: None,
            pieces: Pieces::default(),
            token_ids: Vec::new(),
            logprobs: ChatLogprobs::default(),
        }
    }

    /// The sampled tokens before a chunk, where its logprobs need them.
    fn context(&self, arrived: &GenerateChoice) -> Vec<u32> {
        if arrived.logprobs.is_some() { self.state.text.counts.context.clone() } else { Vec::new() }
    }
}

impl Reply {
    fn wants_logprobs(&self) -> bool {
        self.request.logprobs == Some(true) && !self.plan.hides_metadata()
    }

    fn wants_token_ids(&self) -> bool {
        self.request.return_token_ids == Some(true) && !self.plan.hides_metadata()
    }

    /// The choice that an engine chunk belongs to, unless it has ended.
    fn open_choice(&self, index: u32) -> Result<Option<usize>, ApiError> {
        let count = self.choices.len();
        match self.choices.get(index as usize) {
            Some(choice) => Ok(choice.finish.is_none().then_some(index as usize)),
            None => Err(ApiError::bad_gateway(format!("the engine sent choice {index} of {count}"))),
        }
    }

    /// A choice got this, of which so many tokens are new.
    fn note(&mut self, index: usize, arrived: &GenerateChoice, before: usize) {
        self.meter.generated(self.choices[index].state.text.counts.tokens.saturating_sub(before));
        if let Some(transcript) = &mut self.transcript {
            transcript.said(index, arrived.token_ids.as_deref().unwrap_or_default());
        }
    }

    /// Stops the engine once every choice has ended, where a stop string ended one that it would go on with.
    fn stop_if_done(&mut self) {
        if self.choices.iter().all(|choice| choice.finish.is_some()) {
            self.generation.stop();
        }
    }

    fn usage(&self, reasoning_tokens: impl Fn(&Choice) -> usize) -> Usage {
        let completion = self.choices.iter().map(|choice| choice.state.text.counts.tokens as u64).sum();
        let reasoning = self.choices.iter().map(|choice| reasoning_tokens(choice) as u64).sum();
        Usage {
            prompt_tokens: self.prompt.len() as u64,
            completion_tokens: completion,
            reasoning_tokens: self.counts_reasoning.then_some(reasoning),
        }
    }

    fn prompt(&self) -> Prompt<'_> {
        Prompt {
            token_ids: (self.request.return_token_ids == Some(true)).then_some(self.prompt.as_slice()),
            text: self.prompt_text.as_deref(),
        }
    }

    /// Logprobs of a chunk's tokens in chat's shape, where asked for.
    fn logprobs(&self, choice: &GenerateChoice, context: &mut Vec<u32>, kept: usize) -> Option<ChatLogprobs> {
        if !self.wants_logprobs() {
            return None;
        }
        let positions = choice.logprobs.as_ref().and_then(|logprobs| logprobs.content.as_deref()).unwrap_or_default();
        let positions = &positions[..kept.min(positions.len())];
        Some(logprobs::chat(&self.plan.text.vocabulary, positions, self.style, context))
    }

    /// Reads the answer to its end and folds it into one body.
    async fn whole(mut self) -> Result<Bytes, ApiError> {
        let mut passed_on = coupled::PassedOn::default();
        while let Some(chunk) = self.generation.next().await {
            let mut chunk = chunk?;
            self.meter.arrived();
            passed_on.take(&mut chunk);
            for choice in &chunk.choices {
                self.collect(choice)?;
            }
            self.meter.read();
        }
        self.choices.iter().try_for_each(|choice| match &choice.finish {
            Some(finish) if finish.reason == "error" => Err(coupled::generation_error()),
            Some(_) => Ok(()),
            None => Err(ApiError::bad_gateway("the engine's answer ended before all choices did")),
        })?;
        let prompt_logprobs = passed_on.prompt_logprobs.take().map(|raw| PromptLogprobs::parse(&raw)).transpose();
        Ok(self.fold(&passed_on, prompt_logprobs.map_err(ApiError::bad_gateway)?.as_ref()))
    }

    fn collect(&mut self, arrived: &GenerateChoice) -> Result<(), ApiError> {
        let Some(index) = self.open_choice(arrived.index)? else { return Ok(()) };
        let choice = &mut self.choices[index];
        let mut context = choice.context(arrived);
        let before = choice.state.text.counts.tokens;
        let step = self.plan.text.step(&mut choice.state.text, arrived, &mut choice.pieces);
        self.note(index, arrived, before);
        let choice = &mut self.choices[index];
        if step.kept > 0 {
            self.meter.kept(index);
        }
        choice.token_ids.extend_from_slice(&arrived.token_ids.as_deref().unwrap_or_default()[..step.kept]);
        choice.finish = step.finish;
        let stopped_here = choice.finish.as_ref().is_some_and(|finish| finish.stopped_here);
        if let Some(logprobs) = self.logprobs(arrived, &mut context, step.kept) {
            self.choices[index].logprobs.append(logprobs);
        }
        if stopped_here {
            self.stop_if_done();
        }
        Ok(())
    }

    fn fold(&self, passed_on: &coupled::PassedOn, prompt_logprobs: Option<&PromptLogprobs>) -> Bytes {
        let mut messages: Vec<Message> = self.choices.iter().map(|choice| self.plan.message(&choice.pieces)).collect();
        messages.iter().for_each(|message| coupled::count_fallbacks(&self.metrics, message.fallbacks));
        let reasoning: usize = messages.iter().map(|message| message.reasoning_tokens).sum();
        if let Some(echo) = &self.echo {
            for message in &mut messages {
                message.content.get_or_insert_default().insert_str(0, echo);
            }
        }
        let mut json = JsonBuffer::default();
        self.envelope.open(&mut json);
        for (index, (choice, message)) in self.choices.iter().zip(&messages).enumerate() {
            self.write_choice(index, choice, message, &mut json);
        }
        json.raw("],\"service_tier\":null");
        self.envelope.write_fingerprint(&mut json);
        json.key("usage");
        let usage = self.usage(|_| 0);
        Usage { reasoning_tokens: usage.reasoning_tokens.map(|_| reasoning as u64), ..usage }.write_whole(&mut json);
        let prompt_logprobs = prompt_logprobs.map(|given| given.with_text(&self.plan.text.vocabulary));
        json.key("prompt_logprobs").value(&prompt_logprobs);
        json.key("prompt_token_ids").value(&self.prompt().token_ids).key("prompt_text").value(&self.prompt().text);
        passed_on.write(&mut json);
        json.raw("}");
        json.into_bytes()
    }

    fn write_choice(&self, index: usize, choice: &Choice, message: &Message, json: &mut JsonBuffer) {
        let Some(finish) = &choice.finish else { return };
        let stop_reason = self.plan.text.stop_tokens.reported(finish.stop_reason.clone());
        let finish_reason = self.plan.whole_finish_reason(finish, &message.tool_calls);
        self.meter.finished(&finish_reason);
        let whole = WholeChoice {
            index: index as u32,
            role: &self.role,
            message,
            logprobs: self.wants_logprobs().then_some(&choice.logprobs),
            finish_reason: &finish_reason,
            stop_reason: stop_reason.as_ref(),
            token_ids: self.wants_token_ids().then_some(choice.token_ids.as_slice()),
        };
        write_whole_choice(&whole, index == 0, json);
    }
}

/// A reply that is sent as it comes.
struct Streamed {
    reply: Reply,
    include_usage: bool,
    continuous_usage: bool,
    started: bool,
    ended: bool,
    pieces: Pieces,
    events: Events,
    json: JsonBuffer,
}

impl Streamed {
    fn new(reply: Reply) -> Self {
        let (include_usage, continuous_usage) = coupled::usage_options(reply.request.stream_options.as_ref());
        Self {
            reply,
            include_usage,
            continuous_usage,
            started: false,
            ended: false,
            pieces: Pieces::default(),
            events: Events::default(),
            json: JsonBuffer::default(),
        }
    }

    fn bytes(self) -> ByteStream {
        Box::pin(stream::unfold(self, |mut streamed| async { streamed.next().await.map(|bytes| (bytes, streamed)) }))
    }

    /// The next piece of the body: one engine chunk that says something, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            match self.reply.generation.next().await {
                Some(chunk) => {
                    self.reply.meter.arrived();
                    self.read(chunk);
                    self.reply.meter.read();
                }
                None => self.end(),
            }
            let bytes = self.json.take();
            if !bytes.is_empty() {
                return Some(bytes);
            }
        }
        None
    }

    fn read(&mut self, chunk: Result<GenerateResponse, EngineError>) {
        let read = chunk.map_err(ApiError::from).and_then(|chunk| {
            if !std::mem::replace(&mut self.started, true) {
                self.write_roles();
            }
            chunk.choices.iter().try_for_each(|choice| self.read_choice(choice))
        });
        if let Err(error) = read {
            self.fail(&error);
        }
    }

    fn read_choice(&mut self, arrived: &GenerateChoice) -> Result<(), ApiError> {
        if arrived.finish_reason.get() == Some("error") {
            return Err(coupled::generation_error());
        }
        let Self { reply, pieces, events, .. } = self;
        let Some(index) = reply.open_choice(arrived.index)? else { return Ok(()) };
        let choice = &mut reply.choices[index];
        let mut context = choice.context(arrived);
        let before = choice.state.text.counts.tokens;
        let step = reply.plan.step(&mut choice.state, arrived, pieces, events);
        choice.finish.clone_from(&step.finish);
        reply.note(index, arrived, before);
        if let Some(finish) = &step.finish {
            reply.meter.finished(&finish.reason);
        }
        coupled::count_fallbacks(&reply.metrics, events.fallbacks());
        let logprobs = reply.logprobs(arrived, &mut context, step.kept);
        if !events.is_empty() || step.finish.is_some() || logprobs.is_some() || reply.wants_token_ids() {
            self.write(arrived, step.kept, step.finish.as_ref(), logprobs.as_ref());
        }
        if step.finish.is_some_and(|finish| finish.stopped_here) {
            self.reply.stop_if_done();
        }
        Ok(())
    }

    fn write(
        &mut self,
        arrived: &GenerateChoice,
        kept: usize,
        finish: Option<&Finish>,
        logprobs: Option<&ChatLogprobs>,
    ) {
        let Self { reply, events, json, .. } = self;
        reply.meter.told(arrived.index as usize);
        let stop_reason = finish.and_then(|finish| reply.plan.text.stop_tokens.reported(finish.stop_reason.clone()));
        let ids = &arrived.token_ids.as_deref().unwrap_or_default()[..kept];
        let choice = ChunkChoice {
            index: arrived.index,
            role: None,
            logprobs,
            finish: finish.map(|finish| (finish.reason.as_str(), stop_reason.as_ref())),
            token_ids: reply.wants_token_ids().then_some(ids),
        };
        let usage = self.continuous_usage.then(|| choice_usage(reply, arrived.index));
        let fingerprint = finish.is_some() && !self.include_usage;
        sse::event(json, |json| write_chunk(&reply.envelope, &choice, events, fingerprint, usage.as_ref(), json));
    }

    fn write_roles(&mut self) {
        let Self { reply, json, .. } = self;
        let prompt = reply.prompt();
        for index in 0..reply.choices.len() as u32 {
            let usage = self.continuous_usage.then(|| choice_usage(reply, index));
            sse::event(json, |json| {
                write_role(&reply.envelope, index, &reply.role, prompt, usage.as_ref(), json);
            });
        }
        let Some(echo) = &reply.echo else { return };
        self.events.clear();
        self.events.push_content(echo);
        for index in 0..reply.choices.len() as u32 {
            let usage = self.continuous_usage.then(|| choice_usage(reply, index));
            let choice = ChunkChoice { index, ..ChunkChoice::default() };
            sse::event(json, |json| {
                write_chunk(&reply.envelope, &choice, &self.events, false, usage.as_ref(), json);
            });
        }
    }

    fn end(&mut self) {
        if let Some(open) = self.reply.choices.iter().position(|choice| choice.finish.is_none()) {
            let message = format!("the engine's answer ended before choice {open} did");
            return self.fail(&ApiError::bad_gateway(message));
        }
        if self.include_usage {
            let usage = self.reply.usage(reasoning_tokens);
            let envelope = &self.reply.envelope;
            sse::event(&mut self.json, |json| envelope.write_usage_chunk(&usage, json));
        }
        sse::done(&mut self.json);
        self.ended = true;
    }

    fn fail(&mut self, error: &ApiError) {
        self.reply.generation.stop();
        coupled::note_abort(&self.reply.meter, error);
        sse::error(&mut self.json, error);
        sse::done(&mut self.json);
        self.ended = true;
    }
}

fn reasoning_tokens(choice: &Choice) -> usize {
    choice.state.parser.as_ref().map_or(0, crate::parsers::State::reasoning_tokens)
}

/// Continuous usage counts one choice.
fn choice_usage(reply: &Reply, index: u32) -> Usage {
    let choice = &reply.choices[index as usize];
    Usage {
        prompt_tokens: reply.prompt.len() as u64,
        completion_tokens: choice.state.text.counts.tokens as u64,
        reasoning_tokens: reply.counts_reasoning.then(|| reasoning_tokens(choice) as u64),
    }
}
