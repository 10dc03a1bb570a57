#!/bin/sh
# Builds the guest kernel of `strobe linux` after installing its requirements. --tests also installs the requirements of
# its tests.
set -eu
cd "$(dirname "$0")/.."
packages="flex bison bc gcc make libc6-dev tar xz-utils patch e2fsprogs f2fs-tools dosfstools exfatprogs btrfs-progs nvme-cli fio dbench sqlite3 linux-source-6.12"
# Programs that tests run in guests.
[ "${1:-}" != --tests ] || packages="$packages git postgresql libleveldb-dev rocksdb-tools lmdb-utils mariadb-server-core mariadb-client-core"
missing=""
for package in $packages; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -n "$missing" ]; then
    install="apt-get install -qy --no-install-recommends$missing"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        $install >/dev/null 2>&1 || { apt-get update -q >/dev/null && $install >/dev/null; } ||
            echo "Some of these packages could not be installed:$missing" >&2
    else
        # The build reports missing requirements, and tests report when they are skipped.
        echo "For guests, install as root: $install" >&2
    fi
fi
strobe=$(sh scripts/program.sh strobe)
# If STROBE_KERNEL names a kernel, none is built.
[ -n "${STROBE_KERNEL:-}" ] || "$strobe" linux build-kernel || {
    echo "NO KERNEL FOR GUESTS, for the reason above: strobe linux and its tests cannot run." >&2
    exit 1
}
"$strobe" linux doctor
