#!/usr/bin/env python3
"""Runs a test suite of the kernel in guests and prints the outcome of each test as Markdown.

Called by xfstests.sh and blktests.sh. A batch of tests shares a guest. If a test does not end in time, it is reported as
not finished, and the remaining tests run in the next guest. Failed tests run again in the same guest on disks in memory.
A test that also fails there is not the drive's fault.
"""
import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile

PASS, FAIL, NOT_RUN, UNFINISHED = "pass", "fail", "not run", "not finished"
STATES = [PASS, FAIL, NOT_RUN, UNFINISHED]
AGAIN = "== the same in memory =="
# Disks in memory of $MIB MiB each; the third one holds the write log of xfstests.
MEMORY_DISKS = """
for disk in strobe-a strobe-b strobe-c; do
    mkdir /sys/kernel/config/nullb/$disk && cd /sys/kernel/config/nullb/$disk || exit 1
    echo 1 > memory_backed; echo 1 > discard; echo $MIB > size; echo 1 > power
done
"""
# Guests run no udevd, and programs that wait for it would hang.
NO_UDEV = """
mkdir -p /tmp/bin
printf '#!/bin/sh\\nexit 0\\n' > /tmp/bin/udevadm
chmod +x /tmp/bin/udevadm
# Makes names of the device mapper links to their nodes, as udevd does: xfstests needs them to find /sys entries.
dmsetup=$(command -v dmsetup) && cat > /tmp/bin/dmsetup <<END && chmod +x /tmp/bin/dmsetup
#!/bin/sh
$dmsetup "\\$@" || exit
for name in /dev/mapper/*; do
    test ! -b \\$name -o -L \\$name || ln -sf ../dm-\\$((0x\\$(stat -c %T \\$name))) \\$name
done
END
export PATH=/tmp/bin:$PATH DM_DISABLE_UDEV=1
"""
# Built-in drivers without parameters are not in /sys/module, so blktests asks modprobe. Drivers of NVMe targets are left
# out, because their tests wait for udevd.
BUILT_IN = """
modules=/lib/modules/$(uname -r)
mkdir -p $modules
echo kernel/drivers/md/dm-dust.ko > $modules/modules.builtin
touch $modules/modules.order $modules/modules.builtin.modinfo
depmod
"""
XFSTESTS = """
cd {checkout}
{no_udev}
mount -t configfs none /sys/kernel/config 2>/dev/null
mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
printf '%s:*:%s::/tmp:/bin/bash\\n' fsgqa 900:900 fsgqa2 901:901 123456-fsgqa 902:902 >> /etc/passwd
printf '%s:x:%s:\\n' fsgqa 900 fsgqa2 901 123456-fsgqa 902 >> /etc/group
mkdir -p /mnt/test /mnt/scratch
# A session keyring, as a login creates it; tests add keys to it.
session=$(command -v keyctl > /dev/null && echo keyctl session -)
export FSTYP={kind} TEST_DIR=/mnt/test SCRATCH_MNT=/mnt/scratch RESULT_BASE=/tmp/results
on() {{
    export TEST_DEV=$1 SCRATCH_DEV=$2 LOGWRITES_DEV=$3; shift 3
    mkfs -t $FSTYP {force} $TEST_DEV > /dev/null 2>&1
    $session ./check "$@"
    umount /mnt/test /mnt/scratch 2>/dev/null
}}
on /dev/vda1 /dev/vda2 /dev/vdb {tests}
failed=$(sed -n 's/^Failures: //p' /tmp/results/check.log | tail -n 1)
test -n "$failed" || exit 0
echo "{again}"
MIB=$(($(blockdev --getsz /dev/vda1) / 2048))
({memory_disks})
on /dev/strobe-a /dev/strobe-b /dev/strobe-c $failed
"""
BLKTESTS = """
cd {checkout}
{no_udev}
{built_in}
mount -t configfs none /sys/kernel/config 2>/dev/null
mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
echo 'tester:*:900:900::/tmp:/bin/bash' >> /etc/passwd
printf 'TEST_DEVS=(/dev/nvme0n1)\\nNORMAL_USER=tester\\n' > /tmp/drive
./check -c /tmp/drive -o /tmp/results {tests} | tee /tmp/said
failed=$(sed -n 's/^\\([a-z]*.[0-9]*\\) => .*\\[failed\\].*/\\1/p' /tmp/said)
test -n "$failed" || exit 0
echo "{again}"
MIB=1024
({memory_disks})
printf 'TEST_DEVS=(/dev/strobe-a)\\nNORMAL_USER=tester\\n' > /tmp/memory
./check -c /tmp/memory -o /tmp/results-memory $failed
"""


class Found:
    """Outcome of a test: its state and the reason."""

    def __init__(self, state, why=""):
        self.state, self.why = state, why

    def __eq__(self, other):
        return (self.state, self.why) == (other.state, other.why)

    def __repr__(self):
        return f"Found({self.state!r}, {self.why!r})"


def parse_xfstests(text):
    """Returns the outcomes of tests in the output of xfstests' check, by name."""
    found, last = {}, None
    for line in text.splitlines():
        begun = re.match(r"(\w+/\d{3,})(\s.*)?$", line)
        if begun:
            last, rest = begun[1], (begun[2] or "").strip()
            if "[not run]" in rest:
                found[last] = Found(NOT_RUN, rest.split("[not run]", 1)[1].strip())
            elif re.search(r"\[failed|output mismatch|\[dumped core\]|no qualified output|_check_", rest):
                found[last] = Found(FAIL, rest[rest.find("[") if "[" in rest else 0:].lstrip("- "))
            elif re.search(r"(^|\s)\d+s$", rest):
                found[last] = Found(PASS)
            else:
                found[last] = Found(UNFINISHED)
        elif line.startswith("_check_") and last:
            found[last] = Found(FAIL, line)
        elif last and found[last].state == FAIL and re.match(r"    [+-](?![+-])", line):
            # The first unexpected or missing line.
            if not re.search(r"^.*: [+-]", found[last].why):
                found[last].why = f"{found[last].why.split(' (see')[0]}: {line.strip()}"
        summary = re.match(r"(Failures|Not run): (.*)", line)
        for name in summary[2].split() if summary else []:
            state = FAIL if summary[1] == "Failures" else NOT_RUN
            if found.setdefault(name, Found(state)).state not in (FAIL, state):
                found[name] = Found(state, found[name].why)
    return found


def parse_blktests(text):
    """Returns the outcomes of tests in the output of blktests' check, by name."""
    found, last = {}, None
    for line in text.splitlines():
        begun = re.match(r"(\w+/\d{3})(?: => \S+)?.*?(?:\[(passed|failed|not run)\]\s*)?$", line)
        if begun:
            last = begun[1]
            state = {"passed": PASS, "failed": FAIL, "not run": NOT_RUN, None: UNFINISHED}[begun[2]]
            found[last] = Found(state)
        elif last and line.startswith("    ") and "\t" not in line and found[last].state in (FAIL, NOT_RUN):
            # Skips measurements, heads of differences and expected lines.
            is_news = not re.match(r"    (\w[\w ]*\s+\.\.\.|---|\+\+\+|@@| )", line)
            if not found[last].why and is_news:
                found[last].why = line.strip()
    return found


def check_checkout(suite, path):
    """Exits if `path` is not a built checkout of the suite."""
    needs = {
        "xfstests": (["check", "common/rc", "tests/generic"], "ltp/fsstress"),
        "blktests": (["check", "common/rc", "tests/block"], "src/discontiguous-io"),
    }
    files, built = needs[suite]
    for name in files:
        if not os.path.exists(os.path.join(path, name)):
            sys.exit(f"{path} is no checkout of {suite}: it has no {name}")
    if not os.access(os.path.join(path, built), os.X_OK):
        sys.exit(f"{path} is not built, it has no program {built}: run make there")


def quick_tests(checkout):
    """Returns the tests of generic/ in the group quick."""
    folder, names = os.path.join(checkout, "tests", "generic"), []
    for name in sorted(os.listdir(folder)):
        if re.fullmatch(r"\d{3,}", name):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                groups = re.search(r"^_begin_fstest (.*)$", file.read(), re.M)
            if groups and "quick" in groups[1].split():
                names.append(f"generic/{name}")
    return names


def named_tests(checkout, wanted):
    """Returns the tests named by `wanted`; a bare number means generic/."""
    names = [name if "/" in name else f"generic/{name}" for name in wanted]
    for name in names:
        if not os.path.isfile(os.path.join(checkout, "tests", name)):
            sys.exit(f"{checkout} has no test {name}")
    return names


def blk_tests(checkout, wanted):
    """Returns the tests named by `wanted`, which has tests or groups."""
    names = []
    for one in wanted or ["block", "loop", "dm", "nvme", "scsi", "throtl", "zbd"]:
        folder = os.path.join(checkout, "tests", one)
        inside = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        names += [f"{one}/{name}" for name in inside if re.fullmatch(r"\d{3}", name)] or ([one] if wanted else [])
    for name in names:
        if not os.path.isfile(os.path.join(checkout, "tests", name)):
            sys.exit(f"{checkout} has no test or group {name}")
    return names


class Guests:
    """Runs batches of tests in guests."""

    def __init__(self, options, kind):
        self.options, self.kind = options, kind

    def boot(self, tests):
        """Returns the output of a guest that runs `tests`, and the reason if it ended early."""
        options = self.options
        checkout = shlex.quote(os.path.abspath(options.checkout))
        words = {"checkout": checkout, "tests": " ".join(tests), "again": AGAIN, "memory_disks": MEMORY_DISKS}
        words |= {"no_udev": NO_UDEV, "built_in": BUILT_IN}
        if options.suite == "xfstests":
            force = {"ext4": "-F"}.get(self.kind, "-f")
            script = XFSTESTS.format(kind=self.kind, force=force, **words)
            disk = ["--partitions", "2", "--drive", options.drive]
        else:
            script, disk = BLKTESTS.format(**words), ["--interface", "nvme"]
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write(script)
            file.flush()
            command = [options.strobe, "linux", "--kernel", options.kernel, "-q", "--fs", "none"]
            command += ["--drive", options.drive, "--memory", str(options.memory), *disk]
            with tempfile.TemporaryFile("w+", errors="replace") as said:
                process = subprocess.Popen(
                    [*command, "--", "bash", file.name], stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.PIPE
                )
                ended = None
                try:
                    _, errors = process.communicate(timeout=options.wall * len(tests))
                    if process.returncode == 1:
                        # The kernel's last messages follow the program's output.
                        lines = errors.decode(errors="replace").splitlines()
                        ended = next((line[:100] for line in lines if line.startswith("strobe:")), None)
                except subprocess.TimeoutExpired:
                    process.terminate()
                    process.communicate()
                    ended = f"no end in {options.wall * len(tests)} s of wall time"
                said.seek(0)
                return said.read(), ended

    def run(self, tests, found, memory):
        """Adds the outcomes of `tests` to `found`. Adds the states of failed tests, repeated on disks in memory, to `memory`."""
        parse = parse_xfstests if self.options.suite == "xfstests" else parse_blktests
        left = list(tests)
        while left:
            batch, left = left[: self.options.batch], left[self.options.batch :]
            text, ended = self.boot(batch)
            on_drive, _, in_memory = text.partition(AGAIN)
            here = {name: what for name, what in parse(on_drive).items() if name in batch}
            memory.update({name: what.state for name, what in parse(in_memory).items()})
            missing = [name for name in batch if here.get(name, Found(UNFINISHED)).state == UNFINISHED]
            found.update(here)
            if missing:
                found[missing[0]] = Found(UNFINISHED, ended or "the guest ended before")
                left = missing[1:] + left
            for name in batch:
                if name in found and (name not in missing or name == missing[0]):
                    again = f" (in memory: {memory[name]})" if name in memory else ""
                    print(f"{self.kind} {name}: {found[name].state} {found[name].why}{again}", file=sys.stderr, flush=True)


def cell(text):
    return text.replace("|", "\\|")


def table(results):
    """Returns Markdown tables of the results: {file system: (outcomes, states in memory)}."""
    lines = ["| | tried | " + " | ".join(STATES) + " |", "|---" * (len(STATES) + 2) + "|"]
    for kind, (found, _) in results.items():
        counts = [sum(what.state == state for what in found.values()) for state in STATES]
        lines.append(f"| {kind} | {len(found)} | " + " | ".join(map(str, counts)) + " |")
    wrong = [
        f"| {kind} | {name} | {cell(what.why) or what.state} | {memory.get(name, 'not tried')} |"
        for kind, (found, memory) in results.items()
        for name, what in sorted(found.items())
        if what.state in (FAIL, UNFINISHED)
    ]
    if wrong:
        lines += ["", "| | not passed | on the drive | on disks in memory |", "|---|---|---|---|", *wrong]
    reasons = {}
    for kind, (found, _) in results.items():
        for name, what in sorted(found.items()):
            if what.state == NOT_RUN:
                reasons.setdefault((kind, what.why or "no reason given"), []).append(name)
    if reasons:
        lines += ["", "| | not run because | tests |", "|---|---|---|"]
        lines += [f"| {kind} | {cell(why)} | {' '.join(names)} |" for (kind, why), names in sorted(reasons.items())]
    return "\n".join(lines)


def kernel_for_suites(strobe):
    """Returns the kernel of `--with tests`, built if missing."""
    made = subprocess.run([strobe, "linux", "build-kernel", "--with", "tests"], stdout=subprocess.PIPE, check=False)
    if made.returncode:
        sys.exit("no kernel for the suites, for the reason above")
    return made.stdout.decode().strip().rsplit(": ", 1)[-1]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=["xfstests", "blktests"])
    parser.add_argument("checkout", help="folder of the suite, built with make")
    parser.add_argument("tests", nargs="*", help="tests, or groups of blktests [default: generic/ quick; all groups that apply]")
    parser.add_argument("--fs", default="ext4,f2fs,xfs,btrfs", help="file systems of xfstests [default: %(default)s]")
    parser.add_argument("--drive", default="generic-8g", help="preset or file of the drive [default: %(default)s]")
    parser.add_argument("--memory", type=int, default=1536, help="memory of a guest in MiB [default: %(default)s]")
    parser.add_argument("--batch", type=int, default=8, help="tests per guest [default: %(default)s]")
    parser.add_argument("--wall", type=int, default=120, help="time limit in seconds per test of a batch [default: %(default)s]")
    parser.add_argument("--strobe", default="strobe", help="the program [default: the one in PATH]")
    parser.add_argument("--kernel", help="kernel [default: the one of build-kernel --with tests]")
    options = parser.parse_intermixed_args(arguments)
    check_checkout(options.suite, options.checkout)
    options.kernel = options.kernel or kernel_for_suites(options.strobe)
    if options.suite == "xfstests":
        tests = named_tests(options.checkout, options.tests) or quick_tests(options.checkout)
        runs = {kind: (kind, tests) for kind in options.fs.split(",")}
    else:
        runs = {"/dev/nvme0n1": ("nvme", blk_tests(options.checkout, options.tests))}
    results, code = {}, 0
    # A stopped run still prints the table of its finished tests.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for heading, (kind, tests) in runs.items():
            results[heading] = ({}, {})
            Guests(options, kind).run(tests, *results[heading])
    except KeyboardInterrupt:
        print(f"suites: stopped in {heading}; the table has the finished tests", file=sys.stderr)
        code = 130
    print(table(results))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
