//! `/v1/chat/completions/render` and `/v1/completions/render`: a request in, what an engine would get out. No engine is
//! asked.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value};

use super::{Context, coupled};
use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::api::generate::GenerateRequest;
use crate::render::{self, Settings};

/// The fields of a result after its sampling parameters, in vLLM's order. Those that are not set are written as null.
const FIELDS: [&str; 14] = [
    "model",
    "reasoning_ended",
    "reasoning_parser_kwargs",
    "return_token_ids",
    "output_mode",
    "parse_context",
    "stream",
    "stream_options",
    "cache_salt",
    "priority",
    "kv_transfer_params",
    "ec_transfer_params",
    "features",
    "content_parts",
];

/// Answers a chat's render request.
pub fn chat(context: &Context, headers: &HeaderMap, body: &Bytes) -> Result<Bytes, ApiError> {
    let request = ChatRequest::parse(body)?;
    let served = context.served(request.model.as_deref())?;
    let settings = settings(coupled::request_id("chatcmpl", headers, request.request_id.0.as_deref()));
    let rendered = render::chat(&served.model, served.dialect.as_ref(), &request, &settings)?;
    Ok(bytes(&json(rendered.generate)))
}

/// Answers a completion's render request.
pub fn completions(context: &Context, headers: &HeaderMap, body: &Bytes) -> Result<Bytes, ApiError> {
    let request = CompletionRequest::parse(body)?;
    let served = context.served(request.model.as_deref())?;
    let settings = settings(coupled::request_id("cmpl", headers, request.request_id.0.as_deref()));
    let rendered = render::completions(&served.model, &request, &settings)?;
    Ok(bytes(&Value::Array(rendered.into_iter().map(|rendered| json(rendered.generate)).collect())))
}

fn settings(request_id: String) -> Settings {
    Settings { now: coupled::local_now(), request_id, for_engine: false }
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn json(mut request: GenerateRequest) -> Value {
    let mut out = Map::new();
    out.insert("request_id".to_owned(), Value::from(request.request_id));
    out.insert("token_ids".to_owned(), Value::from(request.token_ids));
    out.insert("token_offsets".to_owned(), request.rest.remove("token_offsets").unwrap_or_default());
    out.insert("sampling_params".to_owned(), Value::Object(request.sampling_params));
    request.rest.insert("model".to_owned(), request.model.map_or(Value::Null, Value::from));
    for field in FIELDS {
        out.insert(field.to_owned(), request.rest.remove(field).unwrap_or_default());
    }
    Value::Object(out)
}
