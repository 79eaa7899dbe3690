//! The machine that runs a dialect: it reads tokens in two halves, reasoning first, and says what it reads.
//!
//! ```text
//! tokens ─▶ reasoning half ─┬─▶ reasoning
//!                           └─▶ what is not reasoning ─▶ tool half ─┬─▶ content
//!                                                                   └─▶ calls
//! ```
//!
//! Most dialects are data for [`Thinking`] and [`Grammar`]; one that fits neither brings its own [`ReadReasoning`] or
//! [`ReadTools`]. Whatever a half has to remember between tokens is in its [`memory`].

mod body;
mod forced;
mod grammar;
mod manners;
mod marks;
mod memory;
pub(super) mod messages;
mod newlines;
mod output;
pub(super) mod regions;
mod scan;
mod thinking;
pub(super) mod whole;

pub(super) use body::{
    Block, Body, Braces, Collected, Flow, JsonCall, JsonList, Params, PyCalls, Raw, Tag, Typing, Value, block, tags,
};
pub(super) use forced::{Named, Required};
pub(super) use grammar::{Act, Grammar, Mode, Move, on};
pub(super) use manners::{Blank, Lexer, Manners, Unknown};
pub(super) use marks::{By, Marks};
pub(super) use memory::{ReasoningMemory, ToolMemory};
pub(super) use output::{Ids, Output, Record};
pub(super) use thinking::{Counting, Empty, Reopens, Start, Stray, Thinking};

use std::fmt::Debug;

use super::message::Answer;
use super::{Context, Events, Token, Unsupported, Vocabulary};

/// A piece of a reply, as the reasoning half divides it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece<'a> {
    /// Reasoning.
    Reasoning(&'a str),
    /// What the tool half shall read.
    Rest(Token<'a>),
}

/// What a half is made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) vocabulary: &'a Vocabulary,
    /// A reasoning half was configured, too.
    pub(super) beside_reasoning: bool,
    /// A tool half was configured, too.
    pub(super) beside_tools: bool,
    /// The reasoning half is not of vLLM's engine: whole answers without a call give all markup back.
    pub(super) mixed: bool,
}

/// The reasoning half of a dialect.
pub(super) trait ReadReasoning: Debug + Send + Sync {
    /// What the request asks of the dialect that it does not have.
    fn refuses(&self, context: &Context) -> Option<Unsupported> {
        let _ = context;
        None
    }

    /// False where the request switches reasoning off: all text is for the tool half.
    fn is_on(&self, context: &Context) -> bool;

    /// Where a reply begins, from the request alone.
    fn start(&self, context: &Context) -> ReasoningMemory;

    /// Whether the prompt already ended the reasoning.
    fn ended_by_prompt(&self, context: &Context) -> bool;

    /// Whether to read at all: not where the reasoning is off or was ended by the prompt.
    fn reads(&self, context: &Context) -> bool {
        self.is_on(context) && !self.ended_by_prompt(context)
    }

    /// Counts one token that the model wrote, if it is one of reasoning. Called for every token, before it is read.
    fn count(&self, memory: &mut ReasoningMemory, id: u32);

    /// Reads one token, where it [`reads`](Self::reads).
    fn read(&self, memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>));

    /// Says what was held back.
    fn finish(&self, memory: &mut ReasoningMemory, say: &mut dyn FnMut(Piece<'_>));

    /// True where vLLM sends an empty `reasoning` for a chunk of reasoning that has no text.
    fn says_empty(&self, chunk: &[Token<'_>]) -> bool;

    /// True where vLLM sends an empty `content` for tokens without text, because it reads no more here.
    fn passes(&self, context: &Context, memory: &ReasoningMemory) -> bool {
        let _ = (context, memory);
        true
    }

    /// True for what vLLM reads with its engine: beside another such half, markup is never given back as text.
    fn is_engine(&self) -> bool {
        false
    }

    /// Rewrites what both halves said since the last time; with `last` nothing follows.
    fn polish(&self, memory: &mut ReasoningMemory, events: &mut Events, last: bool) {
        let _ = (memory, events, last);
    }

    /// What a whole answer makes of the reasoning and of the text left over.
    fn whole(
        &self,
        context: &Context,
        memory: &ReasoningMemory,
        reasoning: String,
        rest: String,
    ) -> (Option<String>, Option<String>) {
        let _ = (context, memory);
        let some = |text: String| (!text.is_empty()).then_some(text);
        (some(reasoning), some(rest))
    }
}

/// The tool half of a dialect.
pub(super) trait ReadTools: Debug + Send + Sync {
    /// What the request asks of the dialect that it does not have.
    fn refuses(&self, context: &Context) -> Option<Unsupported> {
        let _ = context;
        None
    }

    /// Why it cannot read this model's replies.
    fn problem(&self) -> Option<&str> {
        None
    }

    /// True where the prompt's text decides where a reply begins.
    fn wants_prompt_text(&self) -> bool {
        false
    }

    /// Where it begins.
    fn start(&self, context: &Context) -> ToolMemory;

    /// Reads one token.
    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>);

    /// Ends an engine chunk that this half had a part in.
    fn end_chunk(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        let _ = (memory, out);
    }

    /// Says what was held back and ends what is open.
    fn finish(&self, memory: &mut ToolMemory, out: &mut Output<'_>);

    /// True where a call's head and its first arguments share an entry when they share a chunk.
    fn joins(&self) -> bool {
        false
    }

    /// True where every entry of a call says its type, not only the first.
    fn types_entries(&self) -> bool {
        false
    }

    /// True where `required` and named choices make the model write plain JSON instead of its own markup.
    fn forces_json(&self) -> bool {
        true
    }

    /// True for what vLLM reads with its engine.
    fn is_engine(&self) -> bool {
        false
    }

    /// True where it reads even if no call may come, and beside the reasoning half of its name without being configured.
    fn reads_always(&self) -> bool {
        false
    }

    /// True where it reads the calls beside the reasoning of its name, whatever tool parser was configured.
    fn takes_over(&self) -> bool {
        false
    }

    /// What a whole answer makes of the same events.
    fn whole(&self, context: &Context, record: &Record, said: Answer) -> Answer {
        let _ = (context, record);
        said
    }
}
