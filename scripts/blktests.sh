#!/bin/sh
# Runs tests of a built blktests checkout on an NVMe drive of a guest, and prints a Markdown table.
# Usage: scripts/blktests.sh CHECKOUT [--help] [block nvme/032 ...]
exec python3 "$(dirname "$0")/suites.py" blktests "$@"
