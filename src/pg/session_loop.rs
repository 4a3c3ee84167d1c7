//! The message loop of one session.
//!
//! Owns the state that lives as long as the connection: prepared statements,
//! portals, and whether messages are skipped until Sync. What a message does is
//! in `query` (simple protocol) and `extended`.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lancegate_wire::{FrontendMessage, Phase, WireError, backend};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::pg::admission::Admitted;
use crate::pg::cancel::CancelKey;
use crate::pg::connection::{Connection, Gone, ReadError, Transport};
use crate::pg::extended::{Bind, Prepared};
use crate::pg::gather::{self, Gathered};
use crate::pg::listener::GOODBYE;
use crate::pg::measure::{OpenSession, UnderWay};
use crate::pg::news::{Heard, News};
use crate::pg::portal::Portal;
use crate::pg::recent::Recent;
use crate::pg::startup::Opened;
use crate::pg::tls::Socket;
use crate::pg::{PgShared, reply};
use lancegate_engine::activity::Entered;
use lancegate_engine::error::SqlError;
use lancegate_engine::exec::refresh::reads_registry;
use lancegate_engine::session::{NoticeReceiver, Session, TransactionStatus};
use lancegate_engine::sqlstate::SqlState;

/// The longest time that is counted.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// One session and its connection.
#[derive(Debug)]
pub(in crate::pg) struct SessionLoop<T> {
    pub(in crate::pg) shared: Arc<PgShared>,
    pub(in crate::pg) connection: Connection<Socket<T>>,
    /// Locked by the statement that runs; otherwise free.
    pub(in crate::pg) session: Arc<Mutex<Session>>,
    pub(in crate::pg) notices: NoticeReceiver,
    pub(in crate::pg) key: CancelKey,
    pub(in crate::pg) shutdown: CancellationToken,
    pub(in crate::pg) statements: HashMap<String, Arc<Prepared>>,
    pub(in crate::pg) portals: HashMap<String, Portal>,
    /// Executes that are run before the next message is waited for.
    pub(in crate::pg) gathered: Option<Gathered>,
    /// Set by an error in the extended protocol.
    pub(in crate::pg) skips_until_sync: bool,
    /// When the extended-protocol messages that are under way run out of time.
    pub(in crate::pg) deadline: Option<Deadline>,
    /// Counts what may make a plan stale; see [`Prepared`].
    pub(in crate::pg) generation: u64,
    /// News of jobs, while the session listens.
    pub(in crate::pg) news: Option<News>,
    /// Small queries of the simple protocol.
    pub(in crate::pg) recent: Recent,
    /// The statement that is to be counted.
    pub(in crate::pg) under_way: Option<UnderWay>,
    /// When what the client has proved stops being true.
    pub(in crate::pg) ends_at: Option<Instant>,
    /// What others see of it.
    pub(in crate::pg) entered: Entered,
    _open: OpenSession,
    _place: Admitted,
}

/// A statement timeout and when it is over.
#[derive(Debug, Clone, Copy)]
pub(in crate::pg) struct Deadline {
    pub(in crate::pg) at: Instant,
    pub(in crate::pg) timeout: Duration,
}

/// Why a session ends.
#[derive(Debug)]
pub(in crate::pg) enum End {
    /// The client said so.
    Terminated,
    /// The client is gone.
    Gone(Gone),
    /// The client is told.
    Fatal(SqlError),
}

/// Why a message was not answered as asked.
#[derive(Debug)]
pub(in crate::pg) enum Failure {
    /// The statement failed; the session goes on.
    Statement(SqlError),
    /// The session ends.
    End(End),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Statement(error)
    }
}

impl From<&WireError> for Failure {
    fn from(error: &WireError) -> Self {
        Self::Statement(reply::from_wire(error))
    }
}

impl From<Gone> for Failure {
    fn from(gone: Gone) -> Self {
        Self::End(End::Gone(gone))
    }
}

impl<T: Transport> SessionLoop<T> {
    pub(in crate::pg) fn new(shared: Arc<PgShared>, opened: Opened<T>, shutdown: CancellationToken) -> Self {
        let Opened { connection, session, notices, key, place, ends_at } = opened;
        let span = tracing::Span::current();
        span.record("session", session.id);
        span.record("user", session.principal.user.as_str());
        span.record("database", session.database.as_str());
        let shutdown = shutdown.child_token();
        let entered = shared.engine.activity().enter(&session, shutdown.clone());
        Self {
            entered,
            _open: OpenSession::new(Arc::clone(&shared.metrics)),
            shared,
            connection,
            session: Arc::new(Mutex::new(session)),
            notices,
            key,
            shutdown,
            statements: HashMap::new(),
            portals: HashMap::new(),
            gathered: None,
            skips_until_sync: false,
            deadline: None,
            generation: 0,
            news: None,
            recent: Recent::default(),
            under_way: None,
            ends_at: ends_at.map(instant),
            _place: place,
        }
    }

    /// Serves the session to its end.
    pub(in crate::pg) async fn run(mut self) {
        let end = self.serve().await;
        self.session_ended();
        match end {
            End::Terminated => self.connection.finish(GOODBYE).await,
            End::Gone(gone) => tracing::debug!(%gone, "session ended"),
            End::Fatal(error) => {
                tracing::info!(code = %error.code, error = error.message, "session ended");
                reply::put_fatal(&mut self.connection.out, &error);
                self.connection.finish(GOODBYE).await;
            }
        }
    }

    async fn serve(&mut self) -> End {
        self.ready().await;
        loop {
            let step = match self.step().await {
                // What came before a failure is done, or fails before it.
                Err(Failure::Statement(error)) => self.settle().await.and(Err(error.into())),
                step => step,
            };
            match step {
                // What a Parse or Bind is about is counted only if that fails.
                Ok(()) => self.under_way = None,
                Err(Failure::End(end)) => return end,
                Err(Failure::Statement(error)) => self.fail_extended(&error).await,
            }
            if let Err(gone) = self.connection.make_room().await {
                return End::Gone(gone);
            }
        }
    }

    /// Answers the next message, and what was gathered before it.
    async fn step(&mut self) -> Result<(), Failure> {
        if self.connection.next_type().is_none() {
            self.settle().await?;
        }
        let message = match self.next_message().await {
            Ok(message) => message,
            Err(step) => return step,
        };
        if !gather::goes_on(&message) {
            match self.settle().await {
                // The message may be the Sync that ends the failure.
                Err(Failure::Statement(error)) => self.fail_extended(&error).await,
                settled => settled?,
            }
        }
        self.handle(message).await
    }

    /// Waits for a message; between statements the idle timeouts run.
    async fn next_message(&mut self) -> Result<FrontendMessage, Result<(), Failure>> {
        let phase = Phase::Ready { message_bytes_max: self.shared.config.message_bytes_max };
        let (timeout, error) = self.idle_timeout().await;
        let in_block = self.session().await.transaction != TransactionStatus::Idle;
        let idle = async {
            match timeout {
                Some(time) => tokio::time::sleep(time).await,
                None => pending().await,
            }
        };
        tokio::pin!(idle);
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return Err(Err(Failure::End(End::Fatal(admin_shutdown())))),
                () = until(self.ends_at) => return Err(Err(Failure::End(End::Fatal(credentials_expired())))),
                message = self.connection.next_message(phase) => return match message {
                    Ok(message) => Ok(message),
                    Err(ReadError::Gone(gone)) => Err(Err(gone.into())),
                    Err(ReadError::Wire(error)) => Err(self.refuse_message(&error).await),
                },
                heard = heard(&mut self.news), if !in_block && self.connection.has_room() => self.tell(heard).await,
                Some(notice) = self.notices.recv() => reply::put_notice(&mut self.connection.out, &notice),
                () = &mut idle => return Err(Err(Failure::End(End::Fatal(error)))),
            }
        }
    }

    /// Tells news of jobs to a session that still may hear them.
    async fn tell(&mut self, heard: Option<Heard>) {
        let Some(heard) = heard else { return self.news = None };
        let principal = self.session().await.principal.clone();
        match reads_registry(&self.shared.engine, &principal).await {
            Ok(true) => {
                if let Some(news) = &mut self.news {
                    news.put(&mut self.connection.out, heard);
                }
            }
            Ok(false) => {
                self.session().await.channels.clear();
                self.news = None;
            }
            Err(error) => tracing::warn!(error = error.message, "cannot decide whether news of jobs may be told"),
        }
    }

    /// Begins or ends to listen as the session says, and tells what has happened meanwhile.
    async fn tell_pending(&mut self) {
        let (listens, database) = {
            let session = self.session().await;
            (session.channels.listens(), session.database.clone())
        };
        if !listens {
            return self.news = None;
        }
        if self.news.is_none() {
            self.news = Some(News::of(self.shared.engine.catalog(), &database));
        }
        while self.connection.has_room()
            && let Some(heard) = self.news.as_mut().and_then(News::pending)
        {
            self.tell(Some(heard)).await;
        }
    }

    async fn idle_timeout(&self) -> (Option<Duration>, SqlError) {
        let session = self.session().await;
        match session.transaction {
            TransactionStatus::Idle => {
                let message = "terminating connection due to idle-session timeout";
                let error = SqlError::new(SqlState::IDLE_SESSION_TIMEOUT, message);
                (session.settings.idle_session_timeout(), error)
            }
            TransactionStatus::InBlock | TransactionStatus::Failed => {
                let message = "terminating connection due to idle-in-transaction timeout";
                let error = SqlError::new(SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, message);
                (session.settings.idle_in_transaction_session_timeout(), error)
            }
        }
    }

    /// Answers bytes that are no message. After a fatal one the next message
    /// cannot be found.
    async fn refuse_message(&mut self, error: &WireError) -> Result<(), Failure> {
        let answer = reply::from_wire(error);
        if error.is_fatal() {
            return Err(Failure::End(End::Fatal(answer)));
        }
        self.settle().await?;
        if matches!(error, WireError::MessageText { message_type: b'Q', .. }) && !self.skips_until_sync {
            self.fail_statement(&answer).await;
            self.ready().await;
            return Ok(());
        }
        Err(answer.into())
    }

    async fn handle(&mut self, message: FrontendMessage) -> Result<(), Failure> {
        match message {
            FrontendMessage::Terminate => Err(Failure::End(End::Terminated)),
            FrontendMessage::Sync => {
                self.sync().await;
                Ok(())
            }
            _ if self.skips_until_sync => Ok(()),
            FrontendMessage::Query(sql) => self.simple_query(sql).await,
            FrontendMessage::Parse { name, sql, parameter_types } => self.parse(name, sql, parameter_types).await,
            FrontendMessage::Bind { portal, statement, parameter_formats, parameters, result_formats } => {
                let bind = Bind { portal, statement, parameter_formats, parameters, result_formats };
                self.bind(bind).await
            }
            FrontendMessage::Describe { target, name } => self.describe(target, &name).await,
            FrontendMessage::Execute { portal, max_rows } => self.execute(&portal, max_rows).await,
            FrontendMessage::Close { target, name } => {
                self.close(target, &name);
                Ok(())
            }
            // Output leaves whenever the next message has to be waited for or runs.
            FrontendMessage::Flush => Ok(()),
            // A client may have sent them before it saw the error of its COPY.
            FrontendMessage::CopyData(_) | FrontendMessage::CopyDone | FrontendMessage::CopyFail(_) => Ok(()),
            FrontendMessage::FunctionCall => {
                self.fail_statement(&SqlError::not_supported("the function call protocol is not supported")).await;
                self.ready().await;
                Ok(())
            }
            FrontendMessage::Password(_) => Err(Failure::End(End::Fatal(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                "invalid frontend message type 112",
            )))),
        }
    }

    /// Ends a sequence of extended-protocol messages.
    async fn sync(&mut self) {
        self.skips_until_sync = false;
        self.deadline = None;
        self.ready().await;
    }

    /// Appends ReadyForQuery, with the settings that changed before it.
    pub(in crate::pg) async fn ready(&mut self) {
        let mut session = self.session.lock().await;
        session.settings.take_assigned();
        for (name, value) in session.settings.take_reports() {
            backend::parameter_status(&mut self.connection.out, name, &value);
        }
        let status = session.transaction;
        self.entered.waits(&session);
        drop(session);
        if status == TransactionStatus::Idle {
            self.tell_pending().await;
        }
        self.generation += 1;
        if status == TransactionStatus::Idle {
            self.portals.retain(|_, portal| portal.outlives_transaction());
        }
        backend::ready_for_query(&mut self.connection.out, reply::wire_status(status));
    }

    /// Tells an error of the extended protocol; what was sent behind its cause
    /// is skipped.
    async fn fail_extended(&mut self, error: &SqlError) {
        self.fail_statement(error).await;
        self.skips_until_sync = true;
        self.deadline = None;
    }

    /// Tells an error, which ends an open block.
    pub(in crate::pg) async fn fail_statement(&mut self, error: &SqlError) {
        self.statement_failed(error);
        self.forward_notices();
        reply::put_error(&mut self.connection.out, error);
        let mut session = self.session.lock().await;
        session.settings.drop_assigned();
        if session.transaction == TransactionStatus::InBlock {
            session.transaction = TransactionStatus::Failed;
        }
    }

    /// Appends the notices that have arrived.
    pub(in crate::pg) fn forward_notices(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            reply::put_notice(&mut self.connection.out, &notice);
        }
    }

    /// Returns the session; never waits while no statement runs.
    pub(in crate::pg) async fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().await
    }
}

/// Never completes for a session that does not listen.
async fn heard(news: &mut Option<News>) -> Option<Heard> {
    match news {
        Some(news) => news.heard().await,
        None => pending().await,
    }
}

/// Returns the moment of the clock that does not jump. A time so far away that it
/// cannot be counted never comes.
fn instant(at: DateTime<Utc>) -> Instant {
    let now = Instant::now();
    let left = (at - Utc::now()).to_std().unwrap_or_default();
    now.checked_add(left.min(FOREVER)).unwrap_or(now)
}

/// Waits for a moment; for ever if there is none.
pub(in crate::pg) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// What a session is told whose token, key or user has run out.
pub(in crate::pg) fn credentials_expired() -> SqlError {
    let message = "terminating connection because its credentials have expired";
    SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
}

pub(in crate::pg) fn admin_shutdown() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}
