"""Random experiments for the checker of results, small enough to run in a fraction of a second.

``draw(seed)`` is reproducible: a seed always gives the same experiment. strobe accepts most draws; after a refusal the
caller draws another one.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

Table = dict[str, Any]

VICTIMS = [
    "greedy", "windowed-greedy", "cost-benefit", "lfs", "cat", "fegc", "capi", "scata", "scata-newest", "fifo", "random",
    "d-choices", "age * (1-u) / (1+u)^2", "invalid / (erase_count + 1)", "-valid",
]
REQUEST_BYTES = [512, 1024, 1536, 4096, 4096, 4096, 8192, 12288, 16384, 65536, 131072, 1 << 20, 8 << 20]


def draw(seed: int, timing: bool | None = None) -> Table:
    """Returns the experiment of a seed; ``timing`` overrides the drawn choice."""
    r = Random(seed)
    timing = r.random() < 0.8 if timing is None else timing
    drive = draw_drive(r, timing)
    experiment: Table = {"seed": r.randrange(1, 1 << 32), "drive": drive}
    size = logical_bytes(drive)
    if timing and r.random() < 0.3:
        experiment["jobs"] = draw_jobs(r, size)
    else:
        experiment["workload"] = draw_workload(r, size, timing)
    hosts = experiment.get("jobs") or [experiment["workload"]]
    # Windows in host pages count written pages: with few writes among many reads they would take too long.
    in_time = timing and (len(hosts) > 1 or any(0 < host["write_fraction"] < 0.5 for host in hosts))
    experiment["run"] = draw_run(r, timing, in_time, size // drive["ftl"]["mapping_unit_bytes"])
    if in_time and drive["nand"].get("read_ns") == 0:
        # Reads without flash time are fast: a longer window would hold too many.
        experiment["run"].update({key: "3ms" for key in ("measure", "warmup") if key in experiment["run"]})
    return experiment


def draw_drive(r: Random, timing: bool) -> Table:
    mapping = r.choices(["page", "dftl", "replacement-block", "log-block", "fast"], [55, 18, 9, 9, 9])[0]
    paged = mapping in ("page", "dftl")
    nand = draw_nand(r, mapping, timing)
    # Block-mapped schemes map whole flash pages.
    units = [u for u in (512, 1024, 2048, 4096, 8192, 16384) if nand["page_bytes"] % u == 0]
    unit = r.choice(units[-3:]) if paged else (units[-1] if units[-1] == nand["page_bytes"] else 0)
    if unit == 0:
        nand["page_bytes"] = unit = 4096
    ftl: Table = {
        "mapping": mapping,
        "mapping_unit_bytes": unit,
        "over_provisioning": round(r.choice([0.15, 0.25, 0.4, 0.7, 1.2]) * r.uniform(0.9, 1.4), 3),
    }
    drive: Table = {"nand": nand, "ftl": ftl, "controller": draw_controller(r, timing)}
    if paged and timing and r.random() < 0.3:
        ftl["die_allocation"] = r.choice(["free-first", "stripe"])
    if r.random() < 0.15:
        ftl["durable_map"] = True
    if paged:
        draw_page_map(r, drive, timing)
    else:
        ftl["log_blocks"] = r.choice([2, 3, 4, 6, 8, 16])
        if mapping == "log-block" and r.random() < 0.5:
            ftl["log_victim"] = r.choice(["lru", "mru", "fifo", "fullest", "emptiest"])
        ftl["over_provisioning"] = max(ftl["over_provisioning"], 0.7)
    return drive


def draw_nand(r: Random, mapping: str, timing: bool) -> Table:
    nand: Table = {
        "channels": r.choice([1, 1, 1, 2, 3, 4]),
        "dies_per_channel": r.choice([1, 1, 2, 3]),
        "planes_per_die": r.choice([1, 1, 1, 2, 4]),
        "pages_per_block": r.choice([4, 7, 8, 12, 16, 31, 32, 64]),
        "page_bytes": r.choice([512, 2048, 4096, 4096, 8192, 12288, 16384]),
    }
    planes = nand["channels"] * nand["dies_per_channel"] * nand["planes_per_die"]
    most_blocks = max(6 * planes, 12_000 // nand["pages_per_block"])
    nand["blocks_per_plane"] = max(12, min(r.choice([16, 24, 40, 64, 200]), most_blocks // planes))
    # With a low endurance, nearly full drives of a few blocks would wear out during the run.
    nand["endurance_pe"] = r.choice([0, 1_000_000])
    if r.random() < 0.1:
        nand["factory_bad_blocks"] = r.choice([1, 2])
    if mapping == "replacement-block":
        nand["any_page_order"] = True
    elif mapping in ("page", "dftl") and r.random() < 0.15:
        if factors := [k for k in (2, 3, 4) if nand["pages_per_block"] % k == 0]:
            nand["pages_per_program"] = r.choice(factors)
    if r.random() < 0.1:
        nand["read_retry"] = {"fresh": r.choice([0.3, 3.0]), "per_kread": r.choice([0.0, 2.0])}
    if timing:
        draw_times(r, nand)
    return nand


def draw_times(r: Random, nand: Table) -> None:
    types = r.choice([types for types in (1, 1, 2, 3, 6) if nand["pages_per_block"] % types == 0])
    nand["read_ns"] = r.choice([0, 25_000, 60_000])
    nand["program_ns"] = r.choice([200_000, 700_000])
    if types > 1 and "pages_per_program" not in nand:
        nand["read_ns"] = [nand["read_ns"] + 15_000 * i for i in range(types)]
        nand["program_ns"] = [nand["program_ns"] * (i + 1) for i in range(types)]
    nand["erase_ns"] = r.choice([0, 2_000_000, 5_000_000])
    nand["channel_mb_s"] = r.choice([0, 40, 400, 1200])
    optional: Table = {"command_ns": 300, "spare_bytes": 64, "cache_program": True}
    if nand["channel_mb_s"]:
        optional["cache_read"] = True
    if nand["planes_per_die"] > 1:
        optional["independent_plane_reads"] = True
    nand.update({key: value for key, value in optional.items() if r.random() < 0.15})
    if nand["erase_ns"] and r.random() < 0.2:
        nand["suspend"] = {"most": r.choice([1, 4, 100])}


def draw_controller(r: Random, timing: bool) -> Table:
    controller: Table = {}
    if timing:
        # With command_ns = 0 a buffered write would take no time, and a closed loop of them would never end.
        controller["command_ns"] = r.choice([200, 1000, 5000])
        if r.random() < 0.4:
            controller["latency_ns"] = r.choice([5000, 20_000])
        if r.random() < 0.15:
            controller["jitter_ns"] = 3000
        if r.random() < 0.1:
            controller["write_throttle_ns"] = r.choice([2000, 50_000])
        if r.random() < 0.3:
            controller["link_mb_s"] = r.choice([100, 3000])
    if r.random() < 0.35:
        controller["write_buffer_bytes"] = r.choice([1, 65_536, 262_144, 1 << 20])
    if r.random() < 0.12:
        controller["nvram"] = {"bytes": r.choice([16_384, 65_536, 1 << 20])}
        if r.random() < 0.3:
            controller["nvram"].update(policy="lba-range", ranges=[{"first_sector": 0, "sectors": r.choice([64, 1000])}])
        if timing:
            controller["nvram"].update(read_ns=100, write_ns=200)
    if timing and r.random() < 0.1:
        controller["trim"] = {"command_ns": 10_000, "range_ns": 500}
    return controller


# Placement schemes with a configurable number of streams.
OF_STREAMS = ["sepbit", "gw", "dac", "fadac", "warcip", "sfs", "midas"]
# Placement schemes that work with every victim policy, and formulas.
SCHEMES = ["hot-cold", "sorted", "hints", "handles", *OF_STREAMS, "uw", "sep-gc", "2r", "stream + 1 - 2 * is_copy",
           "is_copy * (1 + min(copies, 2))", "(1 - is_copy) * min(age / 500, 1) + 2 * is_copy"]


def draw_page_map(r: Random, drive: Table, timing: bool) -> None:
    ftl, nand = drive["ftl"], drive["nand"]
    gc: Table = {"victim": r.choice(VICTIMS)}
    if gc["victim"] == "d-choices":
        gc["choices"] = r.choice([2, 10])
    if gc["victim"] == "windowed-greedy":
        gc["window"] = r.choice([1, 4, 30])
    if timing and r.random() < 0.35:
        gc["mode"] = "stop-the-world"
    elif timing and ftl["mapping"] == "page" and r.random() < 0.2:
        gc.update({key: value for key, value in {"victims": 2, "read_pages": 3}.items() if r.random() < 0.5})
    if "victims" not in gc and "read_pages" not in gc and r.random() < 0.35:
        ftl["placement"] = {"scheme": r.choice(SCHEMES)}
        scheme = ftl["placement"]["scheme"]
        if scheme in ("hot-cold", "sorted") and r.random() < 0.5:
            ftl["placement"]["temperature"] = r.choice(["update-count", "update-rate", "last-write"])
        if (scheme in OF_STREAMS or " " in scheme) and r.random() < 0.5:
            ftl["placement"]["streams"] = r.choice([3, 5, 8])
        if scheme == "handles" and r.random() < 0.5:
            ftl["placement"].update(handles=r.choice([1, 3]), isolation="persistent")
    if r.random() < 0.15 and ftl.get("placement", {}).get("scheme") in (None, "hot-cold", "sorted"):
        gc["stream"] = "host"
    if r.random() < 0.1:
        gc["min_free_blocks"] = r.choice([3, 6])
    ftl["gc"] = gc
    if r.random() < 0.2:
        ftl["allocation"] = r.choice(["least-erased", "adaptive", "above-average"])
    is_persistent = ftl.get("placement", {}).get("isolation") == "persistent"
    if r.random() < 0.2 and not is_persistent:
        ftl["wear_leveling"] = {"kind": r.choice(["swap", "dual-pool", "sw-leveler"]), "threshold": r.choice([1, 4, 16])}
    if ftl["mapping"] == "dftl":
        ftl["translation"] = {"cached_entries": r.choice([16, 100, 1000, 100_000])}
        # Collection is slow if each relocated unit programs a map page and victims are nearly full of valid data.
        ftl["over_provisioning"] = max(ftl["over_provisioning"], 0.6)
        if r.random() < 0.4 and gc["victim"] in ("greedy", "cost-benefit"):
            ftl["translation"]["batched_eviction"] = False
    elif r.random() < 0.15 and "pages_per_program" not in nand:
        bits = [b for b in (2, 3, 4) if nand["pages_per_block"] % b == 0]
        if bits:
            nand["slc"] = {"bits_per_cell": r.choice(bits)}
            blocks = r.choice([{"static_blocks": 2}, {"dynamic_blocks": 6}, {"static_blocks": 2, "dynamic_blocks": 4}])
            ftl["slc_cache"] = {**blocks, "when_full": r.choice(["direct", "fold"])}
            ftl["over_provisioning"] = max(ftl["over_provisioning"], 0.5)


def logical_bytes(drive: Table) -> int:
    """Returns a low estimate of the logical capacity in bytes."""
    nand = drive["nand"]
    blocks = nand["channels"] * nand["dies_per_channel"] * nand["planes_per_die"] * nand["blocks_per_plane"]
    return int(blocks * nand["pages_per_block"] * nand["page_bytes"] / (1 + drive["ftl"]["over_provisioning"]) * 0.98)


def draw_requests(r: Random, size: int) -> Table:
    """Draws the generator keys that [workload] and [[jobs]] share."""
    kind = r.choice(["uniform", "uniform", "sequential", "zipf", "hotcold", "gaussian"])
    keys: Table = {"kind": kind, "write_fraction": r.choice([1.0, 1.0, 0.7, 0.5, 0.05, 0.0])}
    # At least four request slots, so that every distribution has several classes.
    sizes = [b for b in REQUEST_BYTES if b * 4 <= size]
    if r.random() < 0.12:
        small, large = sorted(r.sample(sorted(set(sizes[:9])), 2)) if len(set(sizes[:9])) > 1 else (512, 1024)
        keys["block_split"] = [{"block_bytes": small, "percent": 60.0}, {"block_bytes": large, "percent": 40.0}]
    else:
        keys["block_bytes"] = r.choice(sizes)
        if r.random() < 0.2 and keys["write_fraction"] > 0:
            keys["trim_fraction"] = r.choice([0.05, 0.3])
            if r.random() < 0.3:
                keys["trim_ranges"] = r.choice([2, 16])
    if r.random() < 0.1:
        keys["offset_bytes"] = 512 * r.randrange(1, 20)
    if r.random() < 0.2:
        keys["flush_every"] = r.choice([1, 5, 64])
    if kind == "zipf":
        keys["theta"] = r.choice([0.5, 1.1, 2.0])
    return keys


def draw_host(r: Random) -> Table:
    """Draws queue depth, rate and think time."""
    keys: Table = {"queue_depth": r.choice([1, 1, 2, 4, 8, 32, 128, 1024])}
    kind = r.random()
    if kind < 0.3:
        keys["rate_iops"] = r.choice([100, 1000, 3000, 10_000, 100_000])
        keys["rate_process"] = r.choice(["linear", "poisson"])
    elif kind < 0.37:
        keys["thinktime"] = r.choice(["100us", "2ms"])
        keys["thinktime_blocks"] = r.choice([1, 10])
    return keys


def draw_workload(r: Random, size: int, timing: bool) -> Table:
    return {**draw_requests(r, size), **(draw_host(r) if timing else {})}


def draw_jobs(r: Random, size: int) -> list[Table]:
    jobs = [draw_job(r, size, name) for name in "abc"[: r.randint(1, 3)]]
    if len(jobs) > 1 and any("trim_fraction" in job for job in jobs):
        # A job that trims gets a separate region.
        share = size // len(jobs) // 16_384 * 16_384
        for index, job in enumerate(jobs):
            job.update(offset_bytes=index * share, size_bytes=share)
            if job.get("block_bytes", 0) > share // 4:
                job["block_bytes"] = 4096
    return jobs


def draw_job(r: Random, size: int, name: str) -> Table:
    keys: Table = {"name": name, **draw_requests(r, size), **draw_host(r)}
    if r.random() < 0.2 and "trim_fraction" not in keys:
        keys["numjobs"] = r.choice([2, 3])
    if r.random() < 0.15:
        # A job without pauses; the other jobs may pause.
        keys = {key: of for key, of in keys.items() if key not in ("rate_iops", "rate_process", "thinktime", "thinktime_blocks")}
        keys["queue_depth"] = r.choice([16, 64, 256])
    if name != "a" and r.random() < 0.2:
        keys["startdelay"] = r.choice(["500us", "20ms"])
    if name != "a" and r.random() < 0.15:
        keys["runtime"] = r.choice(["10ms", "300ms"])
    return keys


def draw_run(r: Random, timing: bool, in_time: bool, pages: int) -> Table:
    lengths: list[Any] = ["0.1x", "0.3x", "1x", "1x", max(1, pages // 3), r.randint(1, 500)]
    keys: Table = {"measure": r.choice(lengths)}
    if timing and (in_time or r.random() < 0.3):
        keys["measure"] = r.choice(["1ms", "20ms", "137us", "300ms"])
    if r.random() < 0.6:
        keys["warmup"] = r.choice(["0.5x", "1x", r.randint(1, 300)])
        if timing and (in_time or r.random() < 0.3):
            keys["warmup"] = r.choice(["1ms", "33ms", "200ms"])
    if r.random() < 0.15:
        keys["prefill"] = False
    elif r.random() < 0.2:
        keys["precondition"] = r.choice(["0.5x", "1x"])
    if timing:
        if r.random() < 0.3:
            keys["interval"] = r.choice(["1ms", "10ms", "100ms"])
        keys["latency_bins"] = r.random() < 0.4
    else:
        keys["timing"] = False
    if r.random() < 0.1:
        keys["check"] = True
    return keys


def to_toml(experiment: Table) -> str:
    """Returns the experiment as TOML for ``strobe run``."""
    lines: list[str] = []
    write_table(lines, "", experiment)
    return "\n".join(lines).strip() + "\n"


def value(of: Any) -> str:
    if isinstance(of, dict):
        return "{ " + ", ".join(f"{key} = {value(inner)}" for key, inner in of.items()) + " }"
    if isinstance(of, list):
        return "[" + ", ".join(map(value, of)) + "]"
    return json.dumps(of)


def write_table(lines: list[str], path: str, table: Table) -> None:
    lines += [f"{key} = {value(of)}" for key, of in table.items() if not isinstance(of, dict) and key != "jobs"]
    for key, of in table.items():
        name = f"{path}{key}"
        if isinstance(of, dict):
            lines.append(f"[{name}]")
            write_table(lines, f"{name}.", of)
    for job in table.get("jobs", []):
        lines.append("[[jobs]]")
        write_table(lines, "jobs.", job)
