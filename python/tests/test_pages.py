"""Commands on pages of the documentation: they succeed, and their output is the output on the page.

A TOML block with the first line "# NAME.toml" is written to that file. The lines of an sh block are run one by one. A
block without a language has lines of their output, in this order; "…" stands for omitted lines.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "tutorial",
    "how-to/attach",
    "how-to/fio",
    "how-to/placement",
    "how-to/power-cuts",
    "how-to/slow-request",
    "how-to/sweep",
    "how-to/traces",
    "how-to/warm-state",
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
#: Parts of commands that must fail; their output is compared as well.
REFUSED = ("gredy", "--from-state warm.state --set drive.ftl.gc.victim=fifo")


#: Programs that a page needs, with their packages.
NEEDED = {
    "how-to/attach": {
        "nbdcopy": "libnbd-bin",
        "nbdsh": "python3-libnbd",
        "qemu-io": "qemu-utils",
        "fio": "fio",
        "nbdkit": "nbdkit",
        "qemu-system-x86_64": "qemu-system-x86",
        "nvme": "nvme-cli",
    },
}

#: Sections of the page on databases: the required program, its package, and a part of the output.
DATABASES = {
    "PostgreSQL": ("pgbench", "postgresql", "number of failed transactions: 0 "),
    "MariaDB": ("mariadbd", "mariadb-server", "300"),
    "SQLite": ("sqlite3", "sqlite3", "300"),
    "RocksDB": ("db_bench", "rocksdb-tools", "overwrite"),
    "LMDB": ("mdb_load", "lmdb-utils", "Entries: 2000"),
    "When the power fails": ("sqlite3", "sqlite3", "6 fine, 0 lost, 0 corrupt, 0 do not mount"),
}


def words(text):
    return " ".join(text.split())


def found_in_order(lines, shown):
    at = 0
    for line in filter(lambda line: line != "…", lines):
        found = shown.find(words(line), at)
        assert found >= 0, f"missing in the output, or out of order: {line}\n{shown}"
        at = found + 1


def environment_in(folder):
    """Returns the environment of a shell that finds the tested program as `strobe`."""
    program = os.environ.get("STROBE")
    if not program:
        pytest.skip("STROBE names no program")
    (folder / "bin").mkdir()
    (folder / "bin" / "strobe").symlink_to(program)
    # Pages assume that the folder is a checkout.
    (folder / "scripts").symlink_to(ROOT / "scripts")
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "COLUMNS": "100"}


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_to_type_shows_what_it_says(page, tmp_path):
    environment = environment_in(tmp_path)
    missing = [package for program, package in NEEDED.get(page, {}).items() if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: apt-get install {' '.join(missing)}")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
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


@pytest.mark.parametrize(("scheduler", "package"), [("dask", "distributed"), ("slurm", "submitit")])
def test_a_sweep_runs_on_a_cluster_as_the_page_says(scheduler, package, tmp_path):
    pytest.importorskip(package)
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / "cluster.md").read_text())
    (sweep,) = [text for language, text in blocks if language == "toml"]
    few = re.sub(r'"(drive.ftl.over_provisioning|workload.write_fraction)" = \[([^,]*), ([^,]*),.*\]', r'"\1" = [\2, \3]', sweep)
    assert few.count("\n") == sweep.count("\n") and len(few) < len(sweep)
    (tmp_path / "op.toml").write_text(few.replace("seeds = 5", "seeds = 1").replace(', "cost-benefit", "random"', ""))
    (code,) = [text for language, text in blocks if language == "python" and text.startswith(f"# {scheduler}\n")]
    script = tmp_path / "cluster.py"
    script.write_text(code)
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True)
    assert pyarrow.parquet.read_table(tmp_path / "op-sweep" / "rows.parquet").num_rows == 8


def python_page(on_linux):
    """Returns the examples of the Python page, in order: those of programs on Linux, or all others."""
    text = (ROOT / "docs" / "python.md").read_text()
    before, linux = text.split("\n## Programs on Linux\n")
    return [code for language, code in BLOCK.findall(linux if on_linux else before) if language == "python"]


def typed(script, folder, **more):
    """Runs a Python script in an empty folder; returns its output."""
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_examples_of_the_python_page_run(tmp_path):
    examples = python_page(on_linux=False)
    assert len(examples) == 5
    shown = typed("\n".join(examples), tmp_path).splitlines()
    # WAF of two victim policies, of the replay, the sweep's points, the best key, WAF of own policies, and of a drive.
    greedy, fifo = float(shown[0].split()[0]), float(shown[1])
    assert 1 < greedy < fifo
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF-")
    assert float(shown[2]) > 1
    assert [point.count("mean") for point in shown[3:5]] == [1, 1]
    assert "drive.ftl.over_provisioning" in shown[5]
    assert float(shown[6]) > 1 and float(shown[7].split()[0]) > 1
    assert len(shown) == 8


@pytest.mark.kernel
def test_the_examples_of_the_python_page_run_on_a_kernel(tmp_path):
    environment = environment_in(tmp_path)
    (example,) = python_page(on_linux=True)
    copied, *cuts = typed("import strobe\n" + example, tmp_path, env=environment).splitlines()
    assert copied.startswith("0 ") and float(copied.split()[1]) >= 1
    assert 0 < len(cuts) < 8 and all(" lost " in cut for cut in cuts)


def databases():
    """Returns the sections of the page on databases, with their code blocks."""
    text = (ROOT / "docs" / "how-to" / "databases.md").read_text()
    sections = [section.partition("\n") for section in re.split(r"^## ", text, flags=re.M)[1:]]
    return {title: BLOCK.findall(body) for title, _, body in sections}


def test_every_database_of_the_page_is_typed():
    found = databases()
    assert list(found) == list(DATABASES)
    for title, blocks in found.items():
        (script,) = [text for language, text in blocks if language == "sh"]
        assert len(script.splitlines()) <= 20 and re.search(r"^strobe (linux|crash) ", script, re.M), title


@pytest.mark.kernel
@pytest.mark.parametrize("title", DATABASES)
def test_a_database_does_on_the_drive_what_the_page_says(title, tmp_path):
    program, package, told = DATABASES[title]
    folders = [os.environ["PATH"], "/usr/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    if shutil.which(program, path=":".join(folders)) is None:
        pytest.skip(f"{program} is not installed: apt-get install {package}")
    (script,) = [text for language, text in databases()[title] if language == "sh"]
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=tmp_path, env=environment_in(tmp_path), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    assert told in done.stdout, done.stdout
    assert "WAF" in done.stdout or (tmp_path / "cuts.html").stat().st_size > 1000, done.stdout
