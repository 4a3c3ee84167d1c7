//! The threads that bind and run queries, apart from sockets, leases and
//! heartbeats, so that a query that computes for seconds between two await
//! points delays nothing else.

use std::future::Future;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, execute_stream};
use futures::{Stream, StreamExt};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::error::{Result, SqlError};
use crate::session::StatementContext;

/// The stack of a query thread: binding, optimizing and dropping a plan
/// recurse with the depth of the statement.
const STACK_BYTES: usize = 64 << 20;
/// Batches between the query and the connection; more would only use memory.
const BATCHES_IN_FLIGHT: usize = 2;

/// A runtime of its own for queries.
#[derive(Debug)]
pub(crate) struct QueryRuntime {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl QueryRuntime {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| SqlError::internal(format!("cannot start the query threads: {error}")))?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Returns what spawns work on the query threads.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs `work` on a query thread. Dropping the future aborts it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let task = AbortOnDropHandle::new(self.handle.spawn(work));
        task.await.unwrap_or_else(|error| Err(SqlError::internal(format!("a query task ended: {error}"))))
    }

    /// Runs `work` on a query thread to its end, even if the caller goes away:
    /// for commits, of which nobody may stop the half.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let task = self.handle.spawn(work);
        task.await.unwrap_or_else(|error| Err(SqlError::internal(format!("a query task ended: {error}"))))
    }

    /// Returns the rows of `plan`, computed on the query threads. The stream
    /// ends with the statement's 57014 as soon as `ctx` is cancelled, even while
    /// an operator does not yield; dropping it stops the work.
    pub(crate) fn stream(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
        ctx: &StatementContext,
    ) -> SendableRecordBatchStream {
        let schema = plan.schema();
        let (tx, rx) = mpsc::channel(BATCHES_IN_FLIGHT);
        let producer = self.handle.spawn(async move {
            match execute_stream(plan, task) {
                Ok(stream) => forward(stream, &tx).await,
                Err(error) => {
                    // A closed channel means that nobody waits any more.
                    let _ = tx.send(Err(error)).await;
                }
            }
        });
        let producer = AbortOnDropHandle::new(producer);
        Box::pin(RecordBatchStreamAdapter::new(schema, receive(rx, producer, ctx.clone())))
    }
}

impl Drop for QueryRuntime {
    fn drop(&mut self) {
        // The last clone of the engine may go away inside another runtime,
        // where waiting for threads is forbidden.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn forward(mut stream: SendableRecordBatchStream, tx: &mpsc::Sender<Result<RecordBatch, DataFusionError>>) {
    while let Some(item) = stream.next().await {
        let failed = item.is_err();
        if tx.send(item).await.is_err() || failed {
            return;
        }
    }
}

fn receive(
    rx: mpsc::Receiver<Result<RecordBatch, DataFusionError>>,
    producer: AbortOnDropHandle<()>,
    ctx: StatementContext,
) -> impl Stream<Item = Result<RecordBatch, DataFusionError>> + Send {
    let state = Some((rx, producer, ctx));
    futures::stream::unfold(state, |state| async move {
        let (mut rx, mut producer, ctx) = state?;
        let item = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Some(Err(DataFusionError::External(Box::new(ctx.error())))),
            item = rx.recv() => item,
        };
        match item {
            Some(Ok(batch)) => Some((Ok(batch), Some((rx, producer, ctx)))),
            Some(Err(error)) => Some((Err(error), None)),
            // The channel closes without an error at the end, and when the
            // producer panicked; only the task itself knows which.
            None => match (&mut producer).await {
                Ok(()) => None,
                Err(error) => Some((Err(DataFusionError::ExecutionJoin(Box::new(error))), None)),
            },
        }
    })
}
