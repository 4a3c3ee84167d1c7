//! Tickets, descriptors and prepared statements: whose they are, how often and how long
//! they hold.

use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
    Any, Command, CommandPreparedStatementQuery, ProstMessageExt as _,
};
use arrow_flight::{
    CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor, FlightInfo, Ticket,
};
use prost::Message as _;
use tonic::{Code, Request};

use super::Flight;
use super::messages::{ENDLESS, packed, query, statement_ticket};
use crate::harness::PASSWORD;
use crate::rest::Rest;
use crate::rows::run;

fn ticket(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().unwrap()
}

async fn prepare(flight: &Flight, sql: &str) -> Result<ActionCreatePreparedStatementResult, tonic::Status> {
    let request = ActionCreatePreparedStatementRequest { query: sql.to_owned(), transaction_id: None };
    let bodies = flight.act("CreatePreparedStatement", request.as_any().encode_to_vec()).await?;
    Ok(Any::decode(bodies[0].as_ref()).unwrap().unpack().unwrap().unwrap())
}

fn of(prepared: &ActionCreatePreparedStatementResult) -> Vec<u8> {
    let handle = prepared.prepared_statement_handle.clone();
    packed(Command::CommandPreparedStatementQuery(CommandPreparedStatementQuery { prepared_statement_handle: handle }))
}

async fn cancel(flight: &Flight, info: FlightInfo) -> Result<CancelStatus, tonic::Status> {
    let request = CancelFlightInfoRequest { info: Some(info) }.encode_to_vec();
    let bodies = flight.act("CancelFlightInfo", request).await?;
    let result = CancelFlightInfoResult::decode(bodies[0].as_ref()).unwrap();
    Ok(CancelStatus::try_from(result.status).unwrap())
}

/// A gateway with a table, its owner, and a user who may read it, too.
async fn two() -> (Rest, Flight, Flight) {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    run(&client, "CREATE TABLE t AS SELECT x FROM generate_series(1, 100) AS s(x)").await;
    run(&client, "CREATE DATABASE other; CREATE USER bob PASSWORD 'a long password'").await;
    for what in ["USAGE ON DATABASE lancegate", "USAGE ON SCHEMA public", "SELECT ON TABLE t"] {
        run(&client, &format!("GRANT {what} TO USER bob")).await;
    }
    let key: String = client.query_one("CREATE API KEY his FOR USER bob", &[]).await.unwrap().get("key");
    let own = Flight::connect(&rest.gateway, &rest.key).await;
    let his = Flight::connect(&rest.gateway, &key).await;
    (rest, own, his)
}

#[tokio::test]
async fn a_handle_is_of_one_user_in_one_database() {
    let (_rest, own, his) = two().await;
    let elsewhere = own.with("database", "other");
    let info = own.info(query("SELECT x FROM t")).await.unwrap();
    let polled = own.poll(FlightDescriptor::new_cmd(query(ENDLESS))).await.unwrap();
    let descriptor = polled.flight_descriptor.clone().unwrap();
    let prepared = prepare(&own, "SELECT x FROM t").await.unwrap();
    for other in [&his, &elsewhere] {
        let told = [
            other.get(ticket(&info)).await.unwrap_err(),
            other.poll(descriptor.clone()).await.unwrap_err(),
            other.info(of(&prepared)).await.unwrap_err(),
            cancel(other, info.clone()).await.unwrap_err(),
            cancel(other, polled.info.clone().unwrap()).await.unwrap_err(),
        ];
        for error in told {
            assert_eq!(error.code(), Code::NotFound, "{error}");
        }
        // Closing tells nothing about what is there, and closes nothing of another's.
        let close = ActionClosePreparedStatementRequest {
            prepared_statement_handle: prepared.prepared_statement_handle.clone(),
        };
        other.act("ClosePreparedStatement", close.as_any().encode_to_vec()).await.unwrap();
    }
    assert!(own.get(ticket(&own.info(of(&prepared)).await.unwrap())).await.is_ok());
    assert!(own.get(ticket(&info)).await.is_ok());
    assert_eq!(cancel(&own, polled.info.unwrap()).await.unwrap(), CancelStatus::Cancelled);
    assert_eq!(own.poll(descriptor).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_ticket_runs_its_statement_once() {
    let (mut rest, own, _) = two().await;
    let count = async || own.get(statement_ticket("SELECT x FROM t WHERE x > 100")).await.unwrap();
    let info = own.info(query("INSERT INTO t VALUES (101) RETURNING x")).await.unwrap();
    // Nothing has run so far.
    assert_eq!(count().await, 0);
    own.get(ticket(&info)).await.unwrap();
    assert_eq!(count().await, 1);
    let again = own.get(ticket(&info)).await.unwrap_err();
    assert!(matches!(again.code(), Code::NotFound | Code::FailedPrecondition), "{again}");
    // One without rows has run when it is answered: drivers go on before they read the answer.
    let done = own.info(query("INSERT INTO t VALUES (102)")).await.unwrap();
    assert_eq!(count().await, 2);
    assert_eq!(own.get(ticket(&done)).await.unwrap(), 0);
    assert_eq!(count().await, 2);
    own.info(query("INSERT INTO t VALUES ('x')")).await.unwrap_err();
    // Nothing of it is kept, however many there are whose answers nobody reads.
    for _ in 0..300 {
        own.info(query("ANALYZE t")).await.unwrap();
    }
    let open = own.info(query("SELECT x FROM t")).await.unwrap();
    rest.gateway.restart();
    let own = Flight::connect(&rest.gateway, &rest.key).await;
    assert_eq!(own.get(ticket(&open)).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn privileges_and_columns_are_those_of_the_moment_when_a_ticket_is_turned_in() {
    let (rest, _, his) = two().await;
    let client = rest.gateway.connect().await;
    let info = his.info(query("SELECT * FROM t")).await.unwrap();
    let prepared = prepare(&his, "SELECT * FROM t").await.unwrap();
    run(&client, "ALTER TABLE t ADD COLUMN y BIGINT").await;
    let error = his.get(ticket(&info)).await.unwrap_err();
    assert!(error.message().contains("cached plan must not change result type"), "{error}");
    let info = his.info(query("SELECT x FROM t")).await.unwrap();
    run(&client, "REVOKE SELECT ON TABLE t FROM USER bob").await;
    let error = his.get(ticket(&info)).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    let info = his.info(of(&prepared)).await.unwrap();
    assert_eq!(his.get(ticket(&info)).await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(his.info(query("SELECT x FROM t")).await.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_user_keeps_no_more_than_so_many_handles() {
    let (_rest, own, his) = two().await;
    let mut kept = 0;
    let error = loop {
        match prepare(&own, "SELECT 1").await {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1_000);
    };
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert!(kept >= 256 && error.message().contains("too many prepared statements"), "{kept}: {error}");
    assert!(prepare(&his, "SELECT 1").await.is_ok());
}

/// A token holds as long as the password that it was given for.
#[tokio::test]
async fn a_login_ends_with_its_password() {
    let (rest, own, _) = two().await;
    let client = rest.gateway.connect().await;
    let basic = |user: &str, password: &str| {
        use base64::Engine as _;
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
    };
    let log_in = async |password: &str| -> Result<String, tonic::Status> {
        let mut request = Request::new(futures::stream::iter(vec![]));
        request.metadata_mut().insert("authorization", basic("bob", password).parse().unwrap());
        let response = own.client.clone().handshake(request).await?;
        Ok(response.metadata().get("authorization").unwrap().to_str().unwrap().to_owned())
    };
    // A token for a key would outlive it.
    let by_key = own.request(futures::stream::iter(vec![]));
    assert_eq!(own.client.clone().handshake(by_key).await.unwrap_err().code(), Code::Unimplemented);
    let token = log_in("a long password").await.unwrap();
    assert!(token.starts_with("Bearer lgt_"), "{token}");
    let his = own.bare().with("authorization", &token);
    assert!(his.get(statement_ticket("SELECT x FROM t")).await.is_ok());
    // His roles and grants are those of the moment.
    run(&client, "REVOKE SELECT ON TABLE t FROM USER bob").await;
    let error = his.get(statement_ticket("SELECT x FROM t")).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    run(&client, "ALTER USER bob PASSWORD 'another long password'").await;
    let error = his.get(statement_ticket("SELECT 1")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    assert_eq!(log_in("a long password").await.unwrap_err().code(), Code::Unauthenticated);
    let token = log_in("another long password").await.unwrap();
    let his = own.bare().with("authorization", &token);
    assert!(his.get(statement_ticket("SELECT 1")).await.is_ok());
    his.act("CloseSession", Vec::new()).await.unwrap();
    assert_eq!(his.get(statement_ticket("SELECT 1")).await.unwrap_err().code(), Code::Unauthenticated);
    let other = own.bare().with("authorization", &basic("lancegate", PASSWORD));
    assert!(other.get(statement_ticket("SELECT 1")).await.is_ok());
    assert!(!rest.gateway.log().contains("lgt_"), "a token is in the log");
}
