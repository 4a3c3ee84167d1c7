//! Functions that act on sessions: `pg_cancel_backend`, `pg_terminate_backend` (PostgreSQL,
//! "Server Signaling Functions").
//!
//! One's own sessions can be ended by anybody, those of others with OPERATE on the system.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;
use lancegate_auth::{Object, Privilege};

use super::udf::{RowFunction, number};
use crate::activity::Activity;
use crate::error::{Result, SqlError};
use crate::sqlstate::SqlState;
use crate::system::SystemContext;

/// The functions of this module.
pub const NAMES: [&str; 2] = ["pg_cancel_backend", "pg_terminate_backend"];

/// Returns the functions of one statement.
///
/// # Errors
/// If the metadata store fails.
pub async fn functions(context: &SystemContext) -> Result<Vec<ScalarUDF>> {
    let (engine, caller) = (&context.engine, &context.caller);
    let operates = engine.allows(&caller.principal, Privilege::Operate, Object::System).await?;
    let define = |name: &str, arguments: &[usize], verb: &'static str, act: fn(&Activity, i32) -> bool| {
        let (activity, own) = (Arc::clone(engine.activity()), caller.principal.user.clone());
        RowFunction::define(name, arguments, DataType::Boolean, Volatility::Volatile, move |arguments| {
            let pid = arguments.first().and_then(number).and_then(|pid| i32::try_from(pid).ok());
            let Some(pid) = pid else { return Ok(ScalarValue::Boolean(None)) };
            if activity.user_of(pid).is_some_and(|user| user != own) && !operates {
                let error = SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied to {verb}"))
                    .detail("The session is another user's, and OPERATE ON SYSTEM is required.");
                return Err(DataFusionError::External(Box::new(error)));
            }
            Ok(ScalarValue::Boolean(Some(act(&activity, pid))))
        })
    };
    Ok(vec![
        define("pg_cancel_backend", &[1], "cancel query", Activity::cancel),
        define("pg_terminate_backend", &[1, 2], "terminate process", Activity::terminate),
    ])
}
