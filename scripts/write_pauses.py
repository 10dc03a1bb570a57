#!/usr/bin/env python3
"""Fits rules that may explain how a drive delays writes, on a model of the load and the rule only.

    write_pauses.py [--seconds S] [--rule NAME] [--measurements FILE]

The load is the one that measured the drives in crates/twin/data: seven threads with at most 64 outstanding requests each.
The measured thread writes 5,000 times a second at regular intervals; the gaps of the others are exponential. Requests that
cannot be sent in time are sent later, or dropped with --forget. Latency starts when a request is sent.

A write takes 9 us, or longer if a rule delays it. Each rule has few parameters. They are fitted at three rates (--fit) by
trying all combinations of a grid; the other rates are predicted. The output has percentiles of write latency in us, the
measured ones in parentheses, and the error.
"""
import argparse
import collections
import csv
import heapq
import itertools
import math
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))
MEASURED = os.path.join(HERE, "..", "crates", "twin", "data", "7450-max.csv")
THREADS, DEPTH, WATCHED = 7, 64, 5000
WRITE = 9e-6
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


class Free:
    """Accepts every write immediately. A rule overrides `take` to delay the first write of the queue."""

    GRID = {}

    def take(self, now, waiting):
        """Returns `now` to accept the first of `waiting` writes, or a later time at which to ask again."""
        return now


class Stops(Free):
    """After every N writes, none is accepted for T."""

    GRID = {"writes": (1000, 2000, 4000, 8000, 16000), "stop": (0.002, 0.004, 0.006, 0.009, 0.012)}

    def __init__(self, writes, stop):
        self.writes, self.stop, self.taken, self.until = writes, stop, 0, 0.0

    def take(self, now, waiting):
        if now < self.until:
            return self.until
        self.taken += 1
        if self.taken % self.writes == 0:
            self.until = now + self.stop
        return now


class TimedStops(Free):
    """Every P seconds, no write is accepted for T."""

    GRID = {"period": (0.0151, 0.0307, 0.0603, 0.1201), "stop": (0.002, 0.004, 0.006, 0.009, 0.012)}

    def __init__(self, period, stop):
        self.period, self.stop = period, stop

    def take(self, now, waiting):
        since = now % self.period
        return now if since >= self.stop else now - since + self.stop


class Marks(Free):
    """A buffer with a constant drain rate: at the high watermark it accepts nothing until the low watermark."""

    GRID = {"drain": (31_000, 45_000, 61_000, 91_000, 121_000), "band": (100, 250, 500, 1000), "high": (1000, 8000)}

    def __init__(self, drain, band, high):
        self.drain, self.band, self.high, self.level, self.at, self.until = drain, band, high, 0.0, 0.0, 0.0

    def take(self, now, waiting):
        if now < self.until:
            return self.until
        self.level, self.at = max(0.0, self.level - (now - self.at) * self.drain), now
        if self.level + 1 > self.high:
            self.until = now + self.band / self.drain
            return self.until
        self.level += 1
        return now


class Tracking(Free):
    """Writes are accepted at G times their rate in the last W seconds, with a burst size of B."""

    GRID = {"gain": (0.99, 1.0, 1.02, 1.1), "window": (0.05, 0.2, 1.0), "burst": (1, 30, 300, 1000)}

    def __init__(self, gain, window, burst):
        self.gain, self.window, self.burst = gain, window, burst
        self.tokens, self.at, self.rate, self.last = float(burst), 0.0, None, 0.0

    def take(self, now, waiting):
        if self.rate is None:  # Every write is accepted during the first window.
            self.last += 1
            if now < self.window:
                return now
            self.rate, self.at = self.last / now, now
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate * self.gain)
        faded = math.exp(-(now - self.at) / self.window)
        self.rate, self.at = max(self.rate * faded, 1000.0), now
        if self.tokens < 1 - 1e-9:
            return now + max((1 - self.tokens) / (self.rate * self.gain), 1e-7)
        self.tokens -= 1
        self.rate += 1 / self.window
        return now


class Group(Free):
    """Writes wait until N have come, or the first has waited for T; every E-th write starts such a group."""

    GRID = {"count": (384, 400, 420, 440), "most": (0.006, 0.009, 0.012, 0.015), "every": (1, 1000, 4000)}

    def __init__(self, count, most, every):
        self.count, self.most, self.every = count, most, every
        self.taken, self.began, self.open = 0, None, 0

    def take(self, now, waiting):
        if self.open > 0:
            self.open -= 1
            return now
        if self.began is None:
            self.taken += 1
            if self.taken % self.every:
                return now
            self.began = now
        if waiting >= self.count or now >= self.began + self.most - 1e-9:
            self.open, self.began = waiting - 1, None
            return now
        return self.began + self.most


class Drained(Free):
    """After every N writes, none is accepted for K times the writes per second; waiting writes are then accepted at G times
    the recent rate, until none waits."""

    GRID = {"writes": (4000, 8000, 16000), "per_rate": (5e-8, 1e-7, 2e-7), "gain": (1.0, 1.05, 1.2, 1.5)}

    def __init__(self, writes, per_rate, gain):
        self.writes, self.per_rate, self.gain = writes, per_rate, gain
        self.taken, self.until, self.held, self.rate, self.since = 0, 0.0, False, None, 0.0

    def take(self, now, waiting):
        if now < self.until:
            return self.until
        if self.held:
            self.held = waiting > 1
            self.until = now + 1 / (self.gain * self.rate)
        self.taken += 1
        if self.taken % self.writes == 0 and not self.held:
            self.rate, self.since = self.writes / (now - self.since), now
            self.until, self.held = now + self.per_rate * self.rate, True
        return now


class Idle(Free):
    """After I seconds without a write, work of W seconds starts; writes that come during it wait."""

    GRID = {"idle": (0.0001, 0.00015, 0.0002, 0.0003, 0.0004, 0.0005), "work": (0.0001, 0.000188, 0.00025)}

    def __init__(self, idle, work):
        self.idle, self.work, self.last = idle, work, 0.0

    def take(self, now, waiting):
        began = self.last + self.idle
        if began <= now < began + self.work:
            return began + self.work
        self.last = now
        return now


class Flush(Free):
    """N writes fill a page. If they do not come within T, a partly filled page is programmed: no write is accepted for H."""

    GRID = {
        "writes": (150, 300, 450, 600, 750), "most": (0.00331, 0.00507, 0.00709, 0.01013, 0.01309, 0.01607),
        "hold": (0.00015, 0.000188, 0.00025),
    }

    def __init__(self, writes, most, hold):
        self.writes, self.most, self.hold, self.held, self.since = writes, most, hold, 0, 0.0

    def take(self, now, waiting):
        due = self.since + self.most
        if self.held and due <= now:
            if now < due + self.hold:
                return due + self.hold
            self.held = 0
        if self.held == 0:
            self.since = now
        self.held = (self.held + 1) % self.writes
        return now


RULES = {
    "stops": Stops, "timed": TimedStops, "marks": Marks, "tracking": Tracking, "group": Group, "drained": Drained,
    "idle": Idle, "flush": Flush,
}


def latencies(rule, rate, seconds, seed=1, forgets=False):
    """Returns the sorted latencies of the measured thread's writes, without the first quarter of the run."""
    chance = random.Random(seed)
    gap = [1 / WATCHED] + [(THREADS - 1) / (rate - WATCHED)] * (THREADS - 1)
    # The generator of the measurements also has constant gaps for the measured thread.
    between = [lambda each=each: chance.expovariate(1 / each) for each in gap]
    between[0] = lambda: gap[0]
    free, due = [DEPTH] * THREADS, [gap() for gap in between]
    events = [(at, 0, thread, 0.0) for thread, at in enumerate(due)]
    heapq.heapify(events)
    queue, found, wake = collections.deque(), [], None
    while events:
        now, kind, thread, sent = heapq.heappop(events)
        if now > seconds:
            break
        if kind == 2:
            if wake is None or now < wake:
                continue
        else:
            if kind == 1:
                free[thread] += 1
                if thread == 0 and sent > 0.25 * seconds:
                    found.append(now - sent)
            # A thread with a full queue has no scheduled arrival; the first completion resumes it.
            if kind == 0 or free[thread] == 1:
                while free[thread] > 0 and due[thread] <= now:
                    free[thread] -= 1
                    queue.append((now, thread))
                    due[thread] = (now if forgets else due[thread]) + between[thread]()
                if free[thread] > 0:
                    heapq.heappush(events, (due[thread], 0, thread, 0.0))
        wake = None
        while queue:
            at = rule.take(now, len(queue))
            if at > now:
                heapq.heappush(events, (at, 2, 0, 0.0))
                wake = at
                break
            sent, thread = queue.popleft()
            heapq.heappush(events, (now + WRITE, 1, thread, sent))
    return sorted(found)


def percentiles(found):
    return {name: 1e6 * found[min(int(share * len(found)), len(found) - 1)] for name, share in PERCENTILES.items()}


def measurements(path):
    """Returns the measured write percentiles in us, by rate up to 110,000 writes a second."""
    columns = dict(zip(PERCENTILES, ("write_p50_us", "write_p99_us", "write_p999_us", "write_p9999_us")))
    with open(path, encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            int(row["offered_writes_s"]): {name: float(row[column]) for name, column in columns.items()}
            for row in rows if row["offered_writes_s"] and int(row["offered_writes_s"]) <= 110_000
        }


def distance(ours, measured):
    names = ("p50", "p99", "p99.9")
    return sum(abs(math.log(ours[name] / measured[name])) for name in names)


def fit(kind, measured, rates, seconds, forgets):
    """Returns the parameters of the grid with the smallest error at `rates`."""
    best = (math.inf, None)
    for values in itertools.product(*kind.GRID.values()):
        parameters = dict(zip(kind.GRID, values))
        off = 0.0
        for rate in rates:
            ours = percentiles(latencies(kind(**parameters), rate, seconds, forgets=forgets))
            off += distance(ours, measured[rate])
            if off >= best[0]:
                break
        best = min(best, (off, parameters), key=lambda pair: pair[0])
    return best[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="virtual time per rate (default 4)")
    parser.add_argument("--fit-seconds", type=float, default=1.0, help="virtual time per rate during the fit (default 1)")
    parser.add_argument("--fit", type=int, nargs=3, default=(30_000, 60_000, 90_000), metavar="RATE",
                        help="writes per second at which rules are fitted (default 30000 60000 90000)")
    parser.add_argument("--rule", choices=RULES, action="append", help="fit only this rule (may be repeated)")
    parser.add_argument("--forget", action="store_true", help="threads drop writes that they cannot send in time")
    parser.add_argument("--measurements", default=MEASURED, help="CSV file in the format of crates/twin/data")
    options = parser.parse_args()
    measured = measurements(options.measurements)
    if unknown := [rate for rate in options.fit if rate not in measured]:
        parser.error(f"no row for {unknown[0]} writes a second in {options.measurements}: it has "
                     + ", ".join(map(str, measured)))
    for name in options.rule or RULES:
        kind = RULES[name]
        parameters = fit(kind, measured, options.fit, options.fit_seconds, options.forget)
        text = ", ".join(f"{key} {value:g}" for key, value in parameters.items())
        print(f"\n{name}: {' '.join(kind.__doc__.split())} Fitted: {text}", flush=True)
        for rate, real in measured.items():
            ours = percentiles(latencies(kind(**parameters), rate, options.seconds, seed=2, forgets=options.forget))
            error = {key: 100 * (ours[key] / real[key] - 1) for key in real}
            cells = (f"{key} {ours[key]:7.0f} ({real[key]:6.0f}) {error[key]:+9.0f} %" for key in real)
            print(f"{rate // 1000:4}k{' fit' if rate in options.fit else '    '} {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
