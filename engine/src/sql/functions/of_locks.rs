//! `pg_advisory_lock` and its kin (PostgreSQL documentation, "Advisory Lock Functions").

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::activity::Activity;
use crate::activity::advisory::{Key, Mode, Number, Refused, Until};
use crate::error::SqlError;
use crate::sqlstate::SqlState;
use crate::system::SystemContext;

/// The functions of this module.
pub const NAMES: [&str; 11] = [
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_advisory_unlock_all",
];

/// Returns the functions of one session.
pub fn functions(context: &SystemContext) -> Vec<ScalarUDF> {
    let define = |name: &'static str| {
        let shapes = match name {
            "pg_advisory_unlock_all" => vec![TypeSignature::Nullary],
            _ => vec![
                TypeSignature::Exact(vec![DataType::Int64]),
                TypeSignature::Exact(vec![DataType::Int64, DataType::Int64]),
            ],
        };
        let function = Function {
            name,
            signature: Signature::one_of(shapes, Volatility::Volatile),
            activity: Arc::clone(context.engine.activity()),
            pid: context.caller.session_id,
            database: context.caller.database.clone(),
        };
        AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf()
    };
    NAMES.into_iter().map(define).collect()
}

#[derive(Debug)]
struct Function {
    name: &'static str,
    signature: Signature,
    activity: Arc<Activity>,
    pid: i32,
    database: String,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.pid == other.pid && self.database == other.database
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.pid).hash(state);
    }
}

impl Function {
    fn tells(&self) -> bool {
        self.name.contains("try") || self.name.contains("unlock") && self.name != "pg_advisory_unlock_all"
    }

    fn mode(&self) -> Mode {
        if self.name.ends_with("_shared") { Mode::Shared } else { Mode::Exclusive }
    }

    fn until(&self) -> Until {
        if self.name.contains("_xact_") { Until::Transaction } else { Until::Session }
    }

    /// Does what the function does to one lock, and tells whether it did.
    async fn act(&self, number: Number) -> Result<bool, SqlError> {
        let locks = self.activity.advisory();
        let key = Key { database: self.database.clone(), number };
        let taken = match self.name {
            name if name.contains("unlock") => return Ok(locks.unlock(self.pid, &key, self.mode())),
            name if name.contains("try") => locks.try_lock(self.pid, &key, self.mode(), self.until()),
            _ => locks.lock(self.pid, &key, self.mode(), self.until()).await,
        };
        match taken {
            Ok(()) => Ok(true),
            Err(Refused::Held) => Ok(false),
            Err(Refused::Deadlock) => Err(SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
                .detail("A session that holds the advisory lock waits for one of this session.")),
            Err(Refused::Full) => Err(SqlError::new(SqlState::OUT_OF_MEMORY, "there are too many advisory locks")
                .hint("Give back those that are not needed any more.")),
        }
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// `void` is shown as an empty text.
    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(if self.tells() { DataType::Boolean } else { DataType::Utf8 })
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} may wait", self.name)
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Function {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let external = |error| DataFusionError::External(Box::new(error));
        if self.activity.user_of(self.pid).is_none() {
            let refused = SqlError::not_supported("advisory locks belong to sessions, which this statement has not");
            return Err(external(refused.hint("Connect with PostgreSQL's protocol.")));
        }
        let arrays =
            args.args.iter().map(|argument| argument.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        let mut told = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let number = match arrays.as_slice() {
                [] => {
                    self.activity.advisory().unlock_all(self.pid);
                    None
                }
                [one] if one.is_valid(row) => Some(Number::One(one.as_primitive::<Int64Type>().value(row))),
                [one, two] if one.is_valid(row) && two.is_valid(row) => {
                    let number = |array: &Arc<dyn Array>| {
                        let number = i32::try_from(array.as_primitive::<Int64Type>().value(row));
                        let refused = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
                        number.map_err(|_| external(refused()))
                    };
                    Some(Number::Two(number(one)?, number(two)?))
                }
                _ => None,
            };
            told.push(match number {
                Some(number) => Some(self.act(number).await.map_err(external)?),
                None => None,
            });
        }
        Ok(ColumnarValue::Array(match self.tells() {
            true => Arc::new(arrow::array::BooleanArray::from(told)),
            false => ScalarValue::from("").to_array_of_size(args.number_rows)?,
        }))
    }
}
