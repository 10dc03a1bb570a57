#!/usr/bin/env python3
"""Tests of write_pauses.py against closed forms. Run by the tests of the command line."""
import importlib.util
import os
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("write_pauses", os.path.join(HERE, "write_pauses.py"))
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


class Paced(script.Free):
    """One write per `gap` seconds is accepted."""

    def __init__(self, gap):
        self.gap, self.next = gap, 0.0

    def take(self, now, waiting):
        if now < self.next:
            return self.next
        self.next = now + self.gap
        return now


class Model(unittest.TestCase):
    def test_all_writes_that_are_due_are_sent(self):
        found = script.latencies(script.Free(), 30_000, 0.4)
        self.assertAlmostEqual(len(found), 0.75 * 0.4 * script.WATCHED, delta=2)
        self.assertAlmostEqual(found[0], script.WRITE)
        self.assertAlmostEqual(found[-1], script.WRITE)

    def test_full_queues_wait_as_littles_law_says(self):
        # 40,000 per second are accepted and 80,000 come. The queues of six threads are full, the measured thread's is not.
        found = script.latencies(Paced(1 / 40_000), 80_000, 1.0)
        expected = 6 * script.DEPTH / (40_000 - script.WATCHED)
        self.assertAlmostEqual(found[len(found) // 2] / expected, 1.0, delta=0.02)

    def test_stops_hold_a_uniform_share(self):
        # One fifth of the time nothing is accepted, for 2 ms: half of the delayed writes wait for 1 ms or more.
        found = script.latencies(script.TimedStops(0.010, 0.002), 20_000, 1.0)
        late = sum(latency > 0.001 for latency in found) / len(found)
        self.assertAlmostEqual(late, 0.10, delta=0.01)
        self.assertLess(found[-1], 0.0021)

    def test_a_page_is_flushed_while_writes_do_not_fill_it_in_time(self):
        # At 20,000 per second 600 writes take 30 ms, so writes wait for 0.188 ms every 13.09 ms. At 60,000 they take 10 ms.
        found = script.latencies(script.Flush(600, 0.01309, 0.000188), 20_000, 4.0)
        late = sum(latency > script.WRITE + 0.000094 for latency in found) / len(found)
        self.assertAlmostEqual(late, 0.000094 / (0.01309 + 0.000188), delta=0.0015)
        self.assertLess(found[-1], script.WRITE + 0.000189)
        found = script.latencies(script.Flush(600, 0.01309, 0.000188), 60_000, 1.0)
        self.assertAlmostEqual(found[-1], script.WRITE)

    def test_work_that_is_begun_when_nothing_comes_holds_what_comes_next(self):
        # The measured thread writes every 200 us. The write before it is more than 100 us old if none of the others,
        # 15,000 per second, has come since: probability exp(-1.5). It waits for the rest of the work.
        found = script.latencies(script.Idle(0.0001, 0.0001), 20_000, 4.0)
        late = sum(latency > script.WRITE + 1e-9 for latency in found) / len(found)
        self.assertGreater(late, 0.9 * 0.223)
        self.assertLess(found[-1], script.WRITE + 0.000101)
        # No gap between writes is as long as 300 us.
        found = script.latencies(script.Idle(0.0003, 0.0001), 20_000, 1.0)
        self.assertAlmostEqual(found[-1], script.WRITE)

    def test_what_could_not_be_sent_is_sent_later_or_not_at_all(self):
        # With half of the time stopped, queues are mostly full; the rest is sent later, or dropped.
        later = script.latencies(script.TimedStops(0.1, 0.05), 60_000, 1.0)
        never = script.latencies(script.TimedStops(0.1, 0.05), 60_000, 1.0, forgets=True)
        self.assertGreater(len(later), 1.2 * len(never))

    def test_measurements_are_read(self):
        measured = script.measurements(script.MEASURED)
        self.assertEqual(measured[80_000], {"p50": 10, "p99": 5208, "p99.9": 5274, "p99.99": 5298})


if __name__ == "__main__":
    unittest.main()
