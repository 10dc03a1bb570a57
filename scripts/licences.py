#!/usr/bin/env python3
"""Licences of the libraries in the strobe program and the Python package.

    licences.py --check      fails if a library has a licence that is not allowed
    licences.py --out FILE   writes the notices of all libraries, with the texts of their licences

Advisories are not checked here: `cargo deny check advisories` or `cargo audit` does that, with a network.
"""
import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Permissive licences, which ask for a notice only.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-1-Clause", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0",
    "CC0-1.0", "CDLA-Permissive-2.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib",
}
TEXTS = re.compile(r"^(licen[cs]e|copying|notice|unlicense|copyright)", re.I)


def libraries():
    """Returns the packages that the programs are linked with, by name, except those of Strobe."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version=1", "--locked"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"licences.py: cargo metadata ended with {done.returncode}")
    metadata = json.loads(done.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    reached, left = set(), [p["id"] for p in packages.values() if p["name"] in ("strobe-cli", "strobe-py")]
    while left:
        package = left.pop()
        if package not in reached:
            reached.add(package)
            # Tests and build scripts are not part of a program.
            linked = (dep for dep in nodes[package]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"]))
            left.extend(dep["pkg"] for dep in linked)
    found = (packages[package] for package in reached if packages[package]["source"])
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def is_allowed(expression):
    """Returns whether an SPDX expression, of AND, OR and parentheses, can be met with the allowed licences."""
    tokens = re.findall(r"\(|\)|[^\s()]+(?: WITH [^\s()]+)?", expression.replace("/", " OR "))

    def either(at):
        value, at = both(at)
        while at < len(tokens) and tokens[at] == "OR":
            other, at = both(at + 1)
            value = value or other
        return value, at

    def both(at):
        value, at = one(at)
        while at < len(tokens) and tokens[at] == "AND":
            other, at = one(at + 1)
            value = value and other
        return value, at

    def one(at):
        if tokens[at] == "(":
            value, at = either(at + 1)
            return value, at + 1
        return tokens[at] in ALLOWED, at + 1

    return bool(tokens) and either(0)[0]


def check():
    refused = [
        f"{package['name']} {package['version']}: {package['license'] or 'no licence'}"
        for package in libraries()
        if not is_allowed(package["license"] or "")
    ]
    if refused:
        sys.exit("licences.py: not among the allowed licences (ALLOWED):\n  " + "\n  ".join(refused))


def notices():
    """Yields the notice of each library; a text that several share comes once."""
    yield "Strobe is built with these libraries. Their licences follow.\n"
    shown = {}
    for package in libraries():
        folder = Path(package["manifest_path"]).parent
        yield f"\n{'=' * 80}\n{package['name']} {package['version']}: {package['license']}\n"
        if package["authors"]:
            yield f"{', '.join(package['authors'])}\n"
        if not any(path.is_file() and TEXTS.match(path.name) for path in folder.iterdir()):
            yield f"\nThe package has no copy of its licence; its source is at {package['repository']}.\n"
        texts = sorted(path for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name))
        for path in texts:
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            first = shown.setdefault(" ".join(text.split()), package["name"])
            yield f"\n--- {path.name}\n\n{text}\n" if first == package["name"] else f"\n--- {path.name}: as of {first}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true")
    action.add_argument("--out", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.check:
        check()
    else:
        arguments.out.write_text("".join(notices()), encoding="utf-8")


if __name__ == "__main__":
    main()
