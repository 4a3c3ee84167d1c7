//! The spelling of an object in access-control entries.
//!
//! `system`, `database:DB`, `namespace:DB:a$b`, `table:DB:a$b$t` and so on; the
//! root namespace is spelled `public`. Every object has one spelling and every
//! spelling one object: names cannot contain the separators, and should one
//! that breaks the rules get here, its `%`, `$` and `:` are percent-encoded, so
//! that two objects never share an entry.

use std::fmt;
use std::str::FromStr;

use super::{Object, ROOT_NAMESPACE};

/// Says why a text is not the spelling of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseObjectError {
    /// The text begins with no known kind; a newer server may have written it.
    #[error("unknown kind of object")]
    UnknownKind,
    /// A part is missing or empty.
    #[error("object name is incomplete")]
    Incomplete,
    /// The text is not the one spelling of the object it describes.
    #[error("object name is not in canonical form")]
    NotCanonical,
}

impl fmt::Display for Object {
    /// Writes the spelling of the entry; a materialized view is written as the
    /// table that stands for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Database(name) => write!(f, "database:{}", Escaped(name)),
            Self::Namespace { database, path } => {
                write!(f, "namespace:{}:{}", Escaped(database), Path(path))
            }
            Self::Table { database, namespace, name } | Self::MaterializedView { database, namespace, name } => {
                write_member(f, "table", database, namespace, name)
            }
            Self::View { database, namespace, name } => write_member(f, "view", database, namespace, name),
            Self::Secret { database, namespace, name } => write_member(f, "secret", database, namespace, name),
            Self::Function { database, namespace, name } => write_member(f, "function", database, namespace, name),
            Self::StorageIntegration(name) => {
                write!(f, "storage_integration:{}", Escaped(name))
            }
        }
    }
}

fn write_member(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    database: &str,
    namespace: &[String],
    name: &str,
) -> fmt::Result {
    let (database, namespace, name) = (Escaped(database), Path(namespace), Escaped(name));
    write!(f, "{kind}:{database}:{namespace}${name}")
}

struct Path<'a>(&'a [String]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str(ROOT_NAMESPACE),
            // Not the root: keep the two apart, whatever a caller meant by it.
            [only] if only == ROOT_NAMESPACE => f.write_str("%70ublic"),
            [first, rest @ ..] => {
                write!(f, "{}", Escaped(first))?;
                rest.iter().try_for_each(|c| write!(f, "${}", Escaped(c)))
            }
        }
    }
}

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(['%', '$', ':']) {
            match part.as_bytes().last() {
                Some(reserved @ (b'%' | b'$' | b':')) => {
                    write!(f, "{}%{reserved:02X}", &part[..part.len() - 1])?;
                }
                _ => f.write_str(part)?,
            }
        }
        Ok(())
    }
}

impl FromStr for Object {
    type Err = ParseObjectError;

    /// Reads the spelling that `Display` writes, and nothing else.
    ///
    /// Name rules are not checked here, see [`Object::ensure_names`].
    fn from_str(text: &str) -> Result<Self, ParseObjectError> {
        let object = parse(text)?;
        if object.to_string() != text {
            return Err(ParseObjectError::NotCanonical);
        }
        Ok(object)
    }
}

fn parse(text: &str) -> Result<Object, ParseObjectError> {
    if text == "system" {
        return Ok(Object::System);
    }
    let (kind, rest) = text.split_once(':').ok_or(ParseObjectError::UnknownKind)?;
    match kind {
        "database" => Ok(Object::Database(unescape(rest)?)),
        "storage_integration" => Ok(Object::StorageIntegration(unescape(rest)?)),
        "namespace" => {
            let (database, path) = split_database(rest)?;
            let path = parse_path(path)?;
            Ok(Object::Namespace { database, path })
        }
        "table" => parse_member(rest).map(|(database, namespace, name)| Object::Table { database, namespace, name }),
        "view" => parse_member(rest).map(|(database, namespace, name)| Object::View { database, namespace, name }),
        "secret" => parse_member(rest).map(|(database, namespace, name)| Object::Secret { database, namespace, name }),
        "function" => {
            parse_member(rest).map(|(database, namespace, name)| Object::Function { database, namespace, name })
        }
        _ => Err(ParseObjectError::UnknownKind),
    }
}

fn parse_member(rest: &str) -> Result<(String, Vec<String>, String), ParseObjectError> {
    let (database, path) = split_database(rest)?;
    let (namespace, name) = path.rsplit_once('$').ok_or(ParseObjectError::Incomplete)?;
    Ok((database, parse_path(namespace)?, unescape(name)?))
}

fn split_database(rest: &str) -> Result<(String, &str), ParseObjectError> {
    let (database, path) = rest.split_once(':').ok_or(ParseObjectError::Incomplete)?;
    Ok((unescape(database)?, path))
}

fn parse_path(path: &str) -> Result<Vec<String>, ParseObjectError> {
    if path == ROOT_NAMESPACE {
        return Ok(Vec::new());
    }
    path.split('$').map(unescape).collect()
}

/// Decodes the four escapes that `Display` writes; any other `%` stays and
/// fails the comparison with the canonical form.
fn unescape(text: &str) -> Result<String, ParseObjectError> {
    if text.is_empty() {
        return Err(ParseObjectError::Incomplete);
    }
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let decoded = text.replace("%70ublic", ROOT_NAMESPACE);
    let decoded = decoded.replace("%24", "$").replace("%3A", ":");
    // Last, so that an escaped per cent sign does not begin another escape.
    Ok(decoded.replace("%25", "%"))
}

impl TryFrom<String> for Object {
    type Error = ParseObjectError;

    fn try_from(text: String) -> Result<Self, ParseObjectError> {
        text.parse()
    }
}

impl From<Object> for String {
    fn from(object: Object) -> Self {
        object.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn objects_are_spelled_as_in_access_control_entries() {
        let namespace = |path: &[&str]| Object::Namespace {
            database: "team/search".to_owned(),
            path: path.iter().map(|c| (*c).to_owned()).collect(),
        };
        let check = |text: &str, object: Object| {
            assert_eq!(text.parse(), Ok(object.clone()));
            assert_eq!(object.to_string(), text);
        };
        check("system", Object::System);
        check("database:db", Object::Database("db".to_owned()));
        check("namespace:team/search:public", namespace(&[]));
        check("namespace:team/search:a$b", namespace(&["a", "b"]));
        check(
            "table:db:public$t",
            Object::Table { database: "db".to_owned(), namespace: Vec::new(), name: "t".to_owned() },
        );
        check(
            "function:db:a$b$f",
            Object::Function {
                database: "db".to_owned(),
                namespace: vec!["a".to_owned(), "b".to_owned()],
                name: "f".to_owned(),
            },
        );
        check("storage_integration:lake", Object::StorageIntegration("lake".to_owned()));
    }

    #[test]
    fn anything_but_the_canonical_spelling_is_refused() {
        let check = |text: &str, expected| {
            assert_eq!(text.parse::<Object>(), Err(expected), "{text:?}");
        };
        use ParseObjectError::{Incomplete, NotCanonical, UnknownKind};
        check("", UnknownKind);
        check("System", UnknownKind);
        check("system:", UnknownKind);
        check("model:db:a$m", UnknownKind);
        check("database:", Incomplete);
        check("namespace:db", Incomplete);
        check("namespace:db:", Incomplete);
        check("namespace:db:a$", Incomplete);
        check("table:db:t", Incomplete);
        check("table:db:$t", Incomplete);
        check("table::public$t", Incomplete);
        check("database:a:b", NotCanonical);
        check("database:%61", NotCanonical);
        check("database:%3a", NotCanonical);
        check("table:db:a$x%70ublic$t", NotCanonical);
    }

    #[test]
    fn names_that_break_the_rules_never_share_an_entry() {
        let table = |namespace: &[&str], name: &str| Object::Table {
            database: "db".to_owned(),
            namespace: namespace.iter().map(|c| (*c).to_owned()).collect(),
            name: name.to_owned(),
        };
        let check = |object: Object, expected: &str| {
            assert_eq!(object.to_string(), expected);
            assert_eq!(expected.parse(), Ok(object));
        };
        check(table(&["a", "b"], "t"), "table:db:a$b$t");
        check(table(&["a"], "b$t"), "table:db:a$b%24t");
        check(table(&[], "%24:"), "table:db:public$%2524%3A");
        check(table(&["public"], "t"), "table:db:%70ublic$t");
        check(table(&["public", "a"], "t"), "table:db:public$a$t");
    }

    fn object() -> impl Strategy<Value = Object> {
        let name = || prop_oneof!["[a-z/.$:%]{1,4}", Just("public".to_owned()), "\\PC{1,6}"];
        let path = || proptest::collection::vec(name(), 0..4);
        (0..8, name(), path(), name()).prop_map(|(kind, database, namespace, name)| match kind {
            0 => Object::System,
            1 => Object::Database(database),
            2 => Object::Namespace { database, path: namespace },
            3 => Object::Table { database, namespace, name },
            4 => Object::View { database, namespace, name },
            5 => Object::Secret { database, namespace, name },
            6 => Object::Function { database, namespace, name },
            _ => Object::StorageIntegration(name),
        })
    }

    proptest! {
        #[test]
        fn reading_a_written_object_gives_it_back(object in object()) {
            prop_assert_eq!(object.to_string().parse(), Ok(object));
        }

        #[test]
        fn whatever_can_be_read_is_written_the_same(text in "(table|view|namespace|database):[a-z$:%2345public]{0,12}") {
            if let Ok(object) = text.parse::<Object>() {
                prop_assert_eq!(object.to_string(), text);
            }
        }
    }
}
