//! What comes along with every chunk of a stream, the request and its prompt: read once, not once per token.
//!
//! What is kept is what the text says, so that something kept and something read anew are the same. Bounded in bytes.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use super::Served;
use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::parsers;
use crate::render;

/// Text that is kept of each kind, in bytes: some thousand streams at once. What fell out is read again.
const MAX_KEPT: usize = 32 << 20;
/// A longer text is not kept, in bytes.
const MAX_TEXT: usize = 2 << 20;

/// What came with streams so far, by kind.
#[derive(Default)]
pub struct Known {
    /// `chat_request`s.
    pub chats: Kept<KnownChat>,
    /// `completion_request`s.
    pub completions: Kept<CompletionRequest>,
    /// `prompt_token_ids`.
    pub prompts: Kept<Vec<u32>>,
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
    pub fn read(served: &Served, text: &[u8]) -> Result<Self, ApiError> {
        let request = ChatRequest::from_value(json(text, "chat_request")?, "body.DerenderChatRequest.chat_request")?;
        let kwargs: Map<String, Value> = render::template_kwargs(&served.model, &request);
        let facts = render::parser_context(&request, Vec::new(), kwargs, 0);
        Ok(Self { request, facts })
    }
}

/// Reads the JSON text of a `completion_request`.
pub(super) fn read_completion(_: &Served, text: &[u8]) -> Result<CompletionRequest, ApiError> {
    CompletionRequest::from_value(json(text, "completion_request")?, "body.completion_request")
}

fn json(text: &[u8], key: &str) -> Result<Value, ApiError> {
    serde_json::from_slice(text).map_err(|error| {
        ApiError::invalid_body(Some(&format!("body.{key}")), format!("1 validation error:\n  {error}"))
    })
}

/// What was read of one kind, by the hash of its text; the oldest goes first.
pub struct Kept<R> {
    hasher: RandomState,
    entries: Mutex<Entries<R>>,
}

struct Entries<R> {
    by_hash: HashMap<u64, Entry<R>>,
    oldest: VecDeque<u64>,
    bytes: usize,
}

struct Entry<R> {
    text: Box<[u8]>,
    model: Box<str>,
    read: Arc<R>,
}

impl<R> Default for Kept<R> {
    fn default() -> Self {
        let entries = Entries { by_hash: HashMap::new(), oldest: VecDeque::new(), bytes: 0 };
        Self { hasher: RandomState::new(), entries: Mutex::new(entries) }
    }
}

impl<R> Kept<R> {
    /// What this text says for this model, read now or before. `again` tells whether the text will come again.
    pub(super) fn get(
        &self,
        again: bool,
        served: &Served,
        text: &[u8],
        read: impl FnOnce(&Served, &[u8]) -> Result<R, ApiError>,
    ) -> Result<Arc<R>, ApiError> {
        if !again || text.len() > MAX_TEXT {
            return read(served, text).map(Arc::new);
        }
        let hash = self.hasher.hash_one(sample(text));
        if let Some(known) = self.find(hash, served, text) {
            return Ok(known);
        }
        let read = Arc::new(read(served, text)?);
        let entry = Entry { text: text.into(), model: served.name().into(), read: Arc::clone(&read) };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).insert(hash, entry);
        Ok(read)
    }

    fn find(&self, hash: u64, served: &Served, text: &[u8]) -> Option<Arc<R>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.by_hash.get(&hash)?;
        (*entry.text == *text && *entry.model == *served.name()).then(|| Arc::clone(&entry.read))
    }
}

impl<R> Entries<R> {
    fn insert(&mut self, hash: u64, entry: Entry<R>) {
        self.bytes += entry.text.len();
        match self.by_hash.insert(hash, entry) {
            Some(other) => self.bytes -= other.text.len(),
            None => self.oldest.push_back(hash),
        }
        while self.bytes > MAX_KEPT {
            let Some(gone) = self.oldest.pop_front().and_then(|oldest| self.by_hash.remove(&oldest)) else { break };
            self.bytes -= gone.text.len();
        }
    }
}

/// Enough of a text to tell most apart: its length, and pieces from all over it. Others are told apart in full.
fn sample(text: &[u8]) -> (usize, Vec<&[u8]>) {
    const PIECES: usize = 32;
    const PIECE: usize = 16;
    let step = (text.len() / PIECES).max(PIECE);
    (text.len(), text.chunks(step).map(|part| &part[..part.len().min(PIECE)]).collect())
}
