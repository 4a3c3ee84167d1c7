//! Whether a value is what a schema says, for as much of JSON Schema as the document uses.
//! A word that is not known here fails, so that nothing goes unchecked.

use serde_json::Value;

/// The words that say nothing about a value.
const NOTES: [&str; 6] = ["title", "description", "default", "format", "$schema", "writeOnly"];

/// The schemas of a document.
pub(super) struct Schemas<'a> {
    named: &'a Value,
    /// Whether a field that no schema names is wrong.
    closed: bool,
}

impl<'a> Schemas<'a> {
    pub(super) fn of(document: &'a Value) -> Self {
        Self { named: &document["components"]["schemas"], closed: false }
    }

    /// Checks an answer, all of whose fields have to be in the document: an object has no others than its schema
    /// names, unless that says what others are.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub(super) fn check_answer(&self, schema: &Value, value: &Value) -> Result<(), String> {
        Self { named: self.named, closed: true }.check(schema, value)
    }

    fn ensure_documented(words: &serde_json::Map<String, Value>, value: &Value) -> Result<(), String> {
        let is_open = words.contains_key("additionalProperties");
        let is_object = words.contains_key("properties") || words.get("type").is_some_and(|one| *one == "object");
        let Value::Object(fields) = value else { return Ok(()) };
        let known = words.get("properties").and_then(Value::as_object);
        let mut unknown = fields.keys().filter(|name| known.is_none_or(|known| !known.contains_key(*name)));
        match unknown.next() {
            Some(name) if is_object && !is_open => Err(format!("{name} is not in the document")),
            _ => Ok(()),
        }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub(super) fn check(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let Value::Object(words) = schema else {
            return if *schema == Value::Bool(true) { Ok(()) } else { Err(format!("{value} may not be there")) };
        };
        if self.closed {
            Self::ensure_documented(words, value)?;
        }
        for (word, said) in words {
            match word.as_str() {
                "$ref" => {
                    let name = said.as_str().unwrap().rsplit('/').next().unwrap();
                    let found = self.named.get(name).unwrap_or_else(|| panic!("there is no schema {name}"));
                    self.check(found, value)?;
                }
                "type" => ensure(is_one_of(said, value), || format!("{value} is not {said}"))?,
                "enum" => ensure(said.as_array().unwrap().contains(value), || format!("{value} is not one of {said}"))?,
                "const" => ensure(said == value, || format!("{value} is not {said}"))?,
                "anyOf" | "oneOf" => {
                    let fits = said.as_array().unwrap().iter().any(|one| self.check(one, value).is_ok());
                    ensure(fits, || format!("{value} is none of {said}"))?;
                }
                "properties" => {
                    let Value::Object(fields) = value else { continue };
                    for (name, field) in fields {
                        if let Some(schema) = said.get(name) {
                            self.check(schema, field).map_err(|why| format!("{name}: {why}"))?;
                        }
                    }
                }
                "required" => {
                    let Value::Object(fields) = value else { continue };
                    for name in said.as_array().unwrap() {
                        ensure(fields.contains_key(name.as_str().unwrap()), || format!("{name} is missing"))?;
                    }
                }
                "additionalProperties" => {
                    let Value::Object(fields) = value else { continue };
                    let known = words.get("properties").and_then(Value::as_object);
                    for (name, field) in fields {
                        if known.is_none_or(|known| !known.contains_key(name)) {
                            self.check(said, field).map_err(|why| format!("{name}: {why}"))?;
                        }
                    }
                }
                "items" => {
                    let from = words.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                    for item in value.as_array().into_iter().flatten().skip(from) {
                        self.check(said, item)?;
                    }
                }
                "prefixItems" => {
                    for (one, item) in said.as_array().unwrap().iter().zip(value.as_array().into_iter().flatten()) {
                        self.check(one, item)?;
                    }
                }
                "minItems" => bound(value.as_array().map(Vec::len), |length| length as u64 >= said.as_u64().unwrap())?,
                "maxItems" => bound(value.as_array().map(Vec::len), |length| length as u64 <= said.as_u64().unwrap())?,
                "minimum" => bound(value.as_f64(), |number| number >= said.as_f64().unwrap())?,
                "maximum" => bound(value.as_f64(), |number| number <= said.as_f64().unwrap())?,
                note if NOTES.contains(&note) => {}
                unknown => panic!("the word {unknown} of a schema is not known here"),
            }
        }
        Ok(())
    }
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

fn bound<T: std::fmt::Debug + Copy>(value: Option<T>, holds: impl FnOnce(T) -> bool) -> Result<(), String> {
    match value {
        Some(value) => ensure(holds(value), || format!("{value:?} is out of its bounds")),
        None => Ok(()),
    }
}

fn is_one_of(types: &Value, value: &Value) -> bool {
    match types {
        Value::Array(types) => types.iter().any(|one| is(one.as_str().unwrap(), value)),
        one => is(one.as_str().unwrap(), value),
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

#[test]
fn the_checker_finds_what_is_wrong() {
    use serde_json::json;

    let document = json!({ "components": { "schemas": {
        "A": { "type": "object", "properties": { "n": { "type": ["integer", "null"], "minimum": 0 } },
               "required": ["n"], "additionalProperties": false },
    } } });
    let schemas = Schemas::of(&document);
    let a = json!({ "$ref": "#/components/schemas/A" });
    for good in [json!({ "n": 1 }), json!({ "n": null })] {
        schemas.check(&a, &good).unwrap();
    }
    for bad in
        [json!({}), json!({ "n": -1 }), json!({ "n": 1.5 }), json!({ "n": "1" }), json!({ "n": 1, "m": 1 }), json!([])]
    {
        assert!(schemas.check(&a, &bad).is_err(), "{bad}");
    }
    // What a request may have beside its fields, an answer may not.
    let open = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let (known, more) = (json!({ "n": 1 }), json!({ "n": 1, "m": 1 }));
    schemas.check(&open, &more).unwrap();
    schemas.check_answer(&open, &known).unwrap();
    assert!(schemas.check_answer(&open, &more).is_err());
    let nested = json!({ "type": "array", "items": { "anyOf": [{ "type": "null" }, open] } });
    schemas.check_answer(&nested, &json!([null, known])).unwrap();
    assert!(schemas.check_answer(&nested, &json!([more])).is_err());
    let nothing = json!({ "type": "object" });
    schemas.check_answer(&nothing, &json!({})).unwrap();
    assert!(schemas.check_answer(&nothing, &more).is_err());
    schemas.check_answer(&json!({ "type": "object", "additionalProperties": true }), &more).unwrap();
    let pair = json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "string" }], "maxItems": 2 });
    schemas.check(&pair, &json!(["a", "b"])).unwrap();
    assert!(schemas.check(&pair, &json!(["a", 1])).is_err() && schemas.check(&pair, &json!(["a", "b", "c"])).is_err());
}
