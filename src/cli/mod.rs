//! The command line: `couplet serve`, `check`, `parsers`, `sim`, `demo`, `top`.

pub mod check;
mod log_lines;
pub mod parsers;
pub mod serve;
pub mod top;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use futures_util::FutureExt;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use crate::app::{StartError, Stop};
use crate::demo::DemoError;
use log_lines::LogLines;

/// An OpenAI server beside a tokens-only engine: text in front, token ids behind.
#[derive(Debug, Parser)]
#[command(name = "couplet", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the OpenAI API in front of tokens-only engines; without an engine the raw steps only.
    Serve(Box<serve::ServeArgs>),
    /// Load everything that serve would, render a chat, ask the engines, and tell in a table what is wrong.
    Check(Box<serve::ServeArgs>),
    /// List the tool call and reasoning parsers, or tell which fit a model.
    Parsers(parsers::Options),
    /// Simulate a tokens-only engine without a model, for tests, demos and load tests.
    Sim(Box<crate::sim::Options>),
    /// Show one chat on its way through couplet: starts a simulated engine and couplet with a tiny model.
    Demo(crate::demo::Options),
    /// Watch a running couplet in the terminal: rates, times, queue, engines.
    Top(top::Options),
}

/// Exit code for settings, files or models that are wrong: nothing was started.
const BAD_START: u8 = 2;

/// Runs a command to its end.
pub fn run(cli: Cli) -> ExitCode {
    let log = init_logging(match cli.command {
        Command::Check(_) | Command::Top(_) => "error",
        Command::Demo(_) => "warn",
        _ => "info",
    });
    let code = run_command(cli.command);
    log.flush();
    code
}

fn run_command(command: Command) -> ExitCode {
    let ran = match command {
        Command::Check(args) => return check::run(*args),
        Command::Top(options) => return top::run(&options),
        Command::Serve(args) => serve::run(*args).map_err(DemoError::from),
        Command::Parsers(options) => parsers::run(&options).map_err(DemoError::from),
        Command::Sim(options) => sim(*options).map_err(DemoError::from),
        Command::Demo(options) => demo(&options),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the reason why nothing starts, also where logs are turned off")]
            {
                eprintln!("couplet: {error}");
            }
            ExitCode::from(BAD_START)
        }
    }
}

/// Runs the simulator until a signal says stop.
fn sim(options: crate::sim::Options) -> Result<(), StartError> {
    runtime()?.block_on(async {
        let address = format!("{}:{}", options.host, options.port);
        let listen = |cause| StartError::Listen { address, cause, flags: "--host and --port" };
        crate::sim::serve(options, stop_signal().map(|_| ())).await.map_err(listen)
    })
}

fn demo(options: &crate::demo::Options) -> Result<(), DemoError> {
    crate::demo::run(&runtime()?, options, stop_signal())
}

fn runtime() -> Result<Runtime, StartError> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(StartError::Runtime)
}

/// Logs go to stderr: for people on a terminal, as JSON elsewhere. `RUST_LOG` chooses what.
fn init_logging(default: &str) -> LogLines {
    let lines = LogLines::start();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines.clone());
    if std::io::stderr().is_terminal() {
        builder.init();
    } else {
        builder.json().flatten_event(true).init();
    }
    lines
}

/// Ends at the first SIGINT or SIGTERM.
async fn stop_signal() -> Stop {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => Stop::Interrupt,
        () = terminate => Stop::Terminate,
    }
}
