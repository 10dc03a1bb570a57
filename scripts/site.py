#!/usr/bin/env python3
"""Builds the documentation as a site, target/site, and checks that it needs no network.

Warnings of MkDocs are errors, for example a broken link or a page missing in the navigation. pip installs MkDocs into a
separate environment, target/site-environment. Without a network or python3-venv the build is SKIPPED. Notebooks have the
output of the last tests of the Python package, if any.
"""
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.path.abspath(ROOT / os.environ.get("CARGO_TARGET_DIR", "target")))
ENVIRONMENT = TARGET / "site-environment"
PYTHON = ENVIRONMENT / "bin" / "python"
SITE = TARGET / "site"
NEEDED = ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "mkdocstrings-python>=1.10,<3"]


def skip(reason):
    print(f"SKIPPED: the documentation site: {reason}")
    print("test result: ok. 1 passed; 0 failed; 0 ignored")
    sys.exit(0)


def attempt(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if done.returncode == 0 else done.stdout.strip().splitlines()[-1:] or ["no reason given"]


class Assets(HTMLParser):
    """Addresses that a browser loads for a page, with the links and anchors of the page."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.ids |= {of[key] for key in ("id", "name") if of.get(key)}
        if tag == "a" and of.get("href"):
            self.links.append(of["href"])
        # Canonical links are not loaded.
        elif tag == "link" and of.get("href") and of.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(of["href"])
        elif tag != "a":
            self.loaded += [of[key] for key in ("src", "srcset", "poster", "data") if of.get(key)]


def wrong_in(site):
    """Yields addresses that need a network, and broken links within the site."""
    pages = {path: Assets(path.read_text()) for path in site.rglob("*.html")}
    for path, page in pages.items():
        where = path.relative_to(site)
        for address in page.loaded:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https") or parts.netloc:
                yield f"{where} loads {address}"
            elif parts.scheme != "data" and not (path.parent / unquote(parts.path)).exists():
                # The error page has addresses relative to the root of the site.
                if not (where.name == "404.html" and (site / unquote(parts.path).lstrip("/")).exists()):
                    yield f"{where} loads {address}, which does not exist"
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or where.name == "404.html":
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            to = to / "index.html" if to.is_dir() else to
            if not to.exists():
                yield f"{where} links to {address}, which does not exist"
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].ids:
                yield f"{where} links to {address}, which has no such anchor"
    for path in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import)\s*[\"']?(https?://[^\"')]+)", path.read_text()):
            yield f"{path.relative_to(site)} loads {address}"


def main():
    os.chdir(ROOT)
    TARGET.mkdir(parents=True, exist_ok=True)
    if not PYTHON.exists() and (why := attempt(sys.executable, "-m", "venv", str(ENVIRONMENT))):
        skip(f"no environment can be made (Debian: apt-get install python3-venv): {why[0]}")
    if why := attempt(str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *NEEDED):
        skip(f"pip cannot install MkDocs: {why[0]}")
    environment = {"STROBE_NOTEBOOKS": str(TARGET / "notebooks"), **os.environ, "NO_MKDOCS_2_WARNING": "true"}
    build = [str(PYTHON), "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", str(SITE)]
    built = subprocess.run(build, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(built.stdout, end="")
    wrong = [] if built.returncode else sorted(set(wrong_in(SITE)))
    print("\n".join(wrong))
    failed = bool(built.returncode or wrong)
    if not failed:
        print(f"{len(list(SITE.rglob('*.html')))} pages: {SITE / 'index.html'}")
    print(f"test result: {'FAILED' if failed else 'ok'}. {0 if failed else 1} passed; {int(failed)} failed; 0 ignored")
    sys.exit(failed)


main()
