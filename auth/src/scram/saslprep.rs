//! The preparation of passwords, the way PostgreSQL does it.

use std::borrow::Cow;

use stringprep::tables;
use zeroize::Zeroizing;

/// Returns the bytes to hash for `password`.
///
/// SASLprep (RFC 4013) as in PostgreSQL's `pg_saslprep`: an ASCII password is
/// taken as it is, control characters included; a password that the profile
/// prohibits is taken raw. Prohibited and unassigned characters are looked for
/// before normalization, as PostgreSQL does, so that the same passwords count
/// as prohibited on both sides.
pub(super) fn prepare(password: &str) -> Zeroizing<Vec<u8>> {
    let raw = || Zeroizing::new(password.as_bytes().to_vec());
    if password.is_ascii() {
        return raw();
    }
    let mapped: Zeroizing<String> = Zeroizing::new(password.chars().filter_map(map).collect());
    if mapped.is_empty() || mapped.chars().any(prohibited) {
        return raw();
    }
    match stringprep::saslprep(&mapped) {
        Ok(Cow::Borrowed(text)) => Zeroizing::new(text.as_bytes().to_vec()),
        Ok(Cow::Owned(text)) => Zeroizing::new(text.into_bytes()),
        Err(_) => raw(),
    }
}

/// RFC 4013, section 2.1.
fn map(c: char) -> Option<char> {
    if tables::non_ascii_space_character(c) {
        Some(' ')
    } else if tables::commonly_mapped_to_nothing(c) {
        None
    } else {
        Some(c)
    }
}

/// RFC 4013, sections 2.3 and 2.5.
fn prohibited(c: char) -> bool {
    tables::non_ascii_space_character(c)
        || tables::ascii_control_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
        || tables::unassigned_code_point(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_prepared_as_postgres_prepares_them() {
        let check = |password: &str, expected: &str| {
            assert_eq!(prepare(password).as_slice(), expected.as_bytes(), "{password:?}");
        };
        check("", "");
        check("pencil", "pencil");
        // ASCII is untouched, even where the profile would refuse it.
        check("a\u{7}b", "a\u{7}b");
        // The examples of RFC 4013, section 3.
        check("I\u{ad}X", "IX");
        check("\u{aa}", "a");
        check("\u{2168}", "IX");
        // A non-ASCII space becomes a space.
        check("a\u{a0}b", "a b");
        // Mapped to nothing at all: taken raw.
        check("\u{ad}", "\u{ad}");
        // Prohibited: a control character beside a non-ASCII letter.
        check("\u{e4}\u{7}", "\u{e4}\u{7}");
        // Prohibited before normalization, allowed after it.
        check("x\u{340}", "x\u{340}");
        // Left-to-right mixed with right-to-left.
        check("\u{627}1", "\u{627}1");
        check("\u{627}\u{628}", "\u{627}\u{628}");
        // Unassigned in Unicode 3.2.
        check("\u{1f511}\u{2168}", "\u{1f511}\u{2168}");
    }
}
