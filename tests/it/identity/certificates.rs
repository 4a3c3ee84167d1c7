//! Certificates of clients and of the server: who is let in by one, and what TLS is
//! spoken.

use std::process::{Command, Stdio};

use super::pki::{Pki, is_written, secured};
use super::{Files, key, over_tcp, psql};
use crate::harness::{Gateway, PASSWORD, text, until};
use crate::rows::run;

/// A gateway that knows the authority, with users `ann` and `bob`.
async fn gateway(pki: &Pki, files: &Files, rules: &str, more: &str) -> Gateway {
    let rules = files.write("hba.conf", &format!("{rules}host all all all scram-sha-256\n"));
    let maps = files.write("ident.conf", "crew *@example.com *\n");
    let keys = [key("hba_file", &rules), key("ident_file", &maps), key("tls_client_ca", &pki.path("ca.crt"))].concat();
    let gateway = Gateway::start_with(&format!("[pg]\n{keys}{}{more}", pki.server()));
    let admin = gateway.connect().await;
    run(&admin, "CREATE USER ann PASSWORD 'a long one'; CREATE USER bob PASSWORD 'a long one'").await;
    gateway
}

/// Connects as a user who shows a certificate.
fn shows(pki: &Pki, gateway: &Gateway, user: &str, certificate: Option<&str>, password: &str) -> (bool, String) {
    let shown = certificate.map_or_else(
        || "sslcert=/nonexistent".to_owned(),
        |name| {
            let file = |end: &str| pki.path(&format!("{name}.{end}")).display().to_string();
            format!("sslcert={} sslkey={}", file("crt"), file("key"))
        },
    );
    let root = pki.path("ca.crt");
    let connection = over_tcp(gateway, user, &format!("sslmode=verify-full sslrootcert={} {shown}", root.display()));
    psql(&connection, password, "SELECT current_user")
}

#[tokio::test]
async fn a12_a_certificate_of_the_authority_is_who_its_name_says() {
    let (pki, files) = (Pki::new(), Files::new());
    pki.client("ann", "/O=Example/CN=ann", "", &[]);
    pki.client("mail", "/O=Example", "subjectAltName=email:bob@example.com", &[]);
    pki.client("two", "/CN=ann/CN=bob", "", &[]);
    pki.authority("other");
    pki.client(
        "stranger",
        "/CN=ann",
        "",
        &["-CA", "other.crt", "-CAkey", "other.key", "-CAcreateserial", "-days", "30"],
    );
    pki.sign("server-use", "/CN=ann", "server.ext", &["-days", "30"]);
    pki.client("expired", "/CN=ann", "", &["-days", "-1"]);
    let rules = "hostssl all ann all cert\nhostssl all bob all cert map=crew\n";
    let gateway = gateway(&pki, &files, rules, "").await;
    assert_eq!(shows(&pki, &gateway, "ann", Some("ann"), ""), (true, "ann\n".to_owned()));
    assert_eq!(shows(&pki, &gateway, "bob", Some("mail"), ""), (true, "bob\n".to_owned()));
    for (user, certificate, expected) in [
        ("ann", None, "connection requires a valid client certificate"),
        ("bob", Some("ann"), "certificate authentication failed for user \"bob\""),
        ("ann", Some("mail"), "certificate authentication failed for user \"ann\""),
        ("ann", Some("two"), "certificate authentication failed for user \"ann\""),
        ("bob", Some("two"), "certificate authentication failed for user \"bob\""),
        // These end the handshake.
        ("ann", Some("stranger"), "SSL"),
        ("ann", Some("server-use"), "SSL"),
        ("ann", Some("expired"), "SSL"),
    ] {
        let (succeeded, said) = shows(&pki, &gateway, user, certificate, "");
        assert!(!succeeded && said.contains(expected), "{user} {certificate:?}: {said}");
    }
    let admin = gateway.connect().await;
    run(&admin, "DROP USER ann").await;
    let (succeeded, said) = shows(&pki, &gateway, "ann", Some("ann"), "");
    assert!(!succeeded && said.contains("certificate authentication failed for user \"ann\""), "{said}");
}

#[tokio::test]
async fn a12_a_revoked_certificate_is_refused_from_the_next_connection_on() {
    let (pki, files) = (Pki::new(), Files::new());
    for name in ["ann", "bob", "first"] {
        pki.client(name, &format!("/CN={name}"), "", &[]);
    }
    let list = pki.revoke("first");
    assert!(is_written(&list));
    let gateway = gateway(&pki, &files, "hostssl all all all cert\n", &key("tls_client_crl", &list)).await;
    assert_eq!(shows(&pki, &gateway, "ann", Some("ann"), "").1, "ann\n");
    pki.revoke("ann");
    gateway.signal("HUP");
    let refused = async || (!shows(&pki, &gateway, "ann", Some("ann"), "").0).then_some(());
    until("the list of revoked certificates", refused).await;
    assert_eq!(shows(&pki, &gateway, "bob", Some("bob"), "").1, "bob\n");
}

#[tokio::test]
async fn a12_a_certificate_may_be_needed_beside_a_password() {
    let (pki, files) = (Pki::new(), Files::new());
    pki.client("ann", "/CN=ann", "", &[]);
    let rules = "hostssl all ann all scram-sha-256 clientcert=verify-full\n\
                 hostssl all bob all scram-sha-256 clientcert=verify-ca\n";
    let gateway = gateway(&pki, &files, rules, "").await;
    let password = "a long one";
    assert_eq!(shows(&pki, &gateway, "ann", Some("ann"), password).1, "ann\n");
    assert_eq!(shows(&pki, &gateway, "bob", Some("ann"), password).1, "bob\n");
    for (user, certificate, password, expected) in [
        ("ann", Some("ann"), "wrong", "password authentication failed for user \"ann\""),
        ("ann", None, password, "connection requires a valid client certificate"),
        ("bob", None, password, "connection requires a valid client certificate"),
    ] {
        let (succeeded, said) = shows(&pki, &gateway, user, certificate, password);
        assert!(!succeeded && said.contains(expected), "{user} {certificate:?}: {said}");
    }
    files.write(
        "hba.conf",
        "hostssl all bob all scram-sha-256 clientcert=verify-full\nhost all all all scram-sha-256\n",
    );
    gateway.signal("HUP");
    let refused = async || {
        let (succeeded, said) = shows(&pki, &gateway, "bob", Some("ann"), password);
        (!succeeded && said.contains("client certificate is not valid for user \"bob\"")).then_some(())
    };
    until("the stricter rule", refused).await;
}

/// Runs `openssl s_client` and returns whether it shook hands, and what it said.
fn s_client(gateway: &Gateway, arguments: &[&str]) -> (bool, String) {
    let address = gateway.pg_addr().to_string();
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address]).args(arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = text(&output);
    (said.contains("Cipher is ") && !said.contains("Cipher is (NONE)"), said)
}

#[tokio::test]
async fn t11_tls_is_new_enough_and_direct_tls_names_its_protocol() {
    let pki = Pki::new();
    let gateway = Gateway::start_with(&format!("[pg]\n{}", pki.server()));
    let postgres = ["-starttls", "postgres"];
    for (version, expected) in [("-tls1", false), ("-tls1_1", false), ("-tls1_2", true), ("-tls1_3", true)] {
        // The oldest are not even tried at the usual level of security.
        let arguments = [&postgres[..], &[version, "-cipher", "DEFAULT:@SECLEVEL=0"]].concat();
        let (shook, said) = s_client(&gateway, &arguments);
        assert_eq!(shook, expected, "{version}: {said}");
    }
    for (arguments, expected) in [
        (&["-alpn", "postgresql"][..], "ALPN protocol: postgresql"),
        (&["-alpn", "http/1.1"], "no peer certificate available"),
        (&["-alpn", "postgresql", "-tls1_2"], "ALPN protocol: postgresql"),
        (&["-alpn", "postgresql", "-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"], "Cipher is (NONE)"),
    ] {
        let (_, said) = s_client(&gateway, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    // Without a name the handshake is done, and then it is over.
    let (shook, said) = s_client(&gateway, &[]);
    assert!(shook && said.contains("No ALPN negotiated"), "{said}");
}

#[tokio::test]
async fn t11_a_certificate_that_cannot_be_read_again_leaves_the_old_one() {
    let pki = Pki::new();
    let gateway = Gateway::start_with(&format!("[pg]\n{}", pki.server()));
    let served = async || {
        let stream = secured(&gateway, pki.client_config(None)).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let first = served().await;
    let key = std::fs::read(pki.path("server.key")).unwrap();
    std::fs::write(pki.path("server.key"), "no key").unwrap();
    gateway.signal("HUP");
    let told = async || gateway.log().contains("cannot be read again; the old state stays").then_some(());
    until("word of the wrong key", told).await;
    assert_eq!(served().await, first);
    // A key of another certificate is no better.
    pki.client("ann", "/CN=ann", "", &[]);
    std::fs::copy(pki.path("ann.key"), pki.path("server.key")).unwrap();
    gateway.signal("HUP");
    until("word of the other key", async || gateway.log().contains("do not go together").then_some(())).await;
    assert_eq!(served().await, first);
    std::fs::write(pki.path("server.key"), key).unwrap();
    pki.sign("server", "/CN=localhost", "server.ext", &["-days", "30"]);
    gateway.signal("HUP");
    until("the new certificate", async || (served().await != first).then_some(())).await;
    // SCRAM with channel binding fits the certificate that is served now.
    let root = pki.path("ca.crt");
    let more = format!("sslmode=verify-ca sslrootcert={} channel_binding=require", root.display());
    assert_eq!(psql(&over_tcp(&gateway, "lancegate", &more), PASSWORD, "SELECT 1"), (true, "1\n".to_owned()));
}
