//! Server-sent events: `data: {…}` and a blank line; the last is `data: [DONE]`.

use super::json::JsonBuffer;
use crate::api::error::ApiError;

/// Writes one event whose data is what `write` appends.
pub fn event(json: &mut JsonBuffer, write: impl FnOnce(&mut JsonBuffer)) {
    json.raw("data: ");
    write(json);
    json.raw("\n\n");
}

/// An error in the middle of a stream: the status has been sent long ago.
pub fn error(json: &mut JsonBuffer, error: &ApiError) {
    event(json, |json| {
        json.value(&error.body);
    });
}

/// The end of every stream.
pub fn done(json: &mut JsonBuffer) {
    json.raw("data: [DONE]\n\n");
}
