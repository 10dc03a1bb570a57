"""Sweeps, as ``strobe sweep`` runs them, on any executor."""

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
from ._result import Figure, looking, nearest
from ._strobe import Experiment, SweepError, Table

Path = str | os.PathLike[str]
Progress = Callable[[int, int, int], object]

#: Keys with values that may be Python functions or objects.
_VICTIM, _PLACEMENT = "drive.ftl.gc.victim", "drive.ftl.placement.scheme"
#: Polling interval in seconds, for futures without a blocking wait.
_LOOK_S = 0.05


class Executor(Protocol):
    """Runs tasks: any ``concurrent.futures`` executor, Dask's ``client.get_executor()``, or submitit's."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Schedules ``fn(*args)``. The future has ``done()``, ``result()`` and ``exception()``."""


class RayExecutor:
    """Ray as an executor of ``sweep`` and ``search``, with ``options`` for its tasks (``num_cpus=1``).

    Call ``ray.init`` first: it connects to the cluster.
    """

    def __init__(self, **options: Any) -> None:
        self._ray = importlib.import_module("ray")
        task = self._ray.remote(_call)
        self._task = task.options(**options) if options else task

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> _RayFuture:
        """Runs ``fn(*args)`` on the cluster."""
        return _RayFuture(self._ray, self._task.remote(fn, *args))


def _call(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)


class _RayFuture:
    """Future of a Ray task."""

    def __init__(self, ray: Any, reference: Any) -> None:
        self._ray, self._reference = ray, reference

    def done(self) -> bool:
        ended, _ = self._ray.wait([self._reference], timeout=0)
        return bool(ended)

    def result(self) -> Any:
        return self._ray.get(self._reference)

    def exception(self) -> Exception | None:
        try:
            self.result()
        except Exception as error:  # noqa: BLE001 an error of the task, or of its worker
            return error
        return None

    def cancel(self) -> None:
        self._ray.cancel(self._reference)


def carry_out(line: str, own: bytes | None = None) -> str:
    """Runs one task; called by the workers. ``own`` has the pickled policies that the task may name."""
    return _strobe._carry_out(line, pickle.loads(own) if own else None)


class Sweep:
    """Results of a sweep."""

    def __init__(self, rows: Table, found: Mapping[str, Any], folder: PurePath) -> None:
        self.rows = rows
        """One row per run: keys of the grid, ``seed``, ``status``, ``error``, all numbers of the result, ``result``."""
        self.folder = folder
        """Folder of the files; the same sweep resumes there."""
        self.parquet = PurePath(found["parquet"])
        """The rows as a Parquet file: the same bytes on any executor."""
        self.configurations: list[dict[str, Any]] = found["configurations"]
        """One entry per combination of values: ``values``, ``done``, ``failed``, ``error``, ``not_steady`` (runs by the verdict
        on their window) and ``same_for_every_seed``. ``measures`` has for each measure ``mean``, ``half_width`` of the
        interval, ``deviation`` and ``n``, the number of seeds."""
        self.differences: list[dict[str, Any]] = found["differences"]
        """One entry per measure and compared pair of combinations, with their indices ``configuration`` and ``baseline``. The
        baseline has the first value of the compared key, or with ``pairs="all"`` an earlier one; all other keys are equal.
        ``relative`` has ``mean`` and ``half_width`` of the difference, as a share of the baseline. ``p`` is the p value of
        Student's t test on pairs of runs with equal seeds, corrected by Holm's method for all comparisons of the sweep. It
        is None with one seed. ``shown`` is True if ``p`` is below 1 - ``confidence``."""
        self.page = PurePath(found["page"])
        """Charts, means and differences as one self-contained HTML file."""
        self.pictures = [PurePath(path) for path in found["pictures"]]
        """SVG files of each measure."""
        self._tables: dict[str, str] = found["tables"]

    @property
    def figures(self) -> list[str]:
        """Names of the figures that ``plot`` draws."""
        return [path.stem for path in self.pictures]

    def plot(self, figure: str | None = None, *, width_mm: float | None = None, grey: bool = False) -> Figure:
        """Returns a figure of the sweep, by default the first, as ``Result.plot`` does for a run."""
        drawn = dict(zip(self.figures, self.pictures, strict=True))
        if not drawn:
            raise ValueError("this sweep has no figures: no run has a measure")
        name = next(iter(drawn)) if figure is None else figure
        if name not in drawn:
            raise KeyError(f"{name!r}; the figures are {', '.join(drawn)}{nearest(name, list(drawn))}")
        return looking(name, drawn[name].read_text(encoding="utf-8"), width_mm, grey)

    def table(self, form: Literal["latex", "markdown"] = "markdown") -> str:
        """Returns means and differences as tables for a paper, as ``strobe sweep --table`` prints them."""
        if form not in self._tables:
            raise ValueError(f"{form!r}: a table is {' or '.join(self._tables)}")
        return self._tables[form]

    def __repr__(self) -> str:
        failed = sum(one["failed"] for one in self.configurations)
        return f"<strobe.Sweep of {len(self.rows)} runs in {self.folder}, {failed} failed>"

    def _repr_html_(self) -> str:
        pictures = "".join(path.read_text() for path in self.pictures)
        return f"<p>{html.escape(repr(self))}</p><div style='max-width:45em'>{pictures}</div>"


class _Own:
    """Python functions and objects among the values of a sweep: each has a name in the grid, and workers get it pickled."""

    def __init__(self) -> None:
        self.policies: dict[str, Any] = {}
        self.texts: set[str] = set()

    def named(self, key: str, value: Any) -> Any:
        """Returns ``value``, or its name if it is a policy."""
        if isinstance(value, (str, int, float, bool, list, tuple, Mapping)) or value is None:
            self.texts.update([value] if isinstance(value, str) and key in (_VICTIM, _PLACEMENT) else [])
            return self._alone(key, value)
        if key not in (_VICTIM, _PLACEMENT):
            raise TypeError(f"{key}: a {type(value).__name__} is no value; objects are victim policies and placements")
        name = _strobe._name_of(value)
        known = [other for other, policy in self.policies.items() if policy is value]
        if not known and name in self.policies:
            raise ValueError(f'{key}: two policies are called {name}; give each a different attribute "name"')
        self.policies.setdefault(name, value)
        return self._alone(key, name)

    def _alone(self, key: str, value: Any) -> Any:
        """Returns ``value``; refuses a text that is also the name of a policy."""
        if isinstance(value, str) and value in self.texts and value in self.policies:
            raise ValueError(f'{key}: "{value}" is both a value and the "name" of a policy; choose another name')
        return value

    def packed(self) -> bytes | None:
        if not self.policies:
            return None
        try:
            # cloudpickle can pickle lambdas and functions of notebooks.
            packer = importlib.import_module("cloudpickle")
        except ImportError:
            packer = pickle
        try:
            return bytes(packer.dumps(self.policies))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"{', '.join(self.policies)}: it cannot be pickled for the workers ({error}); define it at the top of a module, or install cloudpickle"
            ) from None

    def identities(self) -> dict[str, str]:
        """Digests of the code and state of each policy: a finished run counts only for an equal one."""
        return {name: hashlib.sha256(_identity(policy).encode()).hexdigest() for name, policy in self.policies.items()}


def _identity(policy: Any) -> str:
    """Returns the code and state of a policy as text."""
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
    """Returns the table of an experiment or a sweep, and the folder of its relative paths."""
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
    """Returns a copy of the table with the dotted ``key`` set."""
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
    pairs: Literal["first", "all"] | None = None,
    x: str | None = None,
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

    ``grid`` maps keys of the experiment to lists of values; ``points`` lists tables of keys that vary together.
    ``experiment`` may also be the path of a file for ``strobe sweep``; its ``[sweep]`` supplies the settings not given here.
    ``names`` names formulas: ``{"mine": "age * (1-u)"}`` makes ``"mine"`` a value of ``drive.ftl.gc.victim`` (or of
    ``drive.ftl.placement.scheme``) in the grid, and tables and figures show the name.

    ``seeds`` is a number or a list. With ``until="1%"`` and ``seeds_max``, seeds are added until half the interval of the first
    ``measure`` is at most that share of the mean; their number is estimated from the spread of the first 8 (``seeds``).
    ``compare`` is the compared key: each value with the first one, or with ``pairs="all"`` each with each. ``x`` is the
    key on the x axis of figures.

    ``victim`` and ``placement`` apply to all points, unless the grid has ``"drive.ftl.gc.victim"`` and
    ``"drive.ftl.placement.scheme"``: names, formulas, or functions and objects as for ``run``. Several objects of one class need
    different attributes ``name``, which tables and figures show. Functions and objects are pickled for the workers: define them
    in a module that workers can import, or install cloudpickle. Each run has a separate copy. Finished runs are reused while
    code and attributes are unchanged.

    ``executor`` runs the points; the default is ``workers`` processes of this machine (one per core). An executor gets up to
    ``in_flight`` tasks at the same time (64). Finished runs are kept in the folder ``out``, where the same sweep resumes. A
    folder with runs of another sweep is refused unless it is ``shared``. If a worker dies, its point is tried again
    ``retries`` times; a failed point is a row with its error. Workers on other machines need this version of Strobe, the
    traces under the same paths and, to share warm-ups, the folder ``out`` (else ``share_warmup=False``).
    ``progress(done, wanted, failed)`` is called after each point.

    The rows are the same bytes on any executor.
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
        "pairs": pairs,
        "x": x,
        "confidence": confidence,
        "retries": retries,
        "share_warmup": share_warmup,
    }
    given = {key: value for key, value in keys.items() if value is not None}
    table["sweep"] = {**table.get("sweep", {}), **given}
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SweepError(
            'a worker imports this script for its policies: put the calls of sweep and search below if __name__ == "__main__":'
        )
    running = _strobe._Sweep(table, folder, out, shared, own.identities())
    with _Pool(executor, workers, in_flight, own.packed()) as pool:
        try:
            _drive(running, pool, progress)
        finally:
            running.clear()
    return Sweep(running.rows(), json.loads(running.write()), PurePath(out))


class _Worker(multiprocessing.context.SpawnProcess):
    """Process that does not import the caller's script: scripts need no ``if __name__ == "__main__"``."""

    def start(self) -> None:
        script = sys.modules["__main__"]
        # A spawned process imports the module of this name, if it has a file.
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = script


class _Workers(multiprocessing.context.SpawnContext):
    Process = _Worker


class _Pool:
    """Futures on the user's executor, or on separate processes, which are replaced when they die."""

    def __init__(
        self, executor: Executor | None, workers: int | None, in_flight: int | None, own: bytes | None
    ) -> None:
        self._own_policies = own
        if executor is not None and workers is not None:
            raise ValueError("workers has no effect with an executor; set in_flight, the tasks that it gets at the same time")
        for name, value in (("workers", workers), ("in_flight", in_flight)):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: the minimum is 1")
        self._own = executor is None
        self._workers = workers or os.cpu_count() or 1
        self._executor: Any = executor if executor is not None else self._processes()
        self.in_flight = in_flight or (self._workers if self._own else 64)
        self.futures: dict[Any, int] = {}

    def _processes(self) -> concurrent.futures.Executor:
        # Spawned: a forked process may inherit locked mutexes. Policies defined in the script are imported from it.
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
            # Their results are no longer needed.
            for process in processes if self.futures else []:
                process.kill()

    def give(self, point: int, line: str) -> None:
        self.futures[self._executor.submit(carry_out, line, self._own_policies)] = point

    def ended(self) -> list[tuple[Any, int]]:
        """Waits for at least one future; removes and returns all that are done."""
        if all(isinstance(future, concurrent.futures.Future) for future in self.futures):
            concurrent.futures.wait(self.futures, return_when=concurrent.futures.FIRST_COMPLETED)
        while not (done := [future for future in self.futures if future.done()]):
            time.sleep(_LOOK_S)
        return [(future, self.futures.pop(future)) for future in done]

    def replace(self) -> None:
        """Replaces the separate processes: one that dies ends its whole pool."""
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
    space: Mapping[str, Sequence[Any] | tuple[float, float] | tuple[float, float, Literal["log"]]],
    *,
    out: Path,
    trials: int,
    measure: str | Sequence[str] = "waf",
    direction: Literal["minimize", "maximize"] | Sequence[Literal["minimize", "maximize"]] = "minimize",
    seeds: int | Sequence[int] = 1,
    sampler: Any = None,
    **more: Any,
) -> Any:
    """Searches for the values of some keys with the best ``measure``, with Optuna. With several measures, each with its
    ``direction``, it searches for the values that no others beat in all measures: ``study.best_trials``.

    ``space`` has for each key a list of choices, or a tuple of the lowest and the highest value: whole numbers, or floats if one
    of them is a float; ``(1, 10000, "log")`` samples logarithmically. Each trial is a sweep of one configuration in the folder
    ``out``. The value of a trial is the mean over ``seeds``. ``more`` is passed to ``sweep``. Returns Optuna's study:
    ``study.best_params``, ``study.trials_dataframe()``. With the default sampler (TPE, seed 1) the same search makes the same
    trials, and finished runs are not repeated. At the end ``rows.parquet`` in ``out`` has all runs.
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError("strobe.search needs Optuna: pip install optuna") from error
    if not space:
        raise ValueError("space: it has no key; give at least one")
    for key, choices in space.items():
        if isinstance(choices, tuple) and (len(choices) not in (2, 3) or choices[2:] not in ((), ("log",))):
            raise ValueError(f'{key}: {choices!r}; a range is (lowest, highest) or (lowest, highest, "log")')
    if trials < 1:
        raise ValueError(f"trials: {trials}; at least 1")
    for key, choices in space.items():
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise ValueError(f"{key}: {choices!r}; give a list of choices, or a range as (lowest, highest)")
    measures = [measure] if isinstance(measure, str) else list(measure)
    directions = [direction] * len(measures) if isinstance(direction, str) else list(direction)
    if len(directions) != len(measures) or not measures:
        raise ValueError(f"direction: {len(directions)} directions for {len(measures)} measures; give one for each")
    for goal in directions:
        if goal not in ("minimize", "maximize"):
            raise ValueError(f'direction: {goal!r}; allowed are "minimize" and "maximize"')
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=directions, sampler=sampler or optuna.samplers.TPESampler(seed=1))

    def one(trial: Any) -> list[float]:
        values: dict[str, Any] = {}
        for key, choices in space.items():
            if not isinstance(choices, tuple):
                values[key] = trial.suggest_categorical(key, list(choices))
            else:
                ends, is_log = choices[:2], len(choices) == 3
                is_float = any(isinstance(end, float) for end in ends)
                suggest = trial.suggest_float if is_float else trial.suggest_int
                values[key] = suggest(key, *ends, log=is_log)
        found = sweep(experiment, out=out, points=[values], seeds=seeds, measure=measures, shared=True, **more)
        only = found.configurations[0]
        estimates = [only["measures"][name] for name in measures]
        if None in estimates:
            raise optuna.TrialPruned(only["error"])
        return [float(estimate["mean"]) for estimate in estimates]

    study.optimize(one, n_trials=trials)
    tried: list[dict[str, Any]] = []
    for trial in study.trials:
        if trial.params not in tried:
            tried.append(trial.params)
    # Writes all runs to one file, without repeating any.
    sweep(experiment, out=out, points=tried, seeds=seeds, measure=measures, shared=True, **more)
    return study
