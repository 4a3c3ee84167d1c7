//! A registered Function as a scalar function of a query: its rows are computed in worker processes.
//!
//! Workers of queries are in a pool of their own, so a query never waits for a refresh and never sees the state of an
//! instance that a refresh uses. A row that raises fails the statement.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use lancegate_functions::Definition;

use crate::error::SqlError;
use crate::refresh::FunctionHost;
use crate::refresh::function::MadeBy;

/// A Function as a statement calls it.
pub(crate) struct RegisteredFunction {
    /// The name that it is registered by for the statement.
    pub(crate) called: String,
    /// Its own.
    pub(crate) own_name: String,
    /// What it is.
    pub(crate) definition: Arc<Definition>,
    /// Whose it is.
    pub(crate) made_by: MadeBy,
    /// What its instances are made with.
    pub(crate) initialization: Option<String>,
    /// Where it runs.
    pub(crate) host: FunctionHost,
}

/// See the module documentation.
struct Called {
    function: RegisteredFunction,
    digest: String,
    signature: Signature,
}

impl RegisteredFunction {
    /// Returns the function as DataFusion calls it.
    pub(crate) fn define(self) -> ScalarUDF {
        let types: Vec<DataType> = self.definition.parameters.iter().map(|p| p.arrow_type.0.clone()).collect();
        let shape = if types.is_empty() { TypeSignature::Nullary } else { taking(types) };
        // Whatever it declares: nobody but a worker can evaluate it, also not while planning.
        let signature = Signature::new(shape, Volatility::Volatile);
        let digest = self.definition.digest();
        AsyncScalarUDF::new(Arc::new(Called { function: self, digest, signature })).into_scalar_udf()
    }

    async fn values(&self, args: &ScalarFunctionArgs) -> Result<ArrayRef> {
        let rows = args.number_rows;
        let columns = args.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let fields = self.definition.parameters.iter().zip(&columns);
        let fields = fields.map(|(parameter, column)| Field::new(&parameter.name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let values =
            self.host.call(&self.own_name, &self.definition, &self.made_by, self.initialization.clone(), &batch);
        let values = values.await;
        values.map_err(|error| DataFusionError::External(Box::new(SqlError::from(error))))
    }
}

/// Parameters that are combined with each other as lists with and without NULLs, at most.
const LISTS_MAX: usize = 4;

/// The signature of these parameters. Items of lists are declared as never NULL, those of columns may be: both are taken.
fn taking(types: Vec<DataType>) -> TypeSignature {
    let mut all = vec![types.clone()];
    let lists = types.iter().enumerate().filter(|(_, data_type)| with_nulls(data_type) != **data_type);
    for (place, data_type) in lists.take(LISTS_MAX) {
        let more: Vec<Vec<DataType>> = all
            .iter()
            .map(|types| {
                let mut types = types.clone();
                types[place] = with_nulls(data_type);
                types
            })
            .collect();
        all.extend(more);
    }
    match all.len() {
        1 => TypeSignature::Exact(types),
        _ => TypeSignature::OneOf(all.into_iter().map(TypeSignature::Exact).collect()),
    }
}

/// The same type with items that may be NULL.
fn with_nulls(data_type: &DataType) -> DataType {
    let item = |item: &Arc<Field>| {
        let inner = with_nulls(item.data_type());
        Arc::new(item.as_ref().clone().with_data_type(inner).with_nullable(true))
    };
    match data_type {
        DataType::List(inner) => DataType::List(item(inner)),
        DataType::LargeList(inner) => DataType::LargeList(item(inner)),
        DataType::FixedSizeList(inner, size) => DataType::FixedSizeList(item(inner), *size),
        other => other.clone(),
    }
}

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredFunction")
            .field("name", &self.function.own_name)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Called {
    fn eq(&self, other: &Self) -> bool {
        let of = |called: &Self| (called.function.called.clone(), called.function.own_name.clone());
        of(self) == of(other) && self.function.made_by == other.function.made_by && self.digest == other.digest
    }
}

impl Eq for Called {}

impl Hash for Called {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.called.hash(state);
        self.digest.hash(state);
    }
}

impl ScalarUDFImpl for Called {
    fn name(&self) -> &str {
        &self.function.called
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.function.definition.output.0.clone())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let message = format!("function {}() cannot be called here", self.function.own_name);
        let error = SqlError::not_supported(message).hint("Call it in a subquery in FROM, and use its values outside.");
        Err(DataFusionError::External(Box::new(error)))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Called {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(self.function.values(&args).await?))
    }
}
