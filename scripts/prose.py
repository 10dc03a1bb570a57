#!/usr/bin/env python3
"""Counts hard constructions and long sentences in documentation: Markdown, and doc comments of Rust.

    prose.py                   counts of both
    prose.py --show [PATH]     each hit, with its line and a cure
    prose.py --check           exit code 1 if a limit is exceeded

A hard construction makes a reader take the sentence apart: a clause in place of a noun, a pronoun without a subject, a
private word for a term of the field. Code is left out. So are the pages that `strobe schema` writes: their text comes
from doc comments. The limits only fall: lower them when the counts have fallen.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GENERATED = {"docs/REFERENCE.md", "docs/RESULT.md"}
LONG_SENTENCE = 25

# Hits per 1,000 words, and percent of sentences above LONG_SENTENCE words.
LIMITS = {"Markdown": (2.0, 7.0), "doc comments": (1.5, 1.0)}

VERB = "is|was|are|were|has|had|happens|follows|comes|goes|counts|waits|can|must"
HARD = {
    rf"\bwhat (?:{VERB}|it|they|he|a|the|that|this|one|you|each|some)\b": "name the thing",
    r"(?:^|[.:;!?] |, and )(?:who|whoever|whatever|nobody|somebody|those (?:who|that|of)|that of)\b": "name the subject",
    r"\b(?:that|those) of\b": "repeat the noun",
    r"\bof (?:its|their|one's) own\b": "own, separate",
    r"\b(?:so|as) many(?: \w+)? (?:as|that|of)\b|\bin the measure\b": "give the number or the proportion",
    r"\b(?:so|as) long as\b": "while, if",
    r"\bthere (?:is|are) (?:one|none|some|no)(?=[.,;:])|\bit is there\b|\bif there is one\b": "if any; without",
    r"\b(?:of|for|from|to|with|by|at|in|on|after) which\b": "two sentences",
    r"\bbesides?\b": "next to, compared with, in addition",
    r"\bat hand\b|\bmeanwhile\b|\bthereby\b|\bhence\b|\bhenceforth\b|\banew\b|\blikewise\b": "leave it out, or: again",
    r"\bby far\b|\bin the midst\b|\bfor nothing\b|\bat a time\b": "during; without effect; each",
    r"\bwitness": "oracle",
    r"\bpatience\b": "deadline",
    r"\bearned\b": "credited",
    r"\broom for\b": "space for, capacity for",
    r"\b(?:goes|went) (?:on|to|back|out|in|into|through|ahead|by)\b": "continues, returns, passes",
}
PATTERN = re.compile("|".join(f"({pattern})" for pattern in HARD), re.I | re.M)
CURES = list(HARD.values())


def without_code(text: str) -> str:
    """Returns Markdown without code blocks, code and link addresses; lines keep their numbers."""
    text = re.sub(r"^ *```.*?^ *```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*`", "X", text)
    return re.sub(r"\]\([^)\s]*\)", "]", text)


def doc_comments(source: str) -> str:
    """Returns the doc comments of a Rust file; all other lines are empty."""
    found = (re.match(r"\s*//[/!] ?(.*)", line) for line in source.split("\n"))
    return without_code("\n".join(line[1] if line else "" for line in found))


def texts(kind: str) -> dict[str, str]:
    """Returns the checked texts by path."""
    pattern, read = ("*.md", without_code) if kind == "Markdown" else ("*.rs", doc_comments)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()
    paths = [path for path in listed if path not in GENERATED and (ROOT / path).is_file()]
    return {path: read((ROOT / path).read_text(encoding="utf-8")) for path in paths}


def words(text: str) -> int:
    return len(re.findall(r"[A-Za-z']+", text))


def sentences(text: str) -> list[int]:
    """Returns the number of words of each sentence; fragments of up to three words are left out."""
    parts = re.split(r"(?<=[.!?])\s+|\n\s*\n|\n[-*|#]", text)
    return [count for count in map(words, parts) if count > 3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", nargs="?", const="", metavar="PATH")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    exceeded = False
    for kind, (hard_most, long_most) in LIMITS.items():
        judged = texts(kind)
        hits = [(path, text, hit) for path, text in judged.items() for hit in PATTERN.finditer(text)]
        for path, text, hit in hits:
            if arguments.show is not None and path.startswith(arguments.show):
                line = text.count("\n", 0, hit.start()) + 1
                print(f"{path}:{line}: \"{' '.join(hit[0].split())}\": {CURES[hit.lastindex - 1]}")
        total = sum(map(words, judged.values()))
        lengths = [length for text in judged.values() for length in sentences(text)]
        hard = 1000 * len(hits) / total
        long = 100 * sum(length > LONG_SENTENCE for length in lengths) / len(lengths)
        print(
            f"{kind}: {total:,} words, {hard:.1f} hard constructions per 1,000 (limit {hard_most}), "
            f"{long:.1f} % of the sentences above {LONG_SENTENCE} words (limit {long_most})"
        )
        exceeded |= hard > hard_most or long > long_most
    if arguments.check and exceeded:
        sys.exit("A limit is exceeded: `python3 scripts/prose.py --show` lists each hit with a cure.")


main()
