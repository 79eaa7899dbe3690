//! couplet as a process of its own, on a free port.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::tiny;

/// A running `couplet serve` with the tiny model. Dropping it kills the process.
pub struct Couplet {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    process: Child,
}

impl Couplet {
    /// Starts one with the hermes and qwen3 parsers in front of `engines`.
    pub fn start(engines: &[&str]) -> Self {
        let parsers = ["--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", "--enable-auto-tool-choice"];
        Self::with_flags(engines, &parsers)
    }

    /// Starts one with flags of its own, beside the model, its name and the address.
    pub fn with_flags(engines: &[&str], flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_couplet"));
        command.args(["serve", "--model", tiny::DIR, "--served-model-name", "tiny"]).args(flags);
        for engine in engines {
            command.args(["--engine", engine]);
        }
        Self::run(command)
    }

    /// Starts one with a configuration file of its own, for the settings that have no flag.
    pub fn with_config(yaml: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("couplet.yaml");
        std::fs::write(&file, yaml).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_couplet"));
        command.arg("serve").arg("--config").arg(&file);
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        command.args(["--host", "127.0.0.1", "--port", "0"]);
        let mut process = command.env("RUST_LOG", "info").stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut seen = Vec::new();
        let address = log.by_ref().map(Result::unwrap).find_map(|line| {
            let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            seen.push(line);
            Some(entry["address"].as_str()?.to_owned())
        });
        let Some(address) = address else { panic!("couplet did not start:\n{}", seen.join("\n")) };
        std::thread::spawn(move || log.for_each(drop)); // a full pipe would stop it
        Self { url: format!("http://{address}"), process }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Couplet {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended
        let _ = self.process.wait();
    }
}
