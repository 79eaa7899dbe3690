//! A body whose longest list is taken out before serde walks through it.
//!
//! serde_json needs some nanoseconds for each id of a list, also where nobody asks for it; and a stream sends its prompt
//! along with every token. The list's end, though, is found in no time.

use std::borrow::Cow;

use memchr::memchr2;
use serde::Deserialize;

use super::derender::parse;
use super::error::ApiError;

/// A JSON body, perhaps without one of its lists.
pub struct CutBody<'a> {
    body: &'a [u8],
    rest: Cow<'a, [u8]>,
    list: Option<&'a str>,
}

impl<'a> CutBody<'a> {
    /// Takes the list of numbers at `key` out of the outermost object; null stands in its place. Leaves the body as it
    /// is where there is none.
    pub fn new(body: &'a [u8], key: &str) -> Self {
        let whole = Self { body, rest: Cow::Borrowed(body), list: None };
        let Some((start, end)) = find(body, key) else { return whole };
        match std::str::from_utf8(&body[start..end]) {
            Ok(list) => {
                let rest = [&body[..start], b"null", &body[end..]].concat();
                Self { body, rest: Cow::Owned(rest), list: Some(list) }
            }
            Err(_) => whole,
        }
    }

    /// The JSON text of what was taken out.
    pub fn list(&self) -> Option<&'a str> {
        self.list
    }

    /// Reads the rest. An error names its place in the whole body.
    pub fn parse<'b, T: Deserialize<'b>>(&'b self) -> Result<T, ApiError> {
        parse(&self.rest).or_else(|error| if self.list.is_some() { parse(self.body) } else { Err(error) })
    }
}

/// Start and end of the flat list at `key`.
fn find(body: &[u8], key: &str) -> Option<(usize, usize)> {
    let mut at = expect(body, 0, b'{')?;
    loop {
        let opened = expect(body, at, b'"')?;
        at = after_string(body, opened)?;
        let found = body.get(opened..at - 1) == Some(key.as_bytes());
        let value = space(body, expect(body, at, b':')?);
        if found {
            return flat_list(body, value).map(|end| (value, end));
        }
        at = expect(body, after_value(body, value)?, b',')?;
    }
}

fn space(body: &[u8], at: usize) -> usize {
    at + body.get(at..).unwrap_or_default().iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// Past this byte, if it comes next.
fn expect(body: &[u8], at: usize, wanted: u8) -> Option<usize> {
    let at = space(body, at);
    (body.get(at) == Some(&wanted)).then_some(at + 1)
}

/// Past the end of a string, from behind its opening quote.
fn after_string(body: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', body.get(at..)?)?;
        if body[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Past a list in which there is nothing but numbers.
fn flat_list(body: &[u8], at: usize) -> Option<usize> {
    let inside = body.get(at..)?.strip_prefix(b"[")?;
    let plain = |b: &u8| b.wrapping_sub(b'0') < 10 || matches!(b, b',' | b'-' | b' ' | b'\t' | b'\n' | b'\r');
    let mut end = 0;
    // Without an early exit the inner loop looks at many bytes at a time.
    for part in inside.chunks(64) {
        if !part.iter().fold(true, |all, b| all & plain(b)) {
            end += part.iter().position(|b| !plain(b))?;
            break;
        }
        end += part.len();
    }
    (inside.get(end) == Some(&b']')).then_some(at + end + 2)
}

/// Past a value of any kind.
fn after_value(body: &[u8], at: usize) -> Option<usize> {
    match body.get(at)? {
        b'"' => after_string(body, at + 1),
        b'[' | b'{' => after_container(body, at),
        _ => Some(at + memchr2(b',', b'}', &body[at..])?),
    }
}

fn after_container(body: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match body.get(at)? {
            b'"' => at = after_string(body, at + 1)? - 1,
            b'[' | b'{' => match flat_list(body, at) {
                Some(end) => at = end - 1,
                None => depth += 1,
            },
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}
