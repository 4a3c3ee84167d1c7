//! Values as PostgreSQL 15 has them: the expected texts are its answers.

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

/// Compares what selects of these expressions answer.
async fn check(cases: &[(&str, &str)]) {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    for (expression, expected) in cases {
        assert_eq!(rows(&client, &format!("SELECT {expression}")).await, [*expected], "{expression}");
    }
}

#[tokio::test]
async fn intervals_compare_by_their_length() {
    check(&[
        ("interval '24 hours' = interval '1 day', interval '1 month' = interval '30 days'", "t|t"),
        ("interval '1 month' < interval '31 days', interval '1 day' > '23:00:00'", "t|t"),
        ("timestamp '2024-01-29 12:30:00' - timestamp '2024-01-01'", "28 days 12:30:00"),
        ("timestamp '2024-01-03' - timestamp '2024-01-01' > interval '1 day'", "t"),
        ("now() - timestamptz '2024-01-01 00:00:00+00' > interval '1 day'", "t"),
        ("interval '25 hours' IN (interval '1 day 01:00:00'), interval '25 hours' NOT IN (interval '1 day')", "t|t"),
        ("interval '26 hours' BETWEEN interval '1 day' AND interval '2 days'", "t"),
    ])
    .await;
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let values = "(VALUES (interval '1 day'), (interval '25 hours'), (interval '2 hours')) t(x)";
    let cases = [
        (format!("SELECT x FROM {values} ORDER BY x DESC"), vec!["25:00:00", "1 day", "02:00:00"]),
        (format!("SELECT max(x), min(x) FROM {values}"), vec!["25:00:00|02:00:00"]),
    ];
    for (sql, expected) in cases {
        assert_eq!(rows(&client, &sql).await, expected, "{sql}");
    }
    run(&client, "CREATE TABLE t (at timestamp)").await;
    run(&client, "INSERT INTO t VALUES ('2024-01-01'), ('2200-01-01')").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE now() - at > interval '1 day'").await, ["1"]);
    run(&client, "DELETE FROM t WHERE now() - at < interval '7 days'").await;
    assert_eq!(rows(&client, "SELECT at FROM t").await, ["2024-01-01 00:00:00"]);
}

#[tokio::test]
async fn intervals_are_added_and_scaled() {
    check(&[
        ("date '2024-01-31' + interval '1 hour'", "2024-01-31 01:00:00"),
        ("date '2024-01-01' + interval '1 day' + interval '6 hours'", "2024-01-02 06:00:00"),
        (
            "interval '1 hour' + date '2024-01-31', date '2024-01-02' - interval '12 hours'",
            "2024-01-31 01:00:00|2024-01-01 12:00:00",
        ),
        ("time '23:30' + interval '1 hour 30 minutes', time '00:30' - interval '1 hour'", "01:00:00|23:30:00"),
        ("date '2024-01-31' - date '2024-01-01'", "30"),
        ("interval '1 day' * 2, interval '1 day' / 2, interval '1 month' * 0.5", "2 days|12:00:00|15 days"),
        ("2.5 * interval '2 hours', -interval '1 day 02:00:00'", "05:00:00|-1 days -02:00:00"),
        ("-interval '1 day 2 hours'", "-1 days -02:00:00"),
        ("sum(x), avg(x) FROM (VALUES (interval '1 day'), (interval '25 hours')) t(x)", "1 day 25:00:00|24:30:00"),
        (
            "extract(hour from timestamp '2024-01-03 05:00' - timestamp '2024-01-01'), \
             extract(day from timestamp '2024-01-03 05:00' - timestamp '2024-01-01')",
            "5|2",
        ),
    ])
    .await;
}

#[tokio::test]
async fn numbers_are_rounded_to_integers() {
    check(&[
        ("2.5::int, 2.567::numeric::int, 2.7::bigint, 2.7::float8::int2", "3|3|3|3"),
        ("2.5::float8::int, (-2.5)::numeric::int, (-2.5)::float8::int", "2|-3|-2"),
        ("round(2.5::float8), round(0.5::float8), round(-1.5::float8)", "2|0|-2"),
    ])
    .await;
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (i int, f float8)").await;
    run(&client, "INSERT INTO t VALUES (1.7, 2.5)").await;
    run(&client, "INSERT INTO t SELECT i + 0.5, 3.5 FROM t").await;
    assert_eq!(rows(&client, "SELECT i FROM t ORDER BY f").await, ["2", "3"]);
    run(&client, "UPDATE t SET i = f").await;
    assert_eq!(rows(&client, "SELECT i FROM t ORDER BY f").await, ["2", "4"]);
    run(&client, "UPDATE t SET i = 2.7").await;
    assert_eq!(rows(&client, "SELECT i FROM t").await, ["3", "3"]);
}

#[tokio::test]
async fn a_float_beside_a_decimal_is_compared_as_a_float() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (f float8, r real, n numeric(6, 2))").await;
    run(&client, "INSERT INTO t VALUES (1.5, 1.5, 1.5), (1e20, 1e20, 2), ('Infinity', 'NaN', 3)").await;
    let cases = [
        ("SELECT count(*) FROM t WHERE f > 1.5", vec!["2"]),
        ("SELECT count(*) FROM t WHERE r = 1.5", vec!["1"]),
        ("SELECT count(*) FROM t WHERE f IN (1.5, 0.1)", vec!["1"]),
        ("SELECT count(*) FROM t WHERE f BETWEEN 1.0 AND 2.5", vec!["1"]),
        ("SELECT count(*) FROM t WHERE f = n", vec!["1"]),
        ("SELECT coalesce(f, 0.0), greatest(f, 2.0) FROM t WHERE f < 2.5", vec!["1.5|2"]),
        ("SELECT CASE WHEN f > 2.5 THEN f ELSE 0.5 END FROM t ORDER BY 1", vec!["0.5", "1e+20", "Infinity"]),
        (
            "SELECT x FROM (SELECT f x FROM t UNION ALL SELECT 2.5) u ORDER BY x",
            vec!["1.5", "2.5", "1e+20", "Infinity"],
        ),
    ];
    for (sql, expected) in cases {
        assert_eq!(rows(&client, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_decimal_becomes_the_nearest_float() {
    check(&[
        ("1e15::float8, 1e15::numeric::float8", "1e+15|1e+15"),
        ("79675463696223509.0::float8, 57112798.198519346::float8", "7.96754636962235e+16|57112798.19851935"),
        ("99473892814.86781::float8", "99473892814.86781"),
    ])
    .await;
}

#[tokio::test]
async fn text_is_cast_as_parameters_are_read() {
    check(&[
        ("'2024-01-01 10:00'::timestamp, timestamp '2024-01-01 10:00'", "2024-01-01 10:00:00|2024-01-01 10:00:00"),
        ("'2024-01-01 10:00+02'::timestamptz = '2024-01-01 08:00+00'::timestamptz", "t"),
        (
            "'epoch'::timestamp, '10:00'::time, '0001-01-01'::timestamp",
            "1970-01-01 00:00:00|10:00:00|0001-01-01 00:00:00",
        ),
        ("'1 day 02:00:00'::interval, interval 'P1Y2M'", "1 day 02:00:00|1 year 2 mons"),
        ("' 12 '::int, '1e-3'::numeric, 1 + '2'", "12|0.001|3"),
        ("'today'::date = current_date, 'tomorrow'::date - 'today'::date, 'now'::timestamptz <= now()", "t|1|t"),
        ("x::int + 1, (x || '.5')::numeric FROM (VALUES (' 7')) t(x)", "8|7.5"),
    ])
    .await;
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (at timestamp, d date)").await;
    run(&client, "INSERT INTO t VALUES ('2024-01-01 10:00', '2024-01-01')").await;
    assert_eq!(rows(&client, "SELECT at FROM t WHERE at >= '2024-01-01 09:30'").await, ["2024-01-01 10:00:00"]);
    let cases = [
        ("SELECT 'x'::date", "22007: invalid input syntax for type date: \"x\""),
        ("SELECT 'x'::int", "22P02: invalid input syntax for type integer: \"x\""),
        ("SELECT '99999999999'::int", "22003: value \"99999999999\" is out of range for type integer"),
    ];
    for (sql, expected) in cases {
        assert_eq!(error(&client, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn quotients_lengths_and_texts_of_numbers() {
    check(&[
        // PostgreSQL shows 3.1428571428571429: it counts the digits before the point.
        ("1/3.0, 2/3.0, 22/7.0", "0.33333333333333333333|0.66666666666666666667|3.14285714285714285714"),
        ("100::float8::text, 1e20::float8::text, 1.5::real::text", "100|1e+20|1.5"),
        ("array_length('{}'::int[], 1), array_length(ARRAY[1, 2], 1)", "∅|2"),
        ("pg_typeof(array_length(ARRAY[1], 1)), substr('hello', 2::int2)", "integer|ello"),
        ("extract(second FROM timestamp '2024-01-01 00:00:01.5')", "1.5"),
    ])
    .await;
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let statement =
        client.prepare("SELECT row_number() OVER (), ntile(2) OVER (), rank() OVER (ORDER BY 1)").await.unwrap();
    let types: Vec<&str> = statement.columns().iter().map(|column| column.type_().name()).collect();
    assert_eq!(types, ["int8", "int4", "int8"]);
    let rows = client.query("VALUES ($1, $2)", &[&"a", &"b"]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(1), "b");
}

#[tokio::test]
async fn what_has_no_value_has_the_code_of_postgresql() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let cases = [
        ("SELECT 12345.68::numeric(6, 2)", "22003: numeric field overflow"),
        ("SELECT sqrt(-1)", "2201F: cannot take square root of a negative number"),
        ("SELECT ln(0)", "2201E: cannot take logarithm of zero"),
        ("SELECT asin(2)", "22003: input is out of range"),
        ("SELECT exp(1000::float8)", "22003: value out of range: overflow"),
        ("SELECT split_part('a,b', ',', 0)", "22023: field position must not be zero"),
        ("SELECT interval '1 day' / 0", "22012: division by zero"),
        ("SELECT 1 / 0.0", "22012: division by zero"),
    ];
    for (sql, expected) in cases {
        assert_eq!(error(&client, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn arrays_hold_elements_from_one_on_and_unknown_ones() {
    check(&[
        ("array_remove(ARRAY[1, 2, 1], 1), array_replace(ARRAY[1, 2, 1], 1, 3)", "{2}|{3,2,3}"),
        ("(ARRAY[1, 2, 3])[-1] IS NULL, (ARRAY[1, 2, 3])[0] IS NULL, (ARRAY[1, 2, 3])[3]", "t|t|3"),
        ("(ARRAY[1, 2, 3])[n] FROM (VALUES (2)) t(n)", "2"),
        ("(ARRAY[1, 2, 3])[n] IS NULL FROM (VALUES (-2)) t(n)", "t"),
        ("(1 = ANY (ARRAY[2, NULL])) IS NULL, 2 = ANY (ARRAY[2, NULL])", "t|t"),
        ("count(*) FROM (VALUES (1), (2)) t(x) WHERE NOT (x = ANY (ARRAY[2, NULL]))", "0"),
    ])
    .await;
}

#[tokio::test]
async fn texts_of_numbers_and_patterns() {
    check(&[
        ("to_hex(255), to_hex(-1), to_hex(-1::bigint), to_hex(2147483648)", "ff|ffffffff|ffffffffffffffff|80000000"),
        ("regexp_replace('a$1b', 'a', '$1'), regexp_replace('ab', '(a)', '<\\1>')", "$1$1b|<a>b"),
        (
            "substring('foobar' from 'o.b'), substring('foobar' from 'o(.)b'), substring('foobar' from 'x') IS NULL",
            "oob|o|t",
        ),
        ("ceil(2.1), floor(-2.1), ceil(1.5::float8), ceil(numeric '99.50')", "3|-3|2|100"),
    ])
    .await;
}

#[tokio::test]
async fn moments_are_no_numbers_and_json_is_json() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (d date, at timestamp, n bigint, j json)").await;
    for (sql, code) in [
        ("INSERT INTO t (d) VALUES (20240101)", "42846: cannot cast type bigint to date"),
        ("INSERT INTO t (n) SELECT DATE '2024-01-01'", "42846: cannot cast type date to bigint"),
        ("SELECT n::timestamp FROM t", "42846: cannot cast type bigint to timestamp without time zone"),
        ("INSERT INTO t (j) VALUES ('bad')", "22P02: invalid input syntax for type json"),
        ("INSERT INTO t (j) SELECT '{\"a\":'", "22P02: invalid input syntax for type json"),
    ] {
        assert!(error(&client, sql).await.starts_with(code), "{sql}: {}", error(&client, sql).await);
    }
    run(&client, "INSERT INTO t (d, j) VALUES ('2024-01-01', '{\"a\": 1}'), (NULL, NULL)").await;
    let refused = error(&client, "UPDATE t SET j = '{'").await;
    assert!(refused.starts_with("22P02"), "{refused}");
    assert_eq!(rows(&client, "SELECT count(*), count(j), count(n) FROM t").await, ["2|1|0"]);
}

#[tokio::test]
async fn mistakes_that_binding_loses_the_place_of_have_it() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (n int)").await;
    for (sql, code, position) in [
        ("SELECT n FROM t WHERE max(n) > 1", "42803", 23),
        ("SELECT n FROM t WHERE n > 1 AND sum(n) > 1", "42803", 33),
        ("SELECT 1 UNION SELECT 2, 3", "42601", 23),
        ("SELECT 1, 2 EXCEPT SELECT 3", "42601", 27),
        ("VALUES (1), (2, 3)", "42601", 14),
        ("SELECT * FROM (VALUES (1, 2), (3)) v", "42601", 32),
    ] {
        let refused = client.simple_query(sql).await.unwrap_err();
        let refused = refused.as_db_error().unwrap();
        let at = refused.position().map(|position| match position {
            tokio_postgres::error::ErrorPosition::Original(at) => *at,
            tokio_postgres::error::ErrorPosition::Internal { position, .. } => *position,
        });
        assert_eq!((refused.code().code(), at), (code, Some(position)), "{sql}");
    }
    for sql in [
        "SELECT n FROM t WHERE n = (SELECT max(n) FROM t)",
        "SELECT n FROM t GROUP BY n HAVING max(n) > 1",
        "SELECT count(*) FILTER (WHERE n > 1) FROM t WHERE n > 0",
        "SELECT 1 UNION SELECT n FROM t",
        "SELECT * FROM t UNION SELECT 1",
    ] {
        run(&client, sql).await;
    }
}

#[tokio::test]
async fn moments_and_numbers_have_templates() {
    check(&[
        (
            "to_char(timestamp '2024-02-29 14:05:09.5', 'FMDay, DD Mon YYYY HH12:MI:SS.MS am')",
            "Thursday, 29 Feb 2024 02:05:09.500 pm",
        ),
        ("to_char(date '2024-02-29', 'YYYY-MM-DD'), to_char(interval '1 day 02:03:04', 'DD HH24:MI:SS')", "2024-02-29|01 02:03:04"),
        ("to_char(1234.5, '9,999.99'), to_char(-7, 'FM000'), to_char(0.5::float8, '0.9')", " 1,234.50|-007| 0.5"),
        ("to_date('29/02/2024', 'DD/MM/YYYY'), to_timestamp('20240229 1405', 'YYYYMMDD HH24MI')", "2024-02-29|2024-02-29 14:05:00+00"),
        ("to_timestamp(0), to_char(NULL::timestamp, 'YYYY') IS NULL", "1970-01-01 00:00:00+00|t"),
        ("count(*) FROM (VALUES (date '2024-01-31'), (date '2024-01-01'), (date '2023-01-01')) t(d) WHERE to_char(d, 'YYYY-MM') = '2024-01'", "2"),
    ])
    .await;
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "SET timezone = 'Europe/Berlin'").await;
    let local = "SELECT to_char(timestamptz '2024-07-01 12:00:00+00', 'HH24:MI TZ OF'), to_timestamp('2024-07-01', 'YYYY-MM-DD')";
    assert_eq!(rows(&client, local).await, ["14:00 CEST +02|2024-07-01 00:00:00+02"]);
    let refused = error(&client, "SELECT to_date('2024-13-01', 'YYYY-MM-DD')").await;
    assert!(refused.starts_with("22008"), "{refused}");
}

#[tokio::test]
async fn series_are_of_moments_too() {
    check(&[
        (
            "string_agg(x::text, ' ') FROM generate_series(timestamp '2024-01-01', '2024-01-03', '1 day') x",
            "2024-01-01 00:00:00 2024-01-02 00:00:00 2024-01-03 00:00:00",
        ),
        (
            "count(*), max(x) FROM generate_series(date '2024-01-31', date '2024-03-31', interval '1 month') x",
            "3|2024-03-29 00:00:00",
        ),
        ("count(*) FROM generate_series(timestamptz '2024-01-01', '2024-01-02', '6 hours')", "5"),
        ("count(*) FROM generate_series(now() - interval '7 days', now(), '1 day')", "8"),
    ])
    .await;
}

#[tokio::test]
async fn arrays_are_arguments_and_parameters() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (n int, s text)").await;
    let (numbers, texts) = (vec![1, 2], vec!["a", "b"]);
    let sql = "INSERT INTO t SELECT * FROM unnest($1::int[], $2::text[])";
    assert_eq!(client.execute(sql, &[&numbers, &texts]).await.unwrap(), 2);
    let typed = [tokio_postgres::types::Type::INT4_ARRAY];
    let one = client.prepare_typed("INSERT INTO t (n) SELECT x FROM unnest($1) x", &typed).await.unwrap();
    assert_eq!(client.execute(&one, &[&vec![3, 4]]).await.unwrap(), 2);
    run(&client, "PREPARE p (int[]) AS SELECT sum(x) FROM unnest($1) x").await;
    assert_eq!(rows(&client, "EXECUTE p ('{5,6}')").await, ["11"]);
    assert_eq!(rows(&client, "EXECUTE p (ARRAY[7])").await, ["7"]);
    assert_eq!(rows(&client, "SELECT sum(n), count(s) FROM t").await, ["10|2"]);
}

#[tokio::test]
async fn moments_are_shown_at_a_zone_and_taken_from_one() {
    check(&[
        (
            "timestamptz '2024-01-15 10:20:30+00' AT TIME ZONE 'America/New_York', \
             timestamp '2024-01-15 10:20:30' AT TIME ZONE 'America/New_York'",
            "2024-01-15 05:20:30|2024-01-15 15:20:30+00",
        ),
        (
            "timestamptz '2024-01-15 10:20:30+00' AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York'",
            "2024-01-15 15:20:30+00",
        ),
        (
            "timezone('+05', timestamptz '2024-07-01 12:00:00+00'), date '2024-07-01' AT TIME ZONE 'Asia/Kolkata'",
            "2024-07-01 07:00:00|2024-07-01 05:30:00",
        ),
        (
            "date(timestamp '2024-07-01 12:00:00'), make_interval(days => 3, hours => 2), make_interval(1, 2)",
            "2024-07-01|3 days 02:00:00|1 year 2 mons",
        ),
    ])
    .await;
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let refused = error(&client, "SELECT now() AT TIME ZONE 'nowhere'").await;
    assert!(refused.starts_with("22023: time zone \"nowhere\" not recognized"), "{refused}");
}

#[tokio::test]
async fn parts_of_moments_divide_and_patterns_are_similar() {
    check(&[
        ("extract(minute from timestamp '2024-01-01 10:30:00') / 60 = 0.5", "t"),
        ("date_part('minute', timestamp '2024-01-01 10:30:00') / 60, extract(year from date '2024-05-06')", "0.5|2024"),
        (
            "extract(epoch from timestamp '2024-01-15 10:20:30.123456'), extract(second from time '00:00:01.5')",
            "1705314030.123456|1.5",
        ),
        (
            "'Hello' SIMILAR TO 'H%', 'Hello' SIMILAR TO 'ell', 'abc' SIMILAR TO '(a|b)_c', 'a.c' NOT SIMILAR TO 'a.c'",
            "t|f|t|f",
        ),
        ("count(*) FROM (VALUES ('a%'), ('ab')) t(x) WHERE x SIMILAR TO 'a#%' ESCAPE '#'", "1"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (2), (NULL), (9)) t(x)", "2"),
        ("percentile_disc(0) WITHIN GROUP (ORDER BY x DESC) FROM (VALUES (1), (2), (9)) t(x)", "9"),
    ])
    .await;
}

/// The expected texts are PostgreSQL's with the same `TimeZone`.
#[tokio::test]
async fn days_and_hours_are_those_of_the_sessions_zone() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "SET timezone = 'America/New_York'").await;
    run(&client, "CREATE TABLE t (id int, at timestamptz, ts timestamp, d date)").await;
    run(&client, "INSERT INTO t VALUES (1, '2024-01-15 02:30:00+00', '2024-01-15 02:30', '2024-01-15')").await;
    run(&client, "INSERT INTO t VALUES (2, '2024-07-15 02:30:00', '2024-07-15 02:30', '2024-07-15')").await;
    for (list, expected) in [
        ("date_trunc('day', at)", ["2024-01-14 00:00:00-05", "2024-07-15 00:00:00-04"]),
        ("date_trunc('day', at, 'UTC')", ["2024-01-14 19:00:00-05", "2024-07-14 20:00:00-04"]),
        ("extract(hour from at), date_part('dow', at)", ["21|0", "2|1"]),
        (
            "at::date, at::timestamp, at::time",
            ["2024-01-14|2024-01-14 21:30:00|21:30:00", "2024-07-15|2024-07-15 02:30:00|02:30:00"],
        ),
        ("at > ts, at = ts, at > d", ["f|f|f", "f|t|t"]),
        ("at - ts, at - d", ["-05:00:00|-02:30:00", "00:00:00|02:30:00"]),
        (
            "at + interval '6 months', interval '1 day' + at",
            ["2024-07-14 21:30:00-04|2024-01-15 21:30:00-05", "2025-01-15 02:30:00-05|2024-07-16 02:30:00-04"],
        ),
        (
            "at AT TIME ZONE 'UTC', ts AT TIME ZONE 'UTC'",
            ["2024-01-15 02:30:00|2024-01-14 21:30:00-05", "2024-07-15 06:30:00|2024-07-14 22:30:00-04"],
        ),
    ] {
        assert_eq!(rows(&client, &format!("SELECT {list} FROM t ORDER BY id")).await, expected, "{list}");
    }
    for (sql, expected) in [
        ("SELECT id FROM t WHERE at::date = '2024-01-14'", "1"),
        ("SELECT date_trunc('month', at)::date, count(*) FROM t GROUP BY 1 ORDER BY 1 LIMIT 1", "2024-01-01|1"),
        (
            "SELECT to_timestamp(0), extract(hour from to_timestamp(0)), extract(epoch from to_timestamp(1.5))",
            "1969-12-31 19:00:00-05|19|1.5",
        ),
        (
            "SELECT timestamptz '2024-03-09 12:00' + interval '1 day', timestamptz '2024-03-09 12:00' + interval '24 hours'",
            "2024-03-10 12:00:00-04|2024-03-10 13:00:00-04",
        ),
        ("SELECT count(*) FROM t WHERE at BETWEEN timestamp '2024-07-15 02:30' AND date '2024-08-01'", "1"),
        ("SELECT now()::date = current_date, localtimestamp::timestamptz = now()", "t|t"),
    ] {
        assert_eq!(rows(&client, sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn operators_have_the_signs_of_postgresql() {
    check(&[
        ("|/ 25.0, ||/ 27.0 > 2.9, @ -5, 'abc' ^@ 'ab', 17 # 5", "5|t|5|t|20"),
        ("interval '1 hour' / 1.5, interval '1 hour' / 2", "00:40:00|00:30:00"),
    ])
    .await;
}

#[tokio::test]
async fn powers_lengths_parts_and_ends_of_words() {
    check(&[
        ("2.0 ^ 0.5 > 1.414213, power(2, 3), atan2(1, 0) > 1.57079632", "t|8|t"),
        ("length('\\xdead'::bytea), length('é')", "2|1"),
        ("'abcdef'::varchar(2), cast(12345 as varchar(3)), 'ab'::varchar", "ab|123|ab"),
        ("'foo bar' ~ '\\yfoo\\y', '-abc-' ~ '\\mabc\\M', 'xabcy' ~ '\\mabc\\M', regexp_replace('a ab', '\\ya\\y', 'X')", "t|t|f|X ab"),
        ("extract(century from date '2001-02-16'), extract(decade from date '2001-02-16'), extract(millennium from date '2000-02-16')", "21|200|2"),
        ("date_trunc('milliseconds', timestamp '2001-02-16 20:38:40.123456')", "2001-02-16 20:38:40.123"),
    ])
    .await;
}

#[tokio::test]
async fn signs_floats_halves_of_days_and_uuids() {
    check(&[
        ("-2 ^ 2, -(2 ^ 2), 2 ^ 3 ^ 2, - 2 ^ 2 ^ 1", "4|-4|64|4"),
        ("1::float / 3 > 0.33333333333, cast(0.1 as float(24)) = 0.1::real", "t|t"),
        (
            "'10:30 PM'::time, '12:05 am'::time, '2024-01-01 10:30 PM'::timestamp",
            "22:30:00|00:05:00|2024-01-01 22:30:00",
        ),
    ])
    .await;
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id int, u uuid)").await;
    run(&client, "INSERT INTO t VALUES (1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), (2, NULL)").await;
    assert_eq!(rows(&client, "SELECT u FROM t ORDER BY id").await, ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "∅"]);
    assert!(error(&client, "INSERT INTO t VALUES (3, 'x')").await.starts_with("22P02"));
    assert!(error(&client, "SELECT '13:00 PM'::time").await.starts_with("22008"));
    for sql in ["CREATE TABLE c (b int) INHERITS (t)", "CREATE TABLE c (b int) PARTITION BY RANGE (b)"] {
        assert!(error(&client, sql).await.starts_with("0A000"), "{sql}");
    }
}

/// PostgreSQL's rule for `unknown` beside an integer; a parameter that is used elsewhere has the type of that place.
#[tokio::test]
async fn a_parameter_beside_an_integer_literal_is_an_integer() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (big bigint, small smallint); INSERT INTO t VALUES (5000000000, 7)").await;
    for (sql, expected) in [
        ("SELECT 1 WHERE 1 = $1", "int4"),
        ("SELECT $1 + 1", "int4"),
        ("SELECT 10 - $1 AS left", "int4"),
        ("SELECT 1 WHERE $1 > 5000000000", "int8"),
        ("SELECT big FROM t WHERE big = $1", "int8"),
        ("SELECT big FROM t WHERE big = $1 AND $1 > 0", "int8"),
        ("SELECT big FROM t WHERE small = $1", "int2"),
        ("SELECT $1::bigint + 1", "int8"),
        ("SELECT (SELECT count(*) FROM t WHERE 1 < $1)", "int4"),
    ] {
        let prepared = client.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(prepared.params()[0].name(), expected, "{sql}");
    }
    let sum: i32 = client.query_one("SELECT $1 + 1", &[&41_i32]).await.unwrap().get(0);
    assert_eq!(sum, 42);
    let declared = client.prepare_typed("SELECT $1 + 1", &[tokio_postgres::types::Type::INT8]).await.unwrap();
    let sum: i64 = client.query_one(&declared, &[&5_000_000_000_i64]).await.unwrap().get(0);
    assert_eq!(sum, 5_000_000_001);
}
