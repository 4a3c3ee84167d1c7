//! What is wrong with a configuration: which key, set where, and what to do.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The table of keys.
    Default,
    /// A TOML file.
    File(PathBuf),
    /// An environment variable of this name.
    Environment(String),
    /// A command-line flag of this name.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One thing that is wrong, named by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, dotted; the file or variable if the trouble has no key.
    pub key: String,
    /// A sentence part without a full stop: what is wrong and what to do.
    pub what: String,
    /// Where the value was set, when that is known.
    pub origin: Option<Origin>,
}

impl Problem {
    /// Returns a problem with `key`.
    pub fn new(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { key: key.into(), what: what.into(), origin: None }
    }

    /// Names a key more exactly.
    #[must_use]
    pub(super) fn at(mut self, key: String) -> Self {
        self.key = key;
        self
    }

    /// Says where the value was set.
    #[must_use]
    pub fn from_origin(mut self, origin: &Origin) -> Self {
        self.origin = Some(origin.clone());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.what)?;
        match &self.origin {
            Some(origin) => write!(f, " (set by {origin})"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong at once, so that one correction is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Returns `Ok` if nothing is wrong.
    ///
    /// # Errors
    /// All problems, if there are any.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
