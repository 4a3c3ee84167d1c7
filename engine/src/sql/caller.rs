//! What binding and execution need to know about a session, free of borrows.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::execution::SessionState;
use lancegate_auth::Principal;

use crate::exec::numbers::Latest;
use crate::session::{Names, Pins, Session, Settings, TempTables};
use crate::sql::functions;
use crate::sql::state::PlannerState;

/// A snapshot of the session at the begin of a statement.
pub struct Caller {
    /// What `pg_backend_pid()` answers.
    pub session_id: i32,
    /// Who asks.
    pub principal: Principal,
    /// The connected database.
    pub database: String,
    /// The parameters, among them search path and time zone.
    pub settings: Settings,
    /// The temporary tables that it finds.
    pub(crate) temp: Arc<TempTables>,
    /// What names stand for, also those that its open block has changed.
    pub(crate) names: Arc<Names>,
    /// Which versions of tables its open block reads.
    pub(crate) pins: Arc<Pins>,
    /// What it has drawn from sequences.
    pub(crate) numbers: Arc<Latest>,
    /// The branch of tables, if it is not main.
    pub(crate) branch: Option<String>,
    state: OnceLock<Arc<PlannerState>>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("session_id", &self.session_id).field("principal", &self.principal).finish()
    }
}

/// The last snapshot of a session. Statements share it until a setting changes.
#[derive(Debug, Default)]
pub(crate) struct Snapshot(Mutex<Option<Arc<Caller>>>);

impl Caller {
    /// Returns the snapshot of `session`, the one of its last statement if it is
    /// still true.
    pub fn of(session: &Session) -> Arc<Self> {
        let mut last = session.snapshot.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(caller) = last.as_ref().filter(|caller| caller.is_of(session)) {
            return Arc::clone(caller);
        }
        let caller = Arc::new(Self {
            session_id: session.id,
            principal: session.principal.clone(),
            database: session.database.clone(),
            settings: session.settings.clone(),
            temp: Arc::clone(&session.temp),
            names: Arc::clone(&session.names),
            pins: Arc::clone(&session.pins),
            numbers: Arc::clone(&session.numbers),
            branch: session.branch.clone(),
            state: OnceLock::new(),
        });
        *last = Some(Arc::clone(&caller));
        caller
    }

    fn is_of(&self, session: &Session) -> bool {
        self.settings.revision() == session.settings.revision()
            && self.session_id == session.id
            && self.database == session.database
            && self.branch == session.branch
            && self.principal == session.principal
    }

    /// Returns the same caller in another database, with other settings, where it
    /// finds no temporary tables.
    pub(crate) fn moved(&self, database: String, settings: Settings) -> Self {
        let (session_id, principal) = (self.session_id, self.principal.clone());
        let (temp, names, numbers) = (Arc::default(), Arc::clone(&self.names), Arc::clone(&self.numbers));
        let (pins, branch, state) = (Arc::clone(&self.pins), None, OnceLock::new());
        Self { session_id, principal, database, settings, temp, names, pins, numbers, branch, state }
    }

    /// Returns whether an open block reads the same versions in all of its statements.
    pub(crate) fn repeats_reads(&self) -> bool {
        self.settings.repeats_reads() && self.pins.are_kept()
    }

    /// Returns the state that this caller's statements are planned in: `base`,
    /// the engine's, with the functions that answer about the session.
    pub(crate) fn state(&self, base: &SessionState) -> &Arc<PlannerState> {
        self.state.get_or_init(|| Arc::new(PlannerState::new(functions::session_state(base, self))))
    }

    /// Returns the schemas in which bare names are looked up, in order, with
    /// `"$user"` replaced. `pg_catalog` comes first unless the path names it.
    pub fn search_path(&self) -> Vec<String> {
        let user = self.principal.user.as_str();
        let named = self.settings.search_path();
        let mut path: Vec<String> =
            named.into_iter().map(|schema| if schema == "$user" { user.to_owned() } else { schema }).collect();
        if !path.iter().any(|schema| schema == "pg_catalog") {
            path.insert(0, "pg_catalog".to_owned());
        }
        path
    }

    /// Returns the schemas of the search path that new objects can be made in.
    pub fn creation_path(&self) -> Vec<String> {
        self.search_path()
            .into_iter()
            .filter(|schema| schema != "pg_catalog" && schema != "information_schema")
            .collect()
    }
}
