#!/usr/bin/env python3
"""Builds all test programs, runs them in parallel, and reports the outcome of each.

    test.py            all tests except those that need a guest kernel
    test.py --linux    only those
    test.py --slice    ten minutes of the long random suites, with seeds from the commit hash;
                       STROBE_SLICE=FIRST,SECONDS repeats a slice

Prints a line for each suite, and the totals. Tests that print SKIPPED count as skipped, not as passed. In CI, or with
STROBE_REQUIRE_KERNEL=1, a skipped test is a failure.
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
# Time limit of a run of seeds. The suites have 21 such runs: about nine minutes on two processors. The random experiments
# take one more.
SLICE_SECONDS = 50
SLICE_EXPERIMENTS = 1000
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
SKIPPED = re.compile(r"SKIPPED: (.*)")


def is_set(variable):
    return os.environ.get(variable, "") not in ("", "0", "false")


def cargo(*arguments):
    return [os.environ.get("CARGO", "cargo"), *arguments]


def test_programs(packages):
    """Returns (name, command, folder) of each test program; integration tests first, because they take longest."""
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
    """Returns the LD_LIBRARY_PATH for tests of a procedural macro, with the compiler's libraries, as `cargo test` sets it."""
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
    """Returns the long suites, one per group of LONG, and the random experiments; sets seeds from the commit hash."""
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
    # strobe-py has no Rust tests; scripts/python.py builds it.
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
    # Suites overlap, because the last long test of a suite uses one processor. Tests with guests are parallel themselves.
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
