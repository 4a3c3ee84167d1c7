//! Flight SQL, by the published clients and by what no client would send.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightData, FlightDescriptor, FlightInfo, PollInfo, Ticket};
use futures::{StreamExt as _, TryStreamExt as _};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use crate::harness::{Gateway, python, until};
use crate::rest::{Rest, api_key};

mod bombs;
mod handles;
mod hostile;
mod logins;
pub(crate) mod messages;

use messages::{query, statement_ticket};

/// A client with the credentials and the headers of its calls.
#[derive(Clone)]
pub(crate) struct Flight {
    client: FlightServiceClient<Channel>,
    headers: Vec<(&'static str, String)>,
}

impl Flight {
    pub(crate) async fn connect(gateway: &Gateway, key: &str) -> Self {
        let channel = Channel::from_shared(format!("http://{}", gateway.flight_addr())).unwrap();
        Self::over(channel.connect().await.unwrap(), key)
    }

    pub(crate) fn over(channel: Channel, key: &str) -> Self {
        let client = FlightServiceClient::new(channel);
        let client = client.max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX);
        Self { client, headers: vec![("x-api-key", key.to_owned())] }
    }

    /// Returns the same client with another header.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|(known, _)| *known != name);
        headers.push((name, value.to_owned()));
        Self { client: self.client.clone(), headers }
    }

    /// Returns the same client without credentials.
    pub(crate) fn bare(&self) -> Self {
        Self { client: self.client.clone(), headers: Vec::new() }
    }

    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (name, value) in &self.headers {
            request.metadata_mut().insert(*name, MetadataValue::try_from(value.as_str()).unwrap());
        }
        request
    }

    pub(crate) async fn info(&self, command: Vec<u8>) -> Result<FlightInfo, Status> {
        let request = self.request(FlightDescriptor::new_cmd(command));
        Ok(self.client.clone().get_flight_info(request).await?.into_inner())
    }

    pub(crate) async fn poll(&self, descriptor: FlightDescriptor) -> Result<PollInfo, Status> {
        Ok(self.client.clone().poll_flight_info(self.request(descriptor)).await?.into_inner())
    }

    /// Reads all rows behind a ticket and returns how many there were.
    pub(crate) async fn get(&self, ticket: Ticket) -> Result<usize, Status> {
        let batches = decoded(self.client.clone().do_get(self.request(ticket)).await?).await?;
        Ok(batches.iter().map(RecordBatch::num_rows).sum())
    }

    pub(crate) async fn put(&self, messages: Vec<FlightData>) -> Result<(), Status> {
        let request = self.request(futures::stream::iter(messages));
        let mut stream = self.client.clone().do_put(request).await?.into_inner();
        while let Some(message) = stream.next().await {
            message?;
        }
        Ok(())
    }

    pub(crate) async fn act(&self, kind: &str, body: Vec<u8>) -> Result<Vec<bytes::Bytes>, Status> {
        let action = arrow_flight::Action::new(kind, body);
        let mut stream = self.client.clone().do_action(self.request(action)).await?.into_inner();
        let mut bodies = Vec::new();
        while let Some(result) = stream.next().await {
            bodies.push(result?.body);
        }
        Ok(bodies)
    }
}

/// Reads rows to their end.
async fn decoded(answer: tonic::Response<Streaming<FlightData>>) -> Result<Vec<RecordBatch>, Status> {
    let messages = answer.into_inner().map_err(FlightError::from);
    let rows: Result<Vec<RecordBatch>, FlightError> =
        FlightRecordBatchStream::new_from_flight_data(messages).try_collect().await;
    rows.map_err(Status::from)
}

/// Runs a Python program of this folder, which prints "ok".
fn program(name: &str, arguments: &[&str]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/flight").join(name);
    let output = python().arg(file).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim() == "ok", "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a certificate for this machine; the file has the key, too.
fn certificate(folder: &Path) -> std::path::PathBuf {
    let (certificate, key) = (folder.join("server.crt"), folder.join("server.key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    certificate
}

#[tokio::test]
async fn sdk_02_the_published_client_runs_sql() {
    let rest = Rest::start().await;
    let client = rest.gateway.connect().await;
    client.batch_execute("CREATE USER bob PASSWORD 'a long password'").await.unwrap();
    client.batch_execute("GRANT USAGE ON DATABASE lancegate TO USER bob").await.unwrap();
    client.batch_execute("GRANT USAGE ON SCHEMA public TO USER bob").await.unwrap();
    let stranger: String = client.query_one("CREATE API KEY his FOR USER bob", &[]).await.unwrap().get("key");
    let url = rest.gateway.http_url("");
    program("published.py", &[&url, &rest.key, &stranger]);
}

#[tokio::test]
async fn the_published_adbc_driver_queries_binds_ingests_and_lists() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certificate(folder.path());
    let gateway = Gateway::start();
    let key = api_key(&gateway, "owner").await;
    let files = format!("tls_cert = {certificate:?}\ntls_key = {:?}\n", folder.path().join("server.key"));
    let record = crate::identity::Files::new();
    let audit = crate::identity::key("file", &record.path("audit.jsonl"));
    let secure = Gateway::start_with(&format!("[audit]\n{audit}[flight]\n{files}"));
    let tls = secure.flight_addr().to_string();
    let certificate = certificate.to_str().unwrap();
    program("adbc.py", &[&gateway.flight_addr().to_string(), gateway.password(), &key, &tls, certificate]);
    // What came through TLS is recorded as such.
    let logins = logins::logins(&record);
    let through_tls = |login: &serde_json::Value| login[0] == "ok" && login[1] == "lancegate" && login[3] == true;
    assert!(!logins.is_empty() && logins.iter().all(through_tls), "{logins:?}");
}

/// The newer client puts the command into the ticket, and sends parameters with DoExchange.
#[tokio::test]
async fn a_command_is_also_a_ticket_and_an_exchange_has_its_parameters() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    assert_eq!(flight.get(statement_ticket("SELECT 1 AS a")).await.unwrap(), 1);
    let messages = messages::with_row(query("SELECT $1 + 1 AS a"), 41);
    let request = flight.request(futures::stream::iter(messages));
    let batches = decoded(flight.client.clone().do_exchange(request).await.unwrap()).await.unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    assert!(shown.contains("42"), "{shown}");
    let several = messages::with_rows(query("SELECT $1 AS a"), &[1, 2]);
    let refused = flight.client.clone().do_exchange(flight.request(futures::stream::iter(several))).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "{refused}");
}

#[tokio::test]
async fn a_statement_ends_with_its_time_and_with_the_gateway() {
    let mut rest = Rest::start_with("[query]\nstatement_timeout = '300ms'\n").await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    let error = flight.get(statement_ticket(messages::ENDLESS)).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    assert!(error.message().contains("statement timeout (57014)"), "{error}");
    let mut descriptor = FlightDescriptor::new_cmd(query(messages::ENDLESS));
    let error = loop {
        match flight.poll(descriptor).await {
            Ok(polled) => descriptor = polled.flight_descriptor.expect("it has no end"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    assert_eq!(error.metadata().get("lancegate-sqlstate").unwrap(), "57014");
    assert!(rest.gateway.stop().success());
}

/// Within the time that statements have, and with the word for it.
#[tokio::test]
async fn a_gateway_that_stops_tells_the_readers_of_what_runs() {
    let mut rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    let polled = flight.poll(FlightDescriptor::new_cmd(query(messages::ENDLESS))).await.unwrap();
    let mut descriptor = polled.flight_descriptor.expect("it has no end");
    let (reader, poller) = (flight.clone(), flight.clone());
    let reading = tokio::spawn(async move { reader.get(statement_ticket(messages::ENDLESS)).await.map(drop) });
    let polling = tokio::spawn(async move {
        loop {
            match poller.poll(descriptor).await {
                Ok(polled) => descriptor = polled.flight_descriptor.expect("it has no end"),
                Err(error) => return Err::<(), Status>(error),
            }
        }
    });
    // Both calls are there once the connection has answered a later one.
    flight.get(statement_ticket("SELECT 1")).await.unwrap();
    assert!(!reading.is_finished() && !polling.is_finished());
    assert!(rest.gateway.stop().success());
    for told in [reading.await.unwrap(), polling.await.unwrap()] {
        let error: Status = told.unwrap_err();
        assert!(error.code() == Code::Unavailable && error.message().contains("57P01"), "{error}");
    }
}

/// Nobody computes for a reader that is gone.
#[tokio::test]
async fn a_statement_ends_when_its_reader_goes_away() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    // How much is computed in some time.
    let busy = async || {
        let before = rest.gateway.computed();
        tokio::time::sleep(Duration::from_millis(500)).await;
        rest.gateway.computed() - before
    };
    let stream = flight.client.clone().do_get(flight.request(statement_ticket(messages::ENDLESS))).await.unwrap();
    until("the statement computes", async || (busy().await >= 10).then_some(())).await;
    drop(stream);
    until("the statement has ended", async || (busy().await <= 5).then_some(())).await;
    assert!(flight.get(statement_ticket("SELECT 1")).await.is_ok());
}

#[tokio::test]
async fn flight_sql_can_be_off_or_elsewhere() {
    let gateway = Gateway::start_with("[flight]\nenabled = false\n");
    assert!(tokio::net::TcpStream::connect(gateway.flight_addr()).await.is_err());
    let gateway = Gateway::start_with("[flight]\nlisten = '127.0.0.1:0'\n");
    assert!(gateway.log().contains("flight_addr=Some("), "{}", gateway.log());
}
