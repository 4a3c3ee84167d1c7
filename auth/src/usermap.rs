//! Who a proved identity may be: maps in the format of PostgreSQL's
//! `pg_ident.conf`.
//!
//! A line is a map, an identity and a user. An identity is compared as a whole,
//! with case. One `*` in it stands for any text that is not empty, and a `*` in
//! the user for the same text: `corp *@example.com *` lets `ann@example.com` be
//! `ann`. That is all there is of patterns; regular expressions are refused,
//! because a forgotten anchor in one lets strangers in.

use crate::hba::{LineError, RulesError};
use crate::lines::{Token, lines};

/// The maps of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserMaps {
    lines: Vec<MapLine>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MapLine {
    map: String,
    identity: Pattern,
    user: Pattern,
}

/// A text with at most one place for another text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Exact(String),
    Around(String, String),
}

impl UserMaps {
    /// Reads a file of maps; one without lines has no map.
    ///
    /// # Errors
    /// Every line that is not understood.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let (mut read, mut errors) = (Vec::new(), Vec::new());
        for (line, fields) in lines(text) {
            match fields.map_err(str::to_owned).and_then(|fields| map_line(&fields)) {
                Ok(map) => read.push(map),
                Err(what) => errors.push(LineError { line, what }),
            }
        }
        if errors.is_empty() { Ok(Self { lines: read }) } else { Err(RulesError(errors)) }
    }

    /// Returns whether there is a map of this name.
    pub fn has(&self, map: &str) -> bool {
        self.lines.iter().any(|line| line.map == map)
    }

    /// Returns whether who proved `identity` may be `user`. Without a map the two
    /// have to be the same.
    pub fn allows(&self, map: Option<&str>, identity: &str, user: &str) -> bool {
        match map {
            None => identity == user,
            Some(map) => self.lines.iter().any(|line| line.map == map && line.allows(identity, user)),
        }
    }
}

impl MapLine {
    fn allows(&self, identity: &str, user: &str) -> bool {
        match self.identity.found_in(identity) {
            Some(within) => self.user.filled(within) == user,
            None => false,
        }
    }
}

impl Pattern {
    fn read(token: &Token) -> Result<Self, String> {
        if token.quoted {
            return Ok(Self::Exact(token.text.clone()));
        }
        if token.text.starts_with('/') {
            return Err(format!("\"{}\": regular expressions are not supported; use one *", token.text));
        }
        match token.text.split_once('*') {
            None => Ok(Self::Exact(token.text.clone())),
            Some((_, rest)) if rest.contains('*') => Err(format!("\"{}\" has more than one *", token.text)),
            Some((before, behind)) => Ok(Self::Around(before.to_owned(), behind.to_owned())),
        }
    }

    /// Returns what stands at the place if the whole text fits.
    fn found_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Exact(exact) => (exact == text).then_some(""),
            Self::Around(before, behind) => {
                text.strip_prefix(before.as_str())?.strip_suffix(behind.as_str()).filter(|within| !within.is_empty())
            }
        }
    }

    fn filled(&self, within: &str) -> String {
        match self {
            Self::Exact(exact) => exact.clone(),
            Self::Around(before, behind) => format!("{before}{within}{behind}"),
        }
    }
}

fn map_line(fields: &[Vec<Token>]) -> Result<MapLine, String> {
    let [map, identity, user] = fields else {
        return Err("a map has three fields: its name, an identity and a user".to_owned());
    };
    let ([map], [identity], [user]) = (map.as_slice(), identity.as_slice(), user.as_slice()) else {
        return Err("a list stands where one word is expected".to_owned());
    };
    let (identity, user) = (Pattern::read(identity)?, Pattern::read(user)?);
    if matches!((&identity, &user), (Pattern::Exact(_), Pattern::Around(..))) {
        return Err("the user has a *, and the identity has none".to_owned());
    }
    Ok(MapLine { map: map.text.clone(), identity, user })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a09_identities_are_compared_as_a_whole() {
        let maps = UserMaps::parse(
            "corp *@example.com *\ncorp boss@example.com lancegate # the owner\ndba root lancegate\ndba root \"a*b\"\n",
        )
        .unwrap();
        let check = |map: Option<&str>, identity: &str, user: &str, expected: bool| {
            assert_eq!(maps.allows(map, identity, user), expected, "{map:?} {identity} {user}");
        };
        check(Some("corp"), "ann@example.com", "ann", true);
        check(Some("corp"), "ann@example.com", "bob", false);
        check(Some("corp"), "ann@example.com", "lancegate", false);
        check(Some("corp"), "boss@example.com", "lancegate", true);
        check(Some("corp"), "lancegate@example.com", "lancegate", true);
        for stranger in ["@example.com", "ann@example.com.evil", "evil ann@example.org", "ann@EXAMPLE.com", "ann"] {
            check(Some("corp"), stranger, "ann", false);
        }
        check(Some("dba"), "root", "lancegate", true);
        check(Some("dba"), "root", "a*b", true);
        check(Some("dba"), "root", "axb", false);
        check(Some("none"), "root", "root", false);
        check(None, "root", "root", true);
        check(None, "root", "Root", false);
        assert!(maps.has("dba") && !maps.has("db"));
    }

    #[test]
    fn lines_that_are_not_understood_refuse_the_file() {
        for (line, expected) in [
            ("corp a", "three fields"),
            ("corp a b c", "three fields"),
            ("corp /^a$ b", "regular expressions"),
            ("corp a*b*c d", "more than one"),
            ("corp a *", "the identity has none"),
            ("corp a,b c", "a list"),
        ] {
            let error = UserMaps::parse(&format!("corp a b\n{line}\n")).unwrap_err();
            assert!(error.0[0].line == 2 && error.0[0].what.contains(expected), "{line}: {error}");
        }
        assert_eq!(UserMaps::parse("").unwrap(), UserMaps::default());
    }
}
