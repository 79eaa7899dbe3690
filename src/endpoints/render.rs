//! `/v1/chat/completions/render` and `/v1/completions/render`: a request in, what an engine would get out. No engine is
//! asked.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::{Context, coupled};
use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::api::generate::GenerateRequest;
use crate::metrics::Stage;
use crate::render::Settings;
use crate::respond::json::JsonBuffer;

/// The fields of a result after its model, in vLLM's order. Those that are not set are written as null.
const FIELDS: [&str; 13] = [
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
    let request = context.metrics.stages.time(Stage::Parse, || ChatRequest::parse(body))?;
    let served = context.served(request.model.as_deref())?;
    let settings = settings(coupled::request_id("chatcmpl", headers, request.request_id.0.as_deref()));
    let rendered = coupled::render_chat(context, served, &request, &settings)?;
    let mut json = JsonBuffer::default();
    write(&rendered.generate, &mut json);
    Ok(json.into_bytes())
}

/// Answers a completion's render request.
pub fn completions(context: &Context, headers: &HeaderMap, body: &Bytes) -> Result<Bytes, ApiError> {
    let request = context.metrics.stages.time(Stage::Parse, || CompletionRequest::parse(body))?;
    let served = context.served(request.model.as_deref())?;
    let settings = settings(coupled::request_id("cmpl", headers, request.request_id.0.as_deref()));
    let rendered = coupled::render_completions(context, served, &request, &settings)?;
    let mut json = JsonBuffer::default();
    for (at, rendered) in rendered.iter().enumerate() {
        json.raw(if at == 0 { "[" } else { "," });
        write(&rendered.generate, &mut json);
    }
    json.raw("]");
    Ok(json.into_bytes())
}

fn settings(request_id: String) -> Settings {
    Settings { request_id, for_engine: false }
}

/// Written piece by piece: a prompt may have a hundred thousand ids.
fn write(request: &GenerateRequest, json: &mut JsonBuffer) {
    let rest = |field: &str| request.rest.get(field).unwrap_or(&Value::Null);
    json.raw("{\"request_id\":").string(&request.request_id).key("token_ids").numbers(&request.token_ids);
    json.key("token_offsets").value(rest("token_offsets")).key("sampling_params").value(&request.sampling_params);
    json.key("model").value(&request.model);
    for field in FIELDS {
        json.key(field).value(rest(field));
    }
    json.raw("}");
}
