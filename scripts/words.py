#!/usr/bin/env python3
"""Counts the words of prose in user documentation, page by page.

    words.py                   a line for each page
    words.py --most N          only the total; exit code 1 if it exceeds N

Code blocks, pictures, link addresses, and tables on pages of papers do not count. Pages that `strobe schema` writes, the
findings of the lab (docs/lab), and pages for developers of Strobe are left out.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GENERATED = {"REFERENCE.md", "RESULT.md", "composition.md"}
FOR_DEVELOPERS = {"ARCHITECTURE.md", "FORMAT.md", "MECHANISMS.md", "MODEL.md", "TIME.md"}


def prose(text: str, has_tables: bool) -> str:
    """Returns the text without code blocks, comments, pictures and link addresses, and without tables if not `has_tables`."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    lines = [line for line in text.splitlines() if has_tables or not line.lstrip().startswith("|")]
    return "\n".join(lines)


def words(page: pathlib.Path) -> int:
    """Returns the number of words of prose in `page`; bare punctuation does not count."""
    text = prose(page.read_text(encoding="utf-8"), has_tables=page.parent.name != "papers")
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, metavar="N")
    most = parser.parse_args().most
    docs = ROOT / "docs"
    pages = [page for page in sorted(docs.rglob("*.md")) if page.relative_to(docs).parts[0] != "lab"]
    counted = {page: words(page) for page in pages if page.name not in GENERATED | FOR_DEVELOPERS}
    for page, count in [] if most else sorted(counted.items(), key=lambda found: -found[1]):
        print(f"{count:6,}  {page.relative_to(ROOT)}")
    total = sum(counted.values())
    print(f"{total:6,}  total")
    if most is not None and total > most:
        sys.exit(f"{total:,} words; at most {most:,} are allowed: cut what repeats")


main()
