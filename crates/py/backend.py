"""PEP 517 backend of the Python package: maturin, with the program strobe and the notices of all libraries in the wheel.

`pip install .` builds with the profile `release`, `pip install . -C profile=dist` with whole-program optimisation.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import maturin
from maturin import build_editable, build_sdist, prepare_metadata_for_build_editable  # noqa: F401: parts of a backend

#: Folder that maturin puts into a wheel; maturin prescribes the name.
DATA = Path("strobe._strobe.data")
#: One of the `license-files` of pyproject.toml.
NOTICES = Path("THIRD-PARTY-NOTICES")


def run(*command, **more):
    done = subprocess.run(command, check=False, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    return done


def built(cargo, profile):
    """Builds the program, with the libraries of the module; returns its path."""
    packages = ["--package=strobe-cli", "--package=strobe-py", "--features=strobe-py/program", "--bin=strobe"]
    options = ["--locked", f"--profile={profile}", "--message-format=json-render-diagnostics"]
    messages = run(cargo, "build", *packages, *options, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    (program,) = filter(None, (json.loads(message).get("executable") for message in messages))
    return program


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    cargo = os.environ.get("CARGO", "cargo")
    if shutil.which(cargo) is None:
        raise SystemExit("cargo was not found: building Strobe needs Rust 1.90 or newer (https://rustup.rs)")
    profile = (config_settings or {}).get("profile", "release")
    shutil.rmtree(DATA, ignore_errors=True)
    try:
        run(sys.executable, "scripts/licences.py", "--out", str(NOTICES))
        (DATA / "scripts").mkdir(parents=True)
        shutil.copy(built(cargo, profile), DATA / "scripts" / "strobe")
        # Without a value, the option selects the lowest tag that the module fits: `manylinux_2_34`.
        arguments = f"--locked --profile={profile} --features=program --compatibility"
        return maturin.build_wheel(wheel_directory, {"build-args": arguments}, metadata_directory)
    finally:
        shutil.rmtree(DATA, ignore_errors=True)
        NOTICES.unlink(missing_ok=True)
