//! Statements about this session's own prepared statements and cursors:
//! PREPARE, EXECUTE, DEALLOCATE, DECLARE, FETCH, MOVE, CLOSE.
//!
//! Names are shared with the extended protocol, as in PostgreSQL: a statement
//! that Parse made can be deallocated in SQL, and a portal can be fetched from.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::BytesMut;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use lancegate_sql::Statement;
use lancegate_sql::ast::{CloseCursor, Deallocate, DeclareCursor, Execute, FetchDirection, Prepare};
use lancegate_wire::backend;
use lancegate_wire::types::{builtin_by_name, builtins};
use sqlparser::ast as native;

use crate::pg::connection::Transport;
use crate::pg::extended::{LastPlan, Prepared, no_statement};
use crate::pg::parameters::read_text;
use crate::pg::portal::{Portal, PortalState, RowSource};
use crate::pg::session_loop::{Deadline, Failure, SessionLoop};
use crate::pg::statement::{RanTo, Source, Started, Worker, describe_rows, ensure_block_goes_on};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::exec::RowsTag;
use lancegate_engine::session::TransactionStatus;
use lancegate_engine::sqlstate::SqlState;

/// The formats of Bind, or `None` in the simple protocol, where rows are
/// described before they are sent.
type Formats<'a> = Option<&'a [i16]>;

impl<T: Transport> SessionLoop<T> {
    /// Returns whether the session runs the statement itself.
    pub(in crate::pg) fn is_local(&self, statement: &Statement) -> bool {
        matches!(
            statement,
            Statement::Prepare(_)
                | Statement::Execute(_)
                | Statement::Deallocate(_)
                | Statement::DeclareCursor(_)
                | Statement::Fetch(_)
                | Statement::Move(_)
                | Statement::CloseCursor(_)
        ) || matches!(statement, Statement::Copy(copy) if copy.is_from_client())
    }

    /// Returns the columns of such a statement.
    ///
    /// # Errors
    /// 26000 or 34000 if it names what does not exist.
    pub(in crate::pg) fn local_columns(&self, statement: &Statement) -> Result<Option<SchemaRef>> {
        match statement {
            Statement::Execute(execute) => Ok(self.prepared(execute.name.as_str())?.columns.clone()),
            Statement::Fetch(fetch) => {
                let name = fetch.cursor.as_str();
                let portal = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
                Ok(portal.prepared.columns.clone())
            }
            _ => Ok(None),
        }
    }

    /// Runs such a statement.
    pub(in crate::pg) async fn run_local(
        &mut self,
        source: &Source,
        deadline: Option<Deadline>,
        formats: Formats<'_>,
    ) -> Result<(), Failure> {
        ensure_block_goes_on(&*self.session().await, &source.statement)?;
        match &*source.statement {
            Statement::Prepare(prepare) => self.run_prepare(source, prepare, deadline).await,
            Statement::Execute(execute) => self.run_execute(execute, deadline, formats).await,
            Statement::Deallocate(deallocate) => self.run_deallocate(deallocate),
            Statement::DeclareCursor(declare) => self.run_declare(source, declare, deadline).await,
            Statement::Fetch(fetch) => {
                let name = fetch.cursor.as_str();
                self.run_fetch(name, fetch.direction, deadline, Some(formats)).await
            }
            Statement::Move(moved) => self.run_fetch(moved.cursor.as_str(), moved.direction, deadline, None).await,
            Statement::CloseCursor(close) => self.run_close(close),
            Statement::Copy(_) => self.run_copy_from(source, deadline).await,
            other => Err(SqlError::internal(format!("{} is not a statement of the session", other.kind())).into()),
        }
    }

    async fn run_prepare(
        &mut self,
        source: &Source,
        prepare: &Prepare,
        deadline: Option<Deadline>,
    ) -> Result<(), Failure> {
        let name = prepare.name.as_str();
        self.ensure_statement_fits(name)?;
        let oids = prepare.types.iter().map(type_oid).collect::<Result<Vec<_>>>()?;
        let body = Source { statement: Arc::new((*prepare.statement).clone()), text: Arc::clone(&source.text) };
        let prepared = self.prepare(Some(body), &oids, deadline).await?;
        self.statements.insert(name.to_owned(), Arc::new(prepared));
        backend::command_complete(&mut self.connection.out, "PREPARE");
        Ok(())
    }

    async fn run_execute(
        &mut self,
        execute: &Execute,
        deadline: Option<Deadline>,
        formats: Formats<'_>,
    ) -> Result<(), Failure> {
        let name = execute.name.as_str();
        let prepared = self.prepared(name)?;
        if prepared.parameters.len() != execute.arguments.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail =
                format!("Expected {} parameters but got {}.", prepared.parameters.len(), execute.arguments.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).detail(detail).into());
        }
        let Some(body) = prepared.source.clone() else {
            backend::empty_query_response(&mut self.connection.out);
            return Ok(());
        };
        if self.is_local(&body.statement) {
            return Err(SqlError::not_supported("EXECUTE of a statement about cursors is not supported").into());
        }
        let arguments = self.arguments(execute)?;
        let (describe, formats) = (formats.is_none(), formats.unwrap_or_default().to_vec());
        let (ctx, worker) = self.worker();
        let running = body.clone();
        let ran = self
            .drive(&ctx, deadline, |chunks| async move {
                let values = evaluate(&worker, arguments, &prepared).await?;
                let plan = prepared.renewed(&worker, &running).await?;
                let plan = prepared.with_values(&worker, (&running, plan), &values).await?;
                let mut out = BytesMut::new();
                match worker.start(&running.statement, &plan, (values, &formats)).await? {
                    Started::Done(tag) => Ok((out, 0, tag)),
                    Started::Rows(rows) => {
                        if describe {
                            describe_rows(&mut out, rows.schema(), &formats)?;
                        }
                        let ran = worker.send(rows, None, (out, chunks)).await?;
                        match ran.end {
                            RanTo::End { tag, .. } => Ok((ran.out, ran.rows, tag)),
                            RanTo::Limit(_) => Err(SqlError::internal("a run without limit reached one")),
                        }
                    }
                }
            })
            .await?;
        let (out, rows, tag) = ran;
        self.send_ran(out, rows);
        backend::command_complete(&mut self.connection.out, &tag);
        self.after(&body.statement).await;
        Ok(())
    }

    /// Returns `SELECT <arguments>`, which the engine evaluates like any query.
    fn arguments(&self, execute: &Execute) -> Result<Option<Source>> {
        if execute.arguments.is_empty() {
            return Ok(None);
        }
        let list: Vec<String> = execute.arguments.iter().map(ToString::to_string).collect();
        let text: Arc<str> = format!("SELECT {}", list.join(", ")).into();
        let script = lancegate_sql::parse(&text, &self.shared.config.sql_limits)?;
        let statement = script.into_iter().next().map(|parsed| Arc::new(parsed.statement));
        Ok(statement.map(|statement| Source { statement, text }))
    }

    fn run_deallocate(&mut self, deallocate: &Deallocate) -> Result<(), Failure> {
        let tag = match &deallocate.name {
            Some(name) => {
                self.statements.remove(name.as_str()).ok_or_else(|| no_statement(name.as_str()))?;
                "DEALLOCATE"
            }
            None => {
                self.statements.clear();
                "DEALLOCATE ALL"
            }
        };
        backend::command_complete(&mut self.connection.out, tag);
        Ok(())
    }

    async fn run_declare(
        &mut self,
        source: &Source,
        declare: &DeclareCursor,
        deadline: Option<Deadline>,
    ) -> Result<(), Failure> {
        let name = declare.name.as_str();
        if !declare.hold && self.session().await.transaction == TransactionStatus::Idle {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message).into());
        }
        self.ensure_portal_fits(name)?;
        let query = native::Statement::Query(declare.query.clone());
        let body = Source { statement: Arc::new(Statement::Query(Box::new(query))), text: Arc::clone(&source.text) };
        let formats = vec![i16::from(declare.binary)];
        let (ctx, worker) = self.worker();
        let (running, asked) = (body.clone(), formats.clone());
        let scrolls = declare.scroll == Some(true);
        let rows = self
            .drive(&ctx, deadline, |_| async move {
                let plan = worker.plan(&running, &[]).await?;
                match worker.start(&running.statement, &plan, (Vec::new(), &asked)).await? {
                    Started::Rows(mut rows) => {
                        if scrolls {
                            rows.keep_rows(worker.engine.memory("cursor"));
                        }
                        Ok(rows)
                    }
                    Started::Done(_) => Err(SqlError::internal("a query answered no rows")),
                }
            })
            .await?;
        let prepared = Prepared {
            source: Some(body),
            parameters: Vec::new(),
            columns: Some(Arc::clone(rows.schema())),
            plan: LastPlan::default(),
            generation: self.generation,
        };
        let portal = Portal {
            prepared: Arc::new(prepared),
            result_formats: formats,
            state: PortalState::Suspended(rows),
            hold: declare.hold,
        };
        self.insert_portal(name.to_owned(), portal)?;
        backend::command_complete(&mut self.connection.out, "DECLARE CURSOR");
        Ok(())
    }

    /// Sends the next rows of a cursor, or with `formats` absent passes over
    /// them.
    async fn run_fetch(
        &mut self,
        name: &str,
        direction: FetchDirection,
        deadline: Option<Deadline>,
        formats: Option<Formats<'_>>,
    ) -> Result<(), Failure> {
        let settings = self.session().await.settings.format_settings();
        let portal = self.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let limit = match &portal.state {
            PortalState::Suspended(rows) if rows.scrolls() => None,
            _ => forward(direction)?,
        };
        let mut out = BytesMut::new();
        if let (Some(None), Some(columns)) = (formats, &portal.prepared.columns) {
            describe_rows(&mut out, columns, &portal.result_formats)?;
        }
        let word = if formats.is_some() { "FETCH" } else { "MOVE" };
        let mut rows = match std::mem::replace(&mut portal.state, PortalState::Finished) {
            PortalState::Suspended(rows) => rows,
            state @ PortalState::Exhausted(_) => {
                portal.state = state;
                self.send_ran(out, 0);
                backend::command_complete(&mut self.connection.out, &format!("{word} 0"));
                return Ok(());
            }
            state @ (PortalState::Bound(_) | PortalState::Finished) => {
                portal.state = state;
                let message = format!("portal \"{name}\" cannot be run");
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
            }
        };
        if let Some(Some(formats)) = formats {
            rows.reformat(formats, &settings)?;
        }
        let (ctx, worker) = self.worker();
        let sends = formats.is_some();
        let (out, count, end) = self
            .drive(&ctx, deadline, |chunks| async move {
                if rows.scrolls() {
                    let mut out = out;
                    let count = rows.fetch((direction, sends), &worker.ctx, (&mut out, &chunks)).await?;
                    return Ok((out, count, RanTo::Limit(rows)));
                }
                match sends {
                    true => {
                        let ran = worker.send(rows, limit, (out, chunks)).await?;
                        Ok((ran.out, ran.rows, ran.end))
                    }
                    false => skip(&worker, rows, limit).await,
                }
            })
            .await?;
        self.set_state(
            name,
            match end {
                RanTo::Limit(rows) => PortalState::Suspended(rows),
                RanTo::End { source, .. } => {
                    let tag = source.map_or(RowsTag::Counted("SELECT"), |source| source.tag().clone());
                    PortalState::Exhausted(tag)
                }
            },
        );
        self.send_ran(out, if sends { count } else { 0 });
        backend::command_complete(&mut self.connection.out, &format!("{word} {count}"));
        Ok(())
    }

    fn run_close(&mut self, close: &CloseCursor) -> Result<(), Failure> {
        let tag = match &close.cursor {
            Some(name) => {
                self.portals.remove(name.as_str()).ok_or_else(|| no_cursor(name.as_str()))?;
                "CLOSE CURSOR"
            }
            None => {
                self.portals.clear();
                "CLOSE CURSOR ALL"
            }
        };
        backend::command_complete(&mut self.connection.out, tag);
        Ok(())
    }
}

/// Passes over rows: they are encoded into a queue that nobody keeps.
async fn skip(worker: &Worker, mut rows: Box<RowSource>, limit: Option<u64>) -> Result<(BytesMut, u64, RanTo)> {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let mut out = BytesMut::new();
    let discard = async { while receiver.recv().await.is_some() {} };
    let sending = async {
        let sent = rows.send(limit, &worker.ctx, (&mut out, &sender)).await;
        drop(sender);
        sent
    };
    let (sent, ()) = tokio::join!(sending, discard);
    let sent = sent?;
    let end = match sent.ended {
        true => RanTo::End { tag: String::new(), source: Some(rows) },
        false => RanTo::Limit(rows),
    };
    Ok((BytesMut::new(), sent.rows, end))
}

/// Evaluates the arguments of EXECUTE as the types of the parameters.
async fn evaluate(worker: &Worker, arguments: Option<Source>, prepared: &Prepared) -> Result<Vec<ScalarValue>> {
    let Some(source) = arguments else {
        return Ok(Vec::new());
    };
    let plan = worker.plan(&source, &[]).await?;
    let mut session = worker.session.lock().await;
    let settings = session.settings.format_settings();
    let outcome = worker.engine.execute(&mut session, &plan, Vec::new(), &worker.ctx).await?;
    drop(session);
    let lancegate_engine::exec::Outcome::Rows { mut stream, .. } = outcome else {
        return Err(SqlError::internal("a query answered no rows"));
    };
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            let values = batch.columns().iter().zip(&prepared.parameters);
            return values
                .map(|(column, parameter)| match ScalarValue::try_from_array(column, 0)? {
                    // A string is what the same text is in Bind.
                    ScalarValue::Utf8(Some(text)) => read_text(parameter, &text, &settings),
                    value => Ok(value.cast_to(&parameter.data_type)?),
                })
                .collect();
        }
    }
    Err(SqlError::internal("a query answered no rows"))
}

/// Returns the rows that a forward direction asks for; `None` means all.
fn forward(direction: FetchDirection) -> Result<Option<u64>> {
    match direction {
        FetchDirection::Forward(count) if count > 0 => Ok(Some(count)),
        FetchDirection::ForwardAll => Ok(None),
        FetchDirection::Relative(rows) if rows > 0 => match rows {
            1 => Ok(Some(1)),
            _ => Err(SqlError::not_supported("FETCH RELATIVE is supported for the next row only")),
        },
        FetchDirection::Forward(_)
        | FetchDirection::Backward(_)
        | FetchDirection::BackwardAll
        | FetchDirection::Absolute(_)
        | FetchDirection::Relative(_) => {
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
                .hint("Declare it with SCROLL option to enable backward scan."))
        }
    }
}

/// Returns the object id of a type that PREPARE names.
fn type_oid(data_type: &native::DataType) -> Result<u32> {
    let name = data_type.to_string().to_ascii_lowercase();
    let base = name.split('(').next().unwrap_or_default().trim();
    let (base, array) = match name.strip_suffix("[]") {
        Some(element) => (element.trim(), true),
        None => (base, false),
    };
    let base = match base {
        "int" => "integer",
        "float" => "double precision",
        "decimal" => "numeric",
        "string" => "text",
        base => base,
    };
    let found = builtin_by_name(base).or_else(|| builtins().iter().find(|builtin| builtin.sql_name == base));
    let oid = found.map(|builtin| if array { builtin.array_oid } else { builtin.oid });
    oid.ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist")))
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forward_directions_are_served() {
        assert_eq!(forward(FetchDirection::Forward(5)).unwrap(), Some(5));
        assert_eq!(forward(FetchDirection::ForwardAll).unwrap(), None);
        for direction in [FetchDirection::Backward(1), FetchDirection::Absolute(1), FetchDirection::Forward(0)] {
            assert_eq!(forward(direction).unwrap_err().code.as_str(), "55000");
        }
    }

    #[test]
    fn types_of_prepare_have_object_ids() {
        let check = |sql: &str, expected: u32| {
            let dialect = sqlparser::dialect::PostgreSqlDialect {};
            let data_type = sqlparser::parser::Parser::new(&dialect).try_with_sql(sql).unwrap().parse_data_type();
            assert_eq!(type_oid(&data_type.unwrap()).unwrap(), expected, "{sql}");
        };
        check("int", 23);
        check("bigint", 20);
        check("text", 25);
        check("double precision", 701);
        check("varchar(10)", 1043);
        check("int[]", 1007);
    }
}
