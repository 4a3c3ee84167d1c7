//! Runs COPY. The rows of COPY FROM come from a client while the statement runs;
//! all of them are one append, so either all are visible or none.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::scalar::ScalarValue;
use lancegate_wire::WireError;
use lancegate_wire::copy::{CopyColumns, CopyDecoder, CopyOptions, CopyRow, FieldError};
use tokio::sync::mpsc;

use crate::error::{Result, SqlError};
use crate::exec::filling::filled;
use crate::exec::{Engine, Outcome, RowsTag, dml, query, session};
use crate::session::{Session, StatementContext};
use crate::sql::plan::copy::CopyPlan;
use crate::sqlstate::SqlState;

/// The longest row that is taken.
const ROW_BYTES_MAX: usize = 1 << 28;
/// Rows, and bytes of data, of one batch.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 4 << 20;
/// What an error shows of a field.
const SHOWN_CHARS_MAX: usize = 100;

/// What a client sends after COPY FROM STDIN.
#[derive(Debug)]
pub enum CopyInput {
    /// Data, cut anywhere.
    Data(Bytes),
    /// The end of the data.
    Done,
    /// The client gave up, or sent what is no part of a COPY.
    Failed(SqlError),
}

/// Where it arrives. Closed without [`CopyInput::Done`], the client is gone.
pub type CopyInputs = mpsc::Receiver<CopyInput>;

/// Runs COPY TO: the rows of a query, under the tag `COPY`.
pub(super) async fn copy_to(
    engine: &Engine,
    session: &Session,
    plan: &CopyPlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let CopyPlan::To { query, .. } = plan else {
        return Err(SqlError::internal("COPY FROM was executed without its data"));
    };
    match query::select(engine, session, query, parameters, ctx).await? {
        Outcome::Rows { schema, stream, .. } => Ok(Outcome::Rows { schema, stream, tag: RowsTag::Counted("COPY") }),
        done @ Outcome::Done(_) => Ok(done),
    }
}

/// Runs COPY FROM.
///
/// # Errors
/// 22P04 and what the types of the columns answer, with the line and the field;
/// what an INSERT raises.
pub(super) async fn copy_from(
    engine: &Engine,
    session: &mut Session,
    plan: &CopyPlan,
    inputs: CopyInputs,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let CopyPlan::From { table, columns, filling, options } = plan else {
        return Err(SqlError::internal("COPY TO was executed with data"));
    };
    let schema = Arc::new(Schema::new(columns.clone()));
    let names = columns.iter().map(|column| column.name().clone()).collect();
    let columns = CopyColumns::new(schema, options.field_format(), session.settings.format_settings());
    let reader = Reader {
        table: table.name().to_owned(),
        decoder: decoder(options, names)?,
        columns,
        inputs,
        rows: Vec::new(),
        ended: false,
        ctx: ctx.clone(),
    };
    let schema = SchemaRef::clone(reader.columns.schema());
    let rows = futures::stream::try_unfold(reader, |mut reader| async move {
        let batch = reader.next().await.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok::<_, DataFusionError>(batch.map(|batch| (batch, reader)))
    });
    let rows = filled(Box::pin(RecordBatchStreamAdapter::new(schema, rows)), filling);
    let (count, version) = dml::append_at(engine, table, rows).await?;
    session::committed(session, table, Some(version));
    Ok(Outcome::Done(format!("COPY {count}")))
}

fn decoder(options: &CopyOptions, names: Vec<String>) -> Result<CopyDecoder> {
    CopyDecoder::new(options, names, ROW_BYTES_MAX).map_err(|error| from_wire(&error))
}

/// Turns what arrives into batches.
struct Reader {
    table: String,
    decoder: CopyDecoder,
    columns: CopyColumns,
    inputs: CopyInputs,
    /// Rows that were read and are in no batch yet.
    rows: Vec<CopyRow>,
    ended: bool,
    ctx: StatementContext,
}

impl Reader {
    /// Returns the next rows; `None` after the last.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut bytes = 0;
        while !self.ended && self.rows.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            bytes += self.read().await?;
        }
        if self.rows.is_empty() {
            return Ok(None);
        }
        let batch = self.columns.batch(&self.rows).map_err(|failed| self.field_error(&failed))?;
        self.rows.clear();
        Ok(Some(batch))
    }

    async fn read(&mut self) -> Result<usize> {
        let input = tokio::select! {
            biased;
            () = self.ctx.cancel.cancelled() => return Err(self.ctx.error()),
            input = self.inputs.recv() => input,
        };
        let (read, length) = match input {
            Some(CopyInput::Data(data)) => (self.decoder.push(&data, &mut self.rows), data.len()),
            Some(CopyInput::Done) => {
                self.ended = true;
                (self.decoder.finish(&mut self.rows), 0)
            }
            Some(CopyInput::Failed(error)) => return Err(error.context(self.context(self.decoder.line() + 1))),
            None => return Err(SqlError::new(SqlState::CONNECTION_FAILURE, "unexpected EOF on client connection")),
        };
        read.map_err(|error| from_wire(&error).context(self.context(self.decoder.line())))?;
        Ok(length)
    }

    /// Names the line, the column and the field, as PostgreSQL does.
    fn field_error(&self, failed: &FieldError) -> SqlError {
        // Each row that is here was one line, and the last one is the last read.
        let behind = self.rows.len().saturating_sub(failed.row + 1) as u64;
        let line = self.decoder.line().saturating_sub(behind);
        let column = self.columns.schema().field(failed.column).name();
        let mut context = format!("{}, column {column}", self.context(line));
        if let Some(Some(field)) = self.rows.get(failed.row).and_then(|row| row.get(failed.column)) {
            let text = String::from_utf8_lossy(field);
            let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
            let more = if shown.len() < text.len() { "..." } else { "" };
            context = format!("{context}: \"{shown}{more}\"");
        }
        from_wire(&failed.error).context(context)
    }

    fn context(&self, line: u64) -> String {
        format!("COPY {}, line {line}", self.table)
    }
}

fn from_wire(error: &WireError) -> SqlError {
    SqlError::new(SqlState::parse(error.sqlstate()), error.to_string())
}
