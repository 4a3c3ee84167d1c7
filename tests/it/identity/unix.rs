//! The Unix socket: who is at the other end, and its file.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::{Files, key, psql};
use crate::harness::{Gateway, PASSWORD, text};

/// The user that the tests run as.
fn me() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    text(&output).trim().to_owned()
}

fn over_unix(gateway: &Gateway, files: &Files, user: &str) -> String {
    format!("host={} port={} dbname=lancegate user={user}", files.path("").display(), gateway.pg_addr().port())
}

#[test]
fn peers_are_let_in_as_whom_the_system_says_they_are() {
    let files = Files::new();
    let rules = "local all lancegate peer map=dba\nlocal all all peer\nhost all all all scram-sha-256\n";
    let rules = files.write("hba.conf", rules);
    let maps = files.write("ident.conf", &format!("dba {} lancegate\n", me()));
    let folder = files.path("");
    let pg = [key("hba_file", &rules), key("ident_file", &maps), key("unix_socket_directory", &folder)].concat();
    let gateway = Gateway::start_with(&format!("[pg]\n{pg}"));
    let path = files.path(&format!(".s.PGSQL.{}", gateway.pg_addr().port()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o770);
    let create =
        format!("CREATE USER \"{0}\"; CREATE USER other; GRANT USAGE ON DATABASE lancegate TO USER \"{0}\"", me());
    assert!(psql(&over_unix(&gateway, &files, "lancegate"), "", &create).0);
    assert_eq!(psql(&over_unix(&gateway, &files, &me()), "", "SELECT current_user"), (true, format!("{}\n", me())));
    for user in ["other", "nobody"] {
        let (succeeded, said) = psql(&over_unix(&gateway, &files, user), "", "SELECT 1");
        assert!(!succeeded && said.contains(&format!("Peer authentication failed for user \"{user}\"")), "{said}");
    }
    // There is no TLS within a machine, and no cancel key is guessed from it.
    let required = format!("{} sslmode=require", over_unix(&gateway, &files, "lancegate"));
    assert!(psql(&required, "", "SELECT 1").0, "libpq leaves TLS out over Unix sockets");
    drop(gateway);
}

#[test]
fn a_socket_asks_for_passwords_by_default_and_goes_with_its_gateway() {
    let files = Files::new();
    let pg = format!("[pg]\n{}unix_socket_permissions = '0700'\n", key("unix_socket_directory", &files.path("")));
    let mut gateway = Gateway::start_with(&pg);
    let path = files.path(&format!(".s.PGSQL.{}", gateway.pg_addr().port()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(psql(&over_unix(&gateway, &files, "lancegate"), PASSWORD, "SELECT 1").0);
    let (succeeded, said) = psql(&over_unix(&gateway, &files, "lancegate"), "wrong", "SELECT 1");
    assert!(!succeeded && said.contains("password authentication failed"), "{said}");
    // A crash leaves the file behind; a stop does not.
    gateway.kill9();
    assert!(path.exists());
    gateway.restart();
    let path = files.path(&format!(".s.PGSQL.{}", gateway.pg_addr().port()));
    assert!(psql(&over_unix(&gateway, &files, "lancegate"), PASSWORD, "SELECT 1").0);
    assert!(gateway.stop().success());
    assert!(!path.exists());
}
