//! Z01: the kinds of statements listed below with each privilege that they need missing, in
//! each way that they can be sent.
//!
//! The privileges are not written down here: the gateway's own record of decisions says
//! what a statement needs, which it takes from the one exhaustive list. For each of them,
//! and for the way to each object, a user gets all but that one. With all of them the
//! statement succeeds, so none was asked for in vain.

use std::collections::BTreeSet;

use tokio_postgres::Client;

use super::{Files, key, records};

mod functions;
mod objects;
mod requests;

use objects::{target, ways};

use crate::harness::Gateway;
use crate::rows::{describe, rows, run, value};

/// A statement about the objects of schema `{s}`: tables `t` and `t2`, `t` with a
/// computed column `c`, a view `v` of `t`, a materialized view `mv`, a secret `k` and a Function `f`.
/// `{job}` is a job that has ended; `{x}` a name of its own.
struct Case {
    statement: &'static str,
    /// Whether it can stand where a query stands.
    query: bool,
    /// What it is about beside the objects of every case.
    setup: &'static str,
    /// What it may answer instead of succeeding: privileges are not all that can be wrong.
    may_fail: &'static str,
}

const fn query(statement: &'static str) -> Case {
    Case { statement, query: true, setup: "", may_fail: "" }
}

const fn change(statement: &'static str) -> Case {
    Case { statement, query: false, setup: "", may_fail: "" }
}

const fn with(setup: &'static str, statement: &'static str) -> Case {
    Case { statement, query: false, setup, may_fail: "" }
}

const fn about_job(statement: &'static str) -> Case {
    Case { statement, query: false, setup: "", may_fail: "55000" }
}

/// Codes of an answer that a privilege is missing, or that an object is not there for
/// whoever may not know of it.
const DENIED: [&str; 6] = ["42501", "42P01", "3F000", "3D000", "42704", "42883"];
/// Codes of a way that a statement cannot be sent.
const NO_WAY: [&str; 3] = ["0A000", "42601", "42809"];

/// The ways to send a query inside another statement.
const WRAPPED: [&str; 9] = [
    "EXPLAIN {q}",
    "EXPLAIN ANALYZE {q}",
    "PREPARE p AS {q}",
    "WITH w AS ({q}) SELECT * FROM w",
    "SELECT count(*) FROM ({q}) AS w",
    "SELECT 1 WHERE EXISTS ({q})",
    "COPY ({q}) TO STDOUT",
    "DECLARE cur CURSOR WITH HOLD FOR {q}",
    "SELECT 1 UNION ALL SELECT count(*) FROM ({q}) AS w",
];
/// The ways to send a change inside another statement.
const WRAPPED_CHANGE: [&str; 3] = ["EXPLAIN {q}", "EXPLAIN ANALYZE {q}", "PREPARE p AS {q}"];

struct Matrix {
    gateway: Gateway,
    admin: Client,
    files: Files,
    /// Counts schemas and users.
    number: usize,
}

impl Matrix {
    async fn new() -> Self {
        Self::with(|audit| audit.to_owned()).await
    }

    /// Starts a gateway whose configuration is made of that of the record.
    async fn with(config: impl FnOnce(&str) -> String) -> Self {
        let files = Files::new();
        let gateway = Gateway::start_with(&config(&format!("[audit]\n{}", key("file", &files.path("audit.jsonl")))));
        let admin = gateway.connect().await;
        Self { gateway, admin, files, number: 0 }
    }

    /// Makes the objects of a case under names that nothing had before.
    async fn staged(&mut self, case: &Case) -> Staged {
        self.number += 1;
        let schema = format!("z{}", self.number);
        let objects = format!(
            "CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (id BIGINT, body TEXT); CREATE TABLE {schema}.t2 (id BIGINT);
             INSERT INTO {schema}.t VALUES (1, 'a'); CREATE VIEW {schema}.v AS SELECT id FROM {schema}.t"
        );
        run(&self.admin, &objects).await;
        let all = format!("{} {}", case.setup, case.statement);
        let mut job = String::new();
        if all.contains("{s}.mv") {
            run(&self.admin, &format!("CREATE MATERIALIZED VIEW {schema}.mv AS SELECT id FROM {schema}.t2")).await;
        }
        if all.contains("{s}.k") {
            run(&self.admin, &format!("CREATE SECRET {schema}.k SECRET_STRING = 'x'")).await;
        }
        if all.contains("{s}.f") {
            let source = "(x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return x'";
            run(&self.admin, &format!("CREATE FUNCTION {schema}.f {source}")).await;
        }
        if all.contains("COLUMN c") || all.contains("{job}") || all.contains("ERRORS") {
            run(&self.admin, &format!("ALTER TABLE {schema}.t ADD COLUMN c AS (id + 1)")).await;
        }
        if all.contains("{job}") {
            let refresh = format!("REFRESH COLUMN c ON {schema}.t WAIT");
            job = value(&self.admin, &refresh, "job_id").await.unwrap_or_default();
        }
        let staged = Staged { schema, job, x: format!("x{}", self.number) };
        if !case.setup.is_empty() {
            run(&self.admin, &staged.fill(case.setup)).await;
        }
        staged
    }

    /// Returns what a statement needs, as the gateway has recorded it of its owner, with
    /// the way to each object.
    async fn needs(&mut self, case: &Case) -> BTreeSet<(String, String)> {
        let staged = self.staged(case).await;
        let before = records(&self.files.path("audit.jsonl")).len();
        // COPY leaves a connection in the middle of its data.
        let owner = self.gateway.connect().await;
        if let Err(error) = owner.simple_query(&staged.fill(case.statement)).await {
            let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
            // COPY is answered in messages that this client call does not take.
            let by_client = code.is_empty() && case.statement.starts_with("COPY");
            assert!(by_client || code == case.may_fail, "{}: {}", case.statement, describe(&error));
        }
        self.recorded(&staged, before, case.statement)
    }

    /// Returns what the first statement behind so many records needed, with the way to each object.
    fn recorded(&self, staged: &Staged, before: usize, label: &str) -> BTreeSet<(String, String)> {
        let recorded = records(&self.files.path("audit.jsonl"));
        let of_it =
            recorded[before..].iter().filter(|record| record["event"] == "statement" && record["needs"].is_array());
        // Statements that a statement runs by itself, such as the first fill of a view, come behind it.
        let first = of_it.clone().next().unwrap_or_else(|| panic!("{label} needs nothing"));
        assert_eq!(first["outcome"], "allowed", "{first}");
        let mut needs = BTreeSet::new();
        for need in first["needs"].as_array().unwrap() {
            if need["of"].is_string() {
                continue;
            }
            let text = |field: &str| need[field].as_str().unwrap().replace(&staged.schema, "{s}");
            let object = text("object").replace(&staged.x, "{x}");
            for way in ways(&object) {
                needs.insert(("USAGE".to_owned(), way));
            }
            needs.insert((text("privilege"), object));
        }
        assert!(!needs.is_empty(), "{label} needs nothing: {first}");
        needs
    }

    /// Makes a user who holds these privileges on what was staged.
    async fn user(&mut self, staged: &Staged, held: &BTreeSet<&(String, String)>) -> Client {
        self.number += 1;
        let user = format!("u{}", self.number);
        run(&self.admin, &format!("CREATE USER {user} PASSWORD 'a long one'")).await;
        // Ownership goes last: after it nothing more can be granted.
        let all = held.iter().copied();
        let (owned, other): (Vec<_>, Vec<_>) = all.partition(|(privilege, _)| privilege == "OWNERSHIP");
        for (privilege, object) in other.into_iter().chain(owned) {
            let target = target(&staged.fill(object));
            run(&self.admin, &format!("GRANT {privilege} ON {target} TO USER {user}")).await;
        }
        self.gateway.connect_as(&user, "a long one").await.unwrap()
    }

    /// Checks one kind of statement.
    async fn check(&mut self, case: &Case) {
        let needs = self.needs(case).await;
        for missing in &needs {
            let staged = self.staged(case).await;
            let held: BTreeSet<_> = needs.iter().filter(|need| *need != missing).collect();
            let user = self.user(&staged, &held).await;
            // By now the user may own a table, which the owner of the rest cannot read.
            let relations = staged.relations(&self.admin).await;
            let statement = staged.fill(case.statement);
            let label = format!("{statement} without {} ON {}", missing.0, missing.1);
            let plain = user.simple_query(&statement).await.map(drop);
            expect_denied(&label, &DENIED, plain);
            // As in PostgreSQL, COPY of rows into a table is decided when it begins.
            if !statement.ends_with("FROM STDIN") {
                expect_denied(&format!("Parse: {label}"), &DENIED, user.prepare(&statement).await.map(drop));
            }
            let ways: &[&str] = if case.query { &WRAPPED } else { &WRAPPED_CHANGE };
            for way in ways {
                let wrapped = way.replace("{q}", &statement);
                let allowed = [&DENIED[..], &NO_WAY].concat();
                expect_denied(&format!("{way}: {label}"), &allowed, user.simple_query(&wrapped).await.map(drop));
            }
            // Nothing was made, changed or dropped on the way.
            assert_eq!(staged.relations(&self.admin).await, relations, "{label}");
        }
        let staged = self.staged(case).await;
        let user = self.user(&staged, &needs.iter().collect()).await;
        let statement = staged.fill(case.statement);
        if let Err(error) = user.simple_query(&statement).await {
            let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
            let by_client = code.is_empty() && statement.starts_with("COPY");
            assert!(by_client || code == case.may_fail, "{statement} with {needs:?}: {}", describe(&error));
        }
    }
}

/// The names that a case is about.
struct Staged {
    schema: String,
    job: String,
    x: String,
}

impl Staged {
    fn fill(&self, text: &str) -> String {
        text.replace("{s}", &self.schema).replace("{job}", &self.job).replace("{x}", &self.x)
    }

    /// What there is in the schema, and the rows of its tables if they can be read.
    async fn relations(&self, admin: &Client) -> Vec<String> {
        let mut seen = rows(admin, &format!("SHOW TABLES IN {}", self.schema)).await;
        seen.extend(rows(admin, &format!("SHOW VIEWS IN {}", self.schema)).await);
        let functions = rows(admin, "SHOW FUNCTIONS").await;
        seen.extend(functions.into_iter().filter(|function| function.contains(&format!("[{}]", self.schema))));
        for table in ["t", "t2"] {
            // Its owner may be another by now.
            if let Ok(messages) = admin.simple_query(&format!("SELECT * FROM {}.{table}", self.schema)).await {
                seen.push(format!("{messages:?}"));
            }
        }
        seen
    }
}

fn expect_denied(label: &str, codes: &[&str], answer: Result<(), tokio_postgres::Error>) {
    let Err(error) = answer else { panic!("{label}: allowed") };
    let code = error.code().unwrap_or_else(|| panic!("{label}: {error}")).code();
    assert!(codes.contains(&code), "{label}: {}", describe(&error));
}

async fn check_all(cases: &[Case]) {
    check_in(Matrix::new().await, cases).await;
}

async fn check_in(mut matrix: Matrix, cases: &[Case]) {
    for case in cases {
        matrix.check(case).await;
    }
    let commands: BTreeSet<String> = records(&matrix.files.path("audit.jsonl"))
        .iter()
        .filter(|record| record["outcome"] == "denied")
        .filter_map(|record| record["command"].as_str().map(str::to_owned))
        .collect();
    eprintln!("denied: {commands:?}");
}

#[tokio::test]
async fn z01_queries() {
    check_all(&[
        query("SELECT id FROM {s}.t"),
        query("SELECT * FROM {s}.v"),
        query("SELECT t.id FROM {s}.t, {s}.t2"),
        query("SELECT (SELECT max(id) FROM {s}.t2) FROM {s}.t"),
        query("SELECT id FROM {s}.t WHERE id IN (SELECT id FROM {s}.t2)"),
        query("SELECT id FROM {s}.mv"),
        query("TABLE {s}.t"),
        change("SHOW COLUMNS IN {s}.t"),
        change("DESCRIBE {s}.t"),
        change("SHOW INDEXES IN {s}.t"),
    ])
    .await;
}

#[tokio::test]
async fn z01_changes_of_rows() {
    check_all(&[
        change("INSERT INTO {s}.t VALUES (2, 'b')"),
        change("INSERT INTO {s}.t (id) SELECT id FROM {s}.t2"),
        change("INSERT INTO {s}.t VALUES (2, 'b') RETURNING id"),
        change("UPDATE {s}.t SET body = 'b' WHERE id = 1"),
        change("UPDATE {s}.t SET body = 'b' WHERE id IN (SELECT id FROM {s}.t2)"),
        change("DELETE FROM {s}.t WHERE id = 1"),
        change("DELETE FROM {s}.t WHERE id IN (SELECT id FROM {s}.t2)"),
        change("TRUNCATE {s}.t"),
        change(
            "MERGE INTO {s}.t AS a USING {s}.t2 AS b ON a.id = b.id WHEN MATCHED THEN DELETE \
             WHEN NOT MATCHED THEN INSERT (id) VALUES (b.id)",
        ),
        change("COPY {s}.t TO STDOUT"),
        change("COPY {s}.t2 FROM STDIN"),
    ])
    .await;
}

#[tokio::test]
async fn z01_definitions() {
    check_all(&[
        change("CREATE TABLE {s}.n (id BIGINT)"),
        change("CREATE TABLE {s}.n AS SELECT id FROM {s}.t"),
        change("DROP TABLE {s}.t2"),
        change("ALTER TABLE {s}.t ADD COLUMN n BIGINT"),
        change("ALTER TABLE {s}.t ADD COLUMN n AS (id + 2)"),
        change("ALTER TABLE {s}.t RENAME COLUMN body TO text"),
        change("ALTER TABLE {s}.t DROP COLUMN body"),
        change("ALTER TABLE {s}.t2 RENAME TO t3"),
        change("CREATE VIEW {s}.w AS SELECT id FROM {s}.t"),
        change("CREATE OR REPLACE VIEW {s}.v AS SELECT id FROM {s}.t"),
        change("ALTER VIEW {s}.v RENAME TO w"),
        change("COMMENT ON TABLE {s}.t IS 'x'"),
        change("DROP VIEW {s}.v"),
        change("CREATE INDEX i ON {s}.t (id)"),
        with("CREATE INDEX i ON {s}.t (id)", "DROP INDEX {s}.t.i"),
        change("CREATE SCHEMA {x}"),
        with("CREATE SCHEMA {x}", "DROP SCHEMA {x}"),
        change("CREATE DATABASE {x}"),
        with("CREATE DATABASE {x}", "DROP DATABASE {x}"),
        change("CREATE SECRET {s}.n SECRET_STRING = 'x'"),
        change("ALTER SECRET {s}.k SECRET_STRING = 'y'"),
        change("DROP SECRET {s}.k"),
    ])
    .await;
}

#[tokio::test]
async fn z01_administration() {
    check_all(&[
        change("GRANT SELECT ON TABLE {s}.t TO ROLE r"),
        with("GRANT SELECT ON TABLE {s}.t TO ROLE r", "REVOKE SELECT ON TABLE {s}.t FROM ROLE r"),
        with("CREATE USER {x}", "GRANT ROLE r TO USER {x}"),
        with("CREATE USER {x}; GRANT ROLE r TO USER {x}", "REVOKE ROLE r FROM USER {x}"),
        change("CREATE USER {x} PASSWORD 'a long one'"),
        with("CREATE USER {x}", "ALTER USER {x} CONNECTION LIMIT 3"),
        with("CREATE USER {x}", "DROP USER {x}"),
        change("SHOW USERS"),
        change("SHOW ROLES"),
        change("SHOW GRANTS ON TABLE {s}.t"),
        with("CREATE USER {x}", "CREATE API KEY {x} FOR USER {x}"),
        change("SHOW GPU CLASSES"),
        change("LISTEN lancegate_jobs"),
    ])
    .await;
}

#[tokio::test]
async fn z01_z03_z05_jobs() {
    check_all(&[
        change("REFRESH COLUMN c ON {s}.t WAIT"),
        change("EXPLAIN REFRESH COLUMN c ON {s}.t"),
        change("CREATE MATERIALIZED VIEW {s}.n AS SELECT id FROM {s}.t"),
        // What its query reads is decided by its job.
        Case { may_fail: "42501", ..change("REFRESH MATERIALIZED VIEW {s}.mv WAIT") },
        change("DROP MATERIALIZED VIEW {s}.mv"),
        change("SHOW JOBS"),
        about_job("SHOW JOB EVENTS '{job}'"),
        about_job("SHOW JOB SPLITS '{job}'"),
        about_job("DESCRIBE JOB '{job}'"),
        about_job("EXPLAIN JOB '{job}'"),
        about_job("WAIT JOB '{job}'"),
        about_job("PAUSE JOB '{job}'"),
        about_job("RESUME JOB '{job}'"),
        about_job("CANCEL JOB '{job}'"),
        change("SHOW ERRORS ON {s}.t"),
        change("SHOW JOBS FOR TABLE {s}.t"),
    ])
    .await;
}
