"""Runs one sqllogictest file on a gateway. Prints `line<TAB>verdict<TAB>reason` for each record.

usage: slt.py ROOT FILE, with PGHOST and the like set.
"""

import pathlib
import re
import sys

import psycopg
from psycopg import pq

ROOT, FILE = pathlib.Path(sys.argv[1]), sys.argv[2]
BOOL, TIMESTAMPS, FLOATS, DATES = 16, (1114, 1184), (700, 701), (1082,)

# What DataFusion reads and a gateway over Lance tables has no use for.
FOREIGN = [
    (r"(?is)^\s*(explain|describe)\b", "plans and DESCRIBE in DataFusion's words"),
    (r"(?is)^\s*create\s+(unbounded\s+)?external\s+table|^\s*drop\s+external|stored\s+as", "external tables"),
    (r"(?is)^\s*copy\b.*\bto\s+'|^\s*copy\b.*\bstored\b", "COPY to files"),
    (r"(?is)^\s*(set|reset|show)\s+(variable\s+)?(datafusion|all|columns|tables|functions|create)|datafusion\.", "DataFusion's own settings and SHOW"),
    (r"(?i)arrow_typeof|arrow_cast|arrow_metadata|arrow_field|try_cast|with_metadata", "functions about Arrow types"),
    (r"(?is)\b(unsigned|tinyint|float16|utf8view|largeutf8|uint\d+|int(8|16|32|64)|dictionary|binary_view)\b", "types that SQL has not"),
    (r"(?i)information_schema", "information_schema of DataFusion"),
    (r"(?is)\.(parquet|csv|json|arrow|avro)'", "files as tables"),
    (r"(?is)^\s*(create|drop)\s+function", "CREATE FUNCTION in DataFusion's form"),
]


class Record:
    def __init__(self, line, kind, head, sql, expected):
        self.line, self.kind, self.head, self.sql, self.expected = line, kind, head, sql, expected


def records(file):
    """Reads a file and the files that it includes."""
    lines = file.read_text().splitlines()
    place = 0
    while place < len(lines):
        line = lines[place]
        if line.startswith("include "):
            for other in sorted(file.parent.glob(line.split(maxsplit=1)[1])):
                yield from records(other)
            place += 1
            continue
        skipped = False
        while re.match(r"(skipif|onlyif)\s", line):
            word, engine = line.split()[:2]
            skipped |= (word == "skipif") == (engine == "datafusion") and engine in ("datafusion", "postgres") or (word, engine) == ("onlyif", "postgres")
            place += 1
            line = lines[place]
        if line.startswith("halt"):
            return
        if not re.match(r"(statement|query)\s", line):
            place += 1
            continue
        began, head = place + 1, line.split(maxsplit=1)[1] if " " in line else ""
        kind = line.split()[0]
        place += 1
        sql = []
        while place < len(lines) and lines[place].strip() and lines[place] != "----":
            sql.append(lines[place])
            place += 1
        expected = []
        if place < len(lines) and lines[place] == "----":
            place += 1
            while place < len(lines) and lines[place].strip():
                expected.append(lines[place])
                place += 1
        if not skipped:
            yield Record(began, kind, head, "\n".join(sql), expected)


def text_of(value, oid):
    """One value as DataFusion's runner writes it."""
    if value is None:
        return "NULL"
    if value == "":
        return "(empty)"
    if oid == BOOL:
        return {"t": "true", "f": "false"}[value]
    if oid in TIMESTAMPS:
        zone = re.sub(r"\+00$", "Z", value) if oid == 1184 else value
        return zone.replace(" ", "T", 1)
    if value.startswith("{") and value.endswith("}") and not value.startswith('{"'):
        return "[" + value[1:-1].replace(",", ", ").replace("{", "[").replace("}", "]").replace('"', "") + "]"
    return value


def plain(line):
    return " ".join(line.split())


def same(found, expected):
    """Whether two rows are the same, numbers to nine digits, whatever the spaces."""
    one, other = plain(found), plain(expected)
    if one == other:
        return True
    left, right = one.replace(",", " ").split(), other.replace(",", " ").split()
    return len(left) == len(right) and all(alike(a, b) for a, b in zip(left, right))


def alike(a, b):
    if a == b:
        return True
    try:
        a, b = float(a.strip("[]")), float(b.strip("[]"))
    except ValueError:
        return False
    return a == b or a != a and b != b or abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def sort_of(rows, mode):
    if "rowsort" in mode:
        return sorted(rows, key=plain)
    if "valuesort" in mode:
        return sorted(word for row in rows for word in row.split())
    return rows


class Gateway:
    def __init__(self):
        self.connect()

    def connect(self):
        self.connection = psycopg.connect(autocommit=True, options="-c statement_timeout=20s")

    def ask(self, sql):
        """Returns the last result of a text: rows as lists of text, column types, the error, rows counted by the tag."""
        connection = self.connection.pgconn
        try:
            connection.send_query(sql.encode())
            last = None
            while (result := connection.get_result()) is not None:
                if last is None or last.status != pq.ExecStatus.FATAL_ERROR:
                    last = result
        except psycopg.Error:
            self.connect()
            return [], [], ("08006", "the connection was lost"), None
        if last.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.NONFATAL_ERROR):
            state = (last.error_field(pq.DiagnosticField.SQLSTATE) or b"08006").decode()
            message = (last.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or last.error_message).decode(errors="replace")
            return [], [], (state, " ".join(message.split())), None
        types = [last.ftype(column) for column in range(last.nfields)]
        rows = []
        for row in range(last.ntuples):
            values = [last.get_value(row, column) for column in range(last.nfields)]
            rows.append([None if value is None else value.decode() for value in values])
        return rows, types, None, (last.command_status or b"").decode()


missing = set()


def foreign(sql):
    return next((why for pattern, why in FOREIGN if re.search(pattern, sql)), None)


def note_missing(sql):
    """Remembers a table that was not made, so that what reads it does not count."""
    found = re.search(r'(?is)\bcreate\s+(?:or\s+replace\s+)?(?:unbounded\s+)?(?:external\s+)?(?:temp\w*\s+)?(?:table|view)\s+(?:if\s+not\s+exists\s+)?"?([\w.]+)', sql)
    if found:
        missing.add(found.group(1).lower())


def reads_missing(sql, error):
    named = re.search(r'(?:relation|table|view) "([^"]+)" does not exist', error[1]) if error else None
    return bool(named and (named.group(1).lower() in missing or missing and not re.search(r"(?i)create", sql)))


def judge(record, gateway):
    if why := foreign(record.sql):
        note_missing(record.sql)
        return "not applicable", why
    rows, types, error, tag = gateway.ask(record.sql)
    if record.head.startswith("error"):
        if error and error[0] != "XX000":
            return "passed", ""
        return "failed", f"{error[0]} {error[1]}"[:160] if error else "no error"
    if error:
        if reads_missing(record.sql, error):
            return "not applicable", "reads a table that was not made"
        note_missing(record.sql)
        return "failed", shortened(error)
    if record.kind == "statement":
        count = re.match(r"count (\d+)", record.head)
        if count and tag and tag.split()[0] in ("INSERT", "UPDATE", "DELETE") and tag.split()[-1] != count.group(1):
            return "failed", "another number of rows was changed"
        return "passed", ""
    if tag and tag.split()[0] in ("INSERT", "UPDATE", "DELETE"):
        # DataFusion answers a row with the number that PostgreSQL has in the tag.
        rows, types = [(tag.split()[-1],)], [20]
    found = [" ".join(text_of(value, oid) for value, oid in zip(row, types)) for row in rows]
    found = [line for row in found for line in (row.split("\n") if "\n" in row else [row])]
    found, expected = sort_of(found, record.head), sort_of(record.expected, record.head)
    if len(found) != len(expected):
        return "failed", f"another number of rows{'' if len(found) else ': none'}"
    for one, other in zip(found, expected):
        if not same(one, other):
            return "failed", "other values"
    return "passed", ""


def shortened(error):
    """The code, and what is common to errors of one kind."""
    text = re.sub(r"\"[^\"]*\"|'[^']*'|\(.*|\d+", "…", error[1])
    return f"{error[0]} {text}"[:90]


def main():
    gateway = Gateway()
    for record in records(ROOT / FILE):
        verdict, reason = judge(record, gateway)
        detail = reason.replace("\t", " ").replace("\n", " ")
        print(f"{record.line}\t{verdict}\t{detail}", flush=True)


main()
