"""SQLAlchemy: the dialect's own queries, reflection, and objects stored and read."""

import datetime as dt
import decimal

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

version(sa.__version__)


def engine_of(driver):
    url = sa.URL.create(f"postgresql+{driver}", USER, PASSWORD, HOST, int(PORT), DATABASE)
    return sa.create_engine(url)


engine = engine_of("psycopg")


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "docs"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    body: Mapped[str | None] = mapped_column(sa.Text)
    at: Mapped[dt.datetime | None]
    price: Mapped[decimal.Decimal | None] = mapped_column(sa.Numeric(10, 2))
    tags: Mapped[list[str] | None] = mapped_column(ARRAY(sa.Text))


def make_docs():
    """Without a primary key, so that what follows does not depend on whether there are any."""
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE IF NOT EXISTS docs (id bigint NOT NULL, body text, at timestamp, price numeric(10,2), tags text[])"
        )


@feature("connect")
def _():
    with engine.connect() as connection:
        want(connection.scalar(sa.select(sa.literal(1))), 1)
        assert connection.dialect.server_version_info >= (15,)
        want(connection.dialect.default_schema_name, "public")


@feature("types_out")
def _():
    with engine.connect() as connection:
        got = connection.execute(sa.select(
            sa.cast("1", sa.Integer), sa.cast("2024-01-02", sa.Date), sa.cast(1.5, sa.Numeric(10, 2)), sa.true(),
            sa.cast("01:02:03", sa.Time), sa.func.array_length(sa.cast([1, 2], ARRAY(sa.Integer)), 1),
        )).one()
        want(tuple(got), (1, dt.date(2024, 1, 2), decimal.Decimal("1.50"), True, dt.time(1, 2, 3), 2))


@feature("transaction")
def _():
    with engine.begin() as connection:
        want(connection.scalar(sa.text("SELECT 1")), 1)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        want(connection.scalar(sa.text("SELECT 1")), 1)
        want(connection.get_isolation_level(), "READ COMMITTED")


@feature("savepoint")
def _():
    with engine.begin() as connection:
        nested = connection.begin_nested()
        try:
            connection.execute(sa.text("SELECT 1/0"))
        except sa.exc.DBAPIError:
            nested.rollback()
        want(connection.scalar(sa.text("SELECT 1")), 1)


@feature("error")
def _():
    with engine.connect() as connection:
        try:
            connection.execute(sa.text("SELECT nothing FROM pg_class"))
            raise AssertionError("no error")
        except sa.exc.ProgrammingError as error:
            want(error.orig.sqlstate, "42703")


@feature("stream")
def _():
    with engine.connect().execution_options(yield_per=1000) as connection:
        rows = connection.execute(sa.text("SELECT generate_series FROM generate_series(1, 100000)"))
        want(sum(row[0] for row in rows), 5000050000)


@feature("introspect")
def _():
    make_docs()
    found = sa.inspect(engine)
    want(found.has_table("docs"), True)
    want(found.has_table("nothing"), False)
    assert "docs" in found.get_table_names()
    assert "public" in found.get_schema_names()
    want([column["name"] for column in found.get_columns("docs")], ["id", "body", "at", "price", "tags"])
    want(found.get_columns("docs")[0]["nullable"], False)


@feature("reflection")
def _():
    make_docs()
    found = sa.inspect(engine)
    for asked in ("get_pk_constraint", "get_foreign_keys", "get_indexes", "get_unique_constraints", "get_check_constraints",
                  "get_table_comment", "get_table_options"):
        getattr(found, asked)("docs")
    found.get_view_names(), found.get_materialized_view_names(), found.get_sequence_names(), found.get_enums()
    table = sa.Table("docs", sa.MetaData(), autoload_with=engine)
    want([str(column.type) for column in table.columns], ["BIGINT", "TEXT", "TIMESTAMP", "NUMERIC(10, 2)", "ARRAY"])


@feature("orm")
def _():
    make_docs()
    with Session(engine) as session:
        session.add_all([
            Doc(id=1, body="lance", at=dt.datetime(2024, 1, 1), price=decimal.Decimal("1.50"), tags=["a"]),
            Doc(id=2, body="gate"),
        ])
        session.commit()
        first = session.get(Doc, 1)
        want((first.body, first.price, first.tags), ("lance", decimal.Decimal("1.50"), ["a"]))
        first.body = "changed"
        session.commit()
        session.delete(session.get(Doc, 2))
        session.commit()
        want(session.scalars(sa.select(Doc.body).where(Doc.id.in_([1, 2])).order_by(Doc.id)).all(), ["changed"])
        want(session.scalar(sa.select(sa.func.count()).select_from(Doc)), 1)
        want(session.scalar(sa.select(sa.exists().where(Doc.id == 1))), True)


@feature("upsert")
def _():
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE keyed (id bigint PRIMARY KEY, body text)")
        keyed = sa.table("keyed", sa.column("id"), sa.column("body"))
        for body in ("a", "b"):
            statement = insert(keyed).values(id=1, body=body)
            connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"body": statement.excluded.body}))
        want(connection.execute(sa.select(keyed)).all(), [(1, "b")])


@feature("drivers")
def _():
    for driver in ("psycopg2", "pg8000"):
        other = engine_of(driver)
        with other.connect() as connection:
            want(connection.scalar(sa.text("SELECT 1")), 1, driver)
        sa.inspect(other).get_columns("docs")
        other.dispose()


@feature("views")
def _():
    make_docs()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW few AS SELECT id FROM docs")
    found = sa.inspect(engine)
    assert "few" in found.get_view_names()
    assert "SELECT" in found.get_view_definition("few").upper()


@feature("computed")
def _():
    product()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (id bigint, body text)")
        connection.execute(sa.text("INSERT INTO notes VALUES (:id, :body)"), [{"id": 1, "body": "lance"}])
        connection.exec_driver_sql("ALTER TABLE notes ADD COLUMN n AS length(body)")
    # A job knows the table from its COMMIT on.
    with engine.begin() as connection:
        want(connection.execute(sa.text("REFRESH COLUMN n ON notes WAIT")).mappings().one()["status"], "succeeded")
        want(connection.scalar(sa.text("SELECT n FROM notes")), 5)
    want([column["name"] for column in sa.inspect(engine).get_columns("notes")], ["id", "body", "n"])


@feature("jobs")
def _():
    product()
    jobs = sa.Table("jobs", sa.MetaData(), sa.Column("job_id"), sa.Column("state"), schema="system.public", quote_schema=False)
    with engine.connect() as connection:
        want(connection.execute(sa.select(jobs.c.state)).scalars().all(), ["succeeded"])
        want(connection.execute(sa.text("SHOW JOBS LIMIT 5")).mappings().one()["state"], "succeeded")
