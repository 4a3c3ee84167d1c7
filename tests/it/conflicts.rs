//! What others do to a table while a refresh of it is held at a named place
//! (feature `failpoints`): J14, RC-15, RC-16.
//!
//! No two rows have the same `x`, so a value that belongs to another row, or to
//! another column, is seen as such.

use arrow::array::RecordBatchIterator;
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::{WriteMode, WriteParams};
use tokio_postgres::Client;

use crate::faults::{CONFIG, ensure_right, failing_table};
use crate::harness::{Gateway, until};
use crate::interop::run_python;
use crate::rows::{rows, run, value};

/// Where a refresh is held: with its first file complete and nothing of it noted,
/// and between the last look at the registry and the commit. In both cases the
/// first of four fragments has been published.
const HOLDS: [&str; 2] = ["stage.file", "publish.before"];

/// A refresh of `y` that is held, with three of four fragments to come.
struct Held {
    gateway: Gateway,
    client: Client,
    job: String,
    place: &'static str,
}

impl Held {
    async fn at(place: &'static str) -> Self {
        Self::of(place, "REFRESH COLUMN y ON t NOWAIT", "SELECT 1").await
    }

    async fn of(place: &'static str, refresh: &str, before: &str) -> Self {
        let gateway = failing_table(CONFIG, &format!("{place}=hold@2")).await;
        let client = gateway.connect().await;
        run(&client, before).await;
        if refresh.contains("branch") {
            run_python(gateway.data(), &lance_program("table.create_branch('b')"));
        }
        let job = value(&client, refresh, "job_id").await.unwrap();
        gateway.held(place, 2).await;
        Self { gateway, client, job, place }
    }

    /// Runs Python on the table, as another program would.
    fn python(&self, statement: &str) {
        run_python(self.gateway.data(), &lance_program(statement));
    }

    async fn open(&self) -> Dataset {
        Dataset::open(self.gateway.data().join("t.lance").to_str().unwrap()).await.unwrap()
    }

    /// Lets the refresh go on to its end; returns its state, and what its events
    /// and its error say.
    async fn end(&self) -> (String, String) {
        self.gateway.let_go(self.place, 2);
        let ended = format!(
            "SELECT state FROM system.public.jobs WHERE job_id = '{}' AND state NOT IN ('queued', 'in_progress')",
            self.job
        );
        let state = until("the end of the job", async || rows(&self.client, &ended).await.pop()).await;
        let events = format!("SELECT message FROM system.public.job_events WHERE job_id = '{}'", self.job);
        let error = format!("SELECT error FROM system.public.jobs WHERE job_id = '{}' AND error IS NOT NULL", self.job);
        let mut said = rows(&self.client, &events).await;
        said.extend(rows(&self.client, &error).await);
        (state, said.join("\n"))
    }

    /// The refresh has succeeded; no value is of another row, and after the next
    /// refresh all are those of the rows as they are.
    async fn ensure_planned_again(&self, count: i64) {
        let case = self.place;
        let (state, said) = self.end().await;
        assert_eq!(state, "succeeded", "{case}: {said}");
        self.ensure_own_values().await;
        rows(&self.client, "REFRESH COLUMN y ON t WAIT").await;
        ensure_right(&self.client, "y", 1, case).await;
        assert_eq!(
            rows(&self.client, "SELECT count(*), count(DISTINCT id) FROM t").await,
            [format!("{count}|{count}")]
        );
        assert_eq!(value(&self.client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("0"));
    }

    /// Every value is that of its own row: as it was, or as it is.
    async fn ensure_own_values(&self) {
        let foreign = "SELECT id, x, y FROM t WHERE y IS NOT NULL AND y <> x * 2 + 1 AND y <> id * 6 + 1";
        assert_eq!(rows(&self.client, foreign).await, Vec::<String>::new(), "{}", self.place);
    }

    /// The refresh was canceled and says why.
    async fn ensure_canceled(&self, why: &str) {
        let (state, said) = self.end().await;
        assert_eq!(state, "canceled", "{}: {said}", self.place);
        assert!(said.contains(why), "{}: {why:?} is not in {said}", self.place);
    }
}

fn lance_program(statement: &str) -> String {
    format!("import lance, sys\ntable = lance.dataset(sys.argv[1] + '/t.lance')\n{statement}\n")
}

#[tokio::test]
async fn rc_15_j14_updates_deletes_and_appends_through_the_gateway() {
    for place in HOLDS {
        let held = Held::at(place).await;
        run(&held.client, "UPDATE t SET x = x + 1000 WHERE id IN (5, 15, 25, 35); DELETE FROM t WHERE id = 16").await;
        run(&held.client, "INSERT INTO t (id, x) VALUES (100, 300)").await;
        held.ensure_planned_again(40).await;
    }
}

#[tokio::test]
async fn rc_15_j14_an_update_and_an_update_in_place_by_another_program() {
    for place in HOLDS {
        let held = Held::at(place).await;
        held.python(
            "import pyarrow as pa\n\
             table.update({'x': 'x + 2000'}, where='id % 3 = 0')\n\
             table = lance.dataset(sys.argv[1] + '/t.lance')\n\
             new = pa.table({'id': [1, 11, 12, 21, 31], 'x': [5001, 5011, 5012, 5021, 5031]})\n\
             table.merge_insert('id').when_matched_update_all().execute(new)",
        );
        held.ensure_planned_again(40).await;
    }
}

#[tokio::test]
async fn rc_15_j14_a_compaction_by_another_program() {
    for place in HOLDS {
        let held = Held::at(place).await;
        held.python("table.optimize.compact_files()");
        held.ensure_planned_again(40).await;
    }
}

/// Compactions in each round exhaust the rounds: the error has its name, and what
/// was published stays.
#[tokio::test]
async fn rc_15_j14_writes_in_every_round_end_with_the_named_error() {
    let gateway = failing_table(CONFIG, "stage.file=hold@*").await;
    let client = gateway.connect().await;
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    let mut visit = 1;
    for round in 0..4 {
        gateway.held("stage.file", visit).await;
        // Rewrites all fragments, whatever there is to compact.
        let rewrite = "import pyarrow as pa\n\
             ids = table.to_table(columns=['id'])['id']\n\
             rows = pa.table({'id': ids, 'x': pa.array([i.as_py() * 3 + 1000 * ROUND for i in ids])})\n\
             table.merge_insert('id').when_matched_update_all().execute(rows)";
        run_python(gateway.data(), &lance_program(&rewrite.replace("ROUND", &(round + 1).to_string())));
        // All files of the round are of rows that are elsewhere now.
        let fragments = if round == 0 { 4 } else { 1 };
        for _ in 0..fragments {
            gateway.held("stage.file", visit).await;
            gateway.let_go("stage.file", visit);
            visit += 1;
        }
    }
    gateway.let_all_go("stage.file");
    let failed = crate::rows::error(&client, &format!("WAIT JOB '{job}'")).await;
    assert!(failed.starts_with("40001") && failed.contains("ConcurrentWriteError"), "{failed}");
    rows(&client, "REFRESH COLUMN y ON t WAIT").await;
    ensure_right(&client, "y", 1, "after the failure").await;
}

#[tokio::test]
async fn rc_16_j14_the_column_is_dropped_and_made_again() {
    for place in HOLDS {
        let held = Held::at(place).await;
        run(&held.client, "ALTER TABLE t DROP COLUMN y; ALTER TABLE t ADD COLUMN y AS x * 7").await;
        held.ensure_canceled("column \"y\" was dropped").await;
        assert_eq!(rows(&held.client, "SELECT count(y) FROM t").await, ["0"], "{place}: nothing of the old column");
        assert_eq!(value(&held.client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("40"));
        assert_eq!(rows(&held.client, "SELECT count(*) FROM t WHERE y = x * 7").await, ["40"], "{place}");
    }
}

#[tokio::test]
async fn j14_the_column_or_its_input_is_dropped_by_another_program() {
    for place in HOLDS {
        for column in ["y", "x"] {
            let held = Held::at(place).await;
            held.python(&format!("table.drop_columns(['{column}'])"));
            held.ensure_canceled("does not exist").await;
        }
    }
}

/// The definition changes under the refresh: what it has computed is not taken
/// for what the new one computes.
#[tokio::test]
async fn j14_the_definition_is_changed_by_another_program() {
    for place in HOLDS {
        let held = Held::at(place).await;
        held.python(
            "metadata = {k.decode(): v.decode() for k, v in table.schema.field('y').metadata.items()}\n\
             metadata['computed_column.expression'] = 'x * 7'\n\
             table.replace_field_metadata('y', metadata)",
        );
        let (state, said) = held.end().await;
        assert_eq!(state, "succeeded", "{place}: {said}");
        rows(&held.client, "REFRESH COLUMN y ON t WAIT").await;
        assert_eq!(rows(&held.client, "SELECT count(*) FROM t WHERE y = x * 7").await, ["40"], "{place}");
    }
}

/// A column that comes after a restore may get the field id of one that was lost
/// by it; no value of that one may appear in it.
#[tokio::test]
async fn j14_a_restore_to_a_version_without_the_column_and_another_in_its_place() {
    for place in HOLDS {
        for other in ["z AS x * 7", "z bigint", "y AS x * 7"] {
            let held = Held::at(place).await;
            let before = rows(&held.client, "SELECT max(id) FROM t").await;
            assert_eq!(before, ["40"]);
            // The version before the column was declared is the one of the last insert.
            held.python("table = lance.dataset(sys.argv[1] + '/t.lance', version=5)\ntable.restore()");
            run(&held.client, &format!("ALTER TABLE t ADD COLUMN {other}")).await;
            let column = &other[..1];
            if column == "y" {
                // As if the column had been given another definition.
                let (state, said) = held.end().await;
                assert_eq!(state, "succeeded", "{place}: {said}");
                rows(&held.client, "REFRESH COLUMN y ON t WAIT").await;
                assert_eq!(rows(&held.client, "SELECT count(*) FROM t WHERE y = x * 7").await, ["40"], "{place}");
                continue;
            }
            held.ensure_canceled("does not exist").await;
            assert_eq!(rows(&held.client, &format!("SELECT count({column}) FROM t")).await, ["0"], "{place}, {other}");
            if other.contains("AS") {
                let refresh = format!("REFRESH COLUMN {column} ON t WAIT");
                assert_eq!(value(&held.client, &refresh, "rows_assigned").await.as_deref(), Some("40"));
                let right = format!("SELECT count(*) FROM t WHERE {column} = x * 7");
                assert_eq!(rows(&held.client, &right).await, ["40"], "{place}, {other}");
            }
        }
    }
}

#[tokio::test]
async fn j14_a_restore_to_older_rows_with_the_column() {
    for place in HOLDS {
        let update = "UPDATE t SET x = x + 1000 WHERE id IN (5, 15, 25, 35)";
        let held = Held::of(place, "REFRESH COLUMN y ON t NOWAIT", update).await;
        // The version before the update, with the column declared.
        held.python("table = lance.dataset(sys.argv[1] + '/t.lance', version=6)\ntable.restore()");
        let (state, said) = held.end().await;
        assert_eq!(state, "succeeded", "{place}: {said}");
        assert_eq!(rows(&held.client, "SELECT count(*) FROM t WHERE x = id * 3").await, ["40"], "{place}: restored");
        let foreign = "SELECT id, x, y FROM t WHERE y IS NOT NULL AND y <> id * 6 + 1 AND y <> id * 6 + 2001";
        assert_eq!(rows(&held.client, foreign).await, Vec::<String>::new(), "{place}");
        rows(&held.client, "REFRESH COLUMN y ON t WAIT").await;
        ensure_right(&held.client, "y", 1, place).await;
    }
}

/// Overwriting a table numbers its fragments anew.
#[tokio::test]
async fn j14_the_table_is_overwritten_by_another_program() {
    for place in HOLDS {
        let held = Held::at(place).await;
        let batches: Vec<_> = held.open().await.scan().try_into_stream().await.unwrap().try_collect().await.unwrap();
        let schema = arrow::datatypes::Schema::from(held.open().await.schema());
        let schema = std::sync::Arc::new(schema);
        let batch = arrow::compute::concat_batches(&schema, &batches).unwrap().slice(10, 20);
        let reader = RecordBatchIterator::new([Ok(batch)], schema);
        let params = WriteParams { mode: WriteMode::Overwrite, enable_stable_row_ids: true, ..WriteParams::default() };
        let uri = held.gateway.data().join("t.lance");
        Dataset::write(reader, uri.to_str().unwrap(), Some(params)).await.unwrap();
        let (state, said) = held.end().await;
        assert!(["succeeded", "canceled"].contains(&state.as_str()), "{place}: {state} {said}");
        held.ensure_own_values().await;
        rows(&held.client, "REFRESH COLUMN y ON t WAIT").await;
        ensure_right(&held.client, "y", 1, place).await;
        assert_eq!(rows(&held.client, "SELECT count(*), min(id) FROM t").await, ["20|11"], "{place}");
    }
}

#[tokio::test]
async fn j14_the_table_is_dropped_and_made_again_under_its_name() {
    for place in HOLDS {
        let held = Held::at(place).await;
        let again = "DROP TABLE t; CREATE TABLE t (id bigint, x bigint);
             INSERT INTO t SELECT i, i * 5 FROM generate_series(1, 10) AS s(i);
             INSERT INTO t SELECT i, i * 5 FROM generate_series(11, 20) AS s(i)";
        for statement in again.split(';') {
            run(&held.client, statement).await;
        }
        run(&held.client, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1").await;
        held.ensure_canceled("the table was dropped").await;
        assert_eq!(rows(&held.client, "SELECT count(*), count(y) FROM t").await, ["20|0"], "{place}");
        assert_eq!(value(&held.client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("20"));
        ensure_right(&held.client, "y", 1, place).await;
        ensure_only_the_new_table_is_left(held).await;
    }
}

/// What the old refresh wrote after its table was gone goes at the next start.
async fn ensure_only_the_new_table_is_left(held: Held) {
    let Held { mut gateway, place, .. } = held;
    let folders = |gateway: &Gateway| {
        let names = std::fs::read_dir(gateway.data()).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".lance"))
            .count()
    };
    let marked = gateway.data().join("t.lance/.lancegate-dropped");
    if folders(&gateway) > 1 {
        until("the mark of what is left", async || marked.exists().then_some(())).await;
    }
    gateway.restart();
    assert_eq!(folders(&gateway), 1, "{place}");
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SELECT count(*), count(y) FROM t").await, ["20|20"], "{place}");
}

#[tokio::test]
async fn j14_the_branch_is_deleted() {
    for place in HOLDS {
        let held = Held::of(place, "REFRESH COLUMN y ON t WITH (branch = 'b') NOWAIT", "SELECT 1").await;
        held.python("table.branches.delete('b')");
        held.ensure_canceled("branch \"b\"").await;
        assert_eq!(rows(&held.client, "SELECT count(y) FROM t").await, ["0"], "{place}: main is untouched");
        assert_eq!(value(&held.client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("40"));
        ensure_right(&held.client, "y", 1, place).await;
    }
}
