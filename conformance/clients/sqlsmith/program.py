"""sqlsmith: 300 random queries over the tables of the catalog and one of ours."""

import os
import subprocess

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, version

version(subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "sqlsmith"], capture_output=True, text=True, check=True).stdout)
subprocess.run(["psql", "-X", "-q", "-c", "CREATE TABLE docs (id bigint, body text, x double precision, at timestamp)"], check=True)
target = f"host={HOST} port={PORT} dbname={DATABASE} user={USER} password='{PASSWORD}'"
done = subprocess.run(["sqlsmith", f"--target={target}", "--max-queries=300", "--seed=7", "--verbose"], capture_output=True,
                      text=True, timeout=160, cwd=os.environ["WORK"])
lines = done.stderr.splitlines()


@feature("connect")
def _():
    assert any("done" in line or "Loading" in line for line in lines) and done.returncode == 0, (lines[-1:] or [done.returncode])[0]


@feature("queries")
def _():
    assert done.returncode == 0, (lines[-1:] or [done.returncode])[0]
    bugs = [line for line in lines if "XX000" in line or "internal error" in line.lower() or "panic" in line.lower()]
    assert not bugs, bugs[0]
