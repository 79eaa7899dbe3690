//! Server-sent events: `data: {…}` and a blank line; the last is `data: [DONE]`.

use bytes::Bytes;

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

/// How a stream ends in which nothing more can come: an error, then the end.
pub fn broken_off(error: &ApiError) -> Bytes {
    let mut json = JsonBuffer::default();
    self::error(&mut json, error);
    done(&mut json);
    json.take()
}
