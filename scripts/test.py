#!/usr/bin/env python3
"""Builds all test programs, runs them side by side, and says of each what it did.

    test.py            all but those that need a kernel for guests
    test.py --linux    those

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

# They need a kernel for guests, which takes minutes to build.
NEED_KERNEL = {"linux", "linux_crash"}
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
SKIPPED = re.compile(r"SKIPPED: (.*)")


def is_set(variable):
    return os.environ.get(variable, "") not in ("", "0", "false")


def cargo(*arguments):
    return [os.environ.get("CARGO", "cargo"), *arguments]


def test_programs(packages):
    """(name, command, folder) of each test program, those of whole crates' behaviour first: they take longest."""
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
    """Where the tests of a procedural macro find the compiler's libraries, as `cargo test` tells them."""
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
    reasons = list(dict.fromkeys(SKIPPED.findall(done.stdout)))
    skipped = len({reason.split(": ")[0] for reason in reasons})
    return name, (passed - skipped, failed, ignored, skipped), seconds, reasons, done.stdout


def main():
    linux = "--linux" in sys.argv
    # What has no tests of Rust's own is compiled for those of Python.
    all_crates = ["--workspace", "--exclude=strobe-py"]
    suites = test_programs(["--package=strobe-cli", "--package=strobe-crash-tests", "--test=linux", "--test=linux_crash"] if linux else all_crates)
    if linux:
        suites = [(name, command + ["--nocapture"], folder) for name, command, folder in suites]
        suites.append(("notebook on a kernel", [sys.executable, "scripts/python.py", "-m", "kernel"], "."))
    else:
        suites.insert(0, ("documentation", cargo("test", "--quiet", *all_crates, "--doc"), "."))
        suites.insert(0, ("python", [sys.executable, "scripts/python.py"], "."))
        suites.insert(0, ("documentation site", [sys.executable, "scripts/site.py"], "."))
        suites.insert(0, ("report in a browser", [sys.executable, "scripts/report_browser.py"], "."))
    # A suite uses all processors until its last long test; then the next one has them. Guests are many already.
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
    print(f"{len(suites)} suites, {ignored} tests ignored: those of `make test-long`")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if not linux:
        print("Not among them are linux, linux_crash and the notebook on a kernel: `make test-linux` runs them.")
    if skipped and (is_set("CI") or is_set("STROBE_REQUIRE_KERNEL")):
        sys.exit("Nothing may be skipped here.")
    if failed or passed == 0:
        sys.exit("Not all that ran has passed." if failed else "Nothing has run.")


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
main()
