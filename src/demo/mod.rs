//! `couplet demo`: a simulated engine, couplet in front of it, and one chat through both.
//!
//! Everything runs in this process, on free loopback ports, with the tiny model that is part of the binary. The chat is
//! scripted: the engine says token ids, couplet turns them into reasoning, text and a tool call, and the demo shows
//! both sides of each event. Afterwards the servers stay up for the reader's own requests.

mod chat;
mod model;
mod show;

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;

use crate::app::{App, StartError, Stop};
use crate::config::file::{EngineFile, File, ModelFile};
use crate::sim::{self, Sim};
use model::Model;

/// Flags of `couplet demo`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Exit after the first chat instead of staying up.
    #[arg(long)]
    pub once: bool,
    /// Port of the OpenAI API; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

/// Why the demo ends early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// couplet does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The model cannot be written to the temporary directory, or the engine's port cannot be opened.
    #[error("the demo cannot be set up: {0}")]
    Setup(#[from] io::Error),
    /// The embedded tokenizer cannot be read.
    #[error("the tiny model's tokenizer: {0}")]
    Tokenizer(#[from] tokenizers::Error),
    /// The chat fails.
    #[error("the chat failed: {0}")]
    Chat(String),
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Slow enough to watch.
const TTFT: Duration = Duration::from_millis(200);
const ITL: Duration = Duration::from_millis(30);

/// Shows the chat, then serves until `stop`.
///
/// # Errors
/// The servers do not start, or the chat does not go through.
pub fn run(runtime: &Runtime, options: &Options, stop: impl Future<Output = Stop>) -> Result<(), DemoError> {
    let model = Model::write()?;
    let engine = runtime.block_on(Sim::bind(engine_options()))?;
    let app = App::load(couplet_settings(&model, &engine, options.port).check().map_err(StartError::from)?)?;
    runtime.block_on(async {
        let doors = app.listen().await?;
        let base = format!("http://{}", doors.clients.local_addr()?);
        let engine_url = format!("http://{}", engine.address());
        let servers =
            async { tokio::join!(engine.run(std::future::pending()), app.serve(doors, std::future::pending())) };
        let story = async {
            show::welcome(&base, &engine_url);
            chat::run(&base).await?;
            if !options.once {
                show::try_it(&base);
                stop.await;
            }
            Ok(())
        };
        tokio::select! {
            told = story => told,
            _ = servers => Ok(()),
        }
    })
}

fn engine_options() -> sim::Options {
    sim::Options {
        host: LOOPBACK,
        port: 0,
        model_name: vec![model::NAME.to_owned()],
        max_model_len: model::MAX_MODEL_LEN,
        vocab_size: model::VOCAB_SIZE,
        eos_token_id: model::EOS.to_vec(),
        ttft: TTFT,
        itl: ITL,
        ..sim::Options::default()
    }
}

fn couplet_settings(model: &Model, engine: &Sim, port: u16) -> File {
    let tiny = ModelFile {
        model: Some(model.dir().display().to_string()),
        served_model_name: vec![model::NAME.to_owned()],
        engines: vec![EngineFile { url: format!("http://{}", engine.address()), ..EngineFile::default() }],
        tool_call_parser: Some("hermes".to_owned()),
        reasoning_parser: Some("qwen3".to_owned()),
        enable_auto_tool_choice: Some(true),
        ..ModelFile::default()
    };
    File { host: Some(LOOPBACK.to_string()), port: Some(port), models: vec![tiny], ..File::default() }
}
