#!/usr/bin/env python3
"""Builds a wheel of the Python package, with the program strobe, into target/wheels, for Python 3.11 and later.

    wheel.py                     fully optimised
    wheel.py --profile dev       with the build of the tests: quick to build, slow to run
    wheel.py --check             also tries the wheel in a new environment without Rust

The wheel has no guest kernel: `strobe linux build-kernel` builds one.
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TARGET = os.path.abspath(os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target")))
ENVIRONMENT = os.path.join(TARGET, "python")
WHEELS = os.path.join(TARGET, "wheels")
#: First steps of a user: a run, an example, a figure, and a guest without a kernel, which is refused.
TRIAL = """
import importlib.metadata, os, strobe, sys
result = strobe.run({"drive": {"nand": {"blocks_per_plane": 64}}, "run": {"measure": "1x", "timing": False}}, xray=5)
assert result["waf"] >= 1 and "<iframe" in result._repr_html_()
camera = strobe.run(strobe.example("camera.toml"))
assert camera["jobs"][0]["write"]["total_ios"] and strobe.example("p5520.csv").exists()
files = [str(path) for path in importlib.metadata.files("strobe")]
for licence in ["LICENSE-MIT", "COPYING", "THIRD-PARTY-NOTICES"]:
    assert any(path.endswith(licence) for path in files), licence
result.plot(width_mm=85).save("figure.pdf")
assert open("figure.pdf", "rb").read(5) == b"%PDF-"
assert strobe._guest._program() == os.path.join(sys.prefix, "bin", "strobe")
try:
    strobe.linux("true", kernel="nothere")
except FileNotFoundError as error:
    assert "nothere" in str(error), error
else:
    raise SystemExit("a kernel that is not there is used")
print("WAF", result["waf"], "and a figure,", strobe.__version__)
"""


def run(*command, **more):
    done = subprocess.run(command, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"wheel.py: {' '.join(command)} ended with {done.returncode}")
    return done


def built(profile):
    """Builds the wheel as `pip install .` does (crates/py/backend.py); returns its path."""
    python = os.path.join(ENVIRONMENT, "bin", "python")
    if not os.path.exists(python):
        run(sys.executable, "-m", "venv", ENVIRONMENT)
    for old in glob.glob(os.path.join(WHEELS, "*.whl")):
        os.remove(old)
    pip = [python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--no-deps", f"--wheel-dir={WHEELS}", f"--config-settings=profile={profile}", ROOT)
    (wheel,) = glob.glob(os.path.join(WHEELS, "*.whl"))
    return wheel


def check(wheel):
    """Installs the wheel in an environment without Rust, and runs TRIAL there."""
    with tempfile.TemporaryDirectory(prefix="strobe-wheel-") as folder:
        run(sys.executable, "-m", "venv", os.path.join(folder, "new"))
        programs = os.path.join(folder, "new", "bin")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("STROBE", "PYTHON", "CARGO"))}
        environment["PATH"] = f"{programs}:/usr/bin:/bin"
        python = os.path.join(programs, "python")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, env=environment)
        run(python, "-c", TRIAL, env=environment, cwd=folder)
        run(os.path.join(programs, "strobe"), "--version", env=environment)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--profile", default="dist")
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    os.chdir(ROOT)
    wheel = built(given.profile)
    if given.check:
        check(wheel)
    print(f"{wheel}: {os.path.getsize(wheel) / 1e6:.1f} MB")


main()
