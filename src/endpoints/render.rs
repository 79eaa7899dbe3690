//! `POST /v1/{chat/completions,completions}/render`: what an engine would be sent, and nothing is sent.

use bytes::Bytes;
use http::HeaderMap;

use super::{Context, coupled};
use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::render::{self, Settings};

/// Answers `/v1/chat/completions/render` with a GenerateRequest.
pub fn chat(context: &Context, headers: &HeaderMap, body: &Bytes) -> Result<Bytes, ApiError> {
    context.heavy.run(body.len(), || {
        let request = ChatRequest::parse(body)?;
        let served = context.served(request.model.as_deref())?;
        let rendered = render::chat(&served.model, &request, &settings(headers, request.request_id.0.as_deref()))?;
        write(&rendered.request)
    })
}

/// Answers `/v1/completions/render` with a list of GenerateRequests, one per prompt.
pub fn completions(context: &Context, headers: &HeaderMap, body: &Bytes) -> Result<Bytes, ApiError> {
    context.heavy.run(body.len(), || {
        let request = CompletionRequest::parse(body)?;
        let served = context.served(request.model.as_deref())?;
        let settings = settings(headers, request.request_id.0.as_deref());
        let rendered = render::completions(&served.model, &request, &settings)?;
        write(&rendered.iter().map(|rendered| &rendered.request).collect::<Vec<_>>())
    })
}

fn settings(headers: &HeaderMap, field: Option<&str>) -> Settings {
    Settings { now: coupled::local_now(), request_id: coupled::request_id(headers, field), for_engine: false }
}

fn write(value: &impl serde::Serialize) -> Result<Bytes, ApiError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| ApiError::internal(error.to_string()))
}
