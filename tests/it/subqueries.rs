//! Subqueries, joins that merge columns, recursive queries and calls that look alike: the answers of PostgreSQL.

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

async fn started() -> (Gateway, tokio_postgres::Client) {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (a int, b text); INSERT INTO n VALUES (1, 'x'), (2, NULL), (3, 'y')").await;
    run(&client, "CREATE TABLE k (id int NOT NULL, v int); INSERT INTO k VALUES (1, 10), (2, 20), (4, NULL)").await;
    (gateway, client)
}

async fn all(client: &tokio_postgres::Client, cases: &[(&str, &[&str])]) {
    for (sql, expected) in cases {
        assert_eq!(rows(client, sql).await, *expected, "{sql}");
    }
}

/// The left side of ANY and ALL is of the outer query, also where the inner one has a column of that name.
#[tokio::test]
async fn any_and_all_compare_with_the_outer_row() {
    let (_gateway, client) = started().await;
    all(
        &client,
        &[
            ("SELECT a FROM n WHERE a = ANY (SELECT a FROM n WHERE b IS NULL)", &["2"]),
            ("SELECT a FROM n WHERE a >= ALL (SELECT a FROM n)", &["3"]),
            ("SELECT a FROM n WHERE a > ANY (SELECT a FROM n) ORDER BY a", &["2", "3"]),
            ("SELECT a FROM n WHERE a <> ALL (SELECT max(a) FROM n) ORDER BY a", &["1", "2"]),
            ("SELECT a FROM n WHERE NOT a < SOME (SELECT a FROM n)", &["3"]),
            ("SELECT a FROM n WHERE a <= ALL (SELECT id FROM k WHERE false) ORDER BY a", &["1", "2", "3"]),
        ],
    )
    .await;
    run(&client, "UPDATE n SET a = 20 WHERE a >= ALL (SELECT a FROM n)").await;
    assert_eq!(rows(&client, "SELECT a FROM n ORDER BY a").await, ["1", "2", "20"]);
    run(&client, "DELETE FROM n WHERE a = ANY (SELECT a FROM n WHERE b IS NULL)").await;
    assert_eq!(rows(&client, "SELECT a FROM n ORDER BY a").await, ["1", "20"]);
}

#[tokio::test]
async fn a_set_is_a_value_in_the_select_list() {
    let (_gateway, client) = started().await;
    all(
        &client,
        &[
            ("SELECT a, a IN (SELECT id FROM k) FROM n ORDER BY a", &["1|t", "2|t", "3|f"]),
            ("SELECT a, a NOT IN (SELECT id FROM k) FROM n ORDER BY a", &["1|f", "2|f", "3|t"]),
            ("SELECT a, a = ANY (SELECT v / 10 FROM k) FROM n ORDER BY a", &["1|t", "2|t", "3|∅"]),
            ("SELECT NULL::int IN (SELECT id FROM k), NULL::int IN (SELECT id FROM k WHERE false)", &["∅|f"]),
            (
                "SELECT CASE WHEN 4 IN (SELECT id FROM k) THEN 'yes' ELSE 'no' END, 1 <> ALL (SELECT id FROM k)",
                &["yes|f"],
            ),
            ("SELECT EXISTS (SELECT 1 FROM k WHERE k.id = n.a), a FROM n ORDER BY a", &["t|1", "t|2", "f|3"]),
        ],
    )
    .await;
}

/// No row is NULL, also where the column takes none.
#[tokio::test]
async fn a_scalar_subquery_without_a_row_is_null() {
    let (_gateway, client) = started().await;
    all(
        &client,
        &[
            ("SELECT (SELECT 1 WHERE false) IS NULL, (SELECT 1) IS NULL", &["t|f"]),
            ("SELECT id FROM k a WHERE (SELECT b.id FROM k b WHERE b.id = 99) IS NULL ORDER BY id", &["1", "2", "4"]),
            (
                "SELECT coalesce((SELECT id FROM k WHERE id = 99), -1), coalesce((SELECT id FROM k WHERE id = 2), -1)",
                &["-1|2"],
            ),
            ("SELECT a, coalesce((SELECT id FROM k WHERE id = n.a), 0) FROM n ORDER BY a", &["1|1", "2|2", "3|0"]),
            ("SELECT a, (SELECT count(*) FROM k WHERE id = n.a) FROM n ORDER BY a", &["1|1", "2|1", "3|0"]),
            ("SELECT a, (SELECT k.v FROM k WHERE id = n.a) + 1 FROM n ORDER BY a", &["1|11", "2|21", "3|∅"]),
            (
                "SELECT a, (SELECT v FROM (VALUES (1, 5), (1, 6), (2, 7)) w(id, v) WHERE w.id = n.a ORDER BY v DESC LIMIT 1)
                 FROM n ORDER BY a",
                &["1|6", "2|7", "3|∅"],
            ),
            ("SELECT (SELECT max(id) FROM k), (SELECT count(*) FROM k WHERE false)", &["4|0"]),
            ("SELECT a FROM n WHERE a = (SELECT id FROM k WHERE v = 20)", &["2"]),
        ],
    )
    .await;
    let several = "SELECT (SELECT v FROM (VALUES (1, 5), (1, 6)) w(id, v) WHERE w.id = n.a) FROM n";
    assert!(error(&client, several).await.starts_with("21000: more than one row returned by a subquery"));
    run(&client, "UPDATE n SET a = coalesce((SELECT id FROM k WHERE id = 99), 7) WHERE a = 1").await;
    assert_eq!(rows(&client, "SELECT a FROM n ORDER BY a").await, ["2", "3", "7"]);
}

#[tokio::test]
async fn merged_columns_are_of_the_side_that_has_them() {
    let (_gateway, client) = started().await;
    all(
        &client,
        &[
            ("SELECT a FROM (SELECT 1 a, 2 b) x RIGHT JOIN (SELECT 2 a, 3 c) y USING (a)", &["2"]),
            ("SELECT * FROM (SELECT 1 a, 2 b) x RIGHT JOIN (SELECT 2 a, 3 c) y USING (a)", &["2|∅|3"]),
            (
                "SELECT id, v FROM k FULL JOIN (VALUES (4), (5)) b(id) USING (id) ORDER BY id",
                &["1|10", "2|20", "4|∅", "5|∅"],
            ),
            (
                "SELECT id, count(*) FROM k FULL JOIN (VALUES (5)) b(id) USING (id) GROUP BY id ORDER BY id",
                &["1|1", "2|1", "4|1", "5|1"],
            ),
            ("SELECT id FROM k FULL JOIN (VALUES (5)) b(id) USING (id) WHERE id > 3 ORDER BY id", &["4", "5"]),
            ("SELECT * FROM k a JOIN k b USING (id) WHERE id = 1", &["1|10|10"]),
            ("SELECT id, a.v FROM k a LEFT JOIN k b USING (id) WHERE id = 2", &["2|20"]),
            ("SELECT * FROM (SELECT 1 b, 2 a) x JOIN (SELECT 3 c, 2 a) y USING (a)", &["2|1|3"]),
            (
                "SELECT a.id, b.id FROM k a FULL JOIN (VALUES (1), (9)) b(id) USING (id) ORDER BY 2, 1",
                &["1|1", "∅|9", "2|∅", "4|∅"],
            ),
        ],
    )
    .await;
    let chain = "SELECT id FROM k JOIN k b USING (id) FULL JOIN (VALUES (9)) c(id) USING (id)";
    assert!(error(&client, chain).await.starts_with("0A000"));
}

/// A column that nobody outside reads is still read inside.
#[tokio::test]
async fn a_recursive_query_keeps_the_columns_that_it_needs() {
    let (_gateway, client) = started().await;
    let numbers = "WITH RECURSIVE t(n, m) AS (SELECT 1, 10 UNION ALL SELECT n + 1, m + n FROM t WHERE n < 4)";
    for (sql, expected) in [
        ("SELECT count(*) FROM t", "4"),
        ("SELECT max(m) FROM t", "16"),
        ("SELECT 1 FROM t LIMIT 1", "1"),
        ("SELECT EXISTS (SELECT 1 FROM t)", "t"),
        ("SELECT sum(n) FROM t", "10"),
        ("SELECT count(*) FROM t a JOIN t b ON a.n = b.n", "4"),
    ] {
        assert_eq!(rows(&client, &format!("{numbers} {sql}")).await, [expected], "{sql}");
    }
    run(&client, "CREATE TABLE tree (id int, parent int, wide text)").await;
    run(&client, "INSERT INTO tree VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 9, 'd')").await;
    let below = "WITH RECURSIVE below AS (SELECT id, parent FROM tree WHERE id = 1 UNION ALL
        SELECT t.id, t.parent FROM tree t JOIN below ON t.parent = below.id) SELECT count(*) FROM below";
    assert_eq!(rows(&client, below).await, ["3"]);
}

#[tokio::test]
async fn calls_that_look_alike_are_made_each() {
    let (_gateway, client) = started().await;
    run(&client, "CREATE TABLE s (id serial, v int)").await;
    assert_eq!(rows(&client, "SELECT nextval('s_id_seq'), nextval('s_id_seq')").await, ["1|2"]);
    assert_eq!(rows(&client, "SELECT nextval('s_id_seq') + nextval('s_id_seq')").await, ["7"]);
    run(&client, "INSERT INTO k VALUES (nextval('s_id_seq'), nextval('s_id_seq'))").await;
    assert_eq!(rows(&client, "SELECT id, v FROM k WHERE id = 5").await, ["5|6"]);
    let many = "SELECT min(x), max(x), count(DISTINCT x) FROM
        (SELECT nextval('s_id_seq') AS x FROM generate_series(1, 20000)) s";
    assert_eq!(rows(&client, many).await, ["7|20006|20000"]);
    assert_eq!(rows(&client, "SELECT lastval(), currval('s_id_seq')").await, ["20006|20006"]);
    all(
        &client,
        &[
            ("SELECT sum(a::int2), sum(a::int8), max(a), max(a::float8) FROM n", &["6|6|3|3"]),
            ("SELECT count(a), count(a::text) FROM n HAVING sum(a::int2) > 5 AND sum(a::int8) < 7", &["3|3"]),
            ("SELECT sum(a::int2) AS x FROM n ORDER BY sum(a::int8)", &["6"]),
            ("SELECT sum(v::int8) OVER (), sum(v::int4) OVER () FROM k WHERE id = 1", &["10|10"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn values_may_hold_queries_and_keep_their_order() {
    let (_gateway, client) = started().await;
    all(
        &client,
        &[
            ("VALUES ((SELECT 1)), (2) ORDER BY 1", &["1", "2"]),
            ("SELECT * FROM (VALUES ((SELECT max(id) FROM k), 'm'), (0, 'z')) t (a, b) ORDER BY b", &["4|m", "0|z"]),
        ],
    )
    .await;
    run(&client, "INSERT INTO n VALUES (8, (SELECT max(b) FROM n)), ((SELECT max(a) FROM n) + 1, 'w')").await;
    assert_eq!(rows(&client, "SELECT a, b FROM n WHERE a > 3 ORDER BY a").await, ["4|w", "8|y"]);
    // A driver attaches the numbers to what it has sent by their order.
    run(&client, "CREATE TABLE s (id int GENERATED BY DEFAULT AS IDENTITY, v text)").await;
    let mixed = "INSERT INTO s VALUES (10, 'a'), (DEFAULT, 'b'), (20, 'c'), (DEFAULT, 'd') RETURNING id, v";
    assert_eq!(rows(&client, mixed).await, ["10|a", "1|b", "20|c", "2|d"]);
}

#[tokio::test]
async fn regular_expressions_that_cannot_be_read_are_refused() {
    let (_gateway, client) = started().await;
    for (sql, code) in [
        ("SELECT 'x' ~ '(a'", "2201B"),
        ("SELECT regexp_replace('abc', '(', 'x')", "2201B"),
        ("SELECT b FROM n WHERE b ~ '[z-a]'", "2201B"),
        ("SELECT 'foobar' ~ 'foo(?=bar)'", "0A000"),
        ("SELECT 'aa' ~ '(a)\\1'", "0A000"),
    ] {
        let told = error(&client, sql).await;
        assert!(told.starts_with(code), "{sql}: {told}");
    }
}

#[tokio::test]
async fn functions_have_the_names_that_postgresql_gives_them() {
    let (_gateway, client) = started().await;
    all(
        &client,
        &[
            (
                "SELECT mod(7, -2), mod(-7, 2), div(7, 2), sign(-3), ceiling(1.2::float8), 2 ^ 3, 7 % 4",
                &["1|-1|3|-1|2|8|3"],
            ),
            (
                "SELECT every(a > 0), json_agg(a ORDER BY a), json_agg(b ORDER BY a) FROM n",
                &["t|[1,2,3]|[\"x\",null,\"y\"]"],
            ),
            ("SELECT ARRAY(SELECT a FROM n ORDER BY a), ARRAY(SELECT a FROM n WHERE false)", &["{1,2,3}|{}"]),
            ("SELECT ARRAY[1, 2] && ARRAY[2, 3], ARRAY[1] && ARRAY[2]", &["t|f"]),
            ("SELECT round(variance(a)) FROM n", &["1"]),
            (
                "SELECT age(timestamp '2024-03-01', timestamp '2024-01-31'), age(date '2024-01-31', date '2024-03-01')",
                &["1 mon 1 day|-1 mons -1 days"],
            ),
            (
                "SELECT age(timestamp '2024-05-01 10:00:00', timestamp '2023-02-28 12:00:00')",
                &["1 year 2 mons 22:00:00"],
            ),
            ("SELECT age(now()::timestamp) < interval '2 days'", &["t"]),
            (
                "SELECT justify_hours(interval '27 hours'), justify_days(interval '35 days')",
                &["1 day 03:00:00|1 mon 5 days"],
            ),
            ("SELECT justify_interval(interval '1 month -1 hours')", &["29 days 23:00:00"]),
            ("SELECT clock_timestamp() IS NOT NULL, localtimestamp <= now()::timestamp", &["t|t"]),
        ],
    )
    .await;
    let named = "SELECT mod(a, 2), json_agg(a), ceiling(1.5), ARRAY(SELECT 1) FROM n GROUP BY a";
    let named = client.prepare(named).await.unwrap();
    let names: Vec<&str> = named.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names, ["mod", "json_agg", "ceiling", "array"]);
}

/// A column that stands beside `t.*` can be named by the query around.
#[tokio::test]
async fn columns_beside_a_wildcard_have_their_names() {
    let (_gateway, client) = started().await;
    all(
        &client,
        &[
            ("SELECT v FROM (SELECT n.*, k.v FROM n JOIN k ON k.id = n.a) s ORDER BY v", &["10", "20"]),
            ("SELECT upper, a FROM (SELECT *, upper(b) FROM n) s WHERE a = 1", &["X|1"]),
            ("WITH s AS (SELECT n.*, row_number() OVER (ORDER BY a DESC) FROM n) SELECT a FROM s WHERE row_number = 1", &["3"]),
            ("SELECT count(*) FROM (SELECT *, a FROM n) s", &["3"]),
            ("SELECT count(*) FROM (SELECT n.*, n.a FROM n, k) s", &["9"]),
            ("SELECT b FROM (SELECT n.*, a FROM n) s WHERE b = 'x'", &["x"]),
            ("SELECT *, a, upper(b) FROM n WHERE a = 1", &["1|x|1|X"]),
            ("SELECT n.* FROM public.n WHERE a = 1", &["1|x"]),
            ("SELECT n.*, m.a FROM public.n JOIN public.n AS m ON m.a = n.a WHERE n.a = 3", &["3|y|3"]),
        ],
    )
    .await;
}

/// What TypeORM, Django, pgcli, DBD::Pg and psqlODBC ask the catalog.
#[tokio::test]
async fn catalog_queries_of_clients_are_answered() {
    let (_gateway, client) = started().await;
    run(&client, "CREATE TABLE p (id int PRIMARY KEY, price numeric(10, 2)); CREATE INDEX ON p (id)").await;
    run(&client, "COMMENT ON TABLE p IS 'priced'").await;
    all(
        &client,
        &[
            (
                "SELECT obj_description((quote_ident(table_schema) || '.' || quote_ident(table_name))::regclass, 'pg_class')
                 FROM information_schema.tables WHERE table_schema = 'public' AND table_name = 'p'",
                &["priced"],
            ),
            (
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'p'::regclass AND attnum = 2",
                &["numeric(10,2)"],
            ),
            (
                "SELECT i.indkey, i.indoption, pg_index_column_has_property(i.indexrelid, 1, 'asc') FROM pg_index i
                 WHERE i.indrelid = 'p'::regclass",
                &["1|0|t"],
            ),
            (
                "SELECT attname FROM (SELECT idx.*, attr.attname FROM
                     (SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY koi(key, option, arridx)) idx
                     LEFT JOIN pg_attribute attr ON attr.attrelid = idx.indrelid AND attr.attnum = idx.key) s",
                &["id"],
            ),
            (
                "SELECT COALESCE(proallargtypes::regtype[], proargtypes::regtype[])::text[] FROM pg_proc
                 WHERE proname = 'abs' AND prorettype = 23",
                &["{integer}"],
            ),
        ],
    )
    .await;
}

/// A function in FROM may take columns of what stands before it.
#[tokio::test]
async fn functions_in_from_see_the_row_beside_them() {
    let (_gateway, client) = started().await;
    run(&client, "CREATE TABLE l (id int, tags text[], m int)").await;
    run(&client, "INSERT INTO l VALUES (1, ARRAY['a', 'b'], 2), (2, ARRAY['b'], 1), (3, NULL, 0)").await;
    all(
        &client,
        &[
            ("SELECT id, tag FROM l, unnest(l.tags) AS tag ORDER BY id, tag", &["1|a", "1|b", "2|b"]),
            ("SELECT tag, count(*) FROM l CROSS JOIN unnest(tags) AS tag GROUP BY tag ORDER BY tag", &["a|1", "b|2"]),
            ("SELECT l.id, t.t FROM l, LATERAL unnest(l.tags) t WHERE t.t = 'b' ORDER BY 1", &["1|b", "2|b"]),
            ("SELECT id, g FROM l, generate_series(1, l.m) g ORDER BY id, g", &["1|1", "1|2", "2|1"]),
            ("SELECT l.id, n.b, x FROM l, unnest(l.tags) x JOIN n ON n.a = 2 WHERE l.id = 2", &["2|∅|b"]),
            ("SELECT x FROM l, unnest(ARRAY[1, 2]) x WHERE l.id = 1 ORDER BY x", &["1", "2"]),
            (
                "SELECT id, tag FROM l LEFT JOIN LATERAL unnest(l.tags) AS tag ON true ORDER BY id, tag",
                &["1|a", "1|b", "2|b", "3|∅"],
            ),
            (
                "SELECT l.id, t.tag, t.n FROM l, unnest(l.tags) WITH ORDINALITY AS t(tag, n) ORDER BY id, n",
                &["1|a|1", "1|b|2", "2|b|1"],
            ),
            ("SELECT id, x FROM l LEFT JOIN LATERAL generate_series(1, l.m) x ON true WHERE id = 3", &["3|∅"]),
            ("SELECT * FROM unnest(ARRAY[7, 8]) WITH ORDINALITY AS t(x, n) ORDER BY n", &["7|1", "8|2"]),
        ],
    )
    .await;
    let named = "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass::oid AND attnum > 0";
    let columns = client.query(named, &[&"\"public\" . \"l\""]).await.unwrap();
    let columns: Vec<String> = columns.iter().map(|row| row.get(0)).collect();
    assert_eq!(columns, ["id", "tags", "m"]);
}

/// A subquery in RETURNING that names the table reads it as it was before the change.
#[tokio::test]
async fn a_subquery_in_returning_reads_the_table() {
    let (_gateway, client) = started().await;
    all(
        &client,
        &[
            ("INSERT INTO n VALUES (9, 'z') RETURNING a, (SELECT max(a) FROM n)", &["9|3"]),
            ("UPDATE n SET a = a + 1 WHERE a = 9 RETURNING public.n.a, n.b, (SELECT count(*) FROM n)", &["10|z|4"]),
            ("UPDATE n AS m SET a = 11 WHERE a = 10 RETURNING m.a, (SELECT max(a) FROM n)", &["11|10"]),
            ("DELETE FROM public.n WHERE a = 11 RETURNING *, a IN (SELECT id FROM k)", &["11|z|f"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_subquery_in_on_may_name_what_stands_before_it() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE a (id int, k int)").await;
    run(&client, "CREATE TABLE b (id int, v text)").await;
    run(&client, "CREATE TABLE c (k int, bid int)").await;
    run(&client, "INSERT INTO a VALUES (1, 10), (2, 20), (3, NULL)").await;
    run(&client, "INSERT INTO b VALUES (100, 'x'), (200, 'y')").await;
    run(&client, "INSERT INTO c VALUES (10, 100), (20, 200)").await;
    let on = "a LEFT JOIN b AS bb ON bb.id = (SELECT c.bid FROM c WHERE c.k = a.k)";
    assert_eq!(rows(&client, &format!("SELECT a.id, bb.v FROM {on} ORDER BY 1")).await, ["1|x", "2|y", "3|∅"]);
    assert_eq!(rows(&client, &format!("SELECT * FROM {on} ORDER BY 1")).await, ["1|10|100|x", "2|20|200|y", "3|∅|∅|∅"]);
    assert_eq!(rows(&client, &format!("SELECT a.*, bb.* FROM {on} ORDER BY 1 LIMIT 1")).await, ["1|10|100|x"]);
    let not = client.prepare("SELECT id FROM a WHERE k IS NOT NULL AND (id = 1 OR NOT($1)) ORDER BY 1").await.unwrap();
    assert_eq!(not.params(), [tokio_postgres::types::Type::BOOL]);
    assert_eq!(client.query(&not, &[&true]).await.unwrap().len(), 1);
    assert_eq!(client.query(&not, &[&false]).await.unwrap().len(), 2);
}

/// As TypeORM asks for foreign keys: a column that is computed beside `unnest` is called as the one that it reads.
#[tokio::test]
async fn a_column_beside_unnest_is_called_as_one_that_it_reads() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (k int[], s text); INSERT INTO t VALUES ('{1,2}', 'x')").await;
    let both = ["1|X", "2|X"];
    assert_eq!(rows(&client, "SELECT unnest(t.k) AS k, upper(t.s) AS s FROM t").await, both);
    let ordered = "SELECT unnest(k) AS k, upper(s) AS s FROM t ORDER BY k DESC, 2 LIMIT 1";
    assert_eq!(rows(&client, ordered).await, ["2|X"]);
    assert_eq!(rows(&client, "SELECT q.k, q.s FROM (SELECT unnest(k) AS k, upper(s) AS s FROM t) q").await, both);
    let typeorm = "SELECT con.parent, con.condeferred FROM (
            SELECT UNNEST (con1.conkey) AS parent, UNNEST (con1.confkey) AS child, con1.condeferrable,
                CASE WHEN con1.condeferred THEN 'INITIALLY DEFERRED' ELSE 'INITIALLY IMMEDIATE' END as condeferred
            FROM pg_class cl INNER JOIN pg_constraint con1 ON con1.conrelid = cl.oid WHERE con1.contype = 'f') con
        INNER JOIN pg_attribute att ON att.attnum = con.child";
    assert!(rows(&client, typeorm).await.is_empty());
}
