//! Takes the values of secrets out of text that leaves the crate (T47).
//!
//! Replaced are the value itself, its base64 and its URL-encoded form, and each line of a value with several lines.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

const SHOWN: &str = "<redacted>";
/// Shorter texts would be found everywhere and are worth nothing as secrets.
const CHARS_MIN: usize = 4;

/// See the module documentation.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that no part of a form is left over.
    forms: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("forms", &self.forms.len()).finish()
    }
}

impl Redactor {
    /// Redacts these values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms: Vec<String> = Vec::new();
        for value in values {
            let lines = value.lines().filter(|line| *line != value);
            for text in std::iter::once(value).chain(lines) {
                forms.push(text.to_owned());
                forms.push(text.escape_debug().to_string());
                forms.push(url_encoded(text));
                forms.push(url_encoded(text).replace("%20", "+"));
                for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
                    forms.push(engine.encode(text));
                }
            }
        }
        forms.retain(|form| form.chars().count() >= CHARS_MIN);
        forms.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        forms.dedup();
        Self { forms }
    }

    /// Returns the text without secrets.
    pub fn redact(&self, text: &str) -> String {
        let mut redacted = text.to_owned();
        for form in &self.forms {
            if redacted.contains(form.as_str()) {
                redacted = redacted.replace(form.as_str(), SHOWN);
            }
        }
        redacted
    }
}

fn url_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w14_plain_base64_url_encoded_and_split_values_are_taken_out() {
        let secret = "hunter2 & sons\nsecond line";
        let redactor = Redactor::new([secret]);
        for leak in [
            secret.to_owned(),
            STANDARD.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
            url_encoded(secret),
            "hunter2 & sons".to_owned(),
            "got: second line".to_owned(),
            format!("{secret:?}"),
        ] {
            let shown = redactor.redact(&format!("<{leak}>"));
            assert!(!shown.contains("hunter2") && !shown.contains("second"), "{shown}");
            assert!(shown.contains(SHOWN));
        }
        assert_eq!(Redactor::new(["ab"]).redact("abc"), "abc");
    }
}
