"""Checks versions, licences and sources of all dependencies against deny.toml.

The part of cargo-deny that needs no network and no build of a further program: what
it denies by version, which licences it allows, and that everything is from the
registry. Advisories that are published later are for `make advisories`.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def number(version):
    """The numbers of a version; what follows a hyphen or a plus does not count."""
    return tuple(int(part) for part in re.split(r"[-+]", version)[0].split("."))


def denied(rules, name, version):
    """Why a version is denied, or None."""
    for rule in rules:
        wanted, _, below = rule["crate"].partition(":<")
        if wanted == name and (not below or number(version) < number(below)):
            return rule["reason"]
    return None


def allowed(expression, licences):
    """Whether an SPDX expression can be met with these licences."""
    # `/` is how old crates write OR.
    words = re.findall(r"\(|\)|[^\s()/]+(?:\s+WITH\s+[^\s()/]+)?", expression.replace("/", " OR "))

    def term(at):
        if words[at] == "(":
            value, at = either(at + 1)
            return value, at + 1
        return re.sub(r"\s+", " ", words[at]) in licences, at + 1

    def both(at):
        value, at = term(at)
        while at < len(words) and words[at] == "AND":
            other, at = term(at + 1)
            value = value and other
        return value, at

    def either(at):
        value, at = both(at)
        while at < len(words) and words[at] == "OR":
            other, at = both(at + 1)
            value = value or other
        return value, at

    value, at = either(0)
    # What was not read to its end was not understood.
    return value and at == len(words)


def test_itself():
    """A check that lets everything through is worse than none."""
    rules = [{"crate": "a:<1.10.0", "reason": "old"}, {"crate": "b", "reason": "never"}]
    assert denied(rules, "a", "1.9.9") == "old" and denied(rules, "a", "1.10.0-rc.1") is None
    assert denied(rules, "b", "9.0.0") == "never" and denied(rules, "c", "0.1.0") is None
    some = {"MIT", "Apache-2.0 WITH LLVM-exception"}
    assert allowed("MIT", some) and allowed("GPL-3.0 OR MIT", some) and allowed("GPL-3.0/MIT", some)
    assert allowed("(GPL-3.0 OR MIT) AND Apache-2.0 WITH LLVM-exception", some)
    assert not allowed("GPL-3.0", some) and not allowed("MIT AND GPL-3.0", some)
    assert not allowed("MIT and GPL-3.0", some) and not allowed("MIT)", some)
    assert not allowed("Apache-2.0", some) and not allowed("GPL-3.0 AND MIT OR GPL-3.0", some)


def main():
    test_itself()
    policy = tomllib.loads((ROOT / "deny.toml").read_text())
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    # What is in the cache is enough; a fresh machine has to fetch first.
    answer = subprocess.run([*command, "--offline"], cwd=ROOT, capture_output=True, text=True)
    if answer.returncode:
        answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    packages = json.loads(answer.stdout)["packages"]
    rules = policy["bans"]["deny"]
    licences = set(policy["licenses"]["allow"])
    exceptions = {one["crate"]: set(one["allow"]) for one in policy["licenses"]["exceptions"]}
    problems = []
    for package in packages:
        name, version = package["name"], package["version"]
        if reason := denied(rules, name, version):
            problems.append(f"{name} {version} is denied: {reason}")
        expression = package["license"]
        if not expression or not allowed(expression, licences | exceptions.get(name, set())):
            problems.append(f"{name} {version} has the licence {expression}, which deny.toml does not allow")
        if package["source"] not in (None, REGISTRY):
            problems.append(f"{name} {version} comes from {package['source']}")
    names = {package["name"] for package in packages}
    problems += [f"deny.toml has an exception for {name}, which is not used" for name in exceptions if name not in names]
    print("\n".join(problems) or f"{len(packages)} dependencies are as deny.toml wants them")
    sys.exit(bool(problems))


main()
