//! Searches, versions, tags and branches, as the front ends ask the engine for them.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Int32Type, Int64Type, UInt64Type};
use futures::TryStreamExt;
use lancegate::admin;
use lancegate_catalog::Catalog;
use lancegate_engine::error::SqlError;
use lancegate_engine::exec::{Engine, EngineParts, Outcome, QueryConfig};
use lancegate_engine::jobs::{Jobs, JobsConfig, JobsParts};
use lancegate_engine::metrics::Metrics;
use lancegate_engine::refresh::FunctionHost;
use lancegate_engine::secrets::Secrets;
use lancegate_engine::secrets::key::KeyRing;
use lancegate_engine::session::{CancelReason, NoticeReceiver, Session, Settings, StatementContext};
use lancegate_engine::sql::authorize::Authorized;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sql::plan::indexes::IndexRequest;
use lancegate_engine::sql::plan::search::{Answer, CountRequest, Distance, Ordering, Search, SearchRequest};
use lancegate_engine::sql::plan::versions::{VersionAction, VersionAnswer};
use lancegate_engine::storage::Store;
use lancegate_engine::storage::search::Projection;
use lancegate_sql::{Limits, ObjectName};
use serde_json::json;

/// An engine on a folder, and a session of user `lancegate`.
pub(crate) struct Deployment {
    _folder: tempfile::TempDir,
    pub(crate) engine: Engine,
    pub(crate) session: Session,
    _notices: NoticeReceiver,
}

impl Deployment {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path()).await;
        let (session, notices) = session_of(&engine, "lancegate").await;
        Self { _folder: folder, engine, session, _notices: notices }
    }

    /// Runs statements and returns the rows of the last one.
    pub(crate) async fn sql(&mut self, text: &str) -> Vec<RecordBatch> {
        let mut rows = Vec::new();
        for parsed in lancegate_sql::parse(text, &Limits::default()).unwrap() {
            let plan = self.engine.plan(&self.session, &parsed.statement, text, &[]).await.unwrap();
            let plan = self.engine.authorize(&self.session, plan).await.unwrap();
            rows = self.run(&plan).await.unwrap();
        }
        rows
    }

    pub(crate) async fn run(&mut self, plan: &Authorized<Plan>) -> Result<Vec<RecordBatch>, SqlError> {
        let ctx = StatementContext::new();
        match self.engine.execute(&mut self.session, plan, Vec::new(), &ctx).await? {
            Outcome::Rows { stream, schema, .. } => {
                let batches: Vec<RecordBatch> = stream.try_collect().await.map_err(SqlError::from)?;
                assert!(batches.iter().all(|batch| batch.schema() == schema), "what was described is what comes");
                Ok(batches)
            }
            Outcome::Done(_) => Ok(Vec::new()),
        }
    }

    async fn search(&mut self, search: Search) -> Result<RecordBatch, SqlError> {
        self.answer("t", search, Answer::Rows).await
    }

    async fn answer(&mut self, table: &str, search: Search, answer: Answer) -> Result<RecordBatch, SqlError> {
        let request = SearchRequest { table: ObjectName::bare(table), version: None, branch: None, search };
        self.ask(&request, answer).await
    }

    async fn ask(&mut self, request: &SearchRequest, answer: Answer) -> Result<RecordBatch, SqlError> {
        let plan = self.engine.plan_answer(&self.session, request, answer).await?;
        let plan = self.engine.authorize(&self.session, plan).await?;
        let schema = Arc::clone(plan.columns().unwrap());
        let batches = self.run(&plan).await?;
        Ok(arrow::compute::concat_batches(&schema, &batches).unwrap())
    }

    async fn count(&mut self, table: &str, filter: Option<&str>, version: Option<u64>) -> Result<i64, SqlError> {
        let filter = filter.map(str::to_owned);
        let request = CountRequest { table: ObjectName::bare(table), version, branch: None, filter };
        let plan = self.engine.plan_count(&self.session, &request).await?;
        let plan = self.engine.authorize(&self.session, plan).await?;
        let rows = self.run(&plan).await?;
        Ok(rows[0].column(0).as_primitive::<Int64Type>().value(0))
    }

    async fn index(&mut self, column: &str, method: &str, options: serde_json::Value) {
        let request = IndexRequest {
            table: ObjectName::bare("t"),
            branch: None,
            column: column.to_owned(),
            name: None,
            replace: true,
            spec: IndexRequest::spec(method, options.as_object().unwrap()).unwrap(),
        };
        let plan = self.engine.plan_create_index(&self.session, &request).await.unwrap();
        let plan = self.engine.authorize(&self.session, plan).await.unwrap();
        self.run(&plan).await.unwrap();
    }

    pub(crate) async fn version(
        &mut self,
        branch: Option<&str>,
        action: VersionAction,
    ) -> Result<VersionAnswer, SqlError> {
        let plan = self.engine.plan_version(&self.session, &ObjectName::bare("t"), branch, action).await?;
        let plan = self.engine.authorize(&self.session, plan).await?;
        self.engine.versions(&mut self.session, &plan).await
    }

    /// Rows 1 to 6: `v` is `[id, 0]`, words alternate.
    async fn with_rows() -> Self {
        let mut deployment = Self::start().await;
        deployment.sql("CREATE TABLE t (id BIGINT, body TEXT, v vector(2), \"Kind\" TEXT)").await;
        let body = |id: i32| if id % 2 == 0 { "a red fox" } else { "a blue whale" };
        let row = |id: i32| format!("({id}, '{}', ARRAY[{id}, 0]::real[2], 'k{}')", body(id), id % 3);
        let rows: Vec<String> = (1..=6).map(row).collect();
        deployment.sql(&format!("INSERT INTO t VALUES {}", rows.join(", "))).await;
        deployment
    }
}

async fn engine(folder: &Path) -> Engine {
    let catalog = Catalog::open_sqlite(&folder.join("metadata.db")).await.unwrap();
    admin::ensure_first_user(&catalog, None).await.unwrap();
    let store = Store::new(folder.to_str().unwrap()).unwrap();
    let here = tokio::runtime::Handle::current();
    let jobs = Jobs::start(JobsParts {
        catalog: catalog.clone(),
        store: store.clone(),
        io: here.clone(),
        compute: here,
        config: JobsConfig::default(),
        metrics: Arc::new(Metrics::new()),
        functions: FunctionHost::none(),
    });
    let jobs = jobs.await.unwrap();
    let keys = KeyRing::open(&folder.join("secrets.key"), false, 0).unwrap();
    let engine = Engine::new(EngineParts {
        catalog: catalog.clone(),
        store,
        query: QueryConfig {
            memory_bytes: 256 << 20,
            spill_directory: folder.join("spill"),
            spill_bytes_max: 1 << 30,
            threads: 2,
        },
        limits: Limits::default(),
        gpu_classes: Vec::new(),
        jobs: Arc::new(jobs),
        functions: FunctionHost::none(),
        secrets: Secrets::new(catalog, keys),
        audit: None,
    });
    let engine = engine.unwrap();
    engine.start(&admin::first_user()).await.unwrap();
    engine
}

async fn session_of(engine: &Engine, user: &str) -> (Session, NoticeReceiver) {
    let principal = engine.principal(lancegate_auth::UserName::parse(user).unwrap()).await.unwrap();
    Session::new(1, principal, "lancegate".to_owned(), Settings::for_user(user, user == "lancegate"))
}

fn ids(rows: &RecordBatch) -> Vec<i64> {
    rows.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()
}

fn floats(rows: &RecordBatch, column: &str) -> Vec<f32> {
    rows.column_by_name(column).unwrap().as_primitive::<Float32Type>().values().to_vec()
}

fn names(rows: &RecordBatch) -> Vec<String> {
    rows.schema().fields().iter().map(|field| field.name().clone()).collect()
}

fn text(rows: &RecordBatch) -> String {
    rows.column(0).as_string::<i32>().value(0).to_owned()
}

fn near(vector: [f32; 2], limit: u64) -> Search {
    Search { vectors: vec![vector.to_vec()], limit: Some(limit), ..Search::default() }
}

fn some(names: &[&str]) -> Projection {
    Projection::Names(names.iter().map(|name| (*name).to_owned()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_near_to_a_vector_come_nearest_first() {
    let mut t = Deployment::with_rows().await;
    let rows = t.search(near([3.2, 0.0], 3)).await.unwrap();
    assert_eq!(names(&rows), ["id", "body", "v", "Kind", "_distance"]);
    assert_eq!(ids(&rows), [3, 4, 2]);
    let found = floats(&rows, "_distance");
    assert!((found[0] - 0.04).abs() < 1e-4 && (found[2] - 1.44).abs() < 1e-4, "{found:?}");
    let rows = t.search(Search { offset: Some(1), ..near([3.2, 0.0], 2) }).await.unwrap();
    assert_eq!(ids(&rows), [4, 2], "after the first");
    let rows = t.search(Search { upper_bound: Some(1.0), ..near([3.2, 0.0], 5) }).await.unwrap();
    assert_eq!(ids(&rows), [3, 4], "within the bound");
    let rows = t.search(Search { limit: Some(i64::MAX.cast_unsigned()), ..near([0.0, 0.0], 1) }).await.unwrap();
    assert_eq!(ids(&rows), [1, 2, 3, 4, 5, 6], "the largest number is no limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_comes_before_or_after_the_search() {
    let mut t = Deployment::with_rows().await;
    let filtered = |prefilter| Search { filter: Some("`Kind` = 'k0'".to_owned()), prefilter, ..near([1.0, 0.0], 2) };
    assert_eq!(ids(&t.search(filtered(true)).await.unwrap()), [3, 6]);
    assert_eq!(ids(&t.search(filtered(false)).await.unwrap()), Vec::<i64>::new());
    let plain = Search { filter: Some("id > 2 AND body LIKE '%fox'".to_owned()), ..Search::default() };
    assert_eq!(ids(&t.search(plain).await.unwrap()), [4, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_names_expressions_or_about_the_row_itself() {
    let mut t = Deployment::with_rows().await;
    let rows = t.search(Search { columns: some(&["id", "_rowoffset"]), with_row_id: true, ..near([6.0, 0.0], 2) });
    let rows = rows.await.unwrap();
    assert_eq!(ids(&rows), [6, 5]);
    let offsets = rows.column_by_name("_rowoffset").unwrap().as_primitive::<UInt64Type>().values().to_vec();
    assert_eq!(offsets, [5, 4]);
    assert_eq!(rows.column_by_name("_rowid").unwrap().data_type(), &DataType::UInt64);
    assert_eq!(floats(&rows, "_distance"), [0.0, 1.0], "it comes without being named");
    let given = vec![("double".to_owned(), "id * 2".to_owned()), ("kind".to_owned(), "upper(`Kind`)".to_owned())];
    let columns = Projection::Expressions(given);
    let rows = t.search(Search { columns, filter: Some("id = 4".to_owned()), ..Search::default() }).await.unwrap();
    assert_eq!(names(&rows), ["double", "kind"]);
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 8);
    assert_eq!(rows.column(1).as_string::<i32>().value(0), "K1");
    let offsets = Search {
        filter: Some("_rowoffset IN (0, 2)".to_owned()),
        columns: some(&["id", "_rowoffset"]),
        ..Search::default()
    };
    assert_eq!(ids(&t.search(offsets).await.unwrap()), [1, 3]);
    let all = t.search(Search { with_row_id: true, ..Search::default() }).await.unwrap();
    let id = all.column_by_name("_rowid").unwrap().as_primitive::<UInt64Type>().value(3);
    let one = Search { filter: Some(format!("_rowid IN ({id})")), ..Search::default() };
    assert_eq!(ids(&t.search(one).await.unwrap()), [4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_vectors_are_told_apart_by_their_number() {
    let mut t = Deployment::with_rows().await;
    for offset in [None, Some(1)] {
        let vectors = vec![vec![1.0, 0.0], vec![6.0, 0.0]];
        let rows = t.search(Search { vectors, limit: Some(2), offset, ..Search::default() }).await.unwrap();
        let numbers = rows.column_by_name("query_index").unwrap();
        assert_eq!(numbers.data_type(), &DataType::Int32);
        let mut found: Vec<(i32, i64)> =
            numbers.as_primitive::<Int32Type>().values().iter().copied().zip(ids(&rows)).collect();
        found.sort_unstable();
        let expected = match offset {
            None => [(0, 1), (0, 2), (1, 5), (1, 6)],
            Some(_) => [(0, 2), (0, 3), (1, 4), (1, 5)],
        };
        assert_eq!(found, expected, "{offset:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_replaces_that_of_the_storage() {
    let mut t = Deployment::with_rows().await;
    let key = |column: &str, ascending| Ordering { column: column.to_owned(), ascending, nulls_first: false };
    let search = Search { order_by: vec![key("Kind", true), key("id", false)], limit: Some(3), ..Search::default() };
    assert_eq!(ids(&t.search(search).await.unwrap()), [6, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_by_its_code() {
    let mut t = Deployment::with_rows().await;
    t.sql("CREATE TABLE two (a vector(2), b vector(2), c vector(3))").await;
    let filtered = |filter: &str| Search { filter: Some(filter.to_owned()), ..Search::default() };
    let cases = [
        ("t", near([1.0, 0.0], 0), "22023"),
        ("t", Search { vectors: vec![vec![1.0; 3]], ..Search::default() }, "22023"),
        ("t", Search { vector_column: Some("nope".to_owned()), ..near([1.0, 0.0], 1) }, "42703"),
        ("t", Search { vector_column: Some("body".to_owned()), ..near([1.0, 0.0], 1) }, "42804"),
        ("t", Search { columns: some(&["nope"]), ..Search::default() }, "42703"),
        ("t", filtered("nope = 1"), "42703"),
        ("t", filtered("id ="), "42601"),
        ("t", filtered("id = 1; DROP TABLE t"), "42601"),
        ("t", filtered("nothing(id) = 1"), "42883"),
        ("t", filtered("id + 1"), "22023"),
        ("two", near([1.0, 0.0], 1), "42702"),
        ("two", Search { vectors: vec![vec![1.0; 5]], ..Search::default() }, "42703"),
        ("nope", Search::default(), "42P01"),
    ];
    for (table, search, code) in cases {
        let said = format!("{table} {search:?}");
        let error = t.answer(table, search, Answer::Rows).await.unwrap_err();
        assert_eq!(error.code.as_str(), code, "{said}: {error} {:?}", error.detail);
    }
    let error = t.search(filtered("nope = 1")).await.unwrap_err();
    assert_eq!(error.message, "column \"nope\" does not exist");
    let error = t.answer("two", near([1.0, 0.0], 1), Answer::Rows).await.unwrap_err();
    assert_eq!(error.detail.unwrap(), "The table has \"a\" (2), \"b\" (2).");
    let three = Search { vectors: vec![vec![1.0; 3]], ..Search::default() };
    assert_eq!(t.answer("two", three, Answer::Rows).await.unwrap().num_rows(), 0, "only one column has three elements");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_found_in_every_column_with_an_index_of_words() {
    let mut t = Deployment::with_rows().await;
    let words = |query: serde_json::Value| Search {
        full_text: Some(serde_json::from_value(query).unwrap()),
        limit: Some(10),
        with_row_id: true,
        ..Search::default()
    };
    let anywhere = || words(json!({"match": {"column": null, "terms": "fox", "fuzziness": 0}}));
    let error = t.search(anywhere()).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.hint.is_some()), ("55000", true));
    t.index("body", "FTS", json!({"with_position": true})).await;
    let rows = t.search(anywhere()).await.unwrap();
    assert_eq!(names(&rows).last().unwrap(), "_rowid");
    let mut found = ids(&rows);
    found.sort_unstable();
    assert_eq!(found, [2, 4, 6]);
    assert!(floats(&rows, "_score").iter().all(|score| *score > 0.0));
    t.sql("INSERT INTO t VALUES (7, 'one more fox', ARRAY[7, 0]::real[2], 'k')").await;
    assert_eq!(t.search(anywhere()).await.unwrap().num_rows(), 4, "rows that the index does not know are read");
    let fast = Search { fast_search: true, ..anywhere() };
    assert_eq!(t.search(fast).await.unwrap().num_rows(), 3, "unless that is not wanted");
    let phrase = words(json!({"phrase": {"column": "body", "terms": "blue whale", "slop": 0}}));
    assert_eq!(t.search(phrase).await.unwrap().num_rows(), 3);
    let boolean = words(json!({"boolean": {
        "must": [{"match": {"column": "body", "terms": "fox", "fuzziness": 0}}],
        "should": [],
        "must_not": [{"match": {"column": "body", "terms": "red", "fuzziness": 0}}],
    }}));
    assert_eq!(ids(&t.search(boolean).await.unwrap()), [7]);
    let filtered = Search { filter: Some("id > 4".to_owned()), ..anywhere() };
    assert_eq!(t.search(filtered).await.unwrap().num_rows(), 2);
    let column = words(json!({"match": {"column": "nope", "terms": "fox", "fuzziness": 0}}));
    assert_eq!(t.search(column).await.unwrap_err().code.as_str(), "42703");
}

/// Row ids are numbers of Lance, and what only we write stays out of the answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_ours_alone_does_not_show() {
    let mut t = Deployment::with_rows().await;
    t.sql("ALTER TABLE t ADD COLUMN n AS length(body); REFRESH COLUMN n ON t WAIT").await;
    let rows = t.search(Search::default()).await.unwrap();
    assert_eq!(names(&rows), ["id", "body", "v", "Kind", "n"]);
    let schema = rows.schema();
    let keys = schema.fields().iter().flat_map(|field| field.metadata().keys()).chain(schema.metadata().keys());
    assert!(keys.clone().all(|key| !key.starts_with("lancegate.")), "{:?}", keys.collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_searched_by_filter_only() {
    let mut t = Deployment::with_rows().await;
    t.sql("CREATE VIEW w AS SELECT id * 10 AS \"Ten\", body FROM t WHERE id > 2").await;
    let search = Search { filter: Some("`Ten` >= 40 AND body = 'a red fox'".to_owned()), ..Search::default() };
    let rows = t.answer("w", search, Answer::Rows).await.unwrap();
    assert_eq!(names(&rows), ["Ten", "body"]);
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values().to_vec(), [40, 60]);
    let given = vec![("x".to_owned(), "`Ten` + 1".to_owned())];
    let key = Ordering { column: "Ten".to_owned(), ascending: false, nulls_first: false };
    let search = Search {
        columns: Projection::Expressions(given),
        order_by: vec![key],
        limit: Some(2),
        offset: Some(1),
        ..Search::default()
    };
    let rows = t.answer("w", search, Answer::Rows).await.unwrap();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values().to_vec(), [51, 41]);
    assert_eq!(t.count("w", Some("`Ten` < 50"), None).await.unwrap(), 2);
    assert_eq!(t.count("w", None, None).await.unwrap(), 4);
    for (search, code) in [
        (near([1.0, 0.0], 1), "0A000"),
        (Search { with_row_id: true, ..Search::default() }, "0A000"),
        (Search { columns: some(&["_rowid"]), ..Search::default() }, "42703"),
        (Search { filter: Some("true) UNION SELECT 1, 'x' --".to_owned()), ..Search::default() }, "42601"),
    ] {
        assert_eq!(t.answer("w", search, Answer::Rows).await.unwrap_err().code.as_str(), code);
    }
    let plan = t.answer("w", Search::default(), Answer::Explain { verbose: false }).await.unwrap();
    assert!(text(&plan).contains("LanceRead"), "{}", text(&plan));
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_told_as_text() {
    let mut t = Deployment::with_rows().await;
    let plan = t.answer("t", near([1.0, 0.0], 2), Answer::Explain { verbose: true }).await.unwrap();
    assert!(text(&plan).contains("KNNVectorDistance"), "{}", text(&plan));
    let plan = t.answer("t", near([1.0, 0.0], 2), Answer::Analyze).await.unwrap();
    assert!(text(&plan).contains("metrics=[output_rows=2"), "{}", text(&plan));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_needs_select_and_ends_when_it_is_canceled() {
    let mut t = Deployment::with_rows().await;
    t.sql("CREATE USER ann PASSWORD 'a long password for ann'; GRANT USAGE ON DATABASE lancegate TO USER ann").await;
    let (ann, _notices) = session_of(&t.engine, "ann").await;
    let request =
        SearchRequest { table: ObjectName::bare("t"), version: None, branch: None, search: near([1.0, 0.0], 1) };
    let plan = t.engine.plan_search(&ann, &request).await.unwrap();
    assert_eq!(t.engine.authorize(&ann, plan.clone()).await.unwrap_err().code.as_str(), "42P01");
    t.sql("GRANT USAGE ON SCHEMA public TO USER ann").await;
    assert_eq!(t.engine.authorize(&ann, plan.clone()).await.unwrap_err().code.as_str(), "42501");
    t.sql("GRANT SELECT ON TABLE t TO USER ann").await;
    let plan = t.engine.authorize(&ann, plan).await.unwrap();
    let ctx = StatementContext::new();
    ctx.cancel(CancelReason::User);
    let Outcome::Rows { stream, .. } = t.engine.execute(&mut t.session, &plan, Vec::new(), &ctx).await.unwrap() else {
        panic!("no rows")
    };
    let error = SqlError::from(stream.try_collect::<Vec<_>>().await.unwrap_err());
    assert_eq!(error.code.as_str(), "57014");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_of_vectors_measures_as_without_it() {
    let mut t = Deployment::start().await;
    t.sql("CREATE TABLE t (id BIGINT, v vector(8))").await;
    let row = |id: i32| {
        let vector: Vec<String> = (0..8).map(|at| format!("{}", f64::from((id * (at + 3) * 7) % 101) - 50.0)).collect();
        format!("({id}, ARRAY[{}]::real[8])", vector.join(", "))
    };
    let rows: Vec<String> = (1..=600).map(row).collect();
    t.sql(&format!("INSERT INTO t VALUES {}", rows.join(", "))).await;
    let looked = vec![11.0, -20.0, 3.0, 44.0, -9.0, 8.0, -31.0, 5.0];
    for distance in ["l2", "cosine", "dot"] {
        let measure = Distance::parse(distance);
        let exact = Search {
            vectors: vec![looked.clone()],
            limit: Some(5),
            distance: measure,
            bypass_vector_index: true,
            ..Search::default()
        };
        let all = t.search(Search { limit: None, ..exact.clone() }).await.unwrap();
        let expected: std::collections::HashMap<i64, f32> =
            ids(&all).into_iter().zip(floats(&all, "_distance")).collect();
        let nearest = ids(&all)[..20].to_vec();
        for method in ["IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ"] {
            let mut options = json!({"metric_type": distance, "num_partitions": 2});
            if method == "IVF_PQ" {
                options["num_sub_vectors"] = json!(8);
            }
            t.index("v", method, options).await;
            let plan = t.engine.plan_list_indexes(&t.session, &ObjectName::bare("t"), None, None).await.unwrap();
            let plan = t.engine.authorize(&t.session, plan).await.unwrap();
            let listed = t.engine.indexes(&plan).await.unwrap();
            let last = listed.iter().find(|index| index.index_type == method).unwrap();
            assert_eq!((last.indexed_rows, last.unindexed_rows, last.segments), (600, 0, 1), "{method}");
            assert_eq!(last.distance_type.as_deref(), Some(distance), "{method}: {:?}", last.details);
            let indexed = Search { bypass_vector_index: false, nprobes: Some(2), ..exact.clone() };
            let found = t.search(indexed).await.unwrap();
            assert_eq!(found.num_rows(), 5, "{method} {distance}");
            for (id, distance_of_index) in ids(&found).into_iter().zip(floats(&found, "_distance")) {
                let exact = expected[&id];
                let tolerance =
                    if method.ends_with("FLAT") { 1e-3 * exact.abs().max(1.0) } else { 0.3 * exact.abs().max(0.1) };
                let said = format!("{method} {distance} {id}: {distance_of_index} for {exact}");
                assert!((distance_of_index - exact).abs() <= tolerance, "{said}");
            }
            assert!(ids(&found).iter().any(|id| nearest.contains(id)), "{method} {distance}: {:?}", ids(&found));
            let name = last.name.clone();
            let plan = t.engine.plan_drop_index(&t.session, &ObjectName::bare("t"), None, &name).await.unwrap();
            let plan = t.engine.authorize(&t.session, plan).await.unwrap();
            t.run(&plan).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_listed_read_and_restored() {
    let mut t = Deployment::with_rows().await;
    let VersionAnswer::Versions(before) = t.version(None, VersionAction::List).await.unwrap() else { panic!() };
    let full = before.last().unwrap().version;
    t.sql("DELETE FROM t WHERE id > 2").await;
    assert_eq!(t.count("t", None, None).await.unwrap(), 2);
    assert_eq!(t.count("t", None, Some(full)).await.unwrap(), 6);
    let request =
        SearchRequest { table: ObjectName::bare("t"), version: Some(full), branch: None, search: near([6.0, 0.0], 1) };
    assert_eq!(ids(&t.ask(&request, Answer::Rows).await.unwrap()), [6]);
    let answer = t.version(None, VersionAction::Restore { version: full }).await.unwrap();
    let VersionAnswer::Version(restored) = answer else { panic!("{answer:?}") };
    assert!(restored > full + 1, "a restore is a version of its own");
    assert_eq!(t.count("t", None, None).await.unwrap(), 6);
    let error = t.version(None, VersionAction::Restore { version: 999 }).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("22023", "version 999 of table \"t\" does not exist"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_name_versions() {
    let mut t = Deployment::with_rows().await;
    let tag = |tag: &str, version| VersionAction::CreateTag { tag: tag.to_owned(), version };
    assert_eq!(t.version(None, tag("v1", 1)).await.unwrap(), VersionAnswer::Done);
    assert_eq!(t.version(None, tag("v1", 1)).await.unwrap_err().code.as_str(), "42710");
    assert_eq!(t.version(None, tag("../x", 1)).await.unwrap_err().code.as_str(), "42602");
    assert_eq!(t.version(None, tag("v9", 99)).await.unwrap_err().code.as_str(), "22023");
    t.version(None, VersionAction::MoveTag { tag: "v1".to_owned(), version: 2 }).await.unwrap();
    let VersionAnswer::Tag(found) = t.version(None, VersionAction::Tag { tag: "v1".to_owned() }).await.unwrap() else {
        panic!()
    };
    assert_eq!((found.name.as_str(), found.version, found.branch), ("v1", 2, None));
    assert!(found.manifest_size > 0);
    let rows = t.sql("SELECT count(*) FROM t FOR SYSTEM_TIME AS OF TAG 'v1'").await;
    assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 6);
    t.version(None, VersionAction::DropTag { tag: "v1".to_owned() }).await.unwrap();
    assert_eq!(t.version(None, VersionAction::Tags).await.unwrap(), VersionAnswer::Tags(Vec::new()));
    for action in [
        VersionAction::DropTag { tag: "v1".to_owned() },
        VersionAction::Tag { tag: "v1".to_owned() },
        VersionAction::MoveTag { tag: "v1".to_owned(), version: 1 },
    ] {
        assert_eq!(t.version(None, action).await.unwrap_err().code.as_str(), "42704");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_go_their_own_way() {
    let mut t = Deployment::with_rows().await;
    let branch = |name: &str, version| VersionAction::CreateBranch { name: name.to_owned(), version };
    t.version(None, branch("exp", None)).await.unwrap();
    assert_eq!(t.version(None, branch("exp", None)).await.unwrap_err().code.as_str(), "42710");
    assert_eq!(t.version(None, branch("main", None)).await.unwrap_err().code.as_str(), "42602");
    assert_eq!(t.version(None, branch("late", Some(99))).await.unwrap_err().code.as_str(), "22023");
    assert_eq!(t.version(Some("nope"), branch("x", None)).await.unwrap_err().code.as_str(), "42704");
    let VersionAnswer::Branches(listed) = t.version(None, VersionAction::Branches).await.unwrap() else { panic!() };
    assert_eq!((listed.len(), listed[0].name.as_str(), listed[0].parent_branch.as_deref()), (1, "exp", None));
    t.sql("DELETE FROM t").await;
    let on = |name: &str| SearchRequest {
        table: ObjectName::bare("t"),
        version: None,
        branch: Some(name.to_owned()),
        search: Search::default(),
    };
    assert_eq!(t.ask(&on("exp"), Answer::Rows).await.unwrap().num_rows(), 6);
    assert_eq!(t.ask(&on("main"), Answer::Rows).await.unwrap().num_rows(), 0);
    assert_eq!(t.ask(&on("nope"), Answer::Rows).await.unwrap_err().code.as_str(), "42704");
    let request = IndexRequest {
        table: ObjectName::bare("t"),
        branch: Some("exp".to_owned()),
        column: "id".to_owned(),
        name: None,
        replace: false,
        spec: IndexRequest::spec("BTREE", json!({}).as_object().unwrap()).unwrap(),
    };
    let plan = t.engine.plan_create_index(&t.session, &request).await.unwrap();
    let plan = t.engine.authorize(&t.session, plan).await.unwrap();
    t.run(&plan).await.unwrap();
    assert_eq!(t.run(&plan).await.unwrap_err().code.as_str(), "42P07", "nothing is replaced");
    for (branch, expected) in [(Some("exp"), 1), (None, 0)] {
        let plan = t.engine.plan_list_indexes(&t.session, &ObjectName::bare("t"), branch, None).await.unwrap();
        let plan = t.engine.authorize(&t.session, plan).await.unwrap();
        assert_eq!(t.engine.indexes(&plan).await.unwrap().len(), expected, "{branch:?}");
    }
    t.version(Some("exp"), VersionAction::CreateTag { tag: "kept".to_owned(), version: 2 }).await.unwrap();
    let drop = || VersionAction::DropBranch { name: "exp".to_owned() };
    assert_eq!(t.version(None, drop()).await.unwrap_err().code.as_str(), "2BP01", "a tag needs it");
    t.version(None, VersionAction::DropTag { tag: "kept".to_owned() }).await.unwrap();
    t.version(None, drop()).await.unwrap();
    assert_eq!(t.version(None, drop()).await.unwrap_err().code.as_str(), "42704");
}
