//! Running a statement while its connection is watched.
//!
//! The work runs on the query runtime and hands over encoded rows through a
//! short queue. Meanwhile this side writes, reads what the client sends ahead,
//! forwards notices, and ends the work when the client, its timeout or the
//! gateway says so. Small work runs on this side: handing it over would take
//! longer. If it is not over at once, it is watched like any other.

use std::any::Any;
use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use bytes::BytesMut;
use futures::FutureExt;
use lancegate_wire::Phase;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tracing::Instrument;

use crate::pg::connection::{Gone, Transport};
use crate::pg::copy::Feed;
use crate::pg::reply;
use crate::pg::session_loop::{Deadline, End, Failure, SessionLoop, credentials_expired, until};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::session::{CancelReason, StatementContext};
use lancegate_engine::sqlstate::SqlState;

/// Encoded chunks that may wait for the socket.
const CHUNKS_MAX: usize = 2;

/// Where the work puts its encoded rows.
pub(in crate::pg) type Chunks = mpsc::Sender<BytesMut>;

/// What ended a wait.
enum Event<R> {
    Chunk(Option<BytesMut>),
    Finished(Result<R, Lost>),
    Gone(Gone),
    Cancel(CancelReason),
    Cancelled,
    Stopping,
    Abandon,
    Nothing,
}

/// Why work ended without a result.
enum Lost {
    Task(JoinError),
    Panic(Box<dyn Any + Send>),
}

/// Work under way.
enum Work<R> {
    /// On the query runtime.
    Apart(JoinHandle<Result<R>>),
    /// On this side.
    Here(Here<R>),
}

type Here<R> = Pin<Box<dyn Future<Output = Result<Result<R>, Lost>> + Send>>;

impl<R> Work<R> {
    /// Waits for the end. Cancel-safe; not to be called again afterwards.
    async fn finished(&mut self) -> Result<Result<R>, Lost> {
        match self {
            Self::Apart(handle) => handle.await.map_err(Lost::Task),
            Self::Here(work) => work.await,
        }
    }

    fn abort(&self) {
        // Work on this side ends when it is dropped.
        if let Self::Apart(handle) = self {
            handle.abort();
        }
    }
}

impl<T: Transport> SessionLoop<T> {
    /// Runs `work`, which says how small it is, as [`SessionLoop::drive`] does,
    /// but on this side if it is small.
    ///
    /// # Errors
    /// As [`SessionLoop::drive`].
    pub(in crate::pg) async fn drive_small<W, F, R>(
        &mut self,
        small: bool,
        ctx: &StatementContext,
        deadline: Option<Deadline>,
        work: W,
    ) -> Result<R, Failure>
    where
        W: FnOnce(Chunks) -> F,
        F: Future<Output = Result<R>> + Send + 'static,
        R: Send + 'static,
    {
        if !small {
            return self.drive(ctx, deadline, work).await;
        }
        let (sender, mut chunks) = mpsc::channel(CHUNKS_MAX);
        let work = AssertUnwindSafe(work(sender)).catch_unwind();
        let mut work: Here<R> = Box::pin(work.map(|ended| ended.map_err(Lost::Panic)));
        // Most often it is over before anybody could have cancelled it.
        match (&mut work).now_or_never() {
            Some(finished) => {
                while let Ok(chunk) = chunks.try_recv() {
                    self.connection.queue(chunk);
                }
                self.forward_notices();
                Ok(self.flatten(finished)?)
            }
            None => self.watch(ctx, (deadline, None), chunks, Work::Here(work)).await,
        }
    }

    /// Runs `work` to its end and returns its result; rows are in the output
    /// buffer or sent. A panic of the work is its error, not ours.
    ///
    /// # Errors
    /// [`Failure::End`] if the client is gone; by then the work has ended or
    /// has been told to.
    pub(in crate::pg) async fn drive<W, F, R>(
        &mut self,
        ctx: &StatementContext,
        deadline: Option<Deadline>,
        work: W,
    ) -> Result<R, Failure>
    where
        W: FnOnce(Chunks) -> F,
        F: Future<Output = Result<R>> + Send + 'static,
        R: Send + 'static,
    {
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        let span = tracing::info_span!("statement", number = self.generation);
        let handle = self.shared.config.query_runtime.spawn(work(sender).instrument(span));
        self.watch(ctx, (deadline, None), chunks, Work::Apart(handle)).await
    }

    /// Runs `work`, which takes what the client sends as data of a COPY, as
    /// [`SessionLoop::drive`] does.
    ///
    /// # Errors
    /// As [`SessionLoop::drive`].
    pub(in crate::pg) async fn drive_fed<R: Send + 'static>(
        &mut self,
        ctx: &StatementContext,
        deadline: Option<Deadline>,
        feed: Feed,
        work: impl Future<Output = Result<R>> + Send + 'static,
    ) -> Result<R, Failure> {
        let (_, chunks) = mpsc::channel(1);
        let span = tracing::info_span!("statement", number = self.generation);
        let handle = self.shared.config.query_runtime.spawn(work.instrument(span));
        self.watch(ctx, (deadline, Some(feed)), chunks, Work::Apart(handle)).await
    }

    /// Waits for the end of work and for everything that may happen meanwhile.
    async fn watch<R: Send + 'static>(
        &mut self,
        ctx: &StatementContext,
        (deadline, feed): (Option<Deadline>, Option<Feed>),
        mut chunks: mpsc::Receiver<BytesMut>,
        mut work: Work<R>,
    ) -> Result<R, Failure> {
        let running = self.key.begin(ctx);
        self.entered.runs(ctx);
        let ends_at = self.ends_at;
        let mut watch =
            Watch { deadline, feed, chunks_open: true, gone: None, ends_at, stop_at: None, abandon_at: None };
        let finished = loop {
            match self.next_event(ctx, &mut watch, &mut chunks, &mut work).await {
                Event::Chunk(Some(chunk)) if watch.gone.is_none() => self.connection.queue(chunk),
                Event::Chunk(Some(_)) | Event::Nothing => {}
                Event::Chunk(None) => watch.chunks_open = false,
                Event::Finished(finished) => {
                    while let Ok(chunk) = chunks.try_recv() {
                        self.connection.queue(chunk);
                    }
                    break finished;
                }
                Event::Gone(gone) => {
                    watch.gone = Some(gone);
                    chunks.close();
                    ctx.cancel(CancelReason::ClientGone);
                }
                Event::Cancel(reason) => ctx.cancel(reason),
                // The work drops itself after one grace period; two mean it is
                // stuck. It may hold the session, so that ends, too.
                Event::Cancelled => watch.abandon_at = Some(Instant::now() + self.shared.config.cancel_grace * 2),
                Event::Stopping => watch.stop_at = Some(Instant::now() + self.shared.config.shutdown_grace),
                Event::Abandon => {
                    work.abort();
                    self.entered.stops();
                    return Err(Failure::End(End::Fatal(ctx.error())));
                }
            }
        };
        drop(running);
        self.entered.stops();
        if let Some(gone) = watch.gone {
            return Err(gone.into());
        }
        self.forward_notices();
        let result = self.flatten(finished);
        match (&result, ctx.reason.get()) {
            (Err(_), Some(CancelReason::Shutdown)) if self.has_ended() => {
                Err(Failure::End(End::Fatal(credentials_expired())))
            }
            (Err(_), Some(CancelReason::Shutdown)) => Err(Failure::End(End::Fatal(ctx.error()))),
            _ => Ok(result?),
        }
    }

    /// Waits for whatever comes first. Cancel-safe.
    async fn next_event<R>(
        &mut self,
        ctx: &StatementContext,
        watch: &mut Watch,
        chunks: &mut mpsc::Receiver<BytesMut>,
        work: &mut Work<R>,
    ) -> Event<Result<R>> {
        let has_room = self.connection.has_room() || watch.gone.is_some();
        // Work on this side makes the chunks only while it is polled.
        let work_is_here = matches!(work, Work::Here(_));
        if let Some(feed) = &mut watch.feed {
            let phase = Phase::Ready { message_bytes_max: self.shared.config.message_bytes_max };
            feed.read(self.connection.inbound(), phase);
        }
        tokio::select! {
            biased;
            chunk = chunks.recv(), if watch.chunks_open && has_room => Event::Chunk(chunk),
            finished = work.finished(), if work_is_here || !watch.chunks_open => Event::Finished(finished),
            () = fed(&mut watch.feed) => Event::Nothing,
            Some(notice) = self.notices.recv(), if watch.gone.is_none() => {
                reply::put_notice(&mut self.connection.out, &notice);
                Event::Nothing
            }
            progress = self.connection.progress(), if watch.gone.is_none() => match progress {
                Ok(_) => Event::Nothing,
                Err(gone) => Event::Gone(gone),
            },
            () = ctx.cancel.cancelled(), if watch.abandon_at.is_none() => Event::Cancelled,
            () = until(watch.deadline.map(|deadline| deadline.at)) => {
                let timeout = watch.deadline.take().map(|deadline| deadline.timeout);
                Event::Cancel(CancelReason::StatementTimeout(timeout.unwrap_or_default()))
            }
            () = until(watch.ends_at) => {
                watch.ends_at = None;
                Event::Cancel(CancelReason::Shutdown)
            }
            () = self.shutdown.cancelled(), if watch.stop_at.is_none() => Event::Stopping,
            () = until(watch.stop_at), if watch.abandon_at.is_none() => Event::Cancel(CancelReason::Shutdown),
            () = until(watch.abandon_at) => Event::Abandon,
        }
    }

    /// Returns whether what the client has proved is true no more.
    fn has_ended(&self) -> bool {
        self.ends_at.is_some_and(|at| at <= Instant::now())
    }

    fn flatten<R>(&self, finished: Result<Result<R>, Lost>) -> Result<R> {
        finished.unwrap_or_else(|lost| {
            let reason = match lost {
                Lost::Task(error) if !error.is_panic() => error.to_string(),
                Lost::Task(error) => {
                    self.shared.metrics.statement_panics.inc();
                    error.to_string()
                }
                Lost::Panic(panic) => {
                    self.shared.metrics.statement_panics.inc();
                    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
                }
            };
            tracing::error!(error = %reason, "statement task ended");
            Err(SqlError::new(SqlState::INTERNAL_ERROR, "internal error"))
        })
    }
}

/// What is watched beside the work.
#[derive(Debug)]
struct Watch {
    /// Taken once it is over.
    deadline: Option<Deadline>,
    /// What the work takes from the client.
    feed: Option<Feed>,
    chunks_open: bool,
    gone: Option<Gone>,
    /// When the session has to end; taken once that has come.
    ends_at: Option<Instant>,
    /// Set once the gateway is stopping: when the statement has to.
    stop_at: Option<Instant>,
    /// Set once the work was told to end: when it is given up.
    abandon_at: Option<Instant>,
}

/// Waits until the work has taken a message; for ever if there is none for it.
async fn fed(feed: &mut Option<Feed>) {
    match feed {
        Some(feed) => feed.send().await,
        None => pending().await,
    }
}

/// Runs a step of a statement until it ends or, some time after a cancel, is
/// dropped. A step that watches the context itself, as a blocked refresh does,
/// ends in its own way within that time.
pub(crate) async fn cancellable<R>(
    ctx: &StatementContext,
    grace: std::time::Duration,
    step: impl Future<Output = Result<R>>,
) -> Result<R> {
    let out_of_time = async {
        ctx.cancel.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        biased;
        done = step => done,
        () = out_of_time => Err(ctx.error()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_step_that_ignores_its_cancel_is_dropped_after_the_grace() {
        let ctx = StatementContext::new();
        ctx.cancel(CancelReason::User);
        let grace = Duration::from_millis(20);
        let began_at = Instant::now();
        let result: Result<()> = cancellable(&ctx, grace, pending()).await;
        assert_eq!(result.unwrap_err().code.as_str(), "57014");
        assert!(began_at.elapsed() >= grace);
    }

    #[tokio::test]
    async fn a_step_that_ends_by_itself_keeps_its_answer() {
        let ctx = StatementContext::new();
        ctx.cancel(CancelReason::User);
        let step = async {
            tokio::task::yield_now().await;
            Err::<(), _>(SqlError::canceled("user request").detail("The job was canceled."))
        };
        let error = cancellable(&ctx, Duration::from_secs(5), step).await.unwrap_err();
        assert_eq!(error.detail.as_deref(), Some("The job was canceled."));
    }
}
