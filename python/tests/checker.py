"""Invariants of one result, derived from the documentation alone: the checker knows nothing of the engine.

A measured window is an interval (t0, t1] of virtual time. The drive is not drained at either end. Every counter counts a
request if it completes inside the window.

    python checker.py --count 5000 [--seed 1]     5000 random experiments
    python checker.py --toml 1234                 print the experiment of a seed
    python checker.py FILE.toml                   check one experiment

STROBE names the program. If it is not set, the Python package runs in process.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator

import checker_draw
import checker_load
import checker_pairs
import checker_time
from checker_run import KINDS, Broken, Case, Refused, WornDown, accepted, close, request_sizes, run

Check = Callable[[Case], None]


def run_reaches_its_end(case: Case) -> None:
    ended = case.result["ended_by"]
    assert ended in ("measure", "trace") and not case.result["partial"], f"ended by {ended}"


def host_commands_are_the_requests_of_jobs(case: Case) -> None:
    counted = {kind: case.host[kind]["commands"] for kind in KINDS} | {"flush": case.host["flush"]["commands"]}
    jobs = {kind: case.requests(kind) for kind in KINDS} | {"flush": case.flushes()}
    assert counted == jobs, f"host has {counted}, jobs have {jobs}"


def host_bytes_are_the_bytes_of_jobs(case: Case) -> None:
    counted = {kind: case.host[kind]["bytes"] for kind in KINDS}
    jobs = {kind: sum(job[kind]["io_bytes"] for job in case.jobs) for kind in KINDS}
    assert counted == jobs, f"host has {counted} bytes, jobs have {jobs}"


def bytes_fit_the_request_sizes(case: Case) -> None:
    for job, keys in zip(case.jobs, case.requests_of_jobs):
        if case.is_trace:
            return
        sizes, ranges = request_sizes(keys), keys.get("trim_ranges") or 1
        for kind in KINDS:
            count, of = job[kind]["total_ios"], job[kind]["io_bytes"]
            most = count * max(sizes) * (ranges if kind == "trim" else 1)
            assert count * min(sizes) <= of <= most, f"{count} {kind}s of {sizes} bytes have {of} bytes"


def total_is_the_sum_of_jobs(case: Case) -> None:
    total = case.result.get("total")
    for kind in KINDS if total else ():
        for key in ("total_ios", "io_bytes"):
            jobs = sum(job[kind][key] for job in case.jobs)
            assert total[kind][key] == jobs, f"total.{kind}.{key} is {total[kind][key]}, jobs have {jobs}"


def host_pages_are_units_written(case: Case) -> None:
    window, written = case.result["window"], case.host["pages_written"]
    assert close(window["capacities"], window["host_pages"] / case.logical_units), f"{window} of {case.logical_units} units"
    may_write = any(job.get("write_fraction", 1.0) > 0 for job in case.requests_of_jobs)
    if may_write and not case.is_file_system and not case.is_trace:
        assert window["host_pages"] == written, f"host_pages {window['host_pages']}, host.pages_written {written}"


def host_pages_without_writes_are_units_requested(case: Case) -> None:
    if case.host["pages_written"] == 0 and all(job.get("write_fraction", 1.0) == 0 for job in case.requests_of_jobs):
        pages = case.result["window"]["host_pages"]
        commands = case.requests("read") + case.requests("trim")
        requested = case.host["read"]["bytes"] + case.host["trim"]["bytes"]
        most = commands * case.units_of_request * max(job.get("trim_ranges") or 1 for job in case.requests_of_jobs)
        assert requested / case.unit <= pages <= most, f"{pages} pages of {commands} requests with {requested} bytes"


def units_written_fit_the_bytes(case: Case) -> None:
    written, commands, of = case.host["pages_written"], case.host["write"]["commands"], case.host["write"]["bytes"]
    assert of <= written * case.unit, f"{of} bytes in {written} units of {case.unit} bytes"
    if not case.is_trace:
        most = commands * case.units_of_request
        assert written <= most, f"{commands} writes of {case.units_of_request} units at most have {written} units"


def window_ends_with_the_page_asked_for(case: Case) -> None:
    asked = case.run["measure"]
    if isinstance(asked, str) and asked.endswith("x"):
        asked = float(asked[:-1]) * case.logical_units
    if isinstance(asked, str) or case.is_trace or case.result["ended_by"] != "measure":
        return
    pages = case.result["window"]["host_pages"]
    # Requests that complete at the same instant: at most one per queue slot.
    most = case.in_flight_units * max(job.get("trim_ranges") or 1 for job in case.requests_of_jobs)
    assert int(asked) <= pages < asked + most + 1, f"{pages} pages measured, {asked} asked, {most} complete at once"


def causes_add_up(case: Case) -> None:
    for operation in ("program", "read", "erase"):
        counts = case.result["nand"][operation]
        added = sum(counts["by_cause"].values())
        assert counts["total"] == added, f"nand.{operation}.total {counts['total']}, its causes {added}"


def waf_is_programs_per_unit_written(case: Case) -> None:
    waf, written = case.result["waf"], case.host["pages_written"]
    if written == 0:
        assert waf is None, f"waf {waf} without a write"
        return
    programs = case.result["nand"]["program"]["total"]
    expected = programs * case.program_units / written
    assert close(waf, expected), f"waf {waf}, {programs} programs of {case.program_units} units for {written}: {expected}"
    in_bytes = programs * case.program_units * case.unit / case.host["write"]["bytes"]
    assert close(case.result["waf_bytes"], in_bytes), f"waf_bytes {case.result['waf_bytes']}, counted {in_bytes}"


def programs_fit_the_erased_blocks(case: Case) -> None:
    programs, erases = (case.result["nand"][operation]["total"] for operation in ("program", "erase"))
    most = (erases + case.blocks) * case.programs_of_a_block
    assert programs <= most, f"{programs} programs, at most {most} fit {erases} erased blocks and {case.blocks} initial ones"
    # A block erased in the window was programmed in it, or was already full when it began.
    assert erases <= programs + case.blocks, f"{erases} erases of {case.blocks} blocks and {programs} programs"


def host_programs_are_the_units_written(case: Case) -> None:
    """Without a buffer and with one unit per page, each written unit costs one host program."""
    paged = case.ftl["mapping"] in ("page", "dftl") and case.program_units == 1
    if not paged or not case.writes_at_once or case.nand.get("program_fail_rate") or case.is_trace:
        return
    programs, written = case.result["nand"]["program"]["by_cause"]["host"], case.host["pages_written"]
    edge = case.in_flight_units if case.timing else 0
    assert abs(programs - written) <= edge, f"{programs} host programs for {written} units written, {edge} in flight"


def moved_units_fit_their_programs(case: Case) -> None:
    if case.ftl["mapping"] not in ("page", "dftl"):
        return
    gc, programs = case.result["gc"], case.result["nand"]["program"]["by_cause"]
    folded = (case.result.get("slc") or {}).get("units_folded", 0)
    # Relocations in flight at either end of the window: one block per plane, and one more for the drive.
    edge = (case.dies * case.nand["planes_per_die"] + 1) * case.programs_of_a_block * case.program_units
    moved, room = gc["units_moved"] + folded, programs["gc"] * case.program_units
    assert moved <= room + (edge if case.timing else 0), f"{moved} units moved by gc programs with space for {room}"
    moved, room = gc["wear_units_moved"], programs["wear"] * case.program_units
    assert moved <= room + (edge if case.timing else 0), f"{moved} units moved by wear programs with space for {room}"
    if gc["copies_per_erase"] is not None:
        expected = gc["units_moved"] / gc["victims"]
        assert close(gc["copies_per_erase"], expected), f"copies_per_erase {gc['copies_per_erase']}, counted {expected}"


def wear_is_consistent(case: Case) -> None:
    wear = case.result["wear"]
    low, mean, high, deviation = (wear[f"erase_{key}"] for key in ("min", "mean", "max", "stddev"))
    good = case.blocks - wear["bad_blocks"]
    assert low <= mean <= high, f"erases min {low}, mean {mean}, max {high}"
    erases = mean * good
    assert close(erases, round(erases), absolute=1e-6), f"mean {mean} of {good} blocks is no whole number of erases"
    assert -1e-9 <= deviation**2 <= (high - mean) * (mean - low) + 1e-6, f"stddev {deviation} of {low}, {mean}, {high}"
    counted = sum(wear["histogram"])
    assert counted == good, f"histogram of {counted} blocks, {good} are good"
    factory = case.nand.get("factory_bad_blocks", 0)
    assert factory <= wear["bad_blocks"] <= case.blocks, f"{wear['bad_blocks']} bad blocks, {factory} from the factory"


def wear_counts_every_erase(case: Case) -> None:
    wear, erases = case.result["wear"], case.result["nand"]["erase"]["total"]
    if wear["bad_blocks"] != case.nand.get("factory_bad_blocks", 0):
        return
    worn = round(wear["erase_mean"] * (case.blocks - wear["bad_blocks"]))
    assert erases <= worn, f"{erases} erases measured, blocks have {worn} in all"
    if case.whole_life:
        edge = case.dies * case.nand["planes_per_die"] if case.timing else 0
        assert worn - erases <= edge, f"{erases} erases in the drive's whole life, blocks have {worn}"


def smart_agrees_with_the_host(case: Case) -> None:
    smart, host = case.result["smart"], case.host
    media = case.result["nand"]["program"]["total"] * case.nand["page_bytes"] * case.word_line_pages
    pairs = {
        "host_read_commands": host["read"]["commands"],
        "host_write_commands": host["write"]["commands"],
        "data_units_read": -(-host["read"]["bytes"] // 512_000),
        "data_units_written": -(-host["write"]["bytes"] // 512_000),
        "media_units_written": -(-media // 512_000),
    }
    for key, measured in pairs.items():
        assert smart[key] >= measured, f"smart.{key} {smart[key]}, the window has {measured}"
        # With timing, SMART may already count commands that are in flight at the end of the window.
        if case.whole_life and not case.timing:
            assert smart[key] == measured, f"smart.{key} {smart[key]} of a life that has {measured}"


def capacity_is_that_of_the_configuration(case: Case) -> None:
    capacity = case.result["capacity"]
    raw = case.blocks * case.nand["pages_per_block"] * case.nand["page_bytes"]
    assert capacity["raw_bytes"] == raw, f"raw_bytes {capacity['raw_bytes']}, geometry {raw}"
    logical = capacity["logical_bytes"]
    if "over_provisioning" in case.experiment["drive"].get("ftl", {}) and not case.ftl.get("logical_pages"):
        units = int(raw // case.unit / (1 + case.ftl["over_provisioning"]))
        assert abs(case.logical_units - units) <= 1, f"{case.logical_units} logical units, {units} by over_provisioning"
    spare = (raw - capacity["reserved_bytes"] - logical) / logical
    assert close(capacity["over_provisioning"], spare), f"over_provisioning {capacity['over_provisioning']}, is {spare}"


def host_reads_fit_the_requests(case: Case) -> None:
    """A unit of a host read costs at most one flash read, and so does a partly written unit. Read retries are added."""
    if case.ftl["mapping"] not in ("page", "dftl") or case.is_trace:
        return
    commands, of = case.host["read"]["commands"], case.host["read"]["bytes"]
    units = min(commands * case.units_of_request, of // case.unit + 2 * commands)
    most = units + case.host["read_modify_writes"] + case.result["nand"]["read_retries"]
    edge = case.in_flight_units * 2 if case.timing else 0
    reads = case.result["nand"]["read"]["by_cause"]["host"]
    assert reads <= most + edge, f"{reads} host reads for {units} units, {case.host['read_modify_writes']} partial ones"


def partial_units_are_merged_only_where_there_are_any(case: Case) -> None:
    merged = case.host["read_modify_writes"]
    whole = all(
        size % case.unit == 0 and (job.get("offset_bytes") or 0) % case.unit == 0
        for job in case.requests_of_jobs for size in request_sizes(job)
    )
    if whole and not case.is_trace:
        assert merged == 0, f"{merged} read-modify-writes of whole units"
    assert merged <= case.host["pages_written"] + case.in_flight_units, f"{merged} of {case.host['pages_written']} units"


def translation_is_consistent(case: Case) -> None:
    if translation := case.result.get("translation"):
        nand, edge = case.result["nand"], case.in_flight_units + 1
        evictions, dirty = translation["evictions"], translation["dirty_evictions"]
        assert dirty <= evictions, f"{dirty} dirty evictions of {evictions}"
        programs = nand["program"]["by_cause"]["map"]
        assert translation["tp_programs"] <= programs + edge, f"{translation['tp_programs']} pages, {programs} map programs"
        reads = nand["read"]["by_cause"]["map"]
        assert translation["tp_reads"] <= reads + edge, f"{translation['tp_reads']} pages read, {reads} map reads"


def schemes_have_only_their_own_causes(case: Case) -> None:
    paged = case.ftl["mapping"] in ("page", "dftl")
    for operation in ("program", "read", "erase"):
        causes = case.result["nand"][operation]["by_cause"]
        alien = ["merge"] if paged else ["gc", "wear"]
        alien += [] if (case.controller.get("nvram") or {}).get("bytes") else ["cache"]
        alien += ["copy", "meta", "p2l", "recovery"]
        if paged and (case.ftl.get("wear_leveling") or {}).get("kind", "none") == "none":
            alien.append("wear")
        found = {cause: causes[cause] for cause in alien if causes[cause]}
        assert not found, f"nand.{operation} for {found} on a drive that has none of it"


CHECKS: list[Check] = [
    run_reaches_its_end, host_commands_are_the_requests_of_jobs, host_bytes_are_the_bytes_of_jobs,
    bytes_fit_the_request_sizes, total_is_the_sum_of_jobs, host_pages_are_units_written,
    host_pages_without_writes_are_units_requested, units_written_fit_the_bytes, window_ends_with_the_page_asked_for,
    causes_add_up, waf_is_programs_per_unit_written, programs_fit_the_erased_blocks, host_programs_are_the_units_written,
    moved_units_fit_their_programs, wear_is_consistent, wear_counts_every_erase, smart_agrees_with_the_host,
    capacity_is_that_of_the_configuration, host_reads_fit_the_requests, partial_units_are_merged_only_where_there_are_any,
    translation_is_consistent, schemes_have_only_their_own_causes, *checker_time.CHECKS, *checker_load.CHECKS,
]


def failures_of(case: Case) -> dict[str, str]:
    """Returns the broken invariants: messages with the numbers, by name."""
    found = {}
    for check in CHECKS:
        try:
            check(case)
        except AssertionError as error:
            found[check.__name__] = str(error)
    return found


class Tally:
    """Counts of experiments: run, refused by strobe, and ended because the victim policy freed no blocks."""

    def __init__(self) -> None:
        self.ran = 0
        self.refused = 0
        self.worn_down = 0

    def assert_few_are_left_out(self) -> None:
        assert self.worn_down <= 1 + self.ran // 100, f"{self.worn_down} of {self.ran} experiments freed no blocks"
        assert self.refused < self.ran, f"{self.refused} drawn experiments were refused, {self.ran} ran"


def random_cases(first_seed: int, count: int, tally: Tally) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Draws experiments until ``count`` have run; yields seed, TOML and broken invariants of each."""
    seed, last = first_seed, tally.ran + count
    while tally.ran < last:
        try:
            experiment, result = accepted(seed)
            tally.ran += 1
            if isinstance(result, Broken):
                found = {"run_has_a_result": str(result)}
            else:
                found = failures_of(Case(experiment, result))
            yield seed, checker_draw.to_toml(experiment), found
        except Refused:
            tally.refused += 1
        except WornDown:
            tally.worn_down += 1
        seed += 1


def broken_relations(seed: int, folder: str, slow: bool = True) -> dict[str, str]:
    """Returns the broken relations of a seed: messages with the numbers, by name."""
    found = {}
    for name, holds in checker_pairs.relations(seed, folder):
        if name == checker_pairs.SLOWEST and not slow:
            continue
        try:
            holds()
        except (AssertionError, Broken) as error:
            found[name] = str(error)
        except (Refused, WornDown, checker_pairs.NotMeant):
            pass
    return found


def told(seed: int, toml: str, found: dict[str, str]) -> str:
    """Formats the broken invariants of a seed, with the experiment to run by hand."""
    return f"seed {seed}\n" + "".join(f"  {name}: {why}\n" for name, why in found.items()) + f"{toml}\n"


def check_many(first_seed: int, count: int) -> int:
    """Checks random experiments, and for every tenth also the relations; returns the number of failed experiments."""
    tally, broken, names = Tally(), 0, collections.Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for seed, toml, found in random_cases(first_seed, count, tally):
            if tally.ran % 10 == 0:
                found |= broken_relations(seed, folder, slow=tally.ran % 200 == 0)
            if found:
                broken += 1
                names.update(found.keys())
                print(told(seed, toml, found), flush=True)
    print(f"{tally.ran} experiments from seed {first_seed} on, {tally.refused} refused, {tally.worn_down} freed no blocks, {broken} broke something")
    for name, times in names.most_common():
        print(f"{times:8} {name}")
    tally.assert_few_are_left_out()
    return broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="random experiments to check (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first one (default 0)")
    parser.add_argument("--toml", type=int, metavar="SEED", help="print the experiment of a seed")
    parser.add_argument("file", nargs="?", help="an experiment file to check")
    asked = parser.parse_args()
    if asked.toml is not None:
        print(checker_draw.to_toml(checker_draw.draw(asked.toml)), end="")
    elif asked.file:
        with open(asked.file, "rb") as file:
            experiment = tomllib.load(file)
        found = failures_of(Case(experiment, run(experiment)))
        print("".join(f"{name}: {why}\n" for name, why in found.items()) or f"{len(CHECKS)} invariants hold")
        sys.exit(bool(found))
    else:
        sys.exit(check_many(asked.seed, asked.count) > 0)


if __name__ == "__main__":
    main()
