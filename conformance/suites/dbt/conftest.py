"""The profile of the gateway that ./run has started."""

import os

import pytest

pytest_plugins = ["dbt.tests.fixtures.project"]


@pytest.fixture(scope="class")
def dbt_profile_target():
    return {
        "type": "postgres", "threads": 2, "host": os.environ["PGHOST"], "port": int(os.environ["PGPORT"]),
        "user": os.environ["PGUSER"], "pass": os.environ["PGPASSWORD"], "dbname": os.environ["PGDATABASE"],
    }
