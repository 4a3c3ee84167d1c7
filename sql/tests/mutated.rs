//! Statements with pieces changed, doubled, cut and exchanged: each is parsed or refused,
//! on the stack that threads of the runtime have, and what is parsed can be printed.
//!
//! The changes are the same in every run. `fuzz/` has the same entry point for a fuzzer.

use lancegate_sql::{Limits, parse};

const STACK_BYTES: usize = 2 * 1024 * 1024;
const CHANGES: usize = 40_000;

/// One statement of each family.
const STATEMENTS: &[&str] = &[
    "SELECT a, count(*) FILTER (WHERE b > 1) OVER (PARTITION BY c ORDER BY d ROWS 3 PRECEDING) FROM s.\"T\" AS t WHERE x IN (1, 2) AND y LIKE E'a\\n%' GROUP BY CUBE (a, b) HAVING max(z) > 2 ORDER BY 1 DESC NULLS LAST LIMIT 10 OFFSET 5",
    "WITH RECURSIVE w (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM w) SELECT CASE WHEN n::int[] @> ARRAY[1] THEN $1 ELSE $tag$x$tag$ END FROM w, LATERAL (SELECT 1) l",
    "INSERT INTO t (a, b) SELECT * FROM u ON CONFLICT DO NOTHING RETURNING *",
    "UPDATE t SET a = 1, s.b = DEFAULT FROM u WHERE t.id = u.id RETURNING a AS x",
    "DELETE FROM t USING u WHERE t.id = u.id",
    "MERGE INTO t AS a USING (SELECT 1 AS id) s ON a.id = s.id WHEN MATCHED AND s.id > 1 THEN UPDATE SET x = DEFAULT WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    "COMMENT ON COLUMN s.t.c IS 'x'",
    "COPY t (a, b) FROM STDIN WITH (FORMAT csv, DELIMITER ',', NULL '', HEADER true)",
    "CREATE TABLE IF NOT EXISTS t (id BIGINT NOT NULL, v REAL[3], b TEXT GENERATED ALWAYS AS (upper(c)) STORED)",
    "ALTER TABLE t ADD COLUMN c AS f(a, b) WITH (auto_refresh_enabled = true), DROP COLUMN d",
    "CREATE FUNCTION f (x int64, y list<float32>) RETURNS int64 LANGUAGE python AS 'def f(x, y):\n return x' WITH (mode = 'scalar', pip = '[\"numpy\"]')",
    "REFRESH COLUMN c ON t WHERE a > 1 WITH (num_workers = 2, error_policy = 'skip', max_failed_fraction = 0.5) WAIT",
    "EXPLAIN VERBOSE REFRESH COLUMN c ON `t`",
    "SHOW JOB EVENTS 'job_01' WHERE state = 'failed' LIMIT 10",
    "GRANT SELECT, CREATE SECRET ON SCHEMA \"a$b\" TO ROLE r, USER ID 'x', GROUP g",
    "CREATE USER ann PASSWORD 'x' VALID UNTIL '2027-01-01' CONNECTION LIMIT 3",
    "CREATE SECRET s SECRET_STRING = 'x'; ALTER SECRET s SECRET_STRING = $1",
    "CREATE MATERIALIZED VIEW m AS SELECT 1; REFRESH MATERIALIZED VIEW m WITH (full = true) NOWAIT",
    "CREATE INDEX i ON t USING ivf_pq (v) WITH (num_partitions = 4, metric = 'cosine')",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1; FETCH FORWARD 5 FROM c; MOVE ALL IN c; CLOSE c",
    "BEGIN ISOLATION LEVEL SERIALIZABLE; SAVEPOINT s; ROLLBACK TO SAVEPOINT s; COMMIT AND CHAIN",
    "SET search_path = a, \"B\"; SHOW ALL; RESET TIME ZONE; PREPARE p (int) AS SELECT $1; EXECUTE p (1)",
];

/// Pieces that mean something somewhere.
const PIECES: &[&str] = &[
    "'",
    "\"",
    "`",
    "$$",
    "$1",
    "--",
    "/*",
    "*/",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    ".",
    "::",
    "\\",
    "\0",
    "\n",
    "E'",
    "U&'",
    "B'",
    " AS ",
    " NOT ",
    "NULL",
    " WITH ",
    " ON ",
    "1e999",
    "-",
    "+",
    "%",
    "{",
    "}",
    "\u{feff}",
    "é",
    "𝄞",
    "\u{202e}",
    "0x",
    "SELECT ",
    "99999999999999999999",
];

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("less than a usize")
    }

    /// A place between two characters.
    fn place(&mut self, text: &str) -> usize {
        let at = self.below(text.len() + 1);
        text.floor_char_boundary(at)
    }
}

fn change(text: &mut String, random: &mut Random) {
    let (one, other) = (random.place(text), random.place(text));
    let range = one.min(other)..one.max(other);
    match random.below(5) {
        0 => text.insert_str(one, PIECES[random.below(PIECES.len())]),
        1 => text.replace_range(range, ""),
        2 if range.len() < 200 => {
            let doubled = text[range.clone()].repeat(2 + random.below(3));
            text.replace_range(range, &doubled);
        }
        3 => {
            let statement = STATEMENTS[random.below(STATEMENTS.len())];
            let at = random.place(statement);
            text.insert_str(one, &statement[at..]);
        }
        _ => text.replace_range(range, PIECES[random.below(PIECES.len())]),
    }
}

#[test]
fn q09_changed_statements_are_parsed_or_refused() {
    let work = || {
        let limits = Limits::default();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut parsed = 0;
        for number in 0..CHANGES {
            let mut text = STATEMENTS[number % STATEMENTS.len()].to_owned();
            for _ in 0..=random.below(4) {
                change(&mut text, &mut random);
            }
            if let Ok(script) = parse(&text, &limits) {
                parsed += 1;
                for one in script {
                    assert!(!one.statement.to_string().is_empty(), "{text}");
                }
            }
        }
        parsed
    };
    let parsed = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).expect("a thread starts");
    let parsed = parsed.join().expect("the parser never panics");
    // Changes that are all refused at the first token would prove little.
    assert!(parsed > CHANGES / 100, "{parsed} of {CHANGES} were parsed");
}
