//! The single way in: `Statement` → [`Engine::plan`] → [`Engine::authorize`] → [`Engine::execute`].
//!
//! PostgreSQL wire, REST and the console all come through here. Nothing
//! executes, and nothing is described, without an [`Authorized`] proof, whose
//! only constructor is the privilege check.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::scalar::ScalarValue;
use lancegate_sql::Statement;

use crate::error::Result;
use crate::session::{Session, StatementContext};
use crate::sql::authorize::Authorized;
use crate::sql::plan::Plan;

/// What a statement answers.
pub enum Outcome {
    /// Rows, streamed. The command tag is known once the stream has ended.
    Rows {
        /// The columns; equal to what [`Plan::columns`] described.
        schema: SchemaRef,
        /// The batches, in order; dropping it stops the work.
        stream: SendableRecordBatchStream,
        /// How the tag is made.
        tag: RowsTag,
    },
    /// No rows; the whole command tag, for example `INSERT 0 3`.
    Done(String),
}

/// How the command tag of a statement with rows is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowsTag {
    /// The word and the number of rows sent: `SELECT 5`.
    Counted(&'static str),
    /// The tag as it is: `REFRESH COLUMN`, `EXPLAIN`, `SHOW`.
    Fixed(String),
}
