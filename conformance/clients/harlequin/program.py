"""harlequin: the adapter that its interface calls."""

from importlib.metadata import version as installed

from harlequin_postgres.adapter import HarlequinPostgresAdapter

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

version(installed("harlequin-postgres"))
adapter = HarlequinPostgresAdapter(conn_str=(), host=HOST, port=PORT, user=USER, password=PASSWORD, dbname=DATABASE)
c = adapter.connect()


def rows(sql):
    cursor = c.execute(sql)
    return None if cursor is None else cursor.fetchall()


@feature("connect")
def _():
    want([tuple(row) for row in rows("SELECT 1 AS one")], [(1,)])
    rows("CREATE TABLE docs (id bigint, body text)")


def walk(items, depth=0):
    for item in items:
        yield item
        children = item.fetch_children() if hasattr(item, "fetch_children") and not item.children else item.children
        if depth < 3 and item.label not in ("pg_catalog", "information_schema", "postgres"):
            yield from walk(children, depth + 1)


@feature("introspect")
def _():
    found = list(walk(c.get_catalog().items))
    assert "docs" in [item.label for item in found], [item.label for item in found]
    assert "body" in [item.label for item in found]


@feature("completion")
def _():
    assert c.get_completions()


@feature("transaction")
def _():
    want(c.transaction_mode.label.lower()[:4], "auto")
    mode = c.toggle_transaction_mode()
    rows("SELECT 1")
    mode.commit()
    c.toggle_transaction_mode()


@feature("error")
def _():
    from harlequin.exception import HarlequinQueryError

    try:
        rows("SELECT nothing FROM docs")
        raise AssertionError("no error")
    except HarlequinQueryError as error:
        assert "nothing" in str(error)


@feature("jobs")
def _():
    product()
    rows("ALTER TABLE docs ADD COLUMN n AS length(body)")
    rows("REFRESH COLUMN n ON docs WAIT")
    want(rows("SHOW JOBS")[0][3], "succeeded")
