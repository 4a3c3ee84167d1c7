"""Starts the program under measurement and talks to it."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import psycopg

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSWORD = "benchmark only"


def program():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    candidates = [os.environ.get("LANCEGATE_BIN"), ROOT / "bin" / "lancegate", target / "quick" / "lancegate"]
    for candidate in filter(None, candidates):
        if pathlib.Path(candidate).exists():
            return str(candidate)
    raise SystemExit("no program to measure: run `make build` or set LANCEGATE_BIN")


class Gateway:
    """A gateway process on a data folder; ends with the `with` block."""

    def __init__(self, data, config=None, preload=None):
        self.data = pathlib.Path(data)
        self.config = config
        self.preload = preload

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="lancegate-gateway-")
        ports = pathlib.Path(self.folder) / "ports"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LANCEGATE_")}
        environment["LANCEGATE_PASSWORD"] = PASSWORD
        if self.preload:
            environment["LD_PRELOAD"] = self.preload
        command = [program(), "serve", "--data", str(self.data), "--pg-listen", "127.0.0.1:0"]
        command += ["--http-listen", "127.0.0.1:0", "--ports-file", str(ports)]
        command += ["--config", str(self.config)] if self.config else []
        log = open(pathlib.Path(self.folder) / "log", "w")
        self.process = subprocess.Popen(command, env=environment, stderr=log, stdout=log)
        deadline = time.monotonic() + 60
        while not ports.exists() or "pg=" not in ports.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the gateway did not start: {(pathlib.Path(self.folder) / 'log').read_text()}")
            time.sleep(0.02)
        values = dict(part.split("=", 1) for part in ports.read_text().split())
        self.host, self.port = values["pg"].rsplit(":", 1)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self):
        return psycopg.connect(
            host=self.host, port=self.port, user="lancegate", password=PASSWORD, dbname="lancegate", autocommit=True
        )

    def peak_mib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        return None


def timed(action):
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
