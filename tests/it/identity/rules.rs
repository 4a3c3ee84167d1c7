//! Ordered rules: the first that fits decides, and a mistake lets nobody in.

use std::ffi::OsStr;

use tokio_postgres::NoTls;

use super::pki::Pki;
use super::{Files, key, over_tcp, psql, said};
use crate::harness::{Gateway, PASSWORD, run as program, until};
use crate::rows::{describe, run};
use crate::wire::session::ENDLESS;

/// Returns what somebody is told who tries to connect.
pub(crate) async fn told(gateway: &Gateway, user: &str, password: &str, database: &str) -> String {
    let mut config = tokio_postgres::Config::new();
    config.host(gateway.pg_addr().ip().to_string()).port(gateway.pg_addr().port());
    match config.user(user).password(password).dbname(database).connect(NoTls).await {
        Ok(_) => "in".to_owned(),
        Err(error) => describe(&error),
    }
}

#[tokio::test]
async fn the_first_rule_that_fits_decides_and_none_is_no() {
    let files = Files::new();
    let rules = "\
        host all mallory all reject\n\
        hostssl all ann all scram-sha-256\n\
        host lancegate +admins,lancegate 127.0.0.0/8 scram-sha-256\n\
        host all all 10.0.0.0/8 scram-sha-256\n";
    let rules = files.write("hba.conf", rules);
    let gateway = Gateway::start_with(&format!("[pg]\n{}", key("hba_file", &rules)));
    let admin = gateway.connect().await;
    run(&admin, "CREATE USER ann PASSWORD 'a long one'; CREATE USER bob PASSWORD 'a long one'; CREATE USER mallory PASSWORD 'a long one';
                 CREATE USER admins PASSWORD 'a long one'; GRANT ROLE admins TO USER bob").await;
    let no = |what: &str, user: &str, database: &str| {
        format!("28000: {what} host \"127.0.0.1\", user \"{user}\", database \"{database}\", no encryption")
    };
    let none = "no pg_hba.conf entry for";
    assert_eq!(told(&gateway, "bob", "a long one", "lancegate").await, "in");
    assert_eq!(told(&gateway, "admins", "a long one", "lancegate").await, "in");
    assert_eq!(told(&gateway, "bob", "a long one", "other").await, no(none, "bob", "other"));
    assert_eq!(told(&gateway, "ann", "a long one", "lancegate").await, no(none, "ann", "lancegate"));
    let rejected = no("pg_hba.conf rejects connection for", "mallory", "lancegate");
    assert_eq!(told(&gateway, "mallory", "a long one", "lancegate").await, rejected);
    // What has no rule is told nothing of whether it is there.
    assert_eq!(told(&gateway, "nobody", "x", "lancegate").await, no(none, "nobody", "lancegate"));
    run(&admin, "REVOKE ROLE admins FROM USER bob").await;
    assert_eq!(told(&gateway, "bob", "a long one", "lancegate").await, no(none, "bob", "lancegate"));
}

#[tokio::test]
async fn rules_are_read_again_and_wrong_ones_leave_the_old_in_force() {
    let files = Files::new();
    let rules = files.write("hba.conf", "host all all all scram-sha-256\n");
    let gateway = Gateway::start_with(&format!("[pg]\n{}", key("hba_file", &rules)));
    assert_eq!(told(&gateway, "lancegate", PASSWORD, "lancegate").await, "in");
    files.write("hba.conf", "host all all all scram-sha-256\nhost all all all trust\n");
    gateway.signal("HUP");
    let refused = async || gateway.log().contains("is not supported: it lets everybody in").then_some(());
    until("word of the wrong rules", refused).await;
    assert_eq!(told(&gateway, "lancegate", PASSWORD, "lancegate").await, "in");
    files.write("hba.conf", "host all all all reject\n");
    gateway.signal("HUP");
    let out = async || told(&gateway, "lancegate", PASSWORD, "lancegate").await.starts_with("28000").then_some(());
    until("the new rules", out).await;
    std::fs::remove_file(&rules).unwrap();
    gateway.signal("HUP");
    until("word of the missing file", async || gateway.log().contains("hba.conf cannot be read").then_some(())).await;
    assert!(told(&gateway, "lancegate", PASSWORD, "lancegate").await.starts_with("28000"));
}

#[test]
fn rules_that_are_not_understood_refuse_the_start_and_are_found_by_check() {
    let files = Files::new();
    let data = files.path("data");
    for (rules, more, expected) in [
        ("host all all", "", "pg.hba_file: "),
        ("local all all trust", "", "line 1: \"trust\" is not supported"),
        ("", "", "there is no rule"),
        ("hostssl all all all cert", "", "line 1: client certificates take \"pg.tls_client_ca\""),
        ("\nhostssl all all all jwt", "", "line 2: method \"jwt\" takes an entry of [[jwt_issuers]]"),
        ("local all all peer map=m", "", "line 1: there is no map \"m\" in pg.ident_file"),
        (
            "hostssl all all all oauth issuer=https://j",
            "[[jwt_issuers]]\nissuer = 'https://i'\naudience = 'a'\n",
            "issuer \"https://j\" is not in [[jwt_issuers]]",
        ),
    ] {
        let rules = files.write("hba.conf", rules);
        let config = files.write("lancegate.toml", &format!("[pg]\n{}{more}", key("hba_file", &rules)));
        for command in ["check", "serve"] {
            let mut arguments: Vec<&OsStr> = vec![command.as_ref(), "--config".as_ref(), config.as_os_str()];
            arguments.extend([
                OsStr::new("--data"),
                data.as_os_str(),
                OsStr::new("--pg-listen"),
                "127.0.0.1:0".as_ref(),
            ]);
            arguments.extend([OsStr::new("--http-listen"), "127.0.0.1:0".as_ref()]);
            let (succeeded, said) = said(&program(arguments));
            assert!(!succeeded && said.contains(expected), "{command}: {said} should contain {expected:?}");
        }
    }
    let rules = files.write("hba.conf", "local all all peer map=m\nhost all all all scram-sha-256\n");
    let maps = files.write("ident.conf", "m root lancegate\n");
    let pg = format!("[pg]\n{}{}", key("hba_file", &rules), key("ident_file", &maps));
    let config = files.write("lancegate.toml", &pg);
    let arguments = ["check".as_ref(), "--config".as_ref(), config.as_os_str(), "--data".as_ref(), data.as_os_str()];
    let (_, said) = said(&program(arguments));
    assert!(said.contains("ok      pg.hba_file: 2 rules can be used"), "{said}");
}

#[tokio::test]
async fn api_keys_are_passwords_where_a_rule_says_so() {
    let (files, pki) = (Files::new(), Pki::new());
    let rules = "hostssl all ann all api-key\nhost all bob 127.0.0.1/32 api-key\nhost all all all scram-sha-256\n";
    let rules = files.write("hba.conf", rules);
    let gateway = Gateway::start_with(&format!("[pg]\n{}{}", key("hba_file", &rules), pki.server()));
    let admin = gateway.connect().await;
    run(&admin, "CREATE USER ann PASSWORD 'a long one'; CREATE USER bob").await;
    let made = async |user: &str, more: &str| -> String {
        let name = format!("{user}{}", more.len());
        admin.query_one(&format!("CREATE API KEY {name} FOR USER {user} {more}"), &[]).await.unwrap().get("key")
    };
    let (ann, bob, old) = (made("ann", "").await, made("bob", "").await, made("ann", "VALID UNTIL '2020-01-01'").await);
    let failed = |user: &str| format!("API key authentication failed for user \"{user}\"");
    let secure = |user: &str, password: &str| {
        psql(&over_tcp(&gateway, user, "sslmode=require"), password, "SELECT current_user")
    };
    assert_eq!(secure("ann", &ann), (true, "ann\n".to_owned()));
    for wrong in [&bob, &old, "a long one", "lgk_", &ann.to_uppercase(), &format!("{ann}x")] {
        let (succeeded, said) = secure("ann", wrong);
        assert!(!succeeded && said.contains(&failed("ann")), "{wrong}: {said}");
    }
    // Over loopback a user without a password has a key.
    assert_eq!(told(&gateway, "bob", &bob, "lancegate").await, "in");
    assert_eq!(told(&gateway, "bob", &ann, "lancegate").await, format!("28P01: {}", failed("bob")));
    run(&admin, "ALTER USER bob VALID UNTIL '2020-01-01'").await;
    assert_eq!(told(&gateway, "bob", &bob, "lancegate").await, format!("28P01: {}", failed("bob")));
    let log = gateway.log();
    assert!(!log.contains(&ann) && !log.contains(&bob), "a key is in the log");
}

#[tokio::test]
async fn t19_a_session_ends_with_the_time_of_its_user() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let ends = chrono::Utc::now() + chrono::TimeDelta::seconds(4);
    let until_then = ends.format("%Y-%m-%d %H:%M:%S").to_string();
    run(&admin, &format!("CREATE USER ann PASSWORD 'a long one' VALID UNTIL '{until_then}'")).await;
    run(&admin, "GRANT USAGE ON DATABASE lancegate TO USER ann").await;
    let idle = gateway.connect_as("ann", "a long one").await.unwrap();
    let busy = gateway.connect_as("ann", "a long one").await.unwrap();
    assert!(idle.simple_query("SELECT 1").await.is_ok());
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(50), busy.simple_query(ENDLESS)).await;
    let stopped = describe(&stopped.expect("the statement ends with its session").unwrap_err());
    let expected = "28000: terminating connection because its credentials have expired";
    assert_eq!(stopped, expected);
    let closed = async || idle.is_closed().then_some(());
    until("the end of the idle session", closed).await;
    assert!(told(&gateway, "ann", "a long one", "lancegate").await.starts_with("28P01"));
    assert!(gateway.log().contains("credentials have expired"));
}

#[tokio::test]
async fn a_user_has_no_more_sessions_than_its_limit() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(&admin, "CREATE USER ann PASSWORD 'a long one' CONNECTION LIMIT 1").await;
    let first = gateway.connect_as("ann", "a long one").await.unwrap();
    assert_eq!(told(&gateway, "ann", "a long one", "lancegate").await, "53300: too many connections for role \"ann\"");
    drop(first);
    let again = async || (told(&gateway, "ann", "a long one", "lancegate").await == "in").then_some(());
    until("room for another session", again).await;
}
