//! What whole answers make of the events.

use super::Record;
use crate::parsers::message::Answer;
use crate::parsers::python::{self, Json};
use crate::parsers::{Context, python::dumps};

/// Arguments are written anew, but for those that were cut, and content beside calls loses the white space at its edges.
pub(in crate::parsers) fn trimmed(context: &Context, record: &Record, said: Answer) -> Answer {
    trim(untrimmed(context, record, said))
}

/// Content beside calls loses the white space at its edges.
pub(in crate::parsers) fn trim(mut said: Answer) -> Answer {
    if !said.calls.is_empty() {
        said.content = said.content.trim().to_owned();
    }
    said
}

/// Arguments are written anew, but for those that were cut, and white space after the calls is dropped.
pub(in crate::parsers) fn untrimmed(_context: &Context, record: &Record, mut said: Answer) -> Answer {
    for call in &mut said.calls {
        if let Some(value) = python::loads(&call.arguments) {
            call.arguments = dumps(&value);
        }
    }
    said.content = record.without_blank_after_calls(said.content);
    said
}

/// Just what the events said.
pub(in crate::parsers) fn as_said(_context: &Context, _record: &Record, said: Answer) -> Answer {
    said
}

/// Arguments are written anew; if one call is malformed, the text is content.
pub(in crate::parsers) fn strict(_context: &Context, record: &Record, said: Answer) -> Answer {
    let arguments = |call: &crate::parsers::message::ToolCall| Some(dumps(&python::loads(&call.arguments)?));
    match said.calls.iter().map(arguments).collect::<Option<Vec<_>>>() {
        Some(arguments) if !said.given_back => said.with_arguments(arguments),
        _ => Answer::text(record.text()),
    }
}

/// The same, for calls that are JSON objects: each body must be one, or a list of them.
pub(in crate::parsers) fn objects(context: &Context, record: &Record, said: Answer) -> Answer {
    let is_call = |json: &Json| json.get("name").is_some_and(|name| name.as_str().is_some());
    let is_whole = |body: &str| match python::loads(body) {
        Some(Json::List(calls)) => calls.iter().all(is_call),
        Some(call) => is_call(&call),
        None => false,
    };
    if record.bodies().all(is_whole) { strict(context, record, said) } else { Answer::text(record.text()) }
}

/// A call that was cut stays open; anything else is what `other` makes of it.
pub(in crate::parsers) fn open_or(
    other: fn(&Context, &Record, Answer) -> Answer,
    context: &Context,
    record: &Record,
    said: Answer,
) -> Answer {
    let cut = record.is_cut() && !said.calls.is_empty() && !said.given_back;
    if cut { untrimmed(context, record, said) } else { other(context, record, said) }
}
