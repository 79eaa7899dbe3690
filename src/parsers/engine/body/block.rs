//! A block of calls that means something only when it is complete: it is collected and read at its end. What is no call
//! is given back as content.

use serde::{Deserialize, Serialize};

use super::super::memory::is_default;
use super::super::{Ids, Output};
use crate::parsers::Context;
use crate::parsers::python;

/// A block longer than this is none.
const MAX_TEXT: usize = 1024 * 1024;

/// What a block's text holds.
#[derive(Debug, Default)]
pub(in crate::parsers) struct Calls {
    /// Names and arguments; none where this is no block of calls.
    pub(in crate::parsers) calls: Vec<(String, String)>,
    /// Text beside them that is no call: content.
    pub(in crate::parsers) rest: String,
}

/// How a block is read.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Block {
    /// What a block's text holds.
    pub(in crate::parsers) calls: fn(&Context, &str) -> Calls,
    pub(in crate::parsers) ids: Ids,
    /// A block that the reply's end cut is dropped, not given back.
    pub(in crate::parsers) drops_cut: bool,
}

/// What was collected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct BlockMemory {
    /// The mark before the text.
    #[serde(rename = "m", skip_serializing_if = "is_default")]
    mark: String,
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    text: String,
    /// It is too long: it was given back, and so is what follows.
    #[serde(rename = "x", skip_serializing_if = "is_default")]
    given_back: bool,
}

impl BlockMemory {
    /// A block that this mark begins.
    pub(super) fn begin(mark: &str) -> Self {
        Self { mark: mark.to_owned(), ..Self::default() }
    }
}

impl Block {
    pub(super) fn read(&self, memory: &mut BlockMemory, text: &str, out: &mut Output<'_>) {
        memory.text.push_str(text);
        if memory.given_back || memory.text.len() > MAX_TEXT {
            memory.given_back = true;
            give_back(memory, out);
        }
    }

    /// The block ends, by this mark or at the end of the reply.
    pub(super) fn end(&self, mut memory: BlockMemory, mark: &str, out: &mut Output<'_>) {
        let cut = mark.is_empty();
        if cut && self.drops_cut {
            return;
        }
        let none = cut || memory.given_back;
        let Calls { calls, rest } = if none { Calls::default() } else { (self.calls)(out.context, &memory.text) };
        if calls.is_empty() {
            give_back(&mut memory, out);
            return out.content(mark);
        }
        for (name, arguments) in calls {
            out.call(&name, self.ids);
            out.arguments(&arguments);
        }
        if !rest.is_empty() {
            out.give_back(&rest);
        }
    }
}

fn give_back(memory: &mut BlockMemory, out: &mut Output<'_>) {
    let text = std::mem::take(&mut memory.mark) + &std::mem::take(&mut memory.text);
    out.give_back(&text);
}

/// The call that a block of one JSON object is.
pub(in crate::parsers) fn object(_context: &Context, text: &str) -> Calls {
    let call = python::loads(text.trim());
    let Some((call, name)) = call.as_ref().and_then(|call| Some((call, call.get("name")?.as_str()?))) else {
        return Calls::default();
    };
    let arguments = call.get("arguments").map_or_else(|| "{}".to_owned(), python::dumps);
    Calls { calls: vec![(name.to_owned(), arguments)], rest: String::new() }
}
