//! Settings: the YAML file, environment variables and flags, merged and checked.
//!
//! In: [`file::File`] from YAML, over which the command line lays flags and environment. Out: [`Settings`], or everything
//! that is wrong, each with its line, key path and what was expected. A flag wins over an environment variable, which wins
//! over the file.
//!
//! ```text
//! YAML ─▶ tree with lines ─▶ ${VARIABLES} ─▶ Draft ─▶ flags laid over ─▶ checked ─▶ Settings
//!              └───────────────┴─ problems ────┴─────────────────────────────┘
//! ```

mod check;
mod expand;
pub mod file;
pub mod pool;
mod problem;
mod read;
mod tree;

use std::path::Path;
use std::time::Duration;

use file::File;
pub use problem::{ConfigError, Problem, Problems};

use crate::engine::dns::Question;
use crate::engine::member::Place;
use crate::engine::pool::Options;
use crate::model::LoadOptions;

/// Settings, complete and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// `ADDRESS:PORT` of the listener for those who run couplet; `None`: clients' has its routes.
    pub admin: Option<String>,
    /// Keys that clients have to present.
    pub api_keys: Vec<String>,
    /// Longest request body, in bytes.
    pub max_body_bytes: usize,
    /// Whether `/metrics` tells of replies under vLLM's names too.
    pub vllm_metric_names: bool,
    /// After a signal to stop: how long requests are still taken.
    pub drain_grace: Duration,
    /// After that: how long streams may go on.
    pub drain_timeout: Duration,
    /// Whether prompts and replies are written to the log.
    pub log_prompts: bool,
    /// How often the file is looked at; `None`: only on SIGHUP.
    pub reload_interval: Option<Duration>,
    /// Models to serve, at least one.
    pub models: Vec<ModelSettings>,
}

/// Settings of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSettings {
    /// How it is loaded. The parsers in it are as written: a name, `auto`, or `None` for none.
    pub load: LoadOptions,
    /// Its engines.
    pub engines: Vec<EngineSettings>,
    /// Where to look for more.
    pub discovery: Option<DiscoverySettings>,
    /// How requests are shared out among them.
    pub pool: Options,
}

/// Settings of one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSettings {
    /// Base URL.
    pub url: String,
    /// Where it stands in its pool.
    pub place: Place,
    /// How it is spoken to.
    pub access: Access,
}

/// How engines are spoken to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Access {
    /// What they call the model, where that is neither a served name nor the model's path.
    pub model: Option<String>,
    /// Headers of every request to them, the key among them.
    pub headers: http::HeaderMap,
}

/// Engines that DNS tells of.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoverySettings {
    /// What to ask for.
    pub question: Question,
    /// How often.
    pub interval: Duration,
    /// Whom, instead of the system's DNS servers.
    pub server: Option<std::net::SocketAddr>,
    /// How the engines that are found are spoken to.
    pub access: Access,
}

/// What the file gives, and what is wrong with it so far.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// All that could be read.
    pub file: File,
    /// Where it is written, and what could not be read.
    pub problems: Problems,
}

impl Draft {
    /// Reads a YAML file. Only what is no YAML at all fails here.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::read_with(path, &|name| std::env::var(name).ok())
    }

    /// Reads a YAML file with variables of its own.
    pub fn read_with(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let fails = |line, said: String| {
            let mut problems = Problems::of_file(path);
            problems.unreadable("", line, said);
            problems
        };
        let yaml = match std::fs::read_to_string(path) {
            Ok(yaml) => yaml,
            Err(error) => return Err(fails(0, format!("cannot be read: {error}")).into_error()),
        };
        let mut tree = match tree::Node::parse(&yaml) {
            Ok(tree) => tree,
            Err((line, said)) => return Err(fails(line, format!("is not YAML: {said}")).into_error()),
        };
        let mut problems = Problems::of_file(path);
        tree.note_lines("", &mut problems);
        expand::expand(&mut tree, variable, &mut problems);
        let file = read::read(&mut tree, &mut problems);
        Ok(Self { file, problems })
    }

    /// The key paths that the file gives.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.problems.keys()
    }

    /// Fills in defaults and checks everything.
    pub fn check(mut self) -> Result<Settings, ConfigError> {
        let settings = check::settings(self.file, &mut self.problems);
        self.problems.into_result().map(|()| settings)
    }
}

impl File {
    /// Reads a YAML file.
    pub fn read(path: &Path) -> Result<Draft, ConfigError> {
        Draft::read(path)
    }

    /// Fills in defaults and checks everything.
    pub fn check(self) -> Result<Settings, ConfigError> {
        Draft { file: self, problems: Problems::default() }.check()
    }
}
