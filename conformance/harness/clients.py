"""What clients there are: one folder with a client.toml each."""

import dataclasses
import pathlib
import tomllib

# The order of the columns in README.md, and what each of them means.
FEATURES = {
    "connect": "connects, and reads what the server says of itself",
    "session": "SET, SHOW, search_path, and what a pool sends when a connection is given back",
    "types_out": "values of every type arrive as the client's own",
    "types_in": "the client's own values arrive as parameters",
    "prepare": "prepared statements, used again",
    "transaction": "BEGIN, COMMIT, ROLLBACK, a failed block",
    "savepoint": "SAVEPOINT, ROLLBACK TO, RELEASE",
    "error": "an error has its SQLSTATE and, where the text is at fault, a position; the connection goes on",
    "cursor": "a cursor of SQL, or a portal with a row limit",
    "stream": "100,000 rows, read in pieces",
    "introspect": "the client's own listing of tables and columns",
    "copy_in": "COPY FROM STDIN",
    "copy_out": "COPY TO STDOUT",
    "cancel": "a running statement is canceled, and the connection goes on",
    "computed": "a computed column is declared, refreshed and read",
    "jobs": "SHOW JOBS and the relations in its place",
}


@dataclasses.dataclass
class Client:
    name: str
    folder: pathlib.Path
    title: str
    features: list
    version: str = ""
    light: bool = False
    environment: str = ""
    pip: list = dataclasses.field(default_factory=list)
    npm: list = dataclasses.field(default_factory=list)
    apt: list = dataclasses.field(default_factory=list)
    # Files that are there if the packages of Debian are installed.
    files: list = dataclasses.field(default_factory=list)
    # A PostgreSQL of this machine runs beside the gateway, for the client to use.
    postgres: bool = False
    seconds: int = 60
    order: int = 1000
    # What is known of it, for README.md.
    note: str = ""


def load(folder):
    """Reads all clients, in the order of README.md."""
    found = []
    for file in folder.glob("*/client.toml"):
        found.append(Client(name=file.parent.name, folder=file.parent, **tomllib.loads(file.read_text())))
    return sorted(found, key=lambda client: (client.order, client.name))
