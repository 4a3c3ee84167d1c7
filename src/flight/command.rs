//! What a client asks for, read from the bytes of descriptors and tickets.
//!
//! Three forms come: a command of Flight SQL; a ticket of ours with a handle; and
//! from LanceDB's own client (0.41) a command in the second field of a message of its
//! own, which reads as an `Any` without a type.

use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::sql::{Any, Command, CommandStatementQuery, ProstMessageExt as _, TicketStatementQuery};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use bytes::Bytes;
use prost::Message as _;

use super::error::{Result, invalid, unsupported};
use super::registry::Handle;

/// The type of the descriptors that a client polls with. What is in them is opaque.
const POLL_URL: &str = "type.googleapis.com/lancegate.flight.Poll";

/// A descriptor.
#[derive(Debug)]
pub(super) enum Asked {
    /// A command of Flight SQL.
    Command(Command),
    /// How far a statement is that was asked for before.
    Poll(Bytes),
}

/// Reads a descriptor.
///
/// # Errors
/// INVALID_ARGUMENT for what is no command, UNIMPLEMENTED for a path.
pub(super) fn asked(descriptor: &FlightDescriptor) -> Result<Asked> {
    match descriptor.r#type() {
        DescriptorType::Cmd => {}
        DescriptorType::Path => return Err(unsupported("descriptors with a path are not supported; send a command")),
        DescriptorType::Unknown => return Err(invalid("the descriptor has no type")),
    }
    let any = any(&descriptor.cmd)?;
    if any.type_url == POLL_URL {
        return Ok(Asked::Poll(any.value));
    }
    command(any).map(Asked::Command)
}

/// Reads a ticket.
///
/// # Errors
/// INVALID_ARGUMENT for what is none.
pub(super) fn ticket(ticket: &Ticket) -> Result<Command> {
    let outer = any(&ticket.ticket)?;
    if !outer.type_url.is_empty() {
        return command(outer);
    }
    match command(any(&outer.value)?)? {
        statement @ Command::CommandStatementQuery(_) => Ok(statement),
        other => Err(invalid(format!("{} is no ticket", other.type_url()))),
    }
}

fn any(bytes: &Bytes) -> Result<Any> {
    Any::decode(bytes.as_ref()).map_err(|error| invalid(format!("the command is not a protobuf message: {error}")))
}

/// Reads a command. One with a type that is not known here is [`Command::Unknown`], so
/// that it can be refused by name; one without a type is none.
fn command(any: Any) -> Result<Command> {
    if any.type_url.is_empty() {
        return Err(invalid("the command has no type"));
    }
    Command::try_from(any).map_err(|error| invalid(error.to_string()))
}

/// Returns the ticket of the rows behind a handle.
pub(super) fn ticket_of(handle: Handle) -> Ticket {
    let ticket = TicketStatementQuery { statement_handle: handle.bytes() };
    Ticket { ticket: ticket.as_any().encode_to_vec().into() }
}

/// Returns the ticket of a statement that has run and has no rows; it names nothing that is kept.
pub(super) fn ticket_without_rows() -> Ticket {
    Ticket { ticket: TicketStatementQuery { statement_handle: Bytes::new() }.as_any().encode_to_vec().into() }
}

/// Returns the descriptor to poll with.
pub(super) fn poll_of(handle: Handle) -> FlightDescriptor {
    let any = Any { type_url: POLL_URL.to_owned(), value: handle.bytes() };
    FlightDescriptor::new_cmd(any.encode_to_vec())
}

/// Returns the handle of the statement that an answer was about: of its ticket, or, as
/// long as it has none, beside it.
pub(super) fn handle_of(info: &FlightInfo) -> Option<Bytes> {
    let of_ticket = |endpoint: &FlightEndpoint| match ticket(endpoint.ticket.as_ref()?).ok()? {
        Command::TicketStatementQuery(ticket) => Some(ticket.statement_handle),
        _ => None,
    };
    let beside = || Some(info.app_metadata.clone()).filter(|bytes| !bytes.is_empty());
    info.endpoint.first().and_then(of_ticket).or_else(beside)
}

/// Refuses what belongs to a transaction, because there are none.
///
/// # Errors
/// UNIMPLEMENTED.
pub(super) fn ensure_no_transaction(id: Option<&Bytes>) -> Result<()> {
    match id.is_some_and(|id| !id.is_empty()) {
        true => Err(unsupported("transactions are not supported over Flight SQL")),
        false => Ok(()),
    }
}

/// Returns the text of a statement.
///
/// # Errors
/// As [`ensure_no_transaction`].
pub(super) fn text(query: CommandStatementQuery) -> Result<String> {
    ensure_no_transaction(query.transaction_id.as_ref())?;
    Ok(query.query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> CommandStatementQuery {
        CommandStatementQuery { query: "SELECT 1".to_owned(), transaction_id: None }
    }

    #[test]
    fn a_ticket_is_a_command_or_the_second_field_of_another_message() {
        let plain = query().as_any().encode_to_vec();
        let wrapped = Any { type_url: String::new(), value: plain.clone().into() }.encode_to_vec();
        for bytes in [plain, wrapped] {
            let read = ticket(&Ticket { ticket: bytes.into() }).unwrap();
            assert_eq!(read, Command::CommandStatementQuery(query()));
        }
        let other = TicketStatementQuery { statement_handle: Bytes::from_static(b"x") }.as_any().encode_to_vec();
        let wrapped = Any { type_url: String::new(), value: other.into() }.encode_to_vec();
        assert!(ticket(&Ticket { ticket: wrapped.into() }).is_err());
    }

    #[test]
    fn bytes_that_are_no_command_are_an_error_and_no_panic() {
        for bad in [&b"\xff\xff\xff\xff"[..], b"SELECT 1", b"\x0a\x7fx", b"\x12\x02\xff\xff"] {
            let bytes = Bytes::copy_from_slice(bad);
            assert!(ticket(&Ticket { ticket: bytes.clone() }).is_err(), "{bad:?}");
            assert!(asked(&FlightDescriptor::new_cmd(bytes)).is_err(), "{bad:?}");
        }
        assert!(asked(&FlightDescriptor::new_path(vec!["t".to_owned()])).is_err());
        let broken = Any { type_url: query().as_any().type_url, value: Bytes::from_static(b"\x0a\xff") };
        assert!(asked(&FlightDescriptor::new_cmd(broken.encode_to_vec())).is_err());
    }

    #[test]
    fn a_handle_is_found_in_what_was_told_of_it() {
        let handle = Handle::new().unwrap();
        let endpoint = FlightEndpoint { ticket: Some(ticket_of(handle)), ..FlightEndpoint::default() };
        let ready = FlightInfo::new().with_endpoint(endpoint);
        let running = FlightInfo::new().with_app_metadata(handle.bytes());
        assert_eq!(handle_of(&ready), Some(handle.bytes()));
        assert_eq!(handle_of(&running), Some(handle.bytes()));
        assert_eq!(handle_of(&FlightInfo::new()), None);
        assert!(matches!(asked(&poll_of(handle)).unwrap(), Asked::Poll(bytes) if bytes == handle.bytes()));
    }
}
