//! What the privilege functions answer, and privileges that end before a job
//! begins.

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

pub(crate) async fn user(gateway: &Gateway, admin: &Client, name: &str) -> Client {
    let password = format!("{name} has a long password");
    run(admin, &format!("CREATE USER {name} PASSWORD '{password}'")).await;
    run(admin, &format!("GRANT USAGE ON DATABASE lancegate TO USER {name}")).await;
    gateway.connect_as(name, &password).await.unwrap()
}

/// Asks one function and returns its answer, or its error.
async fn answer(client: &Client, call: &str) -> String {
    match client.simple_query(&format!("SELECT {call} AS answer")).await {
        Ok(_) => rows(client, &format!("SELECT {call} AS answer")).await.remove(0),
        Err(_) => error(client, &format!("SELECT {call} AS answer")).await,
    }
}

async fn check(client: &Client, cases: &[(&str, &str)]) {
    for (call, expected) in cases {
        assert_eq!(answer(client, call).await, *expected, "{call}");
    }
}

#[tokio::test]
async fn z02_privilege_functions_answer_what_a_statement_would_be_allowed() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(
        &admin,
        "CREATE TABLE docs (id BIGINT, body TEXT); CREATE TABLE \"My-Docs\" (id BIGINT); CREATE VIEW v AS SELECT id FROM docs;
         CREATE SCHEMA team; CREATE TABLE team.docs (id BIGINT)",
    )
    .await;
    check(
        &admin,
        &[
            ("has_table_privilege('docs', 'SELECT')", "t"),
            ("has_table_privilege('docs', 'TRUNCATE, select with grant option')", "t"),
            ("has_table_privilege('docs', 'TRIGGER')", "f"),
            ("has_table_privilege('docs', 'TRIGGER, insert')", "t"),
            ("has_table_privilege('v', 'SELECT')", "t"),
            ("has_table_privilege('v', 'INSERT')", "f"),
            ("has_table_privilege('public.\"My-Docs\"', 'DELETE')", "t"),
            ("has_table_privilege('lancegate.team.docs', 'UPDATE')", "t"),
            ("has_table_privilege('pg_class', 'SELECT')", "t"),
            ("has_table_privilege('pg_catalog.pg_class', 'INSERT')", "f"),
            ("has_table_privilege('information_schema.tables', 'SELECT')", "t"),
            ("has_table_privilege(current_user, 'docs', 'SELECT')", "t"),
            ("has_table_privilege('docs'::regclass, 'SELECT')", "t"),
            ("has_table_privilege(999999, 'SELECT')", "∅"),
            ("has_table_privilege(NULL, 'SELECT')", "∅"),
            ("has_table_privilege('nope', 'SELECT')", "42P01: relation \"nope\" does not exist"),
            ("has_table_privilege('My-Docs', 'SELECT')", "42P01: relation \"my-docs\" does not exist"),
            ("has_table_privilege('a.', 'SELECT')", "42602: invalid name syntax"),
            ("has_table_privilege('docs', 'SELEC')", "22023: unrecognized privilege type: \"SELEC\""),
            ("has_table_privilege('docs', 'SELECT, x')", "22023: unrecognized privilege type: \"X\""),
            ("has_table_privilege('nobody', 'docs', 'SELECT')", "42704: role \"nobody\" does not exist"),
            ("has_any_column_privilege('docs', 'SELECT')", "t"),
            ("has_any_column_privilege('docs', 'DELETE')", "22023: unrecognized privilege type: \"DELETE\""),
            ("has_column_privilege('docs', 'body', 'UPDATE')", "t"),
            ("has_column_privilege('docs', 2, 'UPDATE')", "t"),
            ("has_column_privilege('docs', 3, 'UPDATE')", "∅"),
            ("has_column_privilege('docs', 'x', 'UPDATE')", "42703: column \"x\" of relation \"docs\" does not exist"),
            ("has_schema_privilege('public', 'CREATE')", "t"),
            ("has_schema_privilege('team', 'USAGE')", "t"),
            ("has_schema_privilege('pg_catalog', 'USAGE')", "t"),
            ("has_schema_privilege('pg_catalog', 'CREATE')", "f"),
            ("has_schema_privilege(2200, 'USAGE')", "t"),
            ("has_schema_privilege('nope', 'USAGE')", "3F000: schema \"nope\" does not exist"),
            ("has_database_privilege('lancegate', 'CONNECT, TEMP')", "t"),
            ("has_database_privilege('lancegate', 'TEMPORARY')", "f"),
            ("has_database_privilege(current_database(), 'CREATE')", "t"),
            ("has_database_privilege('nope', 'CONNECT')", "3D000: database \"nope\" does not exist"),
            ("pg_has_role('lancegate', 'MEMBER')", "t"),
            ("pg_has_role('lancegate', 'MEMBER WITH ADMIN OPTION')", "f"),
        ],
    )
    .await;
    // In the catalog, row by row, as clients ask.
    let listed = "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname IN ('public', 'team') AND pg_catalog.has_table_privilege(c.oid, 'SELECT') ORDER BY 1";
    assert_eq!(rows(&admin, listed).await, ["My-Docs", "docs", "docs", "v"]);

    let bob = user(&gateway, &admin, "bob").await;
    check(
        &bob,
        &[
            ("has_database_privilege('lancegate', 'CONNECT')", "t"),
            ("has_database_privilege('lancegate', 'CREATE')", "f"),
            ("has_table_privilege('docs', 'SELECT')", "42P01: relation \"docs\" does not exist"),
            ("has_schema_privilege('public', 'USAGE')", "3F000: schema \"public\" does not exist"),
        ],
    )
    .await;
    assert_eq!(rows(&bob, listed).await, Vec::<String>::new());
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER bob; GRANT SELECT ON TABLE docs TO ROLE readers").await;
    check(
        &bob,
        &[
            ("has_schema_privilege('public', 'USAGE')", "t"),
            ("has_schema_privilege('public', 'CREATE')", "f"),
            ("has_table_privilege('docs', 'SELECT')", "f"),
            ("has_table_privilege('team.docs', 'SELECT')", "42P01: relation \"team.docs\" does not exist"),
        ],
    )
    .await;
    assert_eq!(rows(&bob, listed).await, Vec::<String>::new());
    run(&admin, "GRANT ROLE readers TO USER bob").await;
    // Roles are those of the begin of a session.
    let bob = gateway.connect_as("bob", "bob has a long password").await.unwrap();
    let prepared = bob.prepare("SELECT has_table_privilege('docs', 'SELECT')").await.unwrap();
    let reads = async || bob.query_one(&prepared, &[]).await.unwrap().get::<_, bool>(0);
    assert!(reads().await);
    check(
        &bob,
        &[
            ("has_table_privilege('docs', 'INSERT')", "f"),
            ("has_table_privilege('docs', 'SELECT WITH GRANT OPTION')", "f"),
            ("has_any_column_privilege('docs', 'SELECT')", "t"),
            ("pg_has_role('readers', 'USAGE')", "t"),
            ("pg_has_role('readers', 'MEMBER WITH ADMIN OPTION')", "f"),
            ("has_table_privilege('bob', 'docs', 'SELECT')", "t"),
            (
                "has_table_privilege('lancegate', 'docs', 'SELECT')",
                "42501: permission denied for system\nTo ask about others takes USAGE ON SYSTEM.",
            ),
        ],
    )
    .await;
    assert_eq!(rows(&bob, listed).await, ["docs"]);
    check(
        &admin,
        &[
            ("has_table_privilege('bob', 'docs', 'SELECT')", "t"),
            ("has_table_privilege('bob', 'docs', 'UPDATE')", "f"),
            ("has_table_privilege('readers', 'docs', 'SELECT')", "f"),
            ("pg_has_role('bob', 'readers', 'MEMBER')", "t"),
            ("pg_has_role('bob', 'lancegate', 'MEMBER')", "f"),
        ],
    )
    .await;
    // A role has the way to the table only if it was granted, too.
    run(&admin, "GRANT USAGE ON DATABASE lancegate TO ROLE readers; GRANT USAGE ON SCHEMA public TO ROLE readers")
        .await;
    check(&admin, &[("has_table_privilege('readers', 'docs', 'SELECT')", "t")]).await;
    // The answer of a prepared statement ends with the privilege.
    run(&admin, "REVOKE SELECT ON TABLE docs FROM ROLE readers").await;
    assert!(!reads().await);
}

/// Nothing is claimed until the gateway starts again, and by then privileges
/// have changed.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn z06_a_job_whose_user_lost_a_privilege_fails_before_it_writes() {
    let mut gateway = Gateway::start();
    let admin = gateway.connect().await;
    let names = ["kept", "updates", "selects", "roles", "schemas", "renamed", "gone"];
    user(&gateway, &admin, "ann").await;
    user(&gateway, &admin, "gone").await;
    run(&admin, "GRANT USAGE, OPERATE ON SYSTEM TO USER ann; GRANT USAGE, OPERATE ON SYSTEM TO USER gone").await;
    for name in names {
        let who = if name == "gone" {
            "USER gone"
        } else if name == "roles" {
            "ROLE refreshers"
        } else {
            "USER ann"
        };
        let user = if name == "gone" { "gone" } else { "ann" };
        run(
            &admin,
            &format!(
                "CREATE SCHEMA {name}; CREATE TABLE {name}.docs (id BIGINT); INSERT INTO {name}.docs VALUES (1);
                 ALTER TABLE {name}.docs ADD COLUMN n AS (id + 1); GRANT USAGE ON SCHEMA {name} TO USER {user};
                 GRANT UPDATE, SELECT ON TABLE {name}.docs TO {who}"
            ),
        )
        .await;
    }
    run(&admin, "GRANT ROLE refreshers TO USER ann").await;
    gateway.restart_failing("claim.before=error@*");
    let admin = gateway.connect().await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    let gone = gateway.connect_as("gone", "gone has a long password").await.unwrap();
    for name in names {
        let client = if name == "gone" { &gone } else { &ann };
        run(client, &format!("REFRESH COLUMN n ON {name}.docs NOWAIT")).await;
    }
    let queued = "SELECT count(*) FROM system.public.jobs WHERE state = 'queued'";
    assert_eq!(rows(&admin, queued).await, [names.len().to_string()]);
    run(
        &admin,
        "REVOKE UPDATE ON TABLE updates.docs FROM USER ann; REVOKE SELECT ON TABLE selects.docs FROM USER ann;
         REVOKE ROLE refreshers FROM USER ann; REVOKE USAGE ON SCHEMA schemas FROM USER ann;
         ALTER TABLE renamed.docs RENAME TO papers; DROP USER gone",
    )
    .await;
    gateway.restart();
    let admin = gateway.connect().await;
    let ended = |name: &str, expected: &'static str| {
        let sql = format!("SELECT job_id, state, error FROM system.public.jobs WHERE table_name LIKE '{name}.%'");
        let admin = &admin;
        async move {
            let id = rows(admin, &sql).await.remove(0);
            let id = id.split('|').next().unwrap().to_owned();
            let waited = admin.simple_query(&format!("WAIT JOB '{id}' TIMEOUT '60 seconds'")).await;
            let said = waited.err().map(|error| crate::rows::describe(&error)).unwrap_or_default();
            assert_eq!(said, expected, "{sql}");
            rows(admin, &sql).await.remove(0)
        }
    };
    for name in ["kept", "renamed"] {
        let row = ended(name, "").await;
        assert!(row.contains("|succeeded|"), "{row}");
    }
    let refused = [
        (
            "updates",
            "42501: permission denied for table docs\nInsufficientPrivilegeError: It takes UPDATE on table docs. User \"ann\" submitted the job.",
        ),
        (
            "selects",
            "42501: permission denied for table docs\nInsufficientPrivilegeError: It takes SELECT on table docs. User \"ann\" submitted the job.",
        ),
        (
            "roles",
            "42501: permission denied for table docs\nInsufficientPrivilegeError: It takes UPDATE on table docs. User \"ann\" submitted the job.",
        ),
        (
            "schemas",
            "42501: permission denied for schema schemas\nInsufficientPrivilegeError: It takes USAGE on schema schemas. User \"ann\" submitted the job.",
        ),
        (
            "gone",
            "42501: permission denied for database lancegate\nInsufficientPrivilegeError: It takes USAGE on database lancegate. User \"gone\" submitted the job.",
        ),
    ];
    for (name, expected) in refused {
        let row = ended(name, expected).await;
        assert!(row.contains("|failed|permission denied for "), "{row}");
        assert_eq!(rows(&admin, &format!("SELECT count(n) FROM {name}.docs")).await, ["0"]);
    }
    assert_eq!(rows(&admin, "SELECT n FROM kept.docs").await, ["2"]);
    // With the privilege it is refreshed again.
    run(&admin, "GRANT UPDATE ON TABLE updates.docs TO USER ann").await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    run(&ann, "REFRESH COLUMN n ON updates.docs WAIT").await;
    assert_eq!(rows(&admin, "SELECT n FROM updates.docs").await, ["2"]);
}
