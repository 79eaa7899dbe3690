//! Wire types: what travels between clients, couplet and engines, and nothing else.
//!
//! Requests keep vLLM's field names. Deliberately absent: behaviour beyond reading, checking and writing.

pub mod chat;
pub mod completions;
pub mod cut;
pub mod derender;
pub mod error;
pub mod generate;
pub mod ids;
mod json_error;
pub mod messages;
pub mod python;
pub mod sampling;
pub mod tokenize;
pub mod validate;
