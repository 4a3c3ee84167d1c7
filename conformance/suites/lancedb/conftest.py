"""Fixtures that put a running lancegate under tests written for a local LanceDB.

Stands in for the conftest.py of the published suite: the same fixture names and the
same helper, but every connection goes to the gateway named by the environment:
GATEWAY_URL, GATEWAY_KEY and GATEWAY_DBS (names of databases, separated by commas).
Tests that open a folder or `memory://` by themselves are sent there too; a test that
needs the files of its table then fails by itself and is judged in notapplicable.txt.

The databases are emptied before each test, so nothing may run beside the suite.
"""

import asyncio
import os

import lancedb
import pyarrow as pa
import pytest
import pytest_asyncio
from lancedb.background_loop import LOOP
from lancedb.remote.table import RemoteTable

URL = os.environ["GATEWAY_URL"]
KEY = os.environ["GATEWAY_KEY"]
DATABASES = os.environ.get("GATEWAY_DBS", ",".join(f"suite_{n}" for n in range(1, 9))).split(",")

local_connect = lancedb.connect
local_connect_async = lancedb.connect_async


used = {}  # by the running test: a local address -> its database


def is_local(uri):
    return uri is not None and ("://" not in str(uri) or str(uri).startswith(("memory://", "file://")))


def database_of(uri):
    """One database for a folder, and one for each database in memory, as locally."""
    key = object() if str(uri).startswith("memory://") else str(uri)
    if key not in used:
        assert len(used) < len(DATABASES), "the test opens more databases than GATEWAY_DBS has"
        used[key] = DATABASES[len(used)]
    return used[key]


def remote(uri, options):
    """The arguments of a connection to the gateway in the place of a local one."""
    kept = {name: options[name] for name in ("client_config", "session") if options.get(name)}
    return {"uri": f"db://{database_of(uri)}", "api_key": KEY, "host_override": URL, **kept}


def connect(uri=None, **options):
    return local_connect(**remote(uri, options)) if is_local(uri) else local_connect(uri, **options)


async def connect_async(uri=None, **options):
    return await (local_connect_async(**remote(uri, options)) if is_local(uri) else local_connect_async(uri, **options))


lancedb.connect = connect
lancedb.connect_async = connect_async


def to_arrow(table):
    return LOOP.run(table._table.to_arrow())


def to_pandas(table, blob_mode=None, **options):
    if blob_mode is not None:
        raise NotImplementedError("blobs of a remote table come through fetch_blobs")
    return to_arrow(table).to_pandas(**options)


# The blocking client will not read a whole remote table; its own asynchronous one will.
# Lent to the blocking one, so that what a test wrote can be compared.
RemoteTable.to_arrow = to_arrow
RemoteTable.to_pandas = to_pandas


async def drop_everything(db, path=()):
    path = list(path)
    # The client lists views of the root alone, which is where the tests make them.
    for view in await db.list_materialized_views() if not path else ():
        await db.drop_materialized_view(view)
    for child in (await db.list_namespaces(namespace_path=path)).namespaces:
        await drop_everything(db, [*path, child])
        await db.drop_namespace([*path, child])
    while tables := (await db.list_tables(namespace_path=path)).tables:
        for table in tables:
            await db.drop_table(table, namespace_path=path)


async def empty(databases):
    for name in databases:
        await drop_everything(await local_connect_async(f"db://{name}", api_key=KEY, host_override=URL))


def pytest_sessionstart():
    asyncio.run(empty(DATABASES))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    asyncio.run(empty(used.values()))
    used.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    yield
    item.user_properties.append(("asked_gateway", bool(used)))


@pytest.fixture
def mem_db():
    return connect("memory://")


@pytest.fixture
def tmp_db(tmp_path):
    return connect(tmp_path)


@pytest_asyncio.fixture
async def mem_db_async():
    return await connect_async("memory://")


@pytest_asyncio.fixture
async def tmp_db_async(tmp_path):
    return await connect_async(tmp_path)


def pandas_string_type():
    """The Arrow type pandas gives to a column of strings: large from 3.0 on."""
    import pandas as pd

    return pa.large_utf8() if int(pd.__version__.split(".")[0]) >= 3 else pa.utf8()
