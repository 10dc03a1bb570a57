#!/bin/sh
# Builds the strobe program for Linux, fully optimised, and packs it for each processor into target/release-files/,
# with manual pages, completions, documentation, examples and licences, in the layout of /usr/local and ~/.local.
# Usage: release.sh [x86_64 | aarch64]...
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: \([^-]*\).*/\1/p')
[ $# -gt 0 ] || set -- x86_64 aarch64

# Check the requirements before the long builds.
missing=""
for processor in "$@"; do
    target=$processor-unknown-linux-gnu
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] || missing="$missing
  rustup target add $target"
    [ "$processor" = "$host" ] || command -v "$processor-linux-gnu-gcc" >/dev/null || missing="$missing
  the linker $processor-linux-gnu-gcc (Debian: apt-get install gcc-$(echo "$processor" | tr _ -)-linux-gnu)"
done
if [ -n "$missing" ]; then
    echo "release.sh: this machine cannot build for $*; it needs:$missing
or name the processors to build for: scripts/release.sh $host" >&2
    exit 1
fi

build() {
    "$cargo" build --profile dist --locked -p strobe-cli "$@"
}
folder=$PWD/target/release-files
built=${CARGO_TARGET_DIR:-target}
version=$("$cargo" pkgid -p strobe-cli)
version=${version##*[@#]}
# Equal files give identical archives.
written=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
rm -rf "$folder"
mkdir -p "$folder"

# Manual pages and completions of all archives come from this machine's program.
build
strobe=$built/dist/strobe
for processor in "$@"; do
    program=$strobe
    if [ "$processor" != "$host" ]; then
        linker=CARGO_TARGET_$(echo "$processor" | tr a-z A-Z)_UNKNOWN_LINUX_GNU_LINKER
        export "$linker=$processor-linux-gnu-gcc"
        build --target "$processor-unknown-linux-gnu"
        program=$built/$processor-unknown-linux-gnu/dist/strobe
    fi
    name=strobe-$version-$processor-linux
    share=$folder/$name/share
    mkdir -p "$folder/$name/bin" "$share/man/man1" "$share/bash-completion/completions" \
        "$share/zsh/site-functions" "$share/fish/vendor_completions.d" "$share/doc/strobe"
    cp "$program" "$folder/$name/bin/strobe"
    "$strobe" man --out "$share/man/man1"
    "$strobe" completions bash >"$share/bash-completion/completions/strobe"
    "$strobe" completions zsh >"$share/zsh/site-functions/_strobe"
    "$strobe" completions fish >"$share/fish/vendor_completions.d/strobe.fish"
    cp README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE "$share/doc/strobe"
    # The program contains patches of Linux.
    cp crates/linux/kernel/COPYING "$share/doc/strobe/LICENSE-GPL-2.0-kernel-patches"
    python3 scripts/licences.py --out "$share/doc/strobe/THIRD-PARTY-NOTICES"
    cp -R docs examples "$share/doc/strobe"
    tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+w,go=rX --mtime="@$written" -c "$name" |
        gzip -n9 >"$folder/$name.tar.gz"
    rm -r "${folder:?}/$name"
done
cd "$folder"
sha256sum -- *.tar.gz | tee SHA256SUMS
echo "in $folder"
