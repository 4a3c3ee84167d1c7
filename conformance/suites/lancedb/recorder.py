"""A pytest plugin that writes one JSON line a test to the file SUITE_RECORDS.

A line has the test's id, its outcome (passed, failed, skipped) and seconds; a failed one the
chain of exceptions ([class, message], outermost first) and the frames (file:line, innermost
last); a skipped one the reason. What fixtures put into user_properties is added. run tells from these whose failure it is.
"""

import json
import os

import pytest


def causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.passed and report.when != "call":
        return
    record = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(call.duration, 2)}
    record.update(report.user_properties)
    if hasattr(report, "wasxfail"):
        record["xfail"] = report.wasxfail
    if report.skipped and call.excinfo is not None:
        record["reason"] = str(call.excinfo.value)
    elif call.excinfo is not None:
        record["errors"] = [[type(e).__name__, str(e)[:2000]] for e in causes(call.excinfo.value)]
        record["frames"] = [f"{f.path}:{f.lineno + 1}" for f in call.excinfo.traceback]
    with open(os.environ["SUITE_RECORDS"], "a") as out:
        out.write(json.dumps(record) + "\n")
