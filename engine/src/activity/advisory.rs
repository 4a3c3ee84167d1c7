//! Locks that sessions wait for: advisory locks, numbers that sessions agree to mean something by (PostgreSQL
//! documentation, "Advisory Locks"), and those of the rows of a table (see [`crate::exec::row_locks`]).
//!
//! Migration tools hold one while they work, so that two of them do not work at once. A lock belongs to a session of
//! this gateway; it ends with its session, with its transaction if it was taken for that, or when it is given back as
//! often as it was taken. Who waits is woken whenever a lock ends; nobody is first in line.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lancegate_catalog::TableId;
use tokio::sync::Notify;

/// Holds of all sessions, at most.
const HOLDS_MAX: usize = 10_000;

/// What is locked. The numbers of one database are not those of another, and one number is not two.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) database: String,
    pub(crate) number: Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Number {
    One(i64),
    Two(i32, i32),
    /// Not a number: the rows of a table.
    Rows(TableId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    /// Beside others that are shared.
    Shared,
    /// Beside others that write.
    Writing,
}

impl Mode {
    /// Returns whether two sessions may hold a lock in these modes at one time.
    fn goes_beside(self, other: Mode) -> bool {
        self == other && self != Self::Exclusive
    }
}

/// When a lock ends, at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Session,
    Transaction,
    /// A [`Held`] says when.
    Statement,
}

/// Why a lock cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another session holds it.
    Held,
    /// Sessions wait for each other.
    Deadlock,
    /// There are too many.
    Full,
}

/// That a session holds a lock, so often.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hold {
    pid: i32,
    mode: Mode,
    until: Until,
    count: u32,
}

/// All locks of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Advisory {
    state: Mutex<State>,
    ended: Notify,
}

impl Advisory {
    /// Takes a lock if nobody else holds it.
    ///
    /// # Errors
    /// [`Refused::Held`], [`Refused::Full`].
    pub(crate) fn try_lock(&self, pid: i32, key: &Key, mode: Mode, until: Until) -> Result<(), Refused> {
        self.state().take(pid, key, mode, until)
    }

    /// Takes a lock, and waits for it. Cancel-safe.
    ///
    /// # Errors
    /// [`Refused::Deadlock`], [`Refused::Full`].
    pub(crate) async fn lock(&self, pid: i32, key: &Key, mode: Mode, until: Until) -> Result<(), Refused> {
        let _waiting = Waiting { advisory: self, pid };
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // From here on no end of a lock is missed.
            ended.as_mut().enable();
            {
                let mut state = self.state();
                match state.take(pid, key, mode, until) {
                    Err(Refused::Held) => {}
                    taken => return taken,
                }
                state.waiting.insert(pid, (key.clone(), mode));
                if state.waits_for_itself(pid) {
                    return Err(Refused::Deadlock);
                }
            }
            ended.await;
        }
    }

    /// Takes a lock as [`Self::lock`] does, until the answer is dropped.
    ///
    /// # Errors
    /// [`Refused::Deadlock`], [`Refused::Full`].
    pub(crate) async fn hold(self: &Arc<Self>, pid: i32, key: &Key, mode: Mode) -> Result<Held, Refused> {
        self.lock(pid, key, mode, Until::Statement).await?;
        Ok(Held { locks: Arc::clone(self), pid, key: key.clone(), mode })
    }

    /// Gives a lock of the session back once. Returns whether it was held.
    pub(crate) fn unlock(&self, pid: i32, key: &Key, mode: Mode) -> bool {
        let held = self.state().give_back(pid, key, mode, Until::Session);
        self.ended.notify_waiters();
        held
    }

    /// Ends the locks that a session holds until then. Those of a transaction end with the session, too.
    pub(crate) fn end(&self, pid: i32, until: Until) {
        let ended = self.state().end(pid, |hold| until == Until::Session || hold.until != Until::Session);
        if ended {
            self.ended.notify_waiters();
        }
    }

    /// Gives back all that a session holds for longer than a transaction.
    pub(crate) fn unlock_all(&self, pid: i32) {
        self.state().end(pid, |hold| hold.until == Until::Session);
        self.ended.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    locks: Arc<Advisory>,
    pid: i32,
    key: Key,
    mode: Mode,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.state().give_back(self.pid, &self.key, self.mode, Until::Statement);
        self.locks.ended.notify_waiters();
    }
}

/// A session that waits, or is about to.
struct Waiting<'a> {
    advisory: &'a Advisory,
    pid: i32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.advisory.state().waiting.remove(&self.pid);
    }
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<Key, Vec<Hold>>,
    waiting: HashMap<i32, (Key, Mode)>,
}

impl State {
    /// The sessions that keep one from a lock.
    fn holders(&self, pid: i32, key: &Key, mode: Mode) -> Vec<i32> {
        let holds = self.held.get(key).map(Vec::as_slice).unwrap_or_default();
        let against = |hold: &&Hold| hold.pid != pid && !mode.goes_beside(hold.mode);
        holds.iter().filter(against).map(|hold| hold.pid).collect()
    }

    fn take(&mut self, pid: i32, key: &Key, mode: Mode, until: Until) -> Result<(), Refused> {
        if !self.holders(pid, key, mode).is_empty() {
            return Err(Refused::Held);
        }
        if self.held.values().map(Vec::len).sum::<usize>() >= HOLDS_MAX {
            return Err(Refused::Full);
        }
        let holds = self.held.entry(key.clone()).or_default();
        match holds.iter_mut().find(|hold| hold.pid == pid && hold.mode == mode && hold.until == until) {
            Some(hold) => hold.count += 1,
            None => holds.push(Hold { pid, mode, until, count: 1 }),
        }
        Ok(())
    }

    fn give_back(&mut self, pid: i32, key: &Key, mode: Mode, until: Until) -> bool {
        let Some(holds) = self.held.get_mut(key) else { return false };
        let own = |hold: &&mut Hold| hold.pid == pid && hold.mode == mode && hold.until == until;
        let Some(hold) = holds.iter_mut().find(own) else { return false };
        hold.count -= 1;
        holds.retain(|hold| hold.count > 0);
        if holds.is_empty() {
            self.held.remove(key);
        }
        true
    }

    fn end(&mut self, pid: i32, ends: impl Fn(&Hold) -> bool) -> bool {
        let before = self.held.values().map(Vec::len).sum::<usize>();
        self.held.retain(|_, holds| {
            holds.retain(|hold| hold.pid != pid || !ends(hold));
            !holds.is_empty()
        });
        self.held.values().map(Vec::len).sum::<usize>() < before
    }

    /// Whether what a session waits for is held by one that waits, through any number of others, for it.
    fn waits_for_itself(&self, pid: i32) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![pid];
        while let Some(waiting) = next.pop() {
            let Some((key, mode)) = self.waiting.get(&waiting) else { continue };
            for holder in self.holders(waiting, key, *mode) {
                if holder == pid {
                    return true;
                }
                if seen.insert(holder) {
                    next.push(holder);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(number: i64) -> Key {
        Key { database: "d".to_owned(), number: Number::One(number) }
    }

    #[test]
    fn a_lock_is_held_as_often_as_it_was_taken() {
        let locks = Advisory::default();
        let take = |pid, mode| locks.try_lock(pid, &key(1), mode, Until::Session);
        assert_eq!((take(1, Mode::Exclusive), take(1, Mode::Exclusive)), (Ok(()), Ok(())));
        assert_eq!(take(2, Mode::Shared), Err(Refused::Held));
        assert!(locks.unlock(1, &key(1), Mode::Exclusive));
        assert_eq!(take(2, Mode::Exclusive), Err(Refused::Held));
        assert!(locks.unlock(1, &key(1), Mode::Exclusive));
        assert!(!locks.unlock(1, &key(1), Mode::Exclusive));
        assert_eq!((take(2, Mode::Shared), take(3, Mode::Shared)), (Ok(()), Ok(())));
        assert_eq!(take(1, Mode::Exclusive), Err(Refused::Held));
        let two = Key { database: "d".to_owned(), number: Number::Two(0, 1) };
        assert_eq!(locks.try_lock(1, &two, Mode::Exclusive, Until::Session), Ok(()));
    }

    #[test]
    fn locks_end_with_their_transaction_or_their_session() {
        let locks = Advisory::default();
        locks.try_lock(1, &key(1), Mode::Exclusive, Until::Transaction).unwrap();
        locks.try_lock(1, &key(2), Mode::Exclusive, Until::Session).unwrap();
        assert!(!locks.unlock(1, &key(1), Mode::Exclusive), "the end of the transaction gives it back");
        locks.end(1, Until::Transaction);
        assert_eq!(locks.try_lock(2, &key(1), Mode::Exclusive, Until::Session), Ok(()));
        assert_eq!(locks.try_lock(2, &key(2), Mode::Exclusive, Until::Session), Err(Refused::Held));
        locks.end(1, Until::Session);
        assert_eq!(locks.try_lock(2, &key(2), Mode::Exclusive, Until::Session), Ok(()));
        locks.unlock_all(2);
        assert!(locks.state().held.is_empty());
    }

    #[tokio::test]
    async fn who_writes_goes_beside_who_writes_and_beside_nobody_else() {
        let locks = Arc::new(Advisory::default());
        let one = locks.hold(1, &key(1), Mode::Writing).await.unwrap();
        let two = locks.hold(2, &key(1), Mode::Writing).await.unwrap();
        for mode in [Mode::Exclusive, Mode::Shared] {
            assert_eq!(locks.try_lock(3, &key(1), mode, Until::Transaction), Err(Refused::Held), "{mode:?}");
        }
        drop(one);
        assert_eq!(locks.try_lock(1, &key(1), Mode::Shared, Until::Transaction), Err(Refused::Held));
        drop(two);
        assert_eq!(locks.try_lock(3, &key(1), Mode::Shared, Until::Transaction), Ok(()));
        assert_eq!(locks.try_lock(2, &key(1), Mode::Writing, Until::Transaction), Err(Refused::Held));
        // Its own locks are in nobody's way.
        drop(locks.hold(3, &key(1), Mode::Writing).await.unwrap());
        locks.end(3, Until::Transaction);
        assert!(locks.state().held.is_empty());
    }

    #[tokio::test]
    async fn who_waits_is_woken_and_a_circle_is_noticed() {
        let locks = Arc::new(Advisory::default());
        locks.try_lock(1, &key(1), Mode::Exclusive, Until::Session).unwrap();
        locks.try_lock(2, &key(2), Mode::Exclusive, Until::Session).unwrap();
        let waits = {
            let locks = Arc::clone(&locks);
            tokio::spawn(async move { locks.lock(1, &key(2), Mode::Exclusive, Until::Session).await })
        };
        while locks.state().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let circle = locks.lock(2, &key(1), Mode::Exclusive, Until::Session).await;
        assert_eq!(circle, Err(Refused::Deadlock));
        locks.unlock(2, &key(2), Mode::Exclusive);
        assert_eq!(waits.await.unwrap(), Ok(()));
        let one = key(1);
        let given_up = locks.lock(3, &one, Mode::Shared, Until::Session);
        assert!(tokio::time::timeout(Duration::from_millis(10), given_up).await.is_err());
        assert!(locks.state().waiting.is_empty());
    }
}
