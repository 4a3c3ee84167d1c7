//! Model snapshots: what a Function declares is on this node, whole and pinned, before its code runs (HF-01, HF-02).
//!
//! A snapshot is one revision of a repository of a hub that speaks the protocol of `huggingface.co`: the listing
//! `GET /api/models/<repo>/revision/<commit>?blobs=true`, the files `GET /<repo>/resolve/<commit>/<path>`. It is written
//! to a temporary folder, flushed, and renamed to its place, so a snapshot that can be seen is complete:
//!
//! ```text
//! <root>/<database>/models--<owner>--<name>/<commit>/refs/main          the commit
//!                                                   /snapshots/<commit>/ the files
//! ```
//!
//! That is the layout of one repository in the cache of `huggingface_hub`. A worker sees it, read-only, in an `HF_HOME`
//! that it makes for itself in its own `/tmp`, with the libraries told to stay offline; loading by name finds the
//! pinned revision.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, Response, Url};
use serde::{Deserialize, Serialize};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use crate::redact::Redactor;

/// Hexadecimal digits of a commit.
const COMMIT_DIGITS: usize = 40;
const NAME_CHARS_MAX: usize = 96;
const FILES_MAX: usize = 10_000;
const LISTING_BYTES_MAX: usize = 32 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A hub that sends nothing for so long is given up.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Variables that would lead the libraries elsewhere.
const ELSEWHERE: [&str; 6] = [
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "TRANSFORMERS_CACHE",
    "SENTENCE_TRANSFORMERS_HOME",
    "HF_ENDPOINT",
];
const OFFLINE: [&str; 2] = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"];

/// One repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `owner/name`, or `name` alone.
    pub repo: String,
    /// The full commit hash, 40 hexadecimal digits in lower case.
    pub revision: String,
}

/// Why a snapshot is not there. Texts hold no token.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelError {
    /// The hub cannot be asked, or refuses.
    #[error("model {repo}: {message}")]
    Hub {
        /// The repository.
        repo: String,
        /// What it said.
        message: String,
    },
    /// The snapshot is larger than the deployment allows.
    #[error("model {repo} at {revision} is larger than {allowed} bytes")]
    TooLarge {
        /// The repository.
        repo: String,
        /// The commit.
        revision: String,
        /// The limit.
        allowed: u64,
    },
    /// The files cannot be written.
    #[error("model {repo}: {message}")]
    Disk {
        /// The repository.
        repo: String,
        /// What the file system said.
        message: String,
    },
}

/// Where snapshots come from and where they are kept.
#[derive(Debug, Clone)]
pub struct Models {
    root: PathBuf,
    endpoint: Url,
    bytes_max: u64,
    client: Client,
    fetching: Arc<Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>>,
}

/// A snapshot on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The folder's name in a cache: `models--owner--name`.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
}

#[derive(Deserialize)]
struct Listing {
    sha: Option<String>,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
}

impl Model {
    /// Checks what was declared.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn validate(&self) -> Result<(), String> {
        let Self { repo, revision } = self;
        let parts: Vec<&str> = repo.split('/').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_name(part)) {
            return Err(format!("\"{repo}\" is no repository such as \"owner/name\""));
        }
        let digits = revision.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if revision.len() != COMMIT_DIGITS || !digits {
            return Err(format!(
                "revision \"{revision}\" of \"{repo}\" is no full commit hash of {COMMIT_DIGITS} digits"
            ));
        }
        Ok(())
    }

    fn folder(&self) -> String {
        format!("models--{}", self.repo.replace('/', "--"))
    }
}

/// Checks all models that a Function declares.
///
/// # Errors
/// What is wrong with them, for people.
pub fn validate(models: &[Model]) -> Result<(), String> {
    for (index, model) in models.iter().enumerate() {
        model.validate()?;
        if models[..index].iter().any(|other| other.repo == model.repo) {
            return Err(format!("repository \"{}\" is declared twice", model.repo));
        }
    }
    Ok(())
}

/// Sets what makes the libraries use the snapshots, whatever the Function's own variables say (HF-02). Without models
/// nothing is changed.
pub fn set_environment(environment: &mut Vec<(String, String)>, models: &[Model]) {
    if models.is_empty() {
        return;
    }
    environment.retain(|(name, _)| !ELSEWHERE.iter().chain(&OFFLINE).any(|other| other == name));
    environment.extend(OFFLINE.map(|name| (name.to_owned(), "1".to_owned())));
}

impl Models {
    /// Keeps snapshots of the hub at `endpoint` in `root`; a snapshot has at most `bytes_max` bytes.
    ///
    /// # Errors
    /// If the endpoint is no URL of HTTP or HTTPS, or TLS cannot be set up.
    pub fn new(root: PathBuf, endpoint: &str, bytes_max: u64) -> Result<Self, String> {
        let mut endpoint = Url::parse(endpoint).map_err(|error| format!("model endpoint \"{endpoint}\": {error}"))?;
        if !matches!(endpoint.scheme(), "http" | "https") || endpoint.cannot_be_a_base() {
            return Err(format!("model endpoint \"{endpoint}\" is no http or https address"));
        }
        endpoint.set_query(None);
        endpoint.set_fragment(None);
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .user_agent(concat!("lancegate/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { root, endpoint, bytes_max, client, fetching: Arc::default() })
    }

    /// Returns the snapshots of a Function of a database, in order, after fetching those that are not here yet.
    /// Concurrent calls for one snapshot fetch it once. `token` is shown to the hub, and to nobody else.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub async fn prepare(
        &self,
        database: &str,
        models: &[Model],
        token: Option<&str>,
    ) -> Result<Vec<Snapshot>, ModelError> {
        let mut snapshots = Vec::with_capacity(models.len());
        for model in models {
            let path = self.root.join(escaped(database)).join(model.folder()).join(&model.revision);
            let lock = {
                let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(fetching.entry(path.clone()).or_default())
            };
            let _one = lock.lock().await;
            if !path.exists() {
                let redactor = Redactor::new(token);
                self.fetch(model, &path, token).await.map_err(|error| error.redacted(&redactor))?;
            }
            snapshots.push(Snapshot { name: model.folder(), path });
        }
        Ok(snapshots)
    }

    async fn fetch(&self, model: &Model, place: &Path, token: Option<&str>) -> Result<(), ModelError> {
        let disk = |error: std::io::Error| ModelError::Disk { repo: model.repo.clone(), message: error.to_string() };
        let files = self.list(model, token).await?;
        let parent = place.parent().expect("below the root");
        tokio::fs::create_dir_all(parent).await.map_err(disk)?;
        let folder = tempfile::Builder::new().prefix(".fetch-").tempdir_in(parent).map_err(disk)?;
        let snapshot = folder.path().join("snapshots").join(&model.revision);
        let mut room = self.bytes_max;
        for file in &files {
            let path = snapshot.join(file);
            tokio::fs::create_dir_all(path.parent().expect("below the snapshot")).await.map_err(disk)?;
            room = self.download(model, file, &path, room, token).await?;
        }
        tokio::fs::create_dir_all(&snapshot).await.map_err(disk)?;
        let reference = folder.path().join("refs");
        tokio::fs::create_dir(&reference).await.map_err(disk)?;
        let mut main = File::create(reference.join("main")).await.map_err(disk)?;
        main.write_all(model.revision.as_bytes()).await.map_err(disk)?;
        main.sync_all().await.map_err(disk)?;
        match tokio::fs::rename(folder.path(), place).await {
            // Another gateway of this node was faster; a snapshot is the same whoever fetched it.
            Err(_) if place.exists() => {}
            renamed => renamed.map_err(disk)?,
        }
        tracing::info!(repo = model.repo, revision = model.revision, files = files.len(), "fetched a model");
        Ok(())
    }

    /// Returns the paths of the snapshot's files.
    async fn list(&self, model: &Model, token: Option<&str>) -> Result<Vec<String>, ModelError> {
        let hub = |message: String| ModelError::Hub { repo: model.repo.clone(), message };
        let path = format!("api/models/{}/revision/{}", model.repo, model.revision);
        let mut url = self.url(&path).map_err(hub)?;
        url.set_query(Some("blobs=true"));
        let mut response = self.get(url, token).await.map_err(hub)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| hub(said(&error)))? {
            body.extend_from_slice(&chunk);
            if body.len() > LISTING_BYTES_MAX {
                return Err(hub("its list of files is too long".to_owned()));
            }
        }
        let listing: Listing = serde_json::from_slice(&body)
            .map_err(|error| hub(format!("the hub's list of files cannot be read: {error}")))?;
        if listing.sha.as_ref().is_some_and(|sha| *sha != model.revision) {
            return Err(hub("the hub answered with another revision".to_owned()));
        }
        if listing.siblings.len() > FILES_MAX {
            return Err(hub(format!("it has more than {FILES_MAX} files")));
        }
        if let Some(bad) = listing.siblings.iter().find(|file| !is_inside(&file.rfilename)) {
            return Err(hub(format!("the hub lists a file outside of the snapshot: {:?}", bad.rfilename)));
        }
        let size = listing.siblings.iter().fold(0u64, |sum, file| sum.saturating_add(file.size.unwrap_or_default()));
        if size > self.bytes_max {
            return Err(self.too_large(model));
        }
        Ok(listing.siblings.into_iter().map(|file| file.rfilename).collect())
    }

    /// Writes one file durably. Returns how many bytes the snapshot may still have.
    async fn download(
        &self,
        model: &Model,
        file: &str,
        path: &Path,
        mut room: u64,
        token: Option<&str>,
    ) -> Result<u64, ModelError> {
        let hub = |message: String| ModelError::Hub { repo: model.repo.clone(), message: format!("{file}: {message}") };
        let disk = |error: std::io::Error| ModelError::Disk { repo: model.repo.clone(), message: error.to_string() };
        let url = self.url(&format!("{}/resolve/{}/{file}", model.repo, model.revision)).map_err(hub)?;
        let mut response = self.get(url, token).await.map_err(hub)?;
        let mut out = File::create_new(path).await.map_err(disk)?;
        while let Some(chunk) = response.chunk().await.map_err(|error| hub(said(&error)))? {
            room = room.checked_sub(chunk.len() as u64).ok_or_else(|| self.too_large(model))?;
            out.write_all(&chunk).await.map_err(disk)?;
        }
        out.sync_all().await.map_err(disk)?;
        Ok(room)
    }

    fn url(&self, path: &str) -> Result<Url, String> {
        let mut url = self.endpoint.clone();
        // Every part is encoded on its own, so a name stays a name.
        url.path_segments_mut().map_err(|()| "no base address".to_owned())?.pop_if_empty().extend(path.split('/'));
        Ok(url)
    }

    /// reqwest drops the token where a redirect leads to another host.
    async fn get(&self, url: Url, token: Option<&str>) -> Result<Response, String> {
        let mut request = self.client.get(url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|error| said(&error))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(format!("the hub answered {status}")),
        }
    }

    fn too_large(&self, model: &Model) -> ModelError {
        ModelError::TooLarge { repo: model.repo.clone(), revision: model.revision.clone(), allowed: self.bytes_max }
    }
}

impl ModelError {
    fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Hub { repo, message } => Self::Hub { repo, message: redactor.redact(&message) },
            other => other,
        }
    }
}

/// The error and what is below it; the address is left out, a signed one would be a key.
fn said(error: &reqwest::Error) -> String {
    let mut text =
        if error.is_timeout() { "the hub did not answer in time" } else { "the hub cannot be read" }.to_owned();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn is_name(part: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edges = part.starts_with(['-', '.']) || part.ends_with(['-', '.']);
    !part.is_empty() && part.len() <= NAME_CHARS_MAX && part.chars().all(allowed) && !edges && !part.contains("..")
}

fn is_inside(path: &str) -> bool {
    let plain = Path::new(path).components().all(|component| matches!(component, Component::Normal(_)));
    plain && !path.is_empty() && !path.contains(['\\', '\0']) && !path.ends_with('/')
}

/// A database's name as the name of a folder: nothing but letters, digits, `-`, `_`, and `%` with hexadecimal digits.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(repo: &str, revision: &str) -> Model {
        Model { repo: repo.to_owned(), revision: revision.to_owned() }
    }

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn hf_01_a_repository_is_named_and_pinned_to_a_full_commit() {
        for repo in ["bert", "owner/name", "a.b/c_d-e"] {
            assert_eq!(model(repo, COMMIT).validate(), Ok(()), "{repo}");
        }
        for repo in ["", "/", "a/b/c", "../x", "a/..", ".a/b", "a b/c", "a/b?", "a//b", "a/b.", "ä/b"] {
            assert!(model(repo, COMMIT).validate().is_err(), "{repo}");
        }
        for revision in ["", "main", "0123456", &COMMIT.to_uppercase(), &format!("{COMMIT}0")] {
            assert!(model("a/b", revision).validate().is_err(), "{revision}");
        }
    }

    #[test]
    fn hf_01_each_repository_is_declared_once() {
        let other = COMMIT.replace('0', "1");
        assert!(validate(&[model("a/b", COMMIT), model("a/c", COMMIT)]).is_ok());
        assert!(validate(&[model("a/b", COMMIT), model("a/b", &other)]).is_err());
    }

    #[test]
    fn hf_02_the_environment_cannot_be_overridden_and_is_unchanged_without_models() {
        let own = vec![("HF_HUB_OFFLINE".to_owned(), "0".to_owned()), ("HF_HUB_CACHE".to_owned(), "/x".to_owned())];
        let mut without = own.clone();
        set_environment(&mut without, &[]);
        assert_eq!(without, own);
        let mut with = own;
        set_environment(&mut with, &[model("a/b", COMMIT)]);
        assert_eq!(with, OFFLINE.map(|name| (name.to_owned(), "1".to_owned())));
    }

    #[test]
    fn a_path_of_a_hub_stays_inside_and_a_database_is_one_folder() {
        for path in ["config.json", "a/b/c.bin"] {
            assert!(is_inside(path), "{path}");
        }
        for path in ["", "/etc/passwd", "../x", "a/../../x", "a\\b", "a/", "."] {
            assert!(!is_inside(path), "{path}");
        }
        assert_eq!(escaped("../Ä b"), "%2e%2e%2f%c3%84%20b");
    }
}
