//! The things privileges are granted on.
//!
//! Owns the hierarchy (system > database > namespace > table, view, …), the
//! spelling of an object in access-control entries and the rules for names.
//! Never knows whether an object exists.

mod names;
mod spelling;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use names::{
    COMPONENT_BYTES_MAX, COMPONENTS_MAX, DATABASE_BYTES_MAX, NameRule, OBJECT_BYTES_MAX, SECRET_BYTES_MAX,
};
pub use spelling::ParseObjectError;

/// Name of the root namespace of every database.
pub const ROOT_NAMESPACE: &str = "public";

/// An object of the catalog, by its full name.
///
/// Namespace paths are lists of components; the empty list is the root
/// namespace, `public`. A path that spells the root as one component `public`
/// names nothing, see [`Object::ensure_names`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Object {
    /// The deployment.
    System,
    /// A database, the top of a name in SQL.
    Database(String),
    /// A namespace, a schema in SQL.
    Namespace {
        /// The database it is in.
        database: String,
        /// Components from the database down; empty for `public`.
        path: Vec<String>,
    },
    /// A table.
    Table {
        /// The database it is in.
        database: String,
        /// Path of the namespace it is in.
        namespace: Vec<String>,
        /// Its own name.
        name: String,
    },
    /// A view.
    View {
        /// The database it is in.
        database: String,
        /// Path of the namespace it is in.
        namespace: Vec<String>,
        /// Its own name.
        name: String,
    },
    /// A materialized view; a table as far as privileges go.
    MaterializedView {
        /// The database it is in.
        database: String,
        /// Path of the namespace it is in.
        namespace: Vec<String>,
        /// Its own name.
        name: String,
    },
    /// A secret.
    Secret {
        /// The database it is in.
        database: String,
        /// Path of the namespace it is in.
        namespace: Vec<String>,
        /// Its own name.
        name: String,
    },
    /// A function.
    Function {
        /// The database it is in.
        database: String,
        /// Path of the namespace it is in.
        namespace: Vec<String>,
        /// Its own name.
        name: String,
    },
    /// A storage integration, which belongs to the deployment.
    StorageIntegration(String),
}

/// The kind of an [`Object`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// [`Object::System`].
    System,
    /// [`Object::Database`].
    Database,
    /// [`Object::Namespace`].
    Namespace,
    /// [`Object::Table`].
    Table,
    /// [`Object::View`].
    View,
    /// [`Object::MaterializedView`].
    MaterializedView,
    /// [`Object::Secret`].
    Secret,
    /// [`Object::Function`].
    Function,
    /// [`Object::StorageIntegration`].
    StorageIntegration,
}

impl ObjectKind {
    /// Every kind, outermost first.
    pub const ALL: [Self; 9] = [
        Self::System,
        Self::Database,
        Self::Namespace,
        Self::Table,
        Self::View,
        Self::MaterializedView,
        Self::Secret,
        Self::Function,
        Self::StorageIntegration,
    ];

    /// Returns the word for error messages in PostgreSQL's style, as in
    /// `permission denied for schema ml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Database => "database",
            Self::Namespace => "schema",
            Self::Table => "table",
            Self::View => "view",
            Self::MaterializedView => "materialized view",
            Self::Secret => "secret",
            Self::Function => "function",
            Self::StorageIntegration => "storage integration",
        }
    }
}

impl Object {
    /// Returns the kind of the object.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::System => ObjectKind::System,
            Self::Database(_) => ObjectKind::Database,
            Self::Namespace { .. } => ObjectKind::Namespace,
            Self::Table { .. } => ObjectKind::Table,
            Self::View { .. } => ObjectKind::View,
            Self::MaterializedView { .. } => ObjectKind::MaterializedView,
            Self::Secret { .. } => ObjectKind::Secret,
            Self::Function { .. } => ObjectKind::Function,
            Self::StorageIntegration(_) => ObjectKind::StorageIntegration,
        }
    }

    /// Returns the objects a caller passes on the way to this one, outermost
    /// first: the database, then the namespace that holds it.
    ///
    /// A nested namespace is one schema, addressed by its whole path, so its
    /// ancestors are not on the way; only the database is. The system, a
    /// database and a storage integration have nothing above them.
    pub fn parents(&self) -> Vec<Self> {
        match self {
            Self::System | Self::Database(_) | Self::StorageIntegration(_) => Vec::new(),
            Self::Namespace { database, path: _ } => vec![Self::Database(database.clone())],
            Self::Table { database, namespace, name: _ }
            | Self::View { database, namespace, name: _ }
            | Self::MaterializedView { database, namespace, name: _ }
            | Self::Secret { database, namespace, name: _ }
            | Self::Function { database, namespace, name: _ } => vec![
                Self::Database(database.clone()),
                Self::Namespace { database: database.clone(), path: namespace.clone() },
            ],
        }
    }

    /// Returns the name for error messages, without database and namespace: a
    /// table's own name, a namespace's path joined with `$`, `public` for the
    /// root, `system` for the deployment.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::System => Cow::Borrowed("system"),
            Self::Database(name) | Self::StorageIntegration(name) => Cow::Borrowed(name),
            Self::Namespace { database: _, path } if path.is_empty() => Cow::Borrowed(ROOT_NAMESPACE),
            Self::Namespace { database: _, path } => Cow::Owned(path.join("$")),
            Self::Table { name, .. }
            | Self::View { name, .. }
            | Self::MaterializedView { name, .. }
            | Self::Secret { name, .. }
            | Self::Function { name, .. } => Cow::Borrowed(name),
        }
    }

    /// Returns the object that access-control entries name: a table instead of
    /// a materialized view, anything else unchanged.
    pub fn acl_object(&self) -> Cow<'_, Self> {
        match self {
            Self::MaterializedView { database, namespace, name } => {
                Cow::Owned(Self::Table { database: database.clone(), namespace: namespace.clone(), name: name.clone() })
            }
            Self::System
            | Self::Database(_)
            | Self::Namespace { .. }
            | Self::Table { .. }
            | Self::View { .. }
            | Self::Secret { .. }
            | Self::Function { .. }
            | Self::StorageIntegration(_) => Cow::Borrowed(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(namespace: &[&str]) -> Object {
        Object::Table {
            database: "db".to_owned(),
            namespace: namespace.iter().map(|c| (*c).to_owned()).collect(),
            name: "t".to_owned(),
        }
    }

    #[test]
    fn a_table_is_reached_through_its_database_and_its_own_namespace() {
        let check = |object: Object, expected: &[&str]| {
            let parents: Vec<String> = object.parents().iter().map(Object::to_string).collect();
            assert_eq!(parents, expected, "{object}");
        };
        check(table(&[]), &["database:db", "namespace:db:public"]);
        check(table(&["a", "b"]), &["database:db", "namespace:db:a$b"]);
        check("namespace:db:a$b".parse().unwrap(), &["database:db"]);
        check("secret:db:a$k".parse().unwrap(), &["database:db", "namespace:db:a"]);
        check(Object::System, &[]);
        check(Object::Database("db".to_owned()), &[]);
        check(Object::StorageIntegration("s3".to_owned()), &[]);
    }

    #[test]
    fn messages_name_the_object_without_its_path() {
        let check = |text: &str, kind: &str, name: &str| {
            let object: Object = text.parse().unwrap();
            assert_eq!((object.kind().as_str(), &*object.name()), (kind, name));
        };
        check("system", "system", "system");
        check("database:team/search", "database", "team/search");
        check("namespace:db:public", "schema", "public");
        check("namespace:db:a$b", "schema", "a$b");
        check("view:db:a$v", "view", "v");
    }

    #[test]
    fn a_materialized_view_is_a_table_in_access_control_entries() {
        let view = Object::MaterializedView { database: "db".to_owned(), namespace: Vec::new(), name: "t".to_owned() };
        assert_eq!(*view.acl_object(), table(&[]));
        assert_eq!(view.to_string(), "table:db:public$t");
        assert_eq!(view.kind().as_str(), "materialized view");
    }
}
