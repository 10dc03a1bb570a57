#!/bin/sh
# Runs each fuzz target for SECONDS. Usage: fuzz.sh SECONDS
set -eu
seconds=$1
cd "$(dirname "$0")/../fuzz"
cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz
for target in $(cargo +nightly fuzz list); do
    mkdir -p "corpus/$target"
    cargo +nightly fuzz run "$target" "corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=65536
done
