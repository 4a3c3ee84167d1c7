//! Runs CREATE, ALTER, DROP and DESCRIBE SECRET. No answer holds a value.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::scalar::ScalarValue;
use lancegate_auth::Secret;
use lancegate_catalog::{CatalogError, ObjectChange, SecretName};
use lancegate_sql::ast::SecretValue;

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome, session as block, tables};
use crate::secrets::SecretError;
use crate::session::Session;
use crate::sql::plan::SecretPlan;
use crate::sql::plan::secrets::{Passes, SecretAction, no_secret, no_text};
use crate::sqlstate::SqlState;

/// Runs one statement about a secret.
pub(super) async fn run(
    engine: &Engine,
    session: &mut Session,
    plan: &SecretPlan,
    parameters: Vec<ScalarValue>,
) -> Result<Outcome> {
    let name = &plan.name;
    let status = match &plan.action {
        SecretAction::Create { if_not_exists, value } => {
            let value = taken(value, parameters)?;
            create(engine, session, name, *if_not_exists, &value).await?
        }
        SecretAction::Alter { passes: Passes::Now, .. } | SecretAction::Drop { passes: Passes::Now } => "not_found",
        SecretAction::Alter { passes: _, value } => {
            let value = taken(value, parameters)?;
            engine.secrets().alter(name, &value).await?;
            "altered"
        }
        SecretAction::Drop { passes: _ } => {
            engine.catalog().apply(vec![ObjectChange::DropSecret(name.clone())]).await?;
            "dropped"
        }
        SecretAction::Describe { privilege: _ } => return describe(engine, plan).await,
    };
    if matches!(status, "created" | "altered" | "dropped") {
        block::changed(session, &name.name);
    }
    let tag = plan.writes().unwrap_or_default();
    let columns = [tag, name.name.as_str(), status].map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef);
    Ok(Outcome::batch(RecordBatch::try_new(Arc::clone(plan.columns()), columns.to_vec())?, tag))
}

async fn create(
    engine: &Engine,
    session: &Session,
    name: &SecretName,
    if_not_exists: bool,
    value: &Secret<String>,
) -> Result<&'static str> {
    let owned = tables::ownership(&session.principal, name.object());
    match engine.secrets().create(name, value, vec![owned]).await {
        Ok(()) => Ok("created"),
        Err(SecretError::Catalog(CatalogError::AlreadyExists { .. })) if if_not_exists => Ok("already_exists"),
        Err(error) => Err(error.into()),
    }
}

async fn describe(engine: &Engine, plan: &SecretPlan) -> Result<Outcome> {
    let record = engine.catalog().secret(&plan.name).await?.ok_or_else(|| no_secret(&plan.name.name))?;
    let millis = |at: lancegate_catalog::Timestamp| Arc::new(Int64Array::from(vec![at.timestamp_millis()])) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![plan.name.name.as_str()])),
        millis(record.created_at),
        millis(record.updated_at),
    ];
    Ok(Outcome::batch(RecordBatch::try_new(Arc::clone(plan.columns()), columns)?, "DESCRIBE"))
}

/// Takes the value out of the statement or its parameter.
fn taken(value: &SecretValue, parameters: Vec<ScalarValue>) -> Result<Secret<String>> {
    match value {
        SecretValue::Text(text) => Ok(Secret::new(text.expose().to_owned())),
        SecretValue::Parameter(_) => match parameters.into_iter().next() {
            Some(
                ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)),
            ) => Ok(Secret::new(text)),
            Some(value) if value.is_null() => {
                Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "the value of a secret cannot be null"))
            }
            Some(_) => Err(no_text()),
            None => Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1")),
        },
    }
}
