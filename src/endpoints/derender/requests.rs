//! The chat requests that come along with every chunk of a stream: read once, not once per token.
//!
//! What is kept is what the text says, so that a request that was kept and one that was read anew are the same.
//! Bounded in number and in bytes.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use super::Served;
use crate::api::chat::ChatRequest;
use crate::api::error::ApiError;
use crate::parsers;
use crate::render;

/// Streams that run at once are few beside this; a request that fell out is read again.
const MAX_KEPT: usize = 64;
/// A longer text is not kept.
const MAX_TEXT: usize = 256 << 10;

/// A chat request, read and checked.
pub struct KnownRequest {
    text: Box<str>,
    served: Box<str>,
    /// The request.
    pub request: ChatRequest,
    /// Its facts for the parsers, without a prompt.
    pub facts: parsers::Context,
}

impl KnownRequest {
    fn read(served: &Served, text: &str) -> Result<Self, ApiError> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            ApiError::invalid_body(Some("body.chat_request"), format!("1 validation error:\n  {error}"))
        })?;
        let request = ChatRequest::from_value(value, "body.DerenderChatRequest.chat_request")?;
        let kwargs: Map<String, Value> = render::template_kwargs(&served.model, &request);
        let facts = render::parser_context(&request, Vec::new(), kwargs, 0);
        Ok(Self { text: text.into(), served: served.name().into(), request, facts })
    }
}

/// The requests that were read last, newest first, by the hash of their text.
#[derive(Default)]
pub struct KnownRequests {
    hasher: RandomState,
    kept: Mutex<VecDeque<(u64, Arc<KnownRequest>)>>,
}

impl KnownRequests {
    /// The request with this text, read now or before.
    pub fn get(&self, served: &Served, text: &str) -> Result<Arc<KnownRequest>, ApiError> {
        let hash = self.hasher.hash_one((text.len(), sample(text.as_bytes())));
        if let Some(known) = self.find(hash, served, text) {
            return Ok(known);
        }
        let known = Arc::new(KnownRequest::read(served, text)?);
        if text.len() <= MAX_TEXT {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.truncate(MAX_KEPT - 1);
            kept.push_front((hash, Arc::clone(&known)));
        }
        Ok(known)
    }

    fn find(&self, hash: u64, served: &Served, text: &str) -> Option<Arc<KnownRequest>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut same = kept.iter().filter(|(known, _)| *known == hash);
        let found = same.find(|(_, known)| *known.text == *text && *known.served == *served.name())?;
        Some(Arc::clone(&found.1))
    }
}

/// The ends of a text: enough to tell most apart; those that it does not are compared in full.
fn sample(text: &[u8]) -> (&[u8], &[u8]) {
    const END: usize = 64;
    (&text[..text.len().min(END)], &text[text.len().saturating_sub(END)..])
}
