//! `POST /tokenize` and `POST /detokenize`: the requests. Format: vLLM 0.33.

use serde_json::{Map, Value};

use super::chat::Tool;
use super::error::ApiError;
use super::messages::Message;
use super::sampling::{TokenId, check_generation_prompt};
use super::validate::{Place, Read, body, parse_json};

body! {
    /// Text to tokenize.
    pub struct TokenizeText {
        /// Served model name; any where absent or empty.
        pub model: Option<String> = None,
        /// The text.
        pub prompt: String,
        /// Whether the tokenizer adds its own special tokens.
        pub add_special_tokens: bool = true,
        /// Adds the tokens' strings to the answer.
        pub return_token_strs: Option<bool> = Some(false),
    }
}

body! {
    /// A chat to render and tokenize.
    pub struct TokenizeChat {
        /// Served model name; any where absent or empty.
        pub model: Option<String> = None,
        /// The conversation.
        pub messages: Vec<Message>,
        /// Whether the template opens the reply.
        pub add_generation_prompt: bool = true,
        /// Adds the tokens' strings to the answer.
        pub return_token_strs: Option<bool> = Some(false),
        /// Whether the last message is left open.
        pub continue_final_message: bool = false,
        /// Whether the tokenizer adds its own special tokens to what the template wrote.
        pub add_special_tokens: bool = false,
        /// A template in place of the model's; only where the server trusts it.
        pub chat_template: Option<String> = None,
        /// Variables for the template.
        pub chat_template_kwargs: Option<Map<String, Value>> = None,
        /// Functions the model may call.
        pub tools: Option<Vec<Tool>> = None,
    }
}

body! {
    /// Ids to decode.
    pub struct DetokenizeRequest {
        /// Served model name; any where absent or empty.
        pub model: Option<String> = None,
        /// The ids.
        pub tokens: Vec<TokenId>,
    }
}

/// What `/tokenize` takes.
#[derive(Debug, Clone)]
pub enum TokenizeRequest {
    /// A text.
    Text(TokenizeText),
    /// A chat.
    Chat(Box<TokenizeChat>),
}

impl TokenizeRequest {
    /// Reads a whole body.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut place = Place::new("body");
        let read = Self::read(parse_json(body)?, &mut place);
        place.finish(read)
    }

    /// The model that is asked for.
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Text(request) => request.model.as_deref(),
            Self::Chat(request) => request.model.as_deref(),
        }
    }
}

impl Read for TokenizeRequest {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        // With both, the richer form wins; with neither, each says what it misses.
        match (value.get("prompt").is_some(), value.get("messages").is_some()) {
            (true, false) => TokenizeText::read(value, place).map(Self::Text),
            (false, false) => {
                TokenizeText::read(value.clone(), place);
                TokenizeChat::read(value, place).map(|chat| Self::Chat(Box::new(chat)))
            }
            _ => TokenizeChat::read(value, place).map(|chat| Self::Chat(Box::new(chat))),
        }
    }
}

impl Read for TokenizeText {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        Self::read_fields(fields, place)
    }
}

impl Read for TokenizeChat {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        if let Err(error) = check_generation_prompt(fields.map()) {
            return place.raise(error);
        }
        Self::read_fields(fields, place)
    }
}

impl Read for DetokenizeRequest {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        Self::read_fields(fields, place)
    }
}

impl DetokenizeRequest {
    /// Reads a whole body.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut place = Place::new("body");
        let read = Self::read(parse_json(body)?, &mut place);
        place.finish(read)
    }
}
