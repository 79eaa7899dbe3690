//! What is wrong with settings, gathered so that all of it is told at once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Names further away than this share of their letters are not what was meant.
const LEAST_LIKENESS: f64 = 0.75;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Key path, such as `models[1].engines[0].weight`; empty for the file as a whole.
    pub key: String,
    /// File and line; `None` where it comes from a flag or a variable.
    pub place: Option<(PathBuf, u64)>,
    /// The value, what was expected, what to do.
    pub said: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line)) = &self.place {
            match line {
                0 => write!(f, "{}: ", file.display())?,
                line => write!(f, "{}:{line}: ", file.display())?,
            }
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.said)
    }
}

/// Everything that is wrong with the settings, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError {
    /// What has no line comes first, then the file from top to bottom.
    pub problems: Vec<Problem>,
}

/// Where every key is written, and what was found wrong so far.
#[derive(Debug, Clone, Default)]
pub struct Problems {
    file: Option<PathBuf>,
    lines: BTreeMap<String, u64>,
    found: Vec<Problem>,
    /// How many of them were found while reading: what lies above or below those keys was not read as it is written.
    unread: usize,
}

impl Problems {
    pub(super) fn of_file(file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..Self::default() }
    }

    /// Notes where a key is written.
    pub(super) fn written(&mut self, key: String, line: u64) {
        self.lines.insert(key, line);
    }

    /// A flag or a variable gives this key now: what is wrong with it is not the file's.
    pub fn overlaid(&mut self, key: &str) {
        self.lines.insert(key.to_owned(), 0);
        self.lines.retain(|written, _| written == key || !is_below(written, key));
    }

    /// Every key that the file gives.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.lines.keys().map(String::as_str)
    }

    /// Notes what is wrong with a key while the file is read; once.
    pub(super) fn unreadable(&mut self, key: &str, line: u64, said: impl Into<String>) {
        if self.found.iter().any(|known| known.key == key) {
            return;
        }
        let place = self.file.clone().map(|file| (file, line));
        self.found.push(Problem { key: key.to_owned(), place, said: said.into() });
        self.unread = self.found.len();
    }

    /// Notes what is wrong with the value of a key; not where the key could not even be read.
    pub(super) fn add(&mut self, key: impl Into<String>, said: impl Into<String>) {
        let key = key.into();
        let unread = &self.found[..self.unread];
        if unread.iter().any(|known| known.key == key || is_below(&known.key, &key) || is_below(&key, &known.key)) {
            return;
        }
        let place = self.line_of(&key).and_then(|line| Some((self.file.clone()?, line)));
        self.found.push(Problem { key, place, said: said.into() });
    }

    /// Notes problems that are told as `KEY: TEXT`.
    pub(super) fn add_lines(&mut self, lines: Vec<String>) {
        for line in lines {
            let (key, said) = line.split_once(": ").unwrap_or(("", &line));
            self.add(key, said);
        }
    }

    /// The line of a key or, where it is not written, of what it would stand in.
    fn line_of(&self, key: &str) -> Option<u64> {
        let mut key = key;
        loop {
            match self.lines.get(key) {
                Some(0) => return None,
                Some(line) => return Some(*line),
                None => key = key.rfind(['.', '[']).and_then(|at| key.get(..at))?,
            }
        }
    }

    /// All that was found, as it stands in the file.
    pub(super) fn into_error(mut self) -> ConfigError {
        self.found.sort_by_key(|problem| problem.place.as_ref().map(|(_, line)| *line));
        ConfigError { problems: self.found }
    }

    /// Fails if anything was found.
    pub(super) fn into_result(self) -> Result<(), ConfigError> {
        if self.found.is_empty() { Ok(()) } else { Err(self.into_error()) }
    }
}

/// Whether a key lies within what another one holds.
fn is_below(key: &str, above: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| above.is_empty() || rest.starts_with(['.', '[']))
}

/// The known name that is most like a wrong one, if one is.
pub(super) fn nearest(wrong: &str, known: &[&'static str]) -> Option<&'static str> {
    let likeness = |name: &str| strsim::jaro_winkler(&wrong.to_lowercase().replace('-', "_"), name);
    let best = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= LEAST_LIKENESS).then_some(best)
}
