"""Invariants of latencies, die time, Little's law and the interval series."""

from __future__ import annotations

import math

from checker_draw import Table
from checker_run import KINDS, Case, close, duration_ns

# Relative error of latency histograms, which keep three digits.
DIGITS = 1.002


def without_time_there_is_none(case: Case) -> None:
    if not case.timing:
        assert case.window_ns == 0, f"virtual_ns {case.window_ns} without time"
        assert "dies" not in case.result or case.result["dies"] is None, "dies have no time without time"


def window_lasts_as_asked(case: Case) -> None:
    asked = duration_ns(case.run["measure"])
    if asked is not None:
        assert case.window_ns == asked, f"virtual_ns {case.window_ns}, asked {asked}"


def latencies_are_of_all_requests(case: Case) -> None:
    if not case.timing:
        return
    for job in case.jobs:
        for kind in KINDS:
            counted, requests = job[kind]["clat_ns"]["N"], job[kind]["total_ios"]
            assert counted == requests, f"{job['jobname']}.{kind}: {counted} latencies of {requests} requests"
        counted, requests = job["sync"]["lat_ns"]["N"], job["sync"]["total_ios"]
        assert counted == requests, f"{job['jobname']}.sync: {counted} latencies of {requests} flushes"


def percentiles_need_a_request_beyond_them(case: Case) -> None:
    for name, table in all_latencies(case):
        for at, value in table["percentile"].items():
            beyond = table["N"] * min(float(at), 100 - float(at)) / 100
            told = f"{name}: percentile {at} of {table['N']} is {value}"
            assert (value is not None) == (beyond > 1 - 1e-9), told


def percentiles_rise_between_min_and_max(case: Case) -> None:
    for name, table in all_latencies(case):
        known = {float(at): value for at, value in table["percentile"].items() if value is not None}
        rising = [value for _, value in sorted(known.items())]
        in_order = rising == sorted(rising) and (not rising or table["min"] <= rising[0] <= rising[-1] <= table["max"])
        assert in_order, f"{name}: percentiles {rising} between {table['min']} and {table['max']}"


def mean_and_deviation_are_possible(case: Case) -> None:
    """Mean and deviation are possible for N values with this minimum and maximum; the lower bound is exact up to N = 3."""
    for name, table in all_latencies(case):
        n, low, high, mean = table["N"], table["min"], table["max"], table["mean"]
        if n == 0:
            continue
        told = f"{name}: N {n}, min {low}, mean {mean}, max {high}, stddev {table['stddev']}"
        slack = 1e-9 * high + 1e-6
        assert low - slack <= mean <= high + slack, told
        assert n > 2 or close(mean, (low + high) / 2), told
        total = mean * n
        assert total > 1e14 or abs(total - round(total)) < 1e-2, f"{told}: a mean of whole numbers"
        rest = max(n - 2, 0)
        middle = (total - low - high) / rest if rest else mean
        least = ((low - mean) ** 2 + (high - mean) ** 2 + rest * (middle - mean) ** 2) / n if n > 1 else 0.0
        most = (high - mean) * (mean - low)
        squares = table["stddev"] ** 2
        # Accepts the deviation of a sample and of all values: fio divides by N - 1.
        of_sample = n / (n - 1) if n > 1 else 1.0
        error = 1e-6 * high * high + 1e-3
        assert least - error <= squares <= most * of_sample + error, f"{told}: from {least**0.5} to {most**0.5}"


def bins_agree_with_the_summary(case: Case) -> None:
    for name, table in all_latencies(case):
        if not table.get("bins"):
            continue
        bins = sorted((int(at), count) for at, count in table["bins"].items())
        n = sum(count for _, count in bins)
        assert n == table["N"], f"{name}: {n} in bins, N {table['N']}"
        low, high = bins[0][0], bins[-1][0]
        ends = low / DIGITS <= table["min"] <= low * DIGITS and high / DIGITS <= table["max"] <= high * DIGITS
        assert ends, f"{name}: bins from {low} to {high}, min {table['min']}, max {table['max']}"
        mean = sum(at * count for at, count in bins) / n
        assert close(mean, table["mean"], 0.002), f"{name}: mean of bins {mean}, reported {table['mean']}"
        deviation = math.sqrt(sum((at - mean) ** 2 * count for at, count in bins) / n)
        error = 0.002 * table["max"] + (deviation / math.sqrt(n) if n < 100 else 0.01 * deviation)
        assert abs(deviation - table["stddev"]) <= error, f"{name}: stddev of bins {deviation}, reported {table['stddev']}"
        for at, value in table["percentile"].items():
            if value is None:
                continue
            below = sum(count for ns, count in bins if ns <= value * DIGITS)
            assert below >= n * float(at) / 100 - 1, f"{name}: {below} of {n} at or below percentile {at}, {value} ns"


def arrival_latencies_are_no_shorter(case: Case) -> None:
    for name, arrival, issue in case.arrival_latencies():
        for key in ("min", "mean", "max"):
            told = f"{name}.{key} {arrival[key]}, from issue {issue[key]}"
            assert arrival["N"] == issue["N"] and arrival[key] >= issue[key] * (1 - 1e-12), told


def rates_are_counts_over_time(case: Case) -> None:
    if not case.timing or case.window_ns == 0 or any(job.get("runtime") or job.get("startdelay") for job in case.requests_of_jobs):
        return
    seconds = case.window_ns / 1e9
    for job in case.jobs:
        for kind in KINDS:
            table = job[kind]
            assert close(table["iops"], table["total_ios"] / seconds), f"{kind}: iops {table['iops']} of {table['total_ios']}"
            expected = table["io_bytes"] / seconds
            assert abs(table["bw_bytes"] - expected) <= 1 + 1e-9 * expected, f"{kind}: bw_bytes {table['bw_bytes']}, {expected}"


def die_time_adds_up(case: Case) -> None:
    dies = case.result.get("dies")
    if not dies:
        return
    held, classes = dies["held_ns"], dies["by_class"]
    assert dies["count"] == case.dies, f"{dies['count']} dies, geometry has {case.dies}"
    assert sum(classes.values()) == held, f"classes {classes} add up to {sum(classes.values())}, held {held}"
    capacity = case.window_ns * dies["count"]
    assert held <= capacity, f"dies held for {held} ns of {capacity}"
    if capacity:
        assert close(dies["busy"], held / capacity), f"busy {dies['busy']}, {held} of {capacity} ns"
    copying = classes["background_read"] + classes["background_program"] + classes["erase"]
    assert case.result["gc"]["time_ns"] == copying, f"gc.time_ns {case.result['gc']['time_ns']}, classes have {copying}"


def die_time_is_that_of_the_erases(case: Case) -> None:
    """Die time of erases matches their number; a multi-plane erase holds its die once.

    Operations are counted when issued and hold a die later. Operations in flight at either end of the window may differ.
    """
    dies = case.result.get("dies")
    other_times = case.ftl.get("slc_cache") or (case.nand.get("suspend") or {}).get("most")
    if not dies or other_times or case.ftl["mapping"] not in ("page", "dftl"):
        return
    planes, erase_ns = case.nand["planes_per_die"], case.nand["erase_ns"]
    erases, held = case.result["nand"]["erase"]["total"], dies["by_class"]["erase"]
    # Erases in flight: each plane may have a victim, and each unit in flight may have started another collection,
    # of twice the mean number of victims.
    each = max(1, 2 * case.result["gc"]["victims"] / max(1, case.host["pages_written"]))
    edge = 2 * case.dies * planes + (case.in_flight_units + case.buffered_units) * each
    # A command waits while a page transfer occupies the bus.
    bus_ns = 0 if not case.nand.get("command_ns") else 40 * case.nand["command_ns"] + case.page_transfer_ns * 40
    least, most = (erases - edge) / planes * erase_ns, (erases + edge) * (erase_ns + bus_ns)
    if erases < 20 * edge:
        # On a nearly full drive each unit in flight may start many erases, so few erases prove nothing.
        return
    assert least <= held <= most, f"dies held {held} ns by {erases} erases of {erase_ns} ns, {edge} under way"


def total_latency(case: Case) -> float:
    return float(sum(table["mean"] * table["N"] for _, table in case.latencies()))


def longest_latency(case: Case) -> int:
    return max((table["max"] for _, table in case.latencies()), default=0)


def outstanding_fits_the_queues(case: Case) -> None:
    """Little's law: throughput times mean latency is the mean number outstanding.

    Requests in flight when the window begins have part of their latency before it. The bound therefore adds the longest
    latency for each queue slot.
    """
    if not case.timing or case.is_trace or case.window_ns == 0:
        return
    # A flush of a generator is a command in addition to its requests.
    places = case.queue_depth + sum(1 for job in case.requests_of_jobs if job.get("flush_every"))
    most = places * (case.window_ns + longest_latency(case))
    assert total_latency(case) <= most, (
        f"{total_latency(case) / case.window_ns:.3f} outstanding in {case.window_ns} ns, {places} places, "
        f"longest latency {longest_latency(case)}"
    )


def is_long(case: Case) -> bool:
    """True if requests in flight at the ends of the window are negligible.

    Their latencies are unknown at the end of the window; one may wait for a collection.
    """
    requests = sum(case.requests(kind) for kind in KINDS)
    return requests >= 40 * case.queue_depth and case.window_ns >= 20 * max(longest_latency(case), 20_000_000)


def closed_loop_keeps_its_queues_full(case: Case) -> None:
    if not case.timing or not case.closed_loop or not is_long(case):
        return
    requests = sum(case.requests(kind) for kind in KINDS)
    outstanding = total_latency(case) / case.window_ns
    flushing = any(job.get("flush_every") for job in case.requests_of_jobs)
    least = 0.9 * case.queue_depth
    told = f"{outstanding:.3f} outstanding of {case.queue_depth} in {requests} requests"
    assert flushing or least <= outstanding <= case.queue_depth * 1.05, told


def intervals_tile_the_window(case: Case) -> None:
    intervals = case.result.get("intervals")
    if not intervals:
        return
    for before, after in zip(intervals, intervals[1:]):
        joined = before["end_ns"] == after["start_ns"]
        assert joined, f"an interval ends at {before['end_ns']}, the next begins at {after['start_ns']}"
        assert before["measured"] <= after["measured"], f"not measured any more at {after['start_ns']}"
    measured = case.measured_intervals()
    span = measured[-1]["end_ns"] - measured[0]["start_ns"] if measured else 0
    assert span == case.window_ns, f"measured intervals span {span} ns, the window {case.window_ns}"


def seconds(interval: Table) -> float:
    return float(interval["end_ns"] - interval["start_ns"]) / 1e9


def intervals_add_up_to_the_window(case: Case) -> None:
    measured = case.measured_intervals()
    if not measured or case.window_ns == 0:
        return
    for kind in (*KINDS, "sync"):
        counted = sum(interval[kind]["iops"] * seconds(interval) for interval in measured)
        expected = case.flushes() if kind == "sync" else case.requests(kind)
        assert abs(counted - expected) < 0.01, f"{counted:.3f} {kind}s in intervals, {expected} in the window"
    for kind in KINDS:
        counted = sum(interval[kind]["bw_bytes"] * seconds(interval) for interval in measured)
        expected = case.host[kind]["bytes"]
        error = sum(seconds(interval) for interval in measured) + 1e-9 * expected + 1
        assert abs(counted - expected) <= error, f"{counted:.1f} bytes of {kind}s in intervals, {expected} in the window"


def intervals_have_the_longest_latency(case: Case) -> None:
    measured = case.measured_intervals()
    for kind in (*KINDS, "sync") if measured else ():
        longest = max((interval[kind]["max_ns"] or 0 for interval in measured), default=0)
        tables = [job[kind]["lat_ns" if kind == "sync" else "clat_ns"] for job in case.jobs]
        expected = max(table["max"] for table in tables)
        told = f"longest {kind} of intervals {longest} ns, of the window {expected}"
        assert expected / DIGITS <= longest <= expected * DIGITS, told
        for interval in measured:
            part = interval[kind]
            known = [part[of] for of in ("p50_ns", "p99_ns", "p99_9_ns", "max_ns") if part[of] is not None]
            assert known == sorted(known), f"{kind} at {interval['start_ns']}: {part}"


def intervals_obey_littles_law(case: Case) -> None:
    """Mean queue depth times the length of the window is the total time of requests in the drive, except at the edges."""
    measured = case.measured_intervals()
    if not measured or case.window_ns == 0:
        return
    places = case.queue_depth + sum(1 for job in case.requests_of_jobs if job.get("flush_every"))
    for interval in measured:
        depth = interval["queue_depth"]
        assert 0 <= depth <= places * (1 + 1e-9), f"queue depth {depth} of {places} at {interval['start_ns']}"
    spent = sum(interval["queue_depth"] * seconds(interval) for interval in measured) * 1e9
    # Requests in flight at an end of the window have part of their latency outside it.
    edge = places * longest_latency(case)
    latency = total_latency(case)
    # Requests in flight at the end may be older than every completed request.
    most = latency * 1.1 + edge if is_long(case) else math.inf
    assert latency - edge - 1 <= spent <= most + 1, f"series has {spent:.0f} request-ns, latencies {latency:.0f}, {edge} at edges"


def intervals_share_the_dies_time(case: Case) -> None:
    measured, dies = case.measured_intervals(), case.result.get("dies")
    if not measured or not dies:
        return
    held = sum(interval["busy_dies"] * seconds(interval) for interval in measured) * 1e9
    assert close(held, dies["held_ns"], 1e-6, 10.0), f"intervals hold dies for {held:.0f} ns, the window {dies['held_ns']}"
    for interval in measured:
        at_work = 0 <= interval["busy_dies"] <= case.dies * (1 + 1e-9)
        assert at_work, f"{interval['busy_dies']} of {case.dies} dies at work at {interval['start_ns']}"


def all_latencies(case: Case) -> list[tuple[str, Table]]:
    if not case.timing:
        return []
    return case.latencies() + [(name, table) for name, table, _ in case.arrival_latencies()]


CHECKS = [
    without_time_there_is_none, window_lasts_as_asked, latencies_are_of_all_requests, percentiles_rise_between_min_and_max,
    percentiles_need_a_request_beyond_them,
    mean_and_deviation_are_possible, bins_agree_with_the_summary, arrival_latencies_are_no_shorter,
    rates_are_counts_over_time, die_time_adds_up, die_time_is_that_of_the_erases, outstanding_fits_the_queues,
    closed_loop_keeps_its_queues_full, intervals_tile_the_window, intervals_add_up_to_the_window,
    intervals_have_the_longest_latency, intervals_obey_littles_law, intervals_share_the_dies_time,
]
