//! The refresh engine against a model that a reader can check by eye.
//!
//! Random histories of appends, updates of the input and of another column,
//! merges, deletes, compactions, restores, branches, columns and inputs that are
//! dropped and made again under their names, changed definitions, filtered and
//! unfiltered refreshes, abandoned attempts, lost and damaged records, refreshes of
//! a second column that reads the first and of a field inside a struct run on a real
//! table and on [`Model`]. After every refresh the number of rows computed must be
//! exactly the model's, and after every step so must every value. The seed of a
//! failing history is in the message; `LANCEGATE_MODEL_SEED` replays one (with
//! `LANCEGATE_MODEL_STEPS` of `LANCEGATE_MODEL_KINDS`, 17 for seeds from before there were more),
//! `LANCEGATE_MODEL_HISTORIES` runs more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchIterator, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use chrono::Utc;
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::optimize::{CompactionOptions, compact_files};
use lance::dataset::{
    MergeInsertBuilder, MergeInsertWriteMode, NewColumnTransform, UpdateBuilder, WhenMatched, WhenNotMatched,
    WriteMode, WriteParams,
};
use lancegate_catalog::{Catalog, GatewayId, JobKind, NewJob};
use lancegate_engine::refresh::{self, FunctionHost, Ledger, Limits, Progress, RefreshOutcome, RefreshSpec};
use lancegate_engine::storage::{Store, computed};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_util::sync::CancellationToken;

/// A stored value, the input that it is current for, if anything is known of it,
/// and by which definition.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Cell {
    value: Option<i64>,
    from: Option<Option<i64>>,
    by: i64,
}

impl Cell {
    fn is_due(self, input: Option<i64>, by: i64) -> bool {
        self.from != Some(input) || self.by != by
    }

    fn compute(&mut self, input: Option<i64>, by: i64, value: impl Fn(i64) -> Option<i64>) {
        *self = Self { value: input.and_then(value), from: Some(input), by };
    }

    fn forget(&mut self) {
        self.from = None;
    }
}

/// One row: its input, a column that no expression reads, `y`, `z` that reads `y`,
/// and the field `s.n`, which reads `x` and its sibling `s.a`.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    x: Option<i64>,
    other: i64,
    y: Cell,
    z: Cell,
    n: Cell,
}

impl Row {
    fn new(x: Option<i64>, other: i64) -> Self {
        Self { x, other, y: Cell::default(), z: Cell::default(), n: Cell::default() }
    }

    fn z_is_due(&self) -> bool {
        self.z.is_due(self.y.value, 0)
    }

    fn n_is_due(&self) -> bool {
        self.n.is_due(self.x, 0)
    }
}

/// `s.a` of a row; some rows have no struct, and so no field in it.
fn a_of(id: i64) -> Option<i64> {
    (id % 5 != 0).then_some(id * 10)
}

/// The rows by their `id`, and `y`'s definition: `x * <factor> + 1`.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    rows: BTreeMap<i64, Row>,
    factor: i64,
}

impl Model {
    fn new() -> Self {
        Self { rows: BTreeMap::new(), factor: 2 }
    }

    fn y_is_due(&self) -> bool {
        self.rows.values().any(|row| row.y.is_due(row.x, self.factor))
    }

    /// Computes the rows of `y` that are due and returns how many there were.
    fn refresh_due_y(&mut self) -> u64 {
        let factor = self.factor;
        self.refresh_y(|_, row| row.y.is_due(row.x, factor))
    }

    fn refresh_y(&mut self, selects: impl Fn(i64, &Row) -> bool) -> u64 {
        let factor = self.factor;
        let computed = self.refresh(selects, |_, row| row.y.compute(row.x, factor, |x| Some(x * factor + 1)));
        if computed > 0 {
            // The new record is of this definition, and nothing is known by another.
            self.rows.values_mut().filter(|row| row.y.by != factor).for_each(|row| row.y.forget());
        }
        computed
    }

    fn refresh_z(&mut self) -> u64 {
        self.refresh(|_, row| row.z_is_due(), |_, row| row.z.compute(row.y.value, 0, |y| Some(y - 3)))
    }

    fn refresh_n(&mut self, selects: impl Fn(i64, &Row) -> bool) -> u64 {
        self.refresh(selects, |id, row| row.n.compute(row.x, 0, |x| a_of(id).map(|a| a + x)))
    }

    fn refresh(&mut self, selects: impl Fn(i64, &Row) -> bool, compute: impl Fn(i64, &mut Row)) -> u64 {
        let mut computed = 0;
        for (id, row) in &mut self.rows {
            if selects(*id, row) {
                compute(*id, row);
                computed += 1;
            }
        }
        computed
    }
}

fn declaration(name: &str, expression: &str, inputs: &[&str]) -> computed::Declaration {
    computed::Declaration {
        name: name.to_owned(),
        data_type: DataType::Int64,
        expression: expression.to_owned(),
        function: None,
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        auto_refresh_enabled: None,
        auto_refresh_interval_seconds: None,
    }
}

fn declaration_of_y(factor: i64) -> computed::Declaration {
    declaration("y", &format!("x * {factor} + 1"), &["x"])
}

struct Table {
    _folder: tempfile::TempDir,
    store: Store,
    catalog: Catalog,
    spec: RefreshSpec,
    next_id: i64,
}

impl Table {
    async fn create() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_str().unwrap()).unwrap();
        let catalog = Catalog::open_sqlite(&folder.path().join("metadata.db")).await.unwrap();
        let spec = RefreshSpec {
            location: "t.lance".to_owned(),
            column: "y".to_owned(),
            field_id: None,
            predicate: None,
            branch: None,
            num_workers: None,
            function: None,
        };
        let table = Self { _folder: folder, store, catalog, spec, next_id: 0 };
        let params = WriteParams {
            enable_stable_row_ids: true,
            data_storage_version: Some(lance_file::version::LanceFileVersion::V2_1),
            ..WriteParams::default()
        };
        let empty = batch(&[], false);
        let reader = RecordBatchIterator::new([Ok(empty.clone())], empty.schema());
        let dataset = Dataset::write(reader, &table.uri(), Some(params)).await.unwrap();
        let declared =
            [declaration_of_y(2), declaration("z", "y - 3", &["y"]), declaration("s.n", "s.a + x", &["s.a", "x"])];
        computed::declare(&dataset, &declared).await.unwrap();
        table
    }

    fn uri(&self) -> String {
        self.store.uri(&self.spec.location)
    }

    async fn open(&self) -> Dataset {
        self.store.open(&self.spec.location).await.unwrap().as_ref().clone()
    }

    async fn append(&mut self, model: &mut Model, rows: usize, random: &mut StdRng) {
        let rows: Vec<(i64, Option<i64>, i64)> = (0..rows)
            .map(|_| {
                self.next_id += 1;
                (self.next_id, random.random_bool(0.9).then(|| random.random_range(-50..50)), 0)
            })
            .collect();
        let data = batch(&rows, true);
        let params = WriteParams { mode: WriteMode::Append, max_rows_per_file: 7, ..WriteParams::default() };
        let reader = RecordBatchIterator::new([Ok(data.clone())], data.schema());
        Dataset::write(reader, &self.uri(), Some(params)).await.unwrap();
        model.rows.extend(rows.into_iter().map(|(id, x, other)| (id, Row::new(x, other))));
    }

    async fn update(&self, column: &str, value: &str, modulus: i64, rest: i64) {
        Self::update_in(self.open().await, column, value, modulus, rest).await;
    }

    async fn update_in(dataset: Dataset, column: &str, value: &str, modulus: i64, rest: i64) {
        let dataset = Arc::new(dataset);
        let update = UpdateBuilder::new(dataset).update_where(&format!("id % {modulus} = {rest}")).unwrap();
        update.set(column, value).unwrap().build().unwrap().execute().await.unwrap();
    }

    /// Sets `x` of rows by a merge of the columns `id` and `x`, in place or by
    /// moving the rows.
    async fn merge(&self, rows: &[(i64, Option<i64>)], mode: MergeInsertWriteMode) {
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("x", DataType::Int64, true)]);
        let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
        let inputs: Int64Array = rows.iter().map(|row| row.1).collect();
        let data = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(inputs)]).unwrap();
        let reader = RecordBatchIterator::new([Ok(data.clone())], data.schema());
        let mut merge = MergeInsertBuilder::try_new(Arc::new(self.open().await), vec!["id".to_owned()]).unwrap();
        merge.when_matched(WhenMatched::UpdateAll).when_not_matched(WhenNotMatched::DoNothing).write_mode(mode);
        merge.try_build().unwrap().execute_reader(reader).await.unwrap();
    }

    /// Drops a column and makes it again under its name. Returns whether it has another field id:
    /// Lance gives out again what no file of the table has ever held.
    async fn replace(&self, column: &str, factor: i64) -> bool {
        let mut dataset = self.open().await;
        let before = dataset.schema().field(column).unwrap().id;
        dataset.drop_columns(&[column]).await.unwrap();
        match column {
            "x" => {
                let field = Field::new("x", DataType::Int64, true);
                let empty = NewColumnTransform::AllNulls(Arc::new(Schema::new(vec![field])));
                dataset.add_columns(empty, None, None).await.unwrap();
            }
            "y" => drop(computed::declare(&dataset, &[declaration_of_y(factor)]).await.unwrap()),
            other => panic!("{other} is not replaced"),
        }
        self.open().await.schema().field(column).unwrap().id != before
    }

    /// Changes what `y` is computed by, as another program may.
    async fn define(&self, factor: i64) {
        let mut dataset = self.open().await;
        let entry = [("computed_column.expression", declaration_of_y(factor).expression)];
        let entries = entry.iter().map(|(key, value)| (*key, value.as_str()));
        dataset.update_field_metadata().update("y", entries).unwrap().await.unwrap();
    }

    async fn restore(&self, version: u64) {
        let mut dataset = self.open().await.checkout_version(version).await.unwrap();
        dataset.restore().await.unwrap();
    }

    /// Removes the records, or damages them.
    fn lose_records(&self, damage: bool) {
        let folder = format!("{}/_lancegate", self.uri());
        for file in std::fs::read_dir(folder).into_iter().flatten() {
            let path = file.unwrap().path();
            if damage {
                let mut bytes = std::fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                std::fs::write(path, bytes).unwrap();
            } else {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    async fn compact(&self) {
        self.try_compact().await.unwrap();
    }

    async fn try_compact(&self) -> lance::Result<()> {
        let mut dataset = self.open().await;
        let options = CompactionOptions { target_rows_per_fragment: 20, ..CompactionOptions::default() };
        compact_files(&mut dataset, options, None).await.map(drop)
    }

    /// Runs an unfiltered refresh that may fail.
    async fn try_refresh(&self) -> Result<RefreshOutcome, refresh::RefreshError> {
        let job = NewJob::new(JobKind::ComputedRefresh, "lancegate", "t", "lancegate");
        let job = self.catalog.submit(job, Utc::now()).await.unwrap();
        let gateway = GatewayId::new(Utc::now());
        let claimed = self.catalog.claim(job.id, &gateway, Duration::from_secs(60), Utc::now()).await.unwrap();
        let ledger = Ledger::new(self.catalog.clone(), job.id, claimed.epoch);
        let limits = Limits { workers: 2, publish_fragments: 2, publish_interval: Duration::from_secs(10) };
        let progress = Arc::new(Progress::new(CancellationToken::new()));
        refresh::run(&self.store, &self.spec, &ledger, progress, limits, &FunctionHost::none()).await
    }

    /// Runs a refresh; `abandon_after` drops the first attempt at that point, as
    /// a killed process would, and lets a second one take the job over.
    async fn refresh(&self, predicate: Option<&str>, abandon_after: Option<Duration>) -> (RefreshOutcome, u64) {
        let spec = RefreshSpec { predicate: predicate.map(str::to_owned), ..self.spec.clone() };
        let (outcome, computed) = self.run(spec, abandon_after).await;
        (outcome.unwrap(), computed)
    }

    async fn run(
        &self,
        spec: RefreshSpec,
        abandon_after: Option<Duration>,
    ) -> (Result<RefreshOutcome, refresh::RefreshError>, u64) {
        let job = NewJob::new(JobKind::ComputedRefresh, "lancegate", "t", "lancegate");
        let job = self.catalog.submit(job, Utc::now()).await.unwrap();
        let limits = Limits { workers: 2, publish_fragments: 2, publish_interval: Duration::from_secs(10) };
        let gateway = GatewayId::new(Utc::now());
        let claimed = self.catalog.claim(job.id, &gateway, Duration::ZERO, Utc::now()).await.unwrap();
        let ledger = Ledger::new(self.catalog.clone(), job.id, claimed.epoch);
        let attempt = |ledger: Ledger| {
            let (store, spec) = (self.store.clone(), spec.clone());
            async move {
                let progress = Arc::new(Progress::new(CancellationToken::new()));
                let outcome =
                    refresh::run(&store, &spec, &ledger, Arc::clone(&progress), limits, &FunctionHost::none()).await;
                (outcome, progress.sample().rows_computed)
            }
        };
        let mut ledger = ledger;
        if let Some(after) = abandon_after {
            match tokio::time::timeout(after, attempt(ledger.clone())).await {
                Ok(done) => return done,
                Err(_) => {
                    let again = self.catalog.claim(job.id, &gateway, Duration::ZERO, Utc::now()).await.unwrap();
                    ledger = Ledger::new(self.catalog.clone(), job.id, again.epoch);
                }
            }
        }
        attempt(ledger).await
    }

    async fn values(&self) -> Values {
        values(&self.open().await).await
    }
}

/// `x`, `y`, `z` and `s.n` by `id`.
type Values = BTreeMap<i64, [Option<i64>; 4]>;

async fn values(dataset: &Dataset) -> Values {
    let mut scanner = dataset.scan();
    scanner.project(&["id", "x", "y", "z", "s"]).unwrap();
    let batches: Vec<RecordBatch> = scanner.try_into_stream().await.unwrap().try_collect().await.unwrap();
    let mut rows = BTreeMap::new();
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().clone();
        let columns = ["x", "y", "z"].map(column);
        let s = batch.column_by_name("s").unwrap().as_struct().clone();
        let n = s.column_by_name("n").unwrap().as_primitive::<Int64Type>().clone();
        for (row, id) in column("id").values().iter().enumerate() {
            let value = |column: &Int64Array| column.is_valid(row).then(|| column.value(row));
            assert_eq!(s.is_valid(row), a_of(*id).is_some(), "the struct of row {id}");
            let n = if s.is_valid(row) { value(&n) } else { None };
            assert!(rows.insert(*id, [value(&columns[0]), value(&columns[1]), value(&columns[2]), n]).is_none());
        }
    }
    rows
}

/// Makes rows as they are given; `s` has the computed field once it is declared.
fn batch(rows: &[(i64, Option<i64>, i64)], declared: bool) -> RecordBatch {
    let integer = |name: &str| Field::new(name, DataType::Int64, true);
    let a: Int64Array = rows.iter().map(|row| a_of(row.0)).collect();
    let mut inside: Vec<(FieldRef, ArrayRef)> = vec![(Arc::new(integer("a")), Arc::new(a.clone()))];
    if declared {
        inside.push((Arc::new(integer("n")), Arc::new(Int64Array::new_null(rows.len()))));
    }
    let (fields, arrays): (Vec<_>, Vec<_>) = inside.into_iter().unzip();
    let s = StructArray::new(fields.into(), arrays, a.nulls().cloned());
    let schema =
        Schema::new(vec![integer("id"), integer("x"), integer("other"), Field::new("s", s.data_type().clone(), true)]);
    let columns = (
        Int64Array::from_iter_values(rows.iter().map(|row| row.0)),
        rows.iter().map(|row| row.1).collect::<Int64Array>(),
        Int64Array::from_iter_values(rows.iter().map(|row| row.2)),
    );
    let columns: Vec<ArrayRef> = vec![Arc::new(columns.0), Arc::new(columns.1), Arc::new(columns.2), Arc::new(s)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn expected(model: &Model) -> Values {
    model.rows.iter().map(|(id, row)| (*id, [row.x, row.y.value, row.z.value, row.n.value])).collect()
}

/// Kinds of steps; the first 17 are those that there were first.
const KINDS: u32 = 24;

/// The number that an environment variable holds.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

async fn history(seed: u64, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut table = Table::create().await;
    let mut model = Model::new();
    let mut trace = Vec::new();
    // What a restore may go back to.
    let mut past: Vec<(u64, Model)> = Vec::new();
    // Whether the record of `z`, and of `s.n`, was lost since its last refresh: then
    // more rows may be computed than the model asks for.
    let (mut z_lost, mut n_lost) = (false, false);
    let kinds = number("LANCEGATE_MODEL_KINDS").map_or(KINDS, |kinds| u32::try_from(kinds).unwrap());
    for step in 0..steps {
        let (modulus, rest) = (random.random_range(2..7), random.random_range(0..2));
        let hit = |id: i64| id % modulus == rest;
        match random.random_range(0..kinds) {
            0 | 1 => {
                let rows = random.random_range(1..25);
                trace.push(format!("append {rows}"));
                table.append(&mut model, rows, &mut random).await;
            }
            2 => {
                trace.push(format!("update x where id % {modulus} = {rest}"));
                table.update("x", "x + 1", modulus, rest).await;
                model.rows.iter_mut().filter(|(id, _)| hit(**id)).for_each(|(_, row)| row.x = row.x.map(|x| x + 1));
            }
            3 => {
                trace.push(format!("update other where id % {modulus} = {rest}"));
                table.update("other", "other + 1", modulus, rest).await;
                model.rows.iter_mut().filter(|(id, _)| hit(**id)).for_each(|(_, row)| row.other += 1);
            }
            4 => {
                trace.push(format!("delete where id % {} = {rest}", modulus * 3));
                let mut dataset = table.open().await;
                dataset.delete(&format!("id % {} = {rest}", modulus * 3)).await.unwrap();
                model.rows.retain(|id, _| id % (modulus * 3) != rest);
            }
            5 => {
                trace.push("compact".to_owned());
                table.compact().await;
            }
            6 => {
                trace.push(format!("refresh where id % {modulus} = {rest}"));
                let (outcome, _) = table.refresh(Some(&format!("id % {modulus} = {rest}")), None).await;
                let due = model.refresh_y(|id, _| hit(id));
                assert_eq!(outcome.rows_assigned, due, "seed {seed}: {trace:#?}");
            }
            7 => {
                let after = Duration::from_micros(random.random_range(100..40_000));
                trace.push(format!("refresh, abandoned after {after:?}"));
                let (outcome, _) = table.refresh(None, Some(after)).await;
                model.refresh_due_y();
                assert_eq!(outcome.rows_remaining, 0, "seed {seed}: {trace:#?}");
            }
            8 | 9 => {
                trace.push("refresh z".to_owned());
                let spec = RefreshSpec { column: "z".to_owned(), ..table.spec.clone() };
                let (outcome, computed) = table.run(spec, None).await;
                if model.y_is_due() {
                    let refused =
                        matches!(&outcome, Err(refresh::RefreshError::InputNotRefreshed { input, .. }) if input == "y");
                    assert!(refused && computed == 0, "seed {seed}: {outcome:?} {trace:#?}");
                } else {
                    let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error} {trace:#?}"));
                    let due = model.refresh_z();
                    assert_eq!(
                        (outcome.rows_assigned, outcome.rows_remaining),
                        (computed, 0),
                        "seed {seed}: {trace:#?}"
                    );
                    assert!(
                        computed == due || (z_lost && computed > due),
                        "seed {seed}: {computed} for {due} {trace:#?}"
                    );
                    z_lost = false;
                }
            }
            10 if !past.is_empty() => {
                let (version, then) = past[random.random_range(0..past.len())].clone();
                trace.push(format!("restore version {version}"));
                table.restore(version).await;
                model = then;
            }
            11 => {
                let mode = if random.random() {
                    MergeInsertWriteMode::RewriteColumns
                } else {
                    MergeInsertWriteMode::RewriteRows
                };
                trace.push(format!("merge x where id % {modulus} = {rest}, {mode:?}"));
                let hits = model.rows.iter_mut().filter(|(id, _)| hit(**id));
                let rows: Vec<(i64, Option<i64>)> = hits
                    .map(|(id, row)| {
                        row.x = row.x.map_or(Some(7), |x| Some(x + i64::from(id % 2 == 0)));
                        (*id, row.x)
                    })
                    .collect();
                if !rows.is_empty() {
                    table.merge(&rows, mode).await;
                }
            }
            12 => {
                trace.push("refresh on a branch".to_owned());
                let name = format!("b{step}");
                let mut main = table.open().await;
                let version = main.version_id();
                let branch = main.create_branch(&name, version, None).await.unwrap();
                Table::update_in(branch, "x", "x + 100", modulus, rest).await;
                let mut there = model.clone();
                there.rows.iter_mut().filter(|(id, _)| hit(**id)).for_each(|(_, row)| row.x = row.x.map(|x| x + 100));
                let spec = RefreshSpec { branch: Some(name.clone()), ..table.spec.clone() };
                let (outcome, computed) = table.run(spec, None).await;
                let due = there.refresh_due_y();
                assert_eq!((outcome.unwrap().rows_assigned, computed), (due, due), "seed {seed}: {trace:#?}");
                let found = values(&main.checkout_branch(&name).await.unwrap()).await;
                assert_eq!(found, expected(&there), "seed {seed}: on the branch {trace:#?}");
            }
            13 => {
                trace.push("refresh, killed before its record".to_owned());
                let (outcome, _) = table.refresh(None, None).await;
                model.refresh_due_y();
                // The version of the values is the table as the kill leaves it.
                if let Some(version) = outcome.published_version {
                    table.restore(version).await;
                }
                let (outcome, _) = table.refresh(None, None).await;
                assert_eq!(outcome.rows_remaining, 0, "seed {seed}: {trace:#?}");
            }
            14 if !model.rows.is_empty() => {
                let damage = random.random();
                trace.push(format!("refresh, records lost (damaged: {damage}), refresh"));
                table.refresh(None, None).await;
                table.lose_records(damage);
                let (outcome, computed) = table.refresh(None, None).await;
                model.refresh_due_y();
                let all = model.rows.len() as u64;
                assert_eq!((outcome.rows_assigned, computed), (all, all), "seed {seed}: {trace:#?}");
                // Their records are gone, too.
                past.clear();
                (z_lost, n_lost) = (true, true);
            }
            17 | 18 => {
                let filtered = random.random_range(0..3) == 0;
                let predicate = filtered.then(|| format!("id % {modulus} = {rest}"));
                trace.push(format!("refresh s.n where {predicate:?}"));
                let spec = RefreshSpec { column: "s.n".to_owned(), predicate, ..table.spec.clone() };
                let (outcome, computed) = table.run(spec, None).await;
                let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error} {trace:#?}"));
                let due =
                    if filtered { model.refresh_n(|id, _| hit(id)) } else { model.refresh_n(|_, row| row.n_is_due()) };
                assert_eq!(outcome.rows_assigned, computed, "seed {seed}: {trace:#?}");
                let more = n_lost && !filtered && computed > due;
                assert!(computed == due || more, "seed {seed}: {computed} for {due} {trace:#?}");
                if !filtered {
                    assert_eq!(outcome.rows_remaining, 0, "seed {seed}: {trace:#?}");
                    // What was computed though it was current is what it was.
                    model.refresh_n(|_, _| true);
                    n_lost = false;
                }
            }
            19 => {
                trace.push("drop and add y".to_owned());
                table.replace("y", model.factor).await;
                for row in model.rows.values_mut() {
                    row.y = Cell::default();
                    // It reads another column now.
                    row.z.forget();
                }
            }
            20 => {
                trace.push("drop and add x".to_owned());
                let is_another = table.replace("x", model.factor).await;
                for row in model.rows.values_mut() {
                    row.x = None;
                    // Else it is the same column, without its values: what was NULL still is.
                    if is_another {
                        row.y.forget();
                        row.n.forget();
                    }
                }
            }
            21 => {
                model.factor = random.random_range(2..6);
                trace.push(format!("define y AS x * {} + 1", model.factor));
                table.define(model.factor).await;
            }
            22 => {
                let after = Duration::from_micros(random.random_range(100..40_000));
                trace.push(format!("refresh s.n, abandoned after {after:?}"));
                let spec = RefreshSpec { column: "s.n".to_owned(), ..table.spec.clone() };
                let (outcome, _) = table.run(spec, Some(after)).await;
                let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error} {trace:#?}"));
                model.refresh_n(|_, row| row.n_is_due());
                assert_eq!(outcome.rows_remaining, 0, "seed {seed}: {trace:#?}");
                n_lost = false;
            }
            _ => {
                trace.push("refresh".to_owned());
                let (outcome, computed) = table.refresh(None, None).await;
                let due = model.refresh_due_y();
                assert_eq!(outcome.rows_assigned, due, "seed {seed}: {trace:#?}");
                assert_eq!((computed, outcome.rows_remaining), (due, 0), "seed {seed}: {trace:#?}");
                assert_eq!(outcome.published_version.is_some(), due > 0, "seed {seed}: {trace:#?}");
            }
        }
        assert_eq!(table.values().await, expected(&model), "seed {seed}: {trace:#?}");
        if !z_lost && !n_lost {
            past.push((table.open().await.version_id(), model.clone()));
        }
    }
}

/// RC-02, RC-03, RC-04, RC-05, RC-12: see the module documentation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rc_02_every_history_computes_exactly_the_rows_that_it_must() {
    let steps = number("LANCEGATE_MODEL_STEPS").map(|steps| usize::try_from(steps).unwrap());
    if let Some(seed) = number("LANCEGATE_MODEL_SEED") {
        return history(seed, steps.unwrap_or(40)).await;
    }
    let histories = number("LANCEGATE_MODEL_HISTORIES").unwrap_or(40);
    let first = rand::random::<u32>().into();
    eprintln!("model: {histories} histories from seed {first}");
    for seed in first..first + histories {
        history(seed, steps.unwrap_or(16)).await;
    }
    eprintln!("model: {histories} histories from seed {first}, zero differences");
}

/// RC-15: appends, deletes, updates and compactions beside refreshes of an
/// expression column never fail one, lose a row or leave a wrong value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rc_15_concurrent_writes_never_fail_a_refresh_or_lose_a_row() {
    let seed = rand::random::<u32>().into();
    let mut random = StdRng::seed_from_u64(seed);
    let mut table = Table::create().await;
    let mut model = Model::new();
    table.append(&mut model, 400, &mut random).await;
    let refreshed = async {
        for round in 0..12 {
            let outcome = table.try_refresh().await;
            outcome.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        }
    };
    let written = async {
        for round in 0..12 {
            match random.random_range(0..4) {
                0 => table.update("x", "x + 1", 5, round % 5).await,
                1 => table.update("other", "other + 1", 3, round % 3).await,
                2 => drop(table.open().await.delete(&format!("id = {}", round * 7 + 1)).await.unwrap()),
                // Losing a race is the compaction's own risk.
                _ => drop(table.try_compact().await),
            }
        }
    };
    tokio::join!(refreshed, written);
    let (outcome, _) = table.refresh(None, None).await;
    assert_eq!(outcome.rows_remaining, 0, "seed {seed}");
    let (outcome, computed) = table.refresh(None, None).await;
    assert_eq!((outcome.rows_assigned, computed), (0, 0), "seed {seed}");
    for (id, [x, y, ..]) in table.values().await {
        assert_eq!(y, x.map(|x| x * 2 + 1), "seed {seed}, row {id}");
    }
}

/// Records that no version names are removed once there are more of them than
/// versions; those that main or a branch names stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unnamed_records_are_removed_and_named_ones_stay() {
    let mut table = Table::create().await;
    let mut model = Model::new();
    table.append(&mut model, 5, &mut StdRng::seed_from_u64(1)).await;
    table.refresh(None, None).await;
    let mut main = table.open().await;
    let version = main.version_id();
    main.create_branch("kept", version, None).await.unwrap();
    table.update("x", "x + 1", 1, 0).await;
    table.refresh(None, None).await;
    let folder = format!("{}/_lancegate", table.uri());
    let count = || std::fs::read_dir(&folder).unwrap().count();
    let dataset = table.open().await;
    let none = chrono::TimeDelta::zero();
    assert_eq!((count(), refresh::tidy::remove_older(&dataset, none).await.unwrap()), (2, 0), "all are named");
    for orphan in 0..40 {
        std::fs::write(format!("{folder}/{orphan:064x}.prov"), b"nobody names it").unwrap();
    }
    assert_eq!(refresh::tidy::remove_unnamed_records(&dataset).await.unwrap(), 0, "they may be in use any moment");
    assert_eq!(refresh::tidy::remove_older(&dataset, none).await.unwrap(), 40);
    assert_eq!(count(), 2);
    let (outcome, computed) = table.refresh(None, None).await;
    assert_eq!((outcome.rows_assigned, computed), (0, 0), "the record is still there");
    let spec = RefreshSpec { branch: Some("kept".to_owned()), ..table.spec.clone() };
    assert_eq!(table.run(spec, None).await.1, 0, "the branch still has its record");
}
