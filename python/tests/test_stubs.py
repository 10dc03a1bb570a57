"""What is said in the stubs is what there is, and the package itself has the types that it says."""

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "strobe"


def mypy(*arguments):
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_name_what_there_is():
    mypy("mypy.stubtest", "strobe", "--ignore-missing-stub")


def test_the_package_has_the_types_that_it_says():
    mypy("mypy", "--strict", str(PACKAGE))
