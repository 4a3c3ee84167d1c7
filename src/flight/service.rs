//! The calls of Flight, each handed to what answers it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Command, DoPutPreparedStatementResult, DoPutUpdateResult};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaAsIpc, SchemaResult, Ticket,
};
use datafusion::scalar::ScalarValue;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use lancegate_engine::error::SqlError;
use prost::Message as _;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::caller::{Caller, open, who};
use super::command::{Asked, asked, ensure_no_transaction, text, ticket};
use super::error::{Result, ended, internal, invalid, status, unsupported};
use super::info::Bound;
use super::rows::{next_message, parameters, told, whole};
use super::statement::{Source, columns};
use super::{FlightShared, actions, info, ingest, metadata, prepared};

/// Answers the calls.
#[derive(Debug)]
pub(super) struct Service(pub(super) Arc<FlightShared>);

impl Service {
    /// Binds the statement of a command, `None` if it is about what is there.
    async fn bound(&self, caller: &Caller, command: &Command) -> Result<Option<Bound>> {
        match command {
            Command::CommandStatementQuery(query) => {
                let text = text(query.clone())?;
                bind(caller, text, Vec::new()).await.map(Some).map_err(|error| ended(&caller.ctx, &error))
            }
            Command::CommandPreparedStatementQuery(query) => {
                let found = self.0.prepared.get(&caller.owner, &query.prepared_statement_handle);
                let (_, prepared) = found.map_err(|error| status(&error))?;
                let columns = Arc::clone(&prepared.columns);
                Ok(Some((prepared.source.clone(), prepared.values.clone(), columns)))
            }
            Command::CommandStatementSubstraitPlan(_) => Err(unsupported("Substrait plans are not supported")),
            Command::CommandStatementUpdate(_)
            | Command::CommandPreparedStatementUpdate(_)
            | Command::CommandStatementIngest(_) => Err(invalid(format!("{} is sent with DoPut", command.type_url()))),
            other if metadata::schema(other).is_some() => Ok(None),
            other => Err(unsupported(format!("there is no command \"{}\"", other.type_url().escape_default()))),
        }
    }

    /// Returns the columns of a command's answer.
    async fn columns(&self, caller: &Caller, command: &Command) -> Result<SchemaRef> {
        match self.bound(caller, command).await? {
            Some((_, _, columns)) => Ok(columns),
            None => metadata::schema(command).ok_or_else(|| internal("a command has no columns")),
        }
    }
}

/// Binds a text, for which its columns are told before it runs.
async fn bind(caller: &Caller, text: String, values: Vec<ScalarValue>) -> Result<Bound, SqlError> {
    let source = Source::parse(&caller.engine, text).await?;
    let plan = caller.plan_with(&source, &values).await?;
    let columns = columns(&plan);
    Ok((source, values, columns))
}

/// Answers a command about what is there with a ticket that is the command.
fn listed(command: &Command, descriptor: FlightDescriptor) -> Result<FlightInfo> {
    let schema = metadata::schema(command).ok_or_else(|| internal("a command has no columns"))?;
    let ticket = Ticket { ticket: descriptor.cmd.clone() };
    let endpoint = FlightEndpoint { ticket: Some(ticket), ..FlightEndpoint::default() };
    let info = FlightInfo::new().with_descriptor(descriptor).with_endpoint(endpoint).try_with_schema(&schema);
    let mut info = info.map_err(internal)?;
    info.total_records = -1;
    info.total_bytes = -1;
    Ok(info)
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo>>;
    type DoGetStream = BoxStream<'static, Result<FlightData>>;
    type DoPutStream = BoxStream<'static, Result<PutResult>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData>>;
    type DoActionStream = BoxStream<'static, Result<ActionResult>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType>>;

    /// Answers with the credential of the calls that follow, as a header and as the payload.
    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>> {
        let who = who(&request)?.clone();
        let bearer = who.log_in(&self.0).await?;
        let token = bearer.split_once(' ').map_or(bearer.as_str(), |(_, token)| token).to_owned();
        let answer = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let mut response = Response::new(futures::stream::once(async move { Ok(answer) }).boxed());
        let value = MetadataValue::try_from(bearer).map_err(internal)?;
        response.metadata_mut().insert("authorization", value);
        Ok(response)
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>> {
        Err(unsupported("ListFlights is not supported; ask with a command of Flight SQL"))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>> {
        let caller = open(&self.0, &request).await?;
        let descriptor = request.into_inner();
        let Asked::Command(command) = asked(&descriptor)? else {
            return Err(invalid("the descriptor is one to poll with"));
        };
        let info = match self.bound(&caller, &command).await? {
            Some(bound) if bound.2.fields().is_empty() => info::ran(&self.0, caller, bound, descriptor).await?,
            Some(bound) => info::bound(&self.0, &caller, bound, descriptor).map_err(|error| status(&error))?,
            None => listed(&command, descriptor)?,
        };
        Ok(Response::new(info))
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<PollInfo>> {
        let caller = open(&self.0, &request).await?;
        let descriptor = request.into_inner();
        let command = match asked(&descriptor)? {
            Asked::Poll(handle) => {
                let owner = caller.owner.clone();
                return info::resume(&self.0, &owner, &handle).await.map(Response::new);
            }
            Asked::Command(command) => command,
        };
        match self.bound(&caller, &command).await? {
            Some(bound) => info::begin(&self.0, caller, bound).await.map(Response::new),
            None => Ok(Response::new(PollInfo { info: Some(listed(&command, descriptor)?), ..PollInfo::default() })),
        }
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>> {
        let caller = open(&self.0, &request).await?;
        let Asked::Command(command) = asked(&request.into_inner())? else {
            return Err(invalid("the descriptor is one to poll with"));
        };
        let columns = self.columns(&caller, &command).await?;
        let options = arrow::ipc::writer::IpcWriteOptions::default();
        let result = SchemaAsIpc::new(&told(&columns), &options).try_into();
        Ok(Response::new(result.map_err(internal)?))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>> {
        let mut caller = open(&self.0, &request).await?;
        let answer = match ticket(&request.into_inner())? {
            Command::TicketStatementQuery(ticket) => info::turn_in(&self.0, caller, &ticket.statement_handle)?,
            command => match self.bound(&caller, &command).await? {
                Some(bound) => info::stream(&self.0, caller, bound)?,
                None => {
                    let batch = metadata::answer(&mut caller, command).await;
                    whole(batch.map_err(|error| ended(&caller.ctx, &error))?)
                }
            },
        };
        Ok(Response::new(answer))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>> {
        let mut caller = open(&self.0, &request).await?;
        let ctx = caller.ctx.clone();
        let told = |error: SqlError| ended(&ctx, &error);
        let (first, rest) = begun(request.into_inner()).await?;
        let bytes_max = self.0.upload_bytes_max;
        let put = match command_of(&first)? {
            Command::CommandStatementUpdate(update) => {
                ensure_no_transaction(update.transaction_id.as_ref())?;
                let source = Source::parse(&caller.engine, update.query).await.map_err(told)?;
                updated(caller.update(&source, Vec::new()).await.map_err(told)?)
            }
            Command::CommandPreparedStatementUpdate(update) => {
                let found = self.0.prepared.get(&caller.owner, &update.prepared_statement_handle);
                let (_, prepared) = found.map_err(told)?;
                updated(prepared::update(&mut caller, &prepared, (first, rest), bytes_max).await.map_err(told)?)
            }
            Command::CommandPreparedStatementQuery(query) => {
                let found = self.0.prepared.get(&caller.owner, &query.prepared_statement_handle).map_err(told)?;
                prepared::bind(&caller, &self.0.prepared, found, (first, rest)).await.map_err(told)?;
                let handle = Some(query.prepared_statement_handle);
                DoPutPreparedStatementResult { prepared_statement_handle: handle }.encode_to_vec()
            }
            Command::CommandStatementIngest(command) => {
                ensure_no_transaction(command.transaction_id.as_ref())?;
                updated(ingest::run(&mut caller, command, (first, rest), bytes_max).await.map_err(told)?)
            }
            Command::CommandStatementSubstraitPlan(_) => return Err(unsupported("Substrait plans are not supported")),
            other => {
                return Err(unsupported(format!("rows cannot be put for \"{}\"", other.type_url().escape_default())));
            }
        };
        let result = PutResult { app_metadata: put.into() };
        Ok(Response::new(futures::stream::once(async move { Ok(result) }).boxed()))
    }

    /// A query with the values of its parameters, as LanceDB's client (0.41) sends it.
    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>> {
        let caller = open(&self.0, &request).await?;
        let (first, rest) = begun(request.into_inner()).await?;
        let Command::CommandStatementQuery(query) = command_of(&first)? else {
            return Err(unsupported("DoExchange takes a CommandStatementQuery with one row of parameters"));
        };
        let text = text(query)?;
        let bound = async { bind(&caller, text, parameters(first, rest).await?).await };
        let bound = bound.await.map_err(|error| ended(&caller.ctx, &error))?;
        Ok(Response::new(info::stream(&self.0, caller, bound)?))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>> {
        let caller = open(&self.0, &request).await?;
        let who = who(&request)?.clone();
        let answer = actions::act(&self.0, &caller, &who, request.into_inner()).await?;
        let results = answer.bodies.into_iter().map(|body| Ok(ActionResult { body }));
        let mut response = Response::new(futures::stream::iter(results).boxed());
        if let Some(cookie) = answer.cookie {
            response.metadata_mut().insert("set-cookie", MetadataValue::try_from(cookie).map_err(internal)?);
        }
        Ok(response)
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>> {
        Ok(Response::new(futures::stream::iter(actions::list().map(Ok::<_, Status>)).boxed()))
    }
}

/// Waits for the first message of a client, which says what it is about.
async fn begun(mut messages: Streaming<FlightData>) -> Result<(FlightData, Streaming<FlightData>)> {
    let first = next_message(&mut messages).await.map_err(|error| status(&error))?;
    let first = first.ok_or_else(|| invalid("there is no message"))?;
    Ok((first, messages))
}

fn command_of(first: &FlightData) -> Result<Command> {
    let descriptor = first.flight_descriptor.as_ref();
    match asked(descriptor.ok_or_else(|| invalid("the first message has no descriptor"))?)? {
        Asked::Command(command) => Ok(command),
        Asked::Poll(_) => Err(invalid("the descriptor is one to poll with")),
    }
}

fn updated(record_count: i64) -> Vec<u8> {
    DoPutUpdateResult { record_count }.encode_to_vec()
}
