//! Lists of token ids as clients send them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Reads a list of token ids; null reads as an empty list. An id that fits no vocabulary (above 2³² − 1) reads as the
/// largest id, which is in no vocabulary either; a negative one is an error, as in vLLM.
pub fn token_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    optional_token_ids(deserializer).map(Option::unwrap_or_default)
}

/// Reads a list of token ids or null.
pub fn optional_token_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u32>>, D::Error> {
    deserializer.deserialize_option(Ids)
}

struct Ids;

impl<'de> Visitor<'de> for Ids {
    type Value = Option<Vec<u32>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of token ids (integers from 0)")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut ids = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(4096));
        while let Some(id) = seq.next_element::<u64>()? {
            ids.push(u32::try_from(id).unwrap_or(u32::MAX));
        }
        Ok(Some(ids))
    }
}

/// A list of token ids that may be long and is rarely looked at: it stays text until somebody asks for the ids.
#[derive(Debug, Clone)]
pub struct LazyIds<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for LazyIds<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        // What is not a flat list of digits is read at once, and so refused at once. Without an early exit the loop runs
        // many bytes at a time.
        let plain = |b: u8| b.wrapping_sub(b'0') < 10 || matches!(b, b',' | b'[' | b']' | b' ' | b'\n');
        if raw.starts_with('[') && raw.bytes().fold(true, |all, b| all & plain(b)) {
            return Ok(Self(Cow::Borrowed(raw)));
        }
        let ids = optional_token_ids(&mut serde_json::Deserializer::from_str(raw)).map_err(D::Error::custom)?;
        let ids: Vec<String> = ids.unwrap_or_default().iter().map(u32::to_string).collect();
        Ok(Self(Cow::Owned(format!("[{}]", ids.join(",")))))
    }
}

impl LazyIds<'_> {
    /// How many ids there are.
    pub fn len(&self) -> usize {
        let commas = memchr::memchr_iter(b',', self.0.as_bytes()).count();
        if self.0.bytes().any(|b| b.is_ascii_digit()) { commas + 1 } else { 0 }
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids, or what keeps them from being such.
    pub fn read(&self) -> Result<Vec<u32>, serde_json::Error> {
        token_ids(&mut serde_json::Deserializer::from_str(&self.0))
    }
}
