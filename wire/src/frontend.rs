//! The messages of a client, and the decoding of their bodies.

mod reader;

use std::fmt;

use bytes::Bytes;

use crate::error::{WireError, protocol};
pub(crate) use reader::Reader;

/// A prepared statement or a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Prepared statement (`S`).
    Statement,
    /// Portal (`P`).
    Portal,
}

/// A message of a client, checked.
#[derive(Clone, PartialEq)]
pub enum FrontendMessage {
    /// Simple query.
    Query(String),
    /// Prepares a statement.
    Parse {
        /// Statement name, empty for the unnamed one.
        name: String,
        /// One statement.
        sql: String,
        /// Declared parameter types; 0 means unspecified.
        parameter_types: Vec<u32>,
    },
    /// Makes a portal of a statement.
    Bind {
        /// Portal name, empty for the unnamed one.
        portal: String,
        /// Statement name.
        statement: String,
        /// None, one for all, or one per parameter.
        parameter_formats: Vec<i16>,
        /// Values; `None` is NULL.
        parameters: Vec<Option<Bytes>>,
        /// None, one for all, or one per column.
        result_formats: Vec<i16>,
    },
    /// Asks for the types of a statement or portal.
    Describe {
        /// Which of the two.
        target: Target,
        /// Its name.
        name: String,
    },
    /// Runs a portal.
    Execute {
        /// Portal name.
        portal: String,
        /// Rows until the portal is suspended; zero or less means all.
        max_rows: i32,
    },
    /// Closes a statement or portal.
    Close {
        /// Which of the two.
        target: Target,
        /// Its name.
        name: String,
    },
    /// Asks for pending output.
    Flush,
    /// Ends an extended-query sequence.
    Sync,
    /// Ends the session.
    Terminate,
    /// COPY data; need not end at a row.
    CopyData(Bytes),
    /// End of COPY data.
    CopyDone,
    /// COPY is given up, with the client's reason.
    CopyFail(String),
    /// Password, SASL or GSSAPI answer; its meaning depends on the state.
    Password(Bytes),
    /// The obsolete function call; only its framing is checked.
    FunctionCall,
}

/// Texts, values and passwords do not print; only how long they are.
impl fmt::Debug for FrontendMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(sql) => f.debug_tuple("Query").field(&sql.len()).finish(),
            Self::Parse { name, sql, parameter_types } => f
                .debug_struct("Parse")
                .field("name", name)
                .field("sql", &sql.len())
                .field("parameter_types", parameter_types)
                .finish(),
            Self::Bind { portal, statement, parameter_formats, parameters, result_formats } => f
                .debug_struct("Bind")
                .field("portal", portal)
                .field("statement", statement)
                .field("parameter_formats", parameter_formats)
                .field("parameters", &parameters.len())
                .field("result_formats", result_formats)
                .finish(),
            Self::Describe { target, name } => {
                f.debug_struct("Describe").field("target", target).field("name", name).finish()
            }
            Self::Execute { portal, max_rows } => {
                f.debug_struct("Execute").field("portal", portal).field("max_rows", max_rows).finish()
            }
            Self::Close { target, name } => {
                f.debug_struct("Close").field("target", target).field("name", name).finish()
            }
            Self::Flush => f.write_str("Flush"),
            Self::Sync => f.write_str("Sync"),
            Self::Terminate => f.write_str("Terminate"),
            Self::CopyData(data) => f.debug_tuple("CopyData").field(&data.len()).finish(),
            Self::CopyDone => f.write_str("CopyDone"),
            Self::CopyFail(reason) => f.debug_tuple("CopyFail").field(&reason.len()).finish(),
            Self::Password(body) => f.debug_tuple("Password").field(&body.len()).finish(),
            Self::FunctionCall => f.write_str("FunctionCall"),
        }
    }
}

/// The first SASL answer, a body of [`FrontendMessage::Password`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslInitialResponse {
    /// Mechanism the client chose.
    pub mechanism: String,
    /// Its first message, if it sent one.
    pub data: Option<Bytes>,
}

impl SaslInitialResponse {
    /// Decodes a password body as SASLInitialResponse.
    ///
    /// # Errors
    ///
    /// [`WireError::Protocol`] if a length does not match the body,
    /// [`WireError::MessageText`] if the mechanism is not UTF-8.
    pub fn decode(body: &Bytes) -> Result<Self, WireError> {
        let mut reader = Reader::new(b'p', body.clone());
        let mechanism = reader.cstring()?;
        let data = reader.value()?;
        reader.finish()?;
        Ok(Self { mechanism, data })
    }
}

/// Decodes a PasswordMessage body: exactly one zero-terminated string.
///
/// # Errors
///
/// As [`SaslInitialResponse::decode`].
pub fn decode_cleartext_password(body: &Bytes) -> Result<String, WireError> {
    let mut reader = Reader::new(b'p', body.clone());
    let password = reader.cstring()?;
    reader.finish()?;
    Ok(password)
}

/// Decodes the body of a message that was already cut to its length.
pub(crate) fn decode_body(message_type: u8, body: Bytes) -> Result<FrontendMessage, WireError> {
    let mut reader = Reader::new(message_type, body);
    let message = match message_type {
        b'Q' => FrontendMessage::Query(reader.cstring()?),
        b'P' => decode_parse(&mut reader)?,
        b'B' => decode_bind(&mut reader)?,
        b'D' => FrontendMessage::Describe { target: decode_target(&mut reader)?, name: reader.cstring()? },
        b'C' => FrontendMessage::Close { target: decode_target(&mut reader)?, name: reader.cstring()? },
        b'E' => FrontendMessage::Execute { portal: reader.cstring()?, max_rows: reader.i32()? },
        b'H' => FrontendMessage::Flush,
        b'S' => FrontendMessage::Sync,
        b'X' => FrontendMessage::Terminate,
        b'd' => FrontendMessage::CopyData(reader.rest()),
        b'c' => FrontendMessage::CopyDone,
        b'f' => FrontendMessage::CopyFail(reader.cstring()?),
        b'p' => FrontendMessage::Password(reader.rest()),
        b'F' => {
            reader.rest();
            FrontendMessage::FunctionCall
        }
        _ => {
            return Err(protocol(format!("invalid frontend message type {message_type}")));
        }
    };
    reader.finish()?;
    Ok(message)
}

fn decode_target(reader: &mut Reader) -> Result<Target, WireError> {
    match reader.u8()? {
        b'S' => Ok(Target::Statement),
        b'P' => Ok(Target::Portal),
        other => Err(protocol(format!("invalid {} subtype {other}", reader.message_name()))),
    }
}

fn decode_parse(reader: &mut Reader) -> Result<FrontendMessage, WireError> {
    let name = reader.cstring()?;
    let sql = reader.cstring()?;
    let count = reader.count(4)?;
    let parameter_types = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
    Ok(FrontendMessage::Parse { name, sql, parameter_types })
}

fn decode_bind(reader: &mut Reader) -> Result<FrontendMessage, WireError> {
    let portal = reader.cstring()?;
    let statement = reader.cstring()?;
    let parameter_formats = decode_formats(reader)?;
    let count = reader.count(4)?;
    if parameter_formats.len() > 1 && parameter_formats.len() != count {
        return Err(protocol(format!(
            "bind message has {} parameter formats but {count} parameters",
            parameter_formats.len()
        )));
    }
    let parameters = (0..count).map(|_| reader.value()).collect::<Result<_, _>>()?;
    let result_formats = decode_formats(reader)?;
    Ok(FrontendMessage::Bind { portal, statement, parameter_formats, parameters, result_formats })
}

fn decode_formats(reader: &mut Reader) -> Result<Vec<i16>, WireError> {
    let count = reader.count(2)?;
    (0..count).map(|_| reader.i16()).collect()
}
