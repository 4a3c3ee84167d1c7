//! The command line: arguments, configuration, users, start and stop.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::Stdio;

use crate::harness::{Gateway, first_line, lancegate, run, text, wait};

#[test]
fn help_names_every_command_and_version_the_version() {
    let help = run(["--help"]);
    assert!(help.status.success());
    for command in ["serve", "demo", "user", "grant", "check", "config-example", "version"] {
        assert!(text(&help).contains(&format!("\n  {command} ")), "{command} in {}", text(&help));
        assert!(run([command, "--help"]).status.success(), "{command}");
    }
    let version = format!("lancegate {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&run(["version"])), version);
    assert_eq!(text(&run(["--version"])), version);
}

#[test]
fn an_unknown_argument_is_refused_with_2() {
    assert_eq!(run(["serve", "--colour"]).status.code(), Some(2));
    assert_eq!(run(["paint"]).status.code(), Some(2));
}

#[test]
fn the_example_in_the_repository_is_what_the_program_prints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config.example.toml");
    let printed = String::from_utf8(run(["config-example"]).stdout).unwrap();
    if std::env::var_os("REWRITE").is_some() {
        fs::write(path, &printed).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == printed,
        "config.example.toml is out of date; run `lancegate config-example > config.example.toml`"
    );
}

#[test]
fn a_wrong_key_is_named_wherever_it_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lancegate.toml");
    fs::write(&file, "data = 'd'\n[pg]\nlisen = '127.0.0.1:1'\nmax_connections = 'many'\n").unwrap();
    let output = run(["check", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(said.contains("lancegate: pg.lisen: there is no such key; did you mean \"pg.listen\"?"), "{said}");
    assert!(said.contains("lancegate: pg.max_connections: \"many\" is not allowed; use a whole number"), "{said}");
    assert!(said.contains(file.to_str().unwrap()), "{said}");

    let output = lancegate(["check", "--data", "d"]).env("LANCEGATE_QUERY__MEMORY", "much").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("query.memory: \"much\" is not allowed"), "{}", text(&output));
    assert!(text(&output).contains("environment variable LANCEGATE_QUERY__MEMORY"), "{}", text(&output));

    let output = run(["check", "--data", "d", "--set", "jobs.lease=never"]);
    assert!(text(&output).contains("jobs.lease: \"never\" is not allowed"), "{}", text(&output));
}

#[test]
fn a_gateway_without_data_says_how_to_name_it() {
    let output = run(["serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("data: is not set"), "{}", text(&output));
    assert!(text(&output).contains("--data"), "{}", text(&output));
}

#[test]
fn a_port_in_use_names_key_and_address_and_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments =
        ["serve", "--data", data.to_str().unwrap(), "--pg-listen", &address, "--http-listen", "127.0.0.1:0"];
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("lancegate: pg.listen: cannot listen on {address}: the address is in use");
    assert!(text(&output).contains(&expected), "{}", text(&output));
    assert!(!data.exists());
}

#[test]
fn plaintext_beyond_loopback_needs_consent() {
    let output = run(["serve", "--data", "d", "--pg-listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("pg.allow_plaintext = true"), "{}", text(&output));
}

#[test]
fn the_first_start_makes_a_random_password_and_shows_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut child = lancegate(["serve", "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data"])
            .arg(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(first_line(&mut child).contains("is ready"));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let first = start();
    let password = first.lines().find_map(|line| line.strip_prefix("created user \"lancegate\" with password "));
    assert!(password.is_some_and(|password| password.len() >= 20), "{first}");
    let second = start();
    assert!(!second.contains("password"), "{second}");
}

#[test]
fn check_finds_what_a_start_would_trip_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file");
    fs::write(&file, "").unwrap();
    let check = |arguments: &[&str]| run([&["check"], arguments].concat());
    let data = folder.path().to_str().unwrap();
    let free = ["--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];

    let output = check(&[&["--data", data], &free[..]].concat());
    assert!(output.status.success(), "{}", text(&output));

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = check(&["--data", data, "--pg-listen", &address, "--http-listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains(&format!("PROBLEM pg.listen: cannot listen on {address}")), "{}", text(&output));

    let inside_a_file = file.join("data");
    let mut arguments = vec!["--data", file.to_str().unwrap(), "--metadata", inside_a_file.to_str().unwrap()];
    arguments.extend(free);
    let output = check(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("PROBLEM data: "), "{}", text(&output));

    fs::write(folder.path().join("bad.pem"), "no pem").unwrap();
    let pem = folder.path().join("bad.pem");
    let (cert, key) = (format!("pg.tls_cert={}", pem.display()), format!("pg.tls_key={}", pem.display()));
    let output = check(&[&["--data", data, "--set", &cert, "--set", &key], &free[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("PROBLEM pg.tls_cert: "), "{}", text(&output));
}

#[test]
fn users_are_added_listed_and_dropped_while_no_gateway_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let early = run(["user", "list", "--data", data]);
    assert!(text(&early).contains("`lancegate serve` creates it"), "{}", text(&early));
    assert!(Gateway::start_in(folder.path()).stop().success());
    let with_password = |arguments: &[&str], password: &str| {
        let mut child =
            lancegate(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
        child.wait_with_output().unwrap()
    };
    assert!(with_password(&["user", "add", "alice", "--data", data], "secret word").status.success());
    let again = with_password(&["user", "add", "alice", "--data", data], "secret word");
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again).contains("user \"alice\" already exists"), "{}", text(&again));
    let empty = with_password(&["user", "passwd", "alice", "--data", data], "");
    assert!(text(&empty).contains("the password is empty"), "{}", text(&empty));
    let generated = run(["user", "passwd", "alice", "--generate", "--data", data]);
    assert!(text(&generated).contains("password: "), "{}", text(&generated));

    let listed = text(&run(["user", "list", "--data", data]));
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["name", "alice", "lancegate"], "{listed}");
    let granted = run(["grant", "usage,operate", "--on", "system", "--to", "alice", "--data", data]);
    assert!(granted.status.success(), "{}", text(&granted));
    let refused = run(["grant", "select", "--on", "system", "--to", "alice", "--data", data]);
    assert!(text(&refused).contains("SELECT is not valid on system"), "{}", text(&refused));

    assert!(run(["user", "drop", "alice", "--data", data]).status.success());
    let gone = run(["user", "drop", "alice", "--data", data]);
    assert!(text(&gone).contains("user \"alice\" does not exist"), "{}", text(&gone));
}

#[test]
fn user_commands_are_refused_while_a_gateway_holds_the_store() {
    let gateway = Gateway::start();
    let data = gateway.data().to_str().unwrap().to_owned();
    let output = run(["user", "list", "--data", &data]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("in use by a running gateway"), "{}", text(&output));
    let free = ["--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
    let output = run([&["check", "--data", &data], &free[..]].concat());
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("metadata: "), "{}", text(&output));
}

#[test]
fn a_gateway_stops_when_asked_and_starts_again_on_the_same_data() {
    let mut gateway = Gateway::start();
    assert!(gateway.stop().success(), "{}", gateway.log());
    gateway.restart();
    assert!(gateway.stop().success(), "{}", gateway.log());
}

#[test]
fn a_second_gateway_on_the_same_data_is_refused() {
    let gateway = Gateway::start();
    let mut second = lancegate(["serve", "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data"])
        .arg(gateway.data())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(wait(&mut second).code(), Some(1));
    let said = text(&second.wait_with_output().unwrap());
    assert!(said.contains("lancegate: metadata: "), "{said}");
    assert!(said.contains("in use by a running gateway"), "{said}");
}

#[test]
fn the_demo_runs_the_main_job() {
    let output = run(["demo"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("lancegate=> REFRESH COLUMN body_len ON docs;"), "{}", text(&output));
    assert!(text(&output).contains("computed columns |"), "{}", text(&output));
}
