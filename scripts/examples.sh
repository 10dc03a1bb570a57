#!/bin/sh
# Runs every example and checks its result. Usage: examples.sh [path/to/strobe]
set -eu
program=${1:-}
cd "$(dirname "$0")/.."
strobe=${program:-$(sh scripts/program.sh strobe)}

"$strobe" run examples/quickstart.toml --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["config"]["drive"]["preset"] == "tlc-nvme-1t" and r["window"]["verdict"] == "steady", r["window"]
assert 6 < r["waf"] < 8 and 15000 < r["jobs"][0]["write"]["iops"] < 25000, (r["waf"], r["jobs"][0]["write"]["iops"])
print("quickstart: WAF %.3f" % r["waf"])'

"$strobe" run examples/camera.toml --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["trace"]["requests"]["write"] == 709650, r["trace"]
assert 1.5 < r["waf"] < 2.5, r["waf"]
print("camera: WAF %.3f" % r["waf"])'

"$strobe" run examples/steady-state.toml --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert abs(r["waf"] / 2.45 - 1) < 0.01, r["waf"]
assert r["steady_state"]["reached"]
print("steady state: WAF %.3f" % r["waf"])'

for victim in greedy capi; do
    "$strobe" run examples/hot-cold.toml --set drive.ftl.gc.victim=$victim --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
victim = r["config"]["drive"]["ftl"]["gc"]["victim"]
assert abs(r["waf"] / {"greedy": 6.28, "capi": 3.69}[victim] - 1) < 0.01, (victim, r["waf"])
print("hot/cold, %s: WAF %.3f" % (victim, r["waf"]))'
done

"$strobe" run examples/wear-out.toml --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
curve = r["wear"]["bad_block_curve"]
assert r["ended_by"] == "end-of-life" and not r["partial"], r["ended_by"]
assert len(curve) > 10 and curve[0]["host_pages"] < curve[-1]["host_pages"], curve
reached = curve[0]["host_pages"] / r["wear"]["ideal_host_pages"]
assert 0.1 < reached < 1, reached
print("wear-out: first bad block at %.0f %% of the ideal" % (100 * reached))'

"$strobe" run examples/power-cut.toml --quiet --json - | python3 -c '
import json, sys
cuts = json.load(sys.stdin)["power_cuts"]
assert len(cuts) > 5, len(cuts)
assert all(cut["verified"]["wrong"] == 0 for cut in cuts), cuts
assert sum(cut["recovery"]["units_found"] for cut in cuts) > 0
print("power cut: %d times, %d unflushed units, no flushed one lost" % (len(cuts), sum(cut["verified"]["unflushed"] for cut in cuts)))'

"$strobe" run examples/read-errors.toml --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
read, pages = r["host"]["read"], r["nand"]["uncorrectable_reads"]
assert 20 < read["errors"] < read["commands"] / 100 and pages >= read["errors"], (read, pages)
assert "errors" not in r["host"]["write"], r["host"]["write"]
print("read errors: %d of %d reads failed" % (read["errors"], read["commands"]))'

"$strobe" run examples/latency-under-load.toml --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert len(r["jobs"]) == 7 and r["jobs"][0]["jobname"] == "probe", [j["jobname"] for j in r["jobs"]]
assert r["load"]["kept_up"] and abs(r["load"]["offered_iops"] / 1000 - 1) < 0.05, r["load"]
for op in "read", "write":
    assert sum(j[op]["total_ios"] for j in r["jobs"]) == r["total"][op]["total_ios"] == r["host"][op]["commands"]
print("latency under load: the probe read in %.0f us" % (r["jobs"][0]["read"]["lat_ns"]["percentile"]["50.000000"] / 1000))'

for cleaning in move copy; do
    "$strobe" run examples/cleaning.toml --set workload.cleaning=$cleaning --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
cleaning, lfs, host = r["config"]["workload"]["cleaning"], r["lfs"], r["host"]
assert lfs["moved_bytes"] == host["copy" if cleaning == "copy" else "read"]["bytes"], (lfs, host)
assert host["read" if cleaning == "copy" else "copy"]["commands"] == 0, host
print("cleaning by %s: segments %.0f %% live, %.3f bytes programmed per byte" % (
    cleaning, 100 * lfs["victims_live"], lfs["programmed_per_byte"]))'
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$strobe" sweep examples/sweep.toml --quiet --out "$folder/sweep"
python3 - "$folder/sweep/summary.csv" <<'PY'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 15 and all(row["waf_n"] == "5" for row in rows), rows
wafs = {}
for row in rows:
    wafs.setdefault(row["victim"], []).append(float(row["waf"]))
# Expected: more spare flash lowers the WAF of every policy, and policies that use ages win with skewed writes.
assert all(waf == sorted(waf, reverse=True) for waf in wafs.values()), wafs
assert all(cb < g < f for cb, g, f in zip(wafs["cost-benefit"], wafs["greedy"], wafs["fifo"])), wafs
print("sweep: WAF of greedy " + ", ".join(f"{waf:.2f}" for waf in wafs["greedy"]))
PY

"$(sh scripts/program.sh own_policy)"
"$(sh scripts/program.sh own_placement)"

for scheme in sepbit none; do
    "$strobe" run examples/sepbit.toml --set drive.ftl.placement.scheme=$scheme --quiet --json - 2>&1 | python3 -c '
import json, sys
r = json.load(sys.stdin)
scheme = r["config"]["drive"]["ftl"].get("placement", {}).get("scheme", "none")
assert abs(r["waf"] / {"sepbit": 2.32, "none": 2.567}[scheme] - 1) < 0.01, (scheme, r["waf"])
print("placement %s: WAF %.3f" % (scheme, r["waf"]))'
done

for handle in 1 0; do
    "$strobe" run examples/fdp.toml --set jobs.hot.placement_handle=$handle --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
waf = {1: 1.183, 0: 4.122}['$handle']
assert abs(r["waf"] / waf - 1) < 0.01, r["waf"]
units = r["placement_handles"]
media = sum(handle["media_bytes"] for handle in units["handles"]) + units["shared_media_bytes"]
assert media == r["nand"]["program"]["total"] * 4096, units
print("FDP, hot data by handle '$handle': WAF %.3f" % r["waf"])'
done
