//! Rules for the names of objects (LanceDB's limits and character sets).

use super::{Object, ROOT_NAMESPACE};

/// Longest database name, in bytes.
pub const DATABASE_BYTES_MAX: usize = 64;
/// Longest component of a namespace path, in bytes.
pub const COMPONENT_BYTES_MAX: usize = 64;
/// Most components of a namespace path.
pub const COMPONENTS_MAX: usize = 10;
/// Longest name of a table, view, function or storage integration, in bytes.
pub const OBJECT_BYTES_MAX: usize = 128;
/// Longest name of a secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 255;

/// The rule that a name breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameRule {
    /// A name or a part between slashes is empty.
    #[error("name is empty")]
    Empty,
    /// A name is too long.
    #[error("name is longer than {bytes_max} bytes")]
    TooLong {
        /// The limit of the kind.
        bytes_max: usize,
    },
    /// A name has a character outside `[A-Za-z0-9_.-]`; a database may also use
    /// `/`, a function only `[A-Za-z0-9_]`.
    #[error("name contains a character that is not allowed")]
    Character,
    /// A name or a part between slashes is `.` or `..`.
    #[error("name must not be . or ..")]
    Dots,
    /// A namespace path has more than [`COMPONENTS_MAX`] components.
    #[error("namespace path has more than {components_max} components")]
    TooDeep {
        /// The limit.
        components_max: usize,
    },
    /// A namespace path begins with `public`, which is the root itself.
    #[error("namespace public has no components below it")]
    RootAsComponent,
}

impl Object {
    /// Checks every part of the full name against the rules of its kind.
    ///
    /// Whoever takes a name from a user calls this before storing or granting;
    /// reading stored entries does not depend on it.
    ///
    /// # Errors
    /// The first [`NameRule`] that is broken, from the database inwards.
    pub fn ensure_names(&self) -> Result<(), NameRule> {
        match self {
            Self::System => Ok(()),
            Self::Database(name) => ensure_database(name),
            Self::Namespace { database, path } => {
                ensure_database(database)?;
                ensure_path(path)
            }
            Self::Table { database, namespace, name }
            | Self::View { database, namespace, name }
            | Self::MaterializedView { database, namespace, name } => {
                ensure_database(database)?;
                ensure_path(namespace)?;
                ensure_plain(name, OBJECT_BYTES_MAX)
            }
            Self::Secret { database, namespace, name } => {
                ensure_database(database)?;
                ensure_path(namespace)?;
                ensure_plain(name, SECRET_BYTES_MAX)
            }
            Self::Function { database, namespace, name } => {
                ensure_database(database)?;
                ensure_path(namespace)?;
                ensure_function(name)
            }
            Self::StorageIntegration(name) => ensure_plain(name, OBJECT_BYTES_MAX),
        }
    }
}

fn ensure_database(name: &str) -> Result<(), NameRule> {
    ensure_length(name, DATABASE_BYTES_MAX)?;
    name.split('/').try_for_each(|part| ensure_plain(part, DATABASE_BYTES_MAX))
}

fn ensure_path(path: &[String]) -> Result<(), NameRule> {
    if path.len() > COMPONENTS_MAX {
        return Err(NameRule::TooDeep { components_max: COMPONENTS_MAX });
    }
    if path.first().is_some_and(|first| first == ROOT_NAMESPACE) {
        return Err(NameRule::RootAsComponent);
    }
    path.iter().try_for_each(|component| ensure_plain(component, COMPONENT_BYTES_MAX))
}

fn ensure_function(name: &str) -> Result<(), NameRule> {
    ensure_plain(name, OBJECT_BYTES_MAX)?;
    if name.contains(['.', '-']) {
        return Err(NameRule::Character);
    }
    Ok(())
}

fn ensure_plain(name: &str, bytes_max: usize) -> Result<(), NameRule> {
    ensure_length(name, bytes_max)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if !name.chars().all(allowed) {
        return Err(NameRule::Character);
    }
    if name == "." || name == ".." {
        return Err(NameRule::Dots);
    }
    Ok(())
}

fn ensure_length(name: &str, bytes_max: usize) -> Result<(), NameRule> {
    if name.is_empty() {
        return Err(NameRule::Empty);
    }
    if name.len() > bytes_max {
        return Err(NameRule::TooLong { bytes_max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(database: &str, namespace: &[&str], name: &str) -> Object {
        Object::Table {
            database: database.to_owned(),
            namespace: namespace.iter().map(|c| (*c).to_owned()).collect(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn names_follow_the_rules_of_their_kind() {
        let check = |object: Object, expected| assert_eq!(object.ensure_names(), expected);
        let long = |bytes_max| Err(NameRule::TooLong { bytes_max });
        check(Object::System, Ok(()));
        check(table("team/search", &["a.b", "c-d"], "T_1.x-y"), Ok(()));
        check(table("db", &[], &"x".repeat(128)), Ok(()));
        check(table("db", &[], &"x".repeat(129)), long(128));
        check(table(&"x".repeat(65), &[], "t"), long(64));
        check(table("db", &[&"x".repeat(65)], "t"), long(64));
        check(table("", &[], "t"), Err(NameRule::Empty));
        check(table("a//b", &[], "t"), Err(NameRule::Empty));
        check(table("../etc", &[], "t"), Err(NameRule::Dots));
        check(table("db", &["."], "t"), Err(NameRule::Dots));
        check(table("db", &[], ".."), Err(NameRule::Dots));
        check(table("db", &["a$b"], "t"), Err(NameRule::Character));
        check(table("db", &["a/b"], "t"), Err(NameRule::Character));
        check(table("db", &[], "tä"), Err(NameRule::Character));
        check(table("db", &["public"], "t"), Err(NameRule::RootAsComponent));
        check(table("db", &["public", "a"], "t"), Err(NameRule::RootAsComponent));
        check(table("db", &["a"; 10], "t"), Ok(()));
        check(table("db", &["a"; 11], "t"), Err(NameRule::TooDeep { components_max: 10 }));
    }

    #[test]
    fn a_secret_has_a_longer_name() {
        let secret =
            |name: &str| Object::Secret { database: "db".to_owned(), namespace: Vec::new(), name: name.to_owned() };
        assert_eq!(secret(&"x".repeat(255)).ensure_names(), Ok(()));
        assert_eq!(secret(&"x".repeat(256)).ensure_names(), Err(NameRule::TooLong { bytes_max: 255 }));
        assert_eq!(secret("a$b").ensure_names(), Err(NameRule::Character));
    }

    #[test]
    fn a_function_name_has_no_dot_and_no_dash() {
        let function =
            |name: &str| Object::Function { database: "db".to_owned(), namespace: Vec::new(), name: name.to_owned() };
        assert_eq!(function("embed_v2").ensure_names(), Ok(()));
        for name in ["embed.v2", "embed-v2"] {
            assert_eq!(function(name).ensure_names(), Err(NameRule::Character));
        }
    }
}
