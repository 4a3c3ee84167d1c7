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

/// See the module documentation.
pub(crate) struct RegisteredFunction {
    called: String,
    own_name: String,
    definition: Arc<Definition>,
    made_by: MadeBy,
    digest: String,
    signature: Signature,
    host: FunctionHost,
}

impl RegisteredFunction {
    /// Returns the function under the name that the statement calls it by.
    pub(crate) fn define(
        called: String,
        name: String,
        definition: Definition,
        made_by: MadeBy,
        host: FunctionHost,
    ) -> ScalarUDF {
        let types: Vec<DataType> = definition.parameters.iter().map(|p| p.arrow_type.0.clone()).collect();
        let shape = if types.is_empty() { TypeSignature::Nullary } else { TypeSignature::Exact(types) };
        // Whatever it declares: nobody but a worker can evaluate it, also not while planning.
        let signature = Signature::new(shape, Volatility::Volatile);
        let digest = definition.digest();
        let function =
            Self { called, own_name: name, definition: Arc::new(definition), made_by, digest, signature, host };
        AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf()
    }

    async fn values(&self, args: &ScalarFunctionArgs) -> Result<ArrayRef> {
        let rows = args.number_rows;
        let columns = args.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let fields = self.definition.parameters.iter().zip(&columns);
        let fields = fields.map(|(parameter, column)| Field::new(&parameter.name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let values = self.host.call(&self.own_name, &self.definition, &self.made_by, &batch).await;
        values.map_err(|error| DataFusionError::External(Box::new(SqlError::from(error))))
    }
}

impl fmt::Debug for RegisteredFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredFunction")
            .field("name", &self.own_name)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl PartialEq for RegisteredFunction {
    fn eq(&self, other: &Self) -> bool {
        self.called == other.called
            && self.own_name == other.own_name
            && self.made_by == other.made_by
            && self.digest == other.digest
    }
}

impl Eq for RegisteredFunction {}

impl Hash for RegisteredFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.called.hash(state);
        self.digest.hash(state);
    }
}

impl ScalarUDFImpl for RegisteredFunction {
    fn name(&self) -> &str {
        &self.called
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.definition.output.0.clone())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let message = format!("function {}() cannot be called here", self.own_name);
        let error = SqlError::not_supported(message)
            .detail("A Function is called in the select list and in WHERE, outside of other clauses.")
            .hint("Call it in a subquery in FROM, and use its values outside.");
        Err(DataFusionError::External(Box::new(error)))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for RegisteredFunction {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(self.values(&args).await?))
    }
}
