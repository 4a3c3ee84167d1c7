//! Why a refresh did not do what was asked.

use datafusion::error::DataFusionError;
use lancegate_functions::ExecutorError;

use super::expression::ExpressionError;
use crate::storage::StorageError;
use lancegate_catalog::CatalogError;

/// See the variants. [`Self::error_name`] is what a failed job records.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The declared expression does not compile against the table any more.
    #[error("expression of computed column \"{column}\": {source}")]
    Expression {
        /// The column.
        column: String,
        /// What is wrong with it.
        #[source]
        source: ExpressionError,
    },
    /// The WHERE clause does not compile.
    #[error(transparent)]
    Predicate(ExpressionError),
    /// The expression or the predicate failed on a row.
    #[error(transparent)]
    Evaluate(DataFusionError),
    /// A Function failed.
    #[error("function \"{function}\" failed{}: {error}", shown(place))]
    Function {
        /// The Function.
        function: String,
        /// Fragment and offset of the row, if one is known.
        place: Option<(u64, u32)>,
        /// How.
        error: Box<ExecutorError>,
    },
    /// A computed input is not current in a fragment with work (RC-07).
    #[error("computed column \"{input}\" is not refreshed for its current inputs")]
    InputNotRefreshed {
        /// The input.
        input: String,
        /// Rows of the fragment without a current value of it.
        rows: u64,
        /// The fragment.
        fragment: u64,
    },
    /// Concurrent writes invalidated staged rows in every round.
    #[error("concurrent writes invalidated {fragments} staged fragments in each of {rounds} rounds")]
    ConcurrentWrite {
        /// Fragments still without their values.
        fragments: usize,
        /// Rounds tried.
        rounds: u32,
    },
    /// The work was told to stop.
    #[error("refresh was canceled")]
    Canceled,
    /// Another attempt holds the job; this one stopped without committing.
    #[error("the lease of the job was lost")]
    LeaseLost,
    /// The job registry did not take a receipt.
    #[error("job registry: {0}")]
    Registry(#[source] lancegate_catalog::CatalogError),
    /// The table could not be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A worker panicked.
    #[error("a refresh worker failed: {0}")]
    Worker(String),
}

impl RefreshError {
    /// Sorts what Lance's scanner reports while it evaluates a predicate.
    pub(super) fn evaluating(error: lance::Error) -> Self {
        Self::Storage(StorageError::Lance(error))
    }

    /// Returns whether another attempt of the job may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_transient(),
            Self::Registry(CatalogError::Store { .. } | CatalogError::Locked { .. }) => true,
            Self::Expression { .. }
            | Self::Predicate(_)
            | Self::Evaluate(_)
            | Self::Function { .. }
            | Self::InputNotRefreshed { .. }
            | Self::ConcurrentWrite { .. }
            | Self::Canceled
            | Self::LeaseLost
            | Self::Registry(_)
            | Self::Worker(_) => false,
        }
    }

    /// Returns the name that `failure.error_code` of a job holds.
    pub fn error_name(&self) -> &'static str {
        match self {
            Self::Expression { .. } | Self::Predicate(_) => "InvalidExpression",
            Self::Evaluate(_) => "EvaluationError",
            Self::Function { error, .. } => match error.as_ref() {
                ExecutorError::Row { raised, .. } if raised.error_type == "RowTimeoutError" => "RowTimeoutError",
                ExecutorError::Row { .. } => "FunctionError",
                ExecutorError::Limit(_) => "FailureLimitExceeded",
                ExecutorError::Initialization { .. } => "InitializationError",
                ExecutorError::Contract(_) => "ContractError",
                ExecutorError::Lost { .. } => "WorkerLost",
            },
            Self::InputNotRefreshed { .. } => "ComputedInputNotRefreshed",
            Self::ConcurrentWrite { .. } | Self::Storage(StorageError::Conflict(_)) => "ConcurrentWriteError",
            Self::Canceled => "Canceled",
            Self::LeaseLost | Self::Worker(_) => "WorkerLost",
            Self::Registry(_) => "RegistryError",
            Self::Storage(StorageError::NoColumn { .. }) => "ColumnDropped",
            Self::Storage(_) => "PublicationError",
        }
    }
}

fn shown(place: &Option<(u64, u32)>) -> String {
    place.map(|(fragment, offset)| format!(" on row {offset} of fragment {fragment}")).unwrap_or_default()
}
