//! What vLLM's engine does only in whole answers.

use super::Record;
use crate::parsers::message::Answer;
use crate::parsers::{Context, python};

/// Arguments of a call that was cut are closed, and content beside calls loses the white space at its edges.
pub(in crate::parsers) fn trimmed(context: &Context, record: &Record, said: Answer) -> Answer {
    let mut said = untrimmed(context, record, said);
    if !said.calls.is_empty() {
        said.content = said.content.trim().to_owned();
    }
    said
}

/// Arguments of a call that was cut are closed, and white space after the calls is dropped.
pub(in crate::parsers) fn untrimmed(_context: &Context, record: &Record, mut said: Answer) -> Answer {
    for (index, call) in said.calls.iter_mut().enumerate() {
        let closed = record.closed(index, &call.arguments);
        call.arguments = python::loads(&closed).map_or(closed, |value| python::dumps(&value));
    }
    said.content = record.without_blank_after_calls(said.content);
    said
}

/// A call that was cut is none.
pub(in crate::parsers) fn without_cut(record: &Record, mut said: Answer) -> Answer {
    if record.is_unclosed() {
        said.calls.pop();
    }
    said
}

/// Just what the events said.
pub(in crate::parsers) fn as_said(_context: &Context, _record: &Record, said: Answer) -> Answer {
    said
}
