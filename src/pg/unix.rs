//! The Unix socket: its file, and who is at the other end.
//!
//! The file appears under its name only when it listens and has its permissions, and
//! takes the place of one that a crash has left. A lock beside it keeps two gateways
//! from taking one name.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The longest path of a socket, the byte behind it included (`sockaddr_un`).
const PATH_BYTES_MAX: usize = 107;
/// Users of this machine.
const PASSWD: &str = "/etc/passwd";

/// A listening Unix socket; dropping it removes the file.
#[derive(Debug)]
pub struct UnixSocket {
    pub(in crate::pg) listener: UnixListener,
    path: PathBuf,
    inode: u64,
    /// Held as long as the file is ours.
    _lock: File,
}

impl UnixSocket {
    /// Listens in a folder under the name that PostgreSQL's clients look for.
    ///
    /// # Errors
    /// The folder is not there or cannot be written, the path is too long, or another
    /// gateway listens there.
    pub fn bind(folder: &Path, port: u16, mode: u32) -> io::Result<Self> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        if path.as_os_str().len() > PATH_BYTES_MAX {
            let what = format!("{} is longer than {PATH_BYTES_MAX} bytes", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, what));
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.with_extension(format!("{port}.lock")))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = format!("{} is in use by another gateway", path.display());
                return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // A server of another kind does not know the lock.
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            let what = format!("{} is in use by another server", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        let (listener, inode) = bind_unseen(folder, port, &path, mode)?;
        Ok(Self { listener, path, inode, _lock: lock })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Another server may have taken the name meanwhile.
        let is_ours = std::fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode);
        if is_ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Binds where nobody looks, and moves the file to its name when it is ready. Before
/// that its permissions would be those of the process for a moment.
fn bind_unseen(folder: &Path, port: u16, path: &Path, mode: u32) -> io::Result<(UnixListener, u64)> {
    let unseen = folder.join(format!(".s.{port}.{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&unseen);
    std::fs::DirBuilder::new().mode(0o700).create(&unseen)?;
    let bound = || {
        let unseen = unseen.join("s");
        let listener = UnixListener::bind(&unseen)?;
        std::fs::set_permissions(&unseen, std::fs::Permissions::from_mode(mode))?;
        let inode = std::fs::symlink_metadata(&unseen)?.ino();
        std::fs::rename(&unseen, path)?;
        Ok((listener, inode))
    };
    let bound = bound();
    let _ = std::fs::remove_dir_all(&unseen);
    bound
}

/// Returns the name of a user of this machine. Only the file of users is asked: a
/// directory service could answer anything, late.
pub(in crate::pg) fn user_name(user_id: u32) -> Option<String> {
    name_in(&std::fs::read_to_string(PASSWD).ok()?, user_id)
}

fn name_in(passwd: &str, user_id: u32) -> Option<String> {
    let id = user_id.to_string();
    let found = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, user) = (fields.next()?, fields.next()?, fields.next()?);
        (user == id).then_some(name)
    })?;
    (!found.is_empty()).then(|| found.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn users_are_found_by_their_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\n\n:x:7:7::/:\nbroken\n";
        assert_eq!(name_in(passwd, 0).as_deref(), Some("root"));
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(name_in(passwd, 100), None);
        assert_eq!(name_in(passwd, 7), None);
    }

    #[tokio::test]
    async fn a_file_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".s.PGSQL.5433");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists() && UnixStream::connect(&path).is_err());
        let socket = UnixSocket::bind(folder.path(), 5433, 0o770).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o770);
        let second = UnixSocket::bind(folder.path(), 5433, 0o770).unwrap_err();
        assert!(second.to_string().contains("another gateway"), "{second}");
        drop(socket);
        assert!(!path.exists());
        let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let third = UnixSocket::bind(folder.path(), 5433, 0o770).unwrap_err();
        assert!(third.to_string().contains("another server"), "{third}");
        drop(other);
        // Only the lock is left of the unseen places.
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".s.PGSQL.5433", ".s.PGSQL.5433.lock"]);
    }

    #[tokio::test]
    async fn a_file_that_is_not_ours_any_more_stays() {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixSocket::bind(folder.path(), 1, 0o700).unwrap();
        let path = socket.path().to_owned();
        std::fs::remove_file(&path).unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists());
        let long = folder.path().join("x".repeat(110));
        assert_eq!(UnixSocket::bind(&long, 1, 0o700).unwrap_err().kind(), io::ErrorKind::InvalidFilename);
    }
}
