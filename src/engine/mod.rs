//! GENERATE: sends token ids to an engine and yields the token ids that come back.
//!
//! In: a [`GenerateRequest`](crate::api::generate::GenerateRequest). Out: a [`Generation`](client::Generation) of chunks.
//! [`client`] speaks to one engine, [`capabilities`] learns what kind it is. Deliberately absent: text.

pub mod capabilities;
pub mod client;
pub mod error;

pub use client::{Engine, Generation};
pub use error::EngineError;
