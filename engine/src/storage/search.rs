//! Searches of one version of a table: rows nearest to vectors, rows that hold
//! words, or rows that match a filter, as a plan of Lance's scanner.
//!
//! A filter and computed columns are SQL as Lance reads it: names as they are
//! stored, backticks around those that need quoting. Columns about the row itself
//! keep Lance's unsigned types here, because the client library looks for those.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, UInt8Array};
use arrow::datatypes::{DataType, Field};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::scalar::ScalarValue;
use lance::Dataset;
use lance::dataset::scanner::{AggregateExpr, ColumnOrdering, Scanner};
use lance::index::DatasetIndexExt;
use lance::index::vector::utils::get_vector_type;
use lance_index::scalar::FullTextSearchQuery;
pub use lance_index::scalar::inverted::query::FtsQuery;
pub use lance_index::vector::ApproxMode;

use super::StorageError;
use super::provider::hidden_columns;

mod cosine;

/// The column that says which of several vectors a row is near to.
pub const QUERY_INDEX: &str = "query_index";
/// Columns that a search adds: how far, how well, which part of the document.
pub const SEARCH_COLUMNS: [&str; 4] = ["_distance", "_score", "_doc_index", QUERY_INDEX];

/// What is looked for in one version of a table, and how.
#[derive(Debug, Clone)]
pub struct Search {
    /// Vectors to be near to; empty for no vector search.
    pub vectors: Vec<Vec<f32>>,
    /// The column of vectors, a Lance path; inferred without it.
    pub vector_column: Option<String>,
    /// How distance is measured; the index's way without it, or `l2`.
    pub distance: Option<Distance>,
    /// The most rows, for each vector; `None` for no limit.
    pub limit: Option<u64>,
    /// Rows passed over first.
    pub offset: Option<u64>,
    /// Which rows, as Lance reads SQL.
    pub filter: Option<String>,
    /// Whether the filter comes before the search, so that `limit` rows match it.
    pub prefilter: bool,
    /// What is answered of a row.
    pub columns: Projection,
    /// Whether `_rowid` is answered, too.
    pub with_row_id: bool,
    /// Partitions of an index that are searched.
    pub nprobes: Option<usize>,
    /// Partitions that are searched in any case.
    pub minimum_nprobes: Option<usize>,
    /// Partitions that are searched at most; 0 for no bound.
    pub maximum_nprobes: Option<usize>,
    /// From 0 to 1: how many partitions at first, instead of [`Self::nprobes`].
    pub search_effort: Option<f64>,
    /// What is computed exactly: this many times `limit` candidates.
    pub refine_factor: Option<u32>,
    /// Candidates that a graph index keeps.
    pub ef: Option<usize>,
    /// Distances from here, inclusive.
    pub lower_bound: Option<f32>,
    /// Distances below.
    pub upper_bound: Option<f32>,
    /// Quantized indexes: fast or accurate.
    pub approx_mode: Option<ApproxMode>,
    /// Whether every vector is compared instead of asking an index.
    pub bypass_vector_index: bool,
    /// Whether only rows that an index covers are searched.
    pub fast_search: bool,
    /// Words to look for.
    pub full_text: Option<FtsQuery>,
    /// The order of the rows; by distance or score without it.
    pub order_by: Vec<Ordering>,
}

/// What a search answers of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Projection {
    /// Every column that users see.
    #[default]
    All,
    /// These columns, among them `_rowid` and its kin.
    Names(Vec<String>),
    /// Names and the expressions that they stand for.
    Expressions(Vec<(String, String)>),
}

/// One key of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordering {
    /// A column of the table.
    pub column: String,
    /// Small values first.
    pub ascending: bool,
    /// NULL before all values.
    pub nulls_first: bool,
}

/// How the distance of two vectors is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Squared Euclidean distance.
    L2,
    /// One minus the cosine of the angle.
    Cosine,
    /// One minus the product.
    Dot,
    /// Bits that differ.
    Hamming,
}

impl Distance {
    /// Returns the name that clients use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::Cosine => "cosine",
            Self::Dot => "dot",
            Self::Hamming => "hamming",
        }
    }

    /// Returns the measure of a name, in any case; `None` for other names.
    pub fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "l2" | "euclidean" => Some(Self::L2),
            "cosine" => Some(Self::Cosine),
            "dot" => Some(Self::Dot),
            "hamming" => Some(Self::Hamming),
            _ => None,
        }
    }
}

impl Default for Search {
    /// All rows, all columns.
    fn default() -> Self {
        Self {
            vectors: Vec::new(),
            vector_column: None,
            distance: None,
            limit: None,
            offset: None,
            filter: None,
            prefilter: true,
            columns: Projection::All,
            with_row_id: false,
            nprobes: None,
            minimum_nprobes: None,
            maximum_nprobes: None,
            search_effort: None,
            refine_factor: None,
            ef: None,
            lower_bound: None,
            upper_bound: None,
            approx_mode: None,
            bypass_vector_index: false,
            fast_search: false,
            full_text: None,
            order_by: Vec::new(),
        }
    }
}

impl Search {
    /// Returns the limit, if it is one: clients send the largest number for none.
    pub fn bound(&self) -> Option<u64> {
        self.limit.filter(|limit| *limit < i64::MAX.cast_unsigned())
    }
}

/// Returns the plan of a search. Every name in it has been looked up before, and
/// [`Search::vector_column`] is set if there are vectors.
///
/// # Errors
/// What Lance reports of filter, expressions and vectors that do not fit.
pub async fn plan(dataset: &Arc<Dataset>, search: &Search) -> Result<Arc<dyn ExecutionPlan>, StorageError> {
    if search.vectors.len() < 2 {
        return one(dataset, search, Key::first(search)).await;
    }
    let column = search.vector_column.as_deref().unwrap_or_default();
    let (vectors, element) = get_vector_type(dataset.schema(), column)?;
    let many = matches!(vectors, DataType::List(_));
    if many || (search.offset.unwrap_or(0) == 0 && element != DataType::UInt8) {
        let key = if many { Key::Many } else { Key::Batch };
        return one(dataset, search, Some(key)).await;
    }
    // Lance takes neither an offset nor bytes for several vectors at once.
    let mut plans = Vec::with_capacity(search.vectors.len());
    for number in 0..search.vectors.len() {
        plans.push(numbered(number, one(dataset, search, Some(Key::Single(number))).await?)?);
    }
    UnionExec::try_new(plans).map_err(external)
}

/// Returns the plan that counts the rows that match a filter, as one `Int64`.
///
/// # Errors
/// As [`plan`].
pub async fn count(dataset: &Arc<Dataset>, filter: &str) -> Result<Arc<dyn ExecutionPlan>, StorageError> {
    let mut scanner = dataset.scan();
    scanner.filter(filter)?;
    scanner.aggregate(AggregateExpr::builder().count_star().build())?;
    Ok(scanner.create_plan().await?)
}

/// Returns the columns with an index of words, by path.
///
/// # Errors
/// What Lance reports.
pub async fn full_text_columns(dataset: &Dataset) -> Result<Vec<String>, StorageError> {
    let described = dataset.describe_indices(None).await?;
    let words = described.iter().filter(|index| index.type_url().ends_with("InvertedIndexDetails"));
    let mut columns: Vec<String> = words
        .flat_map(|index| index.field_ids().iter().copied())
        .filter_map(|id| dataset.schema().field_path(i32::try_from(id).ok()?).ok())
        .collect();
    columns.sort();
    columns.dedup();
    Ok(columns)
}

/// Which of the vectors one plan of Lance is for.
#[derive(Debug, Clone, Copy)]
enum Key {
    /// The one at this place.
    Single(usize),
    /// All, each for itself.
    Batch,
    /// All together, for a column with several vectors in each row.
    Many,
}

impl Key {
    fn first(search: &Search) -> Option<Self> {
        (!search.vectors.is_empty()).then_some(Self::Single(0))
    }
}

async fn one(
    dataset: &Arc<Dataset>,
    search: &Search,
    key: Option<Key>,
) -> Result<Arc<dyn ExecutionPlan>, StorageError> {
    let mut scanner = dataset.scan();
    if let Some(key) = key {
        nearest(&mut scanner, dataset, search, key).await?;
    }
    scanner.prefilter(search.prefilter);
    // For several vectors the limit is that of each, which `nearest` has set.
    if !matches!(key, Some(Key::Batch)) {
        let offset = search.offset.map(|offset| i64::try_from(offset).unwrap_or(i64::MAX));
        // Lance adds the two.
        let most = i64::MAX - offset.unwrap_or(0);
        let limit = search.bound().map(|limit| i64::try_from(limit).unwrap_or(i64::MAX).min(most));
        scanner.limit(limit, offset)?;
    }
    match &search.columns {
        Projection::All => {
            let hidden = hidden_columns(dataset);
            if !hidden.is_empty() {
                let fields = &dataset.schema().fields;
                let names = fields.iter().map(|field| &field.name).filter(|name| !hidden.contains(*name));
                scanner.project(&names.map(|name| quoted(name)).collect::<Vec<_>>())?;
            }
        }
        Projection::Names(names) => {
            scanner.project(names)?;
        }
        Projection::Expressions(expressions) => {
            scanner.project_with_transform(expressions)?;
        }
    }
    if search.with_row_id {
        scanner.with_row_id();
    }
    if search.fast_search {
        scanner.fast_search();
    }
    if let Some(filter) = &search.filter {
        scanner.filter(filter)?;
    }
    if let Some(query) = &search.full_text {
        scanner.full_text_search(FullTextSearchQuery::new_query(query.clone()))?;
    }
    if !search.order_by.is_empty() {
        let ordering = search.order_by.iter().map(|key| ColumnOrdering {
            ascending: key.ascending,
            nulls_first: key.nulls_first,
            column_name: key.column.clone(),
        });
        scanner.order_by(Some(ordering.collect()))?;
    }
    let plan = scanner.create_plan().await?;
    if key.is_none() {
        return Ok(plan);
    }
    cosine::rescaled(plan, &mut scanner, (search.lower_bound, search.upper_bound)).await
}

async fn nearest(scanner: &mut Scanner, dataset: &Dataset, search: &Search, key: Key) -> Result<(), StorageError> {
    let column = search.vector_column.as_deref().unwrap_or_default();
    let (_, element) = get_vector_type(dataset.schema(), column)?;
    // Lance makes room for this many candidates.
    let rows = dataset.count_rows(None).await?.max(1);
    let limit = search.bound().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let offset = usize::try_from(search.offset.unwrap_or(0)).unwrap_or(usize::MAX);
    let candidates = if limit == 0 { 0 } else { limit.saturating_add(offset).min(rows) };
    let vector = vector(search, key, &element)?;
    scanner.nearest(column, vector.as_ref(), candidates)?;
    match (search.search_effort, search.nprobes) {
        (None, Some(probes)) if search.maximum_nprobes == Some(0) => scanner.minimum_nprobes(probes),
        (None, Some(probes)) => scanner.nprobes(probes),
        _ => scanner,
    };
    if let Some(probes) = search.minimum_nprobes {
        scanner.minimum_nprobes(probes);
    }
    if let Some(probes) = search.maximum_nprobes.filter(|probes| *probes > 0) {
        scanner.maximum_nprobes(probes);
    }
    if let Some(effort) = search.search_effort {
        scanner.search_effort(effort)?;
    }
    if let Some(mode) = search.approx_mode {
        scanner.approx_mode(mode);
    }
    if let Some(ef) = search.ef {
        scanner.ef(ef);
    }
    if let Some(factor) = search.refine_factor {
        scanner.refine(factor);
    }
    if let Some(distance) = search.distance {
        scanner.distance_metric(distance.as_str().try_into().map_err(invalid)?);
    }
    scanner.distance_range(search.lower_bound, search.upper_bound);
    scanner.use_index(!search.bypass_vector_index);
    Ok(())
}

fn vector(search: &Search, key: Key, element: &DataType) -> Result<ArrayRef, StorageError> {
    let of = |vector: &[f32]| -> Result<ArrayRef, StorageError> {
        if *element == DataType::UInt8 {
            return Ok(Arc::new(UInt8Array::from(bytes(vector)?)));
        }
        Ok(Arc::new(Float32Array::from(vector.to_vec())))
    };
    if let Key::Single(number) = key {
        return of(search.vectors.get(number).map(Vec::as_slice).unwrap_or_default());
    }
    let length = search.vectors.first().map_or(0, Vec::len);
    if let Some(other) = search.vectors.iter().position(|vector| vector.len() != length) {
        let found = search.vectors[other].len();
        return Err(invalid(format!("query vector {other} has {found} elements, the first one has {length}")));
    }
    let values: Vec<f32> = search.vectors.iter().flatten().copied().collect();
    let size = i32::try_from(length).map_err(invalid)?;
    let values = of(&values)?;
    let item = Arc::new(Field::new("item", values.data_type().clone(), true));
    Ok(Arc::new(FixedSizeListArray::try_new(item, size, values, None).map_err(invalid)?))
}

fn bytes(vector: &[f32]) -> Result<Vec<u8>, StorageError> {
    let byte = |value: &f32| {
        let fits = value.fract() == 0.0 && (0.0..=255.0).contains(value);
        // Within range and whole, so nothing is lost.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked right here")]
        fits.then_some(*value as u8).ok_or_else(|| invalid(format!("{value} is not a byte of a binary vector")))
    };
    vector.iter().map(byte).collect()
}

/// Puts the number of a vector in front of its rows.
fn numbered(number: usize, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, StorageError> {
    let number = ScalarValue::Int32(i32::try_from(number).ok());
    let mut columns = vec![(Arc::new(Literal::new(number)) as Arc<dyn PhysicalExpr>, QUERY_INDEX.to_owned())];
    columns.extend(plan.schema().fields().iter().enumerate().map(|(index, field)| {
        (Arc::new(Column::new(field.name(), index)) as Arc<dyn PhysicalExpr>, field.name().clone())
    }));
    Ok(Arc::new(ProjectionExec::try_new(columns, plan).map_err(external)?))
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn invalid(error: impl std::fmt::Display) -> StorageError {
    StorageError::Lance(lance::Error::invalid_input(error.to_string()))
}

fn external(error: DataFusionError) -> StorageError {
    StorageError::Lance(error.into())
}
