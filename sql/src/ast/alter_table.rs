//! Changes of a table's columns and names.
//!
//! ```sql
//! ALTER TABLE [IF EXISTS] <table> <operation>, …
//!   ADD COLUMN <column> AS <expression> [WITH (<option> = <value>, …)]
//!   ADD COLUMN {<column> | (<column>, …)} AS <function>(<argument>, …)
//!       [FILTER (WHERE <predicate>)] [IGNORE NULLS] [OVER (PARTITION BY <column>, …)] [WITH (…)]
//!   ADD COLUMN <column> <type> GENERATED ALWAYS AS (<expression>) [STORED]
//!   ADD [COLUMN] [IF NOT EXISTS] <column> <type>
//!   DROP [COLUMN] [IF EXISTS] <column> [CASCADE | RESTRICT]
//!   RENAME [COLUMN] <column> TO <column>
//!   ALTER [COLUMN] <column> [SET DATA] TYPE <type> [USING <expression>]
//!   ALTER [COLUMN] <column> SET (auto_refresh_enabled = …, auto_refresh_interval_seconds = …)
//!   RENAME TO <name>
//!   SET UNENFORCED PRIMARY KEY (<column>, …)
//! ```
//!
//! A field inside a struct column is a column of its own where it is computed: `ADD COLUMN info.words AS …`,
//! `DROP COLUMN info.words` and `ALTER COLUMN info.words SET (…)` name it by its path.
//!
//! Example: `ALTER TABLE docs ADD COLUMN words AS length(body) WITH (auto_refresh_enabled = true)`

use std::fmt;

use sqlparser::ast as native;

use super::SourceExpr;
use crate::name::{FieldPath, Ident, ObjectName, write_separated};
use crate::options::ColumnOptions;

/// `ALTER TABLE`
#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    /// The table; PostgreSQL lets `RENAME` name a view here too.
    pub table: ObjectName,
    /// Whether a missing table is no error.
    pub if_exists: bool,
    /// The changes in order, at least one; they take effect together.
    pub operations: Vec<AlterOperation>,
}

/// `ALTER VIEW … RENAME TO …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterView {
    /// The view.
    pub view: ObjectName,
    /// Whether a missing view is no error.
    pub if_exists: bool,
    /// Whether the view is materialized.
    pub materialized: bool,
    /// The new name, in the same schema.
    pub rename_to: Ident,
}

/// One change of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterOperation {
    /// Adds columns that an expression or a Function fills.
    AddComputedColumn(Box<AddComputedColumn>),
    /// Adds an empty nullable column.
    AddColumn(AddColumn),
    /// Drops a column.
    DropColumn(DropColumn),
    /// Renames a column.
    RenameColumn(RenameColumn),
    /// Changes a column's type.
    AlterColumnType(AlterColumnType),
    /// Changes a computed column's automatic refresh.
    AlterColumnSet(AlterColumnSet),
    /// Lets a column take nulls.
    DropNotNull(Ident),
    /// Lets a column that has none take no nulls.
    SetNotNull(Ident),
    /// Changes what new rows get that give a column no value.
    SetDefault(Ident, Box<native::Expr>),
    /// Takes that away.
    DropDefault(Ident),
    /// Renames the table; the new name is in the same schema.
    RenameTable(Ident),
    /// Declares which columns identify a row, without checking it.
    SetUnenforcedPrimaryKey(Vec<Ident>),
}

/// Columns whose values are computed by `REFRESH COLUMN`.
#[derive(Debug, Clone, PartialEq)]
pub struct AddComputedColumn {
    /// The struct column, or the field of one, that the output is a field of.
    pub parent: Option<FieldPath>,
    /// The outputs, at least one; several only for a Function.
    pub names: Vec<Ident>,
    /// Whether existing columns of the names are no error.
    pub if_not_exists: bool,
    /// The declared type, from the `GENERATED ALWAYS AS` form.
    pub data_type: Option<native::DataType>,
    /// The expression or Function call, without the clauses after it.
    pub expression: SourceExpr,
    /// The clauses after a Function call, when there are any.
    pub application: Option<FunctionApplication>,
    /// The options of the `WITH` list.
    pub options: ColumnOptions,
}

/// How a Function is applied to rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionApplication {
    /// The rows to compute; all of them without it.
    pub filter: Option<SourceExpr>,
    /// Whether rows with a null input are passed over.
    pub ignore_nulls: bool,
    /// The columns whose equal values group rows into one call.
    pub partition_by: Vec<Ident>,
}

/// A plain new column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddColumn {
    /// The column.
    pub name: Ident,
    /// Its type.
    pub data_type: native::DataType,
    /// What rows get that are there, and new ones that give it no value.
    pub default: Option<Box<native::Expr>>,
    /// Whether it takes no nulls.
    pub not_null: bool,
    /// Whether an existing column of the name is no error.
    pub if_not_exists: bool,
}

/// A column to drop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropColumn {
    /// What the column is a field of, if it is not a column of the table.
    pub parent: Option<FieldPath>,
    /// The column.
    pub name: Ident,
    /// Whether a missing column is no error.
    pub if_exists: bool,
    /// Whether dependants are dropped too.
    pub cascade: bool,
}

/// A column to rename.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenameColumn {
    /// The present name.
    pub from: Ident,
    /// The new name.
    pub to: Ident,
}

/// A column to retype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterColumnType {
    /// The column.
    pub name: Ident,
    /// The new type.
    pub data_type: native::DataType,
    /// How values are converted; a plain cast without it.
    pub using: Option<Box<SourceExpr>>,
}

/// A computed column whose automatic refresh changes.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterColumnSet {
    /// What the column is a field of, if it is not a column of the table.
    pub parent: Option<FieldPath>,
    /// The column.
    pub name: Ident,
    /// The settings to change; only the automatic refresh, at least one.
    pub options: ColumnOptions,
}

impl fmt::Display for AlterTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ALTER TABLE ")?;
        if self.if_exists {
            f.write_str("IF EXISTS ")?;
        }
        write!(f, "{} ", self.table)?;
        write_separated(f, &self.operations, ", ")
    }
}

impl fmt::Display for AlterView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.materialized { "ALTER MATERIALIZED VIEW " } else { "ALTER VIEW " })?;
        if self.if_exists {
            f.write_str("IF EXISTS ")?;
        }
        write!(f, "{} RENAME TO {}", self.view, self.rename_to)
    }
}

impl fmt::Display for AlterOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddComputedColumn(add) => add.fmt(f),
            Self::AddColumn(add) => {
                f.write_str("ADD COLUMN ")?;
                if add.if_not_exists {
                    f.write_str("IF NOT EXISTS ")?;
                }
                write!(f, "{} {}", add.name, add.data_type)?;
                if let Some(default) = &add.default {
                    write!(f, " DEFAULT {default}")?;
                }
                f.write_str(if add.not_null { " NOT NULL" } else { "" })
            }
            Self::DropColumn(drop) => {
                f.write_str("DROP COLUMN ")?;
                if drop.if_exists {
                    f.write_str("IF EXISTS ")?;
                }
                write!(f, "{}{}", Within(drop.parent.as_ref(), &drop.name), if drop.cascade { " CASCADE" } else { "" })
            }
            Self::RenameColumn(rename) => {
                write!(f, "RENAME COLUMN {} TO {}", rename.from, rename.to)
            }
            Self::DropNotNull(column) => write!(f, "ALTER COLUMN {column} DROP NOT NULL"),
            Self::SetNotNull(column) => write!(f, "ALTER COLUMN {column} SET NOT NULL"),
            Self::SetDefault(column, value) => write!(f, "ALTER COLUMN {column} SET DEFAULT {value}"),
            Self::DropDefault(column) => write!(f, "ALTER COLUMN {column} DROP DEFAULT"),
            Self::AlterColumnType(alter) => {
                write!(f, "ALTER COLUMN {} TYPE {}", alter.name, alter.data_type)?;
                match &alter.using {
                    None => Ok(()),
                    Some(using) => write!(f, " USING {using}"),
                }
            }
            Self::AlterColumnSet(set) => {
                write!(f, "ALTER COLUMN {} SET ({})", Within(set.parent.as_ref(), &set.name), set.options)
            }
            Self::RenameTable(name) => write!(f, "RENAME TO {name}"),
            Self::SetUnenforcedPrimaryKey(columns) => {
                f.write_str("SET UNENFORCED PRIMARY KEY (")?;
                write_separated(f, columns, ", ")?;
                f.write_str(")")
            }
        }
    }
}

/// Displays a column by its path.
struct Within<'a>(Option<&'a FieldPath>, &'a Ident);

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.0 {
            write!(f, "{parent}.")?;
        }
        write!(f, "{}", self.1)
    }
}

impl fmt::Display for AddComputedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ADD COLUMN ")?;
        if self.if_not_exists {
            f.write_str("IF NOT EXISTS ")?;
        }
        match self.names.as_slice() {
            [name] => write!(f, "{}", Within(self.parent.as_ref(), name))?,
            names => {
                f.write_str("(")?;
                write_separated(f, names, ", ")?;
                f.write_str(")")?;
            }
        }
        match &self.data_type {
            Some(data_type) => {
                write!(f, " {data_type} GENERATED ALWAYS AS ({}) STORED", self.expression)?;
            }
            None => write!(f, " AS {}", self.expression)?,
        }
        if let Some(application) = &self.application {
            write!(f, "{application}")?;
        }
        write!(f, "{}", self.options.with_clause())
    }
}

impl fmt::Display for FunctionApplication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(filter) = &self.filter {
            write!(f, " FILTER (WHERE {filter})")?;
        }
        if self.ignore_nulls {
            f.write_str(" IGNORE NULLS")?;
        }
        if !self.partition_by.is_empty() {
            f.write_str(" OVER (PARTITION BY ")?;
            write_separated(f, &self.partition_by, ", ")?;
            f.write_str(")")?;
        }
        Ok(())
    }
}
