"""Alembic: migrations applied, compared and taken back, with its own table of versions."""

import alembic
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, version, want

version(alembic.__version__)
engine = sa.create_engine(sa.URL.create("postgresql+psycopg", USER, PASSWORD, HOST, int(PORT), DATABASE))
wanted = sa.MetaData()
sa.Table("item", wanted, sa.Column("id", sa.BigInteger, nullable=False), sa.Column("name", sa.Text))


@feature("connect")
def _():
    with engine.connect() as connection:
        want(MigrationContext.configure(connection).get_current_revision(), None)


@feature("upgrade")
def _():
    with engine.begin() as connection:
        context = MigrationContext.configure(connection)
        operations = Operations(context)
        operations.create_table("item", sa.Column("id", sa.BigInteger, nullable=False), sa.Column("old", sa.Text))
        operations.alter_column("item", "old", new_column_name="name")
        operations.add_column("item", sa.Column("extra", sa.Integer))
        operations.bulk_insert(sa.table("item", sa.column("id", sa.BigInteger)), [{"id": 1}, {"id": 2}])
        context._ensure_version_table()
        connection.execute(sa.text("INSERT INTO alembic_version (version_num) VALUES ('0001')"))
    with engine.connect() as connection:
        want(MigrationContext.configure(connection).get_current_revision(), "0001")


@feature("autogenerate")
def _():
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        found = [change[0] for change in compare_metadata(context, wanted) if change[0] != "remove_table"]
    want(found, ["remove_column"])


@feature("downgrade")
def _():
    with engine.begin() as connection:
        operations = Operations(MigrationContext.configure(connection))
        operations.drop_column("item", "extra")
        operations.rename_table("item", "items")
        operations.drop_table("items")
    want("items" in sa.inspect(engine).get_table_names(), False)
