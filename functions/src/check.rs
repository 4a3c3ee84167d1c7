//! Whether the source of a Function can be its code, found out without running it.
//!
//! A confined process of the Python that will run it compiles the source and compares what the entrypoint names with the
//! declared parameters (`python/check.py`). The gateway reads no Python. What only a run could tell is not refused.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::definition::{CallMode, Definition};
use crate::protocol::{Frame, FrameError, Kind};
use crate::worker::{Launch, Worker, WorkerError};

/// The longest a look at a source takes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest text of a refusal, in characters.
const TEXT_CHARS_MAX: usize = 1_000;

/// Why a source cannot be the code of its Function.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CheckError {
    /// It does not compile.
    #[error("{0}")]
    Syntax(Place),
    /// It has no callable of the name, or one that is called otherwise.
    #[error("{0}")]
    Definition(Place),
    /// The process that looked at it failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What Python says.
    pub message: String,
    /// The line of the source, from 1, if it is known.
    pub line: Option<u64>,
    /// The text of that line, cut.
    pub text: String,
    /// The file, if it is not the source itself but one that came with it.
    pub file: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (self.line, self.file.as_str()) {
            (Some(line), "") => write!(f, " (line {line})"),
            (Some(line), file) => write!(f, " ({file}, line {line})"),
            (None, "") => Ok(()),
            (None, file) => write!(f, " ({file})"),
        }
    }
}

#[derive(Deserialize)]
struct Passed {
    /// How the annotations want it to be called; absent where the text does not tell.
    style: Option<CallMode>,
}

#[derive(Deserialize)]
struct Failed {
    stage: String,
    #[serde(rename = "type")]
    error_type: String,
    message: String,
    #[serde(default)]
    line: Option<u64>,
    #[serde(default)]
    text: String,
    #[serde(default, rename = "where")]
    file: String,
}

/// Looks at the source of a Function in a process of its own; returns how its annotations want it to be called.
///
/// # Errors
/// See [`CheckError`].
pub async fn check(launch: &Launch, definition: &Definition) -> Result<Option<CallMode>, CheckError> {
    let mut worker = Worker::open(launch, definition, include_str!("../python/check.py")).await?;
    let spec = json!({
        "source": definition.source,
        "files": definition.files,
        "entrypoint": definition.entrypoint,
        "mode": definition.mode,
        "parameters": definition.parameters.len(),
        "initialization": definition.initialization,
    });
    let sent = worker.send(Kind::Initialize, &spec, &[]).await;
    let answer = match timeout(CHECK_TIMEOUT, worker.read(0)).await {
        Ok(answer) => sent.map_err(FrameError::from).and(answer),
        Err(_) => return Err(worker.not_initialized("compiling the source took too long", None).await.into()),
    };
    match answer {
        Ok(Frame { kind: Kind::Initialized, header, .. }) => match serde_json::from_slice::<Passed>(&header) {
            Ok(passed) => Ok(passed.style),
            Err(_) => Err(worker.not_initialized("the worker broke the protocol", None).await.into()),
        },
        Ok(Frame { kind: Kind::Failed, header, .. }) => match serde_json::from_slice::<Failed>(&header) {
            Ok(failed) => Err(refused(failed)),
            Err(_) => Err(worker.not_initialized("the worker broke the protocol", None).await.into()),
        },
        _ => Err(worker.not_initialized("Python ended while it compiled the source", None).await.into()),
    }
}

fn refused(failed: Failed) -> CheckError {
    let cut = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
    let message = match failed.error_type.as_str() {
        "" => failed.message,
        error_type => format!("{error_type}: {}", failed.message),
    };
    let place = Place { message: cut(&message), line: failed.line, text: cut(&failed.text), file: cut(&failed.file) };
    if failed.stage == "syntax" { CheckError::Syntax(place) } else { CheckError::Definition(place) }
}
