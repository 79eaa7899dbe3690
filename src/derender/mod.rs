//! DERENDER: token ids back into what a model said.
//!
//! ```text
//! ids ─▶ detok ─▶ stop ─▶ pieces ─▶ parsers ─▶ events
//!        bytes    stop     text per   reasoning,
//!        whole?   strings  token      content, calls
//! ```
//!
//! One core, two drivers: a [`Plan`](chat::Plan) holds the fixed facts of a request, a [`State`](chat::State) is plain
//! data, and `step` reads one engine chunk. The coupled path keeps the state beside the live stream, the stateless
//! endpoints carry it in `stream_state` ([`stream_state`]). Completions use the part up to the text ([`text`]).
//!
//! Deliberately absent: HTTP, JSON of answers, clocks, metrics.

pub mod chat;
pub mod detok;
pub mod history;
pub mod logprobs;
pub mod pieces;
pub mod prompt_logprobs;
pub mod stop;
pub mod stream_state;
pub mod text;
