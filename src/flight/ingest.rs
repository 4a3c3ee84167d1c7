//! `CommandStatementIngest`: rows that go into a table in one commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow_flight::FlightData;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt as _;
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::sql::authorize::Authorized;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sql::plan::ingest::{IfExists, IngestMode, IngestRequest};
use lancegate_engine::sqlstate::SqlState;
use lancegate_sql::ObjectName;
use tonic::Streaming;

use super::caller::Caller;
use super::rows::Incoming;

/// Takes the rows and returns how many there were.
///
/// # Errors
/// What REST's `create` and `insert` answer; 0A000 for a temporary table.
pub(super) async fn run(
    caller: &mut Caller,
    command: CommandStatementIngest,
    (first, rest): (FlightData, Streaming<FlightData>),
    bytes_max: u64,
) -> Result<i64> {
    if command.temporary {
        return Err(SqlError::not_supported("temporary tables are not supported"));
    }
    let modes = modes(&command)?;
    let incoming = Incoming::open(first, rest, bytes_max).await?;
    let schema = command.schema.filter(|schema| !schema.is_empty());
    let database = command.catalog.filter(|catalog| !catalog.is_empty());
    // A database is named in front of a schema only.
    let schema = schema.or_else(|| database.is_some().then(|| "public".to_owned()));
    let table = ObjectName { database, schema, name: command.table };
    // The rows may not be shared between threads, which what is kept while it is bound must.
    let columns = Arc::clone(incoming.schema());
    let request = |mode| IngestRequest { table: table.clone(), mode, schema: Arc::clone(&columns) };
    let plan = plan(caller, modes.into_iter().map(request)).await?;
    let count = Arc::new(AtomicI64::new(0));
    let rows = counted(incoming.rows(), Arc::clone(&count));
    let ctx = caller.ctx.clone();
    let (engine, session) = (caller.engine.clone(), &mut caller.session);
    engine.ingest(session, &plan, rows, &ctx).await?;
    Ok(count.load(Ordering::Relaxed))
}

/// Binds the first request whose table is there, or may be made.
async fn plan(caller: &Caller, requests: impl Iterator<Item = IngestRequest>) -> Result<Authorized<Plan>> {
    let mut missing = None;
    for request in requests {
        match caller.authorized(caller.engine.plan_ingest(&caller.session, &request)).await {
            Err(error) if error.code == SqlState::UNDEFINED_TABLE => missing = Some(error),
            planned => return planned,
        }
    }
    Err(missing.unwrap_or_else(|| SqlError::internal("an ingest without a mode")))
}

/// Returns what is to be tried, in order.
fn modes(command: &CommandStatementIngest) -> Result<Vec<IngestMode>> {
    let options = command.table_definition_options.unwrap_or_default();
    let create = match options.if_not_exist() {
        TableNotExistOption::Create => true,
        TableNotExistOption::Fail | TableNotExistOption::Unspecified => false,
    };
    Ok(match (create, options.if_exists()) {
        (true, TableExistsOption::Fail | TableExistsOption::Unspecified) => vec![IngestMode::Create(IfExists::Fail)],
        (true, TableExistsOption::Append) => vec![IngestMode::Append, IngestMode::Create(IfExists::Fail)],
        (true, TableExistsOption::Replace) => vec![IngestMode::Create(IfExists::Overwrite)],
        (false, TableExistsOption::Append) => vec![IngestMode::Append],
        (false, TableExistsOption::Replace) => vec![IngestMode::Overwrite],
        (false, TableExistsOption::Fail | TableExistsOption::Unspecified) => {
            let message = "the ingest may neither make a table nor write to one that exists";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    })
}

fn counted(rows: SendableRecordBatchStream, count: Arc<AtomicI64>) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = rows.inspect_ok(move |batch| {
        count.fetch_add(i64::try_from(batch.num_rows()).unwrap_or(i64::MAX), Ordering::Relaxed);
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

#[cfg(test)]
mod tests {
    use arrow_flight::sql::TableDefinitionOptions;

    use super::*;

    #[test]
    fn the_modes_of_adbc_are_told_apart() {
        let told = |create: TableNotExistOption, exists: TableExistsOption| {
            let options = TableDefinitionOptions { if_not_exist: create.into(), if_exists: exists.into() };
            modes(&CommandStatementIngest {
                table_definition_options: Some(options),
                ..CommandStatementIngest::default()
            })
        };
        let (make, fail) = (TableNotExistOption::Create, TableNotExistOption::Fail);
        assert_eq!(told(make, TableExistsOption::Fail).unwrap(), [IngestMode::Create(IfExists::Fail)]);
        assert_eq!(told(make, TableExistsOption::Replace).unwrap(), [IngestMode::Create(IfExists::Overwrite)]);
        assert_eq!(told(fail, TableExistsOption::Append).unwrap(), [IngestMode::Append]);
        assert_eq!(told(make, TableExistsOption::Append).unwrap().len(), 2);
        assert!(told(fail, TableExistsOption::Fail).is_err());
    }
}
