//! Forced calls as plain JSON: what most dialects get for `tool_choice: "required"` and for a named function, because a
//! grammar then makes the model write JSON instead of its own markup.

use super::body::{BodyMemory, JsonCall, JsonList};
use super::{Ids, Output, ReadTools, Record, ToolMemory};
use crate::parsers::message::{Answer, ToolCall};
use crate::parsers::python::{self, Json};
use crate::parsers::{Context, Token, ToolChoice, ids};

/// A named function: the whole text is its arguments.
#[derive(Debug)]
pub(in crate::parsers) struct Named;

/// `required`: a list of `{"name": …, "parameters": {…}}`.
#[derive(Debug)]
pub(in crate::parsers) struct Required;

impl ReadTools for Named {
    fn start(&self, _context: &Context) -> ToolMemory {
        ToolMemory::default()
    }

    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        out.note(token.text);
        if !token.text.is_empty() {
            begin(memory, out);
            out.arguments(token.text);
        }
    }

    /// The call begins with the first chunk, and every chunk has arguments, were they empty.
    fn end_chunk(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        begin(memory, out);
        out.even_empty_arguments("");
    }

    fn finish(&self, _memory: &mut ToolMemory, _out: &mut Output<'_>) {}

    fn joins(&self) -> bool {
        true
    }

    /// White space alone is no call.
    fn whole(&self, _context: &Context, record: &Record, said: Answer) -> Answer {
        if record.text().trim().is_empty() { Answer::default() } else { said }
    }
}

fn begin(memory: &mut ToolMemory, out: &mut Output<'_>) {
    if !memory.called
        && let ToolChoice::Named(name) = &out.context.tool_choice
    {
        memory.called = true;
        out.call(name, Ids::OfModel);
    }
}

const LIST: JsonList = JsonList {
    call: JsonCall { name: "name", arguments: &["parameters"], ids: Ids::OfModel, ..JsonCall::STRICT },
    single: false,
};

impl ReadTools for Required {
    fn start(&self, _context: &Context) -> ToolMemory {
        ToolMemory { body: LIST.begin(), ..ToolMemory::default() }
    }

    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        out.note(token.text);
        if let BodyMemory::JsonList(list) = &mut memory.body {
            LIST.read(list, token.text, out);
        }
    }

    fn finish(&self, _memory: &mut ToolMemory, _out: &mut Output<'_>) {}

    fn joins(&self) -> bool {
        true
    }

    /// Either the text is such a list, or nothing was called.
    fn whole(&self, context: &Context, record: &Record, said: Answer) -> Answer {
        let calls = python::loads(record.text()).and_then(|list| calls(context, &list, &said));
        Answer { calls: calls.unwrap_or_default(), ..Answer::default() }
    }
}

fn calls(context: &Context, list: &Json, said: &Answer) -> Option<Vec<ToolCall>> {
    let Json::List(items) = list else { return None };
    let limit = if context.parallel_tool_calls { usize::MAX } else { 1 };
    let calls: Option<Vec<_>> =
        items.iter().enumerate().map(|(index, item)| call(context, item, index, said)).collect();
    calls.map(|calls| calls.into_iter().take(limit).collect())
}

fn call(context: &Context, item: &Json, index: usize, said: &Answer) -> Option<ToolCall> {
    let name = item.get("name")?.as_str()?.to_owned();
    let arguments = match item.get("parameters") {
        None | Some(Json::Null) => "null".to_owned(),
        Some(parameters @ Json::Dict(_)) => python::dumps(parameters),
        Some(_) => return None,
    };
    let id = said.calls.get(index).map_or_else(|| ids::random(context.id_seed, index), |call| call.id.clone());
    Some(ToolCall { id, name, arguments })
}
