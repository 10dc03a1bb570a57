"""Files that come with the package."""

from __future__ import annotations

from pathlib import Path

from ._result import nearest
from ._strobe import MissingFileError

#: Experiment files with recorded traces, and measurements of real drives.
_FOLDERS = ["examples", "measured"]


def example(name: str) -> Path:
    """Returns the path of a file that comes with the package: ``strobe.run(strobe.example("camera.toml"))``.

    There are experiment files (``quickstart.toml``), recorded traces (``vfat-camera.iolog.gz``), and latencies measured on
    real drives (``p5520.csv``). The error for an unknown name lists all files.
    """
    here = Path(__file__).parent
    found = {path.name: path for folder in _FOLDERS for path in sorted((here / folder).rglob("*.*"))}
    if name not in found:
        raise MissingFileError(f"there is no example {name!r}; the files are {', '.join(found)}{nearest(name, list(found))}")
    return found[name]
