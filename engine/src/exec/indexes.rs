//! Runs CREATE INDEX, DROP INDEX and SHOW INDEXES.
//!
//! An index is built on the query threads while the statement waits, and can be
//! canceled until its commit. Rows that are written meanwhile are not lost: Lance
//! refuses the commit of an index that would not know them, and it is built again.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};

use crate::error::{Result, SqlError};
use crate::exec::listing::like;
use crate::exec::turns::Committer;
use crate::exec::{Engine, Outcome, RowsTag, session};
use crate::session::{NoticeSeverity, Session, StatementContext};
use crate::sql::authorize::Authorized;
use crate::sql::plan::indexes::{
    CreateIndexPlan, DropIndexPlan, IndexName, IndexPlan, IndexRow, ListIndexesPlan, fitted, no_index, postgres_name,
    refused,
};
use crate::sql::plan::{Plan, Planner};
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::index::{self, Build};

/// Offers of one index while other commits come first.
const ATTEMPTS_MAX: u32 = 8;
/// What an index of words may take to be built, if the memory of queries is small.
const BUILD_MIB_MIN: u64 = 64;

impl Engine {
    /// Returns what a list of indexes answers, by name.
    ///
    /// # Errors
    /// If the storage fails, or for another plan.
    pub async fn indexes(&self, plan: &Authorized<Plan>) -> Result<Vec<IndexRow>> {
        match &**plan {
            Plan::Index(index) => match &**index {
                IndexPlan::List(list) => listed(self, list).await,
                _ => Err(SqlError::internal("not a list of indexes")),
            },
            _ => Err(SqlError::internal("not a list of indexes")),
        }
    }
}

/// Runs one statement about indexes.
pub(super) async fn run(
    engine: &Engine,
    session: &mut Session,
    plan: &IndexPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    match plan {
        IndexPlan::Create(create) => self::create(engine, session, create, ctx).await,
        IndexPlan::Drop(drop) => self::drop(engine, session, drop).await,
        IndexPlan::List(list) => {
            let columns = plan.columns().ok_or_else(|| SqlError::internal("a list without columns"))?;
            let batch = RecordBatch::try_new(Arc::clone(columns), cells(&listed(engine, list).await?))?;
            let schema = batch.schema();
            Ok(Outcome::rows(batch, schema, RowsTag::Fixed("SHOW".to_owned())))
        }
        IndexPlan::Prewarm { table, name } => {
            let (dataset, name) = (Arc::clone(&table.dataset), name.clone());
            let reading = engine.runtime().run(async move { Ok(index::prewarm(&dataset, &name).await?) });
            cancellable(reading, ctx).await?;
            Ok(Outcome::Done("PREWARM".to_owned()))
        }
    }
}

async fn create(
    engine: &Engine,
    session: &mut Session,
    plan: &CreateIndexPlan,
    ctx: &StatementContext,
) -> Result<Outcome> {
    for attempt in 1..=ATTEMPTS_MAX {
        let table = newest(engine, session, &plan.table, plan.branch.as_deref()).await?;
        let Some(build) = build_of(engine, session, plan, &table).await? else {
            return Ok(Outcome::Done("CREATE INDEX".to_owned()));
        };
        let dataset = Arc::clone(&table.dataset);
        let building = engine.runtime().run(async move { index::build(dataset, &build).await.map_err(refused) });
        let built = cancellable(building, ctx).await?;
        let committer = Committer::new(engine, &plan.table.record);
        let base = Arc::clone(&table.dataset);
        let committed = engine.runtime().run_to_end(async move {
            let _share = committer.enter(&base).await?;
            index::commit(built).await.map_err(SqlError::from)
        });
        match committed.await {
            Ok(_) => {
                session::altered(session, &plan.table);
                return Ok(Outcome::Done("CREATE INDEX".to_owned()));
            }
            Err(error) if lost_race(&error) && attempt < ATTEMPTS_MAX => {
                tracing::info!(attempt, %error, table = %table.record.name, "building an index again at a newer version");
                tokio::time::sleep(Duration::from_millis(5) * attempt * attempt).await;
            }
            Err(error) => return Err(error),
        }
    }
    Err(gave_up())
}

/// Returns what to build at this version; `None` if IF NOT EXISTS passes over it.
async fn build_of(
    engine: &Engine,
    session: &Session,
    plan: &CreateIndexPlan,
    table: &BoundTable,
) -> Result<Option<Build>> {
    let (column, spec) = fitted(&table.dataset, &plan.column, &plan.spec)?;
    let taken: Vec<String> = index::names(&table.dataset).await?.into_iter().map(|(name, _)| name).collect();
    let name = match &plan.name {
        IndexName::Given(name) if taken.contains(name) && !plan.replace => {
            let error = |message| SqlError::new(SqlState::DUPLICATE_TABLE, message);
            if plan.if_not_exists {
                let notice = error(format!("relation \"{name}\" already exists, skipping"));
                session.notify(NoticeSeverity::Notice, notice);
                return Ok(None);
            }
            return Err(error(format!("relation \"{name}\" already exists")));
        }
        IndexName::Given(name) => Some(name.clone()),
        IndexName::Postgres => Some(postgres_name(table.name(), &column.names, &taken)),
        IndexName::Lance => None,
    };
    let memory_mib = (engine.query_memory() as u64 >> 21).max(BUILD_MIB_MIN);
    Ok(Some(Build { column: column.path, name, replace: plan.replace, spec, width: column.width, memory_mib }))
}

async fn drop(engine: &Engine, session: &mut Session, plan: &DropIndexPlan) -> Result<Outcome> {
    for name in &plan.missing {
        let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("index {name} does not exist, skipping"));
        session.notify(NoticeSeverity::Notice, notice);
    }
    for (table, branch, name) in &plan.indexes {
        drop_one(engine, session, (table, branch.as_deref()), name).await?;
        session::altered(session, table);
    }
    Ok(Outcome::Done("DROP INDEX".to_owned()))
}

async fn drop_one(
    engine: &Engine,
    session: &Session,
    (table, branch): (&BoundTable, Option<&str>),
    name: &str,
) -> Result<()> {
    for attempt in 1..=ATTEMPTS_MAX {
        let dataset = newest(engine, session, table, branch).await?.dataset;
        let index = name.to_owned();
        let committer = Committer::new(engine, &table.record);
        let removing = engine.runtime().run_to_end(async move {
            let _share = committer.enter(&dataset).await?;
            Ok(index::remove(&dataset, &index).await?)
        });
        match removing.await {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => return Err(no_index(name)),
            Err(error) if lost_race(&error) && attempt < ATTEMPTS_MAX => {
                tokio::time::sleep(Duration::from_millis(5) * attempt * attempt).await;
            }
            Err(error) => return Err(error),
        }
    }
    Err(gave_up())
}

async fn listed(engine: &Engine, plan: &ListIndexesPlan) -> Result<Vec<IndexRow>> {
    let dataset = Arc::clone(&plan.table.dataset);
    let mut rows = engine.runtime().run(async move { Ok(index::list(&dataset).await?) }).await?;
    rows.retain(|row| {
        plan.like.as_deref().is_none_or(|pattern| like(&row.name, pattern))
            && plan.after.as_deref().is_none_or(|after| row.name.as_str() > after)
    });
    if let Some(limit) = plan.limit {
        rows.truncate(limit as usize);
    }
    Ok(rows)
}

fn cells(rows: &[IndexRow]) -> Vec<ArrayRef> {
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let times = rows.iter().map(|row| row.created_at.map(|time| time.timestamp_micros()));
    vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.name.as_str()))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.columns.join(", ")))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.index_type.as_str()))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| count(row.indexed_rows)))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| count(row.unindexed_rows)))),
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.size_bytes.map(count)))),
        Arc::new(TimestampMicrosecondArray::from_iter(times).with_timezone("UTC")),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| row.details.as_deref()))),
    ]
}

/// Opens a table anew, on a branch.
pub(super) async fn newest(
    engine: &Engine,
    session: &Session,
    table: &BoundTable,
    branch: Option<&str>,
) -> Result<BoundTable> {
    let dataset = engine.store().open(&table.record.location).await?;
    let opened = BoundTable { record: table.record.clone(), dataset };
    Planner::new(engine.clone(), session, "", &[]).at(opened, branch, None).await
}

/// Waits for work unless the statement is given up.
pub(super) async fn cancellable<T>(work: impl Future<Output = Result<T>>, ctx: &StatementContext) -> Result<T> {
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(ctx.error()),
        done = work => done,
    }
}

/// Returns whether another commit came first.
pub(super) fn lost_race(error: &SqlError) -> bool {
    error.code == SqlState::SERIALIZATION_FAILURE
}

/// Returns the 40001 of a change that lost every race.
pub(super) fn gave_up() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .hint("Run the statement again.")
}
