//! Names in a client certificate.
//!
//! The chain has been verified by who calls; this only reads. A name that could
//! be read in two ways is no name: two common names, one with a zero byte or a
//! control character, or one that is no text.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

/// What a certificate calls its holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// The common name of the subject, if there is exactly one.
    pub common_name: Option<String>,
    /// E-mail addresses, host names and URIs of the subject alternative name.
    pub alternative: Vec<String>,
    /// The whole subject, for the record.
    pub subject: String,
}

/// The bytes are no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client certificate cannot be read")]
pub struct UnreadableCertificate;

impl CertificateNames {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// [`UnreadableCertificate`].
    pub fn read(der: &[u8]) -> Result<Self, UnreadableCertificate> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| UnreadableCertificate)?;
        if !rest.is_empty() {
            return Err(UnreadableCertificate);
        }
        let subject = certificate.subject();
        let mut common: Vec<_> = subject.iter_common_name().collect();
        let common_name = match (common.pop(), common.is_empty()) {
            (Some(name), true) => name.as_str().ok().filter(|name| is_plain(name)).map(str::to_owned),
            _ => None,
        };
        let alternative = certificate.subject_alternative_name().map_err(|_| UnreadableCertificate)?;
        let names = alternative.iter().flat_map(|extension| &extension.value.general_names);
        let alternative = names.filter_map(|name| match name {
            GeneralName::RFC822Name(name) | GeneralName::DNSName(name) | GeneralName::URI(name) => Some(*name),
            _ => None,
        });
        Ok(Self {
            common_name,
            alternative: alternative.filter(|name| is_plain(name)).map(str::to_owned).collect(),
            subject: subject.to_string(),
        })
    }

    /// Returns the names that may stand for a user: the common name first.
    pub fn identities(&self) -> impl Iterator<Item = &str> {
        self.common_name.as_deref().into_iter().chain(self.alternative.iter().map(String::as_str))
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_bytes_are_names_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = CertificateNames::read(&bytes);
        }
    }

    #[test]
    fn names_with_control_characters_are_no_names() {
        for name in ["", "ann\0.example", "ann\n", "\u{7f}"] {
            assert!(!is_plain(name), "{name:?}");
        }
        assert!(is_plain("ann@example.com") && is_plain("Ann Lee"));
    }
}
