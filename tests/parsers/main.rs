//! The parsers against what vLLM answered, and against themselves.

#![allow(clippy::unwrap_used, clippy::string_slice, reason = "a test stops at what it does not expect")]
#![allow(clippy::print_stdout, reason = "scores are for people to read")]

mod complete;
mod fixture;
mod golden;
mod laws;
mod model;
mod replay;
mod score;

use std::path::PathBuf;

/// Replays the recorded answers that `COUPLET_KIT` points to, on the models of `COUPLET_KIT_MODELS`;
/// `COUPLET_GOLDEN` picks files whose name contains it.
#[test]
fn goldens() {
    let (Some(kit), Some(models)) = (env("COUPLET_KIT"), env("COUPLET_KIT_MODELS")) else { return };
    let pick = std::env::var("COUPLET_GOLDEN").unwrap_or_default();
    score::run(&kit.join("goldens"), &models, &pick);
}

fn env(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}
