//! COPY FROM STDIN: the part of the protocol where the client sends data.
//!
//! After CopyInResponse everything is data until CopyDone or CopyFail; Flush and
//! Sync mean nothing meanwhile. When the statement fails earlier, what is still
//! sent of the data is dropped where it arrives, as PostgreSQL does. See
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY>.

use std::future::pending;

use bytes::BytesMut;
use lancegate_wire::{FrontendMessage, Phase, backend, decode_frontend};
use tokio::sync::mpsc;

use crate::pg::connection::Transport;
use crate::pg::reply;
use crate::pg::session_loop::{Deadline, Failure, SessionLoop};
use crate::pg::statement::Source;
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::copy::{CopyInput, CopyInputs};
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sql::plan::copy::CopyPlan;
use lancegate_engine::sqlstate::SqlState;

/// Messages that may wait for the statement; then the client has to.
const INPUTS_MAX: usize = 4;

/// Hands the client's messages to the statement, one at a time.
#[derive(Debug)]
pub(in crate::pg) struct Feed {
    /// Gone after the last message.
    inputs: Option<mpsc::Sender<CopyInput>>,
    /// A message that the statement has not taken.
    waiting: Option<CopyInput>,
}

impl Feed {
    fn new() -> (Self, CopyInputs) {
        let (sender, receiver) = mpsc::channel(INPUTS_MAX);
        (Self { inputs: Some(sender), waiting: None }, receiver)
    }

    /// Takes the next message out of what has arrived, if there is a place for it.
    pub(in crate::pg) fn read(&mut self, inbound: &mut BytesMut, phase: Phase) {
        while self.waiting.is_none() && self.inputs.is_some() {
            self.waiting = match decode_frontend(inbound, phase) {
                Ok(None) => return,
                Ok(Some(message)) => input(message),
                Err(error) => Some(CopyInput::Failed(reply::from_wire(&error))),
            };
        }
    }

    /// Waits until the statement has taken the message; for ever if there is none.
    /// Cancel-safe.
    pub(in crate::pg) async fn send(&mut self) {
        let (Some(inputs), true) = (&self.inputs, self.waiting.is_some()) else { return pending().await };
        // A statement that has ended takes nothing more; its end is seen by others.
        let Ok(permit) = inputs.reserve().await else {
            self.inputs = None;
            return;
        };
        let Some(input) = self.waiting.take() else { return };
        let last = !matches!(input, CopyInput::Data(_));
        permit.send(input);
        if last {
            self.inputs = None;
        }
    }
}

/// Returns what a message is to the statement; nothing for Flush and Sync.
fn input(message: FrontendMessage) -> Option<CopyInput> {
    match message {
        FrontendMessage::CopyData(data) => Some(CopyInput::Data(data)),
        FrontendMessage::CopyDone => Some(CopyInput::Done),
        FrontendMessage::Flush | FrontendMessage::Sync => None,
        FrontendMessage::CopyFail(reason) => {
            let message = format!("COPY from stdin failed: {reason}");
            Some(CopyInput::Failed(SqlError::new(SqlState::QUERY_CANCELED, message)))
        }
        other => {
            let message = format!("unexpected message during COPY from stdin: {other:?}");
            Some(CopyInput::Failed(SqlError::new(SqlState::PROTOCOL_VIOLATION, message)))
        }
    }
}

impl<T: Transport> SessionLoop<T> {
    /// Answers COPY FROM STDIN up to its command tag.
    pub(in crate::pg) async fn run_copy_from(
        &mut self,
        source: &Source,
        deadline: Option<Deadline>,
    ) -> Result<(), Failure> {
        let (ctx, worker) = self.worker();
        let (planner, planned) = (worker.clone(), source.clone());
        let plan = self.drive(&ctx, deadline, |_| async move { planner.plan(&planned, &[]).await }).await?;
        match &*plan {
            Plan::Copy(copy) => match &**copy {
                CopyPlan::From { columns, options, .. } => {
                    backend::copy_in_response(&mut self.connection.out, options.field_format(), columns.len());
                }
                CopyPlan::To { .. } => return Err(SqlError::internal("COPY TO takes no data").into()),
            },
            _ => return Err(SqlError::internal("COPY was planned as something else").into()),
        }
        let (feed, inputs) = Feed::new();
        let work = async move { worker.copy_from(&plan, inputs).await };
        let tag = self.drive_fed(&ctx, deadline, feed, work).await?;
        backend::command_complete(&mut self.connection.out, &tag);
        self.after(&source.statement).await;
        Ok(())
    }
}
