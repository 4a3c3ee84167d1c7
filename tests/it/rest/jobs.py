"""The published client, unmodified: polling and waiting for jobs (SDK-01). Arguments: URL, API key."""
import sys
import time
import warnings
from datetime import timedelta

import lancedb
import pyarrow as pa
from lancedb import col, udf
from lancedb.exceptions import JobCancelledError, JobFailedError

warnings.simplefilter("ignore")
url, key = sys.argv[1:3]
db = lancedb.connect("db://lancegate", api_key=key, host_override=url)
LONG = timedelta(seconds=120)
WORDS = {"finished", "failed", "cancelled", "running"}


@udf()
def slow(x: int | None) -> int:
    import time

    time.sleep(0.02)
    return x or 0


@udf()
def broken(x: int | None) -> int:
    raise RuntimeError("never works")


def until(what, look):
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


table = db.create_table("t", pa.table({"x": pa.array(range(400), pa.int64())}))
table.add_columns({"s": db.create_function(slow)(x=col("x"))})

# Success: what is polled meanwhile never raises and is always a known word.
job = table.refresh_column_async("s")
seen = set()
until("it ends", lambda: seen.add(job.status()) or job.status() == "finished")
assert seen <= WORDS, seen
assert job.wait(LONG).rows_assigned == 400

# Timeout: the job goes on.
table.add(pa.table({"x": pa.array(range(1000, 1400), pa.int64())}))
job = table.refresh_column_async("s")
try:
    job.wait(timedelta(milliseconds=100))
    raise AssertionError("it was too fast")
except TimeoutError:
    pass
assert job.status() in ("running", "finished")
assert job.wait(LONG).rows_assigned == 400

# Cancellation.
table.add(pa.table({"x": pa.array(range(5000, 9000), pa.int64())}))
job = table.refresh_column_async("s")
job.cancel()
try:
    job.wait(LONG)
    raise AssertionError("it was not cancelled")
except JobCancelledError:
    pass
assert job.status() == "cancelled"

# Failure.
table.add_columns({"b": db.create_function(broken)(x=col("x"))})
job = table.refresh_column_async("b")
try:
    job.wait(LONG)
    raise AssertionError("it did not fail")
except JobFailedError as error:
    assert "never works" in str(error), error
job.refresh()
assert job.state == "failed" and "never works" in job.failure.message, job.failure
print("ok")
