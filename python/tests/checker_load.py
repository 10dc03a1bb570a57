"""Invariants of open-loop load: arrivals, served requests, and the verdict ``kept_up``."""

from __future__ import annotations

import math
from collections.abc import Iterator

from checker_draw import Table
from checker_run import KINDS, Case, close

# Number of requests, in addition to 5 %, by which completions may lag arrivals without a verdict.
SLACK = 16


def open_jobs(case: Case) -> Iterator[tuple[str, Table, Table, Table]]:
    """Yields name, result, keys and load of each job with a rate."""
    for job, keys in zip(case.jobs, case.requests_of_jobs):
        if job.get("load") and not case.is_trace:
            yield job["jobname"], job, keys, job["load"]


def job_lasts_as_the_window(keys: Table) -> bool:
    return not keys.get("startdelay") and not keys.get("runtime") and not keys.get("thinktime")


def closed_loop_has_no_load(case: Case) -> None:
    for job, keys in zip(case.jobs, case.requests_of_jobs):
        rated = bool(keys.get("rate_iops") or keys.get("rate_points"))
        told = f"{job['jobname']}: load {job.get('load')}, rate {keys.get('rate_iops')}"
        assert case.is_trace or not case.timing or bool(job.get("load")) == rated, told


def served_is_what_completed(case: Case) -> None:
    for name, job, _, load in open_jobs(case):
        completed = sum(job[kind]["total_ios"] for kind in KINDS)
        assert load["served"] == completed, f"{name}: {load['served']} served, {completed} completed"


def arrivals_come_at_the_rate(case: Case) -> None:
    """Linear arrivals match the rate within one request, Poisson arrivals within six standard deviations plus six."""
    for name, _, keys, load in open_jobs(case):
        if not job_lasts_as_the_window(keys):
            continue
        expected = keys["rate_iops"] * case.window_ns / 1e9
        error = 6 * math.sqrt(expected) + 6 if keys.get("rate_process") == "poisson" else 1.001
        arrived = abs(load["offered"] - expected) <= error
        assert arrived, f"{name}: {load['offered']} arrived, expected {expected:.2f} ± {error:.2f}"


def offered_rate_is_arrivals_over_time(case: Case) -> None:
    for name, _, keys, load in open_jobs(case):
        if not job_lasts_as_the_window(keys) or case.window_ns == 0:
            continue
        for rate, count in (("offered_iops", "offered"), ("completed_iops", "served")):
            expected = load[count] / case.window_ns * 1e9
            assert close(load[rate], expected), f"{name}: {rate} {load[rate]}, {count} {load[count]} give {expected}"


def arrivals_are_served_or_wait(case: Case) -> None:
    """Offered - served - backlog is the number in flight at the end. Skipped after a warm-up, which may leave a backlog."""
    if case.run.get("warmup"):
        return
    for name, _, keys, load in open_jobs(case):
        left = load["offered"] - load["served"] - load["backlog"]
        depth = keys.get("queue_depth") or 1
        told = f"{name}: offered {load['offered']}, served {load['served']}, backlog {load['backlog']}, depth {depth}"
        assert 0 <= left <= depth, told


def backlog_has_an_age(case: Case) -> None:
    for name, _, _, load in open_jobs(case):
        told = f"{name}: backlog {load['backlog']}, behind {load['behind_ns']} ns"
        assert load["backlog"] > 0 or load["behind_ns"] == 0, told


def falling_behind_is_told(case: Case) -> None:
    for name, _, _, load in open_jobs(case):
        told = f"{name}: offered {load['offered']}, served {load['served']}, kept_up {load['kept_up']}"
        if load["served"] < 0.95 * load["offered"] - SLACK:
            assert not load["kept_up"], told
        if load["served"] >= load["offered"] and load["backlog"] == 0:
            assert load["kept_up"], told


def verdict_is_that_of_the_jobs(case: Case) -> None:
    loads = [load for _, _, _, load in open_jobs(case)]
    whole = case.result.get("load")
    if case.is_trace:
        return
    assert bool(whole) == bool(loads), f"load {whole}, jobs with a rate {len(loads)}"
    if whole:
        kept = all(load["kept_up"] for load in loads)
        assert whole["kept_up"] == kept, f"load.kept_up {whole['kept_up']}, jobs {[load['kept_up'] for load in loads]}"
        backlog = sum(load["backlog"] for load in loads)
        assert whole["backlog"] == backlog, f"load.backlog {whole['backlog']}, jobs have {backlog}"
        if all(job_lasts_as_the_window(keys) for _, _, keys, _ in open_jobs(case)) and case.window_ns:
            for rate, count in (("offered_iops", "offered"), ("completed_iops", "served")):
                expected = sum(load[count] for load in loads) / case.window_ns * 1e9
                assert close(whole[rate], expected), f"load.{rate} {whole[rate]}, jobs give {expected}"


CHECKS = [
    closed_loop_has_no_load, served_is_what_completed, arrivals_come_at_the_rate, offered_rate_is_arrivals_over_time,
    arrivals_are_served_or_wait, backlog_has_an_age, falling_behind_is_told, verdict_is_that_of_the_jobs,
]
