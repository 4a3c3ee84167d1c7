//! A function that hides from the optimizer what a value is: its value is its first argument, and may be NULL; further
//! arguments make calls differ.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function, for rewritten statements.
pub(crate) const NAME: &str = "lancegate_opaque";

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    // Whatever is volatile is neither folded nor moved.
    let signature = Signature::variadic_any(Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(Opaque { signature }))
});

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    FUNCTION.as_ref().clone()
}

/// Returns a value, hidden.
pub(crate) fn hidden(value: Expr) -> Expr {
    FUNCTION.call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Opaque {
    signature: Signature,
}

impl ScalarUDFImpl for Opaque {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(first) => Ok(first.clone()),
            None => plan_err!("function {NAME}() does not exist"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first() {
            Some(first) => Ok(Arc::new(first.as_ref().clone().with_name(NAME).with_nullable(true))),
            None => plan_err!("function {NAME}() does not exist"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(first) => Ok(first),
            None => plan_err!("function {NAME}() does not exist"),
        }
    }
}
