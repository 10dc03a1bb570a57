#!/bin/sh
# Creates the Python environment of docs/crash-gallery.md: databases from the package index, in the versions of the page.
# Prints the path of the interpreter. Usage: gallery.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
folder=${1:-target/gallery}
[ -x "$folder/bin/python" ] || python3 -m venv "$folder" >&2
"$folder/bin/pip" install -q plyvel==1.5.1 rocksdict==0.3.29 tinydb==4.8.2 diskcache==5.6.3 lmdb==1.7.5 >&2
echo "$(cd "$folder" && pwd)/bin/python"
