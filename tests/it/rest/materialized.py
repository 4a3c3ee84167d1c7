"""The published client, unmodified: materialized views. Arguments: URL, API key."""
import sys
from datetime import timedelta

import lancedb
import pyarrow as pa

url, key = sys.argv[1:3]
db = lancedb.connect("db://lancegate", api_key=key, host_override=url)
LONG = timedelta(seconds=120)


def wait(job):
    return job.wait(LONG)


source = db.create_table("source", pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "Text": ["a", "bb", "ccc", None]}))

# Creating waits for the rows.
view = db.create_materialized_view("big", "source", select=["id", "Text"], where="id > 1", limit=10)
assert "source" in view.definition.query, view.definition
assert db.open_table("big").count_rows() == 3
assert db.list_materialized_views() == ["big"]
rows = db.open_table("big").search().where("id = 3").to_list()
assert [(row["id"], row["Text"]) for row in rows] == [(3, "ccc")], rows

# It follows its source by refreshes, and says when there was nothing to do.
done = wait(view.refresh_async())
assert (done.mode, done.rows_written) == ("no_op", 0), done
source.add(pa.table({"id": pa.array([9], pa.int64()), "Text": ["e"]}))
assert db.open_table("big").count_rows() == 3
done = view.refresh()
assert (done.mode, done.rows_written) == ("rebuild", 4), done
assert done.version > 0 and done.source_version > 0, done
done = view.refresh(full=True)
assert (done.mode, done.rows_written) == ("rebuild", 4), done
assert db.open_table("big").count_rows() == 4

# Expressions, and a view without rows.
twice = db.create_materialized_view("twice", "source", select={"id": "id", "double": "id * 2"}, with_no_data=True)
assert db.open_table("twice").count_rows() == 0
assert twice.refresh().rows_written == 5
assert db.open_table("twice").count_rows("double = id * 2") == 5
whole = db.create_materialized_view("whole", "source")
assert db.open_table("whole").schema.names == ["id", "Text"]
assert db.open_materialized_view("big").definition.query == view.definition.query

# It is not written to otherwise.
try:
    db.open_table("big").add(pa.table({"id": pa.array([5], pa.int64()), "Text": ["x"]}))
    raise AssertionError("it was written to")
except Exception as error:
    assert "cannot change materialized view" in str(error), error
try:
    db.create_materialized_view("big", "source")
    raise AssertionError("it was made twice")
except Exception as error:
    assert "already exists" in str(error), error
try:
    db.open_materialized_view("nope")
    raise AssertionError("it was found")
except ValueError:
    pass

for name in ["big", "twice", "whole"]:
    db.drop_materialized_view(name)
assert db.list_materialized_views() == []
print("ok")
