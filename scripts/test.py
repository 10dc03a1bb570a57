#!/usr/bin/env python3
"""Builds all test programs, runs them in parallel, and reports the outcome of each.

    test.py            all but those that need a kernel for guests
    test.py --linux    those
    test.py --slice    ten minutes of the long suites that generate their cases, with seeds from the commit's hash;
                       STROBE_SLICE=FIRST,SECONDS repeats one

One line for each suite, and the totals. Tests that say SKIPPED are counted as such and not as passed; in CI, or
with STROBE_REQUIRE_KERNEL=1, a skipped test is a failure.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

# These need a guest kernel, which takes minutes to build.
NEED_KERNEL = {"linux", "linux_crash"}
# Long suites that draw their cases from seeds (strobe_testing::seeds), by test program.
LONG = {
    "nand: cut_in_time": ["a_cut_leaves_what_was_complete_in_many_drives"],
    "nand: naive_array": ["everything_happens_when_the_rules_say_in_many_drives"],
    "ftl: ftl": ["power_cut", "block_cut"],
    "ssd: drive": ["cut_in_time", "state", "power_cut", "waiting"],
}
# They draw seeds 21 times in all: two processors take about nine minutes, the random experiments one more.
SLICE_SECONDS = 70
SLICE_EXPERIMENTS = 1000
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
SKIPPED = re.compile(r"SKIPPED: (.*)")


def is_set(variable):
    return os.environ.get(variable, "") not in ("", "0", "false")


def cargo(*arguments):
    return [os.environ.get("CARGO", "cargo"), *arguments]


def test_programs(packages):
    """(name, command, folder) of each test program; integration tests first, because they take longest."""
    build = cargo("test", "--quiet", *packages, "--no-run", "--message-format=json-render-diagnostics")
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit("The tests do not compile.")
    found = []
    for message in map(json.loads, built.stdout.splitlines()):
        if message["reason"] != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
            continue
        target, folder = message["target"], os.path.dirname(message["manifest_path"])
        name, kind = target["name"], target["kind"][0]
        if (name in NEED_KERNEL and kind == "test") == ("--linux" in sys.argv):
            label = f"{os.path.basename(folder)}: {name if kind == 'test' else kind}"
            found.append((kind != "test", label, [message["executable"]], folder))
    return [suite[1:] for suite in sorted(found)]


def library_path():
    """Path of the compiler's libraries for tests of a procedural macro, as set by `cargo test`."""
    libraries = subprocess.run(["rustc", "--print", "target-libdir"], stdout=subprocess.PIPE, text=True).stdout.strip()
    return os.pathsep.join(filter(None, [libraries, os.environ.get("LD_LIBRARY_PATH", "")]))


def run(suite):
    name, command, folder = suite
    started = time.monotonic()
    environment = {**os.environ, "LD_LIBRARY_PATH": library_path()} if name == "derive: proc-macro" else None
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
    )
    seconds = time.monotonic() - started
    passed, failed, ignored = (sum(map(int, of)) for of in zip((0, 0, 0), *RESULT.findall(done.stdout)))
    if done.returncode != 0:
        failed = max(failed, 1)
    elif not RESULT.search(done.stdout):
        passed = 1
    reasons = list(dict.fromkeys(SKIPPED.findall(done.stdout)))
    skipped = len({reason.split(": ")[0] for reason in reasons})
    return name, (passed - skipped, failed, ignored, skipped), seconds, reasons, done.stdout


def slice_suites():
    """The long suites, each test as a separate suite, and a number drawn from the commit hash."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    first, seconds = int(commit[:10] or "0", 16), SLICE_SECONDS
    if asked := os.environ.get("STROBE_SLICE"):
        first, seconds = map(int, asked.split(","))
    os.environ["STROBE_SLICE"] = f"{first},{seconds}"
    print(f"slice of the long suites: STROBE_SLICE={first},{seconds} repeats it")
    packages = ["--package=strobe-nand", "--package=strobe-ftl", "--package=strobe-ssd", "--package=strobe-cli"]
    suites = []
    for name, command, folder in test_programs(packages):
        for group in LONG.get(name, []):
            suites.append((f"{name} {group}", [*command, group, "--ignored"], folder))
    missing = set(LONG) - {suite[0].rsplit(" ", 1)[0] for suite in suites}
    if missing:
        sys.exit(f"No test program {', '.join(sorted(missing))}.")
    program = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "debug", "strobe")
    os.environ["STROBE"] = os.path.abspath(program)
    checker = [sys.executable, "python/tests/checker.py", f"--count={SLICE_EXPERIMENTS}", f"--seed={first}"]
    return [*suites, ("random experiments", checker, ".")]


def main():
    linux = "--linux" in sys.argv
    # Crates without Rust tests are compiled for the Python tests.
    all_crates = ["--workspace", "--exclude=strobe-py"]
    is_slice = "--slice" in sys.argv
    kernel = ["--package=strobe-cli", "--package=strobe-crash-tests", "--test=linux", "--test=linux_crash"]
    suites = slice_suites() if is_slice else test_programs(kernel if linux else all_crates)
    if is_slice:
        pass
    elif linux:
        suites = [(name, command + ["--nocapture"], folder) for name, command, folder in suites]
        suites.append(("notebook on a kernel", [sys.executable, "scripts/python.py", "-m", "kernel"], "."))
    else:
        suites.insert(0, ("documentation", cargo("test", "--quiet", *all_crates, "--doc"), "."))
        suites.insert(0, ("python", [sys.executable, "scripts/python.py"], "."))
        suites.insert(0, ("documentation site", [sys.executable, "scripts/site.py"], "."))
        suites.insert(0, ("report in a browser", [sys.executable, "scripts/report_browser.py"], "."))
    # A suite uses all processors until its last long test; then the next one starts. Guests already run in parallel.
    pool = concurrent.futures.ThreadPoolExecutor(1 if linux else os.cpu_count())
    totals, all_reasons = [0, 0, 0, 0], []
    print(f"{'suite':30} {'passed':>7} {'failed':>7} {'ignored':>7} {'skipped':>7} {'seconds':>8}", flush=True)
    for ended in concurrent.futures.as_completed([pool.submit(run, suite) for suite in suites]):
        name, counts, seconds, reasons, output = ended.result()
        if counts[1] or linux:
            print(output)
        print(f"{name:30} " + " ".join(f"{count:7}" for count in counts) + f" {seconds:8.1f}", flush=True)
        totals = [total + count for total, count in zip(totals, counts)]
        all_reasons += [f"SKIPPED: {name}: {reason}" for reason in reasons]
    print("\n".join(all_reasons))
    passed, failed, ignored, skipped = totals
    if not is_slice:
        print(f"{len(suites)} suites, {ignored} tests ignored: those of `make test-long`")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if not linux and not is_slice:
        print("Not among them are linux, linux_crash and the notebook on a kernel: `make test-linux` runs them.")
    if skipped and (is_set("CI") or is_set("STROBE_REQUIRE_KERNEL")):
        sys.exit("Skipped tests are not allowed here.")
    if failed or passed == 0:
        sys.exit("Some tests failed." if failed else "No test has run.")


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
main()
