//! MERGE and INSERT … ON CONFLICT. What is answered was compared with PostgreSQL's own
//! answers to the same statements.

use crate::harness::Gateway;
use crate::privileges::user;
use crate::rows::{affected, error, rows, run};

/// Two tables that have rows in common.
async fn tables(client: &tokio_postgres::Client) {
    run(client, "CREATE TABLE t (id bigint, v text, n int); CREATE TABLE s (id bigint, v text, n int)").await;
    run(client, "INSERT INTO t VALUES (1,'a',10),(2,'b',20),(3,'c',30),(4,'d',40)").await;
    run(client, "INSERT INTO s VALUES (2,'B',1),(3,'C',2),(9,'N',3),(10,NULL,4)").await;
}

#[tokio::test]
async fn merge_does_what_the_first_clause_says_that_applies() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    tables(&client).await;
    let before = rows(&client, "SELECT id, _rowid, _row_created_at_version FROM t ORDER BY id").await;
    let merge = "MERGE INTO t USING s ON t.id = s.id
         WHEN MATCHED AND s.n = 1 THEN UPDATE SET v = s.v, n = t.n + s.n
         WHEN MATCHED THEN DELETE
         WHEN NOT MATCHED AND s.n = 3 THEN INSERT (id, v, n) VALUES (s.id, s.v, DEFAULT)
         WHEN NOT MATCHED THEN DO NOTHING";
    assert_eq!(affected(&client, merge).await, 3);
    assert_eq!(rows(&client, "SELECT * FROM t ORDER BY id").await, ["1|a|10", "2|B|21", "4|d|40", "9|N|∅"]);
    // A row that changes keeps its id, and when it was made.
    let after = rows(&client, "SELECT id, _rowid, _row_created_at_version FROM t WHERE id < 5 ORDER BY id").await;
    assert_eq!(after, [before[0].as_str(), &before[1], &before[3]]);
    let source = "MERGE INTO t AS x USING (VALUES (50, 'q'), (51, 'r')) AS d(id, v) ON x.id = d.id
         WHEN NOT MATCHED THEN INSERT VALUES (id, v)
         WHEN NOT MATCHED BY SOURCE AND n > 30 THEN UPDATE SET n = n + 1
         WHEN NOT MATCHED BY SOURCE AND x.id = 9 THEN DELETE";
    assert_eq!(affected(&client, source).await, 4);
    let all = ["1|a|10", "2|B|21", "4|d|41", "50|q|∅", "51|r|∅"];
    assert_eq!(rows(&client, "SELECT * FROM t ORDER BY id").await, all);
    assert_eq!(affected(&client, "MERGE INTO t USING s ON false WHEN MATCHED THEN DELETE").await, 0);
    assert_eq!(rows(&client, "SELECT * FROM t ORDER BY id").await, all);
}

#[tokio::test]
async fn merge_refuses_what_postgresql_refuses() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    tables(&client).await;
    let twice = "MERGE INTO t AS x USING (VALUES (1, 'q'), (1, 'r')) AS d(id, v) ON x.id = d.id WHEN MATCHED THEN ";
    let refused = error(&client, &format!("{twice} UPDATE SET v = d.v")).await;
    assert!(refused.starts_with("21000: MERGE command cannot affect row a second time"), "{refused}");
    assert!(error(&client, &format!("{twice} DELETE")).await.starts_with("21000: "));
    assert_eq!(affected(&client, &format!("{twice} DO NOTHING")).await, 0);
    for (clause, code) in [
        ("NOT MATCHED THEN INSERT (id) VALUES (t.id)", "42P01: invalid reference to FROM-clause entry for table \"t\""),
        ("NOT MATCHED THEN INSERT (id, v) VALUES (1)", "42601: INSERT has more target columns"),
        ("NOT MATCHED THEN INSERT (id) VALUES (1, 2)", "42601: INSERT has more expressions"),
        ("NOT MATCHED THEN INSERT (nope) VALUES (1)", "42703: column \"nope\" of relation \"t\""),
        ("NOT MATCHED THEN DELETE", "42601: "),
        ("MATCHED THEN INSERT VALUES (1)", "42601: "),
        ("MATCHED THEN UPDATE SET nope = 1", "42703: "),
        ("MATCHED AND random() > 0.5 THEN DELETE", "0A000: "),
        ("MATCHED THEN DELETE RETURNING t.id", "0A000: "),
    ] {
        let refused = error(&client, &format!("MERGE INTO t USING s ON t.id = s.id WHEN {clause}")).await;
        assert!(refused.starts_with(code), "{clause}: {refused}");
    }
    assert_eq!(rows(&client, "SELECT count(*), sum(n) FROM t").await, ["4|100"]);
    run(&client, "CREATE TABLE k (id bigint NOT NULL, v text)").await;
    let refused =
        error(&client, "MERGE INTO k USING s ON k.id = s.id WHEN NOT MATCHED THEN INSERT (v) VALUES (s.v)").await;
    assert!(refused.starts_with("23502: "), "{refused}");
    assert_eq!(rows(&client, "SELECT count(*) FROM k").await, ["0"]);
}

/// The statement that dbt's incremental models send.
#[tokio::test]
async fn c_91_merge_as_dbt_writes_it() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    tables(&client).await;
    let merge = r#"merge into "lancegate"."public"."t" as DBT_INTERNAL_DEST
        using "s" as DBT_INTERNAL_SOURCE
        on ((DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id))
        when matched then update set "id" = DBT_INTERNAL_SOURCE."id", "v" = DBT_INTERNAL_SOURCE."v"
        when not matched then insert ("id", "v", "n")
        values (DBT_INTERNAL_SOURCE."id", DBT_INTERNAL_SOURCE."v", DBT_INTERNAL_SOURCE."n")"#;
    assert_eq!(affected(&client, merge).await, 4);
    assert_eq!(
        rows(&client, "SELECT * FROM t ORDER BY id").await,
        ["1|a|10", "2|B|20", "3|C|30", "4|d|40", "9|N|3", "10|∅|4"]
    );
}

#[tokio::test]
async fn rc_07_rows_that_merge_has_changed_are_computed_again_and_no_others() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    tables(&client).await;
    run(&client, "ALTER TABLE t ADD COLUMN twice AS n * 2; REFRESH COLUMN twice ON t WAIT").await;
    let merge = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n
                 WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, s.n)";
    assert_eq!(affected(&client, merge).await, 4);
    let stored = ["1|10|20", "2|1|40", "3|2|60", "4|40|80", "9|3|∅", "10|4|∅"];
    assert_eq!(rows(&client, "SELECT id, n, twice FROM t ORDER BY id").await, stored);
    let answer = rows(&client, "REFRESH COLUMN twice ON t WAIT").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE twice = n * 2").await, ["6"]);
    assert!(answer[0].contains("|4|0|0|"), "two changed and two new rows are computed: {answer:?}");
    for wrong in ["WHEN MATCHED THEN UPDATE SET twice = 1", "WHEN NOT MATCHED THEN INSERT (id, twice) VALUES (1, 1)"] {
        let refused = error(&client, &format!("MERGE INTO t USING s ON t.id = s.id {wrong}")).await;
        assert!(refused.starts_with("428C9: "), "{refused}");
    }
}

#[tokio::test]
async fn on_conflict_takes_the_named_columns_for_the_key() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    tables(&client).await;
    let nothing = "INSERT INTO t VALUES (1, 'z', 1), (60, 'n', 1) ON CONFLICT (id) DO NOTHING";
    assert_eq!(affected(&client, nothing).await, 1);
    let update = "INSERT INTO t VALUES (1, 'z', 1), (61, 'n', 1)
         ON CONFLICT (id) DO UPDATE SET v = excluded.v || '!', n = t.n + excluded.n RETURNING *";
    let mut answered = rows(&client, update).await;
    answered.sort();
    assert_eq!(answered, ["1|z!|11", "61|n|1"]);
    let kept = "INSERT INTO t AS x VALUES (1, 'y', 5) ON CONFLICT (id) DO UPDATE SET n = 0 WHERE x.n > 100 RETURNING *";
    assert!(rows(&client, kept).await.is_empty());
    let first = "INSERT INTO t VALUES (70, 'z', 1), (70, 'z2', 2) ON CONFLICT (id) DO NOTHING RETURNING v";
    assert_eq!(rows(&client, first).await, ["z"]);
    let again = "INSERT INTO t VALUES (71, 'z', 1), (71, 'z2', 2) ON CONFLICT (id) DO UPDATE SET v = 'w'";
    let refused = error(&client, again).await;
    assert!(refused.starts_with("21000: ON CONFLICT DO UPDATE command cannot affect row a second time"), "{refused}");
    let from_query = "INSERT INTO t (id, v) SELECT n, v FROM s ON CONFLICT (id) DO UPDATE SET v = excluded.v";
    assert_eq!(affected(&client, from_query).await, 4);
    // NULL is no key: both rows are new.
    assert_eq!(affected(&client, "INSERT INTO t (v) VALUES ('x'), ('y') ON CONFLICT (id) DO NOTHING").await, 2);
    assert_eq!(affected(&client, "DELETE FROM t WHERE id IS NULL").await, 2);
    assert_eq!(
        rows(&client, "SELECT * FROM t ORDER BY id").await,
        ["1|B|11", "2|C|20", "3|N|30", "4|∅|40", "60|n|1", "61|n|1", "70|z|1"]
    );
    for (rest, code) in [
        ("ON CONFLICT (nope) DO NOTHING", "42703: "),
        ("ON CONFLICT ON CONSTRAINT nope DO NOTHING", "42704: constraint \"nope\" for table \"t\" does not exist"),
        ("ON CONFLICT DO UPDATE SET v = 'x'", "42601: ON CONFLICT DO UPDATE requires inference specification"),
        ("ON CONFLICT (id) DO UPDATE SET n = n + 1", "42702: "),
    ] {
        let refused = error(&client, &format!("INSERT INTO t (id, n) VALUES (1, 2) {rest}")).await;
        assert!(refused.starts_with(code), "{rest}: {refused}");
    }
}

/// Values are compared as the column's type, an index on the key is asked, and
/// parameters go where literals go.
#[tokio::test]
async fn on_conflict_finds_keys_of_every_kind() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    tables(&client).await;
    run(&client, "CREATE INDEX ON t (id)").await;
    let upsert = client
        .prepare(
            "INSERT INTO t (id, v) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = excluded.v || $3 RETURNING v",
        )
        .await
        .unwrap();
    let names: Vec<&str> = upsert.params().iter().map(|kind| kind.name()).collect();
    assert_eq!(names, ["int8", "text", "text"]);
    for (id, wanted) in [(2_i64, "new+"), (100, "new"), (100, "new+")] {
        let row = client.query_one(&upsert, &[&id, &"new", &"+"]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), wanted, "{id}");
    }
    // '02' is the number 2, and another text than '2'.
    assert_eq!(affected(&client, "INSERT INTO t (id) VALUES ('02') ON CONFLICT (id) DO NOTHING").await, 0);
    run(&client, "CREATE TABLE w (a text, b date, x int)").await;
    run(&client, "INSERT INTO w VALUES ('2', '2026-01-02', 1)").await;
    let both = "INSERT INTO w VALUES ('2', '2026-01-02', 5), ('02', '2026-01-02', 6), ('2', '2026-01-03', 7)
         ON CONFLICT (a, b) DO UPDATE SET x = excluded.x";
    assert_eq!(affected(&client, both).await, 3);
    assert_eq!(
        rows(&client, "SELECT * FROM w ORDER BY x").await,
        ["2|2026-01-02|5", "02|2026-01-02|6", "2|2026-01-03|7"]
    );
}

/// Without a unique index only the statements themselves can see to it that a key is
/// added once.
#[tokio::test]
async fn rc_04_statements_that_run_at_once_add_a_key_once() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, n bigint)").await;
    let mut writers = Vec::new();
    for writer in 0..4 {
        let client = gateway.connect().await;
        writers.push(tokio::spawn(async move {
            for id in 0..10 {
                let upsert = if (id + writer) % 2 == 0 {
                    format!("INSERT INTO t VALUES ({id}, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1")
                } else {
                    format!(
                        "MERGE INTO t USING (SELECT {id} AS id) AS s ON t.id = s.id
                         WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1)"
                    )
                };
                client.batch_execute(&upsert).await.unwrap();
                client.batch_execute("INSERT INTO t VALUES (-1, 0)").await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let counted = rows(&client, "SELECT count(*), sum(n) FROM t WHERE id >= 0").await;
    assert_eq!(counted, ["10|40"], "no key twice, and no addition lost");
}

#[tokio::test]
async fn z01_each_action_takes_its_privilege() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    tables(&admin).await;
    let ann = user(&gateway, &admin, "ann").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER ann").await;
    run(&admin, "GRANT SELECT ON TABLE s TO USER ann; GRANT SELECT ON TABLE t TO USER ann").await;
    let merge = |clause: &str| format!("MERGE INTO t USING s ON t.id = s.id WHEN {clause}");
    for (clause, privilege) in [
        ("MATCHED THEN UPDATE SET n = 0", "UPDATE"),
        ("MATCHED THEN DELETE", "DELETE"),
        ("NOT MATCHED THEN INSERT VALUES (s.id)", "INSERT"),
    ] {
        let refused = error(&ann, &merge(clause)).await;
        assert!(refused.starts_with("42501: "), "{clause}: {refused}");
        run(&admin, &format!("GRANT {privilege} ON TABLE t TO USER ann")).await;
        run(&ann, &merge(clause)).await;
        run(&admin, &format!("REVOKE {privilege} ON TABLE t FROM USER ann")).await;
    }
    run(&admin, "GRANT INSERT ON TABLE t TO USER ann").await;
    run(&ann, "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO NOTHING").await;
    let refused = error(&ann, "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET n = 1").await;
    assert!(refused.starts_with("42501: "), "{refused}");
    run(&admin, "REVOKE SELECT ON TABLE t FROM USER ann").await;
    let refused = error(&ann, "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO NOTHING").await;
    assert!(refused.starts_with("42501: "), "whether a key is there is told by the answer: {refused}");
}
