//! `query`, `explain_plan` and `analyze_plan`: rows that match a filter, are near to
//! vectors, or hold words.

use axum::http::StatusCode;
use axum::response::Response;
use lance_index::scalar::inverted::query::FtsQuery;
use lance_index::vector::ApproxMode;
use lancegate_engine::exec::Outcome;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sql::plan::search::{Answer, Distance, Ordering, Projection, Search, SearchRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Routes;
use super::batches;
use super::caller::Caller;
use super::error::{RestError, Result};
use super::openapi::Doc;
use super::request::{Body, Id};
use super::tables::misread;
use super::text::expression;
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/table/{id}/query",
        query,
        Doc::rows("Searches a table.").example(r#"{"k": 10, "filter": "x > 1", "columns": ["x"]}"#),
    );
    routes.post(
        "/v1/table/{id}/explain_plan",
        explain_plan,
        Doc::json::<Option<String>>("Tells how a search would be done.")
            .example(r#"{"query": {"k": 10}, "verbose": true}"#),
    );
    routes.post(
        "/v1/table/{id}/analyze_plan",
        analyze_plan,
        Doc::json::<Option<String>>("Does a search and tells how.").example(r#"{"k": 10}"#),
    );
}

/// A search as LanceDB's client sends it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "SearchRequest")]
#[serde(default)]
struct Query {
    version: Option<u64>,
    branch: Option<String>,
    vector: Vectors,
    vector_column: Option<String>,
    distance_type: Option<String>,
    /// The client says "no limit" with the largest number that it has.
    k: Option<u64>,
    offset: Option<u64>,
    prefilter: Option<bool>,
    filter: Option<String>,
    columns: Option<Columns>,
    with_row_id: Option<bool>,
    nprobes: Option<usize>,
    minimum_nprobes: Option<usize>,
    maximum_nprobes: Option<usize>,
    search_effort: Option<f64>,
    refine_factor: Option<u32>,
    ef: Option<usize>,
    lower_bound: Option<f32>,
    upper_bound: Option<f32>,
    approx_mode: Option<String>,
    bypass_vector_index: Option<bool>,
    fast_search: Option<bool>,
    full_text_query: Option<Value>,
    order_by: Option<Vec<Order>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "SearchVectors")]
#[serde(untagged)]
enum Vectors {
    #[default]
    None,
    One(Vec<f32>),
    Several(Vec<Vec<f32>>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SearchColumns")]
#[serde(untagged)]
enum Columns {
    Names(Vec<String>),
    Expressions(Map<String, Value>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SearchOrder")]
#[serde(deny_unknown_fields)]
struct Order {
    column_name: String,
    #[serde(default = "yes")]
    ascending: bool,
    #[serde(default)]
    nulls_first: bool,
}

fn yes() -> bool {
    true
}

/// What "no limit" is at least.
const UNLIMITED: u64 = i64::MAX as u64;

fn request(id: &Id, query: Query) -> Result<SearchRequest> {
    if let Some(filter) = &query.filter {
        // Lance reads it itself; here only its form is checked.
        expression(filter)?;
    }
    let distance = query
        .distance_type
        .as_deref()
        .map(|name| Distance::parse(name).ok_or_else(|| RestError::invalid(format!("\"{name}\" is not a distance"))));
    let approx_mode = query.approx_mode.as_deref().map(|word| match word {
        "fast" => Ok(ApproxMode::Fast),
        "normal" => Ok(ApproxMode::Normal),
        "accurate" => Ok(ApproxMode::Accurate),
        other => Err(RestError::invalid(format!("approx_mode \"{other}\" is not fast, normal or accurate"))),
    });
    let order = query.order_by.unwrap_or_default().into_iter().map(|order| Ordering {
        column: order.column_name,
        ascending: order.ascending,
        nulls_first: order.nulls_first,
    });
    let search = Search {
        vectors: match query.vector {
            Vectors::None => Vec::new(),
            Vectors::One(vector) if vector.is_empty() => Vec::new(),
            Vectors::One(vector) => vec![vector],
            Vectors::Several(vectors) => vectors,
        },
        vector_column: query.vector_column,
        distance: distance.transpose()?,
        limit: query.k.filter(|most| *most < UNLIMITED),
        offset: query.offset,
        filter: query.filter,
        prefilter: query.prefilter.unwrap_or(true),
        columns: projection(query.columns)?,
        with_row_id: query.with_row_id.unwrap_or_default(),
        nprobes: query.nprobes,
        minimum_nprobes: query.minimum_nprobes,
        maximum_nprobes: query.maximum_nprobes,
        search_effort: query.search_effort,
        refine_factor: query.refine_factor,
        ef: query.ef,
        lower_bound: query.lower_bound,
        upper_bound: query.upper_bound,
        approx_mode: approx_mode.transpose()?,
        bypass_vector_index: query.bypass_vector_index.unwrap_or_default(),
        fast_search: query.fast_search.unwrap_or_default(),
        full_text: query.full_text_query.filter(|words| !words.is_null()).map(words).transpose()?,
        order_by: order.collect(),
    };
    Ok(SearchRequest { table: id.object()?, version: query.version, branch: query.branch, search })
}

fn projection(columns: Option<Columns>) -> Result<Projection> {
    match columns {
        None => Ok(Projection::All),
        Some(Columns::Names(names)) => Ok(Projection::Names(names)),
        Some(Columns::Expressions(map)) => {
            let pairs = map.into_iter().map(|(name, text)| match text {
                Value::String(text) => {
                    expression(&text)?;
                    Ok((name, text))
                }
                _ => Err(RestError::invalid(format!("column \"{name}\" is not an expression"))),
            });
            Ok(Projection::Expressions(pairs.collect::<Result<_>>()?))
        }
    }
}

/// Reads the words to look for: the query itself, or `{"query": …}`; where that is a
/// text, its words in `columns` or in every indexed column.
fn words(given: Value) -> Result<FtsQuery> {
    let bad = |error: &dyn std::fmt::Display| RestError::invalid(format!("full_text_query: {error}"));
    let columns = given.get("columns").and_then(Value::as_array).cloned().unwrap_or_default();
    let query = given.get("query").cloned().unwrap_or(given);
    let Value::String(text) = &query else {
        return serde_json::from_value(query).map_err(|error| bad(&error));
    };
    let query = match columns.as_slice() {
        [] => json!({ "match": { "column": null, "terms": text } }),
        [column] => json!({ "match": { "column": column, "terms": text } }),
        columns => json!({ "multi_match": { "query": text, "columns": columns } }),
    };
    serde_json::from_value(query).map_err(|error| bad(&error))
}

/// `POST /v1/table/{id}/query`: an Arrow stream.
async fn query(mut caller: Caller, id: Id, Body(given): Body<Query>) -> Result<Response> {
    let request = request(&id, given)?;
    let plan = caller.engine().plan_search(caller.session(), &request).await;
    let plan = caller.authorize(plan.map_err(RestError::from).map_err(misread)?).await?;
    let version = match &*plan {
        Plan::Search(search) => search.version(),
        _ => None,
    };
    match caller.outcome(&plan).await.map_err(misread)? {
        Outcome::Rows { stream, .. } => {
            let mut response = batches::answer(stream, caller).await.map_err(misread)?;
            if let Some(version) = version {
                response.headers_mut().insert("x-lancedb-version", version.into());
            }
            Ok(response)
        }
        Outcome::Done(_) => Err(RestError::internal("a search has no rows")),
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ExplainRequest")]
#[serde(default, deny_unknown_fields)]
struct Explain {
    query: Query,
    verbose: bool,
}

/// `POST /v1/table/{id}/explain_plan`: a JSON text.
async fn explain_plan(caller: Caller, id: Id, Body(given): Body<Explain>) -> Result<Response> {
    told(caller, request(&id, given.query)?, Answer::Explain { verbose: given.verbose }).await
}

/// `POST /v1/table/{id}/analyze_plan`: a JSON text.
async fn analyze_plan(caller: Caller, id: Id, Body(given): Body<Query>) -> Result<Response> {
    told(caller, request(&id, given)?, Answer::Analyze).await
}

async fn told(mut caller: Caller, request: SearchRequest, answer: Answer) -> Result<Response> {
    let plan = caller.engine().plan_answer(caller.session(), &request, answer).await;
    let plan = caller.authorize(plan.map_err(RestError::from).map_err(misread)?).await?;
    let rows = caller.execute(&plan).await.map_err(misread)?;
    Ok(reply::json(StatusCode::OK, &json!(rows.first_text())))
}
