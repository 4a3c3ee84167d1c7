//! JSON in which an object is an object. serde takes an array, too, for the fields of a struct in their order, which the
//! document of the routes does not say.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value};

/// Reads a struct.
///
/// # Errors
/// If the fields are not those of the struct, or one of their structs is an array.
pub(super) fn from_fields<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Error> {
    T::deserialize(Strict(Value::Object(fields)))
}

struct Strict(Value);

impl IntoDeserializer<'_, Error> for Strict {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Strict {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(values) => {
                let mut rest = SeqDeserializer::new(values.into_iter().map(Strict));
                let read = visitor.visit_seq(&mut rest)?;
                rest.end()?;
                Ok(read)
            }
            Value::Object(fields) => {
                let mut rest = MapDeserializer::new(fields.into_iter().map(|(name, value)| (name, Strict(value))));
                let read = visitor.visit_map(&mut rest)?;
                rest.end()?;
                Ok(read)
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.0.is_array() {
            return Err(Error::invalid_type(Unexpected::Seq, &"an object"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        x: Option<f32>,
        words: Vec<String>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Outer {
        inner: Inner,
        #[serde(default)]
        list: Vec<Inner>,
        pair: Option<(u8, i64)>,
    }

    fn read(value: Value) -> Result<Outer, String> {
        let Value::Object(fields) = value else { panic!("an object is given") };
        from_fields(fields).map_err(|error| error.to_string())
    }

    #[test]
    fn r02_an_array_is_no_object_wherever_it_is() {
        let inner = json!({ "x": 1, "words": ["a"] });
        let read_inner = || Inner { x: Some(1.0), words: vec!["a".to_owned()] };
        let given = json!({ "inner": inner, "list": [inner], "pair": [1, -2], "more": [{}] });
        let expected = Outer { inner: read_inner(), list: vec![read_inner()], pair: Some((1, -2)) };
        assert_eq!(read(given), Ok(expected));
        for wrong in [json!({ "inner": [null, []] }), json!({ "inner": inner, "list": [[1, ["a"]]] })] {
            assert_eq!(read(wrong), Err("invalid type: sequence, expected an object".to_owned()));
        }
        assert!(read(json!({ "inner": inner, "pair": [1, 2, 3] })).is_err());
        assert!(read(json!({ "inner": { "x": "1", "words": [] } })).is_err());
    }
}
