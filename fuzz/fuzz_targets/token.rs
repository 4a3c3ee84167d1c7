//! Tokens, sets of keys, messages of OAUTHBEARER and certificates.
#![no_main]

use lancegate_auth::oauthbearer::first;
use lancegate_auth::{Algorithm, CertificateNames, Issuer, KeySet, UntrustedToken};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (&str, &[u8])| {
    let (token, bytes) = data;
    let _ = first(bytes);
    let _ = CertificateNames::read(bytes);
    let keys = KeySet::parse(bytes);
    let issuer = Issuer {
        issuer: "i".to_owned(),
        audiences: vec!["a".to_owned()],
        algorithms: Algorithm::ALL.to_vec(),
        user_claim: "sub".to_owned(),
        scopes: Vec::new(),
        leeway_seconds: 10,
    };
    if let (Ok(token), Ok(keys)) = (UntrustedToken::read(token), keys) {
        let _ = token.verify(&issuer, &keys, 1_900_000_000);
    }
});
