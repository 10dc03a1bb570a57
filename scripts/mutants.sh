#!/bin/sh
# Runs mutation testing of the FTL: lists the mutations that no test of the FTL or the drive detects.
# Usage: mutants.sh [FILE]. Without FILE: placement, reclaim, the core of the page map, and host reads.
set -eu
cd "$(dirname "$0")/.."
cargo mutants --version >/dev/null 2>&1 || {
    echo "cargo-mutants is missing: cargo install --locked cargo-mutants, then run this again." >&2
    exit 1
}
map=crates/ftl/src/map/page
if [ -n "${1:-}" ]; then
    set -- --file "$1"
else
    set -- --file 'crates/ftl/src/place/**' --file "$map/core/**" --file "$map/reclaim/**" --file "$map/reads.rs"
fi
exec cargo mutants --package strobe-ftl --test-package strobe-ftl --test-package strobe-ssd \
    --output "${CARGO_TARGET_DIR:-target}" "$@"
