//! What the places do in a build for tests.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::storage::StorageError;

/// The variable that says what fails.
const VARIABLE: &str = "LANCEGATE_FAILPOINTS";
/// The variable that names the folder of what holds.
const HOLDS: &str = "LANCEGATE_FAILPOINT_HOLDS";
/// How often a place that holds looks whether it may go on.
const LOOK: Duration = Duration::from_millis(2);

/// Every place of a refresh, in the order in which it comes by.
pub const PLACES: [&str; 21] = [
    "submit.before",
    "submit.after",
    "submit.acknowledge",
    "claim.before",
    "claim.after",
    "refresh.pinned",
    "refresh.planned",
    "stage.batch",
    "stage.file",
    "note.before",
    "note.after",
    "publish.before",
    "publish.committed",
    "publish.after",
    "record.before",
    "record.written",
    "record.committed",
    "record.after",
    "end.before",
    "end.after",
    "lease.renew",
];

/// Every place of a login over the wire, in the order in which it comes by.
pub const LOGIN_PLACES: [&str; 7] =
    ["login.rule", "login.turn", "login.account", "login.proven", "login.principal", "login.database", "login.begun"];

/// Every place of a statement that changes a table or makes or drops one.
pub const WRITE_PLACES: [&str; 7] = [
    "write.computed",
    "write.entered",
    "alter.action",
    "create.written",
    "names.marked",
    "drop.named",
    "vacuum.rewritten",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Exit(Duration),
    Error,
    Full,
    Panic,
    Delay(Duration),
    Hold,
}

#[derive(Debug)]
struct Failpoint {
    action: Action,
    /// The visit that it acts at; `None` is every one.
    at: Option<u64>,
    visits: AtomicU64,
}

/// Returns whether an environment variable is the one of this module.
pub(crate) fn is_variable(name: &str) -> bool {
    name == VARIABLE || name == HOLDS
}

/// Does what the test wants at a place.
///
/// # Errors
/// [`StorageError::Io`] for the actions `error` and `full`.
///
/// # Panics
/// For the action `panic`, and if the place is not listed.
pub async fn reach(place: &'static str) -> Result<(), StorageError> {
    assert!(is_listed(place), "the failpoint {place} is not listed");
    let Some(failpoint) = configured().get(place) else { return Ok(()) };
    let visit = failpoint.visits.fetch_add(1, Ordering::Relaxed) + 1;
    if failpoint.at.is_some_and(|at| at != visit) {
        return Ok(());
    }
    tracing::info!(place, visit, action = ?failpoint.action, "failpoint");
    let failed = |source| Err(StorageError::Io { path: format!("failpoint {place}").into(), source });
    match failpoint.action {
        Action::Exit(after) => {
            tokio::time::sleep(after).await;
            std::process::abort()
        }
        Action::Error => failed(io::Error::other("injected failure")),
        Action::Full => failed(io::ErrorKind::StorageFull.into()),
        Action::Panic => panic!("failpoint {place}"),
        Action::Delay(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Action::Hold => hold(place, visit).await.map_err(|source| StorageError::Io { path: place.into(), source }),
    }
}

async fn hold(place: &str, visit: u64) -> io::Result<()> {
    let folder = std::env::var_os(HOLDS).map(PathBuf::from).ok_or_else(|| io::Error::other(format!("no {HOLDS}")))?;
    let (held, go) = (folder.join(format!("{place}.{visit}")), folder.join(format!("{place}.go")));
    std::fs::write(&held, [])?;
    while held.exists() && !go.exists() {
        tokio::time::sleep(LOOK).await;
    }
    let _ = std::fs::remove_file(held);
    Ok(())
}

fn is_listed(place: &str) -> bool {
    PLACES.contains(&place) || LOGIN_PLACES.contains(&place) || WRITE_PLACES.contains(&place)
}

fn configured() -> &'static HashMap<String, Failpoint> {
    static CONFIGURED: OnceLock<HashMap<String, Failpoint>> = OnceLock::new();
    CONFIGURED.get_or_init(|| parse(&std::env::var(VARIABLE).unwrap_or_default()))
}

/// # Panics
/// If the text is wrong: a test whose failpoint never acts proves nothing.
fn parse(text: &str) -> HashMap<String, Failpoint> {
    let read = |pair: &str| {
        let (place, rest) = pair.split_once('=')?;
        let (action, at) = match rest.split_once('@') {
            None => (rest, Some(1)),
            Some((action, "*")) => (action, None),
            Some((action, visit)) => (action, Some(visit.parse().ok()?)),
        };
        let failpoint = Failpoint { action: read_action(action)?, at, visits: AtomicU64::new(0) };
        is_listed(place).then(|| (place.to_owned(), failpoint))
    };
    let pairs = text.split(';').filter(|pair| !pair.is_empty());
    pairs.map(|pair| read(pair).unwrap_or_else(|| panic!("{VARIABLE}: what is {pair:?}?"))).collect()
}

fn read_action(text: &str) -> Option<Action> {
    let (word, argument) = match text.split_once('(') {
        Some((word, rest)) => (word, Some(rest.strip_suffix(')')?.parse().ok()?)),
        None => (text, None),
    };
    match (word, argument) {
        ("exit", millis) => Some(Action::Exit(Duration::from_millis(millis.unwrap_or(0)))),
        ("error", None) => Some(Action::Error),
        ("full", None) => Some(Action::Full),
        ("panic", None) => Some(Action::Panic),
        ("hold", None) => Some(Action::Hold),
        ("delay", Some(millis)) => Some(Action::Delay(Duration::from_millis(millis))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_place_action_and_visit() {
        let parsed = parse("claim.before=exit(300)@2;stage.batch=delay(5)@*;end.after=error;stage.file=hold@3");
        let shown = |place: &str| (parsed[place].action, parsed[place].at);
        assert_eq!(shown("claim.before"), (Action::Exit(Duration::from_millis(300)), Some(2)));
        assert_eq!(shown("stage.batch"), (Action::Delay(Duration::from_millis(5)), None));
        assert_eq!(shown("end.after"), (Action::Error, Some(1)));
        assert_eq!(shown("stage.file"), (Action::Hold, Some(3)));
    }

    #[test]
    #[should_panic(expected = "what is \"claim.never=exit\"?")]
    fn an_unknown_place_is_refused() {
        parse("claim.never=exit");
    }
}
