"""Drives and experiments of Strobe, a software SSD, from Python.

    import strobe

    result = strobe.run({"workload": {"kind": "zipf"}, "run": {"warmup": "3x"}})
    print(result["waf"])

    drive = strobe.Drive("generic-8g", timing=False)
    drive.run("write", lba=array_of_sectors, sectors=8)
    print(drive.waf, drive.stats()["gc"])

    found = strobe.sweep({}, {"drive.ftl.over_provisioning": [0.1, 0.2]}, seeds=5, out="op")
    print(found.configurations[0]["measures"]["waf"])

``Experiment`` is a validated experiment file. ``run`` runs an experiment, ``replay`` a trace, ``sweep`` many runs on any
executor. ``linux`` runs a program on a real kernel with the drive, ``crash`` cuts its power. ``example`` finds a file that
comes with the package. ``Drive`` is a single drive for
single commands or many. NumPy and Arrow arrays are accepted and returned without a copy. Long calls release the interpreter
lock and end with Ctrl-C. Equal configurations and seeds give the same bytes as the command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from . import _strobe
from ._strobe import (
    FLUSH,
    READ,
    TRIM,
    WRITE,
    BuildError,
    CommandError,
    ConfigError,
    Drive,
    Experiment,
    MissingFileError,
    RunError,
    StateError,
    StrobeError,
    SweepError,
    Table,
    __version__,
    mappings,
    policies,
    presets,
)
from ._examples import example
from ._guest import CrashResult, LinuxResult, crash, linux
from ._result import Figure, Result
from ._sweep import Executor, RayExecutor, Sweep, search, sweep

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "FLUSH",
    "READ",
    "TRIM",
    "WRITE",
    "BuildError",
    "CommandError",
    "ConfigError",
    "CrashResult",
    "Drive",
    "Executor",
    "Experiment",
    "Figure",
    "LinuxResult",
    "MissingFileError",
    "Placement",
    "RayExecutor",
    "Result",
    "RunError",
    "StateError",
    "StrobeError",
    "Sweep",
    "SweepError",
    "Table",
    "__version__",
    "crash",
    "example",
    "linux",
    "mappings",
    "policies",
    "preset",
    "presets",
    "replay",
    "run",
    "search",
    "sweep",
    "with_keys",
]

Path = str | os.PathLike[str]
Progress = Callable[[str, int, int | None, int], object]
Victim = Callable[[Table], object]


class Placement(Protocol):
    """Chooses the streams of units; each stream has a separate open block.

    The methods are called before each batch of host writes and before each block is emptied. The size of a batch depends
    on the run. They return an array or list with one stream per unit.

    The optional attribute ``streams`` is the number of streams that host writes and relocated units share, or a pair: the
    numbers of streams of host writes and of relocated units. The default is ``drive.ftl.placement.streams``. In the pair the
    streams of relocated units follow the streams of host writes. The optional method ``on_collect(block)`` is called after
    each block has been emptied.
    """

    def on_write(self, units: npt.NDArray[np.uint32]) -> object:
        """Returns the streams of units that the host writes next, in this order."""

    def on_relocate(self, units: npt.NDArray[np.uint32]) -> object:
        """Returns the streams of the valid units of the block emptied next."""


def _experiment(experiment: Experiment | Mapping[str, Any] | Path | None, keys: Mapping[str, Any]) -> Experiment:
    sets = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in keys.items()]
    if isinstance(experiment, Experiment):
        return experiment._with_sets(sets) if sets else experiment
    if experiment is None or isinstance(experiment, Mapping):
        return Experiment(experiment, sets=sets)
    return Experiment.load(os.fspath(experiment), sets=sets)


def with_keys(experiment: Experiment | Mapping[str, Any] | Path | None, keys: Mapping[str, Any]) -> Experiment:
    """Returns the experiment with some keys changed: ``{"drive.ftl.gc.victim": "fifo", "seed": 7}``."""
    return _experiment(experiment, keys)


def run(
    experiment: Experiment | Mapping[str, Any] | Path | None = None,
    *,
    seed: int | None = None,
    xray: int | None = None,
    progress: Progress | None = None,
    victim: str | Victim | None = None,
    placement: str | Placement | None = None,
    from_state: Path | None = None,
    save_state: Path | None = None,
    save_at: str = "warm-up",
    overwrite: bool = False,
) -> Result:
    """Runs an experiment: an ``Experiment``, a mapping with the keys of an experiment file, or the path of such a file.

    ``xray`` is the number of X-ray frames of all blocks (``run.xray``); every latency is recorded as well. The result then
    plays in a notebook. Its ``report`` is the page of ``strobe run --report``, which records 60 frames.

    ``progress(phase, done, total, virtual_ns)`` is called several times a second. If it returns False the run ends with a
    partial result.

    ``victim`` is the victim policy of garbage collection: a name, a formula, or a function. The function gets a ``Table`` of
    the closed blocks with invalid units. Its columns are ``block`` and the variables of formulas (``u``, ``valid``,
    ``invalid``, ``units``, ``age``, ``age_closed``, ``age_last_invalid``, ``age_first_invalid``, ``age_newest_valid``,
    ``age_invalid_sum``, ``stream``, ``erase_count``; ``strobe list policies`` explains them). It returns an array or list of
    scores; the largest wins. Each choice costs a scan of all blocks and a call: tens of microseconds on small drives. It also
    costs 8 bytes of memory per mapping unit. A formula is much faster.

    ``placement`` is the placement scheme: a name, a formula, or a ``Placement``. ``from_state`` starts with a saved drive.
    ``save_state`` saves the drive before the measurement, or with ``save_at="end"`` after it.
    """
    keys: dict[str, Any] = {} if seed is None else {"seed": seed}
    if xray is not None:
        keys["run.xray"] = xray
    if isinstance(victim, str):
        keys, victim = {**keys, "drive.ftl.gc.victim": victim}, None
    if isinstance(placement, str):
        keys, placement = {**keys, "drive.ftl.placement.scheme": placement}, None
    experiment = _experiment(experiment, keys)
    # Only runs with timing have latencies.
    if xray is not None and json.loads(experiment._to_json())["run"]["timing"]:
        experiment = _experiment(experiment, {"run.latency_bins": True})
    return Result(_strobe._run(experiment, progress, victim, placement, from_state, save_state, save_at, overwrite))


def replay(
    trace: Path,
    format: str | None = None,
    drive: str | Mapping[str, Any] = "generic-8g",
    *,
    victim: str | Victim | None = None,
    placement: str | Placement | None = None,
    workload: Mapping[str, Any] | None = None,
    run_keys: Mapping[str, Any] | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Replays a trace, as ``strobe replay`` does.

    Without ``format`` the first lines of the trace must fit a single format. ``workload`` and ``run_keys`` are further keys of
    the tables ``workload`` and ``run``; ``victim`` and ``placement`` are as for ``run``.
    """
    if format is None:
        if not os.path.exists(trace):
            raise MissingFileError(f"{os.fspath(trace)}: no such file")
        format = _strobe._format_of(trace)
    keys = {"preset": drive} if isinstance(drive, str) else dict(drive)
    table = {
        "seed": seed,
        "drive": keys,
        "workload": {"kind": "trace", "path": os.fspath(trace), "format": format, **(workload or {})},
        "run": dict(run_keys or {}),
    }
    return run(table, progress=progress, victim=victim, placement=placement)


def preset(name: str) -> dict[str, Any]:
    """Returns the keys of a ready-made drive, or of a drive file."""
    keys: dict[str, Any] = json.loads(_strobe._preset_json(name))
    return keys
