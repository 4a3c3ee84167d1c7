//! `DoAction`: prepared statements, cancels, sessions.

use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, Any, ProstMessageExt,
};
use arrow_flight::{Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo};
use bytes::Bytes;
use prost::Message;

use super::FlightShared;
use super::caller::{Authenticated, Caller};
use super::command::{ensure_no_transaction, handle_of};
use super::error::{Result, invalid, status, unsupported};
use super::logins::{COOKIE, Login, Options};
use super::session_options::{
    CANCELLED, CANCELLING, CLOSED, CloseResult, INVALID_NAME, INVALID_VALUE, NOT_CLOSEABLE, OptionValue,
    SessionOptions, SetError, SetResult, Value,
};
use super::{info, prepared};

/// The longest name of a schema that a session keeps.
const SCHEMA_BYTES_MAX: usize = 8 << 10;

/// What is answered, and what it is.
const ACTIONS: [(&str, &str); 7] = [
    ("CreatePreparedStatement", "Binds a statement and keeps it. ActionCreatePreparedStatementRequest."),
    ("ClosePreparedStatement", "Forgets a prepared statement. ActionClosePreparedStatementRequest."),
    ("CancelFlightInfo", "Ends the statement of a FlightInfo. CancelFlightInfoRequest."),
    ("CancelQuery", "The same, in the older form. ActionCancelQueryRequest."),
    ("SetSessionOptions", "Sets catalog and schema for the calls that follow. SetSessionOptionsRequest."),
    ("GetSessionOptions", "Tells them. GetSessionOptionsRequest."),
    ("CloseSession", "Forgets them, and a login. CloseSessionRequest."),
];

/// An answer: the bodies of its results, and a cookie to be set.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) bodies: Vec<Bytes>,
    pub(super) cookie: Option<String>,
}

impl Answer {
    fn of(message: &impl Message) -> Self {
        Self { bodies: vec![message.encode_to_vec().into()], cookie: None }
    }
}

/// Returns the actions that there are.
pub(super) fn list() -> impl Iterator<Item = ActionType> + Send + 'static {
    ACTIONS.iter().map(|(name, text)| ActionType { r#type: (*name).to_owned(), description: (*text).to_owned() })
}

/// Does an action.
///
/// # Errors
/// UNIMPLEMENTED for one that is not served, and what the action itself answers.
pub(super) async fn act(shared: &FlightShared, caller: &Caller, who: &Authenticated, action: Action) -> Result<Answer> {
    match action.r#type.as_str() {
        "CreatePreparedStatement" => {
            let request: ActionCreatePreparedStatementRequest = packed(&action)?;
            ensure_no_transaction(request.transaction_id.as_ref())?;
            let created = prepared::create(caller, &shared.prepared, request).await;
            Ok(Answer::of(&created.map_err(|error| status(&error))?.as_any()))
        }
        "ClosePreparedStatement" => {
            let request: ActionClosePreparedStatementRequest = packed(&action)?;
            // Closing what has expired is no error: clients close everything at their end.
            drop(shared.prepared.remove(&caller.owner, &request.prepared_statement_handle));
            Ok(Answer::default())
        }
        "CancelFlightInfo" => {
            let request: CancelFlightInfoRequest = read(&plain(&action, "CancelFlightInfoRequest"))?;
            let over = cancel(shared, caller, request.info.as_ref()).await?;
            let told = if over { CancelStatus::Cancelled } else { CancelStatus::Cancelling };
            Ok(Answer::of(&CancelFlightInfoResult { status: told.into() }))
        }
        "CancelQuery" => {
            let request: ActionCancelQueryRequest = packed(&action)?;
            let info: FlightInfo = read(&request.info)?;
            let over = cancel(shared, caller, Some(&info)).await?;
            let result = ActionCancelQueryResult { result: if over { CANCELLED } else { CANCELLING } };
            Ok(Answer::of(&result.as_any()))
        }
        "SetSessionOptions" => {
            let request: SessionOptions = read(&plain(&action, "SetSessionOptionsRequest"))?;
            set_options(shared, caller, who, request).await
        }
        "GetSessionOptions" => {
            let Options { catalog, schema } = who.options.clone();
            let options = [("catalog", catalog), ("schema", schema)].into_iter();
            let told = options.filter_map(|(name, value)| {
                let value = Some(Value::Text(value?));
                Some((name.to_owned(), OptionValue { value }))
            });
            Ok(Answer::of(&SessionOptions { options: told.collect() }))
        }
        "CloseSession" => {
            let closed = who.session.inspect(|id| shared.logins.remove(*id));
            Ok(Answer::of(&CloseResult { status: if closed.is_some() { CLOSED } else { NOT_CLOSEABLE } }))
        }
        "BeginTransaction" | "EndTransaction" | "BeginSavepoint" | "EndSavepoint" => {
            Err(unsupported("transactions are not supported over Flight SQL"))
        }
        "CreatePreparedSubstraitPlan" => Err(unsupported("Substrait plans are not supported")),
        "RenewFlightEndpoint" => Err(unsupported("an endpoint is kept by polling; renewing it is not supported")),
        other => Err(unsupported(format!("there is no action \"{}\"", other.escape_default()))),
    }
}

async fn cancel(shared: &FlightShared, caller: &Caller, asked: Option<&FlightInfo>) -> Result<bool> {
    let handle = asked.and_then(handle_of).ok_or_else(|| invalid("the FlightInfo has no ticket of a statement"))?;
    info::cancel(shared, &caller.owner, &handle).await
}

/// Sets what it can and says what it cannot.
async fn set_options(
    shared: &FlightShared,
    caller: &Caller,
    who: &Authenticated,
    request: SessionOptions,
) -> Result<Answer> {
    let mut options = who.options.clone();
    let mut errors = std::collections::HashMap::new();
    for (name, OptionValue { value }) in request.options {
        let set = match value {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(_) => Err(INVALID_VALUE),
        };
        let done = match (name.as_str(), set) {
            ("catalog", Ok(Some(catalog))) => match caller.engine.catalog().database(&catalog).await {
                Ok(None) => Err(INVALID_VALUE),
                Ok(Some(_)) => {
                    options.catalog = Some(catalog);
                    Ok(())
                }
                Err(error) => return Err(status(&error.into())),
            },
            ("catalog", Ok(None)) => {
                options.catalog = None;
                Ok(())
            }
            ("schema", Ok(Some(schema))) if schema.len() > SCHEMA_BYTES_MAX => Err(INVALID_VALUE),
            ("schema", Ok(schema)) => {
                options.schema = schema;
                Ok(())
            }
            ("catalog" | "schema", Err(code)) => Err(code),
            _ => Err(INVALID_NAME),
        };
        if let Err(value) = done {
            errors.insert(name, SetError { value });
        }
    }
    let mut answer = Answer::of(&SetResult { errors });
    let id = match who.session {
        Some(id) => id,
        None => {
            let login = Login::new(who.principal.user.clone(), None);
            let id = shared.logins.insert(login).map_err(|error| status(&error))?;
            answer.cookie = Some(format!("{COOKIE}={}; Path=/; HttpOnly", id.text()));
            id
        }
    };
    shared.logins.set(id, options);
    Ok(answer)
}

/// Reads a body that is packed into an `Any`, as those of Flight SQL are.
fn packed<M: ProstMessageExt>(action: &Action) -> Result<M> {
    let any: Any = read(&action.body)?;
    let unpacked = any.unpack().map_err(|error| invalid(error.to_string()))?;
    unpacked.ok_or_else(|| invalid(format!("the body of the action is not {}", M::type_url())))
}

/// Returns a body that is not packed, as those of Flight are; some clients pack it nevertheless.
fn plain(action: &Action, name: &str) -> Bytes {
    match Any::decode(action.body.as_ref()) {
        Ok(any) if any.type_url.ends_with(name) => any.value,
        _ => action.body.clone(),
    }
}

fn read<M: Message + Default>(bytes: &Bytes) -> Result<M> {
    M::decode(bytes.as_ref()).map_err(|error| invalid(format!("the body of the action cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_packed_and_plain() {
        let request = CancelFlightInfoRequest { info: Some(FlightInfo::new().with_app_metadata("x")) };
        let plain_body = request.encode_to_vec();
        let url = "type.googleapis.com/arrow.flight.protocol.CancelFlightInfoRequest";
        let packed = Any { type_url: url.to_owned(), value: plain_body.clone().into() }.encode_to_vec();
        for body in [plain_body, packed] {
            let action = Action { r#type: "CancelFlightInfo".to_owned(), body: body.into() };
            let found: CancelFlightInfoRequest = read(&plain(&action, "CancelFlightInfoRequest")).unwrap();
            assert_eq!(found, request);
        }
        let bad = Action { r#type: String::new(), body: Bytes::from_static(b"\xff\xff") };
        assert!(super::packed::<ActionCancelQueryRequest>(&bad).is_err());
    }
}
