use super::*;

fn sources(file: Option<&str>, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> (tempfile::TempDir, Sources) {
    let folder = tempfile::tempdir().unwrap();
    let file = file.map(|text| {
        let path = folder.path().join("lancegate.toml");
        std::fs::write(&path, text).unwrap();
        path
    });
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    let flags = flags.iter().map(|(key, value)| ("--set".to_owned(), (*key).to_owned(), (*value).to_owned())).collect();
    (folder, Sources { file, environment, flags })
}

fn load(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, Problems> {
    let (_folder, sources) = sources(Some(file), environment, flags);
    Config::load(sources)
}

/// Expects `file` to be refused with exactly these keys, and each phrase in the message of the key at its place.
fn refuse(file: &str, environment: &[(&str, &str)], expected: &[(&str, &str)]) {
    let problems = load(file, environment, &[]).unwrap_err();
    let found: Vec<&str> = problems.0.iter().map(|problem| problem.key.as_str()).collect();
    let keys: Vec<&str> = expected.iter().map(|(key, _)| *key).collect();
    assert_eq!(found, keys, "{problems}");
    for (problem, (_, phrase)) in problems.0.iter().zip(expected) {
        assert!(problem.to_string().contains(phrase), "{problem} should contain {phrase:?}");
    }
}

#[test]
fn the_defaults_alone_make_a_configuration() {
    let (_folder, sources) = sources(None, &[("LANCEGATE_DATA", "d")], &[]);
    let config = Config::load(sources).unwrap();
    assert_eq!(config.pg.listen.to_string(), "127.0.0.1:5433");
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:10024");
    assert!(config.flight.enabled && config.flight.listen.is_none());
    assert_eq!(config.query.memory.get(), 1 << 30);
    assert_eq!(config.jobs.retention, Duration::from_secs(30 * 86_400));
    assert_eq!(config.metadata_path(), Path::new("d/_lancegate/metadata.db"));
    assert_eq!(config.gpu_classes().len(), 1);
    assert_eq!(config.log.format, LogFormat::Text);
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let file = "data = 'file'\n[pg]\nmax_connections = 11\n[jobs]\nlease = '11s'\n[query]\nthreads = 11";
    let environment = [("LANCEGATE_JOBS__LEASE", "12s"), ("LANCEGATE_QUERY__THREADS", "12"), ("OTHER", "x")];
    let config = load(file, &environment, &[("query.threads", "13")]).unwrap();
    assert_eq!(config.data, "file");
    assert_eq!(config.pg.max_connections, 11);
    assert_eq!(config.jobs.lease, Duration::from_secs(12));
    assert_eq!(config.query.threads, Some(13));
}

#[test]
fn unknown_keys_are_refused_wherever_they_stand() {
    refuse("data = 'd'\ncolour = 1", &[], &[("colour", "no such key")]);
    refuse("data = 'd'\n[pg]\nlisen = 'x'", &[], &[("pg.lisen", "did you mean \"pg.listen\"?")]);
    refuse("data = 'd'\n[pgg]\nlisten = 'x'", &[], &[("pgg", "no such key")]);
    refuse("data = 'd'", &[("LANCEGATE_PG_LISTEN", "x")], &[("pg_listen", "environment variable LANCEGATE_PG_LISTEN")]);
    refuse("data = 'd'", &[("LANCEGATE_GPU_CLASSES", "x")], &[("gpu_classes", "no such key")]);
    refuse("data = 'd'\n[gpu_default]\nname = 'x'", &[], &[("gpu_default.name", "no such key")]);
}

#[test]
fn every_wrong_value_is_named_with_what_is_allowed() {
    refuse(
        "data = 'd'\n[pg]\nlisten = 'localhost'\n[query]\nmemory = 5",
        &[("LANCEGATE_JOBS__LEASE", "soon")],
        &[("pg.listen", "an IP address and a port"), ("query.memory", "256MiB"), ("jobs.lease", "from 1s to 10m")],
    );
    refuse("data = 'd'\npg = 3", &[], &[("pg", "no such key")]);
    let problems = load("data = ", &[], &[]).unwrap_err();
    assert!(problems.to_string().contains("is not TOML"), "{problems}");
}

#[test]
fn data_is_required_and_metadata_with_a_uri() {
    refuse("", &[], &[("data", "--data")]);
    refuse("data = 's3://b/x'", &[], &[("metadata", "local SQLite file")]);
    assert!(load("data = 's3://b/x'\nmetadata = 'm.db'", &[], &[]).is_ok());
}

#[test]
fn secrets_are_neither_read_from_a_file_nor_shown() {
    refuse("data = 'd'\npassword = 'hunter2'", &[], &[("password", "LANCEGATE_PASSWORD")]);
    let problems = load("data = 'd'\nmetadata = 'postgres://u:hunter2@h/d'", &[], &[]).unwrap_err();
    assert!(problems.to_string().contains("not supported by this version"), "{problems}");
    assert!(!problems.to_string().contains("hunter2"), "{problems}");
    let config = load("data = 'd'", &[("LANCEGATE_PASSWORD", "hunter2")], &[]).unwrap();
    assert_eq!(config.password.as_ref().map(|secret| secret.expose().as_str()), Some("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn plaintext_beyond_loopback_is_refused_unless_it_is_meant() {
    refuse("data = 'd'\n[pg]\nlisten = '0.0.0.0:5433'", &[], &[("pg.listen", "pg.allow_plaintext = true")]);
    refuse("data = 'd'\n[http]\nlisten = '[::]:80'", &[], &[("http.listen", "http.allow_plaintext = true")]);
    let file = "data = 'd'\n[pg]\nlisten = '0.0.0.0:5433'\nallow_plaintext = true";
    assert!(load(file, &[], &[]).is_ok());
    let file = "data = 'd'\n[pg]\nlisten = '0.0.0.0:5433'\ntls_cert = 'c'\ntls_key = 'k'";
    assert!(load(file, &[], &[]).is_ok());
    refuse("data = 'd'\n[pg]\ntls_cert = 'c'", &[], &[("pg.tls_key", "is missing")]);
    refuse("data = 'd'\n[flight]\nlisten = '[::]:81'", &[], &[("flight.listen", "flight.allow_plaintext = true")]);
    refuse("data = 'd'\n[flight]\ntls_key = 'k'", &[], &[("flight.tls_cert", "is missing")]);
    refuse("data = 'd'\n[http]\nlisten = '127.0.0.1:65535'", &[], &[("flight.listen", "no port above")]);
    let file = "data = 'd'\n[http]\nlisten = '127.0.0.1:65535'\n[flight]\nenabled = false\nlisten = '[::]:81'";
    assert!(load(file, &[], &[]).is_ok());
}

#[test]
fn gpu_01_the_default_class_comes_first_and_names_are_unique() {
    let file = "data = 'd'\n[gpu_default]\nresource_name = 'nvidia.com/gpu'\n\
                [[gpu_classes]]\nname = 'b'\nresource_name = 'x'\n[[gpu_classes]]\nname = 'a'\nresource_name = 'y'";
    let classes = load(file, &[], &[]).unwrap().gpu_classes();
    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["default", "b", "a"]);
    assert_eq!(classes[0].resource_name.as_deref(), Some("nvidia.com/gpu"));

    let class = |name: &str| format!("[[gpu_classes]]\nname = '{name}'\nresource_name = 'x'\n");
    refuse(&format!("data = 'd'\n{}{}", class("a"), class("a")), &[], &[("gpu_classes", "defined twice")]);
    refuse(&format!("data = 'd'\n{}", class("A_1")), &[], &[("gpu_classes[0].name", "lowercase letters")]);
    refuse(&format!("data = 'd'\n{}", class("default")), &[], &[("gpu_classes[0].name", "[gpu_default]")]);
    refuse("data = 'd'\n[[gpu_classes]]\nname = 'a'", &[], &[("gpu_classes[0].resource_name", "is missing")]);
    refuse("data = 'd'\n[gpu_classes]\nname = 'a'", &[], &[("gpu_classes", "[[gpu_classes]]")]);
}

#[test]
fn issuers_of_tokens_are_named_once_and_their_keys_cannot_be_exchanged_on_the_way() {
    let issuer = |more: &str| format!("data = 'd'\n[[jwt_issuers]]\nissuer = 'https://i'\naudience = 'a, b'\n{more}\n");
    let config = load(&issuer(""), &[], &[]).unwrap();
    let expected = config.jwt_issuers[0].expectations();
    assert_eq!(expected.audiences, ["a", "b"]);
    assert_eq!((expected.user_claim.as_str(), expected.leeway_seconds, expected.algorithms.len()), ("sub", 10, 2));
    let discovery = "https://i/.well-known/openid-configuration".parse().unwrap();
    assert_eq!(config.jwt_issuers[0].keys_at(), Some(KeysAt::Discovered(discovery)));
    for good in
        ["jwks = 'keys.json'", "jwks = 'https://k/x'", "jwks = 'http://127.0.0.1:1/x'", "jwks = 'http://[::1]/x'"]
    {
        assert!(load(&issuer(good), &[], &[]).is_ok(), "{good}");
    }
    for bad in
        ["http://k/x", "ftp://k/x", "https://u:p@k/x", "file:///etc/passwd", "http://127.0.0.1.evil/x", "https://"]
    {
        refuse(&issuer(&format!("jwks = '{bad}'")), &[], &[("jwt_issuers[0].jwks", "with https")]);
    }
    for (more, key) in [
        ("algorithms = 'none'", "jwt_issuers[0].algorithms"),
        ("algorithms = 'RS256,HS256'", "jwt_issuers[0].algorithms"),
        ("algorithms = ','", "jwt_issuers[0].algorithms"),
        ("leeway = '31s'", "jwt_issuers[0].leeway"),
        ("colour = 1", "jwt_issuers[0].colour"),
        ("[[jwt_issuers]]\nissuer = 'https://i'\naudience = 'x'", "jwt_issuers[1].issuer"),
        ("[[jwt_issuers]]\nissuer = 'https://j'", "jwt_issuers[1].audience"),
        ("[[jwt_issuers]]\nissuer = 'http://j'\naudience = 'x'", "jwt_issuers[1].issuer"),
    ] {
        refuse(&issuer(more), &[], &[(key, "")]);
    }
}

#[test]
fn client_certificates_take_tls() {
    refuse("data = 'd'\n[pg]\ntls_client_ca = 'c'", &[], &[("pg.tls_client_ca", "takes TLS")]);
    let file = "data = 'd'\n[pg]\ntls_cert = 'c'\ntls_key = 'k'\ntls_client_crl = 'r'";
    refuse(file, &[], &[("pg.tls_client_crl", "tls_client_ca")]);
    let config = load("data = 'd'\n[pg]\nunix_socket_permissions = '0777'", &[], &[]).unwrap();
    assert_eq!(config.pg.unix_socket_mode(), 0o777);
    refuse("data = 'd'\n[pg]\nunix_socket_permissions = '0666'", &[], &[("pg.unix_socket_permissions", "0770")]);
}

#[test]
fn the_example_is_valid_and_says_the_defaults() {
    let (_folder, sources) = sources(Some(&example()), &[("LANCEGATE_DATA", "d")], &[]);
    let from_example = Config::load(sources).unwrap();
    let (_folder, sources) = self::sources(None, &[("LANCEGATE_DATA", "d")], &[]);
    let from_defaults = Config::load(sources).unwrap();
    assert_eq!(format!("{from_example:?}"), format!("{from_defaults:?}"));
}

#[test]
fn the_example_with_every_sample_switched_on_is_valid() {
    let switched_on: String = example()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest)
                if rest.starts_with("[[") || rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) =>
            {
                rest
            }
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n");
    let config = load(&switched_on, &[], &[]).unwrap();
    assert_eq!(config.data, "./mydata");
    assert_eq!(config.gpu_classes().len(), 2);
    assert!(config.pg.tls().is_some());
}
