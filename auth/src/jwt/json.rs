//! JSON objects in which no name stands twice: readers differ in which one they
//! take.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The members of an object.
pub(super) type Object = Map<String, Value>;

/// Reads an object; `None` if the bytes are something else.
pub(super) fn object(bytes: &[u8]) -> Option<Object> {
    // The reader has a limit of its own on nesting.
    match serde_json::from_slice::<Strict>(bytes).ok()?.0 {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// A value whose objects repeat no name.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(Strict(value)) = elements.next_element()? {
            read.push(value);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Object::new();
        while let Some((name, Strict(value))) = members.next_entry::<String, Strict>()? {
            if read.insert(name, value).is_some() {
                return Err(A::Error::custom("a name stands twice"));
            }
        }
        Ok(Value::Object(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a07_a_name_stands_once_at_every_depth() {
        assert!(object(br#"{"a": 1, "b": {"a": [null, true, "x", -1, 1.5]}}"#).is_some());
        for refused in [
            &br#"{"a": 1, "a": 1}"#[..],
            br#"{"a": 1, "\u0061": 2}"#,
            br#"{"b": {"a": 1, "a": 2}}"#,
            br#"{"b": [{"a": 1, "a": 2}]}"#,
            br#"[]"#,
            br#"{} {}"#,
            br#"{"a": 1e400}"#,
            b"{\"a\": \"\xff\"}",
            b"",
        ] {
            assert!(object(refused).is_none(), "{}", String::from_utf8_lossy(refused));
        }
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(1000), "]".repeat(1000));
        assert!(object(deep.as_bytes()).is_none());
    }
}
