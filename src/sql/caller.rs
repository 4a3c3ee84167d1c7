//! What binding and execution need to know about a session, free of borrows.

use lancegate_auth::Principal;

use crate::session::{Session, Settings};

/// A snapshot of the session at the begin of a statement.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What `pg_backend_pid()` answers.
    pub session_id: i32,
    /// Who asks.
    pub principal: Principal,
    /// The connected database.
    pub database: String,
    /// The parameters, among them search path and time zone.
    pub settings: Settings,
}

impl Caller {
    /// Returns the snapshot of `session`.
    pub fn of(session: &Session) -> Self {
        Self {
            session_id: session.id,
            principal: session.principal.clone(),
            database: session.database.clone(),
            settings: session.settings.clone(),
        }
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
