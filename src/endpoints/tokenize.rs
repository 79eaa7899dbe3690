//! `/tokenize` and `/detokenize`: text or a chat to ids, and ids to text. No engine is asked.

use bytes::Bytes;
use serde_json::json;

use super::{Context, coupled};
use crate::api::error::ApiError;
use crate::api::tokenize::{DetokenizeRequest, TokenizeRequest};
use crate::model::Model;
use crate::render;

/// Answers a tokenize request.
pub fn tokenize(context: &Context, body: &Bytes) -> Result<Bytes, ApiError> {
    let request = TokenizeRequest::parse(body)?;
    let model = &context.served(request.model())?.model;
    let (ids, wants_strings) = match &request {
        TokenizeRequest::Text(text) => {
            (render::tokenize_text(model, &text.prompt, text.add_special_tokens)?, text.return_token_strs == Some(true))
        }
        TokenizeRequest::Chat(chat) => {
            (render::tokenize_chat(model, chat, coupled::local_now())?, chat.return_token_strs == Some(true))
        }
    };
    let strings = wants_strings.then(|| token_strings(model, &ids));
    let answer = json!({
        "count": ids.len(),
        "max_model_len": model.max_model_len(),
        "tokens": ids,
        "token_strs": strings,
    });
    Ok(Bytes::from(answer.to_string()))
}

/// Answers a detokenize request. Ids outside the vocabulary have no text.
pub fn detokenize(context: &Context, body: &Bytes) -> Result<Bytes, ApiError> {
    let request = DetokenizeRequest::parse(body)?;
    let model = &context.served(request.model.as_deref())?.model;
    let ids: Vec<u32> = request.tokens.iter().map(|id| id.0).collect();
    let prompt = model.vocabulary().decode_ids(&ids);
    Ok(Bytes::from(json!({"prompt": prompt}).to_string()))
}

/// The tokens as the vocabulary spells them.
fn token_strings(model: &Model, ids: &[u32]) -> Vec<Option<String>> {
    ids.iter().map(|id| model.encoder().id_to_token(*id)).collect()
}
