"""Relations between runs that hold on every drive: counters are equal, differ, add up or agree.

Each relation takes an experiment, derives further experiments from it, runs them and asserts. ``NotMeant`` says that the
relation does not apply to the experiment.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import checker_draw
from checker_draw import Table
from checker_run import KINDS, run, run_text

# Parts of a result with counters of the measured window.
COUNTED = ("host", "nand", "gc", "copy", "nvram", "merges", "translation", "slc", "dies")
# Keys in these parts that are no counters: ratios, and state of the drive at the end.
NOT_COUNTS = ("copies_per_erase", "busy", "count", "blocks_in_use")


class NotMeant(Exception):
    """The relation does not apply to this experiment."""


def changed(experiment: Table, **keys: Any) -> Table:
    """Returns the experiment with keys of [run] set, or removed if the value is None."""
    other = copy.deepcopy(experiment)
    for key, value in keys.items():
        other["run"].pop(key, None)
        if value is not None:
            other["run"][key] = value
    return other


def counts(result: Table) -> dict[str, float]:
    """Returns all counters of the window, by path."""
    found: dict[str, float] = {}

    def collect(path: str, of: Any) -> None:
        if isinstance(of, dict):
            for key, inner in of.items():
                if key not in NOT_COUNTS:
                    collect(f"{path}.{key}", inner)
        elif isinstance(of, int) and not isinstance(of, bool):
            found[path] = of

    for key in COUNTED:
        collect(key, result.get(key) or {})
    found["window.host_pages"] = result["window"]["host_pages"]
    return found


def job_counts(result: Table) -> dict[str, float]:
    """Returns requests, bytes, latencies and arrivals of each job, by path."""
    found: dict[str, float] = {"virtual_ns": result["time"]["virtual_ns"]}
    for index, job in enumerate(result["jobs"]):
        for kind in (*KINDS, "sync"):
            table = job[kind]
            found[f"jobs.{index}.{kind}.total_ios"] = table["total_ios"]
            found[f"jobs.{index}.{kind}.io_bytes"] = table.get("io_bytes", 0)
            latencies = table.get("lat_ns" if kind == "sync" else "clat_ns")
            if latencies:
                found[f"jobs.{index}.{kind}.latency_sum"] = round(latencies["N"] * latencies["mean"])
        for key in ("offered", "served") if job.get("load") else ():
            found[f"jobs.{index}.load.{key}"] = job["load"][key]
    return found


def assert_equal(one: dict[str, float], other: dict[str, float], told: str) -> None:
    differing = {key: (one.get(key), other.get(key)) for key in {**one, **other} if one.get(key) != other.get(key)}
    assert not differing, f"{told}: {len(differing)} counters differ: {dict(list(differing.items())[:6])}"


def same_bytes_twice(experiment: Table) -> None:
    one, other = run_text(experiment), run_text(experiment)
    assert one == other, f"two runs differ: {first_difference(one, other)}"


def first_difference(one: str, other: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return f"{one[max(at - 60, 0):at + 40]!r} and {other[max(at - 60, 0):at + 40]!r}"


def other_seed_other_run(experiment: Table) -> None:
    """Random writes with garbage collection: another seed gives other counters.

    Two seeds may agree by chance if few blocks are collected, so one of four others has to differ.
    """
    hosts = experiment.get("jobs") or [experiment["workload"]]
    if not any(host["kind"] != "sequential" and host["write_fraction"] > 0 for host in hosts):
        raise NotMeant
    one = run(experiment)
    if one["gc"]["units_moved"] < 50 or one["host"]["pages_written"] < 50:
        raise NotMeant
    others = (run({**experiment, "seed": experiment["seed"] + step}) for step in (1, 2, 3, 4))
    differs = any(counts(one) != counts(other) for other in others)
    assert differs, f"seeds {experiment['seed']} to {experiment['seed'] + 4} have equal counters: gc {one['gc']}"


def observing_changes_nothing(experiment: Table) -> None:
    """Series, latency bins, X-ray frames and the whole-state checker do not change the run."""
    looks: list[Table] = [{"check": True}, {"check": None}]
    if experiment["run"].get("timing", True):
        looks += [{"interval": "3ms"}, {"interval": None}, {"latency_bins": True}, {"latency_bins": False}, {"xray": 7}]
    one = run(experiment)
    for look in looks:
        other = run(changed(experiment, **look))
        told = f"{look} changes the run"
        assert_equal(counts(one), counts(other), told)
        assert_equal(job_counts(one), job_counts(other), told)
        assert one["wear"] == other["wear"], f"{told}: wear {one['wear']} and {other['wear']}"


def windows_in_time_add_up(experiment: Table) -> None:
    """Counters of two consecutive windows add up to the counters of one window over both, to the nanosecond."""
    if not experiment["run"].get("timing", True):
        raise NotMeant
    r = Random(experiment["seed"])
    first, second = r.randint(1, 20_000_000), r.randint(1, 20_000_000)
    short = run(changed(experiment, warmup=0, measure=f"{first}ns"))
    later = run(changed(experiment, warmup=f"{first}ns", measure=f"{second}ns"))
    whole = run(changed(experiment, warmup=0, measure=f"{first + second}ns"))
    assert_windows_add_up(short, later, whole, f"{first} ns and {second} ns")


def windows_in_pages_add_up(experiment: Table) -> None:
    """Counters of consecutive windows in host pages add up: the second window begins when the first ends."""
    r = Random(experiment["seed"])
    first, second = r.randint(1, 400), r.randint(1, 400)
    short = run(changed(experiment, warmup=0, measure=first))
    later = run(changed(experiment, warmup=first, measure=second))
    pages = short["window"]["host_pages"] + later["window"]["host_pages"]
    whole = run(changed(experiment, warmup=0, measure=pages))
    assert_windows_add_up(short, later, whole, f"{first} and {second} host pages")


def assert_windows_add_up(short: Table, later: Table, whole: Table, told: str) -> None:
    for part in (counts, job_counts):
        added = {key: value + part(later).get(key, 0) for key, value in part(short).items()}
        assert_equal(added, part(whole), f"windows of {told}: their sum and one window over both")
    assert later["wear"]["histogram"] == whole["wear"]["histogram"], (
        f"windows of {told}: drives end with erases {later['wear']['histogram']} and {whole['wear']['histogram']}"
    )


def time_changes_no_counts(seed: int) -> Table:
    """Timing changes no counters at queue depth 1, without a buffer, with stop-the-world collection and striped dies."""
    experiment = checker_draw.draw(seed, timing=False)
    experiment["drive"]["ftl"].pop("slc_cache", None)
    for key in ("write_buffer_bytes", "nvram"):
        experiment["drive"]["controller"].pop(key, None)
    timed = changed(experiment, timing=None)
    timed["drive"]["controller"]["command_ns"] = 700
    if timed["drive"]["ftl"]["mapping"] in ("page", "dftl"):
        timed["drive"]["ftl"]["die_allocation"] = "stripe"
        timed["drive"]["ftl"]["gc"]["mode"] = "stop-the-world"
    one, other = run(experiment), run(timed)
    left_out = TIMES
    ftl = timed["drive"]["ftl"]
    if ftl["mapping"] == "dftl" and timed["drive"]["nand"]["page_bytes"] > ftl["mapping_unit_bytes"]:
        # An eviction by a read may start a collection. The next read finds units in flight at their old addresses.
        left_out = (*TIMES, *READS)
    with_time = {key: value for key, value in counts(other).items() if not key.startswith("dies.") and key not in left_out}
    without = {key: value for key, value in counts(one).items() if key not in left_out}
    assert_equal(without, with_time, f"seed {seed}, without and with time\n{checker_draw.to_toml(timed)}")
    for key in ("wear", "smart", "waf"):
        assert one[key] == other[key], f"seed {seed}: {key} without time {one[key]}, with time {other[key]}"
    return timed


# Counters that timing may change: READS only with dftl and several units per page, TIMES always.
READS = ("nand.read.total", "nand.read.by_cause.host", "nand.read_retries")
TIMES = ("host.stalled_writes", "host.stalled_ns", "gc.time_ns")


def workload_is_a_job(experiment: Table) -> None:
    """[workload] and a single entry of [[jobs]] with the same keys give the same run."""
    if "workload" not in experiment or not experiment["run"].get("timing", True):
        raise NotMeant
    other = {key: value for key, value in experiment.items() if key != "workload"}
    other["jobs"] = [{"name": "a", **experiment["workload"]}]
    one, two = run(experiment), run(other)
    told = "as [workload] and as [[jobs]]"
    assert_equal(job_counts(one), job_counts(two), told)
    assert_equal(counts(one), counts(two), told)
    for kind in KINDS:
        assert one["jobs"][0][kind] == two["jobs"][0][kind], f"{told}: {one['jobs'][0][kind]}, {two['jobs'][0][kind]}"


def sequential_requests_are_a_trace(experiment: Table, folder: str) -> None:
    """A sequential generator and a trace of its requests agree to the nanosecond, at queue depth 1 or at a linear rate."""
    r = Random(experiment["seed"])
    if not experiment["run"].get("timing", True):
        raise NotMeant
    experiment = changed(experiment, warmup=0, prefill=True, interval=None)
    for host in ("jobs", "workload"):
        experiment.pop(host, None)
    unit = experiment["drive"]["ftl"]["mapping_unit_bytes"]
    size, count = unit * r.choice([1, 2, 5]), r.randint(20, 200)
    gap_ns = r.choice([0, 0, 2_000_000, 250_000])
    requests: Table = {"kind": "sequential", "block_bytes": size}
    if gap_ns:
        # The job ends after ``count`` arrivals, and the queue holds them all: as in the trace, ``count`` requests are served.
        job = {"rate_iops": 1_000_000_000 // gap_ns, "queue_depth": 65_536, "runtime": f"{count * gap_ns}ns"}
        generated = run(changed({**experiment, "jobs": [{"name": "a", **requests, **job}]}, measure=None))
    else:
        generated = run(changed({**experiment, "workload": requests}, measure=count * size // unit))
    slots = generated["capacity"]["logical_bytes"] // size
    lines = [f"{k * (gap_ns or 1)} write {k % slots * size} {size}" for k in range(count)]
    path = write_trace(folder, experiment["seed"], lines)
    workload: Table = {"kind": "trace", "path": path, "format": "strobe"}
    if not gap_ns:
        workload.update(pacing="closed", queue_depth=1)
    replayed = run(changed({**experiment, "workload": workload}, measure=None))
    told = f"{count} sequential writes of {size} bytes, {gap_ns} ns apart, generated and from {path}"
    assert_equal(counts(generated), counts(replayed), told)
    one, other = generated["jobs"][0]["write"]["clat_ns"], replayed["jobs"][0]["write"]["clat_ns"]
    assert one == other, f"{told}: {one} and {other}"


def trace_is_counted_as_it_is(experiment: Table, folder: str) -> None:
    """A replayed trace of random requests has the requests, bytes, units and partly written units that are counted here."""
    r = Random(experiment["seed"])
    experiment = changed(experiment, warmup=None, measure=None, interval=None, prefill=True, precondition=None)
    experiment.pop("jobs", None)
    unit = experiment["drive"]["ftl"]["mapping_unit_bytes"]
    sectors = checker_draw.logical_bytes(experiment["drive"]) // 512
    expected: dict[str, int] = {f"{kind}.{what}": 0 for kind in KINDS for what in ("commands", "bytes")}
    expected.update({"flush.commands": 0, "pages_written": 0, "read_modify_writes": 0})
    lines = []
    for k in range(r.randint(1, 300)):
        kind = r.choice(["read", "write", "write", "write", "trim", "flush"])
        lines.append(f"{k * 1000} {kind}")
        expected[f"{kind}.commands"] += 1
        if kind == "flush":
            continue
        length = min(r.choice([1, 3, 8, 16, 100, 2048]), sectors)
        first, of = 512 * r.randint(0, sectors - length), 512 * length
        lines[-1] += f" {first} {of}"
        expected[f"{kind}.bytes"] += of
        if kind == "write":
            touched = (first + of - 1) // unit - first // unit + 1
            whole = max(0, (first + of) // unit - -(-first // unit))
            expected["pages_written"] += touched
            expected["read_modify_writes"] += touched - whole
    path = write_trace(folder, experiment["seed"], lines)
    workload: Table = {"kind": "trace", "path": path, "format": "strobe"}
    if experiment["run"].get("timing", True):
        workload.update(pacing="closed", queue_depth=r.choice([1, 7]))
    host = run({**experiment, "workload": workload})["host"]
    counted = {key: host[key] if "." not in key else host[key.split(".")[0]][key.split(".")[1]] for key in expected}
    # Unmapped units need no read-modify-write, so trims reduce their number.
    merged, partly = counted.pop("read_modify_writes"), expected.pop("read_modify_writes")
    assert counted == expected, f"{path}: host has {counted}, the trace {expected}"
    assert merged <= partly, f"{path}: {merged} read-modify-writes of {partly} partly written units"


def write_trace(folder: str, name: int, lines: list[str]) -> str:
    path = f"{folder}/{name}.trace"
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(["strobe trace 1", *lines]) + "\n")
    return path


def draw_steady(seed: int) -> Table:
    """Returns a closed-loop experiment on a drive that is in steady state after a few capacities of random writes."""
    r = Random(seed)
    nand = {
        "channels": r.choice([1, 2]), "dies_per_channel": r.choice([1, 2, 4]), "planes_per_die": r.choice([1, 2]),
        "pages_per_block": r.choice([16, 24, 32]), "page_bytes": r.choice([4096, 8192]),
        "program_ns": r.choice([200_000, 700_000]), "channel_mb_s": r.choice([100, 800]),
    }
    planes = nand["channels"] * nand["dies_per_channel"] * nand["planes_per_die"]
    nand["blocks_per_plane"] = max(24, 16_384 // nand["pages_per_block"] // planes)
    ftl = {
        "mapping": r.choice(["page", "page", "dftl"]), "mapping_unit_bytes": 4096, "over_provisioning": r.choice([0.25, 0.4]),
        "gc": {"mode": r.choice(["background", "background", "stop-the-world"]), "victim": r.choice(["greedy", "fifo"])},
    }
    controller = {"command_ns": 1000, "write_buffer_bytes": r.choice([0, 262_144])}
    workload = {"kind": "uniform", "write_fraction": r.choice([1.0, 0.7]), "queue_depth": r.choice([1, 8, 32, 64])}
    drive = {"nand": nand, "ftl": ftl, "controller": controller}
    return {"seed": 1, "drive": drive, "workload": workload, "run": {"warmup": "4x"}}


def length_of_a_steady_window_does_not_matter(seed: int) -> None:
    """Windows of 0.05, 0.2, 1 and 4 capacities agree in throughput and in mean latency.

    Stalls on a full buffer are rare and long. Four short windows may contain none, and their standard error is then too
    small. If four seeds disagree, a run with more seeds decides.
    """
    experiment = draw_steady(seed)
    if experiment["workload"]["write_fraction"] < 1.0 and experiment["drive"]["ftl"]["mapping"] == "dftl":
        experiment["run"]["warmup"] = "5x"
    try:
        windows_agree(experiment, dict.fromkeys(LENGTHS, 4))
    except AssertionError:
        windows_agree(experiment, {"0.05x": 96, "0.2x": 48, "1x": 24, "4x": 12})


LENGTHS = ("0.05x", "0.2x", "1x", "4x")


def windows_agree(experiment: Table, seeds: dict[str, int]) -> None:
    """Asserts that short windows agree with the longest; ``seeds`` has the number of seeds per length."""
    found: dict[str, dict[str, list[float]]] = {}
    for length in LENGTHS:
        results = [run({**changed(experiment, measure=length), "seed": s + 1}) for s in range(seeds[length])]
        writes = [result["jobs"][0]["write"] for result in results]
        found[length] = {"iops": [table["iops"] for table in writes], "mean latency": [w["clat_ns"]["mean"] for w in writes]}
    for length in LENGTHS[:-1]:
        for what, values in found[length].items():
            told = f"{what} in windows of {length} and {LENGTHS[-1]}\n{checker_draw.to_toml(changed(experiment, measure=length))}"
            agree(values, found[LENGTHS[-1]][what], told)


def agree(short: list[float], long: list[float], told: str) -> None:
    """Asserts that the means over seeds agree within six standard errors and 1 %."""
    (a, sa), (b, sb) = mean_and_error(short), mean_and_error(long)
    # The standard error of four values is uncertain by 40 %. The drive still settles by a few thousandths.
    allowed = 6 * (sa**2 + sb**2) ** 0.5 + 0.01 * b
    assert abs(a - b) <= allowed, f"{a:.6g} ± {sa:.2g} and {b:.6g} ± {sb:.2g}, {allowed:.2g} allowed: {told}"


def mean_and_error(values: list[float]) -> tuple[float, float]:
    n = len(values)
    mean = sum(values) / n
    return mean, (sum((value - mean) ** 2 for value in values) / (n - 1) / n) ** 0.5


OF_EXPERIMENTS: list[Callable[[Table], None]] = [
    same_bytes_twice, other_seed_other_run, observing_changes_nothing, windows_in_time_add_up, windows_in_pages_add_up,
    workload_is_a_job,
]
OF_TRACES: list[Callable[[Table, str], None]] = [sequential_requests_are_a_trace, trace_is_counted_as_it_is]
OF_SEEDS: list[Callable[[int], None]] = [time_changes_no_counts, length_of_a_steady_window_does_not_matter]
SLOWEST = length_of_a_steady_window_does_not_matter.__name__


def relations(seed: int, folder: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yields the name and the assertion of each relation for the experiments of a seed. The slowest comes last."""
    experiment = checker_draw.draw(seed)
    for of_experiment in OF_EXPERIMENTS:
        yield of_experiment.__name__, partial(of_experiment, experiment)
    for of_trace in OF_TRACES:
        yield of_trace.__name__, partial(of_trace, experiment, folder)
    for of_seed in OF_SEEDS:
        yield of_seed.__name__, partial(of_seed, seed)
