#!/usr/bin/env python3
"""Measures a drive for `strobe twin fit`: latencies of reads and writes at several rates, as CSV.

EVERYTHING ON THE DRIVE IS LOST. It is written once in order and three times at random, then loaded at each rate for
several minutes. Without --yes the script only prints its plan, the time, and the written amount. Drives that are mounted, have
partitions or a file system, or belong to swap, LVM, MD, ZFS or a loop device are not touched.

    measure-drive.py /dev/nvme1n1 --out my.csv
    measure-drive.py /dev/nvme1n1 --out my.csv --yes /dev/nvme1n1

After a stop the same command resumes: the filling and finished rates are not repeated. Do not use the drive for anything
else until then. Needs fio 3, blkid, and the right to write to the drive.

The load follows published measurements (SSD-iq, Haas et al., PVLDB 2025): 4 KiB requests at random addresses with
exponential gaps. One measured job reads and writes; six others only write. The given rate is the sum of all writes.
Each job has at most 64 requests in flight. At the end all jobs write as fast as they can; this row has no offered rates. Write
amplification is not measured: docs/how-to/twins.md explains how to add it to the file.
"""
import argparse
import csv
import errno
import fcntl
import io
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time

PERCENTILES = {"p50": "50.000000", "p99": "99.000000", "p999": "99.900000", "p9999": "99.990000"}
COLUMNS = ["capacity_bytes", "jobs", "queue_depth", "offered_writes_s", "offered_reads_s", "completed_s"] + [
    f"{kind}_{name}_us" for kind in ("read", "write") for name in PERCENTILES]
JOBS, DEPTH = 7, 64
# Once in order, three times at random.
PASSES = 4
# Start of the first line of the output file; the rest identifies the drive.
HEAD = "# measure-drive.py: "


def refuse(what):
    print(what, file=sys.stderr)
    sys.exit(2)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="the drive, or a file for a trial (its content is lost as well)")
    parser.add_argument("--out", required=True, help="output file (CSV)")
    parser.add_argument("--rates", default="10000,20000,30000,40000,50000,60000,80000,100000,150000,250000",
                        help="writes per second, ascending; the last should exceed the throughput of the drive")
    parser.add_argument("--reads", type=int, default=5000, help="reads per second of the measured job")
    parser.add_argument("--seconds", type=int, default=240, help="measured time per rate")
    parser.add_argument("--settle", type=int, default=60, help="unmeasured seconds before each rate")
    parser.add_argument("--closed-loop", action=argparse.BooleanOptionalAction, default=True,
                        help="at the end, also let all jobs write as fast as they can")
    parser.add_argument("--skip-filling", action="store_true", help="do not fill and overwrite the drive first")
    parser.add_argument("--yes", metavar="TARGET", help="the target again, to start: everything on it is lost")
    parser.add_argument("--fio", default="fio", help="path of fio")
    parser.add_argument("--engine", default="libaio", help="fio's ioengine")
    options = parser.parse_args()
    try:
        options.rates = [int(rate) for rate in options.rates.split(",")]
    except ValueError:
        refuse(f"--rates {options.rates}: numbers with commas between them")
    if options.reads < 100 or options.seconds < 1 or options.settle < 0:
        refuse("--reads must be 100 or more, --seconds 1, and --settle 0")
    if sorted(set(options.rates)) != options.rates or options.rates[0] < options.reads:
        refuse("--rates must ascend, and begin at no less than --reads: the measured job writes as well")
    return options


# Reasons not to write to a target.

def text_of(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def names_in(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def listed(path):
    """Returns the first word of each line of /proc/mounts or /proc/swaps: devices or files."""
    words = [line.split()[0] for line in text_of(path).splitlines() if line.strip()]
    # The kernel escapes blanks as octal numbers.
    return [re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word) for word in words]


def partitions(name, sysfs):
    folder = f"{sysfs}/class/block/{name}"
    return [part for part in names_in(folder) if os.path.exists(f"{folder}/{part}/partition")]


def uses_of_device(name, sysfs="/sys", proc="/proc"):
    """Returns the users of the block device `name` and of its partitions, as texts."""
    found = []
    parts = partitions(name, sysfs)
    for one in [name] + parts:
        for path, how in ((f"{proc}/mounts", "is mounted"), (f"{proc}/swaps", "is swap")):
            if any(device.startswith("/") and os.path.basename(os.path.realpath(device)) == one for device in listed(path)):
                found.append(f"{one} {how}")
        for holder in names_in(f"{sysfs}/class/block/{one}/holders"):
            called = text_of(f"{sysfs}/class/block/{holder}/dm/name")
            found.append(f"{one} is part of {holder}{f' ({called})' if called else ''}")
    if parts:
        found.append(f"it has partitions: {', '.join(parts)}")
    if text_of(f"{sysfs}/class/block/{name}/ro") == "1":
        found.append("it is read-only")
    return found


def uses_of_file(real, sysfs="/sys", proc="/proc"):
    """Returns the users of a regular file, as texts."""
    found = ["it is swap"] if real in map(os.path.realpath, listed(f"{proc}/swaps")) else []
    for name in names_in(f"{sysfs}/class/block"):
        backing = text_of(f"{sysfs}/class/block/{name}/loop/backing_file")
        if backing and os.path.realpath(backing) == real:
            found.append(f"it is behind {name}")
    return found


def content(real):
    """Returns the signatures that blkid finds, as text."""
    done = subprocess.run(["blkid", "-p", "-o", "export", real], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    tags = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.returncode not in (0, 2):
        return "something that blkid cannot tell"
    kinds = [tags[key] for key in ("TYPE", "PTTYPE", "LABEL") if key in tags]
    return " ".join(kinds) if done.returncode == 0 else ""


class Target:
    """Measured drive or file. While this object exists, a drive cannot be mounted or added to an array."""

    def __init__(self, given):
        self.given, self.real = given, os.path.realpath(given)
        self.name = os.path.basename(self.real)
        try:
            mode = os.stat(self.real).st_mode
        except OSError as error:
            refuse(f"{given}: {error.strerror}")
        self.is_device = stat.S_ISBLK(mode)
        if not self.is_device and not stat.S_ISREG(mode):
            namespace = f"; did you mean {self.real}n1?" if os.path.exists(f"{self.real}n1") else ""
            refuse(f"{given} is neither a block device nor a file{namespace}")
        uses = uses_of_device(self.name) if self.is_device else uses_of_file(self.real)
        if uses:
            refuse(f"{given} is in use or not empty: {'; '.join(uses)}. Nothing was done: if this is the right drive, unmount "
                   "what is mounted, take it out of what it is part of, and remove its partitions (wipefs -a)")
        self.claim()
        self.capacity = os.lseek(self.descriptor, 0, os.SEEK_END) // 4096 * 4096
        if self.capacity < 1 << 20:
            refuse(f"{given} has {self.capacity} bytes: there is nothing to measure")
        if not shutil.which("blkid"):
            refuse(f"blkid (package util-linux) is missing: without it the content of {given} is unknown")
        found = content(self.real)
        if found:
            refuse(f"{given} is not empty: it has {found} on it. Nothing was done: if all of it may go, wipefs -a {self.real}")

    def claim(self):
        """Claims the target for this process and fio. The claim also fails for users that leave no other trace, such as ZFS."""
        try:
            self.descriptor = os.open(self.real, os.O_RDWR | (os.O_EXCL if self.is_device else 0))
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            is_busy = error.errno in (errno.EBUSY, errno.EWOULDBLOCK)
            refuse(f"{self.given} is in use: mounted, part of something, or being measured; nothing was done" if is_busy
                   else f"{self.given}: {error.strerror}")

    def identity(self):
        """Returns a text that distinguishes drives of equal capacity."""
        if not self.is_device:
            return self.real
        folder = f"/sys/class/block/{self.name}"
        known = [text_of(f"{folder}/{file}") for file in ("device/model", "device/serial", "wwid", "dm/name")]
        return " ".join(word for word in known if word) or self.name

    def described(self):
        lines = [f"{self.given}{f' (it is {self.real})' if self.real != self.given else ''}: {self.capacity / 1e9:.3f} GB"]
        if self.is_device:
            below = names_in(f"/sys/class/block/{self.name}/slaves")
            lines.append(self.identity() + (f", on {', '.join(below)}: its data there is lost" if below else ""))
        return "; ".join(lines)


class Rows:
    """Output file with the progress and the measured rows. It is replaced atomically, so it is always complete."""

    def __init__(self, path, target):
        self.path, self.done, self.rows = path, {"drive": target.identity(), "capacity_bytes": target.capacity, "passes": 0}, []
        if os.path.realpath(path) == target.real:
            refuse(f"--out {path} is the measured target: name another file")
        if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
            refuse(f"--out {path}: there is no such folder")
        if not os.path.lexists(path):
            return
        if not os.path.isfile(path):
            refuse(f"--out {path} is no file")
        with open(path, newline="", errors="replace") as file:
            head, rows = file.readline(), csv.DictReader(file)
            try:
                done = json.loads(head.removeprefix(HEAD)) if head.startswith(HEAD) else None
                self.rows = list(rows)
                offered = [(row["offered_writes_s"], row["offered_reads_s"]) for row in self.rows]
                is_ours = (done is not None and rows.fieldnames == COLUMNS and isinstance(done["passes"], int)
                           and all(pair == ("", "") or int(pair[0]) and int(pair[1]) for pair in offered))
            except (ValueError, TypeError, KeyError):
                is_ours = False
        if not is_ours:
            refuse(f"--out {path} is there, and is no file of this script, or was changed: name another one")
        if any(done[key] != self.done[key] for key in ("drive", "capacity_bytes")):
            refuse(f"--out {path} is about another drive ({done['drive']}, {done['capacity_bytes']} bytes): name another file")
        self.done = done

    def has(self, writes, reads):
        asked = (str(writes), str(reads))
        return any((str(row["offered_writes_s"]), str(row["offered_reads_s"])) == asked for row in self.rows)

    def save(self):
        text = io.StringIO()
        text.write(HEAD + json.dumps(self.done) + "\n")
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        part = f"{self.path}.part"
        try:
            with open(part, "w") as file:
                file.write(text.getvalue())
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except OSError as error:
            refuse(f"--out {self.path}: {error.strerror}; the existing file was not changed")


# Filling and measurement.

def check_fio(program):
    try:
        done = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True)
    except OSError as error:
        refuse(f"{program}: {error.strerror}; install fio 3, or give its path with --fio")
    version = re.match(r"fio-(\d+)", done.stdout)
    if not version or int(version[1]) < 3:
        refuse(f"{program} --version says \"{done.stdout.partition(chr(10))[0]}\": it takes fio 3, older ones have other units")


def fio(options, target, jobs):
    """Runs fio with the jobs; returns the results by job."""
    command = [options.fio, "--output-format=json", "--group_reporting=0"]
    common = {"filename": target.real.replace(":", "\\:"), "direct": 1, "ioengine": options.engine, "norandommap": 1,
              "percentile_list": "50:99:99.9:99.99"}
    for name, job in jobs.items():
        command += [f"--name={name}"] + [f"--{key}={value}" for key, value in {**common, **job}.items()]
    # fio inherits the claim on the drive, and keeps it if this process is killed.
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[target.descriptor])
    try:
        text, _ = child.communicate()
    except BaseException:
        # fio must stop writing.
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
    try:
        found = json.loads(text[text.index("{"):])["jobs"]
    except (ValueError, KeyError):
        found = []
    if child.returncode != 0 or len(found) != sum(job.get("numjobs", 1) for job in jobs.values()) or any(
            job.get("error") for job in found):
        sys.exit(f"fio failed with exit code {child.returncode}: {' '.join(command)}")
    return found


def write_pass(options, target, done):
    """Writes the whole drive once; `done` passes are complete."""
    if done == 0:
        print("Writing all of it in order ...", flush=True)
        fio(options, target, {"fill": {"rw": "write", "bs": "1M", "iodepth": 16, "size": target.capacity}})
    else:
        print(f"Overwriting it at random, {done} of {PASSES - 1} ...", flush=True)
        fio(options, target, {"overwrite": {"rw": "randwrite", "bs": "4k", "iodepth": 256, "size": target.capacity,
                                            "io_size": target.capacity, "randseed": done}})


def timed(options, target, seed):
    # Each row has different addresses: repeated ones would invalidate whole blocks in the order of their writes.
    return {"time_based": 1, "ramp_time": options.settle, "runtime": options.seconds, "bs": "4k", "size": target.capacity,
            "iodepth": DEPTH, "randseed": seed}


def requests_s(found):
    return round(sum(job["read"]["iops"] + job["write"]["iops"] for job in found))


def measure_closed_loop(options, target):
    found = fio(options, target, {"load": {**timed(options, target, 999), "rw": "randwrite", "numjobs": JOBS}})
    row = dict.fromkeys(COLUMNS, "")
    return {**row, "capacity_bytes": target.capacity, "jobs": JOBS, "queue_depth": DEPTH, "completed_s": requests_s(found)}


def measure(options, target, rate):
    paced = {**timed(options, target, 1000 + rate), "rate_process": "poisson"}
    jobs = {"probe": {**paced, "rw": "randrw", "rwmixread": 50, "rate_iops": f"{options.reads},{options.reads}"}}
    each = round((rate - options.reads) / (JOBS - 1))
    if each > 0:
        jobs["load"] = {**paced, "rw": "randwrite", "numjobs": JOBS - 1, "rate_iops": each}
    found = fio(options, target, jobs)
    probe = next(job for job in found if job["jobname"] == "probe")
    done = requests_s(found)
    row = {"capacity_bytes": target.capacity, "jobs": JOBS, "queue_depth": DEPTH, "offered_writes_s": rate,
           "offered_reads_s": options.reads,
           # Random excess over the requested rate does not count.
           "completed_s": min(done, rate + options.reads)}
    for kind in ("read", "write"):
        percentiles = probe[kind].get("clat_ns", {}).get("percentile", {})
        for name, of in PERCENTILES.items():
            if of not in percentiles:
                sys.exit(f"fio reports no {of}th percentile of {kind}s; try more --seconds")
            row[f"{kind}_{name}_us"] = round(percentiles[of] / 1000, 1)
    return row


def span(seconds):
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def main():
    options = arguments()
    target = Target(options.target)
    rows = Rows(options.out, target)
    if options.skip_filling:
        rows.done["passes"] = PASSES
    left = [rate for rate in options.rates if not rows.has(rate, options.reads)]
    closed_loop = options.closed_loop and not rows.has("", "")
    loads = [f"{rate} writes/s" for rate in left] + ["as fast as it can"] * closed_loop
    passes = PASSES - rows.done["passes"] if loads else 0
    seconds = len(loads) * (options.seconds + options.settle)
    # The maximum throughput is not known yet; the last rate should exceed it.
    rates = left + options.rates[-1:] * closed_loop
    written = sum(rates) * 4096 * (options.seconds + options.settle) + passes * target.capacity
    print(target.described())
    print(f"To measure: {', '.join(loads) or 'nothing is left'}. This takes {span(seconds)}.")
    if passes:
        fast, slow = (span(passes * target.capacity / rate) for rate in (5e8, 5e7))
        print(f"Before, all of it is written {passes} times{', but for the first at random' if passes == PASSES else ' at random'}: "
              f"{fast} at 500 MB/s, {slow} at 50 MB/s.")
    print(f"It writes at most {written / 1e12:.2f} TB, {written / target.capacity:.1f} times the capacity. Data sheets promise "
          "some hundred to some thousand.", flush=True)
    check_fio(options.fio)
    if not loads:
        print(f"All is measured: strobe twin fit {options.out} --out my-drive.toml")
        return
    if options.yes != options.target:
        print(f"EVERYTHING ON {options.target} WILL BE LOST. To do it: --yes {options.target}")
        sys.exit(0 if options.yes is None else 2)
    rows.save()
    for done in range(rows.done["passes"], PASSES):
        write_pass(options, target, done)
        rows.done["passes"] = done + 1
        rows.save()
    for rate in left:
        print(f"{time.strftime('%H:%M')}: {rate} writes a second ...", flush=True)
        row = measure(options, target, rate)
        rows.rows.append(row)
        rows.save()
        print(f"       reads p50 {row['read_p50_us']} µs, p99 {row['read_p99_us']} µs; {row['completed_s']} requests/s",
              flush=True)
    if closed_loop:
        print(f"{time.strftime('%H:%M')}: writes as fast as it can ...", flush=True)
        row = measure_closed_loop(options, target)
        rows.rows.append(row)
        rows.save()
        print(f"       {row['completed_s']} requests/s", flush=True)
    print(f"Done. Now: strobe twin fit {options.out} --out my-drive.toml")


def stop(*_):
    raise KeyboardInterrupt


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        main()
    except KeyboardInterrupt:
        print("Stopped. Finished rows are in the file; the same command resumes.", file=sys.stderr)
        sys.exit(130)
