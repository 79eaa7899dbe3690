//! The requests that come along with every chunk of a stream: read once, not once per token.
//!
//! What is kept is what the text says, so that a request that was kept and one that was read anew are the same.
//! Bounded in number and in bytes.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use super::Served;
use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::parsers;
use crate::render;

/// Streams that run at once are few beside this; a request that fell out is read again.
const MAX_KEPT: usize = 64;
/// A longer text is not kept.
const MAX_TEXT: usize = 256 << 10;

/// The requests that came with streams so far, by kind.
#[derive(Default)]
pub struct KnownRequests {
    /// `chat_request`s.
    pub chats: Kept<KnownChat>,
    /// `completion_request`s.
    pub completions: Kept<CompletionRequest>,
}

/// A chat request, read and checked.
pub struct KnownChat {
    /// The request.
    pub request: ChatRequest,
    /// Its facts for the parsers, without a prompt.
    pub facts: parsers::Context,
}

impl KnownChat {
    /// Reads the JSON text of a `chat_request`.
    pub fn read(served: &Served, text: &str) -> Result<Self, ApiError> {
        let request = ChatRequest::from_value(json(text, "chat_request")?, "body.DerenderChatRequest.chat_request")?;
        let kwargs: Map<String, Value> = render::template_kwargs(&served.model, &request);
        let facts = render::parser_context(&request, Vec::new(), kwargs, 0);
        Ok(Self { request, facts })
    }
}

/// Reads the JSON text of a `completion_request`.
pub(super) fn read_completion(_: &Served, text: &str) -> Result<CompletionRequest, ApiError> {
    CompletionRequest::from_value(json(text, "completion_request")?, "body.completion_request")
}

fn json(text: &str, key: &str) -> Result<Value, ApiError> {
    serde_json::from_str(text).map_err(|error| {
        ApiError::invalid_body(Some(&format!("body.{key}")), format!("1 validation error:\n  {error}"))
    })
}

/// The requests of one kind that were read last, newest first, by the hash of their text.
pub struct Kept<R> {
    hasher: RandomState,
    kept: Mutex<VecDeque<Entry<R>>>,
}

struct Entry<R> {
    hash: u64,
    text: Box<str>,
    served: Box<str>,
    request: Arc<R>,
}

impl<R> Default for Kept<R> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), kept: Mutex::default() }
    }
}

impl<R> Kept<R> {
    /// The request with this text for this model, read now or before.
    pub fn get(
        &self,
        served: &Served,
        text: &str,
        read: impl FnOnce(&Served, &str) -> Result<R, ApiError>,
    ) -> Result<Arc<R>, ApiError> {
        let hash = self.hasher.hash_one((text.len(), sample(text.as_bytes())));
        if let Some(known) = self.find(hash, served, text) {
            return Ok(known);
        }
        let request = Arc::new(read(served, text)?);
        if text.len() <= MAX_TEXT {
            let new = Entry { hash, text: text.into(), served: served.name().into(), request: Arc::clone(&request) };
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.truncate(MAX_KEPT - 1);
            kept.push_front(new);
        }
        Ok(request)
    }

    fn find(&self, hash: u64, served: &Served, text: &str) -> Option<Arc<R>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut same = kept.iter().filter(|entry| entry.hash == hash);
        let found = same.find(|entry| *entry.text == *text && *entry.served == *served.name())?;
        Some(Arc::clone(&found.request))
    }
}

/// The ends of a text: enough to tell most apart; those that it does not are compared in full.
fn sample(text: &[u8]) -> (&[u8], &[u8]) {
    const END: usize = 64;
    (&text[..text.len().min(END)], &text[text.len().saturating_sub(END)..])
}
