//! Z01 for what has no statement of SQL: searches, rows that are sent, and versions, tags and branches, as requests of
//! REST and calls of Flight SQL.

use std::collections::BTreeSet;

use arrow_flight::sql::{Command, CommandStatementIngest, TableDefinitionOptions};
use arrow_flight::sql::{TableExistsOption, TableNotExistOption};
use serde_json::{Value, json};

use super::{Matrix, Staged, records};
use crate::flight::Flight;
use crate::flight::messages::{packed, query, statement_ticket, with_rows};

/// One way to ask for something.
enum Ask {
    /// JSON to a path below `/v1`.
    Json(&'static str, Value),
    /// Rows of a number `id` to a path below `/v1`.
    Rows(&'static str),
    /// A statement of Flight SQL.
    Flight(&'static str),
    /// Rows of a number `n` to a table of the schema, by Flight SQL.
    Put(&'static str, TableNotExistOption, TableExistsOption),
}

/// A case; `before` is asked by the owner first.
struct Case {
    ask: Ask,
    before: Option<Ask>,
}

fn json_to(path: &'static str, body: Value) -> Case {
    Case { ask: Ask::Json(path, body), before: None }
}

fn alone(ask: Ask) -> Case {
    Case { ask, before: None }
}

fn behind(before: Ask, ask: Ask) -> Case {
    Case { ask, before: Some(before) }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Done,
    /// Denied, or not there for whoever may not know of it.
    Denied,
    /// Anything else.
    Other,
}

impl Ask {
    fn label(&self) -> String {
        match self {
            Self::Json(path, body) => format!("{path} {body}"),
            Self::Rows(path) => format!("{path} rows"),
            Self::Flight(sql) => format!("Flight {sql}"),
            Self::Put(table, ..) => format!("DoPut {table}"),
        }
    }

    async fn told(&self, matrix: &Matrix, staged: &Staged, key: &str) -> (Told, String) {
        match self {
            Self::Json(path, body) => {
                let body = serde_json::from_str::<Value>(&staged.fill(&body.to_string())).unwrap();
                answered(request(matrix, &staged.fill(path), key).json(&body)).await
            }
            Self::Rows(path) => answered(request(matrix, &staged.fill(path), key).body(rows())).await,
            Self::Flight(sql) => {
                let flight = Flight::connect(&matrix.gateway, key).await;
                let sql = staged.fill(sql);
                // A descriptor may be told what a ticket is not allowed to.
                let told = flight.info(query(&sql)).await.map(drop);
                let got = flight.get(statement_ticket(&sql)).await.map(drop);
                if matches!(&told, Err(error) if of_status(error) == Told::Denied) {
                    assert!(got.is_err(), "{sql}: its ticket was served");
                }
                of_result(got)
            }
            Self::Put(table, create, exists) => {
                let flight = Flight::connect(&matrix.gateway, key).await;
                let options = TableDefinitionOptions { if_not_exist: (*create).into(), if_exists: (*exists).into() };
                let command = packed(Command::CommandStatementIngest(CommandStatementIngest {
                    table_definition_options: Some(options),
                    table: (*table).to_owned(),
                    schema: Some(staged.schema.clone()),
                    ..CommandStatementIngest::default()
                }));
                of_result(flight.put(with_rows(command, &[1, 2])).await)
            }
        }
    }
}

fn request(matrix: &Matrix, path: &str, key: &str) -> reqwest::RequestBuilder {
    let url = matrix.gateway.http_url(&format!("/v1{path}"));
    reqwest::Client::new().post(url).header("x-api-key", key)
}

async fn answered(request: reqwest::RequestBuilder) -> (Told, String) {
    let response = request.send().await.unwrap();
    let told = match response.status().as_u16() {
        200..300 => Told::Done,
        403 | 404 => Told::Denied,
        _ => Told::Other,
    };
    let status = response.status();
    (told, format!("{status} {}", String::from_utf8_lossy(&response.bytes().await.unwrap())))
}

fn of_result(result: Result<(), tonic::Status>) -> (Told, String) {
    match result {
        Ok(()) => (Told::Done, String::new()),
        Err(error) => (of_status(&error), error.to_string()),
    }
}

fn of_status(error: &tonic::Status) -> Told {
    match error.code() {
        tonic::Code::PermissionDenied | tonic::Code::NotFound => Told::Denied,
        _ => Told::Other,
    }
}

/// Two rows of a number `id`, as a stream.
fn rows() -> Vec<u8> {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    let values: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("id", values)]).unwrap();
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

impl Matrix {
    async fn owner_key(&mut self) -> String {
        self.number += 1;
        let made = format!("CREATE API KEY k{}", self.number);
        self.admin.query_one(&made, &[]).await.unwrap().get("key")
    }

    async fn staged_request(&mut self, case: &Case, key: &str) -> Staged {
        let staged = self.staged(&super::change("")).await;
        crate::rows::run(&self.admin, &staged.fill("CREATE TABLE {s}.t3 (n BIGINT)")).await;
        if let Some(before) = &case.before {
            let (told, answer) = before.told(self, &staged, key).await;
            assert_eq!(told, Told::Done, "{}: {answer}", before.label());
        }
        staged
    }

    /// What can be seen of the objects of a case, as the owner sees it.
    async fn state(&self, staged: &Staged, key: &str) -> Vec<String> {
        let mut seen = staged.relations(&self.admin).await;
        for what in ["version/list", "tags/list", "branches/list"] {
            let path = staged.fill(&format!("/table/{{s}}$t/{what}"));
            let answer = answered(request(self, &path, key).json(&json!({}))).await.1;
            // The number of the request is another each time.
            seen.push(answer.split("\"instance\"").next().unwrap_or_default().to_owned());
        }
        seen
    }

    async fn check_request(&mut self, case: &Case, key: &str) {
        let label = case.ask.label();
        let staged = self.staged_request(case, key).await;
        let before = records(&self.files.path("audit.jsonl")).len();
        let (told, answer) = case.ask.told(self, &staged, key).await;
        assert_eq!(told, Told::Done, "{label}: {answer}");
        let needs = self.recorded(&staged, before, &label);
        for missing in &needs {
            let staged = self.staged_request(case, key).await;
            let held: BTreeSet<_> = needs.iter().filter(|need| *need != missing).collect();
            let his = self.user_key(&staged, &held).await;
            let before = self.state(&staged, key).await;
            let (told, answer) = case.ask.told(self, &staged, &his).await;
            assert_eq!(told, Told::Denied, "{label} without {} ON {}: {answer}", missing.0, missing.1);
            assert_eq!(self.state(&staged, key).await, before, "{label}");
        }
        let staged = self.staged_request(case, key).await;
        let his = self.user_key(&staged, &needs.iter().collect()).await;
        let (told, answer) = case.ask.told(self, &staged, &his).await;
        assert_eq!(told, Told::Done, "{label} with {needs:?}: {answer}");
    }

    async fn user_key(&mut self, staged: &Staged, held: &BTreeSet<&(String, String)>) -> String {
        let user = self.user(staged, held).await;
        let statement = format!("CREATE API KEY his{}", self.number);
        user.query_one(&statement, &[]).await.unwrap().get("key")
    }
}

async fn check_all(cases: Vec<Case>) {
    let mut matrix = Matrix::new().await;
    let key = matrix.owner_key().await;
    for case in &cases {
        matrix.check_request(case, &key).await;
    }
}

fn tag() -> Ask {
    Ask::Json("/table/{s}$t/tags/create", json!({ "tag": "good", "version": 1 }))
}

fn branch() -> Ask {
    Ask::Json("/table/{s}$t/branches/create", json!({ "name": "try" }))
}

/// Asks for rows of the table, which is on a branch as well.
fn on_branch(ask: Ask) -> Case {
    behind(Ask::Json("/table/{s}$t2/branches/create", json!({ "name": "try" })), ask)
}

#[tokio::test]
async fn z01_rows_of_a_branch() {
    check_all(vec![
        on_branch(Ask::Rows("/table/{s}$t2/insert?branch=try")),
        on_branch(Ask::Rows("/table/{s}$t2/insert?mode=overwrite&branch=try")),
        on_branch(Ask::Rows("/table/{s}$t2/merge_insert?on=id&when_not_matched_insert_all=true&branch=try")),
        on_branch(Ask::Json("/table/{s}$t2/update", json!({ "updates": [["id", "2"]], "branch": "try" }))),
        on_branch(Ask::Json("/table/{s}$t2/delete", json!({ "predicate": "id = 1", "branch": "try" }))),
        on_branch(Ask::Json("/table/{s}$t2/query", json!({ "k": 10, "branch": "try" }))),
        on_branch(Ask::Json("/table/{s}$t2/count_rows", json!({ "branch": "try" }))),
        json_to(
            "/table/{s}$t2/update_field_metadata",
            json!({ "updates": [{ "path": "id", "metadata": { "unit": "m" } }] }),
        ),
    ])
    .await;
}

#[tokio::test]
async fn z01_requests_about_versions() {
    check_all(vec![
        json_to("/table/{s}$t/version/list", json!({})),
        json_to("/table/{s}$t/restore", json!({ "version": 1 })),
        json_to("/table/{s}$t/tags/list", json!({})),
        alone(tag()),
        behind(tag(), Ask::Json("/table/{s}$t/tags/version", json!({ "tag": "good" }))),
        behind(tag(), Ask::Json("/table/{s}$t/tags/update", json!({ "tag": "good", "version": 2 }))),
        behind(tag(), Ask::Json("/table/{s}$t/tags/delete", json!({ "tag": "good" }))),
        json_to("/table/{s}$t/branches/list", json!({})),
        alone(branch()),
        behind(branch(), Ask::Json("/table/{s}$t/branches/delete", json!({ "name": "try" }))),
    ])
    .await;
}

#[tokio::test]
async fn z01_requests_that_search() {
    check_all(vec![
        json_to("/table/{s}$t/query", json!({ "k": 10, "filter": "id > 0" })),
        json_to("/table/{s}$v/query", json!({ "k": 10 })),
        json_to("/table/{s}$t/explain_plan", json!({ "query": { "k": 3 } })),
        json_to("/table/{s}$t/analyze_plan", json!({ "k": 3 })),
        json_to("/table/{s}$t/count_rows", json!({ "predicate": "id > 0" })),
        json_to("/table/{s}$t/describe", json!({})),
        json_to("/table/{s}$t/stats", json!({})),
        alone(Ask::Flight("SELECT id FROM {s}.t")),
        alone(Ask::Flight("SELECT * FROM {s}.v")),
    ])
    .await;
}

#[tokio::test]
async fn z01_rows_that_are_sent() {
    let (make, fail) = (TableNotExistOption::Create, TableNotExistOption::Fail);
    check_all(vec![
        alone(Ask::Rows("/table/{s}$n/create")),
        alone(Ask::Rows("/table/{s}$t2/create?mode=exist_ok")),
        alone(Ask::Rows("/table/{s}$t2/create?mode=overwrite")),
        alone(Ask::Rows("/table/{s}$t2/insert")),
        alone(Ask::Rows("/table/{s}$t2/insert?mode=overwrite")),
        alone(Ask::Rows("/table/{s}$t2/merge_insert?on=id&when_not_matched_insert_all=true")),
        alone(Ask::Rows("/table/{s}$t2/merge_insert?on=id&when_matched_update_all=true")),
        alone(Ask::Rows(
            "/table/{s}$t2/merge_insert?on=id&when_not_matched_insert_all=true&when_not_matched_by_source_delete=true",
        )),
        json_to("/table/{s}$t/update", json!({ "updates": [["id", "2"]], "predicate": "id = 1" })),
        json_to("/table/{s}$t/delete", json!({ "predicate": "id = 1" })),
        alone(Ask::Flight("INSERT INTO {s}.t2 VALUES (7)")),
        alone(Ask::Put("n", make, TableExistsOption::Fail)),
        alone(Ask::Put("t3", fail, TableExistsOption::Append)),
        alone(Ask::Put("t3", fail, TableExistsOption::Replace)),
    ])
    .await;
}
