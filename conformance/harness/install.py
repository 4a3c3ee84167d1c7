"""Installs clients by their ordinary package managers, outside of the checkout."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lancegate" / "conformance"
HERE = pathlib.Path(__file__).resolve().parent.parent
# What an installation may take; a registry may be slow.
SECONDS = 900


class Failed(Exception):
    """An installation that failed, with the last line of what the tool said."""


def call(command, **options):
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
            **options,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error
    if done.returncode:
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        raise Failed(f"{command[0]}: " + (lines[-1] if lines else f"ended with {done.returncode}"))


def folder_for(kind, name, packages):
    """Where packages of these versions are: one folder for each content of the list."""
    key = hashlib.sha256("\n".join([sys.version, *sorted(packages)]).encode()).hexdigest()[:12]
    return CACHE / f"{kind}-{name}-{key}"


def once(folder, make):
    """Makes a folder, unless an earlier run has finished it; runs beside each other wait for one another."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            (folder / ".complete").touch()
    return folder


def python(name, packages):
    def make(folder):
        print(f"installing from PyPI: {' '.join(packages)}", flush=True)
        call([sys.executable, "-m", "venv", str(folder)])
        call([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])

    return once(folder_for("pip", name, packages), make)


def node(name, packages):
    def make(folder):
        print(f"installing from npm: {' '.join(packages)}", flush=True)
        (folder / "package.json").write_text('{"private": true}\n')
        call(["npm", "install", "--silent", "--no-audit", "--no-fund", *packages], cwd=folder)

    return once(folder_for("npm", name, packages), make)


def debian(client):
    if all(pathlib.Path(file).exists() for file in client.files):
        return
    print(f"installing from Debian: {' '.join(client.apt)}", flush=True)
    sudo = [] if os.getuid() == 0 else ["sudo"]
    call([*sudo, "apt-get", "update", "-qq"])
    call([*sudo, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *client.apt])
    missing = [file for file in client.files if not pathlib.Path(file).exists()]
    if missing:
        raise Failed(f"{missing[0]} is still missing")


# What clients that share an environment need together: {(kind, environment): packages}.
shared = {}


def together(clients):
    """Notes the packages of all clients to be run, so that those of one environment are installed at one time.

    All clients of the folder are asked, so that an environment is the same whichever of them run.
    """
    from harness.clients import load

    wanted = {client.environment or client.name for client in clients}
    for client in load(HERE / "clients"):
        name = client.environment or client.name
        for kind, packages in (("pip", client.pip), ("npm", client.npm)):
            if packages and name in wanted:
                shared.setdefault((kind, name), set()).update(packages)


def environment(client):
    """Installs what a client needs; returns the environment of its program."""
    keep = ("PATH", "LANG", "LC_ALL", "XDG_CACHE_HOME", "CARGO_HOME", "RUSTUP_HOME", "SSL_CERT_FILE", "PIP_CERT")
    found = {name: os.environ[name] for name in keep if name in os.environ}
    found["PYTHONPATH"] = found["NODE_LIBRARY"] = str(HERE / "clients")
    found["PYTHONDONTWRITEBYTECODE"] = "1"
    found["CONFORMANCE_CACHE"] = str(CACHE)
    found["LC_ALL"] = "C.UTF-8"
    CACHE.mkdir(parents=True, exist_ok=True)
    if client.apt:
        debian(client)
    name = client.environment or client.name
    path = [found["PATH"]]
    if client.pip:
        folder = python(name, sorted(shared[("pip", name)]))
        path.insert(0, str(folder / "bin"))
        found["VIRTUAL_ENV"] = str(folder)
    if client.npm:
        folder = node(name, sorted(shared[("npm", name)]))
        path.insert(0, str(folder / "node_modules/.bin"))
        found["NODE_PATH"] = str(folder / "node_modules")
    found["PATH"] = os.pathsep.join(path)
    return found
