#!/bin/sh
# Runs tests of a built xfstests checkout on drives of guests, and prints a Markdown table.
# Usage: scripts/xfstests.sh CHECKOUT [--fs ext4,f2fs,xfs,btrfs] [--help] [generic/001 ...]
exec python3 "$(dirname "$0")/suites.py" xfstests "$@"
