//! Lists of token ids as clients send them.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

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
