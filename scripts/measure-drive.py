#!/usr/bin/env python3
"""Measures a drive for `strobe twin fit`: latencies of reads and writes at a row of rates, as CSV.

EVERYTHING ON THE DRIVE IS LOST. It is written once in order and three times at random, then at each rate for some
minutes. Without --yes it only says what it would do, how long that takes, and what it costs the drive.

    measure-drive.py /dev/nvme1n1 --out my.csv
    measure-drive.py /dev/nvme1n1 --out my.csv --yes /dev/nvme1n1

Stopped, the same command goes on where it was: rates whose row is in the file are not measured again. Needs fio 3.

The load is that of published measurements (SSD-iq, Haas et al., PVLDB 2025): 4 KiB requests at random addresses with
exponential gaps. One job reads and writes in turn, and is looked at; six others write, so that all writes together
come at the rate. At most 64 requests of a job are outstanding.
"""
import argparse
import csv
import json
import os
import stat
import subprocess
import sys
import time

COLUMNS = ["capacity_bytes", "jobs", "queue_depth", "offered_writes_s", "offered_reads_s", "completed_s"] + [
    f"{kind}_{name}_us" for kind in ("read", "write") for name in ("p50", "p99", "p999", "p9999")]
PERCENTILES = {"p50": "50.000000", "p99": "99.000000", "p999": "99.900000", "p9999": "99.990000"}
JOBS, DEPTH = 7, 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="the drive, or a file (for a try: its content is lost as well)")
    parser.add_argument("--out", required=True, help="where the rows go (CSV)")
    parser.add_argument("--rates", default="10000,20000,30000,40000,50000,60000,80000,100000,150000,250000",
                        help="writes a second, ascending; the last should be more than the drive carries")
    parser.add_argument("--reads", type=int, default=5000, help="reads a second of the job that is looked at")
    parser.add_argument("--seconds", type=int, default=240, help="for each rate")
    parser.add_argument("--settle", type=int, default=60, help="seconds before each, which do not count")
    parser.add_argument("--skip-filling", action="store_true", help="the drive has been filled and overwritten already")
    parser.add_argument("--yes", metavar="TARGET", help="the target once more: do it, all that is on it is lost")
    parser.add_argument("--fio", default="fio", help="the program")
    parser.add_argument("--engine", default="libaio", help="fio's ioengine")
    return parser.parse_args()


def capacity_of(target):
    """Bytes of a device or file, in whole pages of 4 KiB."""
    try:
        with open(target, "rb") as file:
            return file.seek(0, os.SEEK_END) // 4096 * 4096
    except OSError as error:
        sys.exit(f"{target}: {error.strerror}")


def refuse_if_in_use(target):
    """A device that is mounted, is swap, or is part of something, is not touched."""
    real = os.path.realpath(target)
    if not stat.S_ISBLK(os.stat(real).st_mode):
        return
    name = os.path.basename(real)
    with open("/proc/mounts") as mounts, open("/proc/swaps") as swaps:
        used = [line.split()[0] for line in list(mounts) + list(swaps)[1:]]
    mine = [device for device in used if os.path.basename(os.path.realpath(device)).startswith(name)]
    folder = f"/sys/class/block/{name}"
    parts = [entry for entry in os.listdir(folder) if entry.startswith(name)] if os.path.isdir(folder) else []
    holders = os.listdir(f"{folder}/holders") if os.path.isdir(f"{folder}/holders") else []
    if mine or parts or holders:
        what = ", ".join(mine + parts + holders)
        sys.exit(f"{target} is in use or has partitions ({what}): unmount and remove them first (wipefs -a)")


def fio(options, jobs):
    """Runs fio with the jobs; returns what it measured of each."""
    command = [options.fio, "--output-format=json", "--group_reporting=0"]
    common = {"filename": options.target, "direct": 1, "ioengine": options.engine, "randrepeat": 1, "norandommap": 1,
              "percentile_list": "50:99:99.9:99.99"}
    for name, job in jobs.items():
        command += [f"--name={name}"] + [f"--{key}={value}" for key, value in {**common, **job}.items()]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    start = done.stdout.find("{")
    if done.returncode != 0 or start < 0:
        sys.exit(f"fio failed with exit code {done.returncode}: {' '.join(command)}")
    return json.loads(done.stdout[start:])["jobs"]


def fill(options, capacity):
    print("Writing all of it in order ...", flush=True)
    fio(options, {"fill": {"rw": "write", "bs": "1M", "iodepth": 16, "size": capacity}})
    for turn in range(3):
        print(f"Overwriting it at random, {turn + 1} of 3 ...", flush=True)
        fio(options, {"overwrite": {"rw": "randwrite", "bs": "4k", "iodepth": 256, "size": capacity, "io_size": capacity,
                                    "norandommap": 1, "randseed": turn + 1}})


def measure(options, capacity, rate):
    timed = {"time_based": 1, "ramp_time": options.settle, "runtime": options.seconds, "bs": "4k", "size": capacity,
             "iodepth": DEPTH, "rate_process": "poisson"}
    jobs = {"probe": {**timed, "rw": "randrw", "rwmixread": 50, "rate_iops": f"{options.reads},{options.reads}"}}
    each = round((rate - options.reads) / (JOBS - 1))
    if each > 0:
        jobs["load"] = {**timed, "rw": "randwrite", "numjobs": JOBS - 1, "rate_iops": each}
    found = fio(options, jobs)
    probe = next(job for job in found if job["jobname"] == "probe")
    row = {"capacity_bytes": capacity, "jobs": JOBS, "queue_depth": DEPTH, "offered_writes_s": rate,
           "offered_reads_s": options.reads,
           "completed_s": round(sum(job["read"]["iops"] + job["write"]["iops"] for job in found))}
    for kind in ("read", "write"):
        percentiles = probe[kind]["clat_ns"]["percentile"]
        for name, of in PERCENTILES.items():
            row[f"{kind}_{name}_us"] = round(percentiles[of] / 1000, 1)
    # What comes late by chance is not more than was asked for.
    row["completed_s"] = min(row["completed_s"], rate + options.reads)
    return row


def known_rates(path, capacity):
    """Rates of which the file has a row."""
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != COLUMNS:
            sys.exit(f"{path} is there and has other columns: give another --out")
        rows = list(rows)
    if any(int(row["capacity_bytes"]) != capacity for row in rows):
        sys.exit(f"{path} is about a drive of another capacity: give another --out")
    return [int(row["offered_writes_s"]) for row in rows]


def main():
    options = arguments()
    try:
        rates = [int(rate) for rate in options.rates.split(",")]
    except ValueError:
        sys.exit(f"--rates {options.rates}: numbers with commas between them")
    if sorted(set(rates)) != rates or rates[0] < options.reads or options.reads < 1 or options.seconds < 1:
        sys.exit("--rates must ascend, and begin at no less than --reads: the job that is looked at writes as well")
    capacity = capacity_of(options.target)
    if capacity < 1 << 20:
        sys.exit(f"{options.target} has {capacity} bytes: there is nothing to measure")
    left = [rate for rate in rates if rate not in known_rates(options.out, capacity)]
    is_fresh = len(left) == len(rates) and not options.skip_filling
    seconds = len(left) * (options.seconds + options.settle)
    written = sum(left) * 4096 * (options.seconds + options.settle) + (4 * capacity if is_fresh else 0)
    print(f"{options.target}: {capacity / 1e9:.1f} GB. Rates to measure: {', '.join(map(str, left)) or 'none is left'}.")
    print(f"This takes {seconds / 60:.0f} minutes{' after filling it four times' if is_fresh else ''} (at 500 MB/s: "
          f"{4 * capacity / 5e8 / 60 if is_fresh else 0:.0f} minutes), and writes at most {written / 1e12:.2f} TB: "
          f"{written / capacity:.1f} times its capacity, of a few thousand that it lasts.")
    if options.yes != options.target:
        print(f"EVERYTHING ON {options.target} WILL BE LOST. To do it: --yes {options.target}")
        sys.exit(0 if options.yes is None else 2)
    refuse_if_in_use(options.target)
    if is_fresh:
        fill(options, capacity)
    for rate in left:
        started = time.strftime("%H:%M")
        print(f"{started}: {rate} writes a second ...", flush=True)
        row = measure(options, capacity, rate)
        is_new = not os.path.exists(options.out)
        with open(options.out, "a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if is_new:
                writer.writeheader()
            writer.writerow(row)
        print(f"       reads p50 {row['read_p50_us']} µs, p99 {row['read_p99_us']} µs; {row['completed_s']} requests/s")
    print(f"Done. Now: strobe twin fit {options.out} --out my-drive.toml")


main()
