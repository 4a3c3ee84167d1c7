//! COPY: which columns of what, in which format.
//!
//! As in PostgreSQL, computed columns are left out and cannot be named: what
//! COPY TO writes is what COPY FROM takes. A query writes whatever it selects.

use arrow::datatypes::FieldRef;
use lancegate_sql::{Ident, ObjectName, ast};
use lancegate_wire::copy::{CopyFormat, CopyOptions};
use sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Expr, SelectItem, SetExpr,
    Statement as Native, TableWithJoins,
};

use super::dml::default::Filling;
use super::dml::{exactly, is_computed, no_column};
use super::query::QueryPlan;
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sql::resolve::{BoundTable, is_materialized, no_relation};
use crate::sql::rewrite::build;
use crate::sqlstate::SqlState;
use crate::storage::provider;

/// A bound COPY.
#[derive(Debug, Clone)]
pub enum CopyPlan {
    /// COPY … TO STDOUT.
    To {
        /// The rows.
        query: Box<QueryPlan>,
        /// Their form.
        options: CopyOptions,
    },
    /// COPY … FROM STDIN.
    From {
        /// The table.
        table: Box<BoundTable>,
        /// The columns that get a value, in the order of the fields.
        columns: Vec<FieldRef>,
        /// What fills others.
        filling: Filling,
        /// The form of the rows.
        options: CopyOptions,
    },
}

impl CopyPlan {
    /// Returns the types of the parameters.
    pub fn parameter_types(&self) -> &[FieldRef] {
        match self {
            Self::To { query, .. } => &query.parameters.reported,
            Self::From { .. } => &[],
        }
    }
}

impl Planner {
    /// Binds COPY.
    ///
    /// # Errors
    /// 0A000 for files and programs, 42601 and 22023 for options, 42P10 for a
    /// computed column, 42809 for a view, and what a query raises.
    pub(super) async fn plan_copy(&self, statement: &ast::Copy) -> Result<Plan> {
        let Native::Copy { source, to, target, options, legacy_options, .. } = statement.0.as_ref() else {
            return Err(SqlError::internal("COPY was not parsed as one"));
        };
        ensure_client(target, *to)?;
        let (copy, named) = options_of(options, legacy_options)?;
        let plan = match source {
            CopySource::Query(query) => {
                let query = self.bind_query(Native::Query(query.clone())).await?;
                let names: Vec<_> = query.columns.fields().iter().map(|field| field.name().clone()).collect();
                CopyPlan::To { options: named.resolve(copy, &names, *to)?, query: Box::new(query) }
            }
            CopySource::Table { table_name, columns } => {
                let name = ObjectName::from_native(table_name).ok_or_else(|| {
                    SqlError::new(SqlState::SYNTAX_ERROR, format!("improper relation name {table_name}"))
                })?;
                let table = self.copied_table(&name, *to).await?;
                let columns = copied_columns(&table, columns)?;
                let names: Vec<_> = columns.iter().map(|field| field.name().clone()).collect();
                let options = named.resolve(copy, &names, *to)?;
                match to {
                    false => {
                        let filling = self.filling(&table, &names).await?;
                        CopyPlan::From { table: Box::new(table), columns, filling, options }
                    }
                    true => {
                        let query = Box::new(self.bind_query(select(table_name, &names)).await?);
                        CopyPlan::To { query, options }
                    }
                }
            }
        };
        Ok(Plan::Copy(Box::new(plan)))
    }

    /// Returns the table that is copied to or from.
    async fn copied_table(&self, name: &ObjectName, to: bool) -> Result<BoundTable> {
        let record = self.find(name).await?.ok_or_else(|| no_relation(name))?;
        let kind = match record.kind {
            lancegate_catalog::TableKind::Table => return self.open(record).await,
            lancegate_catalog::TableKind::View => "view",
            lancegate_catalog::TableKind::MaterializedView => "materialized view",
        };
        let materialized = record.kind == lancegate_catalog::TableKind::MaterializedView;
        if to && materialized {
            return self.open(record).await;
        }
        if materialized {
            return Err(is_materialized(&name.name));
        }
        let direction = if to { "from" } else { "to" };
        let error =
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("cannot copy {direction} {kind} \"{}\"", name.name));
        Err(if to { error.hint("Try the COPY (SELECT ...) TO variant.") } else { error })
    }
}

fn ensure_client(target: &CopyTarget, to: bool) -> Result<()> {
    let what = match target {
        CopyTarget::Stdin | CopyTarget::Stdout => return Ok(()),
        CopyTarget::File { .. } => "a file of the server",
        CopyTarget::Program { .. } => "a program",
    };
    let (word, end) = if to { ("to", "TO STDOUT") } else { ("from", "FROM STDIN") };
    Err(SqlError::not_supported(format!("COPY {word} {what} is not supported"))
        .hint(format!("Use COPY {end}; psql's \\copy does that with a file of the client.")))
}

/// Returns the named columns, or all that are not computed.
fn copied_columns(table: &BoundTable, named: &[sqlparser::ast::Ident]) -> Result<Vec<FieldRef>> {
    let visible = provider::visible_schema(&table.dataset);
    if named.is_empty() {
        let plain = visible.fields().iter().filter(|field| !is_computed(table, field.name()));
        return Ok(plain.cloned().collect());
    }
    let mut columns: Vec<FieldRef> = Vec::with_capacity(named.len());
    for name in named {
        let name = Ident::from_native(name).into_string();
        let (_, field) = visible.fields().find(&name).ok_or_else(|| no_column(&name, table.name()))?;
        if is_computed(table, &name) {
            let message = format!("column \"{name}\" is a generated column");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                .detail("Generated columns cannot be used in COPY.")
                .hint("COPY (SELECT ...) TO writes them."));
        }
        if columns.iter().any(|column| *column.name() == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        columns.push(std::sync::Arc::clone(field));
    }
    Ok(columns)
}

/// `SELECT <columns> FROM <table>`
fn select(table: &sqlparser::ast::ObjectName, columns: &[String]) -> Native {
    let items = columns.iter().map(|name| SelectItem::UnnamedExpr(Expr::Identifier(exactly(name)))).collect();
    let from = TableWithJoins { relation: build::table(table.clone(), None), joins: Vec::new() };
    let select = build::select(items, vec![from], None);
    Native::Query(Box::new(build::query(SetExpr::Select(Box::new(select)))))
}

/// Options that name columns; `None` of a list is all of them.
#[derive(Debug, Default)]
struct Named {
    force_quote: Vec<sqlparser::ast::Ident>,
    force_not_null: Vec<sqlparser::ast::Ident>,
    force_null: Vec<sqlparser::ast::Ident>,
}

impl Named {
    fn resolve(&self, mut options: CopyOptions, columns: &[String], to: bool) -> Result<CopyOptions> {
        let csv = options.format == CopyFormat::Csv;
        let lists = [
            ("FORCE_QUOTE", &self.force_quote, true),
            ("FORCE_NOT_NULL", &self.force_not_null, false),
            ("FORCE_NULL", &self.force_null, false),
        ];
        for (word, list, only_to) in lists {
            if !list.is_empty() && !csv {
                return Err(unfit(format!("COPY {word} requires CSV mode")));
            }
            if !list.is_empty() && only_to != to {
                let direction = if to { "COPY TO" } else { "COPY FROM" };
                return Err(unfit(format!("COPY {word} cannot be used with {direction}")));
            }
        }
        options.force_quote = positions(&self.force_quote, columns, "FORCE_QUOTE")?;
        options.force_not_null = positions(&self.force_not_null, columns, "FORCE_NOT_NULL")?;
        options.force_null = positions(&self.force_null, columns, "FORCE_NULL")?;
        options.ensure_valid().map_err(|error| SqlError::new(SqlState::parse(error.sqlstate()), error.to_string()))?;
        Ok(options)
    }
}

fn positions(named: &[sqlparser::ast::Ident], columns: &[String], word: &str) -> Result<Vec<usize>> {
    // The parser's spelling of all columns.
    if let [all] = named
        && all.value == "*"
    {
        return Ok((0..columns.len()).collect());
    }
    let position = |ident: &sqlparser::ast::Ident| {
        let name = Ident::from_native(ident).into_string();
        columns.iter().position(|column| *column == name).ok_or_else(|| {
            let message = format!("{word} column \"{name}\" not referenced by COPY");
            SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
        })
    };
    named.iter().map(position).collect()
}

/// Reads both grammars: `(FORMAT csv, …)` and the one before PostgreSQL 9.0.
fn options_of(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<(CopyOptions, Named)> {
    let mut copy = CopyOptions::new(format_of(options, legacy)?);
    let mut named = Named::default();
    let csv = copy.format == CopyFormat::Csv;
    let csv_only = |word: &str| if csv { Ok(()) } else { Err(unfit(format!("COPY {word} requires CSV mode"))) };
    let mut escape = None;
    for option in options {
        match option {
            CopyOption::Format(_) | CopyOption::Freeze(_) => {}
            CopyOption::Delimiter(byte) => copy.delimiter = single(*byte, "delimiter")?,
            CopyOption::Null(text) => copy.null.clone_from(text),
            CopyOption::Header(header) => copy.header = *header,
            CopyOption::Quote(byte) => {
                csv_only("QUOTE")?;
                copy.quote = single(*byte, "quote")?;
            }
            CopyOption::Escape(byte) => {
                csv_only("ESCAPE")?;
                escape = Some(single(*byte, "escape")?);
            }
            CopyOption::ForceQuote(columns) => named.force_quote.clone_from(columns),
            CopyOption::ForceNotNull(columns) => named.force_not_null.clone_from(columns),
            CopyOption::ForceNull(columns) => named.force_null.clone_from(columns),
            CopyOption::Encoding(name) => ensure_utf8(name)?,
        }
    }
    for option in legacy {
        match option {
            CopyLegacyOption::Binary => {}
            CopyLegacyOption::Delimiter(byte) => copy.delimiter = single(*byte, "delimiter")?,
            CopyLegacyOption::Null(text) => copy.null.clone_from(text),
            CopyLegacyOption::Header => copy.header = true,
            CopyLegacyOption::Csv(more) => {
                for option in more {
                    match option {
                        CopyLegacyCsvOption::Header => copy.header = true,
                        CopyLegacyCsvOption::Quote(byte) => copy.quote = single(*byte, "quote")?,
                        CopyLegacyCsvOption::Escape(byte) => escape = Some(single(*byte, "escape")?),
                        CopyLegacyCsvOption::ForceQuote(columns) => named.force_quote.clone_from(columns),
                        CopyLegacyCsvOption::ForceNotNull(columns) => named.force_not_null.clone_from(columns),
                    }
                }
            }
            other => {
                let message = format!("option \"{}\" not recognized", other.to_string().to_lowercase());
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
    }
    copy.escape = escape.unwrap_or(copy.quote);
    if copy.format == CopyFormat::Binary {
        ensure_binary(&copy)?;
    }
    Ok((copy, named))
}

fn format_of(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<CopyFormat> {
    let mut formats = options.iter().filter_map(|option| match option {
        CopyOption::Format(name) => Some(name.value.to_ascii_lowercase()),
        _ => None,
    });
    let named = formats.next();
    if formats.next().is_some() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
    }
    match named.as_deref() {
        Some("text") => Ok(CopyFormat::Text),
        Some("csv") => Ok(CopyFormat::Csv),
        Some("binary") => Ok(CopyFormat::Binary),
        Some(other) => Err(unfit(format!("COPY format \"{other}\" not recognized"))),
        None if legacy.iter().any(|option| matches!(option, CopyLegacyOption::Csv(_))) => Ok(CopyFormat::Csv),
        None if legacy.contains(&CopyLegacyOption::Binary) => Ok(CopyFormat::Binary),
        None => Ok(CopyFormat::Text),
    }
}

fn ensure_binary(copy: &CopyOptions) -> Result<()> {
    let plain = CopyOptions::new(CopyFormat::Binary);
    let refused = match () {
        () if copy.delimiter != plain.delimiter => "cannot specify DELIMITER in BINARY mode",
        () if copy.null != plain.null => "cannot specify NULL in BINARY mode",
        () if copy.header => "cannot specify HEADER in BINARY mode",
        () => return Ok(()),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, refused))
}

fn single(character: char, what: &str) -> Result<u8> {
    u8::try_from(character)
        .ok()
        .filter(u8::is_ascii)
        .ok_or_else(|| unfit(format!("COPY {what} must be a single one-byte character")))
}

fn ensure_utf8(encoding: &str) -> Result<()> {
    let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    if ["utf8", "unicode", "sqlascii"].contains(&plain.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(SqlError::not_supported(format!("encoding \"{encoding}\" is not supported")).hint("COPY data is UTF-8."))
}

fn unfit(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
