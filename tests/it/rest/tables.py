"""The published client, unmodified: tables, rows, columns, namespaces. Arguments: URL, API key."""
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import lancedb
import pyarrow as pa

warnings.simplefilter("ignore")
url, key = sys.argv[1:3]
db = lancedb.connect("db://lancegate", api_key=key, host_override=url)


def raises(kind, what, call):
    try:
        call()
    except kind as error:
        assert what in str(error), f"{what!r} is not in {error!r}"
    else:
        raise AssertionError(f"{what!r} was not raised")


# Create, in every mode.
rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "text": ["a", "bb", None]})
table = db.create_table("docs", rows)
assert table.count_rows() == 3
assert table.version == 1, "the rows are in the first version"
assert db.table_names() == ["docs"]
raises(ValueError, "already exists", lambda: db.create_table("docs", rows))
assert db.create_table("docs", rows, exist_ok=True).count_rows() == 3
empty = db.create_table("empty", schema=pa.schema([pa.field("x", pa.int32(), metadata={"unit": "m"})], {"of": "test"}))
assert empty.count_rows() == 0
assert empty.schema.field("x").metadata == {b"unit": b"m"} and empty.schema.metadata == {b"of": b"test"}
db.create_table("empty", pa.table({"y": ["new"]}), mode="overwrite")
assert db.open_table("empty").schema.names == ["y"]
assert db.open_table("empty").count_rows() == 1
raises(ValueError, "was not found", lambda: db.open_table("nothing"))

# Rows.
table.add(pa.table({"id": pa.array([4, 5], pa.int64())}))
assert table.count_rows() == 5
assert table.count_rows("text is null") == 3
assert table.count_rows("id > 2 and `text` is not null") == 0
updated = table.update(where="id = 4", values={"text": "it's"})
assert updated.rows_updated == 1 and updated.version == table.version
assert table.count_rows("text = 'it''s'") == 1
assert table.update(values_sql={"id": "id + 10"}).rows_updated == 5
assert table.delete("id = 15").num_deleted_rows == 1
assert table.count_rows() == 4
merged = (
    table.merge_insert("id")
    .when_matched_update_all()
    .when_not_matched_insert_all()
    .execute(pa.table({"id": pa.array([11, 99], pa.int64()), "text": ["merged", "new"]}))
)
assert (merged.num_updated_rows, merged.num_inserted_rows) == (1, 1), merged
assert table.count_rows("text in ('merged', 'new')") == 2
gone = table.merge_insert("id").when_not_matched_by_source_delete("id > 50").execute(
    pa.table({"id": pa.array([11], pa.int64()), "text": ["x"]})
)
assert gone.num_deleted_rows == 1, gone
table.add(pa.table({"id": pa.array([1], pa.int64()), "text": ["only"]}), mode="overwrite")
assert table.count_rows() == 1

# Columns.
table.add_columns({"twice": "id * 2", "shout": "upper(text)"})
assert table.count_rows("twice = 2 and shout = 'ONLY'") == 1
table.add_columns(pa.field("later", pa.float32()))
assert table.schema.field("later").type == pa.float32()
table.alter_columns({"path": "later", "rename": "soon"})
before = table.version
altered = table.alter_columns({"path": "soon", "data_type": pa.float64(), "nullable": True})
assert altered.version == before + 1, "one change is one version"
assert table.schema.field("soon").type == pa.float64()
table.drop_columns(["soon", "shout"])
assert table.schema.names == ["id", "text", "twice"]
raises(Exception, "nope", lambda: table.drop_columns(["nope"]))

# What metadata of columns says.
said = table.update_field_metadata({"path": "twice", "metadata": {"unit": "m", "old": "x"}})
assert said.version == table.version
table.update_field_metadata({"path": "twice", "metadata": {"old": None, "source": "us"}})
assert table.schema.field("twice").metadata == {b"unit": b"m", b"source": b"us"}
table.update_field_metadata({"path": "twice", "metadata": {"only": "this"}, "replace": True})
assert table.schema.field("twice").metadata == {b"only": b"this"}
for key in ("lancegate.x", "computed_column.kind", "lance-encoding:blob", "ARROW:extension:name"):
    reserved = {"path": "twice", "metadata": {key: "true"}}
    raises(Exception, "is reserved", lambda: table.update_field_metadata(reserved))
raises(Exception, "nope", lambda: table.update_field_metadata({"path": "nope", "metadata": {"a": "b"}}))
assert table.count_rows("twice = 2") == 1
table.add(pa.table({"id": pa.array([2], pa.int64()), "text": ["two"], "twice": pa.array([4], pa.int64())}))
table.delete("id = 2")

# JSON is kept in Lance's own form, whichever way it comes.
json = db.create_table("json", pa.table({"j": pa.array(['{"k": 3}'], pa.json_())}))
json.add(pa.table({"j": pa.array(['{"k": 4}', None], pa.json_())}))
assert json.count_rows("json_extract(j, '$.k') = '4'") == 1
assert [row["j"] for row in json.search().to_list()] == ['{"k":3}', '{"k":4}', None]
db.drop_table("json")

# Each change answers the version that it made.
many = db.create_table("many", pa.table({"i": pa.array(range(12), pa.int64())}))
with ThreadPoolExecutor(6) as pool:
    versions = list(pool.map(lambda i: many.delete(f"i = {i}").version, range(12)))
assert sorted(versions) == list(range(2, 14)), versions
db.drop_table("many")

# What the server knows of a table.
stats = table.stats()
assert stats["num_rows"] == 1 and stats["fragment_stats"]["num_fragments"] == 1, stats

# Names.
db.create_namespace(["team"])
db.create_namespace(["team", "ml"])
assert list(db.list_namespaces().namespaces) == ["team"]
assert list(db.list_namespaces(["team"]).namespaces) == ["ml"]
inner = db.create_table("inner", rows, namespace_path=["team", "ml"])
assert inner.count_rows() == 3
assert list(db.table_names(namespace_path=["team", "ml"])) == ["inner"]
db.rename_table("empty", "renamed")
assert db.table_names() == ["docs", "renamed"]
db.drop_table("renamed")
db.drop_table("renamed")
assert db.table_names() == ["docs"]
db.drop_table("inner", namespace_path=["team", "ml"])
db.drop_namespace(["team", "ml"])
assert list(db.list_namespaces(["team"]).namespaces) == []

# Views and secrets.
view = db.create_view("v", "SELECT id FROM docs")
assert view.name == "v" and db.list_views() == ["v"]
assert db.describe_view("v").query == "SELECT id FROM docs"
assert db.open_table("v").count_rows() == 1
db.drop_view("v")
db.create_secret("s", "value")
assert db.list_secrets() == ["s"]
db.alter_secret("s", "other")
assert db.describe_secret("s").updated_at_millis >= db.describe_secret("s").created_at_millis
db.drop_secret("s")
assert db.list_secrets() == []
print("ok")
