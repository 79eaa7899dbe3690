//! The parsers against themselves: the laws, over every fixture. `tests/conformance.rs` compares them with vLLM.

#![allow(clippy::unwrap_used, clippy::string_slice, reason = "a test stops at what it does not expect")]

mod bounds;
mod complete;
mod fixture;
mod laws;
mod request;
