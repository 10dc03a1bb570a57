"""Notebooks run from the first cell to the last, and are stored without output.

After its last cell each notebook runs `notebooks/NAME.py` of this folder, which asserts the claims of its text. If
STROBE_NOTEBOOKS is set, notebooks with their output are written to that folder, for the documentation site.

Notebooks run in an empty folder: they need the package, but no clone.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import nbclient
import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
CHECKS = Path(__file__).parent / "notebooks"
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))
#: Notebook that runs guests.
ON_A_KERNEL = "08-a-database-on-linux.ipynb"


def run(name, folder):
    notebook = nbformat.read(FOLDER / name, 4)
    check = (CHECKS / name).with_suffix(".py").read_text()
    assert "assert" in check
    notebook.cells.append(nbformat.v4.new_code_cell(check))
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute()
    notebook.cells.pop()
    if kept := os.environ.get("STROBE_NOTEBOOKS"):
        Path(kept).mkdir(parents=True, exist_ok=True)
        # Execution times of cells differ from run to run.
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        half = Path(kept) / f"{name}.half"
        nbformat.write(notebook, half)
        # The rename is atomic: a concurrent reader gets a complete file.
        half.replace(Path(kept) / name)


@pytest.mark.parametrize("name", [name for name in NAMES if name != ON_A_KERNEL])
def test_a_notebook_runs(name, tmp_path):
    run(name, tmp_path)


@pytest.mark.kernel
def test_a_notebook_runs_on_a_kernel(tmp_path):
    strobe = os.environ.get("STROBE")
    if not strobe:
        pytest.skip("STROBE names no program")
    doctor = subprocess.run([strobe, "linux", "doctor"], stdout=subprocess.PIPE, text=True)
    if "ok  kernel" not in doctor.stdout:
        pytest.skip("there is no kernel for guests: make kernel")
    if not shutil.which("sqlite3"):
        pytest.skip("sqlite3 is not installed: install the package sqlite3")
    run(ON_A_KERNEL, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_kept_without_what_it_prints(name):
    notebook = nbformat.read(FOLDER / name, 4)
    nbformat.validate(notebook)
    cure = f"jupyter nbconvert --clear-output --inplace notebooks/{name}"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, cure
        assert "assert " not in cell.source, "assertions belong in python/tests/notebooks"
        assert "](.." not in cell.source, "a link needs a clone: name the page, for example `docs/tutorial.md`"
    # Jupyter adds a Python version, which differs between machines.
    assert notebook.metadata.get("language_info", {"name": "python"}) == {"name": "python"}, f"language_info: {cure}"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_says_how_long_it_takes_and_what_is_seen(name):
    texts = [cell.source for cell in nbformat.read(FOLDER / name, 4).cells if cell.cell_type == "markdown"]
    assert texts[0].startswith("# ") and re.search(r"\*Run time: \d+ seconds\*|\*Run time: \d+ seconds\.\*", texts[0])
    assert any("**Result.**" in text for text in texts)
