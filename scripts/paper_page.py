#!/usr/bin/env python3
"""Brings a page of docs/papers up to what a run has found: its table of claims, its tally and its figures.

    paper_page.py NAME DIR        DIR is what `strobe paper NAME --out DIR` has written

The sentence above the table, which says what kind of run it was, is a person's.
"""
import csv
import os
import re
import shutil
import sys

HEADING = "| figure | claim | paper | ours | verdict | counts as the same | why |\n|---|---|---|---|---|---|---|\n"


def number(text):
    """As the pages have numbers: whole ones, or two digits behind the point, or three in all."""
    value = float(text)
    if value == int(value):
        return f"{int(value)}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3g}"


def band(row):
    low, high = row["band_low"], row["band_high"]
    text = {
        (True, True): lambda: number(low) if low == high else f"{number(low)} to {number(high)}",
        (True, False): lambda: f"from {number(low)}",
        (False, True): lambda: f"up to {number(high)}",
        (False, False): lambda: "",
    }[bool(low), bool(high)]()
    was = f" (was {row['band_was']})" if row["band_was"] else ""
    return f"{text}{was}; {row['band_reason']}" if row["band_reason"] else text + was


def line(row):
    error = f" ± {number(row['error'])}" if row["error"] else ""
    ours = f"{number(row['measured'])}{error} {row['unit']}" if row["measured"] else f"– {row['unit']}"
    paper = number(row["paper"]) if row["paper"] else "–"
    cells = [row["place"], row["claim"], paper, ours, row["verdict"], band(row), row["why"]]
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |\n"


def tally(rows):
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in
              ("reproduced", "direction only", "missed", "by construction", "not run")}
    judged = sum(list(counts.values())[:3])
    said = [f"{count} {verdict}" for verdict, count in counts.items()]
    return f"{judged} claims: {', '.join(said[:3])}; not counted: {', '.join(said[3:])}."


def main():
    name, folder = sys.argv[1:]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "papers")
    page = os.path.join(root, f"{name}.md")
    with open(os.path.join(folder, f"{name}-claims.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    with open(page) as file:
        text = file.read()
    table = re.compile(re.escape(HEADING) + r"(\|.*\n)*")
    assert table.search(text), f"{page} has no table of claims"
    text = table.sub(lambda _: HEADING + "".join(map(line, rows)), text)
    text, found = re.subn(r"^\d+ claims: .*\.$", tally(rows), text, count=1, flags=re.M)
    assert found, f"{page} has no tally"
    with open(page, "w") as file:
        file.write(text)
    for figure in sorted(set(re.findall(r"\(figures/([^)]+\.svg)\)", text))):
        shutil.copyfile(os.path.join(folder, figure), os.path.join(root, "figures", figure))
    print(f"{page}: {tally(rows)}")


main()
