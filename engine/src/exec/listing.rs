//! Runs SHOW TABLES and its relatives, DESCRIBE of tables, databases and schemas.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use lancegate_auth::{Grants, Object, Principal, Privilege, Requirement, decide};
use lancegate_catalog::TableKind;

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome, adopt};
use crate::session::Session;
use crate::sql::plan::ListingPlan;
use crate::sql::plan::listing::Listing;
use crate::sql::resolve::{BoundTable, object_of, schema_of};
use crate::storage::provider;
use crate::system::objects::type_name;

/// Runs one listing. What the caller may not reach is left out.
pub(super) async fn run(engine: &Engine, session: &Session, plan: &ListingPlan) -> Result<Outcome> {
    let mut rows = match &plan.what {
        Listing::Databases => databases(engine, session).await?,
        Listing::Schemas { database, parent } => schemas(engine, session, database, parent.as_deref()).await?,
        Listing::Relations { database, namespace, kind } => {
            relations(engine, session, database, namespace.as_deref(), *kind).await?
        }
        Listing::Secrets { database, namespace } => secrets(engine, session, database, namespace.as_deref()).await?,
        Listing::Columns(table) => columns(table),
        Listing::Database(name) => vec![vec![name.clone(), "{}".to_owned()]],
        Listing::Schema { database, path } => {
            let properties = engine.catalog().namespace(database, path).await?.map(|found| found.properties);
            let text = serde_json::to_string(&properties.unwrap_or_default()).map_err(SqlError::internal)?;
            vec![vec![schema_of(path), text]]
        }
    };
    let sorted = !matches!(plan.what, Listing::Columns(_));
    if sorted {
        rows.sort();
    }
    rows.retain(|row| row.last().is_some_and(|name| keeps(plan, name)) || !sorted);
    if let Some(limit) = plan.limit {
        rows.truncate(limit as usize);
    }
    let tag = match plan.what {
        Listing::Columns(_) | Listing::Database(_) | Listing::Schema { .. } => "DESCRIBE",
        Listing::Databases | Listing::Schemas { .. } | Listing::Relations { .. } | Listing::Secrets { .. } => "SHOW",
    };
    let width = plan.columns().fields().len();
    let columns: Vec<ArrayRef> = (0..width)
        .map(|column| Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row[column].as_str()))) as ArrayRef)
        .collect();
    Ok(Outcome::batch(RecordBatch::try_new(Arc::clone(plan.columns()), columns)?, tag))
}

fn keeps(plan: &ListingPlan, name: &str) -> bool {
    let like = plan.like.as_deref().is_none_or(|pattern| like(name, pattern));
    like && plan.after.as_deref().is_none_or(|after| name > after)
}

/// LIKE without an escape: `%` is any text, `_` any character.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    let mut chars = pattern.chars();
    match chars.next() {
        None => text.is_empty(),
        Some('%') => {
            let rest = chars.as_str();
            text.char_indices().any(|(index, _)| like(&text[index..], rest)) || like("", rest)
        }
        Some(c) => {
            let mut remaining = text.chars();
            remaining.next().is_some_and(|first| c == '_' || c == first) && like(remaining.as_str(), chars.as_str())
        }
    }
}

fn may(principal: &Principal, grants: &Grants, object: Object) -> bool {
    decide(principal, grants, &Requirement::new(Privilege::Usage, object)).allowed()
}

async fn databases(engine: &Engine, session: &Session) -> Result<Vec<Vec<String>>> {
    let (principal, names) = (&session.principal, &session.names);
    let grants = names.grants(engine.catalog()).await?;
    let mut names: Vec<String> = engine.catalog().databases().await?.into_iter().map(|found| found.name).collect();
    names.retain(|name| may(principal, &grants, Object::Database(name.clone())));
    if may(principal, &grants, Object::System) {
        names.push(crate::system::SYSTEM_DATABASE.to_owned());
    }
    Ok(names.into_iter().map(|name| vec![name]).collect())
}

async fn schemas(
    engine: &Engine,
    session: &Session,
    database: &str,
    parent: Option<&[String]>,
) -> Result<Vec<Vec<String>>> {
    adopt::all(engine, database).await?;
    let (principal, names) = (&session.principal, &session.names);
    let grants = names.grants(engine.catalog()).await?;
    let mut paths: Vec<Vec<String>> = names.schemas(engine.catalog(), database).await?;
    match parent {
        None => paths.push(Vec::new()),
        Some(parent) => paths.retain(|path| path.len() == parent.len() + 1 && path.starts_with(parent)),
    }
    paths.retain(|path| {
        may(principal, &grants, Object::Namespace { database: database.to_owned(), path: path.clone() })
    });
    Ok(paths.iter().map(|path| vec![compact(&path[..path.len().saturating_sub(1)]), schema_of(path)]).collect())
}

async fn relations(
    engine: &Engine,
    session: &Session,
    database: &str,
    namespace: Option<&[String]>,
    kind: TableKind,
) -> Result<Vec<Vec<String>>> {
    adopt::all(engine, database).await?;
    let (principal, names) = (&session.principal, &session.names);
    let grants = names.grants(engine.catalog()).await?;
    let tables = names.tables(engine.catalog(), database, namespace).await?;
    let visible = tables.iter().filter(|table| {
        let object = object_of(table);
        let namespace = Object::Namespace { database: database.to_owned(), path: table.name.namespace.clone() };
        table.kind == kind
            && (may(principal, &grants, namespace) || grants.holds(principal, Privilege::Ownership, &object))
    });
    Ok(visible.map(|table| vec![compact(&table.name.namespace), table.name.name.clone()]).collect())
}

/// Names only, and only of secrets that the caller may do something with.
async fn secrets(
    engine: &Engine,
    session: &Session,
    database: &str,
    namespace: Option<&[String]>,
) -> Result<Vec<Vec<String>>> {
    let (principal, names) = (&session.principal, &session.names);
    let grants = names.grants(engine.catalog()).await?;
    let mut secrets = engine.catalog().secrets(Some(database)).await?;
    secrets.retain(|secret| {
        let any = [Privilege::Usage, Privilege::Update, Privilege::Ownership]
            .into_iter()
            .any(|privilege| decide(principal, &grants, &Requirement::new(privilege, secret.name.object())).allowed());
        any && namespace.is_none_or(|namespace| namespace == secret.name.namespace)
    });
    Ok(secrets.into_iter().map(|secret| vec![compact(&secret.name.namespace), secret.name.name]).collect())
}

fn columns(table: &BoundTable) -> Vec<Vec<String>> {
    let schema = provider::visible_schema(&table.dataset);
    let row = |field: &Arc<arrow::datatypes::Field>| {
        let nullable = if field.is_nullable() { "YES" } else { "NO" };
        vec![field.name().clone(), type_name(field), nullable.to_owned()]
    };
    schema.fields().iter().map(row).collect()
}

fn compact(path: &[String]) -> String {
    serde_json::json!(path).to_string()
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn like_patterns_match_as_in_sql() {
        let cases = [
            ("docs", "d%", true),
            ("docs", "d_cs", true),
            ("docs", "", false),
            ("", "%", true),
            ("docs", "%s", true),
            ("docs", "x%", false),
        ];
        for (text, pattern, expected) in cases {
            assert_eq!(like(text, pattern), expected, "{text} {pattern}");
        }
    }
}
