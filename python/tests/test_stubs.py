"""Stubs match the compiled module, and the annotations of the package pass mypy."""

import ast
import inspect
import os
import pydoc
import subprocess
import sys
from pathlib import Path

import strobe
from strobe import _strobe

PACKAGE = Path(__file__).parents[1] / "strobe"
STUB = PACKAGE / "_strobe.pyi"


def mypy(*arguments):
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_name_what_there_is():
    mypy("mypy.stubtest", "strobe", "--ignore-missing-stub")


def test_the_package_has_the_types_that_it_says():
    mypy("mypy", "--strict", str(PACKAGE))


def documented(tree):
    """Yields classes, methods and functions of the stubs with the compiled ones. Protocols exist in the stubs only."""
    for node in tree.body:
        here = getattr(_strobe, getattr(node, "name", ""), None)
        if here is None:
            continue
        yield node, here
        for member in getattr(node, "body", []) if isinstance(node, ast.ClassDef) else []:
            if isinstance(member, ast.FunctionDef):
                yield member, getattr(here, member.name)


def with_docs(text):
    """Returns the stubs with the docstrings of the compiled module."""
    lines = text.splitlines()
    for node, here in sorted(documented(ast.parse(text)), key=lambda found: -found[0].lineno):
        doc = inspect.getdoc(here)
        if doc is None or node.name.startswith("_"):
            continue
        indent = " " * (node.col_offset + 4)
        quoted = [f'{indent}"""{doc}"""' if "\n" not in doc else f'{indent}"""{doc}\n"""']
        quoted = "\n".join(quoted).replace("\n", f"\n{indent}").replace(f"\n{indent}\n", "\n\n").splitlines()
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value.value, str):
            lines[first.lineno - 1 : first.end_lineno] = quoted
        else:
            # The body is `...`, on the line of the signature or on a separate line.
            assert first.value.value is ..., node.name
            head = lines[first.lineno - 1][: first.col_offset].rstrip()
            lines[first.lineno - 1 : first.end_lineno] = [head, *quoted] if head else quoted
    return "\n".join(lines) + "\n"


def test_the_stubs_have_the_documentation_of_the_compiled_part():
    """STROBE_BLESS=1 rewrites the stubs."""
    wanted = with_docs(STUB.read_text())
    if os.environ.get("STROBE_BLESS"):
        STUB.write_text(wanted)
    assert STUB.read_text() == wanted, "run this test with STROBE_BLESS=1"


def test_help_says_what_everything_is():
    missing = []
    for name in strobe.__all__:
        here = getattr(strobe, name)
        if isinstance(here, (int, str)):
            continue
        members = [(f"{name}.{member}", value) for member, value in vars(here).items()] if inspect.isclass(here) else []
        of_python = [part for part in members if part[0].split(".")[1][:1] != "_"]
        missing += [full for full, value in [(name, here), *of_python] if not inspect.getdoc(value)]
    assert not missing
    for of, parts in {
        strobe.Drive: ["A drive with its own clock", "Runs many commands", "queue_depth=1", "erase_count"],
        strobe.run: ["age_last_invalid", "placement"],
        strobe.presets: ["presets()", "Ready-made drives"],
    }.items():
        text = pydoc.plain(pydoc.render_doc(of))
        for part in parts:
            assert part in text, f"{part!r} is missing in help({of.__name__})"
