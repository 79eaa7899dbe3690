//! Response bodies: whole, or a stream that is produced while it is read.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// A stream of pieces of a body. It is read inside the body's own poll: no task and no queue stand between the engine's
/// answer and the client, and dropping the body drops all of it.
pub type ByteStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// What is sent to a client.
pub struct Body {
    content: Content,
    /// Done when the body has to end; a stream ends with what this gives then.
    cut: Option<(Cut, fn() -> Bytes)>,
    ending: Ending,
    /// Runs when the body has been sent, or is given up.
    on_end: Option<Box<dyn FnOnce(Ending) + Send>>,
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All of it was given out.
    Complete,
    /// It was ended before its end.
    Cut,
    /// Nobody read it to its end.
    Unread,
}

/// Done when a body has to end.
pub type Cut = Pin<Box<dyn Future<Output = ()> + Send>>;

enum Content {
    /// All of it is there.
    Whole(Option<Bytes>),
    /// It comes piece by piece.
    Stream(ByteStream),
}

impl Body {
    /// A body without content.
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }

    /// A body that comes piece by piece.
    pub fn stream(stream: ByteStream) -> Self {
        Self { content: Content::Stream(stream), cut: None, ending: Ending::Unread, on_end: None }
    }

    /// Ends a stream with what `last` gives when `cut` is done. What is whole already is sent.
    pub fn cut_by(mut self, cut: Cut, last: fn() -> Bytes) -> Self {
        if matches!(self.content, Content::Stream(_)) {
            self.cut = Some((cut, last));
        }
        self
    }

    /// Runs `hook` when the body ends, however it ends: gauges and timers follow the body, not the handler.
    pub fn on_end(mut self, hook: impl FnOnce(Ending) + Send + 'static) -> Self {
        self.on_end = Some(Box::new(hook));
        self
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // First goes what produces it, which may have a last word.
        self.content = Content::Whole(None);
        if let Some(hook) = self.on_end.take() {
            hook(self.ending);
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        let ending = if bytes.is_empty() { Ending::Complete } else { Ending::Unread };
        Self { content: Content::Whole((!bytes.is_empty()).then_some(bytes)), cut: None, ending, on_end: None }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Some((cut, last)) = &mut this.cut
            && cut.as_mut().poll(cx).is_ready()
        {
            this.content = Content::Whole(Some(last()));
            this.cut = None;
            this.ending = Ending::Cut;
        }
        let piece = match &mut this.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take()),
            Content::Stream(stream) => stream.as_mut().poll_next(cx),
        };
        let is_last = matches!(piece, Poll::Ready(None)) || this.is_end_stream();
        if is_last && this.ending == Ending::Unread {
            this.ending = Ending::Complete;
        }
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
