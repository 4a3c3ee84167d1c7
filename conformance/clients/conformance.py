"""What the Python programs share: one line of output for each feature."""

import os
import traceback
import sys

REFERENCE = "CONFORMANCE_REFERENCE" in os.environ
HOST, PORT, USER, PASSWORD, DATABASE = (
    os.environ[f"PG{name}"] for name in ("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
)
WAIT_SECONDS = 30


class Skip(Exception):
    """There is nothing to try; the text says why."""


def tell(word, name, why=""):
    print(word, name, " ".join(str(why).split())[:300], flush=True)


def feature(name):
    """Runs the decorated function at once and tells what came of it."""

    def run(body):
        try:
            body()
        except Skip as why:
            tell("skip", name, why)
        except BaseException as error:  # a client may raise anything; the next feature is still tried
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            traceback.print_exc(file=sys.stderr)
            tell("fail", name, f"{type(error).__name__}: {error}")
        else:
            tell("ok", name)
        return body

    return run


def want(found, expected, what=""):
    """Fails unless both are equal."""
    if found != expected:
        raise AssertionError(f"{what} {found!r} instead of {expected!r}".strip())


def product():
    """Says that a feature is this product's own."""
    if REFERENCE:
        raise Skip("PostgreSQL has no computed columns")


def version(text):
    print("version", text, flush=True)
