"""dbt: each command on a copy of the project; what fails is told with the first error of its log."""

import json
import os
import pathlib
import re
import shutil
import subprocess

from conformance import HOST, PASSWORD, PORT, USER, DATABASE, feature, product, version

WORK = pathlib.Path(os.environ["WORK"])
PROJECT = WORK / "project"
shutil.copytree(pathlib.Path(__file__).parent / "project", PROJECT)
profile = {"conformance": {"target": "here", "outputs": {"here": {
    "type": "postgres", "host": HOST, "port": int(PORT), "user": USER, "password": PASSWORD, "dbname": DATABASE, "schema": "dbt", "threads": 2,
}}}}
(PROJECT / "profiles.yml").write_text(json.dumps(profile))


def dbt(*arguments):
    command = ["dbt", "--no-use-colors", "--no-send-anonymous-usage-stats", *arguments, "--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=WORK)
    if done.returncode:
        wrong = re.search(r"Database Error.*?(?=\n\S|\n\n|\Z)", done.stdout, re.DOTALL)
        raise AssertionError(wrong.group(0) if wrong else done.stdout.strip()[-250:])
    return done.stdout


version(subprocess.run(["dbt", "--version"], capture_output=True, text=True, timeout=60).stdout.split("installed:")[1].split()[0])


@feature("connect")
def _():
    dbt("debug")


@feature("seed")
def _():
    dbt("seed")
    dbt("seed")


@feature("run_tables")
def _():
    dbt("run", "--select", "as_table", "contracted")


@feature("run_views")
def _():
    dbt("run", "--select", "as_view")


@feature("run_again")
def _():
    dbt("run", "--select", "as_table", "as_view")


@feature("incremental_append")
def _():
    dbt("run", "--select", "appended")
    dbt("run", "--select", "appended")


@feature("incremental_delete_insert")
def _():
    dbt("run", "--select", "replaced")
    dbt("run", "--select", "replaced")


@feature("incremental_merge")
def _():
    dbt("run", "--select", "merged")
    dbt("run", "--select", "merged")


@feature("snapshot")
def _():
    dbt("snapshot")


@feature("snapshot_again")
def _():
    seed = PROJECT / "seeds/people.csv"
    seed.write_text(seed.read_text().replace("Grace", "Hopper"))
    dbt("seed")
    dbt("snapshot")


@feature("test")
def _():
    dbt("test", "--select", "people", "as_table")


@feature("docs")
def _():
    dbt("docs", "generate")
    found = json.loads((PROJECT / "target/catalog.json").read_text())["nodes"]
    assert "seed.conformance.people" in found, list(found)


@feature("build")
def _():
    dbt("build", "--select", "people", "as_table", "as_view")


@feature("operation_refresh")
def _():
    product()
    told = dbt("run-operation", "compute_length")
    assert "refresh_status=succeeded" in told, told[-300:]


@feature("jobs")
def _():
    product()
    dbt("test", "--select", "test_type:singular")
