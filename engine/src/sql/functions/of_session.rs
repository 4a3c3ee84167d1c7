//! Functions that answer about the session: who, where, with which settings.

use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;

use super::udf::{RowFunction, text, utf8};
use crate::error::SqlError;
use crate::session::settings::SERVER_VERSION;
use crate::sql::caller::Caller;
use crate::sqlstate::SqlState;

/// The functions that always answer the same in a session, whatever its
/// settings are.
pub const NAMES: [&str; 8] = [
    "current_user",
    "session_user",
    "user",
    "current_role",
    "current_database",
    "current_catalog",
    "pg_backend_pid",
    "version",
];

/// Returns the functions of the statements of `caller`.
pub fn functions(caller: &Caller) -> Vec<ScalarUDF> {
    let user = caller.principal.user.as_str();
    let mut functions = Vec::new();
    for name in ["current_user", "session_user", "user", "current_role"] {
        functions.push(RowFunction::constant(name, utf8(Some(user))));
    }
    for name in ["current_database", "current_catalog"] {
        functions.push(RowFunction::constant(name, utf8(Some(caller.database.as_str()))));
    }
    functions.push(RowFunction::constant("pg_backend_pid", ScalarValue::Int32(Some(caller.session_id))));
    functions.push(RowFunction::constant("version", utf8(Some(format!("PostgreSQL {SERVER_VERSION}")))));
    functions.push(current_setting(caller));
    functions.push(set_config(caller));
    functions
}

fn current_setting(caller: &Caller) -> ScalarUDF {
    let settings = caller.settings.clone();
    RowFunction::define("current_setting", &[1, 2], DataType::Utf8, Volatility::Stable, move |arguments| {
        let Some(name) = arguments.first().and_then(text) else { return Ok(ScalarValue::Utf8(None)) };
        let missing_ok = matches!(arguments.get(1), Some(ScalarValue::Boolean(Some(true))));
        match settings.get(&name) {
            Ok(value) => Ok(utf8(Some(value))),
            Err(_) if missing_ok => Ok(ScalarValue::Utf8(None)),
            Err(error) => Err(external(error)),
        }
    })
}

/// `set_config(name, value, is_local)`. The statement goes on with the settings that
/// it began with; the next one has the new value.
fn set_config(caller: &Caller) -> ScalarUDF {
    let settings = caller.settings.clone();
    RowFunction::define("set_config", &[3], DataType::Utf8, Volatility::Volatile, move |arguments| {
        let [name, value, local] = arguments else { return Ok(ScalarValue::Utf8(None)) };
        let Some(name) = text(name) else {
            let error = SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name");
            return Err(external(error));
        };
        let local = matches!(local, ScalarValue::Boolean(Some(true)));
        Ok(utf8(Some(settings.assign(&name, text(value).as_deref(), local).map_err(external)?)))
    })
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
