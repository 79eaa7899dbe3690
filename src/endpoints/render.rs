use super::Context;
use crate::api::error::ApiError;
use bytes::Bytes;
use http::HeaderMap;
pub fn chat(_: &Context, _: &HeaderMap, _: &Bytes) -> Result<Bytes, ApiError> {
    Err(ApiError::internal("x"))
}
pub fn completions(_: &Context, _: &HeaderMap, _: &Bytes) -> Result<Bytes, ApiError> {
    Err(ApiError::internal("x"))
}
