//! Columns that have a value where a statement gives none: DEFAULT, serial, identity.

use futures::SinkExt;

use crate::harness::Gateway;
use crate::rows::{affected, error, rows, run};

#[tokio::test]
async fn a_default_is_what_a_statement_leaves_out() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE t (id bigint, n int DEFAULT 2 + 3, s text DEFAULT 'it''s' NOT NULL, at timestamptz DEFAULT now(), f real)",
    )
    .await;
    run(&client, "INSERT INTO t (id) VALUES (1), (2)").await;
    run(&client, "INSERT INTO t (id, n, s) VALUES (3, DEFAULT, 'own'), (4, 7, DEFAULT)").await;
    run(&client, "INSERT INTO t (id) SELECT 5").await;
    run(&client, "INSERT INTO t (id, n) VALUES (6, NULL)").await;
    run(&client, "INSERT INTO t DEFAULT VALUES").await;
    assert_eq!(
        rows(&client, "SELECT id, n, s, f FROM t ORDER BY id").await,
        ["1|5|it's|∅", "2|5|it's|∅", "3|5|own|∅", "4|7|it's|∅", "5|5|it's|∅", "6|∅|it's|∅", "∅|5|it's|∅"]
    );
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE at > now() - interval '1 hour'").await, ["7"]);
    // UPDATE, MERGE and ON CONFLICT know the word, too.
    run(&client, "UPDATE t SET n = 0, s = 'x'; UPDATE t SET n = DEFAULT, s = DEFAULT WHERE id = 1").await;
    run(&client, "INSERT INTO t (id) VALUES (1), (9) ON CONFLICT (id) DO UPDATE SET f = 0.5").await;
    let merge = "MERGE INTO t USING (VALUES (10), (2)) AS s(id) ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET n = DEFAULT WHEN NOT MATCHED THEN INSERT (id, f) VALUES (s.id, 1.5)";
    assert_eq!(affected(&client, merge).await, 2);
    assert_eq!(
        rows(&client, "SELECT id, n, s, f FROM t WHERE id IN (1, 2, 9, 10) ORDER BY id").await,
        ["1|5|it's|0.5", "2|5|x|∅", "9|5|it's|∅", "10|5|it's|1.5"]
    );
    let returned = rows(&client, "INSERT INTO t (id) VALUES (20) RETURNING n, s").await;
    assert_eq!(returned, ["5|it's"]);
}

#[tokio::test]
async fn copy_fills_what_it_does_not_bring() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id serial, n int NOT NULL DEFAULT 4, v text, u uuid DEFAULT gen_random_uuid())")
        .await;
    let sink = client.copy_in("COPY t (v) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    sink.send(bytes::Bytes::from_static(b"a\nb\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 2);
    assert_eq!(rows(&client, "SELECT id, n, v FROM t ORDER BY id").await, ["1|4|a", "2|4|b"]);
    assert_eq!(rows(&client, "SELECT count(DISTINCT u) FROM t").await, ["2"]);
}

#[tokio::test]
async fn defaults_are_changed_shown_and_refused() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (a int DEFAULT 1, b text); INSERT INTO t (b) VALUES ('x'), ('y')").await;
    run(&client, "ALTER TABLE t ALTER COLUMN a SET DEFAULT 2, ALTER COLUMN b SET DEFAULT 'z'").await;
    run(&client, "INSERT INTO t DEFAULT VALUES; ALTER TABLE t ALTER COLUMN b DROP DEFAULT").await;
    run(&client, "ALTER TABLE t ADD COLUMN c numeric(6,2) NOT NULL DEFAULT 1.5").await;
    run(&client, "INSERT INTO t DEFAULT VALUES").await;
    assert_eq!(rows(&client, "SELECT * FROM t ORDER BY a, b").await, ["1|x|1.50", "1|y|1.50", "2|z|1.50", "2|∅|1.50"]);
    let shown = "SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 't' ORDER BY 1";
    assert_eq!(rows(&client, shown).await, ["a|2", "b|∅", "c|1.5"]);
    for (statement, expected) in [
        ("CREATE TABLE w (a int, b int DEFAULT a)", "42703: "),
        ("CREATE TABLE w (a int DEFAULT (SELECT 1 FROM t))", "0A000: a DEFAULT expression must not read rows"),
        ("CREATE TABLE w (a int DEFAULT 1 DEFAULT 2)", "42601: multiple default values"),
        ("CREATE TABLE w (a int DEFAULT nope())", "42883: "),
        ("CREATE TABLE w (a int DEFAULT 'x')", "22P02: invalid input syntax for type integer: \"x\""),
        ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 1 / 0", "22012: "),
        ("ALTER TABLE t ADD COLUMN d serial", "0A000: adding a serial column"),
        ("CREATE TABLE w (a int DEFAULT nextval('t_a_seq'))", "0A000: "),
        ("ALTER TABLE t ADD COLUMN d uuid DEFAULT gen_random_uuid()", "0A000: "),
        ("ALTER TABLE t ADD COLUMN d int NOT NULL", "23502: "),
        ("ALTER TABLE t ALTER COLUMN b SET NOT NULL", "23502: column \"b\" contains null values"),
        ("ALTER TABLE t ALTER COLUMN nope SET DEFAULT 1", "42703: "),
        ("INSERT INTO t (c) VALUES (NULL)", "23502: null value in column \"c\" violates"),
    ] {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with(expected), "{statement}: {refused}");
    }
    run(&client, "UPDATE t SET b = '' WHERE b IS NULL; ALTER TABLE t ALTER COLUMN b SET NOT NULL").await;
    assert!(error(&client, "INSERT INTO t (b) VALUES (NULL)").await.starts_with("23502: "));
}

/// How Django, Alembic and Flyway write it: NOT NULL after a DEFAULT is about the column.
#[tokio::test]
async fn a_default_ends_before_not_null() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint); INSERT INTO t VALUES (1)").await;
    let columns = [
        ("a text DEFAULT 'new' NOT NULL", "new"),
        ("b int DEFAULT 7 NOT NULL", "7"),
        ("c bool DEFAULT false NOT NULL", "f"),
        ("d date NOT NULL DEFAULT '2024-01-01'", "2024-01-01"),
        ("e double precision DEFAULT 2.5 NULL", "2.5"),
    ];
    for (column, _) in columns {
        run(&client, &format!("ALTER TABLE t ADD COLUMN {column}")).await;
    }
    run(&client, "INSERT INTO t (id) VALUES (2)").await;
    let values = columns.map(|(_, value)| value).join("|");
    assert_eq!(rows(&client, "SELECT a, b, c, d, e FROM t ORDER BY id").await, [values.clone(), values]);
    assert!(error(&client, "INSERT INTO t (id, a) VALUES (3, NULL)").await.starts_with("23502"));
    run(&client, "ALTER TABLE t ALTER COLUMN b SET DEFAULT 8; INSERT INTO t (id) VALUES (4)").await;
    assert_eq!(rows(&client, "SELECT b FROM t WHERE id = 4").await, ["8"]);
    let twice = error(&client, "ALTER TABLE t ADD COLUMN f int DEFAULT 3 NOT NULL DEFAULT 4").await;
    assert!(twice.starts_with("42601"), "{twice}");
}

#[tokio::test]
async fn a_serial_column_counts() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id serial PRIMARY KEY, v text)").await;
    assert_eq!(rows(&client, "INSERT INTO t (v) VALUES ('a'), ('b') RETURNING id").await, ["1", "2"]);
    let mut mixed = rows(&client, "INSERT INTO t VALUES (DEFAULT, 'c'), (9, 'd') RETURNING id, v").await;
    mixed.sort();
    assert_eq!(mixed, ["3|c", "9|d"]);
    assert_eq!(rows(&client, "INSERT INTO t (v) SELECT 'e' RETURNING id").await, ["4"]);
    assert_eq!(
        rows(&client, "SELECT lastval(), currval('t_id_seq'), nextval('public.t_id_seq'::regclass)").await.len(),
        1
    );
    assert_eq!(rows(&client, "SELECT pg_get_serial_sequence('t', 'id')").await, ["public.t_id_seq"]);
    assert_eq!(rows(&client, "SELECT setval('t_id_seq', max(id)) FROM t").await, ["9"]);
    let upsert = "INSERT INTO t (v) VALUES ('f'), ('g') ON CONFLICT (id) DO NOTHING RETURNING id";
    assert_eq!(rows(&client, upsert).await, ["10", "11"]);
    let merge = "MERGE INTO t USING (VALUES ('h')) AS s(v) ON t.v = s.v WHEN NOT MATCHED THEN INSERT (v) VALUES (s.v)";
    assert_eq!(affected(&client, merge).await, 1);
    assert_eq!(rows(&client, "SELECT id FROM t WHERE v = 'h'").await, ["12"]);
    // Another session draws on, and knows nothing of what this one drew.
    let other = gateway.connect().await;
    assert!(error(&other, "SELECT lastval()").await.starts_with("55000: lastval is not yet defined"));
    assert!(error(&other, "SELECT currval('t_id_seq')").await.starts_with("55000: currval of sequence \"t_id_seq\""));
    assert_eq!(rows(&other, "INSERT INTO t (v) VALUES ('i') RETURNING id").await, ["13"]);
    assert_eq!(rows(&other, "SELECT lastval()").await, ["13"]);
    for (statement, expected) in [
        ("SELECT nextval('nope')", "42P01: relation \"nope\" does not exist"),
        ("SELECT setval('t_id_seq', 0)", "22003: setval: value 0 is out of bounds"),
        ("CREATE TABLE w (id serial DEFAULT 1)", "42601: multiple default values"),
        ("CREATE TEMP TABLE w (id serial)", "0A000: "),
        ("ALTER TABLE t ALTER COLUMN id SET DEFAULT 1", "42601: "),
    ] {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with(expected), "{statement}: {refused}");
    }
    let shown = "SELECT column_default, is_identity FROM information_schema.columns WHERE table_name = 't' AND column_name = 'id'";
    assert_eq!(rows(&client, shown).await, ["nextval('t_id_seq'::regclass)|NO"]);
}

#[tokio::test]
async fn identity_columns_take_or_refuse_numbers_of_ones_own() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE a (id bigint GENERATED ALWAYS AS IDENTITY (START WITH 100), v text)").await;
    run(&client, "CREATE TABLE d (id smallint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, v text)").await;
    assert_eq!(rows(&client, "INSERT INTO a (v) VALUES ('x') RETURNING id").await, ["100"]);
    assert_eq!(rows(&client, "INSERT INTO a VALUES (DEFAULT, 'y') RETURNING id").await, ["101"]);
    assert_eq!(rows(&client, "INSERT INTO d (v) VALUES ('x') RETURNING id").await, ["1"]);
    run(&client, "INSERT INTO d VALUES (7, 'y')").await;
    for (statement, expected) in [
        ("INSERT INTO a VALUES (1, 'z')", "428C9: cannot insert a non-DEFAULT value into column \"id\""),
        ("INSERT INTO a (id) SELECT 1", "428C9: "),
        ("UPDATE a SET id = 5", "428C9: column \"id\" can only be updated to DEFAULT"),
        ("CREATE TABLE w (id text GENERATED ALWAYS AS IDENTITY)", "22023: identity column type must be"),
        ("CREATE TABLE w (id int GENERATED ALWAYS AS IDENTITY (INCREMENT BY 2))", "0A000: "),
    ] {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with(expected), "{statement}: {refused}");
    }
    run(&client, "SELECT setval('d_id_seq', 32766)").await;
    assert_eq!(rows(&client, "INSERT INTO d (v) VALUES ('last') RETURNING id").await, ["32767"]);
    assert!(error(&client, "INSERT INTO d (v) VALUES ('more')").await.starts_with("2200H: nextval: reached maximum"));
    let kinds = "SELECT attidentity FROM pg_attribute WHERE attname = 'id' AND attrelid = 'a'::regclass";
    assert_eq!(rows(&client, kinds).await, ["a"]);
}

#[tokio::test]
async fn numbers_are_never_given_twice_and_outlive_the_gateway() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigserial, v int)").await;
    let clients = futures::future::join_all((0..4).map(|_| gateway.connect())).await;
    let inserts = clients.iter().map(|client| async {
        for _ in 0..5 {
            run(client, "INSERT INTO t (v) VALUES (1), (2), (3)").await;
        }
    });
    futures::future::join_all(inserts).await;
    assert_eq!(rows(&client, "SELECT count(*), count(DISTINCT id), max(id) FROM t").await, ["60|60|60"]);
    drop((client, clients));
    gateway.kill9();
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "INSERT INTO t (v) VALUES (4) RETURNING id").await, ["61"]);
    // To draw takes the right to insert.
    run(
        &client,
        "CREATE USER ann PASSWORD 'ann has a long password'; GRANT USAGE ON DATABASE lancegate TO USER ann;
        GRANT USAGE ON SCHEMA public TO USER ann; GRANT SELECT ON TABLE t TO USER ann",
    )
    .await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    assert!(error(&ann, "SELECT nextval('t_id_seq')").await.starts_with("42501: permission denied for sequence"));
    assert!(error(&ann, "SELECT setval('t_id_seq', 1)").await.starts_with("42501: permission denied for sequence"));
}

#[tokio::test]
async fn another_type_keeps_default_numbers_and_key() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id serial PRIMARY KEY, k int DEFAULT 3 NOT NULL, v text)").await;
    run(&client, "INSERT INTO t (v) VALUES ('a'), ('b')").await;
    run(&client, "ALTER TABLE t ALTER COLUMN k TYPE bigint; ALTER TABLE t ALTER COLUMN id TYPE bigint").await;
    assert_eq!(rows(&client, "INSERT INTO t (v) VALUES ('c') RETURNING id, k").await, ["3|3"]);
    assert_eq!(rows(&client, "SELECT conname FROM pg_constraint WHERE conrelid = 't'::regclass").await, ["t_pkey"]);
    assert_eq!(rows(&client, "SELECT pg_get_serial_sequence('t', 'id')").await, ["public.t_id_seq"]);
    assert_eq!(affected(&client, "INSERT INTO t (id, v) VALUES (1, 'x') ON CONFLICT DO NOTHING").await, 0);
    assert!(error(&client, "INSERT INTO t (k) VALUES (NULL)").await.starts_with("23502: "));
    // A number that was set stays set, and the greatest is that of the new type.
    run(&client, "SELECT setval('t_id_seq', 3000000000)").await;
    assert_eq!(rows(&client, "INSERT INTO t (v) VALUES ('d') RETURNING id").await, ["3000000001"]);
    // Several changes of one column in one statement are of the column as it becomes.
    run(
        &client,
        "ALTER TABLE t ALTER COLUMN k DROP DEFAULT, ALTER COLUMN k TYPE smallint, ALTER COLUMN k SET DEFAULT 7",
    )
    .await;
    assert_eq!(rows(&client, "INSERT INTO t (v) VALUES ('e') RETURNING k").await, ["7"]);
    run(&client, "CREATE TABLE two (a int, b int, PRIMARY KEY (a, b))").await;
    for (statement, expected) in [
        ("ALTER TABLE t ALTER COLUMN id TYPE text", "22023: identity column type must be smallint, integer, or bigint"),
        ("ALTER TABLE two ALTER COLUMN a TYPE bigint", "0A000: cannot alter type of column \"a\""),
    ] {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with(expected), "{statement}: {refused}");
    }
    assert_eq!(rows(&client, "SELECT k FROM t WHERE v = 'e'").await, ["7"]);
}

#[tokio::test]
async fn an_alter_that_data_refuses_has_changed_nothing() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, NULL), (2, 2)").await;
    for statement in [
        "ALTER TABLE t ADD PRIMARY KEY (a, b)",
        "ALTER TABLE t ADD COLUMN z int, ALTER COLUMN b SET NOT NULL",
        "ALTER TABLE t ADD COLUMN z int NOT NULL DEFAULT NULL",
        "ALTER TABLE t ALTER COLUMN a SET NOT NULL, ALTER COLUMN b SET NOT NULL",
    ] {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with("23502: "), "{statement}: {refused}");
        let columns =
            "SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = 't' ORDER BY 1";
        assert_eq!(rows(&client, columns).await, ["a|YES", "b|YES"], "{statement}");
    }
    run(&client, "INSERT INTO t VALUES (NULL, 1)").await;
    // A column of the same name that the statement makes itself holds no NULL.
    run(&client, "ALTER TABLE t DROP COLUMN b, ADD COLUMN b int NOT NULL DEFAULT 4").await;
    assert_eq!(rows(&client, "SELECT DISTINCT b FROM t").await, ["4"]);
}

#[tokio::test]
async fn a_numbered_column_that_is_set_to_default_draws() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id serial, n bigint GENERATED ALWAYS AS IDENTITY (START WITH 10), v text)").await;
    run(&client, "INSERT INTO t (v) VALUES ('a'), ('b')").await;
    assert_eq!(rows(&client, "UPDATE t SET id = DEFAULT WHERE v = 'a' RETURNING id, n").await, ["3|10"]);
    let mut drawn = rows(&client, "UPDATE t SET id = DEFAULT, n = DEFAULT RETURNING id, n").await;
    drawn.sort();
    assert_eq!(drawn, ["4|12", "5|13"]);
    let merge = "MERGE INTO t USING (VALUES ('a')) AS s(v) ON t.v = s.v WHEN MATCHED THEN UPDATE SET n = DEFAULT";
    assert_eq!(affected(&client, merge).await, 1);
    run(&client, "INSERT INTO t (v) VALUES ('b') ON CONFLICT (v) DO UPDATE SET id = DEFAULT").await;
    assert_eq!(
        rows(&client, "SELECT count(*), count(DISTINCT id), count(DISTINCT n), max(n) FROM t").await,
        ["2|2|2|14"]
    );
    assert!(error(&client, "UPDATE t SET n = 7").await.starts_with("428C9: "));
}

#[tokio::test]
async fn a_sequence_name_that_two_columns_make_is_nobodys() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE a_b (c serial); CREATE TABLE a (b_c serial)").await;
    for call in ["setval('a_b_c_seq', 500)", "nextval('public.a_b_c_seq')", "currval('a_b_c_seq')"] {
        let refused = error(&client, &format!("SELECT {call}")).await;
        let ambiguous = refused.contains("a_b_c_seq\" is ambiguous");
        assert!(refused.starts_with("42725: sequence name") && ambiguous, "{refused}");
    }
    run(&client, "ALTER TABLE a RENAME TO z").await;
    assert_eq!(rows(&client, "SELECT setval('a_b_c_seq', 500)").await, ["500"]);
    assert_eq!(rows(&client, "INSERT INTO a_b VALUES (DEFAULT) RETURNING c").await, ["501"]);
    assert_eq!(rows(&client, "INSERT INTO z VALUES (DEFAULT) RETURNING b_c").await, ["1"]);
}

#[tokio::test]
async fn a_primary_key_has_the_name_that_it_was_given() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (a int, b int, v text, CONSTRAINT pk PRIMARY KEY (a, b))").await;
    run(&client, "CREATE TABLE u (a int CONSTRAINT \"The Key\" PRIMARY KEY, v text)").await;
    run(&client, "INSERT INTO t VALUES (1, 2, 'x'); INSERT INTO u VALUES (1, 'x')").await;
    run(&client, "ALTER TABLE t RENAME TO w; ALTER TABLE u ALTER COLUMN a TYPE bigint").await;
    let upsert = "INSERT INTO w VALUES (1, 2, 'y') ON CONFLICT ON CONSTRAINT pk DO UPDATE SET v = excluded.v";
    assert_eq!(affected(&client, upsert).await, 1);
    let upsert = "INSERT INTO u VALUES (1, 'y') ON CONFLICT ON CONSTRAINT \"The Key\" DO UPDATE SET v = excluded.v";
    assert_eq!(affected(&client, upsert).await, 1);
    assert_eq!(rows(&client, "SELECT v FROM w UNION ALL SELECT v FROM u").await, ["y", "y"]);
    assert_eq!(rows(&client, "SELECT conname FROM pg_constraint ORDER BY 1").await, ["The Key", "pk"]);
    let refused = error(&client, "INSERT INTO w VALUES (1, 2, 'y') ON CONFLICT ON CONSTRAINT w_pkey DO NOTHING").await;
    assert!(refused.starts_with("42704: constraint \"w_pkey\" for table \"w\" does not exist"), "{refused}");
}
