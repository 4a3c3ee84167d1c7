"""What was recorded of earlier runs (results.tsv), and README.md, which is rendered from it."""

import re

from harness.clients import FEATURES

MARKS = {"ok": "✓", "fail": "**✗**", "skip": "–"}
HEAD = """<!-- Rendered by conformance/run --write from results.tsv; do not edit. -->

# Clients on lancegate

Unmodified programs that speak PostgreSQL's protocol, each run on a gateway of its own by `conformance/run`. ✓ passed,
**✗** failed, – not applicable, empty: not tried with this client. Reasons are below.

```sh
make conformance                                          # all clients; PostgreSQL 15, Node and Java are needed for some
LANCEGATE_BIN=bin/lancegate conformance/run --only psycopg,jdbc
LANCEGATE_BIN=bin/lancegate conformance/run --light       # what CI runs
conformance/run --reference --only psycopg                # the same program on a PostgreSQL of this machine
```

`--write` renders this file again. A new client is a folder of `clients/`: `client.toml`, a script `run`, and a program
that prints `ok <feature>`, `fail <feature> <reason>` or `skip <feature> <why>` for each of the features it declares.
"""


class Results:
    """The recorded results: {client: (version, {feature: (result, reason)})}."""

    def __init__(self, folder):
        self.folder = folder
        self.found = {}
        file = folder / "results.tsv"
        for line in file.read_text().splitlines() if file.exists() else []:
            client, version, feature, result, reason = line.split("\t")
            self.found.setdefault(client, (version, {}))[1][feature] = (result, reason)

    def surprises(self, client, found):
        """Tells what differs from the record. Lines that begin `fails now` are defects."""
        recorded = self.found.get(client, ("", {}))[1]
        lines = []
        for feature, (result, reason) in found.items():
            before = recorded.get(feature, ("new",))[0]
            if result == "fail" and before != "fail":
                lines.append(f"fails now: {client} {feature}: {reason}")
            elif result != "fail" and before == "fail":
                lines.append(f"fails no more, record it with --write: {client} {feature}")
        return lines

    def put(self, client, version, found):
        self.found[client] = (version, found)

    def write(self, clients):
        """Writes results.tsv and README.md; clients that are gone are left out."""
        names = [client.name for client in clients if client.name in self.found]
        with open(self.folder / "results.tsv", "w") as out:
            for name in names:
                version, found = self.found[name]
                for feature, (result, reason) in found.items():
                    fields = [name, version, feature, result, reason.replace("\t", " ")]
                    out.write("\t".join(fields) + "\n")
        (self.folder / "README.md").write_text(self.render([c for c in clients if c.name in self.found]))

    def render(self, clients):
        lines = [HEAD, "## Results", ""]
        total = [result for client in clients for result, _ in self.found[client.name][1].values()]
        counted = {word: total.count(word) for word in MARKS}
        lines += [
            f"{len(clients)} clients; {counted['ok']} features passed, {counted['fail']} failed, "
            f"{counted['skip']} do not apply.", "",
            "| client | version | " + " | ".join(FEATURES) + " | others |",
            "|---|---|" + "---|" * len(FEATURES) + "---|",
        ]
        for client in clients:
            version, found = self.found[client.name]
            cells = [MARKS[found[name][0]] if name in found else "" for name in FEATURES]
            others = [result for name, (result, _) in found.items() if name not in FEATURES]
            passed = f"{others.count('ok')}/{len(others) - others.count('skip')}"
            anchor = re.sub(r"[^\w -]", "", client.title.lower()).replace(" ", "-")
            lines.append(f"| [{client.title}](#{anchor}) | {version} | " + " | ".join(cells) + f" | {passed} |")
        lines += ["", "| feature | means |", "|---|---|"]
        lines += [f"| {name} | {means} |" for name, means in FEATURES.items()]
        lines += ["| others | features of this client only; `server`: the gateway lives, and no statement panicked |", ""]
        for client in clients:
            lines += self.section(client)
        return "\n".join(lines).rstrip() + "\n"

    def section(self, client):
        """One client: what passed, and why the rest did not."""
        found = self.found[client.name][1]
        lines = [f"## {client.title}", ""]
        if client.note:
            lines += [client.note.strip(), ""]
        passed = [name for name, (result, _) in found.items() if result == "ok"]
        lines += ["Passed: " + (", ".join(passed) or "nothing") + ".", ""]
        rest = [(name, *told) for name, told in found.items() if told[0] != "ok"]
        if rest:
            lines += ["| feature | result | why |", "|---|---|---|"]
            words = {"fail": "failed", "skip": "not applicable"}
            lines += [f"| {name} | {words[result]} | {cell(reason)} |" for name, result, reason in rest]
            lines.append("")
        return lines


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
