//! The binary: flags, run, exit code.

fn main() {}
