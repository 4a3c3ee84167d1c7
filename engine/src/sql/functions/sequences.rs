//! Functions about the sequences of serial and identity columns: `nextval`, `currval`,
//! `lastval`, `setval` (PostgreSQL, "Sequence Manipulation Functions").
//!
//! To draw and to set takes INSERT on the table that owns the sequence. A sequence that the
//! caller cannot reach looks as if it did not exist.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::Result as DfResult;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use futures::future::BoxFuture;
use lancegate_auth::{Privilege, Requirement, decide};
use lancegate_catalog::Table;

use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::exec::numbers::{Latest, Sequence};
use crate::sql::resolve::{BoundTable, object_of};
use crate::sqlstate::SqlState;
use crate::storage::defaults;
use crate::system::SystemContext;

/// The functions of this module.
pub const NAMES: [&str; 4] = ["nextval", "currval", "lastval", "setval"];

/// Returns the functions of one statement.
///
/// # Errors
/// If the metadata store or the data root fails.
pub async fn functions(context: &SystemContext) -> Result<Vec<ScalarUDF>> {
    let known = Arc::new(Known::load(context).await?);
    let text = || TypeSignature::Exact(vec![DataType::Utf8]);
    let setval = |more: &[DataType]| TypeSignature::Exact([&[DataType::Utf8, DataType::Int64][..], more].concat());
    let define = |call: Call, shapes: Vec<TypeSignature>| {
        let signature = Signature::one_of(shapes, Volatility::Volatile);
        AsyncScalarUDF::new(Arc::new(Function { call, signature, known: Arc::clone(&known) })).into_scalar_udf()
    };
    Ok(vec![
        define(Call::Next, vec![text()]),
        define(Call::Current, vec![text()]),
        define(Call::Last, vec![TypeSignature::Nullary]),
        define(Call::Set, vec![setval(&[]), setval(&[DataType::Boolean])]),
    ])
}

/// The sequences of the connected database that the caller can reach.
#[derive(Debug)]
struct Known {
    engine: Engine,
    path: Vec<String>,
    latest: Arc<Latest>,
    sequences: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    schema: String,
    name: String,
    table: Table,
    field: Field,
    may_draw: bool,
}

impl Known {
    async fn load(context: &SystemContext) -> Result<Self> {
        let (engine, caller) = (&context.engine, &context.caller);
        let grants = context.caller.names.grants(engine.catalog()).await?;
        let mut sequences = Vec::new();
        for row in &context.objects().await?.relations {
            let object = object_of(&row.record);
            let inserts = Requirement::new(Privilege::Insert, object);
            let may_draw = decide(&caller.principal, &grants, &inserts).allowed();
            for field in row.columns.iter().filter(|field| defaults::numbering_of(field).is_some()) {
                sequences.push(Entry {
                    schema: row.schema.clone(),
                    name: defaults::sequence_name(&row.record.name.name, field.name()),
                    table: row.record.clone(),
                    field: field.clone(),
                    may_draw,
                });
            }
        }
        let (path, latest) = (caller.search_path(), Arc::clone(&caller.numbers));
        Ok(Self { engine: engine.clone(), path, latest, sequences })
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        let parts = super::of_privileges::name_parts(name)?;
        let of = |schema: &String, name: &String| -> Vec<&Entry> {
            self.sequences.iter().filter(|entry| entry.schema == *schema && entry.name == *name).collect()
        };
        let found = match parts.as_slice() {
            [name] => self.path.iter().map(|schema| of(schema, name)).find(|found| !found.is_empty()),
            [schema, name] => Some(of(schema, name)),
            _ => None,
        };
        let found = found.unwrap_or_default();
        if let [one, other, ..] = found.as_slice() {
            return Err(ambiguous(name, one, other));
        }
        found.into_iter().next().ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
                .detail("A sequence is that of a serial or identity column.")
        })
    }

    async fn sequence(&self, entry: &Entry) -> Result<Sequence> {
        let dataset = self.engine.store().open(&entry.table.location).await?;
        let table = BoundTable { record: entry.table.clone(), dataset };
        let sequence = Sequence::of(&self.engine, &table, &entry.field)?;
        sequence.ok_or_else(|| SqlError::internal("a sequence has lost its column"))
    }

    /// Returns the sequence of a name, if the caller may draw from it.
    async fn drawn_from(&self, name: &str) -> Result<Sequence> {
        let entry = self.entry(name)?;
        if !entry.may_draw {
            let message = format!("permission denied for sequence {}", entry.name);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .detail(format!("INSERT ON TABLE {} is required.", entry.table.name.name)));
        }
        self.sequence(entry).await
    }

    async fn next(&self, name: &str) -> Result<i64> {
        self.drawn_from(name).await?.draw(1, &self.latest).await
    }

    async fn current(&self, name: &str) -> Result<i64> {
        let entry = self.entry(name)?;
        let found = self.latest.of(self.sequence(entry).await?.key());
        found.ok_or_else(|| not_yet(&format!("currval of sequence \"{}\"", entry.name)))
    }

    fn last(&self) -> Result<i64> {
        self.latest.last().ok_or_else(|| not_yet("lastval"))
    }

    async fn set(&self, name: &str, value: i64, is_called: bool) -> Result<i64> {
        let sequence = self.drawn_from(name).await?;
        sequence.set(value, is_called).await?;
        Ok(value)
    }
}

/// Returns the error for a name that two columns make: `a_b.c` and `a.b_c`. One of them
/// would get numbers that it has had.
fn ambiguous(name: &str, one: &Entry, other: &Entry) -> SqlError {
    let of = |entry: &Entry| format!("column \"{}\" of table \"{}\"", entry.field.name(), entry.table.name.name);
    SqlError::new(SqlState::AMBIGUOUS_OBJECT, format!("sequence name \"{name}\" is ambiguous"))
        .detail(format!("It is that of {} and of {}.", of(one), of(other)))
        .hint("Rename one of the tables or columns.")
}

fn not_yet(what: &str) -> SqlError {
    let message = format!("{what} is not yet defined in this session");
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    Next,
    Current,
    Last,
    Set,
}

/// One of the functions.
#[derive(Debug)]
struct Function {
    call: Call,
    signature: Signature,
    known: Arc<Known>,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.call == other.call && Arc::ptr_eq(&self.known, &other.known)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.call {
            Call::Next => "nextval",
            Call::Current => "currval",
            Call::Last => "lastval",
            Call::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let message = format!("{}() is not possible here", self.name());
        let error = SqlError::not_supported(message).hint("Call it in the list of a SELECT.");
        Err(DataFusionError::External(Box::new(error)))
    }
}

// As `async_trait` declares it, see `system::LazyRelation`.
impl AsyncScalarUDFImpl for Function {
    fn invoke_async_with_args<'life0, 'async_trait>(
        &'life0 self,
        args: ScalarFunctionArgs,
    ) -> BoxFuture<'async_trait, DfResult<ColumnarValue>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        self.invoke_all(args)
    }
}

impl Function {
    fn invoke_all(&self, args: ScalarFunctionArgs) -> BoxFuture<'_, DfResult<ColumnarValue>> {
        Box::pin(async move {
            let rows = args.number_rows;
            let arrays = args.args.iter().map(|argument| argument.to_array(rows)).collect::<DfResult<Vec<_>>>()?;
            let numbers = self.all(&arrays, rows).await.map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok(ColumnarValue::Array(Arc::new(numbers)))
        })
    }

    /// Calls it for each row, one after the other.
    async fn all(&self, arguments: &[ArrayRef], rows: usize) -> Result<Int64Array> {
        let names = arguments.first().map(|names| cast(names, &DataType::Utf8)).transpose()?;
        let names = names.as_ref().map(|names| names.as_string::<i32>());
        let values = arguments.get(1).map(|values| values.as_primitive::<Int64Type>());
        let called = arguments.get(2).map(|called| called.as_boolean());
        if self.call == Call::Next
            && let Some(name) = names.and_then(only)
            && let Ok(count) = u32::try_from(rows)
        {
            // Each draw is flushed to disk, so all rows draw at once.
            let first = self.known.drawn_from(name).await?.draw(count, &self.known.latest).await?;
            return Ok((first..).take(rows).map(Some).collect());
        }
        let mut numbers = Vec::with_capacity(rows);
        for row in 0..rows {
            let number = match (self.call, names.and_then(|names| at(names, row))) {
                (Call::Last, _) => Some(self.known.last()?),
                (_, None) => None,
                (Call::Next, Some(name)) => Some(self.known.next(name).await?),
                (Call::Current, Some(name)) => Some(self.known.current(name).await?),
                (Call::Set, Some(name)) => {
                    let value = values.filter(|values| values.is_valid(row)).map(|values| values.value(row));
                    match (value, truth(called, row)) {
                        (Some(value), Some(called)) => Some(self.known.set(name, value, called).await?),
                        _ => None,
                    }
                }
            };
            numbers.push(number);
        }
        Ok(numbers.into())
    }
}

/// Returns the name that is that of every row.
fn only(names: &StringArray) -> Option<&str> {
    let first = at(names, 0).filter(|_| names.null_count() == 0)?;
    names.iter().all(|name| name == Some(first)).then_some(first)
}

fn at(names: &StringArray, row: usize) -> Option<&str> {
    (row < names.len() && names.is_valid(row)).then(|| names.value(row))
}

/// Returns whether the number that is set counts as drawn, which is so unless it is said.
fn truth(called: Option<&BooleanArray>, row: usize) -> Option<bool> {
    match called {
        Some(called) => called.is_valid(row).then(|| called.value(row)),
        None => Some(true),
    }
}
