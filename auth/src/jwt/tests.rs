use jsonwebtoken::EncodingKey;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use serde_json::{Value, json};

use super::*;

/// A key pair for tests only (RFC 8037, appendix A).
const ED25519_PKCS8: [u8; 48] = {
    let mut der = [0; 48];
    let head = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    let seed = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
        0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
    ];
    let mut at = 0;
    while at < 48 {
        der[at] = if at < 16 { head[at] } else { seed[at - 16] };
        at += 1;
    }
    der
};
const ED25519_PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const NOW: u64 = 1_900_000_000;

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token of texts, signed with the test's key whatever its header says.
fn token(header: &str, claims: &str) -> String {
    let signed = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.as_bytes()));
    let key = EncodingKey::from_ed_der(&ED25519_PKCS8);
    let signer = (DEFAULT_PROVIDER.signer_factory)(&jsonwebtoken::Algorithm::EdDSA, &key).unwrap();
    let signature = signer.try_sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", encoded(&signature))
}

fn keys() -> KeySet {
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "x": ED25519_PUBLIC}]});
    KeySet::parse(set.to_string().as_bytes()).unwrap()
}

fn issuer() -> Issuer {
    Issuer {
        issuer: "https://id.example".to_owned(),
        audiences: vec!["lancegate".to_owned()],
        algorithms: vec![Algorithm::EdDSA, Algorithm::RS256],
        user_claim: "sub".to_owned(),
        scopes: Vec::new(),
        leeway_seconds: 10,
    }
}

const HEADER: &str = r#"{"alg":"EdDSA","kid":"1","typ":"JWT"}"#;

fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": "lancegate", "sub": "ann", "exp": NOW + 60, "nbf": NOW, "iat": NOW})
}

fn verified(token: &str, issuer: &Issuer) -> Result<Token, TokenError> {
    UntrustedToken::read(token)?.verify(issuer, &keys(), NOW)
}

/// Checks a token with one claim changed; `null` in the patch takes it out.
fn with(name: &str, value: Value) -> Result<Token, TokenError> {
    let mut claims = claims();
    match value {
        Value::String(absent) if absent == "absent" => {
            claims.as_object_mut().unwrap().remove(name);
        }
        value => claims[name] = value,
    }
    verified(&token(HEADER, &claims.to_string()), &issuer())
}

#[test]
fn a_token_of_the_issuer_is_its_subject() {
    let token = verified(&token(HEADER, &claims().to_string()), &issuer()).unwrap();
    assert_eq!((token.identity.as_str(), token.subject.as_str()), ("ann", "ann"));
    assert_eq!((token.expires_at, token.issuer.as_str()), (NOW + 70, "https://id.example"));
}

#[test]
fn a05_the_token_does_not_choose_how_it_is_checked() {
    for name in ["none", "None", "NONE", "nOnE", "HS256", "HS384", "HS512", "", "eddsa", "ES512"] {
        let header = json!({"alg": name, "kid": "1"}).to_string();
        let error = UntrustedToken::read(&token(&header, &claims().to_string())).unwrap_err();
        assert_eq!(error, TokenError::Algorithm, "{name}");
    }
    for header in [r#"{"kid":"1"}"#, r#"{"alg":null}"#, r#"{"alg":["EdDSA"]}"#, r#"{"alg":1}"#] {
        assert_eq!(UntrustedToken::read(&token(header, "{}")).unwrap_err(), TokenError::Algorithm, "{header}");
    }
    let unsigned = format!("{}.{}.", encoded(br#"{"alg":"none"}"#), encoded(claims().to_string().as_bytes()));
    assert_eq!(verified(&unsigned, &issuer()), Err(TokenError::Algorithm));
    // Allowed, but not for this key; supported, but not allowed.
    for (name, expected) in
        [("RS256", TokenError::UnknownKey), ("PS256", TokenError::Algorithm), ("ES256", TokenError::Algorithm)]
    {
        let header = json!({"alg": name, "kid": "1"}).to_string();
        assert_eq!(verified(&token(&header, &claims().to_string()), &issuer()), Err(expected), "{name}");
    }
}

#[test]
fn a05_a_changed_token_has_no_signature() {
    let good = token(HEADER, &claims().to_string());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let header = signed.split_once('.').unwrap().0;
    let mut other = claims();
    other["sub"] = json!("lancegate");
    let forged = format!("{header}.{}.{signature}", encoded(other.to_string().as_bytes()));
    assert_eq!(verified(&forged, &issuer()), Err(TokenError::Signature));
    assert_eq!(verified(&format!("{signed}."), &issuer()), Err(TokenError::Signature));
    assert_eq!(verified(&format!("{signed}.{}", encoded(&[0; 64])), &issuer()), Err(TokenError::Signature));
    let longer = [URL_SAFE_NO_PAD.decode(signature).unwrap(), vec![0]].concat();
    assert_eq!(verified(&format!("{signed}.{}", encoded(&longer)), &issuer()), Err(TokenError::Signature));
    for malformed in ["", ".", "..", "a.b", &good[1..], &format!("{good}."), &format!("{good}="), "é.é.é"] {
        assert_eq!(verified(malformed, &issuer()), Err(TokenError::Malformed), "{malformed}");
    }
    let long = format!("{}.{}.x", encoded(HEADER.as_bytes()), "A".repeat(TOKEN_BYTES_MAX));
    assert_eq!(verified(&long, &issuer()), Err(TokenError::TooLong));
}

#[test]
fn a06_a_header_names_a_key_and_nothing_else() {
    let check = |more: Value, expected: Result<(), TokenError>| {
        let mut header: Value = serde_json::from_str(HEADER).unwrap();
        header.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let result = verified(&token(&header.to_string(), &claims().to_string()), &issuer());
        assert_eq!(result.map(|_| ()), expected, "{more}");
    };
    for id in ["../../etc/passwd", "' or 1=1", "2", ""] {
        check(json!({"kid": id}), Err(TokenError::UnknownKey));
    }
    check(json!({"kid": "x".repeat(1 << 10)}), Err(TokenError::KeyId));
    check(json!({"kid": 1}), Err(TokenError::KeyId));
    check(json!({"kid": null}), Err(TokenError::KeyId));
    check(json!({"crit": ["x"]}), Err(TokenError::Header));
    check(json!({"crit": []}), Err(TokenError::Header));
    check(json!({"b64": false}), Err(TokenError::Header));
    check(json!({"typ": "logout+jwt"}), Err(TokenError::Header));
    check(json!({"typ": 1}), Err(TokenError::Header));
    check(json!({"typ": "at+JWT"}), Ok(()));
    // What would bring a key along is not looked at.
    let own = json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(&[1; 32])});
    check(json!({"jku": "https://evil.example", "x5u": "https://evil.example", "jwk": own, "x5c": ["AA=="]}), Ok(()));
    // Without an id, the one key that fits.
    let header = r#"{"alg":"EdDSA"}"#;
    assert!(verified(&token(header, &claims().to_string()), &issuer()).is_ok());
    let twice = r#"{"alg":"EdDSA","alg":"EdDSA","kid":"1"}"#;
    assert_eq!(verified(&token(twice, &claims().to_string()), &issuer()), Err(TokenError::Malformed));
}

#[test]
fn a07_times_are_numbers_and_within_the_leeway() {
    let (expired, not_yet) = (Err(TokenError::Expired), Err(TokenError::NotYet));
    for (name, value, expected) in [
        ("exp", json!(NOW - 9), Ok(())),
        ("exp", json!(NOW - 10), expired),
        ("exp", json!(NOW - 11), expired),
        ("exp", json!(0), expired),
        ("exp", json!(NOW as f64 + 0.5), Ok(())),
        ("exp", json!((NOW + 60).to_string()), Err(TokenError::Claim("exp"))),
        ("exp", json!(-1), Err(TokenError::Claim("exp"))),
        ("exp", json!(-1.5), Err(TokenError::Claim("exp"))),
        ("exp", json!(1e300), Err(TokenError::Claim("exp"))),
        ("exp", json!(u64::MAX), Err(TokenError::Claim("exp"))),
        ("exp", json!(null), Err(TokenError::Claim("exp"))),
        ("exp", json!(true), Err(TokenError::Claim("exp"))),
        ("exp", json!([NOW + 60]), Err(TokenError::Claim("exp"))),
        ("exp", json!("absent"), Err(TokenError::Claim("exp"))),
        ("nbf", json!(NOW + 10), Ok(())),
        ("nbf", json!(NOW + 11), not_yet),
        ("nbf", json!("soon"), Err(TokenError::Claim("nbf"))),
        ("nbf", json!(null), Err(TokenError::Claim("nbf"))),
        ("nbf", json!("absent"), Ok(())),
        ("iat", json!(NOW + 11), not_yet),
        ("iat", json!({}), Err(TokenError::Claim("iat"))),
        ("iat", json!("absent"), Ok(())),
    ] {
        assert_eq!(with(name, value.clone()).map(|_| ()), expected.map(|_: ()| ()), "{name} {value}");
    }
    let overflow = r#"{"iss":"https://id.example","aud":"lancegate","sub":"ann","exp":1e400}"#;
    assert_eq!(verified(&token(HEADER, overflow), &issuer()), Err(TokenError::Malformed));
}

#[test]
fn a07_issuer_audience_and_subject_are_ours_and_texts() {
    for (name, value, expected) in [
        ("iss", json!(["https://id.example"]), Err(TokenError::Claim("iss"))),
        ("iss", json!("https://id.example/"), Err(TokenError::Issuer)),
        ("iss", json!("https://ID.example"), Err(TokenError::Issuer)),
        ("iss", json!("absent"), Err(TokenError::Claim("iss"))),
        ("aud", json!(["other", "lancegate"]), Ok(())),
        ("aud", json!(["other"]), Err(TokenError::Audience)),
        ("aud", json!([]), Err(TokenError::Audience)),
        ("aud", json!("Lancegate"), Err(TokenError::Audience)),
        ("aud", json!(["lancegate", 1]), Err(TokenError::Claim("aud"))),
        ("aud", json!({"lancegate": 1}), Err(TokenError::Claim("aud"))),
        ("aud", json!("absent"), Err(TokenError::Claim("aud"))),
        ("sub", json!(7), Err(TokenError::Claim("sub"))),
        ("sub", json!(""), Err(TokenError::Claim("sub"))),
        ("sub", json!("absent"), Err(TokenError::Claim("sub"))),
    ] {
        assert_eq!(with(name, value.clone()).map(|_| ()), expected, "{name} {value}");
    }
    let twice =
        format!(r#"{{"iss":"https://id.example","aud":"lancegate","sub":"ann","sub":"bob","exp":{}}}"#, NOW + 60);
    assert_eq!(verified(&token(HEADER, &twice), &issuer()), Err(TokenError::Malformed));
}

#[test]
fn a09_an_e_mail_address_names_a_user_only_if_it_is_verified() {
    let issuer = Issuer { user_claim: "email".to_owned(), ..issuer() };
    for (more, expected) in [
        (json!({"email": "ann@example.com", "email_verified": true}), Ok("ann@example.com")),
        (json!({"email": "ann@example.com", "email_verified": false}), Err(TokenError::UnverifiedEmail)),
        (json!({"email": "ann@example.com", "email_verified": "true"}), Err(TokenError::UnverifiedEmail)),
        (json!({"email": "ann@example.com"}), Err(TokenError::UnverifiedEmail)),
        (json!({"email": ["ann@example.com"], "email_verified": true}), Err(TokenError::UserClaim)),
        (json!({}), Err(TokenError::UserClaim)),
    ] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let result = verified(&token(HEADER, &claims.to_string()), &issuer).map(|token| token.identity);
        assert_eq!(result.as_deref().map_err(|error| *error), expected, "{more}");
    }
}

#[test]
fn scopes_are_needed_where_they_are_configured() {
    let issuer = Issuer { scopes: vec!["sql".to_owned(), "read".to_owned()], ..issuer() };
    for (more, expected) in [
        (json!({"scope": "read openid sql"}), Ok(())),
        (json!({"scp": ["sql", "read"]}), Ok(())),
        (json!({"scope": "sql reads"}), Err(TokenError::Scope)),
        (json!({"scope": ["sql", "read"]}), Err(TokenError::Scope)),
        (json!({}), Err(TokenError::Scope)),
    ] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(verified(&token(HEADER, &claims.to_string()), &issuer).map(|_| ()), expected, "{more}");
    }
}

#[test]
fn sets_have_only_keys_that_may_sign() {
    let parse = |set: Value| KeySet::parse(set.to_string().as_bytes()).map(|_| ());
    let ed = |more: Value| {
        let mut key = json!({"kty": "OKP", "crv": "Ed25519", "x": ED25519_PUBLIC});
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key
    };
    assert_eq!(parse(json!({"keys": [ed(json!({}))]})), Ok(()));
    assert_eq!(parse(json!({"keys": [{"kty": "new"}, ed(json!({"alg": "EdDSA", "key_ops": ["verify"]}))]})), Ok(()));
    for unusable in [
        ed(json!({"use": "enc"})),
        ed(json!({"key_ops": ["sign"]})),
        ed(json!({"key_ops": "verify"})),
        ed(json!({"alg": "HS256"})),
        ed(json!({"alg": 1})),
        ed(json!({"x": encoded(&[1; 31])})),
        json!({"kty": "oct", "k": encoded(&[1; 32])}),
        json!({"kty": "RSA", "n": encoded(&[255; 128]), "e": "AQAB"}),
        json!({"kty": "RSA", "n": encoded(&[&[0; 200][..], &[255; 128]].concat()), "e": "AQAB"}),
        json!({"kty": "RSA", "n": encoded(&[255; 2048]), "e": "AQAB"}),
        json!({"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"}),
        json!({"kty": "EC", "crv": "P-256", "x": encoded(&[1; 31]), "y": encoded(&[1; 32])}),
        json!("key"),
    ] {
        assert_eq!(parse(json!({"keys": [unusable]})), Err(KeySetError::NoKey), "{unusable}");
    }
    for malformed in [json!({}), json!({"keys": {}}), json!([]), json!("x")] {
        assert_eq!(parse(malformed), Err(KeySetError::Malformed));
    }
    assert_eq!(parse(json!({"keys": vec![ed(json!({})); 101]})), Err(KeySetError::TooLarge));
    assert_eq!(KeySet::parse(&vec![b' '; KEY_SET_BYTES_MAX + 1]).unwrap_err(), KeySetError::TooLarge);
    // A key that is no point of its curve is a wrong signature and no panic.
    let set = json!({"keys": [{"kty": "EC", "crv": "P-256", "x": encoded(&[1; 32]), "y": encoded(&[1; 32])}]});
    let set = KeySet::parse(set.to_string().as_bytes()).unwrap();
    let issuer = Issuer { algorithms: vec![Algorithm::ES256], ..issuer() };
    let read = token(r#"{"alg":"ES256"}"#, &claims().to_string());
    let read = UntrustedToken::read(&read).unwrap();
    assert_eq!(read.verify(&issuer, &set, NOW), Err(TokenError::Signature));
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_token_or_an_error(text in "[A-Za-z0-9_.-]{0,200}") {
        let _ = verified(&text, &issuer());
    }

    #[test]
    fn any_objects_are_a_token_or_an_error(header in ".{0,60}", claims in ".{0,60}") {
        let _ = verified(&token(&header, &claims), &issuer());
    }
}
