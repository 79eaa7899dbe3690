//! RESPOND: what came out, as OpenAI's JSON and server-sent events, and as HTTP responses.
//!
//! In: events and texts from [`derender`](crate::derender), errors from anywhere. Out: bytes and responses. Deliberately
//! absent: deciding what is said.

pub mod body;
pub mod chat;
pub mod completion;
pub mod envelope;
pub mod http;
pub mod json;
pub mod sse;
pub mod stream_state;
pub mod usage;
