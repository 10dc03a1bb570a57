#!/bin/sh
# How much does spare space buy? Write amplification, throughput and tail latency of uniform random
# writes over a range of over-provisioning, as CSV. Two simulations run at a time.
#
#     examples/sweep-over-provisioning.sh            (STROBE=path/to/strobe to choose the program)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
STROBE=${STROBE:-${CARGO_TARGET_DIR:-$here/../target}/release/strobe}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

printf '%s\n' 0.07 0.10 0.15 0.20 0.28 0.40 0.60 1.00 |
    xargs -P 2 -I OP "$STROBE" run "$here/steady-state.toml" --quiet --json "$out/OP.json" \
        --set drive.nand.blocks_per_plane=2048 --set drive.ftl.over_provisioning=OP \
        --set run.warmup=4x --set run.measure=2x

python3 - "$out"/*.json <<'PY'
import json, sys

print("over_provisioning,waf,iops,write_p99_us,write_p99.9_us")
for path in sys.argv[1:]:
    result = json.load(open(path))
    write = result["jobs"][0]["write"]
    percentile = write["clat_ns"]["percentile"]
    print(
        result["config"]["drive"]["ftl"]["over_provisioning"],
        f"{result['waf']:.3f}",
        f"{write['iops']:.0f}",
        f"{percentile['99.000000'] / 1000:.0f}",
        f"{percentile['99.900000'] / 1000:.0f}",
        sep=",",
    )
PY
