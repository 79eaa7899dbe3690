//! Logprobs: from the engine's token ids to the strings and bytes that OpenAI's shapes carry.

use serde::Serialize;

use crate::api::generate::{PositionLogprobs, TokenLogprob};
use crate::model::vocabulary::{REPLACEMENT, Vocabulary};

/// Sampled tokens before a position that may be needed to complete a character.
pub const CONTEXT: usize = 4;

/// How candidates are cut and written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// How many candidates of a position are kept; `None` keeps all.
    pub top: Option<usize>,
    /// Candidates behind the first that rank below this are left out; `None` keeps all.
    pub max_rank: Option<u32>,
    /// `return_tokens_as_token_ids`: `token_id:198` instead of the text.
    pub as_token_ids: bool,
}

impl Style {
    /// Chat's cut: the first `top_logprobs`, none when unset, all for -1 or where `logprob_token_ids` asks.
    pub fn chat(top_logprobs: Option<i64>, all: bool, as_token_ids: bool) -> Self {
        let top = if all || top_logprobs == Some(-1) { None } else { Some(top_logprobs.unwrap_or(0).max(0) as usize) };
        Self { top, max_rank: None, as_token_ids }
    }

    /// Completions' cut: the first `logprobs` + 1 candidates, all for -1, unset, or where `logprob_token_ids` asks.
    pub fn completion(logprobs: Option<i64>, all: bool, as_token_ids: bool) -> Self {
        let count = logprobs.filter(|count| !all && *count != -1);
        Self { top: count.map(|count| (count + 1).max(0) as usize), max_rank: None, as_token_ids }
    }

    /// The same cut where more candidates were asked for than the client shall see: none that ranks below the number
    /// that it wants, but for the sampled token.
    pub fn within_rank(self) -> Self {
        let max_rank = self.top.map(|top| u32::try_from(top.saturating_sub(1)).unwrap_or(u32::MAX));
        Self { max_rank, ..self }
    }

    /// The candidates of a position that are told.
    fn kept<'a>(&self, top: &'a [TokenLogprob]) -> impl Iterator<Item = &'a TokenLogprob> + use<'a> {
        let max_rank = self.max_rank;
        let ranks = move |token: &TokenLogprob| match (token.rank, max_rank) {
            (Some(rank), Some(max)) => rank <= max,
            _ => true,
        };
        let kept = top.iter().enumerate().filter(move |(at, token)| *at == 0 || ranks(token));
        kept.map(|(_, token)| token).take(self.top.unwrap_or(usize::MAX))
    }
}

/// `logprobs` of a chat choice: `{"content": [{token, logprob, bytes, top_logprobs: […]}]}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChatLogprobs {
    /// A position per token; null where the engine's were null.
    pub content: Option<Vec<ChatPosition>>,
}

/// One position of [`ChatLogprobs`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChatPosition {
    /// The sampled token.
    #[serde(flatten)]
    pub sampled: ChatToken,
    /// The candidates that the request asked for.
    pub top_logprobs: Vec<ChatToken>,
}

/// A token with its probability.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChatToken {
    /// Its text.
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f64,
    /// The UTF-8 bytes of its text; null for a token that is not in the vocabulary.
    pub bytes: Option<Vec<u8>>,
}

/// `logprobs` of a completion choice: parallel lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CompletionLogprobs {
    /// Where each token starts, in characters of the tokens listed so far.
    pub text_offset: Vec<usize>,
    /// Null where the engine gave none (the first prompt token of an echo).
    pub token_logprobs: Vec<Option<f64>>,
    /// The tokens' texts.
    pub tokens: Vec<String>,
    /// Candidates by text; null where the engine gave none.
    pub top_logprobs: Vec<Option<serde_json::Map<String, serde_json::Value>>>,
}

/// Writes positions in chat's shape. `context` holds the sampled tokens before them and grows with them.
pub fn chat(
    vocabulary: &Vocabulary,
    positions: &[PositionLogprobs],
    style: Style,
    context: &mut Vec<u32>,
) -> ChatLogprobs {
    let content = positions
        .iter()
        .map(|position| {
            let chat_token = |token: &TokenLogprob| {
                let text = token_text(vocabulary, token.token_id, context);
                let bytes = text.as_ref().map(|text| text.as_bytes().to_vec());
                ChatToken { token: text.unwrap_or_default(), logprob: token.logprob, bytes }
            };
            let mut sampled = chat_token(&position.sampled);
            let mut top_logprobs: Vec<ChatToken> = style.kept(&position.top).map(chat_token).collect();
            if style.as_token_ids {
                // vLLM keeps the bytes of the sampled token's text, but gives those of the placeholder for candidates.
                sampled.token = placeholder(position.sampled.token_id);
                for (written, token) in top_logprobs.iter_mut().zip(style.kept(&position.top)) {
                    written.token = placeholder(token.token_id);
                    written.bytes = Some(written.token.as_bytes().to_vec());
                }
            }
            remember(context, position.sampled.token_id);
            ChatPosition { sampled, top_logprobs }
        })
        .collect();
    ChatLogprobs { content: Some(content) }
}

impl ChatLogprobs {
    /// Appends positions.
    pub fn append(&mut self, more: Self) {
        if let Some(more) = more.content {
            self.content.get_or_insert_default().extend(more);
        }
    }
}

impl CompletionLogprobs {
    /// Appends positions. `offset` is the length in characters of the tokens listed so far and grows with them.
    pub fn extend(
        &mut self,
        vocabulary: &Vocabulary,
        positions: &[PositionLogprobs],
        style: Style,
        context: &mut Vec<u32>,
        offset: &mut usize,
    ) {
        for position in positions {
            let text = |token: &TokenLogprob| match style.as_token_ids {
                true => placeholder(token.token_id),
                false => token_text(vocabulary, token.token_id, context).unwrap_or_default(),
            };
            let token = text(&position.sampled);
            let candidates = style.kept(&position.top).map(|token| (text(token), token.logprob.into())).collect();
            self.push(token, Some(position.sampled.logprob), (!position.top.is_empty()).then_some(candidates), offset);
            remember(context, position.sampled.token_id);
        }
    }

    /// Appends positions that are already written.
    pub fn append(&mut self, mut more: Self) {
        self.text_offset.append(&mut more.text_offset);
        self.token_logprobs.append(&mut more.token_logprobs);
        self.tokens.append(&mut more.tokens);
        self.top_logprobs.append(&mut more.top_logprobs);
    }

    /// Appends one position.
    pub fn push(
        &mut self,
        token: String,
        logprob: Option<f64>,
        top: Option<serde_json::Map<String, serde_json::Value>>,
        offset: &mut usize,
    ) {
        self.text_offset.push(*offset);
        *offset += token.chars().count();
        self.token_logprobs.push(logprob);
        self.tokens.push(token);
        self.top_logprobs.push(top);
    }
}

/// `token_id:198`.
pub fn placeholder(id: u32) -> String {
    format!("token_id:{id}")
}

/// Keeps the last [`CONTEXT`] sampled tokens.
pub fn remember(context: &mut Vec<u32>, id: u32) {
    if context.len() >= CONTEXT {
        context.drain(..=context.len() - CONTEXT);
    }
    context.push(id);
}

/// The text of a token at its place. A token that ends in an unfinished character reads as empty, and the one that
/// completes the character as all of it. `None` for an id without an entry in the vocabulary.
pub fn token_text(vocabulary: &Vocabulary, id: u32, context: &[u32]) -> Option<String> {
    if !vocabulary.contains(id) {
        return None;
    }
    let text = vocabulary.decode_one(id);
    if text.ends_with(REPLACEMENT) { Some(completed(vocabulary, id, context)) } else { Some(text.into_owned()) }
}

/// vLLM's repair: decode with more and more of the context until the character is whole.
fn completed(vocabulary: &Vocabulary, id: u32, context: &[u32]) -> String {
    for count in 1..=context.len().min(CONTEXT) {
        let before = &context[context.len() - count..];
        let full = vocabulary.decode_ids(&[before, &[id]].concat());
        if full.ends_with(REPLACEMENT) {
            continue;
        }
        let unfinished = |id: &&u32| vocabulary.decode_ids(&[**id]).ends_with(REPLACEMENT);
        let clean = before.len() - before.iter().rev().take_while(unfinished).count();
        let prefix = if clean > 0 { vocabulary.decode_ids(&before[..clean]) } else { String::new() };
        let common = prefix.chars().zip(full.chars()).take_while(|(a, b)| a == b).count();
        return full.chars().skip(common).collect();
    }
    String::new()
}
