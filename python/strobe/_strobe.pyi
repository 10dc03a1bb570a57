"""The compiled part of strobe."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, final

import numpy as np
import numpy.typing as npt

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

_Array = npt.NDArray[np.integer[Any]] | _ArrowArray | _ArrowStream
_Path = str | os.PathLike[str]

__version__: Final[str]
READ: Final[int]
WRITE: Final[int]
TRIM: Final[int]
FLUSH: Final[int]

class StrobeError(Exception):
    """Base of all exceptions of this package."""

class ConfigError(StrobeError, ValueError):
    """A configuration is refused; the message names the key and the fix."""

class BuildError(StrobeError, ValueError):
    """The drive could not work; the message shows the calculation."""

class MissingFileError(StrobeError, FileNotFoundError):
    """A file does not exist."""

class CommandError(StrobeError):
    """The drive refused a command, which changed nothing, or data could not be read."""

class RunError(StrobeError):
    """A run ended without a result."""

class SweepError(StrobeError):
    """A sweep stopped; finished points are kept."""

class StateError(StrobeError):
    """A state cannot be saved, or does not fit this drive."""

@final
class Table:
    """A table of columns. pyarrow.table(t), polars.DataFrame(t) and pandas.DataFrame.from_arrow(t) use it
    without a copy; pandas.DataFrame(t) copies it.
    """

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, each a mapping of its columns."""

    def __getitem__(self, name: str, /) -> Any:
        """A column: a NumPy array of numbers that may not be written, or a list of texts. A column with missing values is a
        copy with NaN, or a list with None."""

    def to_dict(self) -> dict[str, Any]:
        """Returns all columns by name."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Experiment:
    """A validated, complete experiment.

    experiment is a mapping with the keys of an experiment file, or its TOML text. sets are
    "key.path=value" strings that override keys.
    """

    def __new__(
        cls, experiment: Mapping[str, Any] | str | None = None, *, sets: Sequence[str] = ...
    ) -> Experiment: ...
    @staticmethod
    def load(path: _Path, *, sets: Sequence[str] = ...) -> Experiment:
        """Reads an experiment file. sets are "key.path=value" strings, as for --set."""

    @property
    def seed(self) -> int:
        """Seed of all random decisions."""

    @property
    def config_hash(self) -> str:
        """Hash of the configuration, without the seed."""

    def to_toml(self) -> str:
        """Returns the equivalent experiment as TOML, with all defaults filled in."""

    def _with_sets(self, sets: Sequence[str]) -> Experiment: ...
    def _given(self) -> dict[str, Any]: ...
    def _folder(self) -> os.PathLike[str]: ...
    def _to_json(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Drive:
    """A drive with its own clock, in virtual nanoseconds.

    Methods for a single command wait for its completion: the next command starts afterwards.

    config is a preset name, the path of a file, a mapping with the keys of a table `drive`, or an
    Experiment. timing=False only counts operations and is several times as fast. victim is the name or
    formula of a victim policy, or a function as for strobe.run. placement is the name or formula of a
    placement, or an object as for strobe.run.
    """

    def __new__(
        cls,
        config: _Path | Mapping[str, Any] | Experiment | None = None,
        *,
        timing: bool = True,
        seed: int = 1,
        victim: str | Callable[[Table], object] | None = None,
        placement: object | None = None,
    ) -> Drive: ...
    @staticmethod
    def load(path: _Path) -> Drive:
        """Loads the drive saved at path, including its in-flight commands."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Saves the complete state. An existing file is replaced only with overwrite=True."""

    def fork(self) -> Drive:
        """Returns an independent copy in the current state."""

    @property
    def now(self) -> int:
        """Virtual time, in ns."""

    @property
    def sectors(self) -> int:
        """Capacity in sectors of 512 bytes."""

    @property
    def unit_sectors(self) -> int:
        """Sectors of a mapping unit. Aligned writes of whole units need no read-modify-write."""

    @property
    def seed(self) -> int:
        """Seed of the drive."""

    @property
    def timing(self) -> bool:
        """True if timing is simulated."""

    @property
    def outstanding(self) -> int:
        """Submitted commands whose completion has not been returned yet."""

    @property
    def next_event(self) -> int | None:
        """Time of the next event visible to a host, in ns; None if there is no event."""

    @property
    def mapped_units(self) -> int:
        """Logical mapping units with data on flash."""

    @property
    def free_blocks(self) -> int:
        """Erased blocks."""

    @property
    def waf(self) -> float | None:
        """Write amplification since the drive was new; None before the first write."""

    def write(
        self, lba: int, sectors: int | None = None, *, data: bytes | None = None, fua: bool = False, handle: int = 0
    ) -> int:
        """Writes sectors, or data if the drive stores data; returns the completion time, in ns.

        handle is a placement handle (drive.ftl.placement.handles).
        """

    def read(self, lba: int, sectors: int) -> bytes | None:
        """Reads sectors; returns their bytes if the drive stores data, else None."""

    def trim(self, lba: int, sectors: int) -> int:
        """Deallocates sectors; returns the completion time, in ns."""

    def flush(self) -> int:
        """Makes all completed writes durable; returns the completion time, in ns."""

    def write_zeroes(self, lba: int, sectors: int, *, deallocate: bool = False) -> int:
        """Writes zeroes, or deallocates with deallocate=True; returns the completion time, in ns."""

    def copy(self, destination: int, source: int, sectors: int) -> int:
        """Copies sectors within the drive; returns the completion time, in ns."""

    def settle(self) -> int:
        """Writes back the write buffer and makes it durable, as before power-off; returns the completion time,
        in ns.
        """

    def submit(self, op: str | int | _Array, lba: int | _Array, sectors: int | _Array) -> int:
        """Submits commands now, all at once. Returns the tag of the first; the others have consecutive tags."""

    def advance(self, until: int | None = None) -> Table:
        """Advances to time until, in ns, or until all commands complete. Returns the completed commands: tag,
        at_ns, error.
        """

    def run(
        self,
        op: str | int | _Array,
        lba: int | _Array,
        sectors: int | _Array,
        *,
        arrivals_ns: _Array | None = None,
        queue_depth: int = 1,
        interval_ns: int = 0,
    ) -> int:
        """Runs many commands and returns the time at which all are complete, in ns.

        Each column is an array, or one number for all. At most queue_depth commands are in flight, and at
        most one starts per interval_ns. With arrivals_ns each command has an arrival time, in ns from now.
        """

    def stats(self) -> dict[str, Any]:
        """Returns all counters since the drive was new."""

    def latency(self, op: str) -> dict[str, float]:
        """Returns latencies of "read", "write", "trim" or "flush" since clear_latency, in ns."""

    def latencies(self, op: str) -> Table:
        """Returns latencies since clear_latency as a table: ns, exact to three digits, and count."""

    def clear_latency(self) -> None:
        """Clears the recorded latencies."""

    def commands(self, kind: str) -> int:
        """Returns the number of commands of a kind since the drive was new."""

    def blocks(self) -> Table:
        """Returns all blocks, one per row. Scans every block.

        Columns named like the variables of victim formulas: block, stream (-1 if unknown), u, valid, invalid,
        units and erase_count; only victim policies know ages. Further columns: stage ("erased", "open",
        "full", "emptying", "tables" or "bad"), purpose (name of the stream) and written (units programmed
        since the erase).
        """

    def units(self) -> Table:
        """Returns the logical units stored on flash, one per row. Scans every logical unit.

        Columns: unit, block, and slot, the position in the block, counted from 0. A slot without a row is
        stale if it is below the block's column written. Units in the write buffer appear where they were last
        programmed.
        """

    def wear(self) -> dict[str, float]:
        """Returns erase counts and bad blocks."""

    def check(self) -> None:
        """Runs the whole-state checker; raises an exception for a violation."""

    def _config_json(self) -> str: ...

def presets() -> list[tuple[str, str]]:
    """Ready-made drives: name and description."""

def policies() -> list[tuple[str, str]]:
    """Built-in victim policies: name and the blocks they pick. A formula over block variables is a policy, too."""

def mappings() -> list[str]:
    """Names of the mapping schemes."""

def _preset_json(name: str) -> str: ...
def _format_of(path: _Path) -> str: ...
def _run(
    experiment: Experiment,
    progress: Callable[[str, int, int | None, int], object] | None,
    victim: Callable[[Table], object] | None,
    placement: object | None,
    from_state: _Path | None,
    save_state: _Path | None,
    save_at: str,
    overwrite: bool,
) -> str: ...

def _carry_out(line: str, own: Mapping[str, object] | None = None) -> str: ...
def _name_of(policy: object) -> str: ...
def _page(results: Sequence[tuple[str, str]]) -> str: ...
def _cell(name: str, result: str) -> str: ...
def _figures(name: str, result: str) -> list[tuple[str, str]]: ...
def _crash_page(name: str, result: str) -> str: ...
def _sized(svg: str, width_mm: float) -> str: ...
def _grey(svg: str) -> str: ...
def _pdf(svg: str, font: bytes | None = None) -> bytes: ...

@final
class _Sweep:
    def __new__(
        cls, table: Mapping[str, Any], folder: _Path, out: _Path, shared: bool, own: Mapping[str, str]
    ) -> _Sweep: ...
    def next_task(self) -> tuple[int, str] | None:
        """Returns a task and its point; None if no task can start now."""
    def done(self, point: int, answer: str) -> None: ...
    def lost(self, point: int, reason: str) -> None: ...
    def progress(self) -> tuple[int, int, int]:
        """Number of points: done, wanted, failed."""
    def clear(self) -> None:
        """Removes leftover states."""
    def write(self) -> str:
        """Writes all files; returns their paths and the findings as JSON."""
    def rows(self) -> Table:
        """All rows."""
