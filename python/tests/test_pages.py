"""Pages that tell people what to type: it works, and shows what they say.

In a page, a block of TOML whose first line is "# NAME.toml" is a file of that name, the lines of a block of sh are typed
one after the other, and a block without a language is part of what they show, line by line in this order; "…" stands for
whatever comes between.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "tutorial",
    "how-to/fio",
    "how-to/placement",
    "how-to/power-cuts",
    "how-to/slow-request",
    "how-to/sweep",
    "how-to/traces",
    "how-to/warm-state",
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
#: What they show is what is said, though they end with an error.
REFUSED = ("gredy", "--from-state warm.state --set drive.ftl.gc.victim=fifo")


def words(text):
    return " ".join(text.split())


def found_in_order(lines, shown):
    at = 0
    for line in filter(lambda line: line != "…", lines):
        found = shown.find(words(line), at)
        assert found >= 0, f"not shown, or not there: {line}\n{shown}"
        at = found + 1


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_to_type_shows_what_it_says(page, tmp_path):
    program = os.environ.get("STROBE")
    if not program:
        pytest.skip("STROBE names no program")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "strobe").symlink_to(program)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "COLUMNS": "100"}
    shown, ran = "", 0
    for language, text in BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text()):
        if language == "toml" and (name := re.match(r"# (\S+\.toml)\n", text)):
            (tmp_path / name[1]).write_text(text)
        elif language == "sh":
            shown = ""
            for line in text.splitlines():
                done = subprocess.run(
                    ["sh", "-c", line], cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
                refused = any(part in line for part in REFUSED)
                assert (done.returncode != 0) == refused, f"{line}\n{done.stdout}"
                shown += words(done.stdout) + "\n"
                ran += 1
        elif not language:
            found_in_order(text.splitlines(), shown)
    assert ran
