//! INSERTs that arrive one behind the other, done together.
//!
//! `executemany`, `addBatch` and libpq's pipelines execute one prepared INSERT for row after
//! row without waiting for the answers. An Execute behind which another Bind has arrived
//! already is not run but gathered; the rows become one commit, and its answers go out in the
//! order of the messages. Nothing is ever waited for: what was gathered runs before the
//! session reads from its client, and before any message but Bind, Describe and an Execute of the
//! same statement.
//!
//! If the rows cannot be written, none of them is there, and the first Execute is answered
//! with the error. PostgreSQL undoes what came before it since the last Sync, too.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::scalar::ScalarValue;
use lancegate_wire::{FrontendMessage, backend};

use crate::pg::connection::Transport;
use crate::pg::extended::Prepared;
use crate::pg::session_loop::{Failure, SessionLoop};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::Engine;

/// What is gathered at most: Executes, and bytes of their parameters.
const SETS_MAX: usize = 4_096;
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// What INSERT of one row answers.
const TAG: &str = "INSERT 0 1";

/// Executes of one statement that are not answered yet.
pub(in crate::pg) struct Gathered {
    prepared: Arc<Prepared>,
    /// The parameters of each Execute.
    sets: Vec<Vec<ScalarValue>>,
    bytes: usize,
    /// What is answered to other messages, and where in it an Execute's answer belongs.
    answers: BytesMut,
    marks: Vec<usize>,
}

/// Parameters may be secrets, so they do not print.
impl std::fmt::Debug for Gathered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathered").field("sets", &self.sets.len()).finish_non_exhaustive()
    }
}

impl Gathered {
    fn new(prepared: Arc<Prepared>) -> Self {
        Self { prepared, sets: Vec::new(), bytes: 0, answers: BytesMut::new(), marks: Vec::new() }
    }

    fn takes(&self, prepared: &Arc<Prepared>) -> bool {
        Arc::ptr_eq(&self.prepared, prepared) && self.sets.len() < SETS_MAX && self.bytes < BYTES_MAX
    }

    /// Adds an Execute behind what `out` has answered so far.
    fn push(&mut self, set: Vec<ScalarValue>, out: BytesMut) {
        self.bytes += set.iter().map(ScalarValue::size).sum::<usize>();
        self.sets.push(set);
        self.answers.unsplit(out);
        self.marks.push(self.answers.len());
    }
}

/// Returns whether a message may come between two Executes that are gathered.
pub(in crate::pg) fn goes_on(message: &FrontendMessage) -> bool {
    matches!(message, FrontendMessage::Bind { .. } | FrontendMessage::Describe { .. } | FrontendMessage::Execute { .. })
}

impl Prepared {
    /// Returns whether the statement can be executed for many sets of parameters at once.
    fn takes_many(&self) -> bool {
        self.plan.get().is_some_and(|plan| Engine::takes_many(&plan))
    }
}

impl<T: Transport> SessionLoop<T> {
    /// Returns whether an Execute of `prepared` is to be gathered now.
    pub(in crate::pg) fn gathers(&self, prepared: &Arc<Prepared>) -> bool {
        match &self.gathered {
            Some(gathered) => gathered.takes(prepared),
            None => self.connection.next_type() == Some(b'B') && prepared.takes_many(),
        }
    }

    /// Keeps an Execute for [`Self::settle`].
    pub(in crate::pg) fn gather(&mut self, prepared: Arc<Prepared>, set: Vec<ScalarValue>) {
        let out = self.connection.out.split();
        self.gathered.get_or_insert_with(|| Gathered::new(prepared)).push(set, out);
    }

    /// Runs what was gathered, if anything was, and answers it.
    ///
    /// # Errors
    /// What INSERT raises; then the answers to the messages behind the first Execute are dropped.
    pub(in crate::pg) async fn settle(&mut self) -> Result<(), Failure> {
        let Some(Gathered { prepared, sets, mut answers, marks, .. }) = self.gathered.take() else { return Ok(()) };
        let behind = self.connection.out.split();
        let first = marks.first().copied().unwrap_or_default();
        self.connection.queue(answers.split_to(first));
        let count = sets.len();
        let source = prepared.source.clone().ok_or_else(|| SqlError::internal("gathered without a statement"))?;
        self.statement_begins(&source.statement);
        let (ctx, worker) = self.worker();
        let (statement, fresh) = (Arc::clone(&source.statement), prepared.generation == self.generation);
        let deadline = self.deadline.take();
        self.drive(&ctx, deadline, |_| async move {
            let plan = match prepared.plan.get() {
                Some(plan) if fresh => plan,
                _ => prepared.renewed(&worker, &source).await?,
            };
            let done = worker.run_many(&source.statement, &plan, sets).await;
            done.map_err(|error| error.located(&source.text))
        })
        .await?;
        let out = &mut self.connection.out;
        backend::command_complete(out, TAG);
        for mark in marks.windows(2) {
            out.extend_from_slice(&answers.split_to(mark[1] - mark[0]));
            backend::command_complete(out, TAG);
        }
        out.extend_from_slice(&behind);
        self.after(&statement).await;
        self.statements_answered(count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_about_portals_come_between() {
        let between = FrontendMessage::Execute { portal: String::new(), max_rows: 0 };
        assert!(goes_on(&between));
        for message in [FrontendMessage::Sync, FrontendMessage::Flush, FrontendMessage::Terminate] {
            assert!(!goes_on(&message));
        }
    }
}
