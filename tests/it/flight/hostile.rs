//! What no client would send. The gateway refuses it and goes on.

use arrow_flight::sql::{
    ActionBeginTransactionRequest, Command, CommandStatementIngest, CommandStatementQuery,
    CommandStatementSubstraitPlan, CommandStatementUpdate, ProstMessageExt as _, TableDefinitionOptions,
    TableExistsOption, TableNotExistOption, TicketStatementQuery,
};
use arrow_flight::{Criteria, Empty, FlightData, FlightDescriptor, Ticket};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::Code;

use super::Flight;
use super::messages::{packed, query, statement_ticket, with_rows};
use crate::rest::Rest;

fn ingest(table: &str) -> Vec<u8> {
    let options = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Create.into(),
        if_exists: TableExistsOption::Append.into(),
    };
    packed(Command::CommandStatementIngest(CommandStatementIngest {
        table_definition_options: Some(options),
        table: table.to_owned(),
        ..CommandStatementIngest::default()
    }))
}

/// Every call that there is, as it comes from somebody who has proved nothing.
#[tokio::test]
async fn without_credentials_no_call_is_answered() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    for nobody in
        [flight.bare(), flight.with("x-api-key", "lgk_wrong"), flight.bare().with("authorization", "Bearer lgt_x")]
    {
        let mut client = nobody.client.clone();
        let descriptor = || FlightDescriptor::new_cmd(query("SELECT 1"));
        let exchange = futures::stream::iter(with_rows(query("SELECT $1"), &[1]));
        let told = [
            nobody.info(query("SELECT 1")).await.unwrap_err(),
            nobody.poll(descriptor()).await.unwrap_err(),
            nobody.get(statement_ticket("SELECT 1")).await.unwrap_err(),
            nobody.put(with_rows(ingest("t"), &[1])).await.unwrap_err(),
            nobody.act("CloseSession", Vec::new()).await.unwrap_err(),
            nobody.act("CreatePreparedStatement", Vec::new()).await.unwrap_err(),
            nobody.get(Ticket { ticket: vec![0xff; 1 << 20].into() }).await.unwrap_err(),
            client.get_schema(nobody.request(descriptor())).await.map(drop).unwrap_err(),
            client.list_flights(nobody.request(Criteria::default())).await.map(drop).unwrap_err(),
            client.list_actions(nobody.request(Empty {})).await.map(drop).unwrap_err(),
            client.handshake(nobody.request(futures::stream::iter(vec![]))).await.map(drop).unwrap_err(),
            client.do_exchange(nobody.request(exchange)).await.map(drop).unwrap_err(),
        ];
        for error in told {
            assert_eq!(error.code(), Code::Unauthenticated, "{error}");
        }
    }
    assert_eq!(flight.get(statement_ticket("SELECT * FROM t")).await.unwrap_err().code(), Code::NotFound);
    assert!(flight.get(statement_ticket("SELECT 1")).await.is_ok());
}

#[tokio::test]
async fn r02_bytes_that_make_no_sense_are_refused_as_the_clients_mistake() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    let garbage: Vec<Vec<u8>> = vec![
        vec![],
        vec![0xff; 64],
        b"SELECT 1".to_vec(),
        b"\x0a\xff\xff\xff\xff\x0f".to_vec(),
        vec![0x0b; 4096],
        TicketStatementQuery { statement_handle: vec![1; 32].into() }.as_any().encode_to_vec(),
        packed(Command::CommandStatementSubstraitPlan(CommandStatementSubstraitPlan::default())),
        ActionBeginTransactionRequest {}.as_any().encode_to_vec(),
        packed(Command::CommandStatementQuery(CommandStatementQuery {
            query: "SELECT 1".to_owned(),
            transaction_id: Some(vec![1].into()),
        })),
    ];
    let client = |error: &tonic::Status| {
        matches!(error.code(), Code::InvalidArgument | Code::Unimplemented | Code::NotFound | Code::FailedPrecondition)
    };
    for bytes in &garbage {
        let descriptor = FlightDescriptor::new_cmd(bytes.clone());
        let first = FlightData { flight_descriptor: Some(descriptor.clone()), ..FlightData::default() };
        let told = [
            flight.info(bytes.clone()).await.unwrap_err(),
            flight.poll(descriptor).await.unwrap_err(),
            flight.put(vec![first]).await.unwrap_err(),
        ];
        for error in told {
            assert!(client(&error), "{bytes:?}: {error}");
        }
        let error = flight.get(Ticket { ticket: bytes.clone().into() }).await.unwrap_err();
        assert!(client(&error), "{bytes:?}: {error}");
        for action in ["CreatePreparedStatement", "CancelFlightInfo", "CancelQuery", "BeginTransaction", "", "\0\u{7f}"]
        {
            let error = flight.act(action, bytes.clone()).await.unwrap_err();
            assert!(client(&error), "{action}: {bytes:?}: {error}");
        }
    }
    assert!(client(&flight.put(Vec::new()).await.unwrap_err()));
    assert!(flight.get(statement_ticket("SELECT 1")).await.is_ok());
    let log = rest.gateway.log();
    assert!(!log.contains("panicked") && !log.contains("internal error"), "{log}");
}

/// Every byte of the messages of rows is changed once: no change is a bug's, and what is taken is taken as a whole.
#[tokio::test]
async fn r02_rows_with_a_changed_byte_are_refused_or_taken_whole() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    let whole = with_rows(ingest("t"), &[1, 2, 3]);
    flight.put(whole.clone()).await.unwrap();
    let count = async || flight.get(statement_ticket("SELECT * FROM t")).await.unwrap();
    let (mut rows, mut refused, mut taken) = (3, 0, 0);
    for message in 0..whole.len() {
        for part in 0..2 {
            let length = if part == 0 { whole[message].data_header.len() } else { whole[message].data_body.len() };
            for at in 0..length {
                let mut broken = whole.clone();
                let target = if part == 0 { &mut broken[message].data_header } else { &mut broken[message].data_body };
                let mut bytes = target.to_vec();
                bytes[at] ^= 0xff;
                *target = bytes.into();
                match flight.put(broken).await {
                    Ok(()) => (rows, taken) = (rows + 3, taken + 1),
                    Err(error) => {
                        assert_ne!(error.code(), Code::Internal, "message {message}, byte {at}: {error}");
                        refused += 1;
                    }
                }
            }
        }
        assert_eq!(count().await, rows, "message {message}");
    }
    eprintln!("{refused} changes were refused, {taken} taken");
    assert!(refused > 100 && taken >= 24, "{refused} {taken}: each byte of the three numbers may be another");
    let shuffled: Vec<FlightData> = whole.iter().rev().cloned().collect();
    let twice: Vec<FlightData> = whole.iter().chain(&whole).cloned().collect();
    for bad in [vec![whole[0].clone(), whole[0].clone()], shuffled, twice] {
        let error = flight.put(bad).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
    assert_eq!(count().await, rows);
    let log = rest.gateway.log();
    assert!(!log.contains("internal error"), "{log}");
}

#[tokio::test]
async fn r02_a_message_and_all_rows_of_a_call_are_no_longer_than_they_may_be() {
    let rest = Rest::start_with("[flight]\nmessage_bytes_max = '64KiB'\n[http]\nupload_bytes_max = '1MiB'\n").await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    let long = format!("SELECT '{}'", "x".repeat(100_000));
    let error = flight.info(query(&long)).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error}");
    // Rows in many messages have a limit of their own.
    let rows = with_rows(ingest("t"), &[7; 4_000]);
    let mut many = rows.clone();
    for _ in 0..40 {
        many.push(rows[1].clone());
    }
    let error = flight.put(many).await.unwrap_err();
    assert!(error.message().contains("54000"), "{error}");
    assert_eq!(flight.get(statement_ticket("SELECT * FROM t")).await.unwrap_err().code(), Code::NotFound);
    flight.put(rows).await.unwrap();
}

#[tokio::test]
async fn what_is_no_http2_is_closed_and_the_gateway_goes_on() {
    let rest = Rest::start().await;
    for bytes in
        [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &[0; 512], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff"]
    {
        let mut socket = tokio::net::TcpStream::connect(rest.gateway.flight_addr()).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(std::time::Duration::from_secs(30), socket.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "{bytes:?} is still open");
    }
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    assert!(flight.get(statement_ticket("SELECT 1")).await.is_ok());
}

#[tokio::test]
async fn what_needs_a_connection_of_its_own_is_refused_with_a_hint() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    for sql in ["SET search_path = s", "BEGIN", "COPY t TO STDOUT", "LISTEN lancegate_jobs", "FETCH ALL FROM c"] {
        let error = flight.info(query(sql)).await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented, "{sql}: {error}");
        assert!(error.message().contains("HINT:"), "{sql}: {error}");
    }
    let update = packed(Command::CommandStatementUpdate(CommandStatementUpdate {
        query: "ROLLBACK".to_owned(),
        transaction_id: None,
    }));
    let first = FlightData { flight_descriptor: Some(FlightDescriptor::new_cmd(update)), ..FlightData::default() };
    let error = flight.put(vec![first]).await.unwrap_err();
    assert!(error.code() == Code::Unimplemented && error.message().contains("HINT:"), "{error}");
}
