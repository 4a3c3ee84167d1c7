"""pandas: frames written and read through SQLAlchemy."""

import pandas as pd
import sqlalchemy as sa

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

version(pd.__version__)
engine = sa.create_engine(sa.URL.create("postgresql+psycopg", USER, PASSWORD, HOST, int(PORT), DATABASE))
frame = pd.DataFrame({
    "id": [1, 2, 3], "body": ["lance", None, "gate"], "x": [0.5, 1.5, None],
    "at": pd.to_datetime(["2024-01-01", "2024-02-29", None]), "yes": [True, False, True],
})


@feature("connect")
def _():
    want(int(pd.read_sql("SELECT 1 AS one", engine)["one"][0]), 1)


@feature("to_sql")
def _():
    frame.to_sql("frame", engine, index=False, method="multi")
    frame.to_sql("frame", engine, index=False, if_exists="append")
    want(int(pd.read_sql("SELECT count(*) AS n FROM frame", engine)["n"][0]), 6)


@feature("replace")
def _():
    frame.to_sql("frame", engine, index=True, if_exists="replace")
    want(len(pd.read_sql("SELECT * FROM frame", engine)), 3)


@feature("read_table")
def _():
    want(list(pd.read_sql_table("frame", engine)["id"]), [1, 2, 3])


@feature("types_out")
def _():
    got = pd.read_sql("SELECT * FROM frame ORDER BY id", engine)
    want([str(kind.kind) for kind in got.dtypes[["id", "x", "at", "yes"]]], ["i", "f", "M", "b"])
    want(list(got["at"].dt.day.dropna()), [1.0, 29.0])


@feature("stream")
def _():
    with engine.connect().execution_options(stream_results=True) as connection:
        pieces = pd.read_sql(sa.text("SELECT generate_series AS g FROM generate_series(1, 100000)"), connection, chunksize=10000)
        want(sum(int(piece["g"].sum()) for piece in pieces), 5000050000)


@feature("computed")
def _():
    product()
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE frame ADD COLUMN n AS length(body)")
    with engine.begin() as connection:
        done = pd.read_sql(sa.text("REFRESH COLUMN n ON frame WAIT"), connection)
    want(list(done["status"]), ["succeeded"])
    want(list(pd.read_sql("SELECT n FROM frame ORDER BY id", engine)["n"].dropna()), [5.0, 4.0])


@feature("jobs")
def _():
    product()
    want(list(pd.read_sql("SHOW JOBS", engine)["state"]), ["succeeded"])
