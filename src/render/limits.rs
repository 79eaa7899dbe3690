//! How many tokens a prompt may have and a reply may get, and how prompts are cut. The rules and texts are vLLM's.

use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::api::sampling::Side;
use crate::api::validate::bad_value;
use crate::model::Model;
use crate::model::tokenizer::Spans;

/// What a request says about the length of its prompt and reply.
#[derive(Debug, Clone)]
pub(super) struct TokenLimits {
    /// Context length; `None` where any length is taken (`/tokenize`).
    context: Option<usize>,
    asked: Option<i64>,
    asked_for_cutting: Option<i64>,
    truncate: Option<i64>,
    side: Option<Side>,
    pub(super) add_special: bool,
    pub(super) spans: bool,
}

impl TokenLimits {
    pub(super) fn of_chat(model: &Model, request: &ChatRequest) -> Result<Self, ApiError> {
        let (asked, name) = match request.max_completion_tokens {
            Some(asked) => (Some(asked), "max_completion_tokens"),
            None => (request.max_tokens, "max_tokens"),
        };
        let limits = Self {
            context: Some(context(model)),
            asked,
            asked_for_cutting: asked,
            truncate: request.truncate_prompt_tokens.map(|tokens| tokens.0),
            side: request.truncation_side,
            add_special: request.add_special_tokens,
            spans: request.return_token_offsets == Some(true),
        };
        limits.checked(name)
    }

    /// What counts for a prompt that is not cut and not checked before its reply is.
    pub(super) fn of_harmony(model: &Model, request: &ChatRequest) -> Self {
        Self {
            context: Some(context(model)),
            asked: request.max_completion_tokens.or(request.max_tokens),
            asked_for_cutting: None,
            truncate: request.truncate_prompt_tokens.map(|tokens| tokens.0),
            side: None,
            add_special: false,
            spans: false,
        }
    }

    pub(super) fn of_completion(model: &Model, request: &CompletionRequest) -> Result<Self, ApiError> {
        let limits = Self {
            context: Some(context(model)),
            asked: request.max_tokens,
            asked_for_cutting: Some(request.max_tokens.unwrap_or(0)),
            truncate: request.truncate_prompt_tokens.map(|tokens| tokens.0),
            side: request.truncation_side,
            add_special: request.add_special_tokens,
            spans: request.return_token_offsets == Some(true),
        };
        limits.checked("max_tokens")
    }

    /// No limit at all: `/tokenize`.
    pub(super) fn none(add_special: bool) -> Self {
        Self {
            context: None,
            asked: None,
            asked_for_cutting: Some(0),
            truncate: None,
            side: None,
            add_special,
            spans: false,
        }
    }

    fn checked(self, asked_name: &str) -> Result<Self, ApiError> {
        let Some(context) = self.context else { return Ok(self) };
        let longer = |tokens: i64| usize::try_from(tokens).is_ok_and(|tokens| tokens > context);
        if let Some(asked) = self.asked_for_cutting.filter(|asked| longer(*asked)) {
            return Err(bad_value(
                asked_name,
                &asked.to_string(),
                &format!(
                    "{asked_name}={asked} cannot be greater than max_model_len={context}. \
                     Please request fewer output tokens."
                ),
            ));
        }
        if let Some(truncate) = self.truncate.filter(|truncate| longer(*truncate)) {
            return Err(bad_value(
                "truncate_prompt_tokens",
                &truncate.to_string(),
                &format!(
                    "truncate_prompt_tokens={truncate} cannot be greater than max_model_len = {context}. \
                     Please request a smaller truncation size."
                ),
            ));
        }
        Ok(self)
    }

    /// Refuses, or cuts, a text that cannot fit whatever its tokens are.
    pub(super) fn check_text<'a>(&self, model: &Model, text: &'a str) -> Result<&'a str, ApiError> {
        let Some(context) = self.context else { return Ok(text) };
        let longest = context.saturating_mul(model.encoder().max_chars_per_token());
        // A text has at least a quarter as many characters as bytes, so most need no counting.
        if text.len() <= longest {
            return Ok(text);
        }
        let chars = text.chars().count();
        if chars <= longest {
            return Ok(text);
        }
        match (self.truncate, self.side) {
            (None, _) => Err(bad_value(
                "input_text",
                &chars.to_string(),
                &format!(
                    "This model's maximum context length is {context} tokens. However, your prompt contains {chars} \
                     characters (more than {longest} characters, which is the upper bound for {context} input \
                     tokens). Please reduce the length of the input prompt."
                ),
            )),
            (Some(_), None) => Ok(text),
            (Some(_), Some(Side::Left)) => Ok(cut_chars(text, chars - longest).1),
            (Some(_), Some(Side::Right)) => Ok(cut_chars(text, longest).0),
        }
    }

    /// Encodes a text and cuts it as the request asks.
    pub(super) fn encode(&self, model: &Model, text: &str) -> Result<Spans, ApiError> {
        let encoder = model.encoder();
        let failed = |error: crate::model::tokenizer::EncodeError| ApiError::internal(error.to_string());
        if self.spans {
            let (mut ids, mut spans) = encoder.encode_with_spans(text, self.add_special).map_err(failed)?;
            self.cut(&mut ids);
            if let Some(range) = self.range(spans.len()) {
                spans = spans.get(range).unwrap_or_default().to_vec();
            }
            self.check_length(ids.len())?;
            return Ok((ids, spans));
        }
        let mut ids = encoder.encode(text, false).map_err(failed)?;
        // The tokenizer cuts before it adds its own tokens, unless a side is asked for.
        if let (Some(kept), None) = (self.kept_by_tokenizer(), self.side) {
            let room = kept.saturating_sub(if self.add_special { encoder.surround_len() } else { 0 });
            if ids.len() > room {
                ids.drain(..ids.len() - room);
            }
        }
        if self.add_special {
            ids = encoder.surround(ids);
        }
        self.cut(&mut ids);
        self.check_length(ids.len())?;
        Ok((ids, Vec::new()))
    }

    /// Cuts ids that the request gave.
    pub(super) fn cut_ids(&self, ids: &[u32]) -> Result<Vec<u32>, ApiError> {
        let mut ids = ids.to_vec();
        self.cut(&mut ids);
        self.check_length(ids.len())?;
        Ok(ids)
    }

    fn kept_by_tokenizer(&self) -> Option<usize> {
        match self.truncate {
            Some(tokens) if tokens < 0 => self.kept_when_cutting_to_fit(),
            Some(tokens) => usize::try_from(tokens).ok(),
            None => self.context.map(|context| context + 1),
        }
    }

    /// Room for at least one token of reply, unless none is asked for.
    fn kept_when_cutting_to_fit(&self) -> Option<usize> {
        let spare = usize::from(self.asked_for_cutting != Some(0));
        self.context.map(|context| context.saturating_sub(spare))
    }

    fn range(&self, length: usize) -> Option<std::ops::Range<usize>> {
        let kept = match self.truncate? {
            tokens if tokens < 0 => self.kept_when_cutting_to_fit()?,
            tokens => usize::try_from(tokens).ok()?,
        };
        if kept >= length {
            return None;
        }
        Some(if self.side == Some(Side::Right) { 0..kept } else { length - kept..length })
    }

    fn cut(&self, ids: &mut Vec<u32>) {
        if let Some(range) = self.range(ids.len()) {
            ids.truncate(range.end);
            ids.drain(..range.start);
        }
    }

    fn check_length(&self, length: usize) -> Result<(), ApiError> {
        let Some(context) = self.context.filter(|context| length > *context) else { return Ok(()) };
        let at_least = if length == context + 1 { "at least " } else { "" };
        Err(bad_value(
            "input_tokens",
            &length.to_string(),
            &format!(
                "This model's maximum context length is {context} tokens. However, your prompt contains \
                 {at_least}{length} input tokens, which exceeds this limit even without any output tokens. \
                 Please reduce the length of the input prompt."
            ),
        ))
    }

    /// `max_tokens` of the reply: what is asked, the model's default, and what fits.
    pub(super) fn max_tokens(&self, model: &Model, prompt: usize) -> Result<i64, ApiError> {
        let context = context(model);
        let counted = match self.truncate {
            Some(-1) => prompt.min(context),
            Some(tokens) => prompt.min(usize::try_from(tokens).unwrap_or(0)),
            None => prompt,
        };
        if counted > context {
            return Err(ApiError::bad_request(format!(
                "Input length ({counted}) exceeds model's maximum context length ({context})."
            )));
        }
        let defaults = model.generation();
        let fits = i64::try_from(context - counted).unwrap_or(i64::MAX);
        let wanted = self.asked.or(defaults.max_tokens).unwrap_or(fits);
        let bound = defaults.max_tokens.filter(|_| defaults.max_tokens_is_limit).unwrap_or(fits);
        Ok(fits.min(wanted).min(bound))
    }
}

fn context(model: &Model) -> usize {
    usize::try_from(model.max_model_len()).unwrap_or(usize::MAX)
}

fn cut_chars(text: &str, chars: usize) -> (&str, &str) {
    let at = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    text.split_at(at)
}

/// An engine dies of ids outside its vocabulary; a coupled server refuses them so.
pub(super) fn check_vocabulary(model: &Model, ids: &[u32]) -> Result<(), ApiError> {
    match ids.iter().find(|id| u64::from(**id) >= model.vocab_size()) {
        Some(id) => Err(ApiError::bad_request(format!("Token id {id} is out of vocabulary"))),
        None => Ok(()),
    }
}
