//! `couplet sim`: the simulated engine as a process.

use crate::app::StartError;
use crate::sim::{Options, serve};

/// Answers until a signal says stop.
pub fn run(options: Options) -> Result<(), StartError> {
    let address = format!("{}:{}", options.host, options.port);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(StartError::Runtime)?;
    runtime.block_on(serve(options, super::stop_signal())).map_err(|cause| StartError::Listen { address, cause })
}
