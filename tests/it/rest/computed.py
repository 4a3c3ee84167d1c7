"""The published client, unmodified: computed columns, Functions, jobs, errors. Arguments: URL, API key."""
import json
import sys
import time
import urllib.request
from datetime import timedelta

import lancedb
import pyarrow as pa
from lancedb import EnvVarSecret, col, udf
from lancedb.exceptions import JobFailedError, JobNotFoundError
from lancedb.remote.errors import HttpError

url, key = sys.argv[1:3]
db = lancedb.connect("db://lancegate", api_key=key, host_override=url)
LONG = timedelta(seconds=120)




def until(what, look):
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@udf()
def letters(text: str | None) -> int:
    return len(text or "")


@udf()
def picky(text: str | None) -> int:
    if text == "bb":
        raise ValueError("bad input")
    return len(text or "")


table = db.create_table("docs", pa.table({"id": pa.array([1, 2, 3], pa.int64()), "text": ["a", "bb", None]}))

# A SQL column: declare, refresh, wait.
table.add_columns(computed={"twice": "id * 2", "more": "twice + 1"})
done = table.refresh_column_async("twice").wait(LONG)
assert (done.rows_assigned, done.rows_failed, done.rows_remaining) == (3, 0, 0), done
assert done.published_version and done.published_version >= done.source_version
assert table.count_rows("twice = id * 2") == 3
assert table.refresh_column_async("more").wait(LONG).rows_assigned == 3
assert table.count_rows("more = id * 2 + 1") == 3

# Nothing is recomputed; what changed is.
assert table.refresh_column_async("twice").wait(LONG).rows_assigned == 0
table.update(where="id = 1", values={"id": 10})
assert table.refresh_column_async("twice").wait(LONG).rows_assigned == 1
table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
    pa.table({"id": pa.array([3, 7], pa.int64()), "text": ["ccc", "dddd"]})
)
assert table.refresh_column_async("twice").wait(LONG).rows_remaining == 0
assert table.count_rows("twice = id * 2") == 4

# A Function column.
db.create_secret("token", "hush")
made = db.create_function(letters, secrets=[EnvVarSecret("token", "TOKEN")])
assert (made.name, made.version) == ("letters", "1"), made
assert [function.name for function in db.list_functions()] == ["letters"]
assert db.get_function("letters", version="1").signature.inputs[0].name == "text"
table.add_columns({"words": made(text=col("text"))})
job = table.refresh_column_async("words")
done = job.wait(LONG)
assert done.rows_assigned == 4, done
job.refresh()
assert (job.state, job.job_type) == ("finished", "refresh_function_columns"), job
assert job.spec["column"] == "words"
assert job.events(limit=10).num_rows > 0
assert table.count_rows("words = coalesce(length(text), 0)") == 4

# The client still writes beside it.
table.add(pa.table({"id": pa.array([8], pa.int64()), "text": ["e"]}))
assert table.refresh_column_async("words").wait(LONG).rows_assigned == 1

# A Function that fails.
table.add_columns({"picked": db.create_function(picky)(text=col("text"))})
failing = table.refresh_column_async("picked")
try:
    failing.wait(LONG)
    raise AssertionError("it did not fail")
except JobFailedError as error:
    assert "bad input" in str(error), error

# With the rows that fail skipped, each is listed. The client has no word for the policy, so it is asked for by hand.
body = json.dumps({"column": "picked", "error_policy": "skip", "max_failed_fraction": 1}).encode()
asked = urllib.request.Request(f"{url}/v1/table/docs/backfill_column", body, {"x-api-key": key})
skipping = db.open_job(json.load(urllib.request.urlopen(asked))["job_id"])
until("it ends", lambda: skipping.status() == "finished")
errors = table.function_errors(job_id=skipping.id, column="picked")
assert [(found.error_type, found.column, found.function) for found in errors.records] == [("ValueError", "picked", "picky")], errors
assert "bad input" in errors.records[0].error_message and not errors.truncated, errors
assert table.function_errors(job_id=job.id).records == []

# Jobs.
jobs = db.list_jobs()
assert {(found.table, found.job_type) for found in jobs} >= {("docs", "refresh_column"), ("letters", "create_function")}, jobs
assert db.open_job(job.id).status() == "finished"
assert db.cancel_job(job.id) is True
assert db.cancel_job("job_01HZZZZZZZZZZZZZZZZZZZZZZZ") is False
try:
    db.open_job("nope")
    raise AssertionError("it was found")
except JobNotFoundError:
    pass
try:
    db.pause_job(job.id)
    raise AssertionError("a finished job was paused")
except HttpError as error:
    assert error.status_code == 409 and "succeeded" in str(error), error
assert db.resume_job(job.id) == "not_paused"

# Dropping.
try:
    db.drop_function("letters", version="1")
    raise AssertionError("it was dropped")
except Exception as error:
    assert "depend" in str(error), error
table.drop_columns(["picked"])
assert db.drop_function("picky", version="1") is True
print("ok")
