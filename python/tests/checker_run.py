"""Runs experiments for the checker, with the program or in process, and names the parts of a result."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import tomllib
from typing import Any

import checker_draw
from checker_draw import Table

KINDS = ("read", "write", "trim")
UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
TIME_LIMIT_S = 60


class Refused(Exception):
    """strobe refused the experiment (exit code 2)."""


class Broken(Exception):
    """A run ended without a result: a panic, a failure, a hang."""


class WornDown(Exception):
    """The run ended early for a documented reason: the victim policy freed no blocks."""


NO_PROGRESS = "garbage collection makes no progress"


def broken(experiment: Table, reason: str) -> Exception:
    """Returns the exception for a run that ended without a result.

    Greedy always gains space if a block holds invalid data. Policies that weigh ages may keep choosing blocks that free
    less than padding and the map use. Such a run must end with the message NO_PROGRESS.
    """
    victim = experiment["drive"].get("ftl", {}).get("gc", {}).get("victim", "greedy")
    return WornDown(reason) if NO_PROGRESS in reason and victim != "greedy" else Broken(reason)


def run_text(experiment: Table) -> str:
    """Returns the JSON of a run, without the speed of the simulation."""
    program = os.environ.get("STROBE")
    return run_program(program, experiment) if program else run_in_process(experiment)


def run(experiment: Table) -> Table:
    result: Table = json.loads(run_text(experiment))
    return result


def run_program(program: str, experiment: Table) -> str:
    command = [program, "run", "-", "--json", "-", "--quiet", "--reproducible"]
    text = checker_draw.to_toml(experiment)
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise Broken(f"no result after {TIME_LIMIT_S} s") from error
    if done.returncode == 2:
        raise Refused(done.stderr.strip())
    if done.returncode != 0:
        raise broken(experiment, f"exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def run_in_process(experiment: Table) -> str:
    import strobe

    try:
        # Runs the TOML that a user would run by hand, not the mapping.
        result = strobe.run(tomllib.loads(checker_draw.to_toml(experiment)))
    except (strobe.ConfigError, strobe.BuildError) as error:
        raise Refused(str(error)) from error
    except (strobe.StrobeError, BaseException) as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise broken(experiment, f"{type(error).__name__}: {error}") from error
    return json.dumps(result.reproducible())


def accepted(seed: int) -> tuple[Table, Table | Broken]:
    """Returns the experiment of a seed and its result, or the failure of its run.

    A drive that is refused for its size gets the largest ``logical_pages`` that strobe allows. With dftl the refusal is
    raised instead: collections on such a full drive would take minutes.
    """
    experiment = checker_draw.draw(seed)
    try:
        return experiment, run_or_broken(experiment)
    except Refused as refusal:
        most = re.search(r"logical_pages to at most (\d+)", str(refusal))
        if not most or int(most[1]) < 100 or experiment["drive"]["ftl"]["mapping"] == "dftl":
            raise
        experiment["drive"]["ftl"].pop("over_provisioning")
        experiment["drive"]["ftl"]["logical_pages"] = int(most[1])
        return experiment, run_or_broken(experiment)


def run_or_broken(experiment: Table) -> Table | Broken:
    try:
        return run(experiment)
    except Broken as error:
        return error


def duration_ns(text: Any) -> int | None:
    """Returns the nanoseconds of a text like "20ms", or None if it is not a duration."""
    found = re.fullmatch(r"(\d+)(ns|us|ms|s)", text) if isinstance(text, str) else None
    return int(found[1]) * UNITS_NS[found[2]] if found else None


class Case:
    """An experiment and its result."""

    def __init__(self, experiment: Table, result: Table) -> None:
        self.experiment = experiment
        self.result = result
        config = result["config"]
        self.nand: Table = config["drive"]["nand"]
        self.ftl: Table = config["drive"]["ftl"]
        self.controller: Table = config["drive"]["controller"]
        self.run: Table = config["run"]
        self.timing: bool = self.run["timing"]
        self.host: Table = result["host"]
        self.jobs: list[Table] = result["jobs"]
        self.window_ns: int = result["time"]["virtual_ns"]
        self.unit: int = self.ftl["mapping_unit_bytes"]
        self.word_line_pages: int = self.nand.get("pages_per_program", 1)
        # Mapping units of a program.
        self.program_units: int = self.nand["page_bytes"] // self.unit * self.word_line_pages
        self.requests_of_jobs: list[Table] = self._expanded_jobs(config)
        self.is_file_system = self.requests_of_jobs[0].get("kind") == "lfs"
        self.is_trace = self.requests_of_jobs[0].get("kind") == "trace"

    def _expanded_jobs(self, config: Table) -> list[Table]:
        """Returns the keys of each job of the result."""
        if not config.get("jobs"):
            return [config["workload"]]
        return [job for job in config["jobs"] for _ in range(job.get("numjobs") or 1)]

    @property
    def blocks(self) -> int:
        nand = self.nand
        return int(nand["channels"] * nand["dies_per_channel"] * nand["planes_per_die"] * nand["blocks_per_plane"])

    @property
    def dies(self) -> int:
        return int(self.nand["channels"] * self.nand["dies_per_channel"])

    @property
    def programs_of_a_block(self) -> int:
        return int(self.nand["pages_per_block"] // self.word_line_pages)

    @property
    def logical_units(self) -> int:
        return int(self.result["capacity"]["logical_bytes"] // self.unit)

    @property
    def queue_depth(self) -> int:
        """Maximum number of outstanding requests, over all jobs."""
        return sum(job.get("queue_depth") or 1 for job in self.requests_of_jobs)

    @property
    def closed_loop(self) -> bool:
        """True if all jobs always have queue_depth requests outstanding."""
        limits = ("thinktime", "startdelay", "runtime", "rate_iops", "rate_points")
        return not self.is_trace and all(not job.get(key) for job in self.requests_of_jobs for key in limits)

    @property
    def units_of_request(self) -> int:
        """Maximum number of mapping units that one request touches."""
        return max(units_of(job, self.unit) for job in self.requests_of_jobs)

    @property
    def in_flight_units(self) -> int:
        """Maximum number of mapping units of all requests in flight."""
        jobs = self.requests_of_jobs
        return sum((job.get("queue_depth") or 1) * units_of(job, self.unit) for job in jobs)

    @property
    def buffered_units(self) -> int:
        """Maximum number of mapping units in the write buffer and the non-volatile cache."""
        cache = (self.controller.get("nvram") or {}).get("bytes", 0)
        buffer = self.controller.get("write_buffer_bytes", 0)
        # A buffer holds at least one program.
        return cache // self.unit + 1 + max(buffer // self.unit + 1, self.program_units) if cache or buffer else 0

    @property
    def page_transfer_ns(self) -> int:
        rate = self.nand["channel_mb_s"]
        return -(-(self.nand["page_bytes"] + self.nand.get("spare_bytes", 0)) * 1000 // rate) if rate else 0

    @property
    def whole_life(self) -> bool:
        """True if the measured window is the whole life of the drive: nothing was written before it."""
        run = self.run
        prefilled = run.get("prefill") if run.get("prefill") is not None else not self.is_trace
        return not prefilled and not run.get("warmup") and not run.get("precondition") and not run.get("until_steady")

    @property
    def writes_at_once(self) -> bool:
        """True if writes go to flash without a volatile buffer or non-volatile cache in between."""
        return not self.controller.get("write_buffer_bytes") and not (self.controller.get("nvram") or {}).get("bytes")

    def requests(self, kind: str) -> int:
        return int(sum(job[kind]["total_ios"] for job in self.jobs))

    def flushes(self) -> int:
        return int(sum(job["sync"]["total_ios"] for job in self.jobs))

    def latencies(self) -> list[tuple[str, Table]]:
        """Returns all latency tables from issue to completion, with the names of job and command."""
        found = [(f"{job['jobname']}.{kind}.clat_ns", job[kind]["clat_ns"]) for job in self.jobs for kind in KINDS]
        return found + [(f"{job['jobname']}.sync.lat_ns", job["sync"]["lat_ns"]) for job in self.jobs]

    def arrival_latencies(self) -> list[tuple[str, Table, Table]]:
        """Returns each latency table from arrival, if present, with its table from issue."""
        return [
            (f"{job['jobname']}.{kind}.lat_ns", job[kind]["lat_ns"], job[kind]["clat_ns"])
            for job in self.jobs for kind in KINDS if job[kind].get("lat_ns")
        ]

    def measured_intervals(self) -> list[Table]:
        return [interval for interval in self.result.get("intervals") or [] if interval["measured"]]


def request_sizes(job: Table) -> list[int]:
    """Returns the sizes of a generator's requests."""
    split = job.get("block_split")
    return [part["block_bytes"] for part in split] if split else [job.get("block_bytes") or 4096]


def units_of(job: Table, unit: int) -> int:
    """Returns the maximum number of mapping units that a request of a generator touches."""
    sizes, offset = request_sizes(job), job.get("offset_bytes") or 0
    # Slots have the smallest request size, so a request may begin inside a unit.
    if all(size % unit == 0 for size in sizes) and offset % unit == 0:
        return max(sizes) // unit
    if len(sizes) == 1 and unit % sizes[0] == 0 and offset % sizes[0] == 0:
        return 1
    return max(sizes) // unit + 2


def close(a: float, b: float, relative: float = 1e-9, absolute: float = 0.0) -> bool:
    return math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
