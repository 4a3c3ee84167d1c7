//! What is answered to a query before its rows: what it is, and where they are.
//!
//! `GetFlightInfo` binds a statement with rows and runs nothing; its ticket runs it, once.
//! A statement without rows has run when it answers.
//! `PollFlightInfo` runs it at once. Until its first row is there, the answer names no
//! endpoint, because clients bound the wait for the rows of one, and has a descriptor to
//! poll with; after that it names the one endpoint, and is complete.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, PollInfo, Ticket};
use datafusion::scalar::ScalarValue;
use lancegate_engine::error::SqlError;
use lancegate_engine::session::{CancelReason, StatementContext};
use lancegate_engine::sqlstate::SqlState;

use super::FlightShared;
use super::caller::Caller;
use super::command::{poll_of, ticket_of, ticket_without_rows};
use super::error::{Result, ended, status};
use super::registry::{Handle, Owner};
use super::rows::{Answer, answer, schema_bytes, told, whole};
use super::statement::{Running, Source, Stage, Start};

/// How long the first poll waits for the first row: who submits a statement wants to go on.
const FIRST_POLL_MAX: Duration = Duration::from_millis(250);
/// How long a later poll waits. The clients wait for minutes.
const POLL_MAX: Duration = Duration::from_secs(20);
/// How long a cancel waits for its statement to end.
const CANCEL_MAX: Duration = Duration::from_secs(5);

/// A statement with its values and the columns of its rows.
pub(super) type Bound = (Source, Vec<ScalarValue>, SchemaRef);

/// A result that a client was told of.
pub(super) struct Held {
    columns: SchemaRef,
    stage: Mutex<Progress>,
}

/// How far it is.
enum Progress {
    /// Nothing of it has run.
    Bound(Source, Vec<ScalarValue>),
    /// It runs, and its rows may be read already.
    Running(Arc<Running>),
    /// Its rows are read by the call that started it.
    Reading(StatementContext),
    /// Its ticket is being turned in, or it was cancelled before.
    Gone,
}

impl Held {
    fn new(columns: SchemaRef, stage: Progress) -> Arc<Self> {
        Arc::new(Self { columns, stage: Mutex::new(stage) })
    }

    fn stage(&self) -> MutexGuard<'_, Progress> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a result when this is dropped: its rows are read, or nobody was told of it.
struct Forget {
    shared: Arc<FlightShared>,
    owner: Owner,
    handle: Handle,
    /// Keeps it from expiring meanwhile.
    held: Arc<Held>,
    is_kept: bool,
}

impl Forget {
    /// Goes without forgetting it.
    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Forget {
    fn drop(&mut self) {
        if !self.is_kept {
            drop(self.shared.results.remove(&self.owner, &self.handle.bytes()));
        }
    }
}

/// Returns a statement to be run, with a place among all.
///
/// # Errors
/// 53000 if too many run.
pub(super) fn start(
    shared: &FlightShared,
    (source, values): (Source, Vec<ScalarValue>),
    told: Option<SchemaRef>,
) -> Result<Start, SqlError> {
    let place = Arc::clone(&shared.places).try_acquire_owned().map_err(|_| {
        let message = "too many statements are running over Flight SQL";
        SqlError::new(SqlState::parse("53000"), message).hint("Try again when some of them have ended.")
    })?;
    Ok(Start { source, values, told, place })
}

/// Answers `GetFlightInfo` for a statement that was bound.
///
/// # Errors
/// 53400 if too many results wait.
pub(super) fn bound(
    shared: &FlightShared,
    caller: &Caller,
    (source, values, columns): Bound,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, SqlError> {
    let bytes = bytes_of(&source, &values);
    let held = Held::new(Arc::clone(&columns), Progress::Bound(source, values));
    let handle = shared.results.insert(&caller.owner, held, bytes)?;
    Ok(described(&columns, descriptor)?.with_app_metadata(handle.bytes()).with_endpoint(endpoint(ticket_of(handle))))
}

/// Returns about how much memory a statement takes that waits.
fn bytes_of(source: &Source, values: &[ScalarValue]) -> usize {
    source.bytes() + values.iter().map(ScalarValue::size).sum::<usize>()
}

fn described(columns: &SchemaRef, descriptor: FlightDescriptor) -> Result<FlightInfo, SqlError> {
    let mut info = FlightInfo::new().with_descriptor(descriptor).with_ordered(true);
    info.schema = schema_bytes(columns)?;
    info.total_records = -1;
    info.total_bytes = -1;
    Ok(info)
}

fn endpoint(ticket: Ticket) -> FlightEndpoint {
    FlightEndpoint { ticket: Some(ticket), ..FlightEndpoint::default() }
}

/// Answers the first `PollFlightInfo`: runs the statement and waits for its first row.
///
/// # Errors
/// What the statement answers within the wait.
pub(super) async fn begin(
    shared: &Arc<FlightShared>,
    caller: Caller,
    (source, values, columns): Bound,
) -> Result<PollInfo> {
    let (bytes, owner) = (bytes_of(&source, &values), caller.owner.clone());
    let start = start(shared, (source, values), Some(Arc::clone(&columns))).map_err(|error| status(&error))?;
    // Nothing runs before it is sure that its result can be asked for: what was refused could have changed something.
    let held = Held::new(columns, Progress::Gone);
    let handle = shared.results.insert(&owner, Arc::clone(&held), bytes).map_err(|error| status(&error))?;
    let forget = Forget { shared: Arc::clone(shared), owner, handle, held, is_kept: false };
    *forget.held.stage() = Progress::Running(Arc::new(Running::start(caller, start)));
    let polled = poll(shared, (handle, &forget.held), FIRST_POLL_MAX).await?;
    forget.keep();
    Ok(polled)
}

/// Answers `GetFlightInfo` for a statement without rows: it has run by then, and ends with
/// the call if its client is gone before. Drivers read such an answer when they please or
/// not at all, and go on with the next statement; so nothing of it is kept.
///
/// # Errors
/// What the statement answers.
pub(super) async fn ran(
    shared: &FlightShared,
    caller: Caller,
    (source, values, columns): Bound,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo> {
    let start = start(shared, (source, values), Some(Arc::clone(&columns))).map_err(|error| status(&error))?;
    let running = Running::start(caller, start);
    loop {
        match running.settled(POLL_MAX).await {
            Stage::Running => {}
            Stage::Failed(error) => return Err(ended(running.ctx(), &error)),
            Stage::Ready => break,
        }
    }
    let info = described(&columns, descriptor).map_err(|error| status(&error))?;
    Ok(info.with_endpoint(endpoint(ticket_without_rows())))
}

/// Answers a later `PollFlightInfo`.
///
/// # Errors
/// What the statement answers; NOT_FOUND for a descriptor that is not of this caller.
pub(super) async fn resume(shared: &Arc<FlightShared>, owner: &Owner, bytes: &[u8]) -> Result<PollInfo> {
    let (handle, held) = shared.results.get(owner, bytes).map_err(|error| status(&error))?;
    poll(shared, (handle, &held), POLL_MAX).await
}

async fn poll(shared: &FlightShared, (handle, held): (Handle, &Arc<Held>), patience: Duration) -> Result<PollInfo> {
    let running = match &*held.stage() {
        Progress::Running(running) => Some(Arc::clone(running)),
        Progress::Bound(..) | Progress::Reading(_) => None,
        Progress::Gone => return Err(status(&SqlError::canceled("user request"))),
    };
    let settled = match &running {
        Some(running) => match running.settled(patience).await {
            Stage::Failed(error) => return Err(ended(running.ctx(), &error)),
            Stage::Ready => true,
            Stage::Running => false,
        },
        None => true,
    };
    let descriptor = poll_of(handle);
    let info = described(&held.columns, descriptor.clone()).map_err(|error| status(&error))?;
    let mut info = info.with_app_metadata(handle.bytes());
    if settled {
        info = info.with_endpoint(endpoint(ticket_of(handle)));
    }
    let mut answer = PollInfo { info: Some(info), expiration_time: Some(Default::default()), ..PollInfo::default() };
    let expires_at = chrono::Utc::now() + shared.results.kept();
    if let Some(time) = &mut answer.expiration_time {
        time.seconds = expires_at.timestamp();
    }
    if !settled {
        answer.flight_descriptor = Some(descriptor);
    }
    Ok(answer)
}

/// Answers `DoGet` for a ticket of ours; that of a statement without rows names nothing.
///
/// # Errors
/// NOT_FOUND for a ticket that is not of this caller, FAILED_PRECONDITION for one whose
/// rows are read already.
pub(super) fn turn_in(shared: &Arc<FlightShared>, caller: Caller, bytes: &[u8]) -> Result<Answer> {
    if bytes.is_empty() {
        return Ok(whole(RecordBatch::new_empty(Arc::new(Schema::empty()))));
    }
    let owner = caller.owner.clone();
    let (handle, held) = shared.results.get(&owner, bytes).map_err(|error| status(&error))?;
    let mut stage = held.stage();
    let running = match std::mem::replace(&mut *stage, Progress::Gone) {
        Progress::Bound(source, values) => {
            let (again, kept) = ((source.clone(), values.clone()), (source, values));
            match start(shared, again, Some(Arc::clone(&held.columns))) {
                Ok(start) => Arc::new(Running::start(caller, start)),
                Err(error) => {
                    *stage = Progress::Bound(kept.0, kept.1);
                    return Err(status(&error));
                }
            }
        }
        Progress::Running(running) => running,
        Progress::Reading(ctx) => {
            *stage = Progress::Reading(ctx);
            return Err(read_already());
        }
        Progress::Gone => return Err(read_already()),
    };
    *stage = Progress::Reading(running.ctx().clone());
    drop(stage);
    let rows = running.take().ok_or_else(read_already)?;
    let columns = Arc::new(told(&held.columns));
    Ok(answer(rows, columns, Forget { shared: Arc::clone(shared), owner, handle, held, is_kept: false }))
}

fn read_already() -> tonic::Status {
    status(&SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "the rows of this ticket are read already"))
}

/// Runs a statement whose rows the same call answers with.
///
/// # Errors
/// 53000 if too many run.
pub(super) fn stream(shared: &FlightShared, caller: Caller, (source, values, columns): Bound) -> Result<Answer> {
    let start = start(shared, (source, values), Some(Arc::clone(&columns))).map_err(|error| status(&error))?;
    let running = Running::start(caller, start);
    let rows = running.take().ok_or_else(read_already)?;
    Ok(answer(rows, Arc::new(told(&columns)), running))
}

/// Ends a statement. Returns whether it is over, or only told to end.
///
/// # Errors
/// NOT_FOUND for a result that is not of this caller, or whose rows were all read.
pub(super) async fn cancel(shared: &FlightShared, owner: &Owner, bytes: &[u8]) -> Result<bool> {
    let (_, held) = shared.results.get(owner, bytes).map_err(|error| status(&error))?;
    let stage = std::mem::replace(&mut *held.stage(), Progress::Gone);
    let over = match stage {
        Progress::Bound(..) | Progress::Gone => true,
        Progress::Running(running) => running.cancel(CANCEL_MAX).await,
        Progress::Reading(ctx) => {
            // The reader is told by the stream, and it may not be over yet.
            ctx.cancel(CancelReason::User);
            false
        }
    };
    drop(shared.results.remove(owner, bytes));
    Ok(over)
}
