//! Names: which database, namespace and table exist, and where a table lies.

use std::collections::BTreeMap;
use std::fmt;

use lancegate_auth::object::ROOT_NAMESPACE;
use lancegate_auth::{Grant, Object};

use crate::Timestamp;
use crate::error::{CatalogError, EntityKind, Result};
use crate::ids::TableId;
use crate::secret::{SecretName, SecretRecord};

/// Separates the components of a namespace path in the store and in SQL.
const SEPARATOR: char = '$';

/// String properties of a namespace.
pub type Properties = BTreeMap<String, String>;

/// A database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// The name.
    pub name: String,
    /// The folder or URI that its tables are created under.
    pub location: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A namespace below the root of a database. The root exists with the
/// database and has no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The database.
    pub database: String,
    /// The components of the path, at least one.
    pub path: Vec<String>,
    /// Its properties.
    pub properties: Properties,
    /// When it was created.
    pub created_at: Timestamp,
}

/// The kind of relation that a name stands for. They share one space of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// A Lance table.
    Table,
    /// A stored query.
    View,
    /// A Lance table filled by a stored query.
    MaterializedView,
}

impl TableKind {
    /// Returns the word used in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TableKind::Table => "table",
            TableKind::View => "view",
            TableKind::MaterializedView => "materialized_view",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [TableKind::Table, TableKind::View, TableKind::MaterializedView].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The full name of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The database.
    pub database: String,
    /// The namespace; empty for the root.
    pub namespace: Vec<String>,
    /// The name.
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = if self.namespace.is_empty() { ROOT_NAMESPACE.to_owned() } else { self.namespace.join("$") };
        write!(f, "{}.{schema}.{}", self.database, self.name)
    }
}

/// A table, view or materialized view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The generation that the name stands for now.
    pub id: TableId,
    /// What it is.
    pub kind: TableKind,
    /// The full name.
    pub name: TableName,
    /// Where the Lance table lies; empty for a view.
    pub location: String,
    /// The query of a view or materialized view, as written.
    pub definition: Option<String>,
    /// What COMMENT says about it.
    pub comment: Option<String>,
    /// Who created it. Privileges follow the OWNERSHIP grant, not this.
    pub owner: String,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Table {
    /// Returns the object that grants on it name.
    #[must_use]
    pub fn object(&self) -> Object {
        object_of(self.kind, &self.name)
    }
}

pub(crate) fn object_of(kind: TableKind, name: &TableName) -> Object {
    let TableName { database, namespace, name } = name.clone();
    match kind {
        TableKind::Table => Object::Table { database, namespace, name },
        TableKind::View => Object::View { database, namespace, name },
        TableKind::MaterializedView => Object::MaterializedView { database, namespace, name },
    }
}

/// What may change about a table besides its name. A field that is none
/// stays; the inner none clears it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableChange {
    /// The comment.
    pub comment: Option<Option<String>>,
    /// The query of a view.
    pub definition: Option<String>,
    /// Who is shown as the owner.
    pub owner: Option<String>,
}

/// One change of names. [`Catalog::apply`](crate::Catalog::apply) makes several
/// of them visible together, in the order given.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectChange {
    /// Adds a database.
    CreateDatabase(Database),
    /// Removes an empty database and the grants on it.
    DropDatabase {
        /// Its name.
        name: String,
    },
    /// Adds a namespace. Its ancestors are added when they are missing.
    CreateNamespace(Namespace),
    /// Replaces the properties of a namespace.
    AlterNamespace {
        /// The database.
        database: String,
        /// The path.
        path: Vec<String>,
        /// The new properties.
        properties: Properties,
    },
    /// Removes an empty namespace and the grants on it.
    DropNamespace {
        /// The database.
        database: String,
        /// The path.
        path: Vec<String>,
    },
    /// Adds a table.
    CreateTable(Table),
    /// Gives a table another name. Grants on it move along.
    RenameTable {
        /// The table.
        id: TableId,
        /// Its new name, in the same database.
        to: TableName,
    },
    /// Changes what is recorded about a table.
    AlterTable {
        /// The table.
        id: TableId,
        /// What changes.
        change: TableChange,
    },
    /// Removes the name of a table and the grants on it. Its files stay until
    /// somebody deletes them.
    DropTable {
        /// The table.
        id: TableId,
    },
    /// Sets or removes a comment on a part of a table, on a namespace or a database.
    Comment {
        /// The table's id, or the object's text.
        object: String,
        /// The part; empty for the object itself.
        part: String,
        /// The comment.
        comment: Option<String>,
    },
    /// Makes a number the one that is drawn next for a numbered column.
    SetSequence {
        /// The table.
        table: TableId,
        /// The field of the column.
        field: i32,
        /// The number.
        next: i64,
    },
    /// Gives the sequence of a numbered column to the field that is in its place.
    MoveSequence {
        /// The table.
        table: TableId,
        /// The field that had it.
        from: i32,
        /// The field that has it from now on.
        to: i32,
    },
    /// Adds a secret.
    CreateSecret(SecretRecord),
    /// Removes a secret and the grants on it.
    DropSecret(SecretName),
    /// Adds a grant; see [`Catalog::grant`](crate::Catalog::grant).
    Grant(Grant),
    /// Removes a grant; see [`Catalog::revoke`](crate::Catalog::revoke).
    Revoke(Grant),
}

impl ObjectChange {
    /// Returns the relation that the change is about, if it is about one that is there.
    pub fn relation(&self) -> Option<TableId> {
        match self {
            Self::RenameTable { id, .. } | Self::AlterTable { id, .. } | Self::DropTable { id } => Some(*id),
            _ => None,
        }
    }

    /// Returns the relation that it removes.
    pub fn dropped(&self) -> Option<TableId> {
        match self {
            Self::DropTable { id } => Some(*id),
            _ => None,
        }
    }
}

/// Returns the stored form of a namespace path.
///
/// # Errors
///
/// [`CatalogError::InvalidName`] for an empty component or one that contains
/// the separator `$`, which would make two paths one, and for the root spelled
/// as a component.
pub(crate) fn namespace_to_text(path: &[String]) -> Result<String> {
    if path == [ROOT_NAMESPACE] {
        return Err(invalid(EntityKind::Namespace, ROOT_NAMESPACE));
    }
    for component in path {
        ensure_name(EntityKind::Namespace, component)?;
        if component.contains(SEPARATOR) {
            return Err(invalid(EntityKind::Namespace, component));
        }
    }
    Ok(path.join("$"))
}

/// Returns the path of a stored namespace; the root is the empty text.
pub(crate) fn namespace_from_text(text: &str) -> Vec<String> {
    text.split(SEPARATOR).filter(|component| !component.is_empty()).map(str::to_owned).collect()
}

/// Refuses names that cannot be stored.
pub(crate) fn ensure_name(kind: EntityKind, name: &str) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        return Err(invalid(kind, name));
    }
    Ok(())
}

fn invalid(kind: EntityKind, name: &str) -> CatalogError {
    CatalogError::InvalidName { kind, name: name.to_owned() }
}
