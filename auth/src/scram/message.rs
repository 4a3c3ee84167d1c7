//! The grammar of the two client messages (RFC 5802, section 7).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{CLIENT_NONCE_BYTES_MAX, MESSAGE_BYTES_MAX, ScramError};

/// The channel-binding flag of the GS2 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BindingFlag<'a> {
    /// `n`: the client does not support channel binding.
    NotSupported,
    /// `y`: the client supports it and saw no offer.
    NotOffered,
    /// `p=`: the client uses this type.
    Used(&'a str),
}

/// A client-first-message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFirst<'a> {
    pub(super) flag: BindingFlag<'a>,
    /// The GS2 header with its last comma, which the last message repeats.
    pub(super) gs2_header: &'a str,
    /// The message without the header, part of what is signed.
    pub(super) bare: &'a str,
    pub(super) nonce: &'a str,
}

/// A client-final-message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFinal<'a> {
    /// The base64 text of the `c` attribute.
    pub(super) binding: &'a str,
    pub(super) nonce: &'a str,
    /// The message without the proof, part of what is signed.
    pub(super) without_proof: &'a str,
    pub(super) proof: [u8; 32],
}

impl<'a> ClientFirst<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, ScramError> {
        let text = message_text(data)?;
        let (flag, rest) = text.split_once(',').ok_or(ScramError::Malformed)?;
        let flag = BindingFlag::parse(flag)?;
        let (authzid, bare) = rest.split_once(',').ok_or(ScramError::Malformed)?;
        match authzid {
            "" => {}
            named if named.starts_with("a=") => return Err(ScramError::AuthzidNotSupported),
            _ => return Err(ScramError::Malformed),
        }
        let mut attributes = bare.split(',');
        // The user of the startup packet counts; the name here is ignored, as
        // in PostgreSQL, whose clients leave it empty.
        let _user = attribute(attributes.next(), 'n')?;
        let nonce = attribute(attributes.next(), 'r')?;
        ensure_nonce(nonce)?;
        attributes.try_for_each(ensure_extension)?;
        Ok(Self { flag, gs2_header: &text[..text.len() - bare.len()], bare, nonce })
    }
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, ScramError> {
        let text = message_text(data)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        let mut attributes = without_proof.split(',');
        let binding = attribute(attributes.next(), 'c')?;
        let nonce = attribute(attributes.next(), 'r')?;
        attributes.try_for_each(ensure_extension)?;
        Ok(Self { binding, nonce, without_proof, proof: parse_proof(proof)? })
    }
}

impl<'a> BindingFlag<'a> {
    fn parse(text: &'a str) -> Result<Self, ScramError> {
        match text {
            "n" => Ok(Self::NotSupported),
            "y" => Ok(Self::NotOffered),
            _ => match text.strip_prefix("p=") {
                Some(kind) if !kind.is_empty() => Ok(Self::Used(kind)),
                _ => Err(ScramError::Malformed),
            },
        }
    }
}

fn message_text(data: &[u8]) -> Result<&str, ScramError> {
    if data.len() > MESSAGE_BYTES_MAX {
        return Err(ScramError::TooLong { bytes_max: MESSAGE_BYTES_MAX });
    }
    let text = std::str::from_utf8(data).map_err(|_| ScramError::Malformed)?;
    if text.contains('\0') {
        return Err(ScramError::Malformed);
    }
    Ok(text)
}

/// Returns the value of the attribute that must stand here.
fn attribute(text: Option<&str>, name: char) -> Result<&str, ScramError> {
    let text = text.ok_or(ScramError::Malformed)?;
    if text.starts_with("m=") {
        return Err(ScramError::ExtensionNotSupported);
    }
    text.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')).ok_or(ScramError::Malformed)
}

/// Optional extensions are ignored if they are well formed and do not repeat an
/// attribute that has a meaning.
fn ensure_extension(text: &str) -> Result<(), ScramError> {
    let (name, value) = text.split_once('=').ok_or(ScramError::Malformed)?;
    match name.as_bytes() {
        b"m" => Err(ScramError::ExtensionNotSupported),
        b"a" | b"c" | b"e" | b"i" | b"n" | b"p" | b"r" | b"s" | b"v" => Err(ScramError::Malformed),
        [letter] if letter.is_ascii_alphabetic() && !value.is_empty() => Ok(()),
        _ => Err(ScramError::Malformed),
    }
}

fn ensure_nonce(nonce: &str) -> Result<(), ScramError> {
    let lengths = 1..=CLIENT_NONCE_BYTES_MAX;
    if lengths.contains(&nonce.len()) && nonce.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    Err(ScramError::Malformed)
}

fn parse_proof(text: &str) -> Result<[u8; 32], ScramError> {
    let bytes = STANDARD.decode(text).map_err(|_| ScramError::Malformed)?;
    bytes.try_into().map_err(|_| ScramError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_first_message_is_read_into_its_parts() {
        let text = "p=tls-server-end-point,,n=*,r=a=b,x=1";
        let expected = ClientFirst {
            flag: BindingFlag::Used("tls-server-end-point"),
            gs2_header: "p=tls-server-end-point,,",
            bare: "n=*,r=a=b,x=1",
            nonce: "a=b",
        };
        assert_eq!(ClientFirst::parse(text.as_bytes()), Ok(expected));
    }

    #[test]
    fn a_client_first_message_outside_the_grammar_is_refused() {
        let check = |text: &[u8], expected| {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(ClientFirst::parse(text), Err(expected), "{shown}");
        };
        use ScramError::{AuthzidNotSupported, ExtensionNotSupported, Malformed};
        check(b"", Malformed);
        check(b"n", Malformed);
        check(b"n,,", Malformed);
        check(b"n,,n=", Malformed);
        check(b"n,,n=,r=", Malformed);
        check(b"x,,n=,r=abc", Malformed);
        check(b"N,,n=,r=abc", Malformed);
        check(b"p=,,n=,r=abc", Malformed);
        check(b"n,b,n=,r=abc", Malformed);
        check(b"n,a=root,n=,r=abc", AuthzidNotSupported);
        check(b"n,a=,n=,r=abc", AuthzidNotSupported);
        check(b"n,,r=abc,n=", Malformed);
        check(b"n,,m=x,n=,r=abc", ExtensionNotSupported);
        check(b"n,,n=,r=abc,m=x", ExtensionNotSupported);
        check(b"n,,n=,m=x,r=abc", ExtensionNotSupported);
        check(b"n,,n=,r=abc,", Malformed);
        check(b"n,,n=,r=abc,x", Malformed);
        check(b"n,,n=,r=abc,x=", Malformed);
        check(b"n,,n=,r=abc,xy=1", Malformed);
        check(b"n,,n=,r=abc,r=def", Malformed);
        check(b"n,,n=,r=a c", Malformed);
        check(b"n,,n=,r=abc\0", Malformed);
        check(b"n,,n=\xff,r=abc", Malformed);
        check("n,,n=,r=ä".as_bytes(), Malformed);
    }

    #[test]
    fn lengths_are_bounded() {
        let nonce = |bytes: usize| format!("n,,n=,r={}", "x".repeat(bytes));
        assert!(ClientFirst::parse(nonce(256).as_bytes()).is_ok());
        assert_eq!(ClientFirst::parse(nonce(257).as_bytes()), Err(ScramError::Malformed));
        let too_long = ScramError::TooLong { bytes_max: 4_096 };
        assert_eq!(ClientFirst::parse(&[b'n'; 4_097]), Err(too_long));
        assert_eq!(ClientFinal::parse(&[b'c'; 4_097]), Err(too_long));
    }

    #[test]
    fn a_client_final_message_outside_the_grammar_is_refused() {
        let proof = STANDARD.encode([1; 32]);
        let good = format!("c=biws,r=abc,x=1,p={proof}");
        let expected = ClientFinal { binding: "biws", nonce: "abc", without_proof: "c=biws,r=abc,x=1", proof: [1; 32] };
        assert_eq!(ClientFinal::parse(good.as_bytes()), Ok(expected));
        let check = |text: String, expected| {
            assert_eq!(ClientFinal::parse(text.as_bytes()), Err(expected), "{text}");
        };
        use ScramError::{ExtensionNotSupported, Malformed};
        check(String::new(), Malformed);
        check("c=biws,r=abc".to_owned(), Malformed);
        check("c=biws,r=abc,p=".to_owned(), Malformed);
        check(format!("r=abc,c=biws,p={proof}"), Malformed);
        check(format!("p={proof}"), Malformed);
        check(format!("c=biws,r=abc,m=x,p={proof}"), ExtensionNotSupported);
        check(format!("c=biws,r=abc,p={proof},p={proof}"), Malformed);
        check(format!("c=biws,r=abc,p={proof},x=1"), Malformed);
        check(format!("c=biws,r=abc,p={proof}A"), Malformed);
        check(format!("c=biws,r=abc,p={proof} "), Malformed);
        check(format!("c=biws,r=abc,p={proof}\0"), Malformed);
        check(format!("c=biws,r=abc,p={}", STANDARD.encode([1; 31])), Malformed);
        check(format!("c=biws,r=abc,p={}", STANDARD.encode([1; 33])), Malformed);
    }
}
