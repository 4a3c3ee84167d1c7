"""pgcli: its executor and the refresh of its completions, without a terminal."""

import pgcli
from pgcli.completion_refresher import CompletionRefresher
from pgcli.pgexecute import PGExecute

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

version(pgcli.__version__)
execute = PGExecute(DATABASE, USER, PASSWORD, HOST, PORT, None)


def run(sql):
    found = []
    for title, rows, headers, status, *_ in execute.run(sql, pgspecial=special):
        found.append((list(rows) if rows is not None else None, headers, status))
    return found


from pgspecial.main import PGSpecial  # noqa: E402

special = PGSpecial()


@feature("connect")
def _():
    want(run("SELECT 1 AS one")[0][0], [(1,)])
    run("CREATE TABLE docs (id bigint, body text)")


@feature("introspect")
def _():
    assert ("public", "docs") in list(execute.tables())
    assert "id" in [column[2] for column in execute.table_columns()]
    assert "public" in list(execute.schemata())
    assert DATABASE in list(execute.databases())
    list(execute.views()), list(execute.view_columns()), list(execute.foreignkeys()), list(execute.datatypes())
    assert any(found.func_name == "abs" for found in execute.functions())
    assert execute.search_path()


@feature("completion")
def _():
    from threading import Event

    done, found = Event(), []
    CompletionRefresher().refresh(execute, special, lambda completer: (found.append(completer), done.set()), None)
    assert done.wait(30), "the refresh does not end"
    assert "docs" in found[0].dbmetadata["tables"].get("public", {})


@feature("commands")
def _():
    wrong = []
    for command in ("\\d", "\\d docs", "\\d+ docs", "\\dt", "\\dv", "\\di", "\\dn", "\\du", "\\l", "\\df", "\\dT", "\\dx", "\\db", "\\dp"):
        try:
            run(command)
        except Exception as error:  # pgspecial raises what the driver raises
            wrong.append(f"{command}: {error}")
    want(wrong, [])


@feature("error")
def _():
    try:
        run("SELECT nothing FROM docs")
        raise AssertionError("no error")
    except Exception as error:
        want(getattr(error, "sqlstate", None), "42703")


@feature("jobs")
def _():
    product()
    run("ALTER TABLE docs ADD COLUMN n AS length(body)")
    run("REFRESH COLUMN n ON docs WAIT")
    want(run("SHOW JOBS")[0][0][0][3], "succeeded")
