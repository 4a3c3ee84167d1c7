//! The messages about sessions (Flight.proto, `SetSessionOptions` and its kin), which the
//! generated code does not have.

use std::collections::HashMap;

/// `SessionOptionValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OptionValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    pub(super) value: Option<Value>,
}

/// `SessionOptionValue.option_value`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(sfixed64, tag = "3")]
    Number(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Texts(Texts),
}

/// `SessionOptionValue.StringListValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Texts {
    #[prost(string, repeated, tag = "1")]
    pub(super) values: Vec<String>,
}

/// `SetSessionOptionsRequest` and `GetSessionOptionsResult`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SessionOptions {
    #[prost(map = "string, message", tag = "1")]
    pub(super) options: HashMap<String, OptionValue>,
}

/// `SetSessionOptionsResult`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SetResult {
    #[prost(map = "string, message", tag = "1")]
    pub(super) errors: HashMap<String, SetError>,
}

/// `SetSessionOptionsResult.Error`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SetError {
    #[prost(int32, tag = "1")]
    pub(super) value: i32,
}

/// `SetSessionOptionsResult.ErrorValue.INVALID_NAME`.
pub(super) const INVALID_NAME: i32 = 1;
/// `SetSessionOptionsResult.ErrorValue.INVALID_VALUE`.
pub(super) const INVALID_VALUE: i32 = 2;

/// `CloseSessionResult`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CloseResult {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}

/// `CloseSessionResult.Status.CLOSED`.
pub(super) const CLOSED: i32 = 1;
/// `CloseSessionResult.Status.NOT_CLOSEABLE`.
pub(super) const NOT_CLOSEABLE: i32 = 3;

/// `ActionCancelQueryResult`, whose values the generated code keeps to itself.
pub(super) const CANCELLED: i32 = 1;
/// `CANCEL_RESULT_CANCELLING`.
pub(super) const CANCELLING: i32 = 2;

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_map_of_options_is_read_as_the_specification_lays_it_out() {
        // session_options { key: "catalog" value { string_value: "d" } }
        let bytes = b"\x0a\x0e\x0a\x07catalog\x12\x03\x0a\x01d";
        let read = SessionOptions::decode(&bytes[..]).unwrap();
        let value = Some(Value::Text("d".to_owned()));
        assert_eq!(read.options, HashMap::from([("catalog".to_owned(), OptionValue { value })]));
        assert_eq!(CloseResult { status: CLOSED }.encode_to_vec(), b"\x08\x01");
    }
}
