//! Finds a model's files: in a directory, or on the hub through its cache.
//!
//! In: a path or a hub id. Out: the text of single files. Nothing is fetched that is not asked for.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use serde_json::Value;

use super::LoadError;

/// Where a model's files are.
pub(crate) struct ModelFiles {
    source: Source,
}

enum Source {
    Directory(PathBuf),
    /// On the hub: what it lists is fetched into the cache.
    Hub {
        id: String,
        repo: Box<ApiRepo>,
        listed: HashSet<String>,
    },
    /// In the hub's cache: offline, or the hub does not answer.
    Cache {
        id: String,
        cache: CacheRepo,
    },
}

/// A file that was read.
pub(crate) struct FileText {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(crate) text: String,
}

impl FileText {
    /// The text as JSON.
    pub(crate) fn json(&self) -> Result<Value, LoadError> {
        serde_json::from_str(&self.text).map_err(|error| LoadError::broken(&self.path, error))
    }
}

impl ModelFiles {
    /// `model` is a directory if there is one of that name, else a hub id.
    pub(crate) fn find(model: &str, revision: Option<&str>) -> Result<Self, LoadError> {
        let path = Path::new(model);
        if path.is_dir() {
            return Ok(Self { source: Source::Directory(path.to_path_buf()) });
        }
        let parts: Vec<&str> = model.split('/').collect();
        let is_id = matches!(parts.as_slice(), [owner, name] if !owner.is_empty() && !name.is_empty());
        if !is_id || model.starts_with(['.', '~']) {
            return Err(LoadError::Missing {
                path: model.to_owned(),
                remedy: "--model takes a directory with config.json and tokenizer.json, or a hub id `owner/name`"
                    .to_owned(),
            });
        }
        Self::on_hub(model, revision.unwrap_or("main"))
    }

    fn on_hub(id: &str, revision: &str) -> Result<Self, LoadError> {
        let repo = || Repo::with_revision(id.to_owned(), RepoType::Model, revision.to_owned());
        let cache = Cache::from_env().repo(repo());
        let offline = std::env::var("HF_HUB_OFFLINE")
            .is_ok_and(|value| matches!(value.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE"));
        if offline {
            return Ok(Self { source: Source::Cache { id: id.to_owned(), cache } });
        }
        match list(repo()) {
            Ok((repo, listed)) => Ok(Self { source: Source::Hub { id: id.to_owned(), repo: Box::new(repo), listed } }),
            // What was fetched once serves while the hub is away.
            Err(_) if cache.get("config.json").is_some() => {
                Ok(Self { source: Source::Cache { id: id.to_owned(), cache } })
            }
            Err(error) => Err(LoadError::Hub { repo: id.to_owned(), reason: error.to_string() }),
        }
    }

    /// A file that a model may lack.
    pub(crate) fn optional(&self, name: &str) -> Result<Option<FileText>, LoadError> {
        let Some(path) = self.path(name)? else { return Ok(None) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(FileText { path, text })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LoadError::broken(&path, error)),
        }
    }

    /// A file that every model needs.
    pub(crate) fn required(&self, name: &str, remedy: &str) -> Result<FileText, LoadError> {
        self.optional(name)?.ok_or_else(|| LoadError::Missing { path: self.describe(name), remedy: remedy.to_owned() })
    }

    /// The `.jinja` files of a sub-directory, as (name without ending, text); local directories only.
    pub(crate) fn templates_in(&self, directory: &str) -> Result<Vec<(String, FileText)>, LoadError> {
        let Source::Directory(root) = &self.source else { return Ok(Vec::new()) };
        let Ok(entries) = std::fs::read_dir(root.join(directory)) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
            if let (Some(stem), Some("jinja")) = (stem, path.extension().and_then(|ending| ending.to_str())) {
                let text = std::fs::read_to_string(&path).map_err(|error| LoadError::broken(&path, error))?;
                found.push((stem, FileText { path, text }));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, LoadError> {
        match &self.source {
            Source::Directory(root) => Ok(Some(root.join(name))),
            Source::Hub { id, repo, listed } if listed.contains(name) => repo
                .get(name)
                .map(Some)
                .map_err(|error| LoadError::Hub { repo: id.clone(), reason: format!("{name}: {error}") }),
            Source::Hub { .. } => Ok(None),
            Source::Cache { cache, .. } => Ok(cache.get(name)),
        }
    }

    fn describe(&self, name: &str) -> String {
        match &self.source {
            Source::Directory(root) => root.join(name).display().to_string(),
            Source::Hub { id, .. } => format!("{id}/{name} (on the hub)"),
            Source::Cache { id, .. } => format!("{id}/{name} (in the hub's cache)"),
        }
    }
}

/// A repository and the names of its files. `HF_HOME`, `HF_ENDPOINT` and the stored token are hf-hub's own business;
/// `HF_TOKEN` wins over the stored one.
fn list(repo: Repo) -> Result<(ApiRepo, HashSet<String>), ApiError> {
    let mut builder = ApiBuilder::from_env().with_progress(false);
    if let Ok(token) = std::env::var("HF_TOKEN") {
        builder = builder.with_token(Some(token));
    }
    let repo = builder.build()?.repo(repo);
    let listed = repo.info()?.siblings.into_iter().map(|file| file.rfilename).collect();
    Ok((repo, listed))
}
