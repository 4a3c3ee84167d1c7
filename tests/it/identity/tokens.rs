//! Tokens of an identity provider that the test starts: as a password, by
//! OAUTHBEARER, and over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use super::pki::{Pki, secured};
use super::provider::{Provider, SigningKey, encoded, now};
use super::{Files, key, over_tcp, psql};
use crate::harness::{Gateway, until};
use crate::rows::run;
use crate::wire::raw::{Raw, message, startup};

const REFUSED: &str = "JWT authentication failed for user \"ann\"";

/// A gateway with user `ann`, who proves herself by a token of the provider.
struct Setting {
    gateway: Gateway,
    provider: Provider,
    signing: SigningKey,
    pki: Pki,
    _files: Files,
}

impl Setting {
    async fn new(method: &str, issuer: &str) -> Self {
        let signing = SigningKey::new("1");
        let provider = Provider::start(&[&signing]).await;
        let (files, pki) = (Files::new(), Pki::new());
        let rules = files.write("hba.conf", &format!("hostssl all ann all {method}\nhost all all all scram-sha-256\n"));
        let maps = files.write("ident.conf", "corp *@example.com *\n");
        let pg = format!("[pg]\n{}{}{}", key("hba_file", &rules), key("ident_file", &maps), pki.server());
        let gateway = Gateway::start_with(&format!("{pg}{}", provider.issuer(issuer)));
        let admin = gateway.connect().await;
        run(&admin, "CREATE USER ann; GRANT USAGE ON DATABASE lancegate TO USER ann").await;
        Self { gateway, provider, signing, pki, _files: files }
    }

    /// Tries a token in the password field.
    async fn tries(&self, token: &str) -> (bool, String) {
        let (connection, token) = (over_tcp(&self.gateway, "ann", "sslmode=require"), token.to_owned());
        tokio::task::spawn_blocking(move || psql(&connection, &token, "SELECT current_user")).await.unwrap()
    }

    async fn expect_in(&self, token: &str) {
        assert_eq!(self.tries(token).await, (true, "ann\n".to_owned()));
    }

    async fn expect_refused(&self, token: &str, what: &str) {
        let (succeeded, said) = self.tries(token).await;
        assert!(!succeeded && said.contains(REFUSED), "{what}: {said}");
    }

    /// [`Self::expect_refused`], and lets a good token in, so that failures do not add up to
    /// a wait.
    async fn expect_refused_once(&self, token: &str, what: &str) {
        self.expect_refused(token, what).await;
        self.expect_in(&self.provider.token(&self.signing, "ann")).await;
    }

    /// Signs good claims with one of them changed; `null` takes it out.
    fn changed(&self, name: &str, value: Value) -> String {
        let mut claims = self.provider.claims("ann");
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        self.signing.sign(&self.signing.header(), &claims)
    }

    fn log_has(&self, text: &str) {
        assert!(self.gateway.log().contains(text), "{text:?} is not in the log");
    }
}

#[tokio::test]
async fn a07_a_token_in_the_password_field_says_who_until_when_and_for_whom() {
    let it = Setting::new("jwt", "").await;
    let good = it.provider.token(&it.signing, "ann");
    it.expect_in(&good).await;
    assert_eq!(it.provider.asked("/keys"), 1);
    it.expect_in(&good).await;
    assert_eq!(it.provider.asked("/keys"), 1, "keys are kept");
    for (what, token) in [
        ("expired", it.changed("exp", json!(now() - 11))),
        ("exp as text", it.changed("exp", json!((now() + 60).to_string()))),
        ("no exp", it.changed("exp", Value::Null)),
        ("not yet", it.changed("nbf", json!(now() + 60))),
        ("issued later", it.changed("iat", json!(now() + 60))),
        ("other audience", it.changed("aud", json!(["other"]))),
        ("no audience", it.changed("aud", Value::Null)),
        ("other issuer", it.changed("iss", json!("https://evil.example"))),
        ("issuer as list", it.changed("iss", json!([it.provider.url]))),
        ("no subject", it.changed("sub", Value::Null)),
        ("subject as number", it.changed("sub", json!(7))),
        ("other user", it.provider.token(&it.signing, "lancegate")),
        ("user that is not there", it.provider.token(&it.signing, "nobody")),
        ("look-alike", it.provider.token(&it.signing, "\u{0430}nn")),
        ("other case", it.provider.token(&it.signing, "Ann")),
        ("no token", "a password".to_owned()),
        ("empty parts", "..".to_owned()),
        ("cut", good[..good.len() - 4].to_owned()),
        ("long", "x".repeat(60_000)),
    ] {
        it.expect_refused_once(&token, what).await;
    }
    it.expect_in(&it.changed("aud", json!(["other", "lancegate"]))).await;
    it.log_has("the token has expired");
    it.log_has("the token is for another audience");
    let log = it.gateway.log();
    assert!(!log.contains(&good) && !log.contains(good.split('.').next_back().unwrap()), "a token is in the log");
    assert_eq!(it.provider.asked("/keys"), 1, "nothing of this is a reason to ask for keys");
}

#[tokio::test]
async fn a05_a06_a_token_does_not_say_how_it_is_checked() {
    let it = Setting::new("jwt", "").await;
    let claims = it.provider.claims("ann");
    let unsigned = |algorithm: &str| {
        let header = json!({"alg": algorithm, "kid": "1"}).to_string();
        format!("{}.{}.", encoded(header.as_bytes()), encoded(claims.to_string().as_bytes()))
    };
    for algorithm in ["none", "None", "NONE"] {
        it.expect_refused(&unsigned(algorithm), algorithm).await;
    }
    // Signed by HMAC with the public key, as a verifier that trusts `alg` would check it.
    let public = it.signing.public();
    for secret in [public.to_string(), public["x"].as_str().unwrap().to_owned()] {
        let header = json!({"alg": "HS256", "kid": "1"}).to_string();
        let signed = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.to_string().as_bytes()));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let tag = ring::hmac::sign(&key, signed.as_bytes());
        it.expect_refused(&format!("{signed}.{}", encoded(tag.as_ref())), "HS256").await;
    }
    assert_eq!(it.provider.asked("/keys"), 0, "no key makes these good, so none is asked for");
    let stranger = SigningKey::new("1");
    it.expect_refused(&it.provider.token(&stranger, "ann"), "signed by a stranger").await;
    let with = |name: &str, value: Value| {
        let mut header = it.signing.header();
        header[name] = value;
        it.signing.sign(&header, &claims)
    };
    for (name, value) in [
        ("alg", json!("ES384")),
        ("alg", json!("RS256")),
        ("kid", json!("../../etc/passwd")),
        ("kid", json!("' or 1=1")),
        ("kid", json!("x".repeat(10_000))),
        ("crit", json!(["x"])),
        ("b64", json!(false)),
    ] {
        it.expect_refused_once(&with(name, value.clone()), &format!("{name} {value}")).await;
    }
    // A key that the token brings along, or an address of one, counts for nothing.
    let evil = Provider::start(&[&stranger]).await;
    for (name, value) in
        [("jku", json!(format!("{}/keys", evil.url))), ("jwk", stranger.public()), ("x5u", json!(evil.url))]
    {
        let mut header = stranger.header();
        header[name] = value;
        it.expect_refused(&stranger.sign(&header, &claims), name).await;
        it.expect_in(&with(name, json!("ignored"))).await;
    }
    assert!(evil.served().asked.is_empty());
}

#[tokio::test]
async fn a08_keys_that_are_replaced_are_found_and_those_that_are_gone_are_not() {
    let it = Setting::new("jwt", "").await;
    let old = it.provider.token(&it.signing, "ann");
    it.expect_in(&old).await;
    let fresh = SigningKey::new("2");
    it.provider.publish(&[&fresh]);
    // An unknown key is asked for at once; with the answer the old one is gone.
    it.expect_in(&it.provider.token(&fresh, "ann")).await;
    assert_eq!(it.provider.asked("/keys"), 2);
    it.expect_refused(&old, "removed key").await;
    // However many unknown keys there are, they are not asked for again.
    for number in 0..4 {
        let unknown = SigningKey::new(&format!("unknown {number}"));
        let verified = reqwest::Client::new().get(it.gateway.http_url("/v1/table/"));
        let status = verified.bearer_auth(it.provider.token(&unknown, "ann")).send().await.unwrap().status();
        assert_eq!(status, 401);
    }
    assert_eq!(it.provider.asked("/keys"), 2);
    it.expect_in(&it.provider.token(&fresh, "ann")).await;
    // Whoever operates the gateway can have them asked for.
    let third = SigningKey::new("3");
    it.provider.publish(&[&third]);
    it.gateway.signal("HUP");
    let token = it.provider.token(&third, "ann");
    until("the new key", async || it.tries(&token).await.0.then_some(())).await;
}

#[tokio::test]
async fn a08_a_provider_that_fails_leaves_its_old_keys_in_use() {
    let it = Setting::new("jwt", "refresh_interval = '30s'").await;
    let good = it.provider.token(&it.signing, "ann");
    for (what, change) in [
        ("500", Box::new(|p: &Provider| p.served().status = Some(500)) as Box<dyn Fn(&Provider)>),
        ("no JSON", Box::new(|p: &Provider| p.set("/keys", "keys".to_owned()))),
        ("too long", Box::new(|p: &Provider| p.set("/keys", format!("{{\"keys\": [{}]}}", " ".repeat(10 << 20))))),
        (
            "other issuer",
            Box::new(|p: &Provider| {
                p.set(
                    "/.well-known/openid-configuration",
                    json!({"issuer": "https://evil.example", "jwks_uri": p.url}).to_string(),
                )
            }),
        ),
        (
            "unsafe place",
            Box::new(|p: &Provider| {
                p.set(
                    "/.well-known/openid-configuration",
                    json!({"issuer": p.url, "jwks_uri": "http://example.com/keys"}).to_string(),
                )
            }),
        ),
        ("redirect", Box::new(|p: &Provider| p.served().redirect = Some("/keys".to_owned()))),
    ] {
        let failing = Setting::new("jwt", "").await;
        change(&failing.provider);
        failing.expect_refused(&failing.provider.token(&failing.signing, "ann"), what).await;
        failing.log_has("the keys of an issuer cannot be had");
    }
    it.expect_in(&good).await;
    it.provider.served().status = Some(500);
    it.gateway.signal("HUP");
    let failed = async || {
        it.expect_in(&good).await;
        it.gateway.log().contains("the keys of an issuer cannot be had").then_some(())
    };
    until("a question that failed", failed).await;
    it.expect_in(&good).await;
}

#[tokio::test]
async fn a08_a_provider_that_hangs_holds_up_nobody_else() {
    let it = Setting::new("jwt", "").await;
    let good = it.provider.token(&it.signing, "ann");
    it.expect_in(&good).await;
    it.provider.served().delay = Duration::from_secs(30);
    let unknown = it.provider.token(&SigningKey::new("unknown"), "ann");
    let mut waiting = std::pin::pin!(it.tries(&unknown));
    let others = async {
        let asked = async || (it.provider.asked("/.well-known/openid-configuration") > 1).then_some(());
        until("the question", asked).await;
        it.expect_in(&good).await;
        it.gateway.connect().await;
    };
    tokio::select! {
        _ = &mut waiting => panic!("the others waited for the provider, or nobody asked it"),
        () = others => {}
    }
    let (succeeded, said) = waiting.await;
    assert!(!succeeded && said.contains(REFUSED), "{said}");
}

#[tokio::test]
async fn a09_a_mail_address_is_a_user_only_through_a_map_and_verified() {
    let it = Setting::new("jwt map=corp", "user_claim = 'email'").await;
    let token = |email: &str, verified: Value| {
        let mut claims = it.provider.claims("7f3a");
        claims["email"] = json!(email);
        claims["email_verified"] = verified;
        it.signing.sign(&it.signing.header(), &claims)
    };
    it.expect_in(&token("ann@example.com", json!(true))).await;
    it.expect_refused(&token("ann@example.com", json!(false)), "unverified").await;
    it.expect_refused(&token("ann@example.com", json!("true")), "verified as text").await;
    it.expect_refused(&token("bob@example.com", json!(true)), "of another").await;
    it.expect_refused(&token("ann@example.com.evil", json!(true)), "of another domain").await;
    it.expect_refused(&token("ann", json!(true)), "no address").await;
}

#[tokio::test]
async fn t19_a_session_ends_with_its_token() {
    let it = Setting::new("jwt", "").await;
    let token = it.changed("exp", json!(now() + 3));
    let connection = over_tcp(&it.gateway, "ann", "sslmode=require");
    let endless = crate::wire::session::ENDLESS;
    let (succeeded, said) = tokio::task::spawn_blocking(move || psql(&connection, &token, endless)).await.unwrap();
    assert!(!succeeded && said.contains("terminating connection because its credentials have expired"), "{said}");
}

#[tokio::test]
async fn a14_a_flood_of_wrong_tokens_is_refused() {
    let it = Setting::new("jwt", "").await;
    let garbage = format!("{}.{}.x", "A".repeat(30_000), "B".repeat(30_000));
    let began_at = std::time::Instant::now();
    let tries = futures::future::join_all((0..20).map(|_| it.tries(&garbage))).await;
    assert!(tries.iter().all(|(succeeded, said)| !succeeded && said.contains(REFUSED)), "{tries:?}");
    eprintln!("20 garbage tokens of 60 KB took {:?}", began_at.elapsed());
    it.expect_in(&it.provider.token(&it.signing, "ann")).await;
}

#[tokio::test]
async fn a_token_is_never_asked_for_in_the_clear() {
    let it = Setting::new("jwt", "").await;
    let mut raw = Raw::open(it.gateway.pg_addr()).await;
    raw.send(&startup(0, &[("user", "ann"), ("database", "lancegate")])).await;
    // The rule is for TLS, so the next one decides, and wants SCRAM.
    let offer = raw.next().await.unwrap();
    assert_eq!((offer.kind, &offer.body[..4]), ('R', &10_u32.to_be_bytes()[..]));
}

/// Sends a first message of OAUTHBEARER and returns what comes back.
async fn oauth(it: &Setting, data: &[u8]) -> Raw<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
    let mut raw = Raw::over(secured(&it.gateway, it.pki.client_config(None)).await.unwrap());
    raw.send(&startup(2, &[("user", "ann"), ("database", "lancegate")])).await;
    let offer = raw.next().await.unwrap();
    assert_eq!(offer.body, [&10_u32.to_be_bytes()[..], b"OAUTHBEARER\0\0"].concat());
    let first = [b"OAUTHBEARER\0", &(data.len() as u32).to_be_bytes()[..], data].concat();
    raw.send(&message(b'p', &first)).await;
    raw
}

#[tokio::test]
async fn oauthbearer_lets_a_token_in_and_tells_others_where_tokens_are() {
    let it = Setting::new("oauth", "scope = 'openid sql'").await;
    let mut claims = it.provider.claims("ann");
    claims["scope"] = json!("sql openid");
    let good = it.signing.sign(&it.signing.header(), &claims);
    let mut raw = oauth(&it, format!("n,,\x01auth=Bearer {good}\x01\x01").as_bytes()).await;
    let replies = raw.until_ready().await;
    assert_eq!((replies[0].kind, &replies[0].body[..]), ('R', &0_u32.to_be_bytes()[..]));
    assert_eq!(replies.last().unwrap().kind, 'Z');
    assert_eq!(raw.query("SELECT current_user").await[1].row(), [Some("ann".to_owned())]);

    let without_scope = it.provider.token(&it.signing, "ann");
    for data in ["n,,\x01auth=\x01\x01".to_owned(), format!("y,,\x01auth=Bearer {without_scope}\x01\x01")] {
        let mut raw = oauth(&it, data.as_bytes()).await;
        let told = raw.next().await.unwrap();
        assert_eq!(told.body[..4], 11_u32.to_be_bytes());
        let told: Value = serde_json::from_slice(&told.body[4..]).unwrap();
        let discovery = format!("{}/.well-known/openid-configuration", it.provider.url);
        assert_eq!(told, json!({"status": "invalid_token", "openid-configuration": discovery, "scope": "openid sql"}));
        raw.send(&message(b'p', b"\x01")).await;
        raw.expect_fatal("28000").await;
    }
    for (data, code) in [
        (&b"n,,auth=\x01\x01"[..], "08P01"),
        (b"p=tls-server-end-point,,\x01auth=\x01\x01", "08P01"),
        (b"n,a=lancegate,\x01auth=\x01\x01", "08P01"),
        (b"", "08P01"),
    ] {
        oauth(&it, data).await.expect_fatal(code).await;
    }
    let mut raw = oauth(&it, b"n,,\x01auth=\x01\x01").await;
    raw.next().await.unwrap();
    raw.send(&message(b'p', b"more")).await;
    raw.expect_fatal("08P01").await;
    // Another mechanism is not on offer.
    let mut raw = it.pki.secure(&it.gateway).await;
    raw.send(&startup(0, &[("user", "ann"), ("database", "lancegate")])).await;
    raw.next().await.unwrap();
    raw.send(&message(b'p', b"SCRAM-SHA-256\0\0\0\0\x01n")).await;
    raw.expect_fatal("08P01").await;
}

#[tokio::test]
async fn requests_bring_tokens_and_keys() {
    let it = Setting::new("jwt", "").await;
    let get = async |token: &str| {
        let request = reqwest::Client::new().get(it.gateway.http_url("/v1/table/")).bearer_auth(token);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(get(&it.provider.token(&it.signing, "ann")).await, 200);
    assert_eq!(get(&it.provider.token(&it.signing, "nobody")).await, 401);
    assert_eq!(get(&it.changed("exp", json!(now() - 60))).await, 401);
    assert_eq!(get(&it.changed("aud", json!("other"))).await, 401);
    assert_eq!(get("a.b.c").await, 401);
    assert_eq!(get(&crate::rest::api_key(&it.gateway, "k").await).await, 200);
    run(&it.gateway.connect().await, "ALTER USER ann VALID UNTIL '2020-01-01'").await;
    assert_eq!(get(&it.provider.token(&it.signing, "ann")).await, 401);
}
