"""The published client, unmodified: searches, indexes, versions, tags, branches. Arguments: URL, API key."""
import sys
import warnings

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.query import BoostQuery, MatchQuery, PhraseQuery

warnings.simplefilter("ignore")
url, key = sys.argv[1:3]
db = lancedb.connect("db://lancegate", api_key=key, host_override=url)
rng = np.random.default_rng(7)
N, D = 600, 8
vectors = rng.random((N, D), dtype=np.float32)
words = ["red fox", "blue whale", "green frog", "red panda"]
rows = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "text": [f"{words[i % 4]} number {i}" for i in range(N)],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), D),
    }
)
table = db.create_table("items", rows)


def raises(what, call):
    try:
        call()
    except Exception as error:
        assert what in str(error), f"{what!r} is not in {error!r}"
    else:
        raise AssertionError(f"{what!r} was not raised")


def nearest(query, k, where=None):
    distances = ((vectors - query) ** 2).sum(axis=1)
    order = [int(i) for i in np.argsort(distances, kind="stable") if where is None or where(int(i))]
    return order[:k]


# Rows by a filter, in an order, with expressions.
found = table.search().where("id >= 590 and `text` like '%fox%'").select(["id"]).to_list()
assert [row["id"] for row in found] == [592, 596], found
found = table.search().where("id < 3").select({"twice": "id * 2", "up": "upper(text)"}).to_list()
assert found[1] == {"twice": 2, "up": "BLUE WHALE NUMBER 1"}, found
assert table.head(3).num_rows == 3
assert table.search().limit(5).offset(10).to_arrow()["id"].to_pylist() == [10, 11, 12, 13, 14]
assert "_rowid" in table.search().with_row_id(True).limit(1).to_arrow().column_names
assert table.search().where("id < 0").to_arrow().num_rows == 0
raises("nope", lambda: table.search().where("nope > 1").to_list())
raises("is not an expression", lambda: table.search().where("id >").to_list())
raises("function nofn does not exist", lambda: table.search().where("nofn(id) = 1").to_list())

# Nearest vectors, without and with an index.
query = rng.random(D, dtype=np.float32)
near = lambda **more: [row["id"] for row in table.search(query).limit(5).to_list()]
assert near() == nearest(query, 5)
row = table.search(query).limit(1).to_list()[0]
assert abs(row["_distance"] - float(((vectors[row["id"]] - query) ** 2).sum())) < 1e-4
even = [row["id"] for row in table.search(query).where("id % 2 = 0", prefilter=True).limit(5).to_list()]
assert even == nearest(query, 5, lambda i: i % 2 == 0)
assert len(table.search(query).distance_type("cosine").limit(7).to_list()) == 7
several = table.search([vectors[3], vectors[4]]).limit(2).to_arrow()
assert sorted(set(several["query_index"].to_pylist())) == [0, 1] and several.num_rows == 4
assert {3, 4} <= set(several["id"].to_pylist())
table.create_index(metric="l2", vector_column_name="vector", index_type="IVF_FLAT", num_partitions=2)
table.create_scalar_index("id")
table.create_fts_index("text", with_position=True)
listed = {index.name: (index.index_type, index.columns) for index in table.list_indices()}
assert listed == {
    "vector_idx": ("IvfFlat", ["vector"]),
    "id_idx": ("BTree", ["id"]),
    "text_idx": ("FTS", ["text"]),
}, listed
stats = table.index_stats("id_idx")
assert (stats.num_indexed_rows, stats.num_unindexed_rows) == (N, 0), stats
assert table.index_stats("nope") is None
assert [row["id"] for row in table.search(query).nprobes(2).limit(5).to_list()] == nearest(query, 5)
assert [row["id"] for row in table.search(query).bypass_vector_index().limit(5).to_list()] == nearest(query, 5)
assert table.search().where("id = 77").to_list()[0]["id"] == 77
raises("already exists", lambda: table.create_scalar_index("id", replace=False))

# Words.
foxes = table.search("fox", query_type="fts").limit(N).to_list()
assert {row["id"] % 4 for row in foxes} == {0} and len(foxes) == N // 4 and foxes[0]["_score"] > 0
assert len(table.search(MatchQuery("panda", "text"), query_type="fts").limit(N).to_list()) == N // 4
assert len(table.search(PhraseQuery("red panda", "text"), query_type="fts").limit(N).to_list()) == N // 4
boosted = BoostQuery(MatchQuery("red", "text"), MatchQuery("fox", "text"), negative_boost=0.1)
assert table.search(boosted, query_type="fts").limit(3).to_list()[0]["id"] % 4 == 3
hybrid = table.search(query_type="hybrid", vector_column_name="vector").vector(query).text("whale").limit(5).to_list()
assert len(hybrid) == 5 and "_relevance_score" in hybrid[0], hybrid[:1]
assert "ANNIvfPartition" in table.search(query).limit(2).explain_plan(True)
analyzed = table.search(query).limit(2).analyze_plan()
assert "AnalyzeExec" in analyzed and "output_rows=" in analyzed, analyzed

# An index does not hide what has changed since.
table.update(where="id = 77", values={"text": "unheard of"})
assert [row["id"] for row in table.search("unheard", query_type="fts").limit(5).to_list()] == [77]
table.add(pa.table({"id": pa.array([9_000], pa.int64()), "text": ["new fox"], "vector": rows["vector"][:1]}))
assert 9_000 in [row["id"] for row in table.search("fox", query_type="fts").limit(N).to_list()]
assert table.count_rows("id = 9000") == 1
table.drop_index("id_idx")
assert "id_idx" not in [index.name for index in table.list_indices()]
raises("id_idx", lambda: table.drop_index("id_idx"))

# Versions and tags.
before = table.version
assert table.delete("id >= 100").version > before
assert table.count_rows() == 100
table.checkout(before)
assert table.count_rows() == N + 1
table.checkout_latest()
assert table.count_rows() == 100
table.tags.create("full", before)
assert table.tags.get_version("full") == before
assert table.tags.list()["full"]["version"] == before
raises("already exists", lambda: table.tags.create("full", before))
table.checkout("full")
assert table.count_rows() == N + 1
table.restore()
assert table.count_rows() == N + 1 and table.version > before
table.tags.update("full", table.version)
table.tags.delete("full")
assert table.tags.list() == {}
assert [found["version"] for found in table.list_versions()][-1] == table.version
raises("10000", lambda: table.checkout(10_000))

# Branches: rows change on the one that is named, and nowhere else.
here = (table.count_rows(), table.version)
branch = table.branches.create("try")
more = pa.table({"id": pa.array([70_000, 70_001], pa.int64()), "text": ["x", "y"], "vector": rows["vector"][:2]})
branch.add(more[:1])
assert branch.count_rows() == here[0] + 1
done = branch.update(where="id = 70000", values={"text": "changed"})
assert done.rows_updated == 1 and done.version == branch.version
assert branch.count_rows("text = 'changed'") == 1
merged = branch.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(more)
assert (merged.num_updated_rows, merged.num_inserted_rows) == (1, 1), merged
assert branch.count_rows("text in ('x', 'y')") == 2
assert branch.update(where="id = -1", values={"text": "none"}).version == branch.version, "nothing to commit"
assert branch.delete("id >= 100").num_deleted_rows == here[0] + 2 - 100
assert sorted(row["id"] for row in branch.search().limit(N).to_list()) == list(range(100))
branch.add(more[1:], mode="overwrite")
assert [row["id"] for row in branch.search().to_list()] == [70_001]
assert (table.count_rows(), table.version) == here
assert list(table.branches.list()) == ["try"]
raises("cannot be used here", lambda: branch.drop_columns(["text"]))
table.branches.delete("try")
for change in (lambda: branch.add(more), lambda: branch.delete("true"), lambda: branch.update(values={"id": 1})):
    raises("", change)  # the client has words of its own for a 404
assert (table.count_rows(), table.version) == here
print("ok")
