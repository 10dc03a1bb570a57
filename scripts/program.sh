#!/bin/sh
# Builds what the tests build besides themselves, and prints where the program NAME is, wherever that is:
# CARGO_TARGET_DIR and the configuration of cargo have a say. With examples, dependencies have the features that
# they have in tests, so nothing is compiled twice. Usage: program.sh NAME
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
