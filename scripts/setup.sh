#!/bin/sh
# Installs the requirements of the checks if run as root; else names the missing packages. fsck.fat, rsvg-convert,
# python3-venv and the clients of `strobe serve` are optional: tests that need them are SKIPPED. In CI they are required.
set -eu
if ! command -v cargo >/dev/null; then
    echo "Rust is missing: install it from https://rustup.rs (1.90 or newer), then run this again." >&2
    exit 1
fi
for component in fmt clippy; do
    cargo $component --version >/dev/null 2>&1 && continue
    package=$component
    [ $component = fmt ] && package=rustfmt
    command -v rustup >/dev/null && rustup component add $package || {
        echo "cargo $component is missing: rustup component add $package" >&2
        exit 1
    }
done

missing="" optional=""
command -v python3 >/dev/null || missing="$missing python3"
command -v cc >/dev/null || missing="$missing gcc libc6-dev"
python3 -c 'import venv, ensurepip' 2>/dev/null || optional="$optional python3-venv"
command -v rsvg-convert >/dev/null || optional="$optional librsvg2-bin"
command -v fsck.fat >/dev/null || [ -x /usr/sbin/fsck.fat ] || [ -x /sbin/fsck.fat ] || optional="$optional dosfstools"
# Clients of `strobe serve`.
for client in nbdcopy:libnbd-bin nbdsh:python3-libnbd qemu-io:qemu-utils fio:fio nbdkit:nbdkit nvme:nvme-cli \
    qemu-system-x86_64:qemu-system-x86 openssl:openssl busybox:busybox-static cpio:cpio mkfs.f2fs:f2fs-tools depmod:kmod; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${client%%:*}" >/dev/null || optional="$optional ${client#*:}"
done
[ -n "$missing$optional" ] || exit 0
install="apt-get install -qy --no-install-recommends$missing$optional"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    $install || { apt-get update -q && $install; }
elif [ -z "${CI:-}" ] && [ -z "$missing" ]; then
    echo "Missing:$optional. Tests that need it are SKIPPED. Install as root: $install" >&2
else
    echo "Missing:$missing$optional. Install as root: $install" >&2
    exit 1
fi
