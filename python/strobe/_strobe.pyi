"""The compiled part of strobe."""

import os
from collections.abc import Callable, Mapping, Sequence
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
    """A configuration is refused; the message names the key and the cure."""

class BuildError(StrobeError, ValueError):
    """A drive that could not work is refused, with the arithmetic that shows why."""

class MissingFileError(StrobeError, FileNotFoundError):
    """A file that is named is not there."""

class CommandError(StrobeError):
    """A drive has refused a command, which has changed nothing; or data that it needs cannot be read."""

class RunError(StrobeError):
    """A run has ended without a result."""

class SweepError(StrobeError):
    """A sweep cannot go on; what is done is kept."""

class StateError(StrobeError):
    """A state cannot be saved, or is not one for this drive."""

@final
class Table:
    """A table of columns. pyarrow.table(t), polars.DataFrame(t) and pandas take it as it is."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> Any:
        """A column: a NumPy array of numbers that may not be written, or a list of texts. A column with missing values is a
        copy with NaN, or a list with None."""

    def to_dict(self) -> dict[str, Any]:
        """All columns by name."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Experiment:
    """An experiment, checked and complete.

    It is made from a mapping with the keys of an experiment file, or from its text; sets are
    "key.path=value".
    """

    def __new__(
        cls, experiment: Mapping[str, Any] | str | None = None, *, sets: Sequence[str] = ...
    ) -> Experiment: ...
    @staticmethod
    def load(path: _Path, *, sets: Sequence[str] = ...) -> Experiment:
        """Reads the experiment in a file; sets are "key.path=value", as --set takes them."""

    @property
    def seed(self) -> int:
        """Seed of everything random."""

    @property
    def config_hash(self) -> str:
        """Hash that identifies the configuration, without the seed."""

    def to_toml(self) -> str:
        """Experiment as TOML that means the same, every default filled in."""

    def _with_sets(self, sets: Sequence[str]) -> Experiment: ...
    def _given(self) -> dict[str, Any]: ...
    def _folder(self) -> os.PathLike[str]: ...
    def _to_json(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Drive:
    """A drive with a clock of its own, in virtual nanoseconds.

    Alone, a command begins when the one before is done. config is the name of a preset or the path of a
    file, a mapping with the keys of a table `drive`, or an Experiment. With timing=False it only
    counts, several times as fast. victim is the name or formula of a victim policy, or a function as
    for strobe.run; placement the name or formula of a placement, or an object as for strobe.run.
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
        """Reads the drive that was saved at path, with all that was on its way."""

    def save(self, path: _Path, *, overwrite: bool = False) -> None:
        """Saves all of its state. A file that is there is replaced only with overwrite=True."""

    def fork(self) -> Drive:
        """Returns an independent copy, as it is now."""

    @property
    def now(self) -> int:
        """Virtual time, in ns."""

    @property
    def sectors(self) -> int:
        """Sectors of 512 bytes offered to the host."""

    @property
    def unit_sectors(self) -> int:
        """Sectors of a mapping unit: writes of whole ones are written as they are."""

    @property
    def seed(self) -> int:
        """Seed it was made with."""

    @property
    def timing(self) -> bool:
        """True if it keeps time."""

    @property
    def outstanding(self) -> int:
        """Commands that were submitted and whose completion was not handed over."""

    @property
    def next_event(self) -> int | None:
        """Time of the next thing that a host could notice, in ns."""

    @property
    def mapped_units(self) -> int:
        """Logical mapping units that hold data on flash."""

    @property
    def free_blocks(self) -> int:
        """Erased blocks at hand."""

    @property
    def waf(self) -> float | None:
        """Write amplification since the drive was new; None before the first write."""

    def write(
        self, lba: int, sectors: int | None = None, *, data: bytes | None = None, fua: bool = False, handle: int = 0
    ) -> int:
        """Writes sectors, or data if the drive keeps any; returns when that is done, in ns.

        handle is a placement handle (drive.ftl.placement.handles).
        """

    def read(self, lba: int, sectors: int) -> bytes | None:
        """Reads sectors; returns their bytes, if the drive keeps any."""

    def trim(self, lba: int, sectors: int) -> int:
        """Deallocates sectors; returns when that is done."""

    def flush(self) -> int:
        """Makes all completed writes durable; returns when that is done."""

    def write_zeroes(self, lba: int, sectors: int, *, deallocate: bool = False) -> int:
        """Writes zeroes, or deallocates; returns when that is done."""

    def copy(self, destination: int, source: int, sectors: int) -> int:
        """Copies sectors within the drive; returns when that is done."""

    def settle(self) -> int:
        """Ends work in order, as before power is switched off; returns when that is done."""

    def submit(self, op: str | int | _Array, lba: int | _Array, sectors: int | _Array) -> int:
        """Submits commands now, all at once, and returns the tag of the first; those of the others follow it."""

    def advance(self, until: int | None = None) -> Table:
        """Lets time pass until then, or until all is done; returns completed commands: tag, at_ns, error."""

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
        """Runs many commands and returns when all are complete.

        Each column is an array, or one number for all. At most queue_depth are outstanding, and no more
        than one begins in interval_ns. With arrivals_ns they begin at times of their own, in ns from now
        on.
        """

    def stats(self) -> dict[str, Any]:
        """All counters since the drive was new."""

    def latency(self, op: str) -> dict[str, float]:
        """Latencies of "read", "write", "trim" or "flush" since they were cleared, in ns."""

    def latencies(self, op: str) -> Table:
        """Latencies since they were cleared as a table: ns, exact to three digits, and count."""

    def clear_latency(self) -> None:
        """Forgets latencies."""

    def commands(self, kind: str) -> int:
        """Commands of a kind since the drive was new."""

    def blocks(self) -> Table:
        """All blocks, a row each. Costs a pass over all of them.

        Columns have the names of the variables of victim formulas: block, stream (-1 if unknown), u, valid,
        invalid, units and erase_count; ages are known to victim policies only. Further columns are stage
        ("erased", "open", "full", "emptying", "tables" or "bad"), purpose, the name of the stream, and
        written, the units programmed since the erase.
        """

    def units(self) -> Table:
        """Logical units that have a place on flash, a row each. Costs a pass over all of them.

        Columns are unit, the block that holds it, and slot, its place in that block from 0 on. Slots below the block's
        written that no row names are stale. Units in the write buffer are where they were last programmed.
        """

    def wear(self) -> dict[str, float]:
        """Erase counts and bad blocks."""

    def check(self) -> None:
        """Runs the whole-state checker; raises what it finds."""

    def _config_json(self) -> str: ...

def presets() -> list[tuple[str, str]]:
    """Ready-made drives: name, and what they are."""

def policies() -> list[tuple[str, str]]:
    """Victim policies: name, and what they pick. A formula over the variables of blocks is one, too."""

def mappings() -> list[str]:
    """Mapping schemes."""

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
def _pdf(svg: str) -> bytes: ...

@final
class _Sweep:
    def __new__(
        cls, table: Mapping[str, Any], folder: _Path, out: _Path, shared: bool, own: Mapping[str, str]
    ) -> _Sweep: ...
    def next_task(self) -> tuple[int, str] | None:
        """Returns a task and its point; None if no task can begin now."""
    def done(self, point: int, answer: str) -> None: ...
    def lost(self, point: int, reason: str) -> None: ...
    def progress(self) -> tuple[int, int, int]:
        """Points done, wanted, failed."""
    def clear(self) -> None:
        """Removes states that are left."""
    def write(self) -> str:
        """Writes all files and returns their paths and what was found, as JSON."""
    def rows(self) -> Table:
        """All rows."""
