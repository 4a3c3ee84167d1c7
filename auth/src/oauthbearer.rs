//! The server side of SASL OAUTHBEARER (RFC 7628) as PostgreSQL 18 speaks it.
//!
//! A client sends its token in the first message, or an empty one to ask where it
//! can get a token. A refusal is told in two steps: a JSON document, which the
//! client answers with one byte, and only then the end.

/// The mechanism's name.
pub const OAUTHBEARER: &str = "OAUTHBEARER";

/// What separates the parts of a message.
const SEPARATOR: u8 = 0x01;

/// What the client says to a refusal (RFC 7628, section 3.2.3).
pub const DUMMY: &[u8] = &[SEPARATOR];

/// What a client's first message asks for. No `Debug` shows the token.
#[derive(PartialEq, Eq)]
pub enum First<'a> {
    /// Where tokens are given out.
    Discovery,
    /// To be let in with a token.
    Token(&'a str),
}

impl std::fmt::Debug for First<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Discovery { "Discovery" } else { "Token(<redacted>)" })
    }
}

/// Why a message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message breaks the grammar.
    #[error("malformed OAUTHBEARER message")]
    Malformed,
    /// The client binds the login to its channel, which the mechanism cannot.
    #[error("the client selected OAUTHBEARER with channel binding, which it does not support")]
    ChannelBinding,
    /// The client asks to act as somebody else.
    #[error("client uses authorization identity, but it is not supported")]
    Authzid,
}

/// Reads a client's first message.
///
/// # Errors
/// See [`MessageError`].
pub fn first(message: &[u8]) -> Result<First<'_>, MessageError> {
    let text = std::str::from_utf8(message).map_err(|_| MessageError::Malformed)?;
    let rest = match text.split_at_checked(2) {
        Some(("n," | "y,", rest)) => rest,
        Some(("p=", _)) => return Err(MessageError::ChannelBinding),
        _ => return Err(MessageError::Malformed),
    };
    let rest = match rest.split_once(',') {
        Some(("", rest)) => rest,
        Some((authzid, _)) if authzid.starts_with("a=") => return Err(MessageError::Authzid),
        _ => return Err(MessageError::Malformed),
    };
    let separator = char::from(SEPARATOR);
    let pairs = rest.strip_prefix(separator).ok_or(MessageError::Malformed)?;
    let pairs = pairs.strip_suffix(separator).ok_or(MessageError::Malformed)?;
    let pairs = pairs.strip_suffix(separator).ok_or(MessageError::Malformed)?;
    let mut auth = None;
    for pair in pairs.split(separator) {
        let (key, value) = pair.split_once('=').ok_or(MessageError::Malformed)?;
        let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_value = value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'));
        if !is_key || !is_value || (key == "auth" && auth.replace(value).is_some()) {
            return Err(MessageError::Malformed);
        }
    }
    match auth.ok_or(MessageError::Malformed)? {
        "" => Ok(First::Discovery),
        auth => bearer(auth).map(First::Token).ok_or(MessageError::Malformed),
    }
}

/// Returns the token of `Bearer …` (RFC 6750, section 2.1).
pub fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    let body = token.trim_end_matches('=');
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    (scheme.eq_ignore_ascii_case("bearer") && !body.is_empty() && body.bytes().all(allowed)).then_some(token)
}

/// Returns the document of a refusal: where to look for the provider, and what to
/// ask it for.
pub fn refusal(issuer: &str, scopes: &[String]) -> Vec<u8> {
    let configuration = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let document = serde_json::json!({
        "status": "invalid_token",
        "openid-configuration": configuration,
        "scope": scopes.join(" "),
    });
    document.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_has_a_token_or_asks_for_one() {
        assert_eq!(first(b"n,,\x01auth=Bearer a.b-c_d~e+f/==\x01\x01"), Ok(First::Token("a.b-c_d~e+f/==")));
        assert_eq!(first(b"y,,\x01host=x\x01auth=bearer   t\x01port=1\x01\x01"), Ok(First::Token("t")));
        assert_eq!(first(b"n,,\x01auth=\x01\x01"), Ok(First::Discovery));
        assert_eq!(format!("{:?}", first(b"n,,\x01auth=Bearer canary\x01\x01").unwrap()), "Token(<redacted>)");
    }

    #[test]
    fn messages_that_break_the_grammar_are_refused() {
        use MessageError::{Authzid, ChannelBinding, Malformed};
        for (message, expected) in [
            (&b""[..], Malformed),
            (b"n", Malformed),
            (b"n,", Malformed),
            (b"n,,", Malformed),
            (b"x,,\x01auth=\x01\x01", Malformed),
            (b"p=tls-unique,,\x01auth=\x01\x01", ChannelBinding),
            (b"n,a=ann,\x01auth=\x01\x01", Authzid),
            (b"n,b=ann,\x01auth=\x01\x01", Malformed),
            (b"n,,auth=\x01\x01", Malformed),
            (b"n,,\x01auth=\x01", Malformed),
            (b"n,,\x01auth\x01\x01", Malformed),
            (b"n,,\x01host=x\x01\x01", Malformed),
            (b"n,,\x01\x01", Malformed),
            (b"n,,\x01\x01\x01", Malformed),
            (b"n,,\x01auth=\x01auth=Bearer x\x01\x01", Malformed),
            (b"n,,\x01auth=Bearer\x01\x01", Malformed),
            (b"n,,\x01auth=Bearer \x01\x01", Malformed),
            (b"n,,\x01auth=Bearer ==\x01\x01", Malformed),
            (b"n,,\x01auth=Bearer a b\x01\x01", Malformed),
            (b"n,,\x01auth=Bearer a,b\x01\x01", Malformed),
            (b"n,,\x01auth=Basic abc\x01\x01", Malformed),
            (b"n,,\x01auth=Bearer \xff\x01\x01", Malformed),
            (b"n,,\x01a1=x\x01auth=Bearer x\x01\x01", Malformed),
            (b"n,,\x01k=\0\x01auth=Bearer x\x01\x01", Malformed),
        ] {
            assert_eq!(first(message), Err(expected), "{:?}", String::from_utf8_lossy(message));
        }
    }

    #[test]
    fn a_refusal_names_the_provider() {
        let document = refusal("https://id.example/", &["openid".to_owned(), "email".to_owned()]);
        let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
        assert_eq!(document["openid-configuration"], "https://id.example/.well-known/openid-configuration");
        assert_eq!(document["scope"], "openid email");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..100)) {
            let _ = first(&bytes);
        }

        #[test]
        fn a_message_in_pieces_never_panics(pieces in proptest::collection::vec(
            proptest::sample::select(vec!["n,", "y,", ",", "\u{1}", "auth=", "Bearer ", "x", "a=", "p=", "é"]), 0..12)
        ) {
            let _ = first(pieces.concat().as_bytes());
        }
    }
}
