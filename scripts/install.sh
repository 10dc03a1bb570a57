#!/bin/sh
# Installs the strobe program, fully optimised, into cargo's folder of programs. Installs its manual pages and completions
# for bash, zsh and fish for this user.
set -eu
cd "$(dirname "$0")/.."
cargo install --path crates/cli --profile dist --locked
strobe="${CARGO_INSTALL_ROOT:-${CARGO_HOME:-$HOME/.cargo}}/bin/strobe"
data="${XDG_DATA_HOME:-$HOME/.local/share}"
mkdir -p "$data/man/man1" "$data/bash-completion/completions" "$data/zsh/site-functions" "$data/fish/vendor_completions.d"
"$strobe" man --out "$data/man/man1"
"$strobe" completions bash >"$data/bash-completion/completions/strobe"
"$strobe" completions zsh >"$data/zsh/site-functions/_strobe"
"$strobe" completions fish >"$data/fish/vendor_completions.d/strobe.fish"
echo "installed: $strobe, manual pages and completions in $data"
