//! Names of objects and columns.
//!
//! Names are kept as they are stored: folded to lower case unless they were
//! quoted. Quotes exist in SQL text only and are put back by `Display` where
//! the name would otherwise not be read back the same.

use std::fmt;

use sqlparser::ast as native;

/// A single identifier, already folded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ident(String);

impl Ident {
    /// Returns the identifier with exactly this spelling; nothing is folded.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the name without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name without quotes.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Folds an identifier of the native parser.
    pub fn from_native(ident: &native::Ident) -> Self {
        match ident.quote_style {
            Some(_) => Self(ident.value.clone()),
            None => Self(fold(&ident.value)),
        }
    }
}

impl From<&str> for Ident {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl From<String> for Ident {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl AsRef<str> for Ident {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Ident {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Ident {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_ident(f, &self.0)
    }
}

/// The name of a table, view, Function, secret or integration.
///
/// A nested namespace is one schema name whose components are joined by `$`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// The database, when the name has three parts.
    pub database: Option<String>,
    /// The namespace path, when the name has at least two parts.
    pub schema: Option<String>,
    /// The object's own name.
    pub name: String,
}

impl ObjectName {
    /// Returns a name without schema and database.
    pub fn bare(name: impl Into<String>) -> Self {
        Self { database: None, schema: None, name: name.into() }
    }

    /// Returns a name within a schema.
    pub fn in_schema(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { database: None, schema: Some(schema.into()), name: name.into() }
    }

    /// Returns the folded form of a name of the native parser, or `None` when it
    /// has more than three parts or a part that is not an identifier.
    pub fn from_native(name: &native::ObjectName) -> Option<Self> {
        let parts = name
            .0
            .iter()
            .map(|part| part.as_ident().map(|ident| Ident::from_native(ident).into_string()))
            .collect::<Option<Vec<_>>>()?;
        Self::from_parts(parts)
    }

    pub(crate) fn from_parts(mut parts: Vec<String>) -> Option<Self> {
        let name = parts.pop()?;
        let schema = parts.pop();
        let database = parts.pop();
        parts.is_empty().then_some(Self { database, schema, name })
    }

    /// Returns the name for the native parser, every part quoted.
    pub fn to_native(&self) -> native::ObjectName {
        let parts = [self.database.as_deref(), self.schema.as_deref(), Some(self.name.as_str())];
        native::ObjectName::from(
            parts.into_iter().flatten().map(|part| native::Ident::with_quote('"', part)).collect::<Vec<_>>(),
        )
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(database) = &self.database {
            write_ident(f, database)?;
            f.write_str(".")?;
        }
        if let Some(schema) = &self.schema {
            write_ident(f, schema)?;
            f.write_str(".")?;
        }
        write_ident(f, &self.name)
    }
}

/// The name of a namespace: a whole path joined by `$`, in a database.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SchemaName {
    /// The database, or the connected one.
    pub database: Option<String>,
    /// The complete namespace path; `public` is the root.
    pub schema: String,
}

impl SchemaName {
    /// Returns a schema of the connected database.
    pub fn new(schema: impl Into<String>) -> Self {
        Self { database: None, schema: schema.into() }
    }

    /// Returns the child namespace `component` of this one.
    #[must_use]
    pub fn child(&self, component: &str) -> Self {
        let schema = match self.schema.as_str() {
            "public" => component.to_owned(),
            path => format!("{path}${component}"),
        };
        Self { database: self.database.clone(), schema }
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(database) = &self.database {
            write_ident(f, database)?;
            f.write_str(".")?;
        }
        write_ident(f, &self.schema)
    }
}

/// A column or a field inside a struct column, outermost part first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// Returns the path of a top-level column.
    pub fn column(name: impl Into<String>) -> Self {
        Self(vec![name.into()])
    }

    /// Returns the path made of these parts, or `None` without any.
    pub fn from_parts(parts: Vec<String>) -> Option<Self> {
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// Returns the names from the column inwards; never empty.
    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// Returns the name of the top-level column.
    pub fn root(&self) -> &str {
        &self.0[0]
    }

    /// Returns the form that Lance uses: parts joined by `.`, and a part that
    /// holds anything but letters, digits and `_` between backticks.
    pub fn to_lance(&self) -> String {
        let parts = self.0.iter().map(|part| {
            if !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_') {
                part.clone()
            } else {
                format!("`{}`", part.replace('`', "``"))
            }
        });
        parts.collect::<Vec<_>>().join(".")
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_separated(f, self.0.iter().map(|part| Quoted(part)), ".")
    }
}

/// Folds an unquoted identifier as PostgreSQL does: ASCII letters only.
pub(crate) fn fold(word: &str) -> String {
    word.to_ascii_lowercase()
}

/// Writes an identifier, quoted when it would not be read back as it is.
pub(crate) fn write_ident(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !is_reserved(name)
        && !CONTEXT_WORDS.contains(&name);
    if plain { f.write_str(name) } else { write!(f, "\"{}\"", name.replace('"', "\"\"")) }
}

/// Writes a string literal that reads back the same whatever the text holds.
pub(crate) fn write_literal(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

/// Displays an identifier with quotes where needed.
#[derive(Debug)]
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_ident(f, self.0)
    }
}

/// Displays a string literal.
#[derive(Debug)]
pub(crate) struct Literal<'a>(pub(crate) &'a str);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_literal(f, self.0)
    }
}

/// Writes items with a separator between them.
pub(crate) fn write_separated<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    separator: &str,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Returns whether a folded word is reserved: it is a name only in quotes.
pub fn is_reserved(word: &str) -> bool {
    RESERVED_WORDS.binary_search(&word).is_ok()
}

/// PostgreSQL's reserved words, sorted.
const RESERVED_WORDS: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// Words that our own statements look for where a name may stand; quoted when
/// printed, so that they are read back as names.
const CONTEXT_WORDS: &[&str] = &[
    "absolute",
    "api",
    "at",
    "backward",
    "between",
    "by",
    "characteristics",
    "clone",
    "columns",
    "constraints",
    "cursor",
    "database",
    "databases",
    "errors",
    "exists",
    "filter",
    "first",
    "forward",
    "function",
    "functions",
    "gpu",
    "grants",
    "if",
    "ignore",
    "index",
    "indexes",
    "isolation",
    "job",
    "jobs",
    "last",
    "local",
    "materialized",
    "names",
    "namespace",
    "namespaces",
    "next",
    "nowait",
    "over",
    "partition",
    "prior",
    "public",
    "read",
    "refresh",
    "relative",
    "role",
    "roles",
    "savepoint",
    "schema",
    "schemas",
    "secret",
    "secrets",
    "session",
    "set",
    "storage",
    "system",
    "tables",
    "time",
    "timeout",
    "transaction",
    "users",
    "version",
    "view",
    "views",
    "wait",
    "work",
];
