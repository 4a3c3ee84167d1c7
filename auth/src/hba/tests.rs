use super::*;

fn rules(text: &str) -> Rules {
    Rules::parse(text).unwrap()
}

/// The method of the first rule that fits, and its line.
fn decided(rules: &Rules, channel: Channel, address: &str, database: &str, user: &str) -> Option<(usize, Method)> {
    let roles = [RoleName::parse("admins").unwrap()];
    let claim = Claim {
        channel,
        address: (channel != Channel::Local).then(|| address.parse().unwrap()),
        database,
        user,
        roles: if user == "ann" { &roles } else { &[] },
    };
    rules.first(&claim).map(|rule| (rule.line, rule.method))
}

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = rules(
        "local   all       all                          peer\n\
         host    all       mallory    all               reject\n\
         hostssl shop,all  +admins    10.0.0.0/8        cert\n\
         hostssl sameuser  all        0.0.0.0/0         jwt issuer=https://id.example map=corp\n\
         hostnossl shop    \"all\"      127.0.0.1 255.255.255.255 scram-sha-256\n\
         host    shop      all        samehost          scram-sha-256\n\
         host    replication all      all               scram-sha-256\n",
    );
    let check = |channel, address, database, user, expected: Option<(usize, Method)>| {
        assert_eq!(
            decided(&rules, channel, address, database, user),
            expected,
            "{channel:?} {address} {database} {user}"
        );
    };
    check(Channel::Local, "", "shop", "ann", Some((1, Method::Peer)));
    check(Channel::Local, "", "shop", "mallory", Some((1, Method::Peer)));
    check(Channel::Plain, "127.0.0.1", "shop", "mallory", Some((2, Method::Reject)));
    check(Channel::Tls, "10.1.1.1", "shop", "ann", Some((3, Method::Certificate)));
    check(Channel::Tls, "10.1.1.1", "shop", "admins", Some((3, Method::Certificate)));
    check(Channel::Tls, "10.1.1.1", "shop", "bob", None);
    check(Channel::Tls, "10.1.1.1", "bob", "bob", Some((4, Method::Jwt)));
    check(Channel::Tls, "fe80::1", "bob", "bob", None);
    check(Channel::Plain, "127.0.0.1", "shop", "all", Some((5, Method::ScramSha256)));
    check(Channel::Plain, "::ffff:127.0.0.1", "shop", "all", Some((5, Method::ScramSha256)));
    check(Channel::Plain, "127.0.0.1", "shop", "bob", Some((6, Method::ScramSha256)));
    check(Channel::Plain, "192.168.0.1", "shop", "bob", None);
    check(Channel::Plain, "192.168.0.1", "replication", "bob", None);
    assert!(rules.asks_roles() && !Rules::parse(DEFAULT).unwrap().asks_roles());
    let token = rules.iter().nth(3).unwrap();
    assert_eq!((token.issuer.as_deref(), token.map.as_deref()), (Some("https://id.example"), Some("corp")));
}

#[test]
fn the_defaults_are_passwords_for_everybody() {
    let rules = rules(DEFAULT);
    for channel in [Channel::Local, Channel::Plain, Channel::Tls] {
        assert_eq!(decided(&rules, channel, "10.0.0.1", "d", "u").unwrap().1, Method::ScramSha256);
    }
}

#[test]
fn one_line_that_is_not_understood_refuses_the_file() {
    for (line, expected) in [
        ("hosts all all all reject", "invalid connection type \"hosts\""),
        ("hostgssenc all all all reject", "GSSAPI"),
        ("include other.conf", "including"),
        ("host", "end of line before the database"),
        ("host all", "end of line before the user"),
        ("host all all", "end of line before the address"),
        ("host all all all", "end of line before the authentication method"),
        ("host all all 127.0.0.1 reject", "invalid IP mask \"reject\""),
        ("host all all 127.0.0.1", "end of line before the mask"),
        ("host all all 127.0.0.1/33 reject", "invalid CIDR mask"),
        ("host all all ::1/x reject", "invalid CIDR mask"),
        ("host all all example.com reject", "host names are not supported"),
        ("host all all samenet reject", "samenet"),
        ("host,hostssl all all all reject", "a list stands"),
        ("host all all all reject,peer", "a list stands"),
        ("host all /^a all reject", "regular expressions"),
        ("host @dbs all all reject", "lists in other files"),
        ("host all + all reject", "names no role"),
        ("local all all trust", "\"trust\" is not supported"),
        ("host all all all md5", "use scram-sha-256"),
        ("host all all all password", "use scram-sha-256"),
        ("host all all all ldap", "\"ldap\" is not supported"),
        ("host all all all magic", "invalid authentication method \"magic\""),
        ("host all all all peer", "only supported on local"),
        ("host all all all cert", "only supported on hostssl"),
        ("host all all all jwt", "only supported on hostssl"),
        ("local all all oauth", "only supported on hostssl"),
        ("host all all 10.0.0.0/8 api-key", "sends the key itself"),
        ("hostnossl all all all api-key", "sends the key itself"),
        ("host all all all reject x", "not in name=value format"),
        ("host all all all reject x=1", "unrecognized authentication option name: \"x\""),
        ("host all all all scram-sha-256 map=m", "not valid here"),
        ("hostssl all all all scram-sha-256 issuer=i", "not valid here"),
        ("host all all all scram-sha-256 clientcert=verify-ca", "not valid here"),
        ("hostssl all all all scram-sha-256 clientcert=1", "invalid value for clientcert"),
        ("hostssl all all all cert clientcert=verify-ca", "always takes"),
        ("hostssl all all all jwt map=a map=b", "stands twice"),
        ("hostssl all all all jwt map=", "has no value"),
        ("host \"all all all reject", "a quote is not closed"),
    ] {
        let text = format!("local all all peer\n{line}\nhost all all all reject\n");
        let error = Rules::parse(&text).unwrap_err();
        assert_eq!(error.0.len(), 1, "{line}: {error}");
        assert!(error.0[0].line == 2 && error.0[0].what.contains(expected), "{line}: {error}");
    }
}

#[test]
fn api_keys_may_go_where_nobody_listens() {
    for line in [
        "hostssl all all all api-key",
        "local all all api-key",
        "host all all 127.0.0.1/32 api-key",
        "hostnossl all all ::1/128 api-key",
        "host all all samehost api-key",
    ] {
        assert_eq!(rules(line).iter().next().unwrap().method, Method::ApiKey, "{line}");
    }
}

#[test]
fn a_file_without_rules_or_without_end_is_refused() {
    assert!(Rules::parse("# nothing\n").unwrap_err().to_string().contains("there is no rule"));
    assert!(Rules::parse(&"#".repeat(FILE_BYTES_MAX + 1)).unwrap_err().to_string().contains("longer than"));
}

#[test]
fn all_wrong_lines_are_named_at_once() {
    let error = Rules::parse("host\nlocal all all peer\nlocal all all trust").unwrap_err();
    assert_eq!(error.0.iter().map(|error| error.line).collect::<Vec<_>>(), [1, 3]);
    assert!(error.to_string().starts_with("line 1: end of line before the database; line 3: "), "{error}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_rules_or_an_error(text in "(?s)[ -~\n\t\"\\\\ü]{0,200}") {
        let _ = Rules::parse(&text);
    }

    #[test]
    fn words_of_the_format_in_any_order_never_panic(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "host", "local", "all", "hostssl", "\"", ",", "/", "127.0.0.1", "127.0.0.1/8", "::/0", "255.0.0.0",
                "jwt", "cert", "map=", "clientcert=verify-full", "=", "+", "+r", "#", "\\\n", "\n",
            ]),
            0..30,
        )
    ) {
        let _ = Rules::parse(&words.join(" "));
    }
}
