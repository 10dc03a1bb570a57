#!/bin/sh
# Builds the kernel of `strobe linux`, with what that needs. Says plainly if there will be none: then the tests
# that need it are skipped.
set -u
packages="flex bison bc gcc make libc6-dev tar xz-utils patch e2fsprogs f2fs-tools dosfstools fio dbench linux-source-6.12"
missing=""
for package in $packages; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        install="apt-get install -qy --no-install-recommends$missing"
        $install >/dev/null 2>&1 || { apt-get update -q >/dev/null && $install >/dev/null; } ||
            echo "Some packages could not be installed:$missing" >&2
    else
        echo "For guests, install:$missing" >&2
    fi
fi
cargo build --quiet
target/debug/strobe linux build-kernel || {
    echo "THERE IS NO KERNEL FOR GUESTS: tests of strobe linux will be SKIPPED." >&2
    exit 0
}
target/debug/strobe linux doctor || true
