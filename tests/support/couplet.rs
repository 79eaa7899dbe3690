//! couplet as a process of its own, on a free port.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{http, tiny};

/// A running `couplet serve` with the tiny model. Dropping it kills the process.
pub struct Couplet {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    /// The same of the admin listener, where there is one.
    pub admin: Option<String>,
    process: Child,
    /// The lines of its log.
    log: Arc<Mutex<Vec<String>>>,
    /// Keeps the configuration, which couplet looks at again and again.
    config: Option<(TempDir, PathBuf)>,
}

impl Couplet {
    /// Starts one with the hermes and qwen3 parsers in front of `engines`.
    pub fn start(engines: &[&str]) -> Self {
        let parsers = ["--tool-call-parser", "hermes", "--reasoning-parser", "qwen3", "--enable-auto-tool-choice"];
        Self::with_flags(engines, &parsers)
    }

    /// Starts one with flags of its own, beside the model, its name and the address.
    pub fn with_flags(engines: &[&str], flags: &[&str]) -> Self {
        Self::run(command(engines, flags), "info")
    }

    /// The same, with a log of its own choice, in the words of `RUST_LOG`.
    pub fn logging(engines: &[&str], flags: &[&str], log: &str) -> Self {
        Self::run(command(engines, flags), log)
    }

    /// Starts one with environment variables of its own.
    pub fn with_env(engines: &[&str], flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = command(engines, flags);
        command.envs(variables.iter().copied());
        Self::run(command, "info")
    }

    /// Starts one with a configuration file of its own, for the settings that have no flag.
    pub fn with_config(yaml: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("couplet.yaml");
        std::fs::write(&file, yaml).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_couplet"));
        command.arg("serve").arg("--config").arg(&file);
        let mut couplet = Self::run(command, "info");
        couplet.config = Some((directory, file));
        couplet
    }

    fn run(mut command: Command, filter: &str) -> Self {
        command.args(["--host", "127.0.0.1", "--port", "0"]);
        let mut process = command.env("RUST_LOG", filter).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut seen = Vec::new();
        let started = log.by_ref().map(Result::unwrap).find_map(|line| {
            let entry: Value = serde_json::from_str(&line).unwrap_or_default();
            seen.push(line);
            (entry["message"] == "listening").then_some(entry)
        });
        let Some(started) = started else { panic!("couplet did not start:\n{}", seen.join("\n")) };
        let url = |door: &str| started[door].as_str().map(|address| format!("http://{address}"));
        let told = Arc::new(Mutex::new(seen));
        let tells = Arc::clone(&told);
        // A pipe that nobody empties would stop it.
        std::thread::spawn(move || log.for_each(|line| tells.lock().unwrap().extend(line)));
        Self { url: url("address").unwrap(), admin: url("admin"), process, log: told, config: None }
    }

    /// Replaces its configuration in one step, as those do who mean it well.
    pub fn configure(&self, yaml: &str) {
        let (directory, file) = self.config.as_ref().unwrap();
        let new = directory.path().join("new.yaml");
        std::fs::write(&new, yaml).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    /// Sends it a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end, at most `patience`, and tells its exit code.
    pub async fn ended(&mut self, patience: Duration) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < patience, "couplet still runs after {patience:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The sum of a metric over those of its series whose labels contain `label`.
    pub async fn metric(&self, name: &str, label: &str) -> f64 {
        let text = http::get(&format!("{}/metrics", self.url)).await.text;
        let is_meant = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label)
        };
        text.lines().filter(is_meant).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// The log's line of the request with this id, once it is there: within five seconds.
    pub async fn line_of(&self, id: &str) -> Value {
        let start = Instant::now();
        loop {
            let lines: Vec<Value> =
                self.log.lock().unwrap().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
            let is_meant = |line: &&Value| line["message"] == "request" && line["id"] == id;
            if let Some(line) = lines.iter().find(is_meant) {
                return line.clone();
            }
            assert!(start.elapsed() < Duration::from_secs(5), "no line for {id} in {lines:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// All that it logged.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// What `/ready` says, with its status.
    pub async fn ready(&self) -> (u16, Value) {
        let answer = http::get(&format!("{}/ready", self.url)).await;
        (answer.status, answer.json())
    }

    /// Waits until `/ready` is as wanted, at most five seconds.
    pub async fn ready_when(&self, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let (status, told) = self.ready().await;
            if wanted(status, &told) {
                return told;
            }
            assert!(start.elapsed() < Duration::from_secs(5), "/ready still says {told}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

fn command(engines: &[&str], flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_couplet"));
    command.args(["serve", "--model", tiny::DIR, "--served-model-name", "tiny"]).args(flags);
    for engine in engines {
        command.args(["--engine", engine]);
    }
    command
}

impl Drop for Couplet {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended
        let _ = self.process.wait();
    }
}
