use super::Context;
use crate::api::error::ApiError;
use bytes::Bytes;
pub fn tokenize(_: &Context, _: &Bytes) -> Result<Bytes, ApiError> {
    Err(ApiError::internal("x"))
}
pub fn detokenize(_: &Context, _: &Bytes) -> Result<Bytes, ApiError> {
    Err(ApiError::internal("x"))
}
