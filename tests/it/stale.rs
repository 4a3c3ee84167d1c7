//! Inputs that are replaced under their names, over the wire and by other programs.

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::interop::run_python;
use crate::rows::{error, rows, run, value};

/// Two fragments of two rows: `y` reads `x`, and `w` reads another column.
async fn filled() -> (Gateway, Client) {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, x bigint, other bigint)").await;
    run(&client, "INSERT INTO t VALUES (1, 10, 1), (2, 20, 2)").await;
    run(&client, "INSERT INTO t VALUES (3, 30, 3), (4, 40, 4)").await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1, ADD COLUMN w AS other + 1").await;
    assert_eq!(assigned(&client, "y ON t").await, "4");
    assert_eq!(assigned(&client, "w ON t").await, "4");
    (gateway, client)
}

async fn assigned(client: &Client, refresh: &str) -> String {
    value(client, &format!("REFRESH COLUMN {refresh} WAIT"), "rows_assigned").await.unwrap()
}

fn change(gateway: &Gateway, statement: &str) {
    let program =
        format!("import lance, pyarrow as pa, sys\ntable = lance.dataset(sys.argv[1] + '/t.lance')\n{statement}\n");
    run_python(gateway.data(), &program);
}

/// Here an input cannot go or change its type; another program can do it.
#[tokio::test]
async fn rc_02_an_input_that_is_dropped_and_added_again_makes_every_row_due() {
    let (gateway, client) = filled().await;
    let refused = error(&client, "ALTER TABLE t DROP COLUMN x").await;
    assert!(
        refused.starts_with("2BP01") && refused.contains("Column y of table t is computed from column x"),
        "{refused}"
    );
    change(&gateway, "table.drop_columns(['x'])");
    for refresh in ["REFRESH COLUMN y ON t WAIT", "REFRESH COLUMN y ON t WHERE id = 1 WAIT"] {
        let refused = error(&client, refresh).await;
        assert!(refused.starts_with("42703") && refused.contains("\"x\""), "{refused}");
    }
    run(&client, "ALTER TABLE t ADD COLUMN x bigint").await;
    assert_eq!(rows(&client, "SELECT y FROM t ORDER BY id").await, ["21", "41", "61", "81"], "until the next refresh");
    run(&client, "UPDATE t SET x = id * 10 WHERE id < 4").await;
    assert_eq!(assigned(&client, "y ON t WHERE id = 2").await, "1");
    assert_eq!(assigned(&client, "y ON t").await, "3", "the same numbers, in another column");
    assert_eq!(rows(&client, "SELECT y FROM t ORDER BY id").await, ["21", "41", "61", "∅"]);
    assert_eq!(assigned(&client, "y ON t").await, "0");
    assert_eq!(assigned(&client, "w ON t").await, "0", "its input is where it was");
}

#[tokio::test]
async fn rc_02_an_input_whose_type_changes_makes_every_row_due() {
    let (gateway, client) = filled().await;
    let refused = error(&client, "ALTER TABLE t ALTER COLUMN x TYPE integer").await;
    assert!(refused.starts_with("2BP01"), "{refused}");
    for kind in ["pa.int32()", "pa.int64()", "pa.int16()"] {
        change(&gateway, &format!("table.alter_columns({{'path': 'x', 'data_type': {kind}}})"));
        assert_eq!(assigned(&client, "y ON t").await, "4", "{kind}");
        assert_eq!(rows(&client, "SELECT y FROM t ORDER BY id").await, ["21", "41", "61", "81"], "{kind}");
        assert_eq!(assigned(&client, "y ON t").await, "0", "{kind}");
        assert_eq!(assigned(&client, "w ON t").await, "0", "{kind}");
    }
    change(&gateway, "table.alter_columns({'path': 'other', 'name': 'another'})");
    run(&client, "ALTER TABLE t RENAME COLUMN id TO number").await;
    assert_eq!(assigned(&client, "y ON t").await, "0", "names that it does not read");
}

/// A filtered refresh looks at the fragments that it writes only, and at all rows of those.
#[tokio::test]
async fn rc_08_a_filtered_refresh_over_an_input_that_was_made_anew_is_refused_per_fragment() {
    let (_gateway, client) = filled().await;
    run(&client, "ALTER TABLE t ADD COLUMN z AS y - 1").await;
    assert_eq!(assigned(&client, "z ON t").await, "4");
    run(&client, "ALTER TABLE t DROP COLUMN z; ALTER TABLE t DROP COLUMN y; ALTER TABLE t ADD COLUMN y AS x * 2 + 1")
        .await;
    run(&client, "ALTER TABLE t ADD COLUMN z AS y - 1").await;
    assert_eq!(rows(&client, "SELECT count(y), count(z) FROM t").await, ["0|0"]);
    assert_eq!(assigned(&client, "y ON t WHERE id <= 3").await, "3");
    assert_eq!(assigned(&client, "z ON t WHERE id = 1").await, "1", "its fragment is ready");
    let refused = error(&client, "REFRESH COLUMN z ON t WHERE id = 3 WAIT").await;
    assert!(refused.contains("1 rows of fragment 1 hold no current value of \"y\""), "{refused}");
    assert_eq!(assigned(&client, "y ON t").await, "1");
    assert_eq!(assigned(&client, "z ON t").await, "3");
    assert_eq!(rows(&client, "SELECT z FROM t ORDER BY id").await, ["20", "40", "60", "80"]);
}
