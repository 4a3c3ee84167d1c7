"""SQL by the published client, unmodified (SDK-02). Arguments: URL of REST, API key, API key of somebody else."""
import sys
import time

import lancedb
import pyarrow as pa

url, key, stranger = sys.argv[1:4]
db = lancedb.connect("db://lancegate", api_key=key, host_override=url)


def rows(sql, **more):
    return db.execute_query(sql, **more).read_all().to_pylist()


def refused(sql, *words, connection=db, **more):
    try:
        connection.execute_query(sql, **more).read_all()
    except RuntimeError as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"{sql} was not refused")


def until(what, look):
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


# Rows, their types, and none.
assert rows("SELECT 1 AS a, 'x' AS b") == [{"a": 1, "b": "x"}]
table = db.create_table("t", pa.table({"id": pa.array(range(5000), pa.int64()), "v": [[float(i), 1.0] for i in range(5000)]}))
assert rows("SELECT count(*) AS n, max(id) AS most FROM t") == [{"n": 5000, "most": 4999}]
read = db.execute_query("SELECT id, v FROM t WHERE id < 3 ORDER BY id")
assert read.schema.names == ["id", "v"], read.schema
assert [row["v"] for row in read.read_all().to_pylist()] == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
empty = db.execute_query("SELECT id FROM t WHERE id < 0")
assert empty.schema.field("id").type == pa.int64() and empty.read_all().num_rows == 0
assert sum(batch.num_rows for batch in db.execute_query("SELECT * FROM t")) == 5000

# Changes are made when they are asked for, whether or not their rows are read.
db.execute_query("DELETE FROM t WHERE id >= 4000").read_all()
assert rows("SELECT count(*) AS n FROM t") == [{"n": 4000}]
db.execute_query_async("INSERT INTO t (id) VALUES (9000)")
until("the row is there", lambda: rows("SELECT count(*) AS n FROM t WHERE id = 9000") == [{"n": 1}])
assert rows("UPDATE t SET id = id + 1 WHERE id = 9000 RETURNING id") == [{"id": 9001}]

# Nested schemas, and where names are looked up.
rows('CREATE SCHEMA "team$reports"')
rows("CREATE TABLE daily AS SELECT 7 AS x", default_namespace_path=["team", "reports"])
assert rows("SELECT x FROM daily", default_namespace_path=["team", "reports"]) == [{"x": 7}]
assert rows('SELECT x FROM "team$reports".daily') == [{"x": 7}]
refused("SELECT x FROM daily", "daily", "42P01")

# Jobs.
rows("ALTER TABLE t ADD COLUMN thrice AS id * 3")
told = rows("REFRESH COLUMN thrice ON t WAIT")
assert told and told[0]["status"], told
job = told[0]["job_id"]
assert rows("SELECT count(*) AS n FROM t WHERE thrice = id * 3") == [{"n": 4001}]
shown = rows("SHOW JOBS")
assert job in [row["job_id"] for row in shown], shown
described = rows(f"DESCRIBE JOB '{job}'")
assert described, described
classes = rows("SHOW GPU CLASSES")
assert "default" in [row["name"] for row in classes], classes

# Errors have everything that the wire has.
refused("SELECT nothing FROM t", "nothing", "42703")
refused("SELECT", "42601")
refused("SELECT 1; SELECT 2", "one", "42601")
refused("SET search_path = public", "0A000", "HINT")
refused("SELECT 1 / (id - id) FROM t", "22012")
refused("SELECT * FROM t", "t", connection=lancedb.connect("db://nowhere", api_key=key, host_override=url))
refused("SELECT 1", "not valid", connection=lancedb.connect("db://lancegate", api_key="lgk_wrong", host_override=url))

# A statement that takes long: its state, its cancel.
LONG = "SELECT count(*) AS n FROM generate_series(1, 1000000) AS a(i), generate_series(1, 100000000) AS b(j) WHERE (i + j) % 7 = 3"
query = db.execute_query_async(LONG)
assert query.describe().status == "running", query.describe()
assert query.describe().id == query.id
query.cancel()
try:
    query.reader().read_all()
    raise AssertionError("it was not cancelled")
except Exception as error:
    assert "ancel" in str(error) + type(error).__name__, repr(error)
assert query.describe().status in ("cancelling", "cancelled"), query.describe()
query = db.execute_query_async("SELECT 1 AS a")
until("it ends", lambda: query.describe().status == "finished")
assert query.reader().read_all().to_pylist() == [{"a": 1}]

# What one may read is decided for each statement.
other = lancedb.connect("db://lancegate", api_key=stranger, host_override=url)
refused("SELECT * FROM t", "42501", connection=other)
print("ok")
