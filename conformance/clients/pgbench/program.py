"""pgbench: its own tables and scripts, and ours in each query mode."""

import os
import re
import subprocess

from conformance import feature, version, want

version(subprocess.run(["pgbench", "--version"], capture_output=True, text=True, check=True).stdout.split()[2])


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    wrong = re.search(r"(ERROR|FATAL|pgbench: error):.*|.*aborted.*", done.stderr)
    if done.returncode or wrong:
        raise AssertionError(wrong.group(0) if wrong else done.stderr.strip()[-200:])
    return done.stdout


def script(text, mode, *options):
    file = os.path.join(os.environ["WORK"], "script.sql")
    with open(file, "w") as out:
        out.write(text)
    told = call("pgbench", "-n", "-f", file, "-M", mode, "-c", "2", "-j", "2", "-t", "5", *options)
    want(re.search(r"actually processed: (\d+)/", told).group(1), "10")


call("psql", "-X", "-q", "-c", "CREATE TABLE docs (id bigint, body text)")
call("psql", "-X", "-q", "-c", "INSERT INTO docs SELECT value, 'row' FROM (VALUES (1), (2), (3)) v (value)")
READ = "\\set n random(1, 3)\nSELECT body FROM docs WHERE id = :n;\n"


@feature("connect")
def _():
    script("SELECT 1;\n", "simple", "-C")


@feature("simple")
def _():
    script(READ, "simple")


@feature("extended")
def _():
    script(READ, "extended")


@feature("prepared")
def _():
    script(READ + "INSERT INTO docs VALUES (:n + 100, 'new');\n", "prepared")


@feature("transaction")
def _():
    script("BEGIN;\n" + READ + "UPDATE docs SET body = 'x' WHERE id = 1;\nCOMMIT;\n", "extended", "--max-tries=5")


@feature("pipeline")
def _():
    script("\\startpipeline\n" + READ + READ + "\\endpipeline\n", "extended")


@feature("initialize")
def _():
    call("pgbench", "-i", "-s", "1", "-q")


@feature("select_only")
def _():
    call("pgbench", "-S", "-n", "-t", "20", "-M", "prepared")


@feature("tpcb_like")
def _():
    call("pgbench", "-v", "-t", "5")
