//! GENERATE: sends token ids to an engine and yields the token ids that come back.
//!
//! In: a [`GenerateRequest`](crate::api::generate::GenerateRequest). Out: a [`Generation`] of chunks, which survives the
//! engine it came from. Deliberately absent: text.
//!
//! ```text
//! admission ─▶ pool ─▶ policy picks an engine that is well ─▶ client ─▶ generation ─▶ chunks
//!  a place,     ▲                          health ◀── every outcome ──────┘ │
//!  or 429, 503  └───────── another engine, with the tokens so far ◀─────────┘ when it dies
//! ```
//!
//! Where prefill and decode are apart, `disaggregation` has the prompt computed before the rest begins.

pub mod admission;
pub mod capabilities;
pub mod client;
pub mod connections;
mod disaggregation;
pub mod dns;
pub mod error;
pub mod fit;
pub mod generation;
pub mod health;
mod look;
pub mod member;
pub mod policy;
pub mod pool;
mod rate;
mod wire;

pub use admission::Ticket;
pub use client::Engine;
pub use error::EngineError;
pub use generation::Generation;
pub use pool::{Caller, Pool};
