//! The binary: flags, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use couplet::cli::{self, Cli};

/// A request is thousands of short-lived strings: jemalloc takes a quarter off its cost, and what was freed does not stay
/// with the process.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Loading a model takes several times what the model then holds: freed pages go back after a second, not after ten.
#[cfg(not(target_env = "msvc"))]
#[expect(unsafe_code, reason = "the name under which jemalloc looks for its settings, and their type")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 37] = b"dirty_decay_ms:1000,muzzy_decay_ms:0\0";

fn main() -> ExitCode {
    cli::run(Cli::parse())
}
