#!/bin/sh
# Makes sure that what the checks need is there; says what to do where it cannot.
set -eu
if ! command -v cargo >/dev/null; then
    echo "Rust is missing: install it from https://rustup.rs (1.90 or newer), then run this again." >&2
    exit 1
fi
for component in rustfmt clippy; do
    if ! cargo "$(echo $component | sed 's/rustfmt/fmt/')" --version >/dev/null 2>&1; then
        rustup component add $component
    fi
done
if ! command -v fsck.fat >/dev/null && [ ! -x /usr/sbin/fsck.fat ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get install -qy dosfstools || { apt-get update -q && apt-get install -qy dosfstools; }
    else
        echo "fsck.fat is missing: install package dosfstools, or set STROBE_SKIP_TOOLS=1 to do without." >&2
        [ "${STROBE_SKIP_TOOLS:-}" = 1 ] || exit 1
    fi
fi
if ! command -v python3 >/dev/null; then
    echo "Python 3 is missing: the example sweep prints its table with it." >&2
    exit 1
fi
