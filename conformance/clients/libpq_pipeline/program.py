"""libpq_pipeline of PostgreSQL 15: fetched as a source package of Debian, compiled, and run test by test."""

import os
import pathlib
import subprocess
import sys

from conformance import feature, version

FOLDER = pathlib.Path(os.environ["CONFORMANCE_CACHE"]) / "libpq_pipeline"
PROGRAM = FOLDER / "libpq_pipeline"


def call(*command, cwd=FOLDER):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return done.stdout


def build():
    """Fetches the one file that is needed. The lists of packages must name sources, which apt is told here."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    lists = FOLDER / "sources.list"
    lists.write_text("deb-src http://deb.debian.org/debian bookworm main\n")
    state = FOLDER / "lists"
    (state / "partial").mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::Etc::sourcelist={lists}", "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={state}",
               "-o", "APT::Sandbox::User=root"]
    call("apt-get", *options, "update", "-qq")
    call("apt-get", *options, "source", "-qq", "--download-only", "postgresql-15")
    [archive] = FOLDER.glob("postgresql-15_*.orig.tar.*")
    call("tar", "-xf", str(archive), "--strip-components=5", "--wildcards", "*/src/test/modules/libpq_pipeline/libpq_pipeline.c")
    include = call("pg_config", "--includedir-server").strip()
    client = call("pg_config", "--includedir").strip()
    library = "/usr/lib/postgresql/15/lib"
    call("gcc", "-O1", "-I", include, "-I", client, f"-I{include}/internal", f"-I{client}/internal", f"-I{client}/postgresql/internal",
         "-o", str(PROGRAM), "libpq_pipeline.c", f"-L{library}", "-lpq", "-lpgcommon", "-lpgport", "-lm")


try:
    if not PROGRAM.exists():
        build()
except (RuntimeError, ValueError, subprocess.SubprocessError) as error:
    print(f"not built: {error}", file=sys.stderr)
    sys.exit(1)
version(call("pg_config", "--version").split()[1])
for name in call(str(PROGRAM), "tests").split():

    @feature(name)
    def _():
        done = subprocess.run([str(PROGRAM), name, "dbname=" + os.environ["PGDATABASE"]], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise AssertionError((done.stderr or done.stdout).strip().splitlines()[-1])
