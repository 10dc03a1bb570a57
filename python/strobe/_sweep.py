"""Sweeps: what ``strobe sweep`` does, on any executor."""

from __future__ import annotations

import concurrent.futures
import hashlib
import html
import importlib
import inspect
import json
import multiprocessing
import os
import pickle
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as PurePath
from typing import Any, Literal, Protocol

from . import _strobe
from ._strobe import Experiment, SweepError, Table

Path = str | os.PathLike[str]
Progress = Callable[[int, int, int], object]

#: Keys whose values may be policies of Python's own.
_VICTIM, _PLACEMENT = "drive.ftl.gc.victim", "drive.ftl.placement.scheme"
#: How long to wait between two looks at jobs that cannot be waited for.
_LOOK_S = 0.05


class Executor(Protocol):
    """What runs tasks: any ``concurrent.futures`` executor, Dask's ``client.get_executor()``, submitit's."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Runs ``fn(*args)`` some time; the future has ``done()``, ``result()`` and ``exception()``."""


def carry_out(line: str, own: bytes | None = None) -> str:
    """Runs one task; called by the workers. ``own`` has the policies that the task may name, pickled."""
    return _strobe._carry_out(line, pickle.loads(own) if own else None)


class Sweep:
    """What came of a sweep."""

    def __init__(self, rows: Table, found: Mapping[str, Any], folder: PurePath) -> None:
        self.rows = rows
        """Every run a row: keys of the grid, ``seed``, ``status``, ``error``, all numbers of the result, ``result``."""
        self.folder = folder
        """Where its files are; the same sweep goes on there."""
        self.parquet = PurePath(found["parquet"])
        """The rows as a Parquet file: the same bytes, whoever has run them."""
        self.configurations: list[dict[str, Any]] = found["configurations"]
        """For each combination of values: ``values``, ``done``, ``failed``, ``error``, ``not_steady`` (runs by the verdict
        on their window), ``same_for_every_seed``, and under ``measures`` each
        measure's ``mean``, ``half_width`` of its interval, ``deviation`` and ``n``, the number of seeds."""
        self.differences: list[dict[str, Any]] = found["differences"]
        """For each measure and combination what it differs by, as a share of the ``baseline``, from the same with the first
        value of the key that is compared: ``relative`` has ``mean`` and ``half_width``; ``p`` is the p value of
        Student's t test on pairs of runs with the same seed, corrected by Holm's method for all comparisons of the measure
        (None with one seed); ``shown`` is True if ``p`` is below 1 - ``confidence``."""
        self.page = PurePath(found["page"])
        """Charts, means and differences as one HTML file that works in any browser without a network."""
        self.pictures = [PurePath(path) for path in found["pictures"]]
        """A picture of each measure (SVG)."""

    def __repr__(self) -> str:
        failed = sum(one["failed"] for one in self.configurations)
        return f"<strobe.Sweep of {len(self.rows)} runs in {self.folder}, {failed} failed>"

    def _repr_html_(self) -> str:
        pictures = "".join(path.read_text() for path in self.pictures)
        return f"<p>{html.escape(repr(self))}</p><div style='max-width:45em'>{pictures}</div>"


class _Own:
    """Policies of Python's own among the values of a sweep: each has a name in the grid, and goes to the workers pickled."""

    def __init__(self) -> None:
        self.policies: dict[str, Any] = {}
        self.texts: set[str] = set()

    def named(self, key: str, value: Any) -> Any:
        """``value``, or the name of the policy that it is."""
        if isinstance(value, (str, int, float, bool, list, tuple, Mapping)) or value is None:
            self.texts.update([value] if isinstance(value, str) and key in (_VICTIM, _PLACEMENT) else [])
            return self._alone(key, value)
        if key not in (_VICTIM, _PLACEMENT):
            raise TypeError(f"{key}: a {type(value).__name__} is no value; objects are victim policies and placements")
        name = _strobe._name_of(value)
        known = [other for other, policy in self.policies.items() if policy is value]
        if not known and name in self.policies:
            raise ValueError(f'{key}: two policies are called {name}; give each an attribute "name" with a text of its own')
        self.policies.setdefault(name, value)
        return self._alone(key, name)

    def _alone(self, key: str, value: Any) -> Any:
        """``value``, unless it is a text and the name of a policy, too."""
        if isinstance(value, str) and value in self.texts and value in self.policies:
            raise ValueError(f'{key}: "{value}" is a value of its own, and the "name" of a policy; choose another name')
        return value

    def packed(self) -> bytes | None:
        """All of them for the workers."""
        if not self.policies:
            return None
        try:
            # It takes functions of notebooks, and lambdas, with their code.
            packer = importlib.import_module("cloudpickle")
        except ImportError:
            packer = pickle
        try:
            return bytes(packer.dumps(self.policies))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"{', '.join(self.policies)}: workers cannot have it ({error}); define it at the top of a module, or install cloudpickle"
            ) from None

    def identities(self) -> dict[str, str]:
        """What makes a kept result one of the same policy: its code, and its state."""
        return {name: hashlib.sha256(_identity(policy).encode()).hexdigest() for name, policy in self.policies.items()}


def _identity(policy: Any) -> str:
    """The code of a policy with all that it holds."""
    is_function = inspect.isroutine(policy) or isinstance(policy, type)
    named = policy if is_function else type(policy)
    try:
        code = inspect.getsource(named)
    except (OSError, TypeError):
        inner = getattr(named, "__code__", None)
        code = repr((inner.co_code, inner.co_consts, inner.co_names)) if inner else named.__qualname__
    held = [cell.cell_contents for cell in getattr(policy, "__closure__", None) or ()]
    held += [getattr(policy, "__defaults__", None), None if is_function else vars(policy)]
    try:
        return code + pickle.dumps(held).hex()
    except (pickle.PicklingError, AttributeError, TypeError):
        return code + repr(held)


def _table(experiment: Experiment | Mapping[str, Any] | Path | None) -> tuple[dict[str, Any], PurePath]:
    """The table of an experiment, or of a sweep, and the folder of its paths."""
    if isinstance(experiment, Experiment):
        return experiment._given(), PurePath(experiment._folder())
    if experiment is None or isinstance(experiment, Mapping):
        return dict(experiment or {}), PurePath("")
    import tomllib

    path = PurePath(experiment)
    with path.open("rb") as file:
        try:
            return tomllib.load(file), path.parent
        except tomllib.TOMLDecodeError as error:
            raise _strobe.ConfigError(f"{path}: not valid TOML: {error}") from None


def _with_key(table: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of the table with ``key`` set, a path with dots."""
    first, _, rest = key.partition(".")
    return {**table, first: _with_key(table.get(first, {}), rest, value) if rest else value}


def sweep(
    experiment: Experiment | Mapping[str, Any] | Path | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    out: Path,
    points: Sequence[Mapping[str, Any]] | None = None,
    names: Mapping[str, str] | None = None,
    seeds: int | Sequence[int] | None = None,
    seeds_max: int | None = None,
    until: str | float | None = None,
    measure: str | Sequence[str] | None = None,
    compare: str | None = None,
    confidence: float | None = None,
    retries: int | None = None,
    share_warmup: bool | None = None,
    victim: Any = None,
    placement: Any = None,
    executor: Executor | None = None,
    workers: int | None = None,
    in_flight: int | None = None,
    progress: Progress | None = None,
    shared: bool = False,
) -> Sweep:
    """Runs an experiment for every combination of the values of some keys, with several seeds.

    ``grid`` has keys of the experiment with lists of values, ``points`` tables of keys that go together; ``experiment``
    may also be the path of a file for ``strobe sweep``, whose ``[sweep]`` then counts where nothing is given here.
    ``names`` has names for formulas: ``{"mine": "age * (1-u)"}`` makes ``"mine"`` a value of ``drive.ftl.gc.victim`` (or of
    ``drive.ftl.placement.scheme``) in the grid, and tables and figures show the name.
    ``seeds`` is a number or a list. With ``until="1%"`` and ``seeds_max`` each configuration gets more seeds until half of
    the interval of the first ``measure`` is at most that share of its mean.

    ``victim`` and ``placement`` are those of all points, or values of ``"drive.ftl.gc.victim"`` and ``"drive.ftl.placement.scheme"`` in
    the grid: names, formulas, or functions and objects as for ``run``. Several of one class are told apart by an attribute
    ``name``, a text, which tables and figures show. What is no text goes to the workers pickled, so it is
    defined in a module that they can import, unless cloudpickle is installed; each run has a copy of its own, and what is kept
    counts as long as its code and its attributes are the same.

    ``executor`` runs the points: by default ``workers`` processes of this machine (as many as it has cores). Up to
    ``in_flight`` tasks are given to an executor at a time (64). What is done is kept in the folder ``out``, and the same
    sweep goes on there; a folder with runs of another sweep is refused unless it is ``shared``. A worker that dies is tried again ``retries`` times; a point that fails is a row with its error.
    Workers on other machines need this version of Strobe, the traces under the same paths and, to share warm-ups, the
    folder ``out`` too (else ``share_warmup=False``). ``progress(done, wanted, failed)`` is called after each point.

    The rows are the same, to the byte, whatever runs them.
    """
    table, folder = _table(experiment)
    own = _Own()
    for key, policy in ((_VICTIM, victim), (_PLACEMENT, placement)):
        if policy is not None and key in (grid or table.get("sweep", {}).get("grid", {})):
            raise ValueError(f"{key.rpartition('.')[2]}: the grid has values of {key}; leave one of the two out")
        if isinstance(policy, str):
            table = _with_key(table, key, policy)
        elif policy is not None:
            grid = {key: [policy], **(grid or table.get("sweep", {}).get("grid", {}))}
    keys: dict[str, Any] = {
        "grid": grid and {key: [own.named(key, value) for value in values] for key, values in grid.items()},
        "points": points and [{key: own.named(key, value) for key, value in point.items()} for point in points],
        "names": names and dict(names),
        "seeds": seeds if seeds is None or isinstance(seeds, int) else list(seeds),
        "seeds_max": seeds_max,
        "until": until,
        "measure": measure if measure is None or isinstance(measure, str) else list(measure),
        "compare": compare,
        "confidence": confidence,
        "retries": retries,
        "share_warmup": share_warmup,
    }
    given = {key: value for key, value in keys.items() if value is not None}
    table["sweep"] = {**table.get("sweep", {}), **given}
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SweepError(
            'a worker runs this script for the policies in it: put what calls sweep or search below if __name__ == "__main__":'
        )
    running = _strobe._Sweep(table, folder, out, shared, own.identities())
    with _Pool(executor, workers, in_flight, own.packed()) as pool:
        try:
            _drive(running, pool, progress)
        finally:
            running.clear()
    return Sweep(running.rows(), json.loads(running.write()), PurePath(out))


class _Worker(multiprocessing.context.SpawnProcess):
    """A process that does not run the caller's script again, so that no script needs ``if __name__ == "__main__"``."""

    def start(self) -> None:
        script = sys.modules["__main__"]
        # What is spawned imports the module of this name, if it has a file.
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = script


class _Workers(multiprocessing.context.SpawnContext):
    Process = _Worker


class _Pool:
    """Futures on an executor of the user's, or on processes of our own, which are replaced when they die."""

    def __init__(
        self, executor: Executor | None, workers: int | None, in_flight: int | None, own: bytes | None
    ) -> None:
        self._own_policies = own
        if executor is not None and workers is not None:
            raise ValueError("workers: an executor knows its own; say in_flight for the tasks that it gets at a time")
        for name, value in (("workers", workers), ("in_flight", in_flight)):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: at least 1 is needed")
        self._own = executor is None
        self._workers = workers or os.cpu_count() or 1
        self._executor: Any = executor if executor is not None else self._processes()
        self.in_flight = in_flight or (self._workers if self._own else 64)
        self.futures: dict[Any, int] = {}

    def _processes(self) -> concurrent.futures.Executor:
        # Started anew: what is forked has threads' locks in any state. Policies of the script itself are imported from it.
        needs_script = self._own_policies is not None and b"__main__" in self._own_policies
        context = multiprocessing.get_context("spawn") if needs_script else _Workers()
        return concurrent.futures.ProcessPoolExecutor(self._workers, mp_context=context)

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for future in self.futures:
            getattr(future, "cancel", lambda: None)()
        if self._own:
            processes = list((getattr(self._executor, "_processes", None) or {}).values())
            self._executor.shutdown(wait=not self.futures, cancel_futures=True)
            # Nobody waits for what they are at.
            for process in processes if self.futures else []:
                process.kill()

    def give(self, point: int, line: str) -> None:
        self.futures[self._executor.submit(carry_out, line, self._own_policies)] = point

    def ended(self) -> list[tuple[Any, int]]:
        """Futures that are done, at least one; they are forgotten here."""
        if all(isinstance(future, concurrent.futures.Future) for future in self.futures):
            concurrent.futures.wait(self.futures, return_when=concurrent.futures.FIRST_COMPLETED)
        while not (done := [future for future in self.futures if future.done()]):
            time.sleep(_LOOK_S)
        return [(future, self.futures.pop(future)) for future in done]

    def replace(self) -> None:
        """Processes of our own die together; others take their place."""
        if self._own:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = self._processes()


def _drive(running: Any, pool: _Pool, progress: Progress | None) -> None:
    while True:
        while len(pool.futures) < pool.in_flight and (task := running.next_task()) is not None:
            pool.give(*task)
        if progress is not None:
            progress(*running.progress())
        if not pool.futures:
            return
        is_broken = False
        for future, point in pool.ended():
            error = future.exception()
            if error is None:
                running.done(point, future.result())
            elif isinstance(error, ImportError):
                raise SweepError(f"a worker cannot import strobe: {error}") from error
            else:
                is_broken |= isinstance(error, concurrent.futures.BrokenExecutor)
                running.lost(point, f"{type(error).__name__}: {error}".strip(": \n"))
        if is_broken:
            pool.replace()


def search(
    experiment: Experiment | Mapping[str, Any] | Path | None,
    space: Mapping[str, Sequence[Any] | tuple[float, float]],
    *,
    out: Path,
    trials: int,
    measure: str = "waf",
    direction: Literal["minimize", "maximize"] = "minimize",
    seeds: int | Sequence[int] = 1,
    sampler: Any = None,
    **more: Any,
) -> Any:
    """Looks for the values of some keys with the best ``measure`` instead of trying all of them, with Optuna.

    ``space`` has for each key a list of choices, or a tuple of the lowest and the highest value: whole numbers, or numbers
    if one of the two is a float. Each trial is a sweep of one configuration in the folder ``out``; its value is the mean
    over ``seeds``. ``more`` goes to ``sweep``. Returns Optuna's study: ``study.best_params``, ``study.trials_dataframe()``.
    With the default sampler (TPE, seed 1) the same search makes the same trials; what is known already is not run again.
    ``rows.parquet`` in ``out`` has all of them in the end.
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError("strobe.search needs Optuna: pip install optuna") from error
    if not space:
        raise ValueError("space: at least one key is needed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction=direction, sampler=sampler or optuna.samplers.TPESampler(seed=1))

    def one(trial: Any) -> float:
        values: dict[str, Any] = {}
        for key, choices in space.items():
            if not isinstance(choices, tuple):
                values[key] = trial.suggest_categorical(key, list(choices))
            elif any(isinstance(end, float) for end in choices):
                values[key] = trial.suggest_float(key, *choices)
            else:
                values[key] = trial.suggest_int(key, *choices)
        found = sweep(experiment, out=out, points=[values], seeds=seeds, measure=measure, shared=True, **more)
        only = found.configurations[0]
        estimate = only["measures"][measure]
        if estimate is None:
            raise optuna.TrialPruned(only["error"])
        return float(estimate["mean"])

    study.optimize(one, n_trials=trials)
    tried: list[dict[str, Any]] = []
    for trial in study.trials:
        if trial.params not in tried:
            tried.append(trial.params)
    # All of them in one file; nothing is run again.
    sweep(experiment, out=out, points=tried, seeds=seeds, measure=measure, shared=True, **more)
    return study
