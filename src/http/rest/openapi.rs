//! The document that describes the API (OpenAPI 3.1), made from what is registered.
//!
//! A route is registered with its handler, and the types of the handler's arguments say
//! what a request has: [`Part`] is what each kind of argument adds. What an answer has is
//! a type that is named beside the handler. So a route, a field or a parameter that is not
//! in the document does not exist, and one that is in it does.

use axum::extract::{Extension, OriginalUri, Path, Query, RawQuery, Request, State};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::answers::ErrorAnswer;
use super::batches::STREAM;
use super::caller::Caller;
use super::request::{Body, BodyWithId, Id, Page, PageOf};

/// Where the document is.
pub(in crate::http) const PATH: &str = "/v1/openapi.json";

/// The version of the specification.
const OPENAPI: &str = "3.1.0";
/// Where the types are in the document.
const SCHEMAS: &str = "/components/schemas";

/// Makes the schema of a type.
type Shape = fn(&mut SchemaGenerator) -> Schema;

/// What a route answers, said where it is registered.
#[derive(Debug, Clone)]
pub(in crate::http) struct Doc {
    summary: &'static str,
    statuses: &'static [u16],
    answer: Answer,
    query: Option<Shape>,
    body: Option<Shape>,
    example: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Json(Shape),
    Rows,
    Text,
    Refused,
}

fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Doc {
    fn new(summary: &'static str, answer: Answer) -> Self {
        Self { summary, statuses: &[200], answer, query: None, body: None, example: None }
    }

    /// An answer in JSON.
    pub(in crate::http) fn json<T: JsonSchema>(summary: &'static str) -> Self {
        Self::new(summary, Answer::Json(shape::<T>))
    }

    /// An answer that is an Arrow stream.
    pub(super) fn rows(summary: &'static str) -> Self {
        Self::new(summary, Answer::Rows)
    }

    /// An answer that is text.
    pub(in crate::http) fn text(summary: &'static str) -> Self {
        Self::new(summary, Answer::Text)
    }

    /// A route that refuses every request.
    pub(super) fn refused(summary: &'static str) -> Self {
        Self { statuses: &[], ..Self::new(summary, Answer::Refused) }
    }

    /// The statuses of answers that are no error, if they are others than 200.
    pub(super) fn with(self, statuses: &'static [u16]) -> Self {
        Self { statuses, ..self }
    }

    /// Parameters that the handler reads by itself.
    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(shape::<T>), ..self }
    }

    /// A JSON body that the handler reads by itself.
    pub(super) fn body<T: JsonSchema>(self) -> Self {
        Self { body: Some(shape::<T>), ..self }
    }

    /// A body that makes sense; `{}` unless said.
    pub(super) fn example(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }
}

/// What the arguments of a handler say about its requests.
#[derive(Debug, Default)]
pub(in crate::http) struct Operation {
    parameters: Vec<Value>,
    json: Option<Value>,
    rows: bool,
    authenticated: bool,
}

/// An argument of a handler.
pub(in crate::http) trait Part {
    /// Adds what it reads of a request.
    fn describe(operation: &mut Operation, generator: &mut SchemaGenerator);
}

impl Part for Caller {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.authenticated = true;
        let header = |name: &str, schema: Value, text: &str| json!({ "name": name, "in": "header", "required": false, "schema": schema, "description": text });
        operation.parameters.extend([
            header("x-lancedb-database", json!({ "type": "string" }), "The database; `lancegate` if it is not given."),
            header("x-request-timeout-ms", json!({ "type": "integer", "minimum": 0 }), "How long the client waits."),
            header(
                "idempotency-key",
                json!({ "type": "string", "minLength": 1, "maxLength": 256 }),
                "Makes a repeated request the same one.",
            ),
        ]);
    }
}

impl Part for Id {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.parameters.push(json!({
            "name": "delimiter", "in": "query", "required": false, "schema": { "type": "string", "default": "$" },
            "description": "What joins the components of the id.",
        }));
    }
}

impl<T: JsonSchema> Part for Body<T> {
    fn describe(operation: &mut Operation, generator: &mut SchemaGenerator) {
        operation.json = Some(body(shape::<T>(generator), generator));
    }
}

impl<T: JsonSchema> Part for BodyWithId<T> {
    fn describe(operation: &mut Operation, generator: &mut SchemaGenerator) {
        operation.json = Some(body(shape::<T>(generator), generator));
    }
}

impl<T: JsonSchema> Part for Query<T> {
    fn describe(operation: &mut Operation, generator: &mut SchemaGenerator) {
        operation.parameters.extend(parameters(shape::<T>, generator));
    }
}

impl Part for PageOf {
    fn describe(operation: &mut Operation, generator: &mut SchemaGenerator) {
        operation.parameters.extend(parameters(shape::<Page>, generator));
    }
}

/// The rest of the request: rows, unless the handler says otherwise.
impl Part for Request {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.rows = true;
    }
}

/// The names in a path are in its text.
impl<T> Part for Path<T> {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

impl<T> Part for State<T> {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

impl<T> Part for Extension<T> {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

impl Part for OriginalUri {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

/// What the handler reads of it is said by [`Doc::query`].
impl Part for RawQuery {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

/// The arguments of a handler, as axum tells handlers apart.
pub(in crate::http) trait Signature {
    /// Adds what all of them read.
    fn describe(operation: &mut Operation, generator: &mut SchemaGenerator);
}

macro_rules! signatures {
    ($(($($part:ident),*);)*) => {
        $(impl<M, $($part: Part),*> Signature for (M, $($part,)*) {
            #[allow(unused_variables, reason = "a handler may have no arguments")]
            fn describe(operation: &mut Operation, generator: &mut SchemaGenerator) {
                $($part::describe(operation, generator);)*
            }
        })*
    };
}

signatures! {
    ();
    (A);
    (A, B);
    (A, B, C);
    (A, B, C, D);
    (A, B, C, D, E);
    (A, B, C, D, E, F);
}

/// A registered route.
#[derive(Debug, Clone)]
pub(in crate::http) struct Registered {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) doc: Doc,
    pub(super) describe: fn(&mut Operation, &mut SchemaGenerator),
}

/// Returns the document of all routes.
pub(in crate::http) fn document(routes: &[Registered]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = SCHEMAS.into());
    let mut generator = settings.into_generator();
    let error = shape::<ErrorAnswer>(&mut generator);
    let mut paths = Map::new();
    for route in routes {
        let operation = operation(route, &error, &mut generator);
        let path = paths.entry(route.path.clone()).or_insert_with(|| json!({}));
        path[route.method] = operation;
    }
    json!({
        "openapi": OPENAPI,
        "info": {
            "title": "lancegate",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "What LanceDB's clients and clients of the Lance namespace specification send. Each path is \
                            also answered with a slash at its end, which says that LanceDB's client asks.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "x-api-key" },
                "bearer": { "type": "http", "scheme": "bearer" },
                "basic": { "type": "http", "scheme": "basic" },
            },
        },
    })
}

fn operation(route: &Registered, error: &Schema, generator: &mut SchemaGenerator) -> Value {
    let Registered { path, doc, describe, .. } = route;
    let mut operation = Operation::default();
    operation.parameters.extend(names(path).map(
        |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } }),
    ));
    describe(&mut operation, generator);
    if let Some(query) = doc.query {
        operation.parameters.extend(parameters(query, generator));
    }
    if let Some(own) = doc.body {
        let schema = own(generator);
        operation.json = Some(body(schema, generator));
    }
    let mut told = json!({
        "operationId": id(path),
        "summary": doc.summary,
        "parameters": operation.parameters,
        "responses": responses(doc, operation.authenticated, error, generator),
        "security": [],
    });
    if operation.authenticated {
        told["security"] = json!([{ "key": [] }, { "bearer": [] }, { "basic": [] }]);
    }
    let mut content = Map::new();
    if let Some(schema) = operation.json {
        let example: Value = serde_json::from_str(doc.example.unwrap_or("{}")).unwrap_or_default();
        content.insert("application/json".to_owned(), json!({ "schema": schema, "example": example }));
    }
    if operation.rows {
        content.insert(STREAM.to_owned(), json!({ "schema": { "type": "string", "format": "binary" } }));
    }
    if !content.is_empty() {
        told["requestBody"] = json!({ "content": content });
    }
    told
}

fn responses(doc: &Doc, authenticated: bool, error: &Schema, generator: &mut SchemaGenerator) -> Value {
    let content = match doc.answer {
        Answer::Json(shape) => json!({ "application/json": { "schema": shape(generator) } }),
        Answer::Rows => json!({ STREAM: { "schema": { "type": "string", "format": "binary" } } }),
        Answer::Text => json!({ "application/openmetrics-text": { "schema": { "type": "string" } } }),
        Answer::Refused => json!({}),
    };
    let refused = json!({ "description": "An error.", "content": { "application/json": { "schema": error } } });
    let mut told = Map::new();
    for status in doc.statuses {
        told.insert(status.to_string(), json!({ "description": doc.summary, "content": content }));
    }
    if authenticated {
        told.insert("4XX".to_owned(), refused.clone());
        told.insert("5XX".to_owned(), refused);
    }
    Value::Object(told)
}

/// Returns the names in a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Returns the words of a path, joined.
fn id(path: &str) -> String {
    let words = path.split('/').filter(|part| !part.is_empty() && !part.starts_with('{') && *part != "v1");
    words.collect::<Vec<_>>().join("_")
}

/// Returns the parameters that a type of a query has.
fn parameters(shape: Shape, generator: &mut SchemaGenerator) -> Vec<Value> {
    let schema = shape(generator);
    // It is no type of the document: its fields are.
    let mut object = resolved(&schema, generator);
    let required: Vec<String> =
        object.get("required").and_then(|names| serde_json::from_value(names.clone()).ok()).unwrap_or_default();
    let properties = object.get_mut("properties").and_then(Value::as_object_mut).map(std::mem::take);
    let told = properties.unwrap_or_default().into_iter().map(|(name, schema)| {
        let needed = required.contains(&name);
        json!({ "name": name, "in": "query", "required": needed, "schema": schema })
    });
    told.collect()
}

fn resolved(schema: &Schema, generator: &SchemaGenerator) -> Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let name = reference.and_then(|reference| reference.rsplit('/').next());
    let found = name.and_then(|name| generator.definitions().get(name)).cloned();
    found.unwrap_or_else(|| schema.clone().to_value())
}

/// Adds what every body may have beside its own fields.
fn body(schema: Schema, generator: &mut SchemaGenerator) -> Value {
    let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next()) else {
        return schema.to_value();
    };
    let Some(found) = generator.definitions_mut().get_mut(name) else { return schema.to_value() };
    if found.get("additionalProperties") == Some(&Value::Bool(false)) {
        let more = [
            ("id", json!({ "type": ["array", "null"], "items": { "type": "string" } })),
            ("identity", json!({})),
            ("context", json!({})),
        ];
        for (field, schema) in more {
            found["properties"][field] = schema;
        }
    }
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_its_names_and_its_words() {
        let path = "/v1/table/{id}/index/{index}/stats";
        assert_eq!(names(path).collect::<Vec<_>>(), ["id", "index"]);
        assert_eq!(id(path), "table_index_stats");
    }
}
