"""psql: every backslash command, COPY both ways, a canceled statement, and completion of names."""

import os
import pty
import re
import select
import signal
import subprocess
import time

from conformance import feature, product, version, want

version(subprocess.run(["psql", "--version"], capture_output=True, text=True, check=True).stdout.split()[2])


def psql(text, *options, given=None):
    """Runs a script; fails with the first error that psql prints."""
    command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-P", "pager=off", *options]
    script = text if given is None else None
    if given is not None:
        command += ["-c", text]
    done = subprocess.run(command, input=given if given is not None else script, capture_output=True, text=True, timeout=30)
    wrong = re.search(r"(ERROR|FATAL):.*", done.stderr)
    if done.returncode or wrong:
        raise AssertionError(done.stderr.strip() or f"ended with {done.returncode}")
    return done.stdout


def rows(text, *options):
    return psql(text, "-A", "-t", *options).splitlines()


psql("CREATE TABLE docs (id bigint NOT NULL, body text, at timestamp, v real[]);"
     "INSERT INTO docs VALUES (1, 'lance', NULL, NULL), (2, 'gate', NULL, NULL);"
     "CREATE VIEW words AS SELECT body FROM docs; CREATE INDEX docs_id ON docs (id)")


@feature("connect")
def _():
    want(rows("SELECT 1"), ["1"])


@feature("transaction")
def _():
    want(rows("BEGIN; SELECT 1; SAVEPOINT a; ROLLBACK TO a; RELEASE a; COMMIT; SELECT 2"), ["1", "2"])
    want(rows("\\set ON_ERROR_ROLLBACK on\n\\set ON_ERROR_STOP 0\nBEGIN;\nSELECT 1;\nCOMMIT;\n"), ["1"])


@feature("error")
def _():
    done = subprocess.run(["psql", "-X", "-q"], input="SELECT a,\n  nothing\nFROM docs;\n\\echo :LAST_ERROR_SQLSTATE\nSELECT 7;\n",
                          capture_output=True, text=True, timeout=30)
    assert "42703" in done.stdout and "7" in done.stdout, done
    assert "LINE 1: SELECT a," in done.stderr and "^" in done.stderr, done.stderr


@feature("cursor")
def _():
    want(rows("SELECT generate_series FROM generate_series(1, 10);", "-v", "FETCH_COUNT=3"), [str(n) for n in range(1, 11)])


@feature("copy_in")
def _():
    psql("\\copy docs (id, body) FROM STDIN\n3\ta\n4\t\\N\n\\.\n")
    psql("COPY docs (id, body) FROM STDIN WITH (FORMAT csv)", given="5,\"x,y\"\n")
    want(rows("SELECT count(*) FROM docs"), ["5"])
    done = subprocess.run(["psql", "-X", "-q", "-A", "-t"], input="COPY docs (id, body) FROM STDIN;\nx\ty\n\\.\nSELECT 8;\n",
                          capture_output=True, text=True, timeout=30)
    assert done.stdout == "8\n" and "ERROR" in done.stderr, done


@feature("copy_out")
def _():
    want(rows("COPY (SELECT id, body FROM docs WHERE id < 3 ORDER BY id) TO STDOUT"), ["1\tlance", "2\tgate"])
    want(rows("\\copy (SELECT id FROM docs WHERE id = 1) TO STDOUT WITH CSV HEADER"), ["id", "1"])


@feature("cancel")
def _():
    child = subprocess.Popen(["psql", "-X", "-c", "SELECT pg_sleep(20)"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=15)
    assert "canceling statement due to user request" in said, said


@feature("computed")
def _():
    product()
    psql("ALTER TABLE docs ADD COLUMN n AS length(body)")
    want(rows("REFRESH COLUMN n ON docs WAIT")[0].split("|")[:3], ["refresh_column", "n", "succeeded"])
    want(rows("SELECT n FROM docs WHERE id = 1"), ["5"])


@feature("jobs")
def _():
    product()
    job = rows("SHOW JOBS")[0].split("|")
    want(job[1:4], ["docs", "computed_refresh", "succeeded"])
    assert rows(f"DESCRIBE JOB '{job[0]}'") and rows(f"SHOW JOB EVENTS '{job[0]}'")
    assert "docs" in psql("\\x\nSHOW JOBS")


COMMANDS = {
    "d": ("\\d", "docs"), "d_table": ("\\d docs", "bigint"), "d_plus_table": ("\\d+ docs", "bigint"), "d_view": ("\\d words", "body"),
    "d_plus_view": ("\\d+ words", "SELECT"), "dt": ("\\dt", "docs"), "dt_plus": ("\\dt+", "docs"), "di": ("\\di", "docs_id"),
    "dv": ("\\dv", "words"), "dm": ("\\dm", ""), "ds": ("\\ds", ""), "dE": ("\\dE", ""), "dS": ("\\dS", "pg_class"),
    "dn": ("\\dn", "public"), "dn_plus": ("\\dn+", "public"), "l": ("\\l", "lancegate"), "l_plus": ("\\l+", "lancegate"),
    "du": ("\\du", "lancegate"), "dg_plus": ("\\dg+", "lancegate"), "dp": ("\\dp", "docs"), "z": ("\\z docs", "docs"), "ddp": ("\\ddp", ""),
    "drds": ("\\drds", ""), "dx": ("\\dx", ""), "db": ("\\db", "pg_default"), "dA": ("\\dA", "heap"), "dO": ("\\dO", ""), "dP": ("\\dP", ""),
    "df": ("\\df abs", "abs"), "df_plus": ("\\df+ abs", "abs"), "da": ("\\da sum", "sum"), "do": ("\\do =", "="), "dC": ("\\dC", "integer"),
    "dT": ("\\dTS int4", "integer"), "dD": ("\\dD", ""), "dF": ("\\dF", "english"), "dy": ("\\dy", ""), "dRp": ("\\dRp", ""), "dRs": ("\\dRs", ""),
    "dL": ("\\dLS", "sql"), "dconfig": ("\\dconfig search_path", "search_path"), "dAc": ("\\dAc", "btree"), "dAf": ("\\dAf", "btree"),
    "dAo": ("\\dAo", "btree"), "dAp": ("\\dAp", "btree"), "dd": ("\\dd", ""), "des": ("\\des", ""), "dew": ("\\dew", ""), "det": ("\\det", ""),
    "deu": ("\\deu", ""), "dl": ("\\dl", ""), "dX": ("\\dX", ""), "sf": ("\\sf abs(integer)", "FUNCTION"), "sv": ("\\sv words", "VIEW"),
    "conninfo": ("\\conninfo", "lancegate"), "encoding": ("\\encoding", "UTF8"), "gdesc": ("SELECT 1::int8 AS a, 'x'::text AS b \\gdesc", "bigint"),
    "gexec": ("SELECT 'SELECT 41 + 1' \\gexec", "42"), "gset": ("SELECT 5 AS five \\gset\nSELECT :five + 1", "6"),
    "crosstabview": ("SELECT * FROM (VALUES ('a', 'x', 1), ('b', 'y', 2)) v (p, q, r) \\crosstabview", "y"),
    "errverbose": ("\\set ON_ERROR_STOP 0\n\\errverbose", ""),
    "variables": ("\\echo :SERVER_VERSION_NUM :ENCODING\n\\set n 1\nSELECT :n, :'n', :{?n}", "UTF8"),
}
for name, (command, part) in COMMANDS.items():

    @feature(name)
    def _():
        told = psql(command + "\n")
        assert part in told, f"no {part!r} in {told!r}"


@feature("watch")
def _():
    child = subprocess.Popen(["psql", "-X", "-q", "-A", "-t"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdin.write("SELECT 'again' \\watch 0.2\n")
    child.stdin.flush()
    seen = "".join(child.stdout.readline() for _ in range(6))
    child.send_signal(signal.SIGINT)
    child.stdin.close()
    child.wait(10)
    assert seen.count("again") >= 2, seen


@feature("tab_completion")
def _():
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "dumb"
        os.execvp("psql", ["psql", "-X"])
    seen = b""

    def until(part):
        nonlocal seen
        end = time.monotonic() + 10
        while part not in seen:
            ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {part!r} in {seen[-300:]!r}")
            seen += os.read(terminal, 4096)
        seen = seen[seen.index(part) + len(part):]

    try:
        until(b"lancegate=")
        for typed, completed in ((b"SELECT * FROM wor\t", b"words "), (b"\x15\\d docs_\t", b"docs_id"), (b"\x15SET application_n\t", b"application_name ")):
            os.write(terminal, typed)
            until(completed)
        os.write(terminal, b"\x15\\q\n")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
