//! A body whose largest values are taken out before serde walks through it.
//!
//! serde_json needs some nanoseconds for each id of a list, also where nobody asks for it; and a stream sends its prompt and
//! its request along with every token. Where a value ends, though, is found in no time.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;
use serde::Deserialize;

use super::derender::parse;
use super::error::ApiError;

/// A JSON body, perhaps without some of its values.
pub struct CutBody<'a, const N: usize> {
    body: &'a [u8],
    rest: Cow<'a, [u8]>,
    values: [Option<&'a [u8]>; N],
}

impl<'a, const N: usize> CutBody<'a, N> {
    /// Takes the objects, and lists of nothing but numbers, at `keys` out of the outermost object, or with `outer.inner`
    /// out of an object in it; null stands in an object's place and an empty list in a list's. What is taken out has not
    /// been looked at: whoever reads it finds what is wrong with it.
    pub fn new(body: &'a [u8], keys: [&str; N]) -> Self {
        let mut cut = Self { body, rest: Cow::Borrowed(body), values: [None; N] };
        let mut found = Vec::with_capacity(N);
        let wanted: Vec<(usize, &[u8])> = keys.iter().map(|key| key.as_bytes()).enumerate().collect();
        find(body, 0, &wanted, &mut found);
        found.sort_unstable_by_key(|(_, range)| range.start);
        let (mut rest, mut from) = (Vec::new(), 0);
        for (at, range) in found {
            let Some(text) = body.get(range.clone()) else { continue };
            cut.values[at] = Some(text);
            rest.extend_from_slice(&body[from..range.start]);
            rest.extend_from_slice(if text.starts_with(b"[") { b"[]" } else { b"null" });
            from = range.end;
        }
        if from > 0 {
            rest.extend_from_slice(&body[from..]);
            cut.rest = Cow::Owned(rest);
        }
        cut
    }

    /// The JSON texts of what was taken out (nobody has looked whether they are UTF-8), in the order of the keys.
    pub fn values(&self) -> [Option<&'a [u8]>; N] {
        self.values
    }

    /// What is left of the body.
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Reads the rest. An error names its place in the whole body.
    pub fn parse<'b, T: Deserialize<'b>>(&'b self) -> Result<T, ApiError> {
        let is_cut = matches!(self.rest, Cow::Owned(_));
        parse(&self.rest).or_else(|error| if is_cut { parse(self.body) } else { Err(error) })
    }
}

/// Finds the values at these keys of the object that begins here: their numbers, and where they stand. Returns where the
/// object ends; stops where the body is anything but JSON.
fn find(body: &[u8], at: usize, keys: &[(usize, &[u8])], found: &mut Vec<(usize, Range<usize>)>) -> Option<usize> {
    let mut next = field(body, expect(body, at, b'{')?);
    loop {
        let Some((key, value)) = next else { return expect(body, expect(body, at, b'{')?, b'}') };
        let new = |at: &usize| found.iter().all(|(other, _)| other != at);
        let wanted = keys.iter().find(|(at, path)| *path == key && !key.contains(&b'.') && new(at));
        let inner: Vec<(usize, &[u8])> =
            keys.iter().filter_map(|(at, path)| Some((*at, path.strip_prefix(key)?.strip_prefix(b".")?))).collect();
        let end = match (wanted, body.get(value)?) {
            (Some(_), b'[') => flat_list(body, value),
            (Some(_), b'{') => after_container(body, value),
            _ => None,
        };
        if let (Some((at, _)), Some(end)) = (wanted, end) {
            found.push((*at, value..end));
        }
        let end = match end {
            Some(end) => end,
            None if !inner.is_empty() && body[value] == b'{' => find(body, value, &inner, found)?,
            None => after_value(body, value)?,
        };
        match expect(body, end, b',') {
            Some(at) => next = Some(field(body, at)?),
            None => return expect(body, end, b'}'),
        }
    }
}

/// The key that comes next, and where its value begins.
fn field(body: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let opened = expect(body, at, b'"')?;
    let closed = after_string(body, opened)?;
    let value = space(body, expect(body, closed, b':')?);
    Some((body.get(opened..closed - 1)?, value))
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
