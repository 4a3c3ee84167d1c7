//! An identity provider on this machine: keys, tokens, and the documents that a
//! gateway asks for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

/// A provider that answers as long as its test runs.
pub(crate) struct Provider {
    pub(crate) url: String,
    state: Arc<Mutex<Served>>,
}

/// What the provider answers with.
#[derive(Default)]
pub(crate) struct Served {
    /// Bodies by path; anything else is 404.
    pub(crate) documents: HashMap<String, String>,
    pub(crate) status: Option<u16>,
    pub(crate) redirect: Option<String>,
    pub(crate) delay: Duration,
    /// The paths that were asked for.
    pub(crate) asked: Vec<String>,
}

/// A key pair that signs tokens.
pub(crate) struct SigningKey {
    id: String,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    pub(crate) fn new(id: &str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self { id: id.to_owned(), pair: EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap() }
    }

    /// Returns the public half as a provider publishes it.
    pub(crate) fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id, "x": encoded(x), "y": encoded(y)})
    }

    pub(crate) fn header(&self) -> Value {
        json!({"alg": "ES256", "typ": "JWT", "kid": self.id})
    }

    /// Signs a token whatever it says.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| encoded(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encoded(signature.as_ref()))
    }
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Provider {
    /// Starts a provider that publishes these keys, and where they are.
    pub(crate) async fn start(keys: &[&SigningKey]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(Served::default()));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let provider = Self { url, state };
        provider.publish(keys);
        let discovery = json!({"issuer": provider.url, "jwks_uri": format!("{}/keys", provider.url)});
        provider.set("/.well-known/openid-configuration", discovery.to_string());
        provider
    }

    pub(crate) fn publish(&self, keys: &[&SigningKey]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
        self.set("/keys", json!({"keys": keys}).to_string());
    }

    pub(crate) fn set(&self, path: &str, document: String) {
        self.served().documents.insert(path.to_owned(), document);
    }

    pub(crate) fn served(&self) -> MutexGuard<'_, Served> {
        self.state.lock().unwrap()
    }

    /// Returns how often a path was asked for.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.served().asked.iter().filter(|asked| *asked == path).count()
    }

    /// Returns the block of TOML that trusts it.
    pub(crate) fn issuer(&self, more: &str) -> String {
        format!("[[jwt_issuers]]\nissuer = '{}'\naudience = 'lancegate'\n{more}\n", self.url)
    }

    /// Returns what a good token of a user says.
    pub(crate) fn claims(&self, user: &str) -> Value {
        json!({"iss": self.url, "aud": "lancegate", "sub": user, "iat": now(), "exp": now() + 300})
    }

    /// Returns a good token of a user.
    pub(crate) fn token(&self, key: &SigningKey, user: &str) -> String {
        key.sign(&key.header(), &self.claims(user))
    }
}

async fn answer(State(state): State<Arc<Mutex<Served>>>, uri: Uri) -> Response {
    let (delay, response) = {
        let mut served = state.lock().unwrap();
        served.asked.push(uri.path().to_owned());
        let response = match (served.status, &served.redirect, served.documents.get(uri.path())) {
            (Some(status), _, _) => StatusCode::from_u16(status).unwrap().into_response(),
            (None, Some(to), _) => (StatusCode::FOUND, [(header::LOCATION, to.clone())]).into_response(),
            (None, None, Some(document)) => document.clone().into_response(),
            (None, None, None) => StatusCode::NOT_FOUND.into_response(),
        };
        (served.delay, response)
    };
    tokio::time::sleep(delay).await;
    response
}
