//! Wire types: what travels between clients, couplet and engines, and nothing else.
//!
//! Requests keep vLLM's field names. Deliberately absent: behaviour beyond reading, checking and writing.

pub mod error;
pub mod generate;
pub mod ids;
