//! The messages that clients send, made by hand.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::sql::{Any, Command, CommandStatementQuery, ProstMessageExt as _};
use arrow_flight::{FlightData, FlightDescriptor, Ticket};
use prost::Message as _;

/// A query that nobody waits for.
pub(crate) const ENDLESS: &str = "SELECT count(*) AS n FROM generate_series(1, 1000000) AS a(i), \
                                  generate_series(1, 100000000) AS b(j) WHERE (i + j) % 7 = 3";

/// Returns a `CommandStatementQuery` for a descriptor.
pub(crate) fn query(sql: &str) -> Vec<u8> {
    CommandStatementQuery { query: sql.to_owned(), transaction_id: None }.as_any().encode_to_vec()
}

/// Returns a command of Flight SQL for a descriptor.
pub(crate) fn packed(command: Command) -> Vec<u8> {
    command.into_any().encode_to_vec()
}

/// Returns the ticket of LanceDB's client 0.41: the command in the second field.
pub(crate) fn statement_ticket(sql: &str) -> Ticket {
    let outer = Any { type_url: String::new(), value: query(sql).into() };
    Ticket { ticket: outer.encode_to_vec().into() }
}

/// Returns the messages of rows with one whole number each, the first with a descriptor.
pub(crate) fn with_rows(command: Vec<u8>, numbers: &[i64]) -> Vec<FlightData> {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(numbers.to_vec()))]).unwrap();
    let mut messages = arrow_flight::utils::batches_to_flight_data(&batch.schema(), vec![batch]).unwrap();
    messages[0].flight_descriptor = Some(FlightDescriptor::new_cmd(command));
    messages
}

/// As [`with_rows`], with one row.
pub(crate) fn with_row(command: Vec<u8>, number: i64) -> Vec<FlightData> {
    with_rows(command, &[number])
}
