#!/usr/bin/env python3
"""Updates a page of docs/papers from a run: the table of claims, the tally, the paper's sentences and the figures. The
result is written next to the page (NAME.json, without figures of more than 600 rows).

    paper_page.py NAME DIR        DIR is the output of `strobe paper NAME --out DIR`
    paper_page.py NAME            only the tally and the sentences, from the table on the page

The sentence above the table, which describes the run, is written by hand.
"""
import csv
import json
import os
import re
import shutil
import sys
import tomllib

SENTENCES = "| claims | section | sentence | translation |\n|---|---|---|---|\n"
ROWS_MAX = 600
HEADING = "| figure | claim | paper | ours | verdict | accepted band | reason |\n|---|---|---|---|---|---|---|\n"


def number(text):
    """Formats a number: an integer, else two decimals from 0.1 on, three significant digits below."""
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
    """Returns the counts of verdicts as a table: claims with a number of the paper, and claims of a direction."""
    verdicts = ("reproduced", "direction only", "missed")
    text = f"| | {' | '.join(verdicts)} |\n|---|---|---|---|\n"
    for name, are_numbers in (("numbers", True), ("directions", False)):
        counts = [sum(row["verdict"] == verdict and bool(row["paper"]) == are_numbers for row in rows)
                  for verdict in verdicts]
        text += f"| {sum(counts)} {name} | {' | '.join(map(str, counts))} |\n"
    apart = [f"{sum(row['verdict'] == verdict for row in rows)} {verdict}" for verdict in ("by construction", "not run")]
    return f"{text}\nNot counted: {', '.join(apart)}."


def sentences(name):
    """Returns the sentences of the paper with the claims based on them, in the order of the claims."""
    with open(os.path.join(ROOT, "crates", "papers", "src", name.replace("-", "_"), "claims.toml"), "rb") as file:
        claims = tomllib.load(file)["claim"]
    by_quote = {}
    for claim in claims:
        if quote := claim.get("quote"):
            key = (quote["section"], quote["original"], quote["translation"])
            by_quote.setdefault(key, []).append(f"{claim['place']}: {claim['claim']}")
    lines = ["; ".join(of).replace("|", "/") + " | " + " | ".join(quote) for quote, of in by_quote.items()]
    return SENTENCES + "".join(f"| {line} |\n" for line in lines) if lines else ""


def own_rows(text):
    """Returns the paper's number and the verdict of each row of the page's table."""
    table = text.split(HEADING)[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    return [{"paper": "" if of[2] == "–" else of[2], "verdict": of[4]} for of in cells]


def keep_result(name, folder):
    with open(os.path.join(folder, f"{name}.json")) as file:
        result = json.load(file)
    result["figures"] = [figure for figure in result["figures"] if len(figure["rows"]) <= ROWS_MAX]
    with open(os.path.join(PAGES, f"{name}.json"), "w") as file:
        json.dump(result, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGES = os.path.join(ROOT, "docs", "papers")


def main():
    name, *folder = sys.argv[1:]
    page = os.path.join(PAGES, f"{name}.md")
    with open(page) as file:
        text = file.read()
    assert HEADING in text, f"{page} has no table of claims"
    if folder:
        with open(os.path.join(folder[0], f"{name}-claims.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        table = re.compile(re.escape(HEADING) + r"(\|.*\n)*")
        text = table.sub(lambda _: HEADING + "".join(map(line, rows)), text)
        keep_result(name, folder[0])
    else:
        rows = own_rows(text)
    before = r"^\d+ claims: .*\.$|^\| \| reproduced \|.*\n(\|.*\n)*\nNot counted: .*\.$"
    text, found = re.subn(before, lambda _: tally(rows), text, count=1, flags=re.M)
    assert found, f"{page} has no tally"
    text = re.sub(re.escape(SENTENCES) + r"(\|.*\n)*", "", text).rstrip() + "\n"
    if said := sentences(name):
        heading = "\n## The paper's sentences\n"
        text = text.removesuffix(heading).rstrip() + "\n" + heading + "\n" + said
    with open(page, "w") as file:
        file.write(text)
    for figure in sorted(set(re.findall(r"\(figures/([^)]+\.svg)\)", text))) if folder else []:
        shutil.copyfile(os.path.join(folder[0], figure), os.path.join(PAGES, "figures", figure))
    print(f"{page}: {tally(rows)}")


main()
