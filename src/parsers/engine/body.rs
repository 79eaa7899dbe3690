//! How the body of a call is read, whatever marks stand around it.

pub(in crate::parsers) mod block;
mod braces;
mod certain;
mod collected;
mod firm;
mod json_call;
mod json_list;
mod nesting;
mod params;
mod py_calls;
mod raw;
pub(in crate::parsers) mod tags;

pub(in crate::parsers) use block::{Block, BlockMemory};
pub(in crate::parsers) use braces::{Braces, BracesMemory};
pub(in crate::parsers) use collected::{Collected, CollectedMemory};
pub(in crate::parsers) use json_call::{Flow, JsonCall, JsonCallMemory};
pub(in crate::parsers) use json_list::{JsonList, JsonListMemory};
pub(in crate::parsers) use params::{Params, ParamsMemory, Tag, Typing, Value};
pub(in crate::parsers) use py_calls::{PyCalls, PyCallsMemory};
pub(in crate::parsers) use raw::{Raw, RawMemory};

use serde::{Deserialize, Serialize};

use super::Output;

/// How the body of a call is read.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) enum Body {
    /// One JSON object with the name and the arguments.
    JsonCall(JsonCall),
    /// A list of such objects.
    JsonList(JsonList),
    /// Calls as Python writes them.
    PyCalls(PyCalls),
    /// Parameters between tags, typed by the tool's schema.
    Params(Params),
    /// JSON arguments and nothing else.
    Raw(Raw),
    /// Arguments with quotes of their own.
    Braces(Braces),
    /// Anything, made into arguments at its end.
    Collected(Collected),
    /// Anything, made into calls at its end.
    Block(Block),
}

/// Where the body of a call stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::parsers) enum BodyMemory {
    /// No call is open, or one that nobody shall see.
    #[default]
    #[serde(rename = "n")]
    None,
    /// In a JSON object.
    #[serde(rename = "j")]
    JsonCall(Box<JsonCallMemory>),
    /// In a list of JSON objects.
    #[serde(rename = "l")]
    JsonList(Box<JsonListMemory>),
    /// In calls as Python writes them.
    #[serde(rename = "y")]
    PyCalls(Box<PyCallsMemory>),
    /// Among parameters.
    #[serde(rename = "p")]
    Params(Box<ParamsMemory>),
    /// In raw arguments.
    #[serde(rename = "r")]
    Raw(Box<RawMemory>),
    /// In arguments with quotes of their own.
    #[serde(rename = "b")]
    Braces(Box<BracesMemory>),
    /// In a body that is collected.
    #[serde(rename = "c")]
    Collected(Box<CollectedMemory>),
    /// In a block.
    #[serde(rename = "k")]
    Block(Box<BlockMemory>),
}

impl Body {
    /// True where the name stands in the body, not before it.
    pub(super) fn names_itself(&self) -> bool {
        matches!(self, Self::JsonCall(_) | Self::JsonList(_) | Self::PyCalls(_) | Self::Block(_))
    }

    /// True where nothing is said before the end, so that reading does no harm to a call that is none.
    pub(super) fn says_at_end(&self) -> bool {
        matches!(self, Self::Collected(_))
    }

    /// A call that this mark begins.
    pub(super) fn begin(&self, mark: &str) -> BodyMemory {
        match self {
            Self::JsonCall(_) => BodyMemory::JsonCall(Box::new(JsonCallMemory::begin(mark))),
            Self::JsonList(_) => BodyMemory::JsonList(Box::new(JsonListMemory::begin(mark))),
            Self::PyCalls(_) => BodyMemory::PyCalls(Box::new(PyCallsMemory::begin(mark))),
            Self::Params(_) => BodyMemory::Params(Box::default()),
            Self::Raw(_) => BodyMemory::Raw(Box::default()),
            Self::Braces(_) => BodyMemory::Braces(Box::default()),
            Self::Collected(_) => BodyMemory::Collected(Box::default()),
            Self::Block(_) => BodyMemory::Block(Box::new(BlockMemory::begin(mark))),
        }
    }

    /// The name has been read.
    pub(super) fn named(&self, memory: &mut BodyMemory, name: &str) {
        match (self, memory) {
            (_, BodyMemory::Params(memory)) => memory.named(name),
            (_, BodyMemory::Collected(memory)) => memory.named(name),
            (Self::Braces(body), BodyMemory::Braces(memory)) => body.named(memory, name),
            _ => {}
        }
    }

    /// Reads more of it; returns what follows a body that ends by itself. A body that does not fit came from a stranger:
    /// nothing to read.
    pub(super) fn read<'t>(&self, memory: &mut BodyMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        match (self, memory) {
            (Self::JsonCall(body), BodyMemory::JsonCall(memory)) => body.read(memory, text, out),
            (Self::JsonList(body), BodyMemory::JsonList(memory)) => body.read(memory, text, out),
            (Self::PyCalls(body), BodyMemory::PyCalls(memory)) => body.read(memory, text, out),
            (Self::Params(body), BodyMemory::Params(memory)) => {
                body.read(memory, text, out);
                ""
            }
            (Self::Raw(body), BodyMemory::Raw(memory)) => body.read(memory, text, out),
            (Self::Braces(body), BodyMemory::Braces(memory)) => {
                body.read(memory, text, out);
                ""
            }
            (Self::Collected(_), BodyMemory::Collected(memory)) => {
                memory.read(text);
                ""
            }
            (Self::Block(body), BodyMemory::Block(memory)) => {
                body.read(memory, text, out);
                ""
            }
            _ => "",
        }
    }

    /// Text behind the body that belongs to it until its mark comes: kept, if it has to be given back.
    pub(super) fn keep(&self, memory: &mut BodyMemory, text: &str, out: &mut Output<'_>) {
        match (self, memory) {
            (Self::JsonCall(body), BodyMemory::JsonCall(memory)) => body.keep(memory, text, out),
            (Self::JsonList(body), BodyMemory::JsonList(memory)) => body.keep(memory, text, out),
            (Self::PyCalls(body), BodyMemory::PyCalls(memory)) => body.keep(memory, text),
            _ => {}
        }
    }

    /// Whether the body ended by itself, and then whether it was a call.
    pub(super) fn over(&self, memory: &BodyMemory) -> Option<bool> {
        match memory {
            BodyMemory::JsonCall(memory) => memory.is_over().then_some(memory.is_begun()),
            BodyMemory::JsonList(memory) => memory.is_over().then_some(memory.is_begun()),
            BodyMemory::PyCalls(memory) => memory.is_over().then_some(memory.is_begun()),
            BodyMemory::Raw(memory) => memory.is_over().then_some(true),
            _ => None,
        }
    }

    /// A call was begun by the body itself.
    pub(super) fn is_begun(&self, memory: &BodyMemory) -> bool {
        match memory {
            BodyMemory::JsonCall(memory) => memory.is_begun(),
            BodyMemory::JsonList(memory) => memory.is_begun(),
            BodyMemory::PyCalls(memory) => memory.is_begun(),
            _ => false,
        }
    }

    /// A chunk ends inside the body.
    pub(super) fn end_chunk(&self, memory: &mut BodyMemory, out: &mut Output<'_>) {
        match (self, memory) {
            (Self::PyCalls(body), BodyMemory::PyCalls(memory)) => body.end_chunk(memory, out),
            (Self::JsonList(body), BodyMemory::JsonList(memory)) => body.end_chunk(memory, out),
            (Self::Params(body), BodyMemory::Params(memory)) => body.end_chunk(memory, out),
            _ => {}
        }
    }

    /// The call ends, by this mark or at the end of the reply.
    pub(super) fn end(&self, memory: BodyMemory, mark: &str, out: &mut Output<'_>) {
        match (self, memory) {
            (Self::JsonCall(body), BodyMemory::JsonCall(mut memory)) => body.end(&mut memory, mark, out),
            (Self::JsonList(body), BodyMemory::JsonList(memory)) => body.end(*memory, mark, out),
            (Self::PyCalls(body), BodyMemory::PyCalls(memory)) => body.end(*memory, mark, out),
            (Self::Params(body), BodyMemory::Params(memory)) => body.end(*memory, mark, out),
            (Self::Raw(body), BodyMemory::Raw(memory)) => body.end(&memory, out),
            (Self::Braces(body), BodyMemory::Braces(memory)) => body.end(*memory, out),
            (Self::Collected(body), BodyMemory::Collected(memory)) => body.end(&memory, out),
            (Self::Block(body), BodyMemory::Block(memory)) => body.end(*memory, mark, out),
            _ => {}
        }
    }
}
