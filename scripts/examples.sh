#!/bin/sh
# Runs every example and checks that it says what it should. Usage: examples.sh path/to/strobe
set -eu
strobe=$1
cd "$(dirname "$0")/.."

"$strobe" run examples/quickstart.toml --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["trace"]["requests"]["write"] == 709650, r["trace"]
assert 1.5 < r["waf"] < 2.5, r["waf"]
print("quickstart: WAF %.3f" % r["waf"])'

"$strobe" run examples/steady-state.toml --quiet --json - | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert abs(r["waf"] / 2.45 - 1) < 0.01, r["waf"]
assert r["steady_state"]["reached"]
print("steady state: WAF %.3f" % r["waf"])'

STROBE=$strobe examples/sweep-over-provisioning.sh
