"""Random experiments: results obey the invariants of checker.py, and runs the relations of checker_pairs.py."""

import copy

import checker
import checker_draw
import checker_pairs
import pytest
from checker_run import Case, Refused, run

# More experiments: make check-results COUNT=5000.
EXPERIMENTS, BATCHES, RELATED = 300, 10, 12

PLAIN = {
    "seed": 7,
    "drive": {
        "nand": {"blocks_per_plane": 64, "pages_per_block": 16, "page_bytes": 8192, "channels": 2},
        "ftl": {"over_provisioning": 0.3},
        "controller": {"command_ns": 1000},
    },
    "jobs": [
        {"name": "a", "write_fraction": 0.7, "queue_depth": 4, "flush_every": 50},
        {"name": "b", "rate_iops": 300, "queue_depth": 8},
    ],
    "run": {"warmup": "1x", "measure": "700ms", "interval": "100ms", "latency_bins": True},
}


@pytest.mark.parametrize("batch", range(BATCHES))
def test_results_of_random_experiments_obey_the_invariants(batch):
    tally, count = checker.Tally(), EXPERIMENTS // BATCHES
    cases = checker.random_cases(1000 * batch, count, tally)
    broken = [checker.told(seed, toml, found) for seed, toml, found in cases if found]
    assert not broken, f"{len(broken)} of {count}:\n" + "\n".join(broken)
    tally.assert_few_are_left_out()


RELATIONS = [name for name, _ in checker_pairs.relations(0, "") if name != checker_pairs.SLOWEST]


@pytest.mark.parametrize("relation", RELATIONS)
def test_runs_of_random_experiments_are_related(relation, tmp_path):
    held = seed = 0
    while held < RELATED and seed < 20 * RELATED:
        assert_related = dict(checker_pairs.relations(seed, str(tmp_path)))[relation]
        try:
            assert_related()
            held += 1
        except (Refused, checker_pairs.NotMeant):
            pass
        except AssertionError as error:
            raise AssertionError(checker.told(seed, checker_draw.to_toml(checker_draw.draw(seed)), {relation: str(error)})) from None
        seed += 1
    assert held == RELATED, f"{relation} applies to {held} of {seed} experiments"


@pytest.mark.parametrize("seed", range(2))
def test_length_of_a_window_does_not_matter_in_steady_state(seed):
    checker_pairs.length_of_a_steady_window_does_not_matter(seed)


# Path in the result, amount added there, and the invariant that must break.
WRONG = [
    ("host.write.commands", 1, "host_commands_are_the_requests_of_jobs"),
    ("host.read.bytes", 512, "host_bytes_are_the_bytes_of_jobs"),
    ("host.pages_written", 1, "host_pages_are_units_written"),
    ("host.read_modify_writes", 1, "partial_units_are_merged_only_where_there_are_any"),
    ("window.host_pages", -1, "host_pages_are_units_written"),
    ("jobs.0.write.io_bytes", 4096, "bytes_fit_the_request_sizes"),
    ("jobs.0.write.clat_ns.N", 1, "latencies_are_of_all_requests"),
    ("jobs.0.write.clat_ns.mean", 5e7, "outstanding_fits_the_queues"),
    ("jobs.0.write.clat_ns.mean", -1e9, "mean_and_deviation_are_possible"),
    ("jobs.0.write.clat_ns.stddev", 1e9, "mean_and_deviation_are_possible"),
    ("jobs.0.write.clat_ns.max", 1_000_000_000, "bins_agree_with_the_summary"),
    ("jobs.0.write.clat_ns.percentile.50.000000", 10_000_000_000, "percentiles_rise_between_min_and_max"),
    ("jobs.0.write.clat_ns.percentile.50.000000", None, "percentiles_need_a_request_beyond_them"),
    ("jobs.0.read.iops", 1.0, "rates_are_counts_over_time"),
    ("jobs.1.write.lat_ns.mean", -1e8, "arrival_latencies_are_no_shorter"),
    ("jobs.1.load.served", 1, "served_is_what_completed"),
    ("jobs.1.load.offered", 9, "arrivals_come_at_the_rate"),
    ("jobs.1.load.offered_iops", 9, "offered_rate_is_arrivals_over_time"),
    ("jobs.1.load.behind_ns", 9, "backlog_has_an_age"),
    ("load.backlog", 5, "verdict_is_that_of_the_jobs"),
    ("total.read.total_ios", 1, "total_is_the_sum_of_jobs"),
    ("nand.program.by_cause.gc", 1, "causes_add_up"),
    ("nand.program.by_cause.merge", 1, "schemes_have_only_their_own_causes"),
    ("nand.program.total", 100_000, "programs_fit_the_erased_blocks"),
    ("nand.erase.total", 1000, "die_time_is_that_of_the_erases"),
    ("nand.read.by_cause.host", 100_000, "host_reads_fit_the_requests"),
    ("gc.units_moved", 100_000, "moved_units_fit_their_programs"),
    ("waf", 0.01, "waf_is_programs_per_unit_written"),
    ("wear.erase_mean", 0.001, "wear_is_consistent"),
    ("wear.erase_mean", -1000, "wear_counts_every_erase"),
    ("smart.host_write_commands", -1_000_000, "smart_agrees_with_the_host"),
    ("capacity.logical_bytes", 1 << 20, "capacity_is_that_of_the_configuration"),
    ("dies.by_class.erase", 1, "die_time_adds_up"),
    ("dies.held_ns", 10_000_000_000, "die_time_adds_up"),
    ("time.virtual_ns", 1, "window_lasts_as_asked"),
    ("intervals.-1.end_ns", 1, "intervals_tile_the_window"),
    ("intervals.-2.write.iops", 100.0, "intervals_add_up_to_the_window"),
    ("intervals.-2.write.max_ns", 1_000_000_000_000, "intervals_have_the_longest_latency"),
    ("intervals.-2.queue_depth", 1000, "intervals_obey_littles_law"),
    ("intervals.-2.busy_dies", 0.5, "intervals_share_the_dies_time"),
]


@pytest.fixture(scope="module")
def plain():
    return run(PLAIN)


@pytest.mark.parametrize("path, added, invariant", WRONG)
def test_a_wrong_number_breaks_an_invariant(plain, path, added, invariant):
    result = copy.deepcopy(plain)
    head, _, last = path.rpartition(".percentile.")
    keys = [*head.split("."), "percentile", last] if head else path.split(".")
    table = result
    for key in keys[:-1]:
        table = table[int(key)] if isinstance(table, list) else table[key]
    table[keys[-1]] = None if added is None else table[keys[-1]] + added
    before, after = (checker.failures_of(Case(PLAIN, of)) for of in (plain, result))
    assert after.get(invariant) != before.get(invariant), f"{path} + {added} breaks {sorted(after)}"
