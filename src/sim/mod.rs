//! A tokens-only engine without a model, for tests, demos and load tests.
//!
//! In: the requests that couplet sends to a real engine (`POST /inference/v1/generate`, aborts, health, metrics).
//! Out: what vLLM 0.32 with `--tokens-only` answers, paced as asked, with faults where asked.
//!
//! What it says, in this order of preference:
//!
//! 1. `sampling_params.extra_args.script`, token ids as a list or as `"1,2,3"`, and then EOS;
//! 2. the prompt's last message (see [`Options::reply`]), and then EOS;
//! 3. pseudo-random ids until `max_tokens`.
//!
//! One request reads in this order: `request` (read), `checks` → `voice` (which ids each choice says) → `generation`
//! (queue, pace, stop, faults) → `answer` (JSON or events). `engine` holds what requests share: slots, counters, aborts.
//!
//! Deliberately absent: a tokenizer, text, grammars (refused, as a tokens-only engine does), and every effect of
//! temperature, penalties and biases.

mod answer;
mod checks;
mod engine;
mod faults;
mod generation;
mod logprobs;
mod options;
mod request;
mod server;
mod transfer;
mod voice;

pub use faults::Faults;
pub use options::{Options, Reply};
pub use server::{Sim, serve};
