#!/bin/sh
# Builds all programs and examples, and prints the path of the program NAME. The path depends on CARGO_TARGET_DIR and the
# configuration of cargo. With the examples, dependencies have the same features as in tests, and nothing is compiled
# twice. Usage: program.sh NAME
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --workspace --bins --examples --message-format=json-render-diagnostics | python3 -c '
import json, sys
for message in map(json.loads, sys.stdin):
    if message.get("executable") and message["target"]["name"] == sys.argv[1]:
        print(message["executable"])
        break
else:
    sys.exit("cargo has not built " + sys.argv[1])
' "$1"
