#!/bin/sh
# Runs tests of a blktests checkout, which you have built, on an NVMe drive of a guest, and prints a table as Markdown.
# Usage: scripts/blktests.sh CHECKOUT [--help] [block nvme/032 ...]
exec python3 "$(dirname "$0")/suites.py" blktests "$@"
