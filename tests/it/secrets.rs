//! Secrets over the wire and on disk: who may do what, and that no value is
//! found anywhere afterwards.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio_postgres::Client;

use crate::harness::{Gateway, run as run_program, text};
use crate::interop::run_python;
use crate::rows::{describe, error, rows, run};

/// What must not be found anywhere; long, so that no other byte is it by chance.
const CANARY: &str = "canary-7f3d9b-hunter2-correct-horse";

fn create(name: &str) -> String {
    format!("CREATE SECRET {name} TYPE = GENERIC_STRING SECRET_STRING = '{CANARY}'")
}

fn psql(gateway: &Gateway, sql: &str) -> String {
    let output = gateway.psql(sql);
    String::from_utf8(output.stdout).unwrap().trim().to_owned() + String::from_utf8(output.stderr).unwrap().trim()
}

async fn user(gateway: &Gateway, admin: &Client, name: &str) -> Client {
    let password = format!("{name} has a long password");
    run(admin, &format!("CREATE USER {name} PASSWORD '{password}'; GRANT USAGE ON DATABASE lancegate TO USER {name}"))
        .await;
    gateway.connect_as(name, &password).await.unwrap()
}

#[tokio::test]
async fn a_secret_is_created_altered_listed_and_dropped_through_psql() {
    let gateway = Gateway::start();
    assert_eq!(psql(&gateway, &create("hub_token")), "CREATE SECRET|hub_token|created");
    let again = psql(&gateway, &create("hub_token"));
    assert_eq!(again, "ERROR:  secret \"hub_token\" already exists");
    let passed = psql(&gateway, &create("IF NOT EXISTS hub_token"));
    assert_eq!(passed, "CREATE SECRET|hub_token|already_exists");
    // A table may have the same name.
    assert_eq!(psql(&gateway, "CREATE TABLE hub_token (id INT)"), "CREATE TABLE");
    assert_eq!(psql(&gateway, "SHOW SECRETS"), "[]|hub_token");
    let described = || {
        let row = psql(&gateway, "DESCRIBE SECRET hub_token");
        let (name, times) = row.split_once('|').unwrap();
        assert_eq!(name, "hub_token");
        let (created, updated) = times.split_once('|').unwrap();
        (created.parse::<i64>().unwrap(), updated.parse::<i64>().unwrap())
    };
    let (created, updated) = described();
    assert_eq!(created, updated);
    let altered = psql(&gateway, "ALTER SECRET hub_token SET SECRET_STRING = $tag$it's \"another\" one$tag$");
    assert_eq!(altered, "ALTER SECRET|hub_token|altered");
    let (same, later) = described();
    assert!(same == created && later >= updated, "{created} {updated} {same} {later}");
    assert_eq!(psql(&gateway, "DROP SECRET hub_token"), "DROP SECRET|hub_token|dropped");
    assert_eq!(psql(&gateway, "DROP SECRET hub_token"), "ERROR:  secret \"hub_token\" does not exist");
    assert_eq!(psql(&gateway, "DROP SECRET IF EXISTS hub_token"), "DROP SECRET|hub_token|not_found");
    let missing = psql(&gateway, "ALTER SECRET IF EXISTS hub_token SECRET_STRING = 'x'");
    assert_eq!(missing, "ALTER SECRET|hub_token|not_found");
    assert_eq!(psql(&gateway, "SHOW SECRETS"), "");
    assert_eq!(psql(&gateway, "DESCRIBE SECRET hub_token"), "ERROR:  secret \"hub_token\" does not exist");
}

#[tokio::test]
async fn a_value_may_be_a_parameter() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let create = client.prepare("CREATE SECRET token TYPE = GENERIC_STRING SECRET_STRING = $1").await.unwrap();
    assert_eq!(create.params(), [tokio_postgres::types::Type::TEXT]);
    let names: Vec<&str> = create.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["operation", "name", "status"]);
    let row = client.query_one(&create, &[&CANARY]).await.unwrap();
    assert_eq!(row.get::<_, &str>("status"), "created");
    let taken = client.query_one(&create, &[&CANARY]).await.unwrap_err();
    assert_eq!(describe(&taken), "42710: secret \"token\" already exists");
    let alter = client.prepare("ALTER SECRET token SECRET_STRING = $1").await.unwrap();
    for _ in 0..2 {
        let row = client.query_one(&alter, &[&CANARY]).await.unwrap();
        assert_eq!(row.get::<_, &str>("status"), "altered");
    }
    let null = client.query_one(&alter, &[&None::<&str>]).await.unwrap_err();
    assert_eq!(describe(&null), "22004: the value of a secret cannot be null");
    for other in [tokio_postgres::types::Type::INT8, tokio_postgres::types::Type::BYTEA] {
        let typed = client.prepare_typed("ALTER SECRET token SECRET_STRING = $1", &[other]).await.unwrap_err();
        assert_eq!(describe(&typed), "42804: the value of a secret must be of type text");
    }
    let other = client.prepare("ALTER SECRET token SECRET_STRING = $2").await.unwrap_err();
    assert!(describe(&other).starts_with("42P02: there is no parameter $2"), "{}", describe(&other));
    let unbound = error(&client, "ALTER SECRET token SECRET_STRING = $1").await;
    assert_eq!(unbound, "42P02: there is no parameter $1");
    let long = "x".repeat(64 * 1024 + 1);
    let long = client.query_one(&alter, &[&long]).await.unwrap_err();
    assert_eq!(describe(&long), "54000: value of secret \"token\" is too long\nA value has at most 65536 bytes.");
}

#[tokio::test]
async fn names_schemas_and_the_search_path_work_as_for_tables() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let longest = "s".repeat(255);
    run(&client, &create(&longest)).await;
    let refused = error(&client, &create(&"s".repeat(256))).await;
    assert!(refused.starts_with("42622: ") && refused.contains("at most 255 bytes"), "{refused}");
    for name in ["\"a b\"", "\"a$b\"", "\"..\"", "\"ä\""] {
        let refused = error(&client, &create(name)).await;
        assert!(refused.starts_with("42602: invalid name "), "{refused}");
    }
    run(&client, "CREATE SCHEMA \"team$ml\"").await;
    run(&client, &create("\"team$ml\".\"v1.Token-x\"")).await;
    run(&client, &format!("SET search_path = \"team$ml\", public; {}", create("own"))).await;
    let all = rows(&client, "SHOW SECRETS").await;
    let of_team = ["[\"team\",\"ml\"]|own".to_owned(), "[\"team\",\"ml\"]|v1.Token-x".to_owned()];
    assert_eq!(all, [&of_team[..], &[format!("[]|{longest}")]].concat());
    assert_eq!(rows(&client, "SHOW SECRETS IN \"team$ml\"").await, of_team);
    assert_eq!(rows(&client, "SHOW SECRETS IN \"team$ml\" LIKE 'o%'").await, of_team[..1]);
    assert_eq!(rows(&client, "SHOW SECRETS IN \"team$ml\" LIMIT 1").await, of_team[..1]);
    assert_eq!(rows(&client, "SHOW SECRETS IN public").await, [format!("[]|{longest}")]);
    assert_eq!(rows(&client, "DROP SECRET own").await, ["DROP SECRET|own|dropped"]);
    assert_eq!(rows(&client, "DROP SECRET lancegate.\"team$ml\".\"v1.Token-x\"").await.len(), 1);
    let nowhere = error(&client, &create("none.token")).await;
    assert_eq!(nowhere, "3F000: schema \"none\" does not exist");
    let nowhere = error(&client, &create("none.public.token")).await;
    assert_eq!(nowhere, "3D000: database \"none\" does not exist");
    let built_in = error(&client, &create("pg_catalog.token")).await;
    assert!(built_in.starts_with("42501: "), "{built_in}");
}

#[tokio::test]
async fn each_statement_needs_its_own_privilege() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let bob = user(&gateway, &admin, "bob").await;
    run(&admin, &create("token")).await;

    // The way is closed: it looks as if there were no secret.
    for statement in ["ALTER SECRET token SECRET_STRING = 'x'", "DROP SECRET token", "DESCRIBE SECRET token"] {
        assert_eq!(error(&bob, statement).await, "42704: secret \"token\" does not exist", "{statement}");
        let of_nothing = statement.replace("token", "nothing");
        assert_eq!(error(&bob, &of_nothing).await, "42704: secret \"nothing\" does not exist");
    }
    for name in ["token", "nothing"] {
        let closed = error(&bob, &format!("DROP SECRET IF EXISTS {name}")).await;
        assert!(closed.starts_with("42501: permission denied for schema public"), "{closed}");
    }
    assert_eq!(error(&bob, "GRANT USAGE ON SECRET token TO USER bob").await, "42704: secret \"token\" does not exist");
    assert_eq!(rows(&bob, "SHOW SECRETS").await, Vec::<String>::new());

    run(&admin, "GRANT USAGE ON SCHEMA public TO USER bob").await;
    let refused = [
        (create("mine"), "42501: permission denied for schema public\nIt takes CREATE SECRET on schema public."),
        (
            "ALTER SECRET token SECRET_STRING = 'x'".to_owned(),
            "42501: permission denied for secret token\nIt takes UPDATE on secret token.",
        ),
        ("DROP SECRET token".to_owned(), "42501: must be owner of secret token"),
        (
            "DESCRIBE SECRET token".to_owned(),
            "42501: permission denied for secret token\nIt takes USAGE on secret token.",
        ),
        ("GRANT USAGE ON SECRET token TO USER bob".to_owned(), "42501: must be owner of secret token"),
    ];
    for (statement, expected) in &refused {
        assert_eq!(error(&bob, statement).await, *expected, "{statement}");
    }
    assert_eq!(rows(&bob, "SHOW SECRETS").await, Vec::<String>::new());
    assert_eq!(rows(&bob, "DROP SECRET IF EXISTS nothing").await, ["DROP SECRET|nothing|not_found"]);

    // UPDATE rotates it, and shows when that was.
    run(&admin, "GRANT UPDATE ON SECRET token TO USER bob").await;
    assert_eq!(rows(&bob, "ALTER SECRET token SECRET_STRING = 'x'").await, ["ALTER SECRET|token|altered"]);
    assert_eq!(rows(&bob, "DESCRIBE SECRET token").await.len(), 1);
    assert_eq!(rows(&bob, "SHOW SECRETS").await, ["[]|token"]);
    assert_eq!(error(&bob, "DROP SECRET token").await, "42501: must be owner of secret token");
    run(&admin, "REVOKE UPDATE ON SECRET token FROM USER bob; GRANT USAGE ON SECRET token TO USER bob").await;
    assert!(error(&bob, "ALTER SECRET token SECRET_STRING = 'x'").await.starts_with("42501: "));
    assert_eq!(rows(&bob, "DESCRIBE SECRET token").await.len(), 1);
    let granted = rows(&admin, "SHOW GRANTS ON SECRET token").await;
    assert_eq!(granted.len(), 2, "{granted:?}");
    let invalid = error(&admin, "GRANT SELECT ON SECRET token TO USER bob").await;
    assert_eq!(invalid, "42601: invalid privilege type SELECT for secret");
    assert_eq!(error(&admin, "GRANT USAGE ON SECRET no TO USER bob").await, "42704: secret \"no\" does not exist");

    // Who creates one owns it.
    run(&admin, "GRANT CREATE SECRET ON SCHEMA public TO USER bob").await;
    assert_eq!(rows(&bob, &create("mine")).await, ["CREATE SECRET|mine|created"]);
    assert_eq!(error(&admin, "DROP SECRET mine").await, "42501: must be owner of secret mine");
    run(&bob, "GRANT OWNERSHIP ON SECRET mine TO USER lancegate").await;
    assert_eq!(error(&bob, "DROP SECRET mine").await, "42501: must be owner of secret mine");
    assert_eq!(rows(&admin, "DROP SECRET mine").await, ["DROP SECRET|mine|dropped"]);
    // Grants do not wait for the next secret of the name.
    run(&admin, "DROP SECRET token").await;
    run(&admin, &create("token")).await;
    assert!(error(&bob, "DESCRIBE SECRET token").await.starts_with("42501: "));
}

#[tokio::test]
async fn a_block_says_what_stays_and_a_read_only_one_changes_nothing() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "BEGIN READ ONLY").await;
    let refused = error(&client, &create("token")).await;
    assert_eq!(refused, "25006: cannot execute CREATE SECRET in a read-only transaction");
    run(&client, "ROLLBACK").await;
    assert_eq!(rows(&client, "SHOW SECRETS").await, Vec::<String>::new());
    let said = psql(&gateway, &format!("BEGIN; {}; ROLLBACK", create("token")));
    assert!(said.contains("WARNING:  changes of \"token\" were applied at once"), "{said}");
    assert_eq!(rows(&client, "SHOW SECRETS").await, ["[]|token"]);
}

#[tokio::test]
async fn what_holds_a_secret_is_dropped_only_with_cascade() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE SCHEMA team").await;
    run(&client, &create("team.token")).await;
    let refused = error(&client, "DROP SCHEMA team").await;
    assert!(refused.starts_with("2BP01: cannot drop schema team"), "{refused}");
    run(&client, "DROP SECRET team.token; DROP SCHEMA team").await;
    run(&client, "CREATE DATABASE other").await;
    run(&client, &create("other.public.token")).await;
    let refused = error(&client, "DROP DATABASE other").await;
    assert!(refused.starts_with("2BP01: cannot drop database other"), "{refused}");
    run(&client, "DROP DATABASE other CASCADE").await;
    assert_eq!(rows(&client, "SHOW SECRETS").await, Vec::<String>::new());
}

/// Every file below a folder that holds one of these texts.
fn holders(folder: &Path, needles: &[Vec<u8>]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holders(&path, needles));
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let holds = |needle: &Vec<u8>| bytes.windows(needle.len()).any(|window| window == needle);
        if needles.iter().any(holds) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The value in the forms in which it could have been written down.
fn forms(value: &str) -> Vec<Vec<u8>> {
    use base64::Engine as _;
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![value.as_bytes().to_vec(), hex.into_bytes()];
    // Base64 of a text that begins one or two bytes earlier looks different.
    for skipped in 0..3 {
        let whole = &value.as_bytes()[skipped..];
        let whole = &whole[..whole.len() / 3 * 3];
        forms.push(base64::engine::general_purpose::STANDARD.encode(whole).into_bytes());
    }
    forms
}

/// With everything logged that can be, after every statement that takes a value,
/// well formed or not, a crash and a restart.
#[tokio::test]
async fn no_value_is_found_in_any_file_in_the_log_or_in_an_answer() {
    let mut gateway = Gateway::start_with("[log]\nlevel = \"trace\"\n");
    let client = gateway.connect().await;
    let mut answers = Vec::new();
    let statements = [
        create("first"),
        create("first"),
        create("IF NOT EXISTS first"),
        format!("ALTER SECRET first SECRET_STRING = $x${CANARY}$x$"),
        format!("ALTER SECRET none SECRET_STRING = '{CANARY}'"),
        format!("CREATE SECRET \"a b\" SECRET_STRING = '{CANARY}'"),
        format!("CREATE SECRET second SECRET_STRING '{CANARY}'"),
        format!("CREATE SECRET second SECRET_STRING = {CANARY}"),
        format!("CREATE SECRET second SECRET_STRING = \"{CANARY}\""),
        format!("CREATE SECRET second SECRET_STRING = '{CANARY}"),
        format!("CREATE SECRET second SECRET_STRING = $t${CANARY}$u$"),
        format!("CREATE SECRET second SECRET_STRING = 'it's {CANARY}'"),
        format!("CREAT SECRET second SECRET_STRING = '{CANARY}'"),
        format!("CREATE SECRET second SECRET_STRING = '{CANARY}' || 'x'"),
        format!("CREATE SECRET second SECRET_STRING = '{}'", CANARY.repeat(2_000)),
        format!("EXPLAIN CREATE SECRET second SECRET_STRING = '{CANARY}'"),
        format!("EXPLAIN ANALYZE CREATE SECRET second SECRET_STRING = '{CANARY}'"),
        format!("PREPARE p AS CREATE SECRET second SECRET_STRING = '{CANARY}'"),
        format!("PREPARE q (text) AS CREATE SECRET second SECRET_STRING = $1; EXECUTE q('{CANARY}')"),
        format!("DECLARE c CURSOR FOR CREATE SECRET second SECRET_STRING = '{CANARY}'"),
        format!("SELECT 1; CREATE SECRET fourth SECRET_STRING = '{CANARY}'; SELECT 1 / 0"),
        format!("BEGIN; CREATE SECRET fifth SECRET_STRING = '{CANARY}'; ROLLBACK"),
        format!("CREATE USER carl PASSWORD '{CANARY}'"),
        format!("ALTER USER carl PASSWORD {CANARY}"),
        format!("CREATE STORAGE INTEGRATION i STORAGE_PROVIDER = 'S3' STORAGE_PREFIX = 's3://b' KEY = '{CANARY}'"),
    ];
    for statement in &statements {
        answers.push(match client.simple_query(statement).await {
            Ok(messages) => format!("{messages:?}"),
            Err(error) => describe(&error),
        });
        let _ = client.simple_query("ROLLBACK").await;
    }
    let alter = client.prepare("ALTER SECRET first SECRET_STRING = $1").await.unwrap();
    client.query_one(&alter, &[&CANARY]).await.unwrap();
    for statement in [
        "SHOW SECRETS",
        "DESCRIBE SECRET first",
        "SHOW GRANTS",
        "SHOW JOBS",
        "SELECT * FROM pg_catalog.pg_prepared_statements",
        "SELECT * FROM pg_catalog.pg_cursors",
        "SELECT * FROM pg_catalog.pg_class",
        "SELECT * FROM system.public.jobs",
        "SELECT * FROM system.public.job_events",
        "SHOW ALL",
    ] {
        answers.push(rows(&client, statement).await.join("\n"));
    }
    answers.push(psql(&gateway, "\\d"));
    let leaks: Vec<&String> = answers.iter().filter(|answer| answer.contains(CANARY)).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
    assert_eq!(rows(&client, "SHOW SECRETS").await, ["[]|fifth", "[]|first", "[]|fourth"]);

    let needles = forms(CANARY);
    let log = gateway.log();
    assert!(log.contains("TRACE"), "the log tells everything");
    let logged: Vec<&str> = log
        .lines()
        .filter(|line| needles.iter().any(|form| line.contains(std::str::from_utf8(form).unwrap())))
        .collect();
    assert!(logged.is_empty(), "{logged:?}");
    // The search finds what is there, before the write-ahead log is folded in.
    assert!(!holders(gateway.data(), &[b"fourth".to_vec()]).is_empty());
    assert_eq!(holders(gateway.data(), &needles), Vec::<String>::new());
    gateway.restart();
    assert_eq!(rows(&gateway.connect().await, "SHOW SECRETS").await.len(), 3);
    assert!(gateway.stop().success());
    assert_eq!(holders(gateway.data(), &needles), Vec::<String>::new());
    assert!(!gateway.log().contains(CANARY));
}

/// A start looks at every secret. One that was tampered with is named, and stays
/// until it is given another value; the gateway serves.
#[tokio::test]
async fn rows_that_were_swapped_or_changed_are_found_at_the_next_start() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    for name in ["mine", "yours", "flipped", "whole"] {
        run(&client, &create(name)).await;
    }
    assert!(gateway.stop().success());
    let program = "
import sqlite3, sys
store = sqlite3.connect(sys.argv[1] + '/_lancegate/metadata.db')
sealed = dict(store.execute('SELECT name, sealed FROM secrets').fetchall())
put = lambda name, text: store.execute('UPDATE secrets SET sealed = ? WHERE name = ?', (text, name))
put('mine', sealed['yours'])
put('yours', sealed['mine'])
text = sealed['flipped']
put('flipped', text[:20] + ('A' if text[20] != 'A' else 'B') + text[21:])
store.commit()
";
    run_python(gateway.data(), program);
    gateway.restart();
    let named = |log: &str, name: &str| {
        let expected = format!("secret=lancegate.public.{name}");
        log.lines().any(|line| line.contains("a secret cannot be opened") && line.contains(&expected))
    };
    let log = gateway.log();
    let found: Vec<&str> = ["mine", "yours", "flipped", "whole"].into_iter().filter(|name| named(&log, name)).collect();
    assert_eq!(found, ["mine", "yours", "flipped"], "{log}");
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SHOW SECRETS").await.len(), 4);
    run(&client, "ALTER SECRET mine SECRET_STRING = 'a'; DROP SECRET yours; DROP SECRET flipped").await;
    let told = gateway.log().len();
    gateway.restart();
    let later = gateway.log()[told..].to_owned();
    assert!(!later.contains("a secret cannot be opened"), "{later}");
}

/// Starts on a data folder with more arguments and returns what was said.
fn refused_start(data: &Path, more: &[&str]) -> String {
    let data = data.to_str().unwrap();
    let arguments = ["serve", "--data", data, "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
    let output = run_program([&arguments, more].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    text(&output)
}

fn check(data: &Path, more: &[&str]) -> String {
    let data = data.to_str().unwrap();
    let arguments = ["check", "--data", data, "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
    text(&run_program([&arguments, more].concat()))
}

#[tokio::test]
async fn the_key_file_is_made_once_and_a_start_without_it_is_refused() {
    let mut gateway = Gateway::start();
    let file = gateway.data().join("_lancegate/secrets.key");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    let key = fs::read(&file).unwrap();
    run(&gateway.connect().await, &create("token")).await;
    gateway.restart();
    assert_eq!(fs::read(&file).unwrap(), key);
    assert!(gateway.stop().success());
    let data = gateway.data();
    let said = check(data, &[]);
    assert!(said.contains("ok      secrets.key_file: "), "{said}");

    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let said = refused_start(data, &[]);
    let expected = format!("lancegate: secrets.key_file: {} can be read by others (mode 0644)", file.display());
    assert!(said.contains(&expected), "{said}");
    let said = check(data, &[]);
    assert!(said.contains("PROBLEM secrets.key_file: ") && said.contains("mode 0644"), "{said}");

    fs::remove_file(&file).unwrap();
    let said = refused_start(data, &[]);
    assert!(said.contains("does not exist, and the values of 1 secrets cannot be read without it"), "{said}");
    assert!(!file.exists(), "no key is made in the place of one that is lost");

    let elsewhere = data.join("other.key");
    let flag = format!("secrets.key_file={}", elsewhere.display());
    let said = refused_start(data, &["--set", &flag]);
    assert!(said.contains("secrets.key_file: ") && said.contains("does not exist"), "{said}");
    fs::write(&elsewhere, "no key\n").unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o600)).unwrap();
    let said = refused_start(data, &["--set", &flag]);
    assert!(said.contains(&format!("line 1 of {} is not a key", elsewhere.display())), "{said}");
    assert!(!said.contains("no key\n"), "{said}");

    // With another key the gateway serves, and names what it cannot open.
    fs::write(&file, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    gateway.restart();
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains("a secret cannot be opened")).unwrap_or_default();
    assert!(line.contains("which the key file does not have"), "{log}");
    // The old key behind the new one opens it, and the start seals it anew.
    let mut both = fs::read(&file).unwrap();
    both.extend(&key);
    fs::write(&file, both).unwrap();
    gateway.restart();
    assert!(gateway.log().contains("secrets were sealed anew with the current key"), "{}", gateway.log());
    fs::write(&file, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    let told = gateway.log().len();
    gateway.restart();
    assert!(!gateway.log()[told..].contains("cannot be opened"), "{}", gateway.log());
}
