//! Reading what an engine sends, up to a bound: an engine that has gone mad must not take couplet's memory.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::client::root_cause;

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// The connection broke.
    #[error("{}", root_cause(.0))]
    Transport(#[from] reqwest::Error),
    /// There is more than there may be.
    #[error("too large")]
    TooLarge,
}

/// Reads a body to its end.
pub(super) async fn read(mut response: reqwest::Response, limit: usize) -> Result<Bytes, WireError> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await? {
        if body.len() + piece.len() > limit {
            return Err(WireError::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// The pieces of a stream of events, none of which may be longer than `limit`. What is counted is what came since the last
/// blank line, which may be a piece too much, never too little.
pub(super) fn events<E>(
    pieces: impl Stream<Item = Result<Bytes, E>>,
    limit: usize,
) -> impl Stream<Item = Result<Bytes, WireError>>
where
    WireError: From<E>,
{
    let mut event = 0;
    pieces.map(move |piece| {
        let piece = piece?;
        let blank = |line: &[u8]| memchr::memmem::rfind(&piece, line);
        event = match blank(b"\n\n").max(blank(b"\n\r\n")) {
            Some(end) => piece.len() - end,
            None => event + piece.len(),
        };
        if event > limit { Err(WireError::TooLarge) } else { Ok(piece) }
    })
}

/// Seconds of `Retry-After`: a number, or a date from `now` on.
pub(super) fn retry_after(headers: &HeaderMap, now: chrono::DateTime<chrono::Utc>) -> Option<u64> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    value.parse().ok().or_else(|| {
        let until = chrono::DateTime::parse_from_rfc2822(value).ok()?;
        u64::try_from((until.with_timezone(&chrono::Utc) - now).num_seconds()).ok()
    })
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn lengths(pieces: &[&'static [u8]], limit: usize) -> Vec<Option<usize>> {
        let pieces: Vec<Result<Bytes, WireError>> = pieces.iter().map(|piece| Ok(Bytes::from_static(piece))).collect();
        events(stream::iter(pieces), limit).map(|piece| piece.ok().map(|piece| piece.len())).collect().await
    }

    #[tokio::test]
    async fn an_event_is_bounded_and_a_stream_is_not() {
        let short: &[u8] = b"data: 123\n\n";
        assert_eq!(lengths(&[short; 100], 11).await, [Some(11); 100]);
        assert_eq!(lengths(&[&b"data: 123\r\n\r\n"[..]; 100], 13).await, [Some(13); 100]);
        assert_eq!(lengths(&[short, b"data: 1", b"23456789", b"0123"], 17).await, [Some(11), Some(7), Some(8), None]);
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now = chrono::DateTime::parse_from_rfc3339("2015-10-21T07:27:30Z").unwrap().to_utc();
        let told = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(told("120"), Some(120));
        assert_eq!(told("Wed, 21 Oct 2015 07:28:00 GMT"), Some(30));
        assert_eq!(told("Wed, 21 Oct 2015 07:00:00 GMT"), None, "it is over");
        assert_eq!(told("soon"), None);
    }
}
