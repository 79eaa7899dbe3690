//! The binary: flags, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use couplet::cli::{self, Cli};

fn main() -> ExitCode {
    cli::run(Cli::parse())
}
