//! Rendering, against answers recorded from vLLM 0.33's render server with the repository's tiny model, and against
//! templates and bodies that mean harm.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod goldens;
mod hostile;
mod server;
