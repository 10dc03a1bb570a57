#!/usr/bin/env python3
"""Builds the Python package into a separate environment and runs its tests there, including notebooks.

    python.py                all tests except those that need a guest kernel
    python.py -m kernel      only those; arguments are passed to pytest

The environment is target/python; pip installs its packages. Without a network or python3-venv the tests are SKIPPED.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TARGET = os.path.abspath(os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target")))
ENVIRONMENT = os.path.join(TARGET, "python")
PYTHON = os.path.join(ENVIRONMENT, "bin", "python")
NEEDED = [
    "maturin>=1.9,<2", "numpy>=1.26", "pytest>=8", "mypy>=1.11", "pyarrow>=17", "distributed>=2025", "submitit>=1.5",
    "optuna>=4", "matplotlib>=3.9", "nbclient>=0.10", "ipykernel>=6", "pandas>=2.2",
]


def skip(reason):
    print(f"SKIPPED: the Python package: {reason}")
    print("test result: ok. 1 passed; 0 failed; 0 ignored")
    sys.exit(0)


def attempt(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if done.returncode == 0 else done.stdout.strip().splitlines()[-1:] or ["no reason given"]


def main():
    os.chdir(ROOT)
    if sys.version_info < (3, 11):
        skip("it needs Python 3.11 or newer")
    os.makedirs(TARGET, exist_ok=True)
    if not os.path.exists(PYTHON) and (why := attempt(sys.executable, "-m", "venv", ENVIRONMENT)):
        skip(f"no environment can be made (Debian: apt-get install python3-venv): {why[0]}")
    if why := attempt(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *NEEDED):
        skip(f"pip cannot install the packages of its tests: {why[0]}")
    environment = {**os.environ, "VIRTUAL_ENV": ENVIRONMENT, "CARGO_TARGET_DIR": TARGET}
    # The profile of the other tests, so that nothing is compiled twice.
    build = [PYTHON, "-m", "maturin", "develop", "--profile", "dev", "--quiet"]
    built = subprocess.run(build, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if built.returncode != 0:
        sys.exit(built.stdout)
    program = os.path.join(TARGET, "debug", "strobe")
    if os.path.exists(program):
        environment["STROBE"] = program
    environment["STROBE_NOTEBOOKS"] = os.path.join(TARGET, "notebooks")
    tests = [PYTHON, "-m", "pytest", "-q", "-rs", "-m", "not kernel", *sys.argv[1:]]
    done = subprocess.run(tests, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    counts = {what: int(count) for count, what in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)}
    passed, skipped = counts.get("passed", 0), counts.get("skipped", 0)
    failed = counts.get("failed", 0) + counts.get("error", 0)
    # test.py subtracts one passed test per skip reason, so they are added here.
    reasons = set(re.findall(r"^SKIPPED \[\d+\] \S+ (.*)", done.stdout, re.M))
    for reason in reasons:
        print(f"SKIPPED: {reason}")
    verdict = "ok" if done.returncode == 0 else "FAILED"
    print(f"test result: {verdict}. {passed + len(reasons)} passed; {failed} failed; {skipped - len(reasons)} ignored")
    sys.exit(done.returncode)


main()
