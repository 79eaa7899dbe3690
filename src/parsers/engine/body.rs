//! How the body of a call is read, whatever marks stand around it.

mod collected;
mod json_call;
mod json_list;
mod params;
mod raw;
pub(in crate::parsers) mod tags;
mod typed_json;

pub(in crate::parsers) use collected::{Collected, CollectedMemory};
pub(in crate::parsers) use json_call::{JsonCall, JsonCallMemory};
pub(in crate::parsers) use json_list::{JsonList, JsonListMemory};
pub(in crate::parsers) use params::{Params, ParamsMemory, Tag, Typing, Value};
pub(in crate::parsers) use raw::{Raw, RawMemory};
pub(in crate::parsers) use typed_json::TypedJsonMemory;

use serde::{Deserialize, Serialize};

use super::Output;

/// How the body of a call is read.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) enum Body {
    /// One JSON object with the name and the arguments.
    JsonCall(JsonCall),
    /// A list of such objects.
    JsonList(JsonList),
    /// Parameters between tags, typed by the tool's schema.
    Params(Params),
    /// JSON arguments and nothing else.
    Raw(Raw),
    /// Anything, made into arguments at its end.
    Collected(Collected),
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
    /// Among parameters.
    #[serde(rename = "p")]
    Params(Box<ParamsMemory>),
    /// In raw arguments.
    #[serde(rename = "r")]
    Raw(Box<RawMemory>),
    /// In a body that is collected.
    #[serde(rename = "c")]
    Collected(Box<CollectedMemory>),
}

impl Body {
    /// True where the name stands in the body, not before it.
    pub(super) fn names_itself(&self) -> bool {
        matches!(self, Self::JsonCall(_) | Self::JsonList(_))
    }

    /// True where nothing is said before the end, so that reading does no harm to a call that is none.
    pub(super) fn says_at_end(&self) -> bool {
        matches!(self, Self::Collected(_))
    }

    /// A call that this mark begins.
    pub(super) fn begin(&self, mark: &str) -> BodyMemory {
        match self {
            Self::JsonCall(_) => BodyMemory::JsonCall(Box::new(JsonCallMemory::begin(mark))),
            Self::JsonList(list) => list.begin(),
            Self::Params(_) => BodyMemory::Params(Box::default()),
            Self::Raw(_) => BodyMemory::Raw(Box::default()),
            Self::Collected(_) => BodyMemory::Collected(Box::default()),
        }
    }

    /// The name has been read.
    pub(super) fn named(&self, memory: &mut BodyMemory, name: &str) {
        match memory {
            BodyMemory::Params(memory) => memory.named(name),
            BodyMemory::Collected(memory) => memory.named(name),
            _ => {}
        }
    }

    /// Reads more of it. A body that does not fit came from a stranger: nothing to read.
    pub(super) fn read(&self, memory: &mut BodyMemory, text: &str, out: &mut Output<'_>) {
        match (self, memory) {
            (Self::JsonList(body), memory) => body.read(memory, text, out),
            (Self::JsonCall(body), BodyMemory::JsonCall(memory)) => {
                body.read(memory, text, out);
            }
            (Self::Params(body), BodyMemory::Params(memory)) => body.read(memory, text, out),
            (Self::Raw(body), BodyMemory::Raw(memory)) => body.read(memory, text, out),
            (Self::Collected(_), BodyMemory::Collected(memory)) => memory.read(text),
            _ => {}
        }
    }

    /// An engine chunk ends within the call.
    pub(super) fn end_chunk(&self, memory: &mut BodyMemory, out: &mut Output<'_>) {
        if let (Self::Params(body), BodyMemory::Params(memory)) = (self, memory) {
            body.end_chunk(memory, out);
        }
    }

    /// The call ends, by this mark or at the end of the reply.
    pub(super) fn end(&self, memory: BodyMemory, mark: &str, out: &mut Output<'_>) {
        match (self, memory) {
            (Self::JsonCall(body), BodyMemory::JsonCall(memory)) => body.end(*memory, mark, out),
            (Self::Params(body), BodyMemory::Params(memory)) => body.end(*memory, mark, out),
            (Self::Raw(body), BodyMemory::Raw(memory)) => body.end(&memory, out),
            (Self::Collected(body), BodyMemory::Collected(memory)) => body.end(&memory, out),
            _ => {}
        }
    }
}
