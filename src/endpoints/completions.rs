//! `POST /v1/completions`: one prompt or several in, a reply to each out, streamed or whole.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};

use super::coupled::{self, PassedOn};
use super::plan::{self, Reader, TextFields};
use super::prompts::Transcript;
use super::structured::{self, Answer};
use super::{Context, Head};
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::api::generate::{GenerateChoice, GenerateResponse};
use crate::derender::logprobs::{CompletionLogprobs, Style};
use crate::derender::pieces::Pieces;
use crate::derender::prompt_logprobs::PromptLogprobs;
use crate::derender::text::{Finish, Plan, State};
use crate::engine::EngineError;
use crate::metrics::{Expected, Meter, Stage};
use crate::respond::body::ByteStream;
use crate::respond::completion::{self, write_chunk, write_whole_choice};
use crate::respond::envelope::Envelope;
use crate::respond::http::{self as response, Response};
use crate::respond::json::JsonBuffer;
use crate::respond::sse;
use crate::respond::usage::Usage;

/// Answers a completion request.
pub async fn create(context: Arc<Context>, head: &Head, body: &Bytes) -> Result<Response, ApiError> {
    let request = context.metrics.stages.time(Stage::Parse, || CompletionRequest::parse(body))?;
    let served = context.served(request.model.as_deref())?;
    head.record.model(served.name());
    let id = coupled::answer_id("cmpl", head, request.request_id.0.as_deref());
    let settings = coupled::for_engine_settings(&id);
    let rendered = {
        let _stage = head.trace.stage("render");
        context.heavy.render(body, || coupled::render_completions(&context, served, &request, &settings))?
    };
    if let Some(first) = rendered.first() {
        let asked = request.model.as_deref().unwrap_or(served.name());
        head.trace.asks("text_completion", asked, &first.generate.sampling_params);
    }
    let pool = served.pool()?;
    let plan = plan::text(served, &TextFields::completion(&request, Reader::Engine));
    let streams = request.stream == Some(true);
    // Logprobs of the prompt come with whole answers only.
    let from_engine = (streams && !(request.echo == Some(true) && request.logprobs.is_some())) || !plan.stop.is_empty();
    let mut prompts = Vec::with_capacity(rendered.len());
    let mut requests = Vec::with_capacity(rendered.len());
    for rendered in rendered {
        let ids = rendered.generate.token_ids.clone();
        let text = rendered.prompt_text.unwrap_or_else(|| plan.vocabulary.decode_ids(&ids));
        prompts.push(PromptText { ids, text });
        let mut request = coupled::for_engine(rendered.generate, served, from_engine);
        let grammar = context.heavy.read(body.len(), || structured::take(served, &mut request, None))?;
        requests.push((request, grammar));
    }
    let engine_streams = from_engine || requests.iter().any(|(_, grammar)| grammar.is_some());
    let envelope = Envelope::new(&id, "text_completion", coupled::now(), served.called(request.model.as_deref()));
    let n = usize::try_from(request.n).unwrap_or(1).max(1);
    let transcript = {
        let ids = prompts.iter().map(|prompt| prompt.ids.as_slice());
        Transcript::begin(&context, head, &plan.vocabulary, ids, prompts.len() * n)
    };
    let measure = coupled::measure(&context, head, served);
    let caller = coupled::caller(head, pool, request.user.as_deref());
    let interval = pool.options().keep_alive_interval;
    let generations = coupled::generate(Arc::clone(pool), caller, requests, Arc::clone(&context.metrics.stages));
    let reply = async move {
        let generations = Generations { list: generations.await?, turn: 0 };
        let style = Style::completion(
            request.logprobs,
            request.logprob_token_ids.as_ref().is_some_and(|ids| !ids.is_empty()),
            request.return_tokens_as_token_ids == Some(true),
        )
        .within_rank();
        let choices: Vec<_> =
            prompts.iter().flat_map(|prompt| (0..n).map(|_| Choice::new(&plan, &prompt.ids))).collect();
        let prompt = prompts.iter().map(|prompt| prompt.ids.len()).sum();
        let meter = measure(Expected { prompt, choices: choices.len(), engine_streams });
        Ok::<_, ApiError>(Reply { envelope, style, meter, transcript, generations, request, plan, prompts, n, choices })
    };
    if !streams {
        return reply.await?.whole().await.map(response::json);
    }
    let opening = async move { Ok(Streamed::new(reply.await?).bytes()) };
    coupled::stream(opening, interval, Arc::clone(&head.record)).await
}

struct PromptText {
    ids: Vec<u32>,
    text: String,
}

/// The engine's answers to all prompts, read in turns.
struct Generations {
    list: Vec<Answer>,
    turn: usize,
}

impl Stream for Generations {
    type Item = (usize, Result<GenerateResponse, EngineError>);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        let count = self.list.len();
        let mut open = false;
        for step in 0..count {
            let at = (self.turn + step) % count;
            match self.list[at].poll_next_unpin(cx) {
                Poll::Ready(Some(chunk)) => {
                    self.turn = at + 1;
                    return Poll::Ready(Some((at, chunk)));
                }
                Poll::Ready(None) => {}
                Poll::Pending => open = true,
            }
        }
        if open { Poll::Pending } else { Poll::Ready(None) }
    }
}

/// Replies on their way: what is fixed, and where each choice stands.
struct Reply {
    request: CompletionRequest,
    plan: Plan,
    prompts: Vec<PromptText>,
    n: usize,
    style: Style,
    envelope: Envelope,
    meter: Meter,
    transcript: Option<Transcript>,
    generations: Generations,
    choices: Vec<Choice>,
}

/// One of the `n` choices of a prompt.
struct Choice {
    state: State,
    finish: Option<Finish>,
    /// The prompt has been told, by `echo` or `return_token_ids`.
    told_prompt: bool,
    /// For whole answers only: all that came.
    pieces: Pieces,
    token_ids: Vec<u32>,
    logprobs: CompletionLogprobs,
}

impl Choice {
    fn new(plan: &Plan, prompt: &[u32]) -> Self {
        Self {
            state: plan.start(prompt),
            finish: None,
            told_prompt: false,
            pieces: Pieces::default(),
            token_ids: Vec::new(),
            logprobs: CompletionLogprobs::default(),
        }
    }
}

impl Reply {
    fn echoes(&self) -> bool {
        self.request.echo == Some(true)
    }

    /// With `max_tokens: 0` the reply is the prompt alone; the engine generates one token all the same.
    fn prompt_only(&self) -> bool {
        self.echoes() && self.request.max_tokens == Some(0)
    }

    fn returns_ids(&self) -> bool {
        self.request.return_token_ids == Some(true)
    }

    /// The prompt's text before the reply's. vLLM leaves it out where the prompt's ids are returned.
    fn echoed_text(&self, prompt: usize) -> &str {
        if self.echoes() && !self.returns_ids() { &self.prompts[prompt].text } else { "" }
    }

    fn slot(&self, prompt: usize, index: u32) -> Result<usize, ApiError> {
        let index = index as usize;
        if index < self.n {
            return Ok(prompt * self.n + index);
        }
        Err(ApiError::bad_gateway(format!("the engine sent choice {index} of {}", self.n)))
    }

    /// Stops the engine once every choice of a prompt has ended.
    fn stop_if_done(&mut self, prompt: usize) {
        let choices = &self.choices[prompt * self.n..(prompt + 1) * self.n];
        if choices.iter().all(|choice| choice.finish.is_some()) {
            self.generations.list[prompt].stop();
        }
    }

    /// Reads what arrived for one choice; its text is added to `pieces`. Returns how many tokens were kept and their
    /// logprobs.
    fn read(
        &mut self,
        slot: usize,
        arrived: &GenerateChoice,
        prompt_logprobs: Option<&PromptLogprobs>,
        pieces: &mut Pieces,
    ) -> (usize, Option<CompletionLogprobs>) {
        let echo = (self.echoes() && !self.choices[slot].told_prompt).then(|| slot / self.n);
        let (plan, style, prompt_only) = (&self.plan, self.style, self.prompt_only());
        let choice = &mut self.choices[slot];
        let mut context = if arrived.logprobs.is_some() { choice.state.counts.context.clone() } else { Vec::new() };
        let mut unseen = Pieces::default();
        let before = choice.state.counts.tokens;
        let step = plan.step(&mut choice.state, arrived, if prompt_only { &mut unseen } else { pieces });
        self.meter.generated(choice.state.counts.tokens.saturating_sub(before));
        if let Some(transcript) = &mut self.transcript {
            transcript.said(slot, arrived.token_ids.as_deref().unwrap_or_default());
        }
        choice.finish = step.finish;
        if let Some(finish) = &choice.finish {
            self.meter.finished(&finish.reason);
        }
        if self.request.logprobs.is_none() {
            return (step.kept, None);
        }
        let mut logprobs = CompletionLogprobs::default();
        let mut offset = choice.state.counts.text_offset;
        if let (Some(prompt), Some(given)) = (echo, prompt_logprobs) {
            let ids = &self.prompts[prompt].ids;
            given.list(&plan.vocabulary, ids, style, &mut logprobs, &mut offset);
        }
        let positions = arrived.logprobs.as_ref().and_then(|logprobs| logprobs.content.as_deref()).unwrap_or_default();
        if !prompt_only {
            let kept = &positions[..step.kept.min(positions.len())];
            logprobs.extend(&plan.vocabulary, kept, style, &mut context, &mut offset);
        }
        choice.state.counts.text_offset = offset;
        (step.kept, Some(logprobs))
    }

    fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompts.iter().map(|prompt| prompt.ids.len() as u64).sum(),
            completion_tokens: self.choices.iter().map(|choice| choice.state.counts.tokens as u64).sum(),
            reasoning_tokens: None,
        }
    }

    /// Reads the answers to their end and folds them into one body.
    async fn whole(mut self) -> Result<Bytes, ApiError> {
        let mut passed_on: Vec<PassedOn> = self.prompts.iter().map(|_| PassedOn::default()).collect();
        let mut prompt_logprobs: Vec<Option<PromptLogprobs>> = self.prompts.iter().map(|_| None).collect();
        while let Some((prompt, chunk)) = self.generations.next().await {
            let mut chunk = chunk?;
            self.meter.arrived();
            passed_on[prompt].take(&mut chunk);
            if let Some(raw) = passed_on[prompt].prompt_logprobs.take() {
                prompt_logprobs[prompt] = Some(PromptLogprobs::parse(&raw).map_err(ApiError::bad_gateway)?);
            }
            for choice in &chunk.choices {
                self.collect(prompt, choice, prompt_logprobs[prompt].as_ref())?;
            }
            self.meter.read();
        }
        for choice in &self.choices {
            match &choice.finish {
                Some(finish) if finish.reason == "error" => return Err(coupled::generation_error()),
                Some(_) => {}
                None => return Err(ApiError::bad_gateway("the engine's answer ended before all choices did")),
            }
        }
        Ok(self.fold(&passed_on, &prompt_logprobs))
    }

    fn collect(
        &mut self,
        prompt: usize,
        arrived: &GenerateChoice,
        prompt_logprobs: Option<&PromptLogprobs>,
    ) -> Result<(), ApiError> {
        let slot = self.slot(prompt, arrived.index)?;
        if self.choices[slot].finish.is_some() {
            return Ok(());
        }
        let mut pieces = std::mem::take(&mut self.choices[slot].pieces);
        let (kept, logprobs) = self.read(slot, arrived, prompt_logprobs, &mut pieces);
        if kept > 0 {
            self.meter.kept(slot);
        }
        let choice = &mut self.choices[slot];
        choice.told_prompt = true;
        choice.pieces = pieces;
        choice.token_ids.extend_from_slice(&arrived.token_ids.as_deref().unwrap_or_default()[..kept]);
        if let Some(logprobs) = logprobs {
            choice.logprobs.append(logprobs);
        }
        if choice.finish.as_ref().is_some_and(|finish| finish.stopped_here) {
            self.stop_if_done(prompt);
        }
        Ok(())
    }

    fn fold(&self, passed_on: &[PassedOn], prompt_logprobs: &[Option<PromptLogprobs>]) -> Bytes {
        let mut json = JsonBuffer::default();
        self.envelope.open(&mut json);
        for (slot, choice) in self.choices.iter().enumerate() {
            let prompt = slot / self.n;
            let Some(finish) = &choice.finish else { continue };
            let stop_reason = self.plan.stop_tokens.reported(finish.stop_reason.clone());
            let written = completion::Choice {
                index: slot as u32,
                text: &format!("{}{}", self.echoed_text(prompt), choice.pieces.text()),
                logprobs: self.request.logprobs.is_some().then_some(&choice.logprobs),
                finish_reason: Some(&finish.reason),
                stop_reason: stop_reason.as_ref(),
                prompt_token_ids: self.returns_ids().then_some(self.prompts[prompt].ids.as_slice()),
                token_ids: self.returns_ids().then_some(choice.token_ids.as_slice()),
            };
            let told = prompt_logprobs[prompt].as_ref().map(|given| given.with_text(&self.plan.vocabulary));
            write_whole_choice(&written, told.as_ref(), slot == 0, &mut json);
        }
        json.raw("],\"service_tier\":null");
        self.envelope.write_fingerprint(&mut json);
        json.key("usage");
        self.usage().write_whole(&mut json);
        if let Some(first) = passed_on.first() {
            first.write(&mut json);
        }
        json.raw("}");
        json.into_bytes()
    }
}

/// Replies that are sent as they come.
struct Streamed {
    reply: Reply,
    include_usage: bool,
    continuous_usage: bool,
    ended: bool,
    pieces: Pieces,
    json: JsonBuffer,
}

impl Streamed {
    fn new(reply: Reply) -> Self {
        let (include_usage, continuous_usage) = coupled::usage_options(reply.request.stream_options.as_ref());
        Self {
            reply,
            include_usage,
            continuous_usage,
            ended: false,
            pieces: Pieces::default(),
            json: JsonBuffer::default(),
        }
    }

    fn bytes(self) -> ByteStream {
        Box::pin(stream::unfold(self, |mut streamed| async { streamed.next().await.map(|bytes| (bytes, streamed)) }))
    }

    /// The next piece of the body: one engine chunk, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            match self.reply.generations.next().await {
                Some((prompt, chunk)) => {
                    self.reply.meter.arrived();
                    if let Err(error) = chunk.map_err(ApiError::from).and_then(|chunk| self.read(prompt, &chunk)) {
                        self.fail(&error);
                    }
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

    fn read(&mut self, prompt: usize, chunk: &GenerateResponse) -> Result<(), ApiError> {
        let given =
            chunk.prompt_logprobs.as_deref().map(PromptLogprobs::parse).transpose().map_err(ApiError::bad_gateway)?;
        for choice in &chunk.choices {
            if choice.finish_reason.get() == Some("error") {
                return Err(coupled::generation_error());
            }
            let slot = self.reply.slot(prompt, choice.index)?;
            if self.reply.choices[slot].finish.is_none() {
                self.read_choice(prompt, slot, choice, given.as_ref());
            }
        }
        Ok(())
    }

    fn read_choice(&mut self, prompt: usize, slot: usize, arrived: &GenerateChoice, given: Option<&PromptLogprobs>) {
        self.pieces.clear();
        let first = !self.reply.choices[slot].told_prompt;
        if first && self.reply.echoes() {
            let text = self.reply.echoed_text(prompt).to_owned();
            self.pieces.push(None, &text);
        }
        let (kept, logprobs) = self.reply.read(slot, arrived, given, &mut self.pieces);
        let Self { reply, pieces, json, .. } = self;
        reply.meter.told(slot);
        reply.choices[slot].told_prompt |= reply.echoes() || reply.returns_ids();
        let choice = &reply.choices[slot];
        let finish = choice.finish.as_ref();
        let stop_reason = finish.and_then(|finish| reply.plan.stop_tokens.reported(finish.stop_reason.clone()));
        let tells_prompt = first && (reply.echoes() || reply.returns_ids());
        let ids = &arrived.token_ids.as_deref().unwrap_or_default()[..kept];
        let written = completion::Choice {
            index: slot as u32,
            text: pieces.text(),
            logprobs: logprobs.as_ref(),
            finish_reason: finish.map(|finish| finish.reason.as_str()),
            stop_reason: stop_reason.as_ref(),
            prompt_token_ids: tells_prompt.then_some(reply.prompts[prompt].ids.as_slice()),
            token_ids: reply.returns_ids().then_some(ids),
        };
        let usage = self.continuous_usage.then(|| Usage {
            prompt_tokens: reply.prompts[prompt].ids.len() as u64,
            completion_tokens: choice.state.counts.tokens as u64,
            reasoning_tokens: None,
        });
        let fingerprint = finish.is_some() && !self.include_usage;
        let stopped_here = finish.is_some_and(|finish| finish.stopped_here);
        sse::event(json, |json| write_chunk(&reply.envelope, &written, fingerprint, usage.as_ref(), json));
        if stopped_here {
            self.reply.stop_if_done(prompt);
        }
    }

    fn end(&mut self) {
        if let Some(open) = self.reply.choices.iter().position(|choice| choice.finish.is_none()) {
            let message = format!("the engine's answer ended before choice {open} did");
            return self.fail(&ApiError::bad_gateway(message));
        }
        if self.include_usage {
            let (usage, envelope) = (self.reply.usage(), &self.reply.envelope);
            sse::event(&mut self.json, |json| envelope.write_usage_chunk(&usage, json));
        }
        sse::done(&mut self.json);
        self.ended = true;
    }

    fn fail(&mut self, error: &ApiError) {
        self.reply.generations.list.iter_mut().for_each(Answer::stop);
        coupled::note_abort(&self.reply.meter, error);
        sse::error(&mut self.json, error);
        sse::done(&mut self.json);
        self.ended = true;
    }
}
