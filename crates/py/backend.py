"""PEP 517 backend of the Python package: maturin, with the program strobe and the notices of all libraries in the wheel.

`pip install .` builds with the profile `release`, `pip install . -C profile=dist` with whole-program optimisation.
"""

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


def run(*command):
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    cargo = os.environ.get("CARGO", "cargo")
    if shutil.which(cargo) is None:
        raise SystemExit("cargo was not found: building Strobe needs Rust 1.90 or newer (https://rustup.rs)")
    profile = (config_settings or {}).get("profile", "release")
    shutil.rmtree(DATA, ignore_errors=True)
    try:
        run(sys.executable, "scripts/licences.py", "--out", str(NOTICES))
        # `cargo install` puts the program into DATA wherever cargo is configured to build.
        run(cargo, "install", "--path=crates/cli", "--locked", "--no-track", f"--profile={profile}", f"--root={DATA}")
        (DATA / "bin").rename(DATA / "scripts")
        return maturin.build_wheel(wheel_directory, {"build-args": f"--locked --profile={profile}"}, metadata_directory)
    finally:
        shutil.rmtree(DATA, ignore_errors=True)
        NOTICES.unlink(missing_ok=True)
