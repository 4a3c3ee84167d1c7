//! CREATE INDEX, DROP INDEX and SHOW INDEXES: every kind, what it is refused for, who
//! may, that queries use it, and that it never answers with rows as they were.

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::interop::run_python;
use crate::privileges::user;
use crate::rows::{error, rows, run, value};

/// 2,000 rows in two fragments: numbers, labels, texts, vectors.
async fn filled(client: &Client) {
    run(
        client,
        "CREATE TABLE t (id BIGINT, label TEXT, body TEXT, tags TEXT[], price NUMERIC(10, 2), day DATE, v vector(8))",
    )
    .await;
    for part in 0..2 {
        let first = part * 1000;
        let insert = format!(
            "INSERT INTO t SELECT i, 'l' || (i % 7), 'word' || i || ' common', ARRAY['a' || (i % 3), 'b'], i / 4.0,
                DATE '2026-01-01' + CAST(i % 100 AS INT), ARRAY[i, i % 5, i % 11, 1, 2, 3, 4, 5]::real[8]
             FROM generate_series({first}, {}) AS g (i)",
            first + 999
        );
        run(client, &insert).await;
    }
}

async fn plan(client: &Client, query: &str) -> String {
    rows(client, &format!("EXPLAIN {query}")).await.join("\n")
}

#[tokio::test]
async fn an_index_of_every_kind_is_built_listed_and_dropped() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    filled(&client).await;
    let cases = [
        ("(id)", "id", "BTREE"),
        ("USING hash (id)", "id", "BTREE"),
        ("USING btree (price)", "price", "BTREE"),
        ("USING btree (day)", "day", "BTREE"),
        ("USING btree (body)", "body", "BTREE"),
        ("USING bitmap (label)", "label", "BITMAP"),
        ("USING label_list (tags)", "tags", "LABEL_LIST"),
        ("USING ngram (body)", "body", "NGRAM"),
        ("USING zonemap (id)", "id", "ZONEMAP"),
        ("USING bloom_filter (id) WITH (number_of_items = 512, probability = 0.01)", "id", "BLOOM_FILTER"),
        ("USING fts (body) WITH (with_position = true, stem = off, language = 'English')", "body", "FTS"),
        ("(v)", "v", "IVF_PQ"),
        ("USING ivf_flat (v) WITH (num_partitions = 2, metric_type = 'cosine')", "v", "IVF_FLAT"),
        ("USING ivf_sq (v) WITH (num_partitions = 2)", "v", "IVF_SQ"),
        ("USING ivf_pq (v) WITH (num_partitions = 2, num_sub_vectors = 4)", "v", "IVF_PQ"),
        ("USING ivf_rq (v) WITH (num_partitions = 2)", "v", "IVF_RQ"),
        ("USING ivf_hnsw_flat (v) WITH (num_partitions = 2, m = 8)", "v", "IVF_HNSW_FLAT"),
        ("USING ivf_hnsw_sq (v) WITH (num_partitions = 2, m = 8, ef_construction = 50)", "v", "IVF_HNSW_SQ"),
        ("USING ivf_hnsw_pq (v) WITH (num_partitions = 2, num_sub_vectors = 4)", "v", "IVF_HNSW_PQ"),
    ];
    let queries = [
        "SELECT count(*) FROM t WHERE id = 1234",
        "SELECT count(*) FROM t WHERE id BETWEEN 990 AND 1010",
        "SELECT count(*) FROM t WHERE price = 12.25",
        "SELECT count(*) FROM t WHERE day < DATE '2026-01-04'",
        "SELECT count(*) FROM t WHERE label = 'l3'",
        "SELECT count(*) FROM t WHERE label IN ('l1', 'l2')",
        "SELECT count(*) FROM t WHERE body LIKE '%word77 %'",
        "SELECT count(*) FROM t WHERE body = 'word1500 common'",
        "SELECT count(*) FROM t WHERE 'a1' = ANY (tags)",
    ];
    let mut expected = Vec::new();
    for query in queries {
        expected.push(rows(&client, query).await);
    }
    for (definition, column, kind) in cases {
        run(&client, &format!("CREATE INDEX i ON t {definition}")).await;
        let listed = "SHOW INDEXES IN t";
        assert_eq!(value(&client, listed, "name").await.as_deref(), Some("i"), "{definition}");
        assert_eq!(value(&client, listed, "column_name").await.as_deref(), Some(column), "{definition}");
        assert_eq!(value(&client, listed, "index_type").await.as_deref(), Some(kind), "{definition}");
        assert_eq!(value(&client, listed, "indexed_rows").await.as_deref(), Some("2000"), "{definition}");
        assert_eq!(value(&client, listed, "unindexed_rows").await.as_deref(), Some("0"), "{definition}");
        assert!(value(&client, listed, "created_at").await.is_some(), "{definition}");
        for (query, expected) in queries.iter().zip(&expected) {
            assert_eq!(rows(&client, query).await, *expected, "{definition}: {query}");
        }
        run(&client, "DROP INDEX i").await;
        assert_eq!(rows(&client, listed).await, Vec::<String>::new(), "{definition}");
    }
}

#[tokio::test]
async fn a_query_by_an_indexed_column_asks_the_index() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    filled(&client).await;
    let point = "SELECT label FROM t WHERE id = 1234";
    assert!(!plan(&client, point).await.contains("ScalarIndexQuery"));
    run(&client, "CREATE INDEX ON t (id)").await;
    let shown = plan(&client, point).await;
    assert!(shown.contains("ScalarIndexQuery") && shown.contains("t_id_idx"), "{shown}");
    assert_eq!(rows(&client, point).await, ["l2"]);
    let statement = client.prepare("SELECT label FROM t WHERE id = $1").await.unwrap();
    for id in [0_i64, 999, 1000, 1999] {
        let row = client.query_one(&statement, &[&id]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), format!("l{}", id % 7));
    }
    assert!(client.query(&statement, &[&2000_i64]).await.unwrap().is_empty());
}

#[tokio::test]
async fn names_of_indexes_are_made_found_and_refused() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id BIGINT, body TEXT); CREATE TABLE u (id BIGINT); CREATE SCHEMA s").await;
    run(&client, "CREATE TABLE s.t (id BIGINT); INSERT INTO t VALUES (1, 'x')").await;
    run(&client, "CREATE INDEX ON t (id); CREATE INDEX ON t USING bitmap (id)").await;
    let names = "SHOW INDEXES IN t";
    let named = async |client: &Client| -> Vec<String> {
        rows(client, names).await.iter().map(|row| row.split('|').next().unwrap().to_owned()).collect()
    };
    assert_eq!(named(&client).await, ["t_id_idx", "t_id_idx1"]);
    assert_eq!(error(&client, "CREATE INDEX t_id_idx ON t (id)").await, "42P07: relation \"t_id_idx\" already exists");
    run(&client, "CREATE INDEX IF NOT EXISTS t_id_idx ON t (body)").await;
    assert_eq!(named(&client).await.len(), 2, "it was passed over");
    run(&client, "DROP INDEX t.t_id_idx1; DROP INDEX public.t_id_idx; DROP INDEX IF EXISTS t_id_idx, nope").await;
    assert_eq!(named(&client).await, Vec::<String>::new());
    for missing in ["i", "t.i", "s.i", "s.t.i", "nope.i"] {
        let said = error(&client, &format!("DROP INDEX {missing}")).await;
        assert_eq!(said, format!("42704: index \"{missing}\" does not exist"));
    }
    run(&client, "CREATE INDEX i ON t (id); CREATE INDEX i ON u (id); CREATE INDEX i ON s.t (id)").await;
    assert!(error(&client, "DROP INDEX i").await.starts_with("42725: index name \"i\" is ambiguous"));
    run(&client, "DROP INDEX s.t.i; DROP INDEX u.i; DROP INDEX i").await;
    run(&client, "CREATE INDEX \"Odd Name/é\" ON t (id); DROP INDEX \"Odd Name/é\"").await;
    run(&client, "CREATE INDEX i ON t (id); SHOW INDEXES IN t LIKE 'x%'").await;
    assert_eq!(rows(&client, "SHOW INDEXES IN t LIKE 'x%'").await, Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_indexed_is_refused_by_name() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id BIGINT, body TEXT, v vector(8), l BIGINT[])").await;
    run(&client, "CREATE VIEW w AS SELECT id FROM t").await;
    let cases = [
        ("CREATE INDEX ON nope (id)", "42P01"),
        ("CREATE INDEX ON w (id)", "42809"),
        ("CREATE INDEX ON t (nope)", "42703: column \"nope\" does not exist"),
        ("CREATE INDEX ON t (_rowid)", "42703"),
        ("CREATE INDEX ON t (id, body)", "0A000: access method \"btree\" does not support multicolumn indexes"),
        ("CREATE UNIQUE INDEX ON t (id)", "0A000: unique indexes are not supported"),
        ("CREATE INDEX ON t USING gist (id)", "42704: access method \"gist\" does not exist"),
        ("CREATE INDEX ON t USING btree (id) WITH (fillfactor = 70)", "42601: unrecognized option \"fillfactor\""),
        (
            "CREATE INDEX ON t USING ivf_pq (v) WITH (num_bits = 9)",
            "22023: invalid value for option \"num_bits\": \"9\"",
        ),
        ("CREATE INDEX ON t USING ivf_flat (id)", "42704: column \"id\" of type bigint cannot have an index"),
        ("CREATE INDEX ON t USING fts (id)", "42704"),
        ("CREATE INDEX ON t USING bitmap (v)", "42704"),
        ("CREATE INDEX ON t (l)", "42704"),
        ("CREATE INDEX ON t (id) WITH (x = 1)", "42601: options of an index need its method"),
    ];
    for (statement, expected) in cases {
        let said = error(&client, statement).await;
        assert!(said.starts_with(expected), "{statement}: {said}");
    }
    run(&client, "CREATE INDEX ON t (id); CREATE INDEX ON t USING fts (body); CREATE INDEX ON t (v)").await;
    run(&client, "INSERT INTO t (id, body) VALUES (1, 'x')").await;
    assert_eq!(rows(&client, "SELECT id FROM t WHERE id = 1").await, ["1"], "made on an empty table");
}

#[tokio::test]
async fn an_index_is_its_owners_to_make_and_to_drop() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let ann = user(&gateway, &admin, "ann").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER ann; CREATE TABLE t (id BIGINT)").await;
    run(&admin, "GRANT INSERT, UPDATE, DELETE ON TABLE t TO USER ann; CREATE INDEX i ON t (id)").await;
    for statement in ["CREATE INDEX ON t (id)", "DROP INDEX i", "DROP INDEX t.i"] {
        assert_eq!(error(&ann, statement).await, "42501: must be owner of table t", "{statement}");
    }
    assert!(error(&ann, "SHOW INDEXES IN t").await.starts_with("42501"));
    run(&admin, "GRANT SELECT ON TABLE t TO USER ann").await;
    assert_eq!(rows(&ann, "SHOW INDEXES IN t").await.len(), 1);
    run(&ann, "BEGIN READ ONLY").await;
    assert!(error(&ann, "CREATE INDEX ON t (id)").await.starts_with("42501"));
    run(&ann, "ROLLBACK").await;
    run(&admin, "BEGIN READ ONLY").await;
    let said = error(&admin, "CREATE INDEX ON t (id)").await;
    assert_eq!(said, "25006: cannot execute CREATE INDEX in a read-only transaction");
}

/// Rows that change after an index was built are found by what they hold now, and
/// only by that.
#[tokio::test]
async fn an_index_never_answers_with_rows_as_they_were() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    for method in ["btree", "bitmap", "zonemap", "bloom_filter"] {
        run(&client, "CREATE TABLE t (id BIGINT, x BIGINT)").await;
        run(&client, "INSERT INTO t SELECT i, i FROM generate_series(1, 100) AS g (i)").await;
        run(&client, "INSERT INTO t SELECT i, i FROM generate_series(101, 200) AS g (i)").await;
        // The index knows the column as it is before its first refresh: all NULL.
        run(&client, &format!("ALTER TABLE t ADD COLUMN z AS x + 1; CREATE INDEX z ON t USING {method} (z)")).await;
        run(&client, "REFRESH COLUMN z ON t WAIT").await;
        assert_eq!(rows(&client, "SELECT id FROM t WHERE z = 51").await, ["50"], "{method}: written in place");
        assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE z IS NULL").await, ["0"], "{method}");
        run(&client, "ALTER TABLE t ADD COLUMN y AS x * 10; REFRESH COLUMN y ON t WAIT").await;
        run(&client, &format!("CREATE INDEX ON t USING {method} (x); CREATE INDEX ON t USING {method} (y)")).await;
        run(&client, &format!("CREATE INDEX ON t USING {method} (id)")).await;
        let found = async |sql: &str| rows(&client, &format!("SELECT id, x, y FROM t WHERE {sql} ORDER BY id")).await;
        assert_eq!(found("y = 500").await, ["50|50|500"], "{method}");
        // Rows move: the new values are in a fragment that no index covers.
        run(&client, "UPDATE t SET x = 1000 + id WHERE id IN (50, 150)").await;
        assert_eq!(found("x = 50").await, Vec::<String>::new(), "{method}: the old value of a row that moved");
        assert_eq!(found("x = 1050").await, ["50|1050|500"], "{method}");
        assert_eq!(found("id = 150").await, ["150|1150|1500"], "{method}: a column that did not change");
        assert_eq!(found("y = 500").await, ["50|1050|500"], "{method}: it is stale until it is refreshed");
        // A refresh rewrites the column where it is, under the index.
        run(&client, "REFRESH COLUMN y ON t WAIT").await;
        assert_eq!(found("y = 500").await, Vec::<String>::new(), "{method}: the value before the refresh");
        assert_eq!(found("y = 10500").await, ["50|1050|10500"], "{method}");
        assert_eq!(
            found("y BETWEEN 1980 AND 2000").await,
            ["198|198|1980", "199|199|1990", "200|200|2000"],
            "{method}"
        );
        run(&client, "UPDATE t SET x = 7 WHERE id = 60; REFRESH COLUMN y ON t WHERE id < 100 WAIT").await;
        assert_eq!(found("y = 600").await, Vec::<String>::new(), "{method}");
        assert_eq!(found("y = 70").await, ["7|7|70", "60|7|70"], "{method}");
        run(&client, "DELETE FROM t WHERE id = 7; INSERT INTO t (id, x) VALUES (7, 8)").await;
        assert_eq!(found("y = 70").await, ["60|7|70"], "{method}");
        assert_eq!(found("x = 8").await, ["7|8|∅", "8|8|80"], "{method}");
        assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("1"));
        assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE y IS DISTINCT FROM x * 10").await, ["0"], "{method}");
        // Every row by every index, against what a scan finds.
        for column in ["id", "x", "y"] {
            let scanned = rows(&client, &format!("SELECT {column} + 0 FROM t ORDER BY 1")).await;
            let mut by_index = Vec::new();
            for value in &scanned {
                if by_index.last() != Some(value) {
                    by_index.extend(rows(&client, &format!("SELECT {column} FROM t WHERE {column} = {value}")).await);
                }
            }
            assert_eq!(by_index, scanned, "{method} {column}");
        }
        run(&client, "DROP TABLE t").await;
    }
}

#[tokio::test]
async fn a_refreshed_field_of_a_struct_is_found_by_its_new_value() {
    let folder = tempfile::tempdir().unwrap();
    let program = "
import lance, pyarrow as pa, sys
table = pa.table({'id': range(1, 101), 's': [{'a': i} for i in range(1, 101)]})
lance.write_dataset(table, sys.argv[1] + '/t.lance', max_rows_per_file=60, data_storage_version='2.1',
                    enable_stable_row_ids=True)
";
    run_python(folder.path(), program);
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    // The index knows the field as it is before its first refresh: all NULL.
    run(&client, "ALTER TABLE t ADD COLUMN s.n AS (s.a * 2); CREATE INDEX n ON t (s.n)").await;
    run(&client, "REFRESH COLUMN s.n ON t WAIT").await;
    let query = "SELECT id FROM t WHERE s.n = 84";
    assert_eq!(rows(&client, query).await, ["42"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE s.n IS NULL").await, ["0"]);
    run(&client, "DROP INDEX t.n; CREATE INDEX n ON t (s.n)").await;
    assert!(plan(&client, query).await.contains("ScalarIndexQuery"));
    assert_eq!(rows(&client, query).await, ["42"]);
    assert_eq!(value(&client, "SHOW INDEXES IN t", "column_name").await.as_deref(), Some("s.n"));
}

/// What psql and other tools read about indexes.
#[tokio::test]
async fn z02_catalogs_list_indexes() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE docs (id BIGINT, body TEXT); CREATE INDEX ON docs (id)").await;
    run(&client, "CREATE INDEX words ON docs USING fts (body)").await;
    let listed = "SELECT schemaname, tablename, indexname, indexdef FROM pg_indexes ORDER BY indexname";
    assert_eq!(
        rows(&client, listed).await,
        [
            "public|docs|docs_id_idx|CREATE INDEX docs_id_idx ON public.docs USING btree (id)",
            "public|docs|words|CREATE INDEX words ON public.docs USING fts (body)",
        ]
    );
    let joined =
        "SELECT c.relname, c.relkind, i.indisunique, i.indkey FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_class t ON t.oid = i.indrelid WHERE t.relname = 'docs' ORDER BY c.relname";
    assert_eq!(rows(&client, joined).await, ["docs_id_idx|i|f|1", "words|i|f|2"]);
    assert_eq!(rows(&client, "SELECT hasindexes FROM pg_tables WHERE tablename = 'docs'").await, ["t"]);
    let shown = gateway.psql_with(&["-c", "\\d docs"]);
    let shown = crate::harness::text(&shown);
    assert!(shown.contains("\"docs_id_idx\" btree (id)") && shown.contains("\"words\" fts (body)"), "{shown}");
}

/// Rows that are written while an index is built are neither lost nor hidden by it.
#[tokio::test]
async fn w09_an_index_and_inserts_at_the_same_time() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id BIGINT, x BIGINT)").await;
    run(&client, "INSERT INTO t SELECT i, i FROM generate_series(1, 50000) AS g (i)").await;
    let writer = gateway.connect().await;
    let writing = tokio::spawn(async move {
        for id in 50_001..=50_040_i64 {
            run(&writer, &format!("INSERT INTO t VALUES ({id}, {id})")).await;
            run(&writer, &format!("UPDATE t SET x = x + 100000 WHERE id = {}", id - 50_000)).await;
        }
    });
    for round in 0..6 {
        run(&client, &format!("CREATE INDEX i{round} ON t ({})", if round % 2 == 0 { "id" } else { "x" })).await;
    }
    writing.await.unwrap();
    assert_eq!(rows(&client, "SHOW INDEXES IN t").await.len(), 6);
    assert_eq!(rows(&client, "SELECT count(*), count(DISTINCT id) FROM t").await, ["50040|50040"]);
    for id in [1, 40, 41, 50_000, 50_001, 50_040] {
        assert_eq!(rows(&client, &format!("SELECT count(*) FROM t WHERE id = {id}")).await, ["1"], "{id}");
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE x = 7").await, ["0"]);
    assert_eq!(rows(&client, "SELECT id FROM t WHERE x = 100007").await, ["7"]);
}

#[tokio::test]
async fn an_index_outlives_the_process_and_a_canceled_one_leaves_none() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    filled(&client).await;
    run(&client, "CREATE INDEX ON t (id); SET statement_timeout = '1ms'").await;
    let said = error(&client, "CREATE INDEX slow ON t USING ivf_hnsw_sq (v)").await;
    assert!(said.starts_with("57014"), "{said}");
    gateway.kill9();
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(value(&client, "SHOW INDEXES IN t", "name").await.as_deref(), Some("t_id_idx"));
    assert_eq!(rows(&client, "SELECT label FROM t WHERE id = 1234").await, ["l2"]);
}
