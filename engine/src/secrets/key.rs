//! The key file: which keys seal and open secrets.
//!
//! A text file with one key on each line, 32 random bytes in base64, for example
//! of `openssl rand -base64 32`. The first one seals; all of them open. Empty
//! lines and lines that begin with `#` are left out. Nobody but its owner may
//! read the file. Keys are named by what they are (the begin of a SHA-256 over
//! the key), so that a record cannot name the wrong one by accident.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lancegate_auth::{EntropyUnavailable, Secret, random_bytes};
use lancegate_catalog::{Sealed, SecretName};
use sha2::{Digest as _, Sha256};

use super::seal::{SealError, SealingKey};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;
/// Bytes of the digest that name a key.
const ID_BYTES: usize = 8;
/// The largest file that is read; hundreds of keys fit.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// What the digest that names a key begins with.
const ID_PURPOSE: &[u8] = b"lancegate key id 1";
/// The first line of a file that a start has made.
const HEAD: &str =
    "# Seals the secrets of lancegate. Without it their values are lost: back it up, apart from the data.\n";

/// Why the key file cannot be used. No variant holds a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It is not there, and it is not the time or place to make one.
    #[error("{} does not exist{}", path.display(), needed(*secrets))]
    Missing {
        /// The file.
        path: PathBuf,
        /// Secrets that were sealed with it.
        secrets: usize,
    },
    /// Others may read it.
    #[error(
        "{} can be read by others (mode {mode:04o}); it must belong to the user that runs lancegate with mode 0600, \
         or to root with mode 0640 or less",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to another user; it must belong to the user that runs lancegate or to root", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It is no regular file or too large.
    #[error("{} is not a key file", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// A line is not a key.
    #[error("line {line} of {} is not a key: a key is 32 bytes in base64", path.display())]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// Its line, counted from 1.
        line: usize,
    },
    /// There is no key in it.
    #[error("{} contains no key", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read or made.
    #[error("{} cannot be used: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There are no random bytes to make one of.
    #[error(transparent)]
    Entropy(#[from] EntropyUnavailable),
}

fn needed(secrets: usize) -> String {
    match secrets {
        0 => "; make one with: (umask 077; openssl rand -base64 32 > the file)".to_owned(),
        count => format!(", and the values of {count} secrets cannot be read without it; put it back"),
    }
}

/// The keys of a deployment, the one that seals first.
pub struct KeyRing {
    keys: Vec<(String, SealingKey)>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(id, _)| id)).finish()
    }
}

impl KeyRing {
    /// Reads the key file. Where the operator has not `chosen` one, a missing file
    /// is made, unless `secrets` were sealed with it: a new key beside them would
    /// hide that the old one is lost.
    ///
    /// # Errors
    /// See [`KeyFileError`].
    pub fn open(path: &Path, chosen: bool, secrets: usize) -> Result<Self, KeyFileError> {
        match File::open(path) {
            Ok(file) => Self::read(path, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if chosen || secrets > 0 {
                    return Err(KeyFileError::Missing { path: path.to_owned(), secrets });
                }
                create(path)?;
                Self::read(path, File::open(path).map_err(|error| failed(path, error))?)
            }
            Err(error) => Err(failed(path, error)),
        }
    }

    /// Returns the name of the key that seals.
    pub fn current_id(&self) -> &str {
        &self.keys[0].0
    }

    pub(super) fn seal(&self, name: &SecretName, version: u64, value: &Secret<String>) -> Result<Sealed, SealError> {
        let (id, key) = &self.keys[0];
        key.seal(id, (name, version), value)
    }

    pub(super) fn open_sealed(
        &self,
        name: &SecretName,
        version: u64,
        sealed: &Sealed,
    ) -> Result<Secret<String>, SealError> {
        let found = self.keys.iter().find(|(id, _)| *id == sealed.key_id);
        let (_, key) = found.ok_or_else(|| SealError::UnknownKey { key_id: shown(&sealed.key_id) })?;
        key.open((name, version), sealed)
    }

    /// Looks at the open file, so that what is checked is what is read.
    fn read(path: &Path, file: File) -> Result<Self, KeyFileError> {
        let metadata = file.metadata().map_err(|error| failed(path, error))?;
        ensure_private(path, &metadata)?;
        let mut text = Secret::new(String::with_capacity(metadata.len() as usize + 1));
        file.take(FILE_BYTES_MAX).read_to_string(text.expose_mut()).map_err(|error| failed(path, error))?;
        let mut keys: Vec<(String, SealingKey)> = Vec::new();
        for (index, line) in text.expose().lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bytes = decode(line).ok_or_else(|| KeyFileError::NotAKey { path: path.to_owned(), line: index + 1 })?;
            let id = key_id(bytes.expose());
            if !keys.iter().any(|(known, _)| *known == id) {
                keys.push((id, SealingKey::new(bytes.expose())));
            }
        }
        match keys.is_empty() {
            true => Err(KeyFileError::Empty { path: path.to_owned() }),
            false => Ok(Self { keys }),
        }
    }
}

fn decode(line: &str) -> Option<Secret<[u8; KEY_BYTES]>> {
    let bytes = Secret::new(STANDARD.decode(line).ok()?);
    <[u8; KEY_BYTES]>::try_from(bytes.expose().as_slice()).ok().map(Secret::new)
}

fn key_id(key: &[u8; KEY_BYTES]) -> String {
    let digest = Sha256::new().chain_update(ID_PURPOSE).chain_update(key).finalize();
    digest[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns what a record says its key is, as far as it can be one.
fn shown(id: &str) -> String {
    id.chars().filter(char::is_ascii_hexdigit).take(2 * ID_BYTES).collect()
}

/// The rule of PostgreSQL for private keys: the file is the server's own and
/// nobody else's, or it is root's and at most a group may read it.
fn ensure_private(path: &Path, metadata: &Metadata) -> Result<(), KeyFileError> {
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(KeyFileError::NotAFile { path: path.to_owned() });
    }
    let own = own_user().map_err(|error| failed(path, error))?;
    let mode = metadata.mode() & 0o7777;
    let others = match metadata.uid() {
        owner if owner == own => 0o077,
        0 => 0o037,
        _ => return Err(KeyFileError::Foreign { path: path.to_owned() }),
    };
    match mode & others {
        0 => Ok(()),
        _ => Err(KeyFileError::Exposed { path: path.to_owned(), mode }),
    }
}

/// Returns the user that this process makes files as.
fn own_user() -> io::Result<u32> {
    Ok(tempfile::tempfile()?.metadata()?.uid())
}

/// Makes a key file. It appears whole and readable by nobody else, or not at all.
fn create(path: &Path) -> Result<(), KeyFileError> {
    let key: Secret<[u8; KEY_BYTES]> = Secret::new(random_bytes()?);
    let line = Secret::new(STANDARD.encode(key.expose()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        // Files of this kind are made with mode 0600.
        let mut file = tempfile::Builder::new().prefix(".secrets.key").tempfile_in(folder)?;
        file.write_all(HEAD.as_bytes())?;
        file.write_all(line.expose().as_bytes())?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| failed(path, error))?;
    tracing::info!(path = %path.display(), "made a key for secrets; back it up, apart from the data");
    Ok(())
}

fn failed(path: &Path, source: io::Error) -> KeyFileError {
    KeyFileError::Io { path: path.to_owned(), source }
}
