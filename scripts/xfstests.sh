#!/bin/sh
# Runs tests of an xfstests checkout, which you have built, on drives of guests, and prints a table as Markdown.
# Usage: scripts/xfstests.sh CHECKOUT [--fs ext4,f2fs,xfs,btrfs] [--help] [generic/001 ...]
exec python3 "$(dirname "$0")/suites.py" xfstests "$@"
