//! Searches: rows near to vectors, rows with words, rows that match a filter, and
//! how many of them there are, as the client library asks for them.
//!
//! A search is bound like a query: names are looked up, the table is opened at one
//! version, and SELECT is needed on it. A view has rows but no indexes; a search of
//! one is a SELECT over it (see [`view`]).

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::StringArray;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::physical_plan::ExecutionPlan;
use lance::Dataset;
use lance::dataset::refs::Ref;
use lance_core::datatypes::{format_field_path, parse_field_path};
use lance_index::scalar::inverted::query::FtsQueryNode;
use lancegate_auth::{Privilege, Requirement};
use lancegate_catalog::TableKind;
use lancegate_sql::ObjectName;
use lancegate_sql::ast::VersionReference;

use super::query::{QueryPlan, Read};
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::session::Session;
use crate::sql::resolve::{BoundTable, no_relation};
use crate::sql::state::PlannerState;
use crate::sqlstate::SqlState;
use crate::storage::StorageError;
use crate::storage::index;
use crate::storage::provider::{self, hidden_columns, is_system_column};
use crate::storage::search::{self, QUERY_INDEX, SEARCH_COLUMNS};

pub use crate::storage::search::{ApproxMode, Distance, FtsQuery, Ordering, Projection, Search};

mod view;

/// Vectors of one request, at most: each costs a search of its own.
const VECTORS_MAX: usize = 4_096;

/// A search of a table.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// The table or view.
    pub table: ObjectName,
    /// The version; the newest without it.
    pub version: Option<u64>,
    /// The branch; `None` and `main` are the main one.
    pub branch: Option<String>,
    /// What is looked for.
    pub search: Search,
}

/// A question how many rows a table has.
#[derive(Debug, Clone)]
pub struct CountRequest {
    /// The table or view.
    pub table: ObjectName,
    /// The version; the newest without it.
    pub version: Option<u64>,
    /// The branch; `None` and `main` are the main one.
    pub branch: Option<String>,
    /// Only rows that match, as Lance reads SQL.
    pub filter: Option<String>,
}

/// What is answered of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The rows.
    Rows,
    /// The plan, as one text.
    Explain {
        /// Whether operators say all that they know.
        verbose: bool,
    },
    /// The plan with what each operator did, after it ran.
    Analyze,
}

/// A bound search.
#[derive(Clone)]
pub struct SearchPlan {
    /// What is run.
    pub(crate) work: Work,
    /// What of it is answered.
    pub(crate) answer: Answer,
    /// The columns of the rows.
    pub(crate) rows: SchemaRef,
    /// The columns of the answer.
    columns: SchemaRef,
    /// The version that is read; `None` for a view.
    version: Option<u64>,
    reads: Vec<Read>,
    pub(crate) state: Arc<PlannerState>,
}

impl fmt::Debug for SearchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchPlan")
            .field("answer", &self.answer)
            .field("columns", &self.columns)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// What a search runs.
#[derive(Clone)]
pub(crate) enum Work {
    /// A plan of Lance's scanner.
    Scan(Arc<dyn ExecutionPlan>),
    /// A number that the manifest knows.
    Known(RecordBatch),
    /// A query over a view.
    Query(Box<QueryPlan>),
}

impl SearchPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    /// Returns the version of the table that is read; `None` for a view.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// Returns everything that is read.
    pub(crate) fn reads(&self) -> &[Read] {
        &self.reads
    }
}

impl Engine {
    /// Returns a table that its caller may read as it is on a branch.
    ///
    /// # Errors
    /// 42704 for a branch that the table does not have.
    pub async fn on_branch(&self, session: &Session, table: BoundTable, branch: &str) -> Result<BoundTable> {
        Planner::new(self.clone(), session, "", &[]).at(table, Some(branch), None).await
    }

    /// Binds a search; executing it answers its rows.
    ///
    /// # Errors
    /// 42P01; 42703 for a column that does not exist; 22023 and 42601 for a filter,
    /// an expression or a vector that does not fit; 42P18 if it is not clear which column
    /// of vectors is meant; 55000 for words without an index of words; 0A000 for a search
    /// that a view cannot answer.
    pub async fn plan_search(&self, session: &Session, request: &SearchRequest) -> Result<Plan> {
        self.plan_answer(session, request, Answer::Rows).await
    }

    /// Binds a search of which `answer` is told.
    ///
    /// # Errors
    /// As [`Engine::plan_search`].
    pub async fn plan_answer(&self, session: &Session, request: &SearchRequest, answer: Answer) -> Result<Plan> {
        let planner = Planner::new(self.clone(), session, "", &[]);
        let request = request.clone();
        self.runtime().run(async move { Box::pin(planner.search(&request, answer)).await }).await
    }

    /// Binds a question for the number of rows; executing it answers one `bigint`.
    ///
    /// # Errors
    /// As [`Engine::plan_search`].
    pub async fn plan_count(&self, session: &Session, request: &CountRequest) -> Result<Plan> {
        let planner = Planner::new(self.clone(), session, "", &[]);
        let request = request.clone();
        self.runtime().run(async move { Box::pin(planner.count(&request)).await }).await
    }
}

impl Planner {
    async fn search(&self, request: &SearchRequest, answer: Answer) -> Result<Plan> {
        let record = self.find(&request.table).await?.ok_or_else(|| no_relation(&request.table))?;
        if record.kind == TableKind::View {
            let query = self.view_search(request).await?;
            return Ok(self.over_view(query, answer));
        }
        let table = self.open(record).await?;
        let table = self.at(table, request.branch.as_deref(), request.version).await?;
        let search = bind(&table.dataset, &request.search).await?;
        let plan = search::plan(&table.dataset, &search).await.map_err(refused)?;
        Ok(self.scanned(&table, plan, answer))
    }

    async fn count(&self, request: &CountRequest) -> Result<Plan> {
        let record = self.find(&request.table).await?.ok_or_else(|| no_relation(&request.table))?;
        if record.kind == TableKind::View {
            let query = self.view_count(request).await?;
            return Ok(self.over_view(query, Answer::Rows));
        }
        let table = self.open(record).await?;
        let table = self.at(table, request.branch.as_deref(), request.version).await?;
        let columns = Arc::new(Schema::new(vec![Field::new("count", DataType::Int64, false)]));
        let work = match &request.filter {
            Some(filter) => {
                ensure_visible(&table.dataset, filter)?;
                Work::Scan(search::count(&table.dataset, filter).await.map_err(refused)?)
            }
            None => {
                let rows = table.dataset.count_rows(None).await.map_err(StorageError::from)?;
                let rows = arrow::array::Int64Array::from(vec![i64::try_from(rows).unwrap_or(i64::MAX)]);
                Work::Known(RecordBatch::try_new(Arc::clone(&columns), vec![Arc::new(rows)])?)
            }
        };
        let plan = SearchPlan { rows: Arc::clone(&columns), columns, ..self.plan_of(&table, work, Answer::Rows) };
        Ok(Plan::Search(Box::new(plan)))
    }

    fn scanned(&self, table: &BoundTable, plan: Arc<dyn ExecutionPlan>, answer: Answer) -> Plan {
        let rows = Arc::new(provider::shown(&plan.schema()));
        let columns = if answer == Answer::Rows { Arc::clone(&rows) } else { text_column() };
        let plan = SearchPlan { rows, columns, ..self.plan_of(table, Work::Scan(plan), answer) };
        Plan::Search(Box::new(plan))
    }

    fn plan_of(&self, table: &BoundTable, work: Work, answer: Answer) -> SearchPlan {
        let requirement = Requirement::new(Privilege::Select, table.object());
        SearchPlan {
            work,
            answer,
            rows: text_column(),
            columns: text_column(),
            version: Some(table.dataset.version_id()),
            reads: vec![Read { requirement, on_behalf_of: None }],
            state: Arc::clone(self.caller.state(self.engine.state())),
        }
    }

    fn over_view(&self, query: QueryPlan, answer: Answer) -> Plan {
        let rows = Arc::clone(&query.columns);
        Plan::Search(Box::new(SearchPlan {
            answer,
            columns: if answer == Answer::Rows { Arc::clone(&rows) } else { text_column() },
            rows,
            version: None,
            reads: query.reads.clone(),
            state: Arc::clone(&query.state),
            work: Work::Query(Box::new(query)),
        }))
    }

    /// Returns a table on a branch, at a version of it.
    ///
    /// # Errors
    /// 42704 for a branch that the table does not have, 22023 for a version.
    pub(crate) async fn at(&self, table: BoundTable, branch: Option<&str>, version: Option<u64>) -> Result<BoundTable> {
        let Some(branch) = branch.filter(|branch| *branch != "main") else {
            return match version {
                Some(version) => self.at_version(table, &VersionReference::Version(version)).await,
                None => Ok(table),
            };
        };
        let head = table.dataset.checkout_version(Ref::Version(Some(branch.to_owned()), None)).await;
        let head = match head {
            Ok(head) => BoundTable { record: table.record, dataset: Arc::new(head) },
            Err(error) if is_missing(&error) => return Err(no_branch(&table, branch)),
            Err(error) => return Err(StorageError::Lance(error).into()),
        };
        match version {
            Some(version) => self.at_version(head, &VersionReference::Version(version)).await,
            None => Ok(head),
        }
    }
}

/// Returns whether Lance says that there is no such branch, tag or version.
pub(crate) fn is_missing(error: &lance::Error) -> bool {
    matches!(
        error,
        lance::Error::RefNotFound { .. }
            | lance::Error::InvalidRef { .. }
            | lance::Error::VersionNotFound { .. }
            | lance::Error::NotFound { .. }
            | lance::Error::DatasetNotFound { .. }
    )
}

/// Returns a 42704.
pub(crate) fn no_branch(table: &BoundTable, branch: &str) -> SqlError {
    let message = format!("branch \"{branch}\" of table \"{}\" does not exist", table.name());
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn text_column() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8, false)]))
}

/// Returns the one row of a plan's text.
pub(crate) fn text_row(text: &str) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(text_column(), vec![Arc::new(StringArray::from(vec![text]))])?)
}

/// Looks every name of a search up.
async fn bind(dataset: &Arc<Dataset>, asked: &Search) -> Result<Search> {
    let mut bound = asked.clone();
    if bound.vectors.len() > VECTORS_MAX {
        let message = format!("a search takes at most {VECTORS_MAX} vectors");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    if !bound.vectors.is_empty() && bound.full_text.is_some() {
        return Err(SqlError::not_supported("a search is for vectors or for words, not for both at once")
            .hint("Search twice, and merge the rows by _rowid."));
    }
    if !bound.vectors.is_empty() {
        bound.vector_column = Some(vector_column(dataset, asked)?);
        if bound.vectors.len() > 1 && dataset.schema().field(QUERY_INDEX).is_some() {
            let message = format!("column \"{QUERY_INDEX}\" is in the way of a search for several vectors");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    if bound.full_text.is_some() && search::full_text_columns(dataset).await?.is_empty() {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "a search for words needs a full-text index, and the table has none",
        )
        .hint("CREATE INDEX ON <table> USING fts (<column>)."));
    }
    for column in asked.full_text.iter().flat_map(FtsQueryNode::columns) {
        text_column_of(dataset, &column)?;
    }
    match &asked.columns {
        Projection::All => {}
        Projection::Names(names) => names.iter().try_for_each(|name| ensure_column(dataset, name))?,
        Projection::Expressions(expressions) => {
            expressions.iter().try_for_each(|(_, expression)| ensure_visible(dataset, expression))?;
        }
    }
    if let Some(filter) = &asked.filter {
        ensure_visible(dataset, filter)?;
    }
    for key in &asked.order_by {
        if SEARCH_COLUMNS.contains(&key.column.as_str()) || is_system_column(&key.column) {
            return Err(SqlError::not_supported(format!("ordering by \"{}\" is not supported", key.column)));
        }
        ensure_column(dataset, &key.column)?;
    }
    Ok(bound)
}

/// Refuses a column that the table does not have or does not show.
pub(crate) fn ensure_column(dataset: &Dataset, path: &str) -> Result<()> {
    if is_system_column(path) || SEARCH_COLUMNS.contains(&path) {
        return Ok(());
    }
    let found = dataset.schema().resolve_case_insensitive(path);
    let root = found.as_ref().and_then(|fields| fields.first());
    match root {
        Some(root) if !hidden_columns(dataset).contains(&root.name) => Ok(()),
        _ => Err(no_column(path)),
    }
}

/// Looks up a column of words, which may be inside of lists.
fn text_column_of(dataset: &Dataset, path: &str) -> Result<()> {
    Ok(index::text_column(dataset, path).map(drop)?)
}

fn no_column(path: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{path}\" does not exist"))
}

/// Refuses SQL that is not one expression, or names a column that is not shown.
fn ensure_visible(dataset: &Dataset, sql: &str) -> Result<()> {
    let hidden = hidden_columns(dataset);
    match view::words(sql)?.into_iter().find(|word| hidden.iter().any(|name| name.eq_ignore_ascii_case(word))) {
        Some(word) => Err(no_column(&word)),
        None => Ok(()),
    }
}

/// Returns the path of the column of vectors that is meant.
fn vector_column(dataset: &Dataset, search: &Search) -> Result<String> {
    if let Some(column) = &search.vector_column {
        ensure_column(dataset, column)?;
        let found = dataset.schema().resolve_case_insensitive(column).unwrap_or_default();
        let names: Vec<&str> = found.iter().map(|field| field.name.as_str()).collect();
        let path = format_field_path(&names);
        return match found.last() {
            Some(field) if width(&field.data_type()).is_some() => Ok(path),
            _ => Err(SqlError::new(SqlState::DATATYPE_MISMATCH, format!("column \"{column}\" holds no vectors"))),
        };
    }
    let visible = provider::visible_schema(dataset);
    let mut found = Vec::new();
    visible.fields().iter().for_each(|field| collect(field, &mut Vec::new(), &mut found));
    let length = search.vectors.first().map_or(0, Vec::len);
    let fitting: Vec<&(String, usize)> = found.iter().filter(|(_, width)| *width == length).collect();
    let names = |of: &[&(String, usize)]| {
        of.iter().map(|(path, width)| format!("\"{path}\" ({width})")).collect::<Vec<_>>().join(", ")
    };
    match (fitting.as_slice(), found.as_slice()) {
        // What is wrong with the only one is said by its length.
        ([(path, _)], _) | ([], [(path, _)]) => Ok(path.clone()),
        ([], []) => Err(SqlError::new(SqlState::UNDEFINED_COLUMN, "the table has no column of vectors")),
        ([], _) => {
            let message = format!("the table has no column of vectors of {length} elements");
            let all: Vec<&(String, usize)> = found.iter().collect();
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).detail(format!("It has {}.", names(&all))))
        }
        _ => Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, "it is not clear which column of vectors is meant")
            .detail(format!("The table has {}.", names(&fitting)))
            .hint("Name the column.")),
    }
}

/// Returns how long the vectors of a type are.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeList(item, width) => {
            let number = item.data_type().is_floating() || matches!(item.data_type(), DataType::UInt8 | DataType::Int8);
            number.then(|| usize::try_from(*width).unwrap_or(0))
        }
        DataType::List(item) => match item.data_type() {
            vector @ DataType::FixedSizeList(..) => width(vector),
            _ => None,
        },
        _ => None,
    }
}

fn collect(field: &Field, path: &mut Vec<String>, found: &mut Vec<(String, usize)>) {
    path.push(field.name().clone());
    if let Some(width) = width(field.data_type()) {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        found.push((format_field_path(&names), width));
    } else if let DataType::Struct(children) = field.data_type() {
        children.iter().for_each(|child| collect(child, path, found));
    }
    path.pop();
}

/// Maps what Lance says of a search that does not fit the table.
fn refused(error: StorageError) -> SqlError {
    let mapped = SqlError::from(error);
    let message = mapped.message.clone();
    if mapped.code == SqlState::UNDEFINED_COLUMN {
        return mapped;
    }
    if let Some((_, rest)) = message.split_once("No field named ") {
        let end = rest.find(['.', ',', ' ']).unwrap_or(rest.len());
        return no_column(rest[..end].trim_matches(['"', '`']));
    }
    let parse = ["Error parsing statement", "Error tokenizing", "sql parser error", "ParserError"];
    if parse.iter().any(|sign| message.contains(sign)) {
        let detail = message.rsplit_once('(').map_or(message.as_str(), |(_, detail)| detail.trim_end_matches(')'));
        return SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in a filter or an expression")
            .detail(format!("{detail}."));
    }
    mapped
}

/// Returns the names that a Lance path consists of.
fn path_parts(path: &str) -> Vec<String> {
    parse_field_path(path).unwrap_or_else(|_| vec![path.to_owned()])
}
