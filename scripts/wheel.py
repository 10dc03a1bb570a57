#!/usr/bin/env python3
"""Builds a wheel of the Python package, with the program strobe, into target/wheels, for Python 3.11 and later.

    wheel.py                     fully optimised
    wheel.py --profile dev       with the build of the tests: quick to build, slow to run
    wheel.py --check             also tries the wheel in a new environment without Rust

The wheel has no guest kernel: `strobe linux build-kernel` builds one. pip installs maturin.
"""
import argparse
import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TARGET = os.path.abspath(os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target")))
ENVIRONMENT = os.path.join(TARGET, "python")
#: First steps of a user: a run, a figure, and a guest without a kernel, which is refused.
TRIAL = """
import os, strobe, sys
result = strobe.run({"drive": {"nand": {"blocks_per_plane": 64}}, "run": {"measure": "1x", "timing": False}}, xray=5)
assert result["waf"] >= 1 and "<iframe" in result._repr_html_()
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
    """Builds the wheel without the program, and the program; returns both paths."""
    python = os.path.join(ENVIRONMENT, "bin", "python")
    if not os.path.exists(python):
        run(sys.executable, "-m", "venv", ENVIRONMENT)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "maturin>=1.9,<2")
    cargo = os.environ.get("CARGO", "cargo")
    run(cargo, "build", "--quiet", "--locked", "--package=strobe-cli", "--bin=strobe", f"--profile={profile}")
    folder = os.path.join(TARGET, "wheels", "package")
    environment = {**os.environ, "VIRTUAL_ENV": ENVIRONMENT, "CARGO_TARGET_DIR": TARGET}
    build = ["-m", "maturin", "build", "--quiet", "--locked", "--profile", profile, "--out", folder]
    for old in os.listdir(folder) if os.path.isdir(folder) else []:
        os.remove(os.path.join(folder, old))
    run(python, *build, env=environment)
    (wheel,) = os.listdir(folder)
    return os.path.join(folder, wheel), os.path.join(TARGET, "debug" if profile == "dev" else profile, "strobe")


def with_program(wheel, program):
    """Writes a wheel that also installs `program` next to the interpreter; returns its path."""
    target = os.path.join(TARGET, "wheels", os.path.basename(wheel))
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        (record,) = (name for name in old.namelist() if name.endswith(".dist-info/RECORD"))
        for entry in old.infolist():
            if entry.filename != record:
                new.writestr(entry, old.read(entry))
        name = record.replace(".dist-info/RECORD", ".data/scripts/strobe")
        entry = zipfile.ZipInfo(name)
        entry.external_attr = 0o100755 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        with open(program, "rb") as file:
            content = file.read()
        new.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        new.writestr(record, f"{name},sha256={digest},{len(content)}\n{old.read(record).decode()}")
    return target


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
    wheel = with_program(*built(given.profile))
    if given.check:
        check(wheel)
    print(f"{wheel}: {os.path.getsize(wheel) / 1e6:.1f} MB")


main()
