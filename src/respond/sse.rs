//! Server-sent events: `data: {…}` and a blank line; the last is `data: [DONE]`.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep};

use super::body::ByteStream;
use super::json::JsonBuffer;
use crate::api::error::ApiError;

/// A comment: clients skip it, but what stands between sees that the connection lives.
const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

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

/// A comment that says nothing.
pub fn keep_alive() -> Bytes {
    Bytes::from_static(KEEP_ALIVE)
}

/// How a stream ends in which nothing more can come: an error, then the end.
pub fn broken_off(error: &ApiError) -> Bytes {
    let mut json = JsonBuffer::default();
    self::error(&mut json, error);
    done(&mut json);
    json.take()
}

/// A stream that says something at least once in an interval: what `stream` says, else a comment.
pub struct KeptAlive {
    stream: ByteStream,
    interval: Duration,
    spoke: Instant,
    timer: Pin<Box<Sleep>>,
}

impl KeptAlive {
    /// Keeps a stream alive that has been silent until now.
    pub fn new(stream: ByteStream, interval: Duration) -> Self {
        Self { stream, interval, spoke: Instant::now(), timer: Box::pin(sleep(interval)) }
    }
}

impl Stream for KeptAlive {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Poll::Ready(piece) = this.stream.as_mut().poll_next(cx) {
            this.spoke = Instant::now();
            return Poll::Ready(piece);
        }
        // The timer is not set anew with every piece but when it rings, which is cheaper.
        while this.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let silent = now.duration_since(this.spoke) >= this.interval;
            if silent {
                this.spoke = now;
            }
            this.timer.as_mut().reset(this.spoke + this.interval);
            if silent {
                return Poll::Ready(Some(keep_alive()));
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_is_filled_with_comments() {
        let pauses = stream::iter([1, 25, 5]).then(|seconds| async move {
            sleep(Duration::from_secs(seconds)).await;
            Bytes::from(format!("after {seconds}"))
        });
        let started = Instant::now();
        let kept = KeptAlive::new(Box::pin(pauses), Duration::from_secs(10));
        let said: Vec<(u64, Bytes)> = kept.map(|piece| (started.elapsed().as_secs(), piece)).collect().await;
        let comment = keep_alive();
        let expected = [
            (1, "after 1".into()),
            (11, comment.clone()),
            (21, comment),
            (26, "after 25".into()),
            (31, "after 5".into()),
        ];
        assert_eq!(said, expected);
    }
}
