//! Whether anybody has committed to a table since it was looked at, for tables in
//! folders: the time at which the folder of its versions last changed.
//!
//! A commit, a cleanup, a drop and a table that is made anew each add or remove an
//! entry of that folder, or are another folder. Its time is that of a clock that
//! ticks every few milliseconds, so two changes may have the same one. A look
//! therefore counts only if the last change was a while before it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

/// Longer than the clock of any file system takes to tick.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// How the folder of versions looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    device: u64,
    inode: u64,
    changed: SystemTime,
    at: Ignored<SystemTime>,
}

/// A value that makes no difference.
#[derive(Debug, Clone, Copy)]
struct Ignored<T>(T);

impl<T> PartialEq for Ignored<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<T> Eq for Ignored<T> {}

impl Seen {
    /// Returns whether a later change is sure to look different.
    pub(super) fn is_settled(&self) -> bool {
        self.at.0.duration_since(self.changed).is_ok_and(|age| age >= SETTLED_AFTER)
    }
}

/// Looks at the versions of the table at `uri`; `None` if they are in no folder.
/// One system call for a folder that the kernel knows: handing it to another
/// thread would take longer.
pub(super) fn look(uri: &str) -> Option<Seen> {
    if uri.contains("://") {
        return None;
    }
    let found = fs::metadata(format!("{uri}/_versions")).ok()?;
    let changed = found.modified().ok()?;
    Some(Seen { device: found.dev(), inode: found.ino(), changed, at: Ignored(SystemTime::now()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(changed: u64, at: u64) -> Seen {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        Seen { device: 1, inode: 2, changed: time(changed), at: Ignored(time(at)) }
    }

    #[test]
    fn a_look_counts_only_a_while_after_the_last_change() {
        assert!(!seen(100, 101).is_settled());
        assert!(seen(100, 102).is_settled());
        assert!(!seen(100, 99).is_settled(), "a clock that was set back");
    }

    #[test]
    fn the_time_of_the_look_is_no_difference() {
        assert_eq!(seen(100, 101), seen(100, 200));
        assert_ne!(seen(100, 101), seen(103, 104));
    }

    #[test]
    fn a_commit_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let versions = folder.path().join("_versions");
        assert_eq!(look(folder.path().to_str().unwrap()), None);
        fs::create_dir(&versions).unwrap();
        let earlier = fs::File::open(&versions).unwrap();
        earlier.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        let before = look(folder.path().to_str().unwrap()).unwrap();
        assert!(before.is_settled());
        fs::write(versions.join("1.manifest"), []).unwrap();
        let after = look(folder.path().to_str().unwrap()).unwrap();
        assert_ne!(before, after);
        assert!(!after.is_settled());
    }
}
