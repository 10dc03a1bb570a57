"""Programs on a real Linux kernel with the drive: ``strobe linux`` and ``strobe crash``, with their options as keywords.

The program ``strobe`` does the work, because it is the first process of each guest. It is looked up in ``$STROBE``, then next to
this package, then on ``PATH``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path as PurePath
from typing import Any, TypedDict, Unpack

from . import _strobe
from ._result import JsonMapping, Path, Result, in_frame, nearest
from ._strobe import ConfigError, MissingFileError, RunError, StrobeError

#: Messages about missing files.
_MISSING = re.compile(r"there is no such file|No such file or directory|there is no kernel")
#: Message of the command-line parser about a bad value.
_BAD_VALUE = re.compile(r"^invalid value '(?P<value>.*?)' for '--(?P<name>[a-z0-9-]+)[^']*':?(?P<why>.*)", re.S)
#: Height of a page of power cuts in a notebook cell, in pixels.
_HEIGHT = 520


class Guest(TypedDict, total=False):
    """Options of every guest (``strobe linux --help``), with underscores for dashes."""

    drive: Path | Sequence[Path]
    set: Mapping[str, Any]
    seed: int
    fs: str
    mount_opts: str
    f2fs_cleaning: str
    ext4_discard: str
    mkfs_opts: str
    before: str | Sequence[str]
    put: Path | Sequence[Path]
    dir: str
    kernel: Path
    memory: int
    interface: str
    syscall_ns: int
    copy_ns_per_kib: int
    process_ns: int
    spin_limit: int
    discard_segments: int
    no_copy: bool
    write_through: bool
    stall_limit: int


class LinuxOptions(Guest, total=False):
    """Options of ``strobe linux``."""

    image: Path
    age: float | bool
    partitions: int
    get: Path | Sequence[Path]
    fsck: bool
    root: str
    with_: str | Sequence[str]
    real_time: bool
    time_limit: int
    trace: Path
    series: Path
    interval: str
    perfetto: Path
    events: Path
    kernel_log: Path


class CrashOptions(Guest, total=False):
    """Options of ``strobe crash``."""

    check: str
    cuts: int
    budget: str
    seen: Path
    places: str
    at: int
    image: Path
    faults: int
    explore: int
    first_program: int
    program_length: int
    twice: bool
    until_first: bool
    find_sync: bool
    strict_names: bool
    keep: Path
    lying_flushes: bool
    drives: str
    junit: Path
    sarif: Path
    check_limit: int
    workers: int


class LinuxResult(Result):
    """Result of a program in a guest: the JSON of ``strobe linux --json`` as a mapping, and the program's output."""

    def __init__(self, text: str, stdout: str, stderr: str) -> None:
        super().__init__(text)
        self.stdout = stdout
        """Standard output of the program."""
        self.stderr = stderr
        """Standard error of the program."""

    @property
    def exit_code(self) -> int:
        """Exit code of the program."""
        return int(self["guest"]["exit_code"])

    def __repr__(self) -> str:
        return f"<strobe.LinuxResult: exit code {self.exit_code}, WAF {self['waf']}>"


class CrashResult(JsonMapping):
    """Result of power cuts or read errors: the JSON of ``strobe crash --json`` as a mapping. ``found`` lists the cuts or
    places."""

    @property
    def wrong(self) -> list[dict[str, Any]]:
        """Cuts with damage."""
        return [cut for cut in self["found"] if cut["verdict"] != "fine"]

    def _page(self, name: str) -> str:
        return _strobe._crash_page(name, self._text)

    def _repr_html_(self) -> str:
        return in_frame(self._page("power cuts"), _HEIGHT)

    def __repr__(self) -> str:
        what = "power cuts" if "operations" in self else "places that could not be read"
        return f"<strobe.CrashResult: {len(self['found'])} {what}, {len(self.wrong)} of them left something wrong>"


def linux(command: str | Sequence[Path], **options: Unpack[LinuxOptions]) -> LinuxResult:
    """Runs any program on a real Linux kernel with a file system on the drive, in virtual time, as ``strobe linux`` does.

    ``command`` is a program with its arguments, or a text for a shell. The keywords are the options of the command line, with
    underscores for dashes: ``drive="jasmine-4g"``, ``fs="f2fs"``, ``mount_opts``, ``age=True``, ``before``, ``interval="100ms"``, …
    ``set={"drive.ftl.gc.victim": "fifo"}`` maps keys to values, and ``with_`` is ``--with``. ``strobe linux --help`` explains
    each option. A failed program raises no exception: see ``exit_code``. Ctrl-C ends the guest.
    """
    text, stdout, stderr = _told("linux", command, LinuxOptions, options)
    return LinuxResult(text, stdout, stderr)


def crash(command: str | Sequence[Path], **options: Unpack[CrashOptions]) -> CrashResult:
    """Cuts the power under a program at many flash operations and checks the data after each cut, as ``strobe crash`` does.

    ``command`` and the keywords are as for ``linux``. ``check`` is the command that checks the data, ``cuts`` the number of cuts,
    ``at`` a single flash operation to cut at. ``strobe crash --help`` explains each option.
    """
    return CrashResult(_told("crash", command, CrashOptions, options)[0])


def _told(name: str, command: str | Sequence[Path], kind: Any, options: Mapping[str, Any]) -> tuple[str, str, str]:
    """Runs the program; returns its JSON, standard output and standard error."""
    known = list(kind.__annotations__)
    for option in options:
        if option not in known:
            raise TypeError(f"strobe.{name}() got an unexpected keyword argument {option!r}{nearest(option, known)}")
    words = ["sh", "-c", command] if isinstance(command, str) else [os.fspath(word) for word in command]
    if not words:
        raise ValueError("command: it is empty; name a program, for example ['sqlite3', 'shop.db', 'vacuum']")
    with tempfile.TemporaryDirectory(prefix="strobe-") as folder:
        result = PurePath(folder) / "result.json"
        given = [word for option, value in options.items() for word in _words(option, value)]
        line = [_program(), name, "--quiet", f"--json={result}", *given, "--", *words]
        code, stdout, stderr = _run(line)
        if result.exists():
            return result.read_text(encoding="utf-8"), stdout, stderr
    raise _error(name, code, stderr, known)


def _words(option: str, value: Any) -> list[str]:
    name = "--" + option.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, Mapping):
        return [f"{name}={key}={_value(given)}" for key, given in value.items()]
    if isinstance(value, (list, tuple)):
        return [f"{name}={_value(one)}" for one in value]
    return [f"{name}={_value(value)}"]


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _run(line: Sequence[str]) -> tuple[int, str, str]:
    text: dict[str, Any] = {"text": True, "encoding": "utf-8", "errors": "replace"}
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **text) as running:
        try:
            stdout, stderr = running.communicate()
        except BaseException:
            # SIGINT lets the program end its guests and remove its temporary files.
            running.send_signal(signal.SIGINT)
            running.communicate()
            raise
    return running.returncode, stdout, stderr


def _error(name: str, code: int, stderr: str, known: Sequence[str]) -> Exception:
    """Converts the last message of the program to an exception; options become keywords."""
    lines = stderr.splitlines()
    begins = [at for at, line in enumerate(lines) if line.startswith(("strobe: ", "error: "))]
    said = "\n".join(lines[begins[-1] :] if begins else lines[-5:])
    said = said.removeprefix("strobe: ").removeprefix("error: ").split("\n\nFor more information")[0].strip()
    if (bad := _BAD_VALUE.match(said)) is not None:
        said = f"{bad['name'].replace('-', '_')}={bad['value']!r}: {' '.join(bad['why'].split())}"

    def keyword(found: re.Match[str]) -> str:
        option = found[1].replace("-", "_")
        return option if option in known else f"{option}_" if f"{option}_" in known else found[0]

    said = re.sub(r"--([a-z][a-z0-9-]*[a-z0-9])", keyword, said)
    if _MISSING.search(said):
        return MissingFileError(said)
    if code == 2:
        return ConfigError(said)
    return RunError(said or f"strobe {name} ended with exit code {code} without a message")


def _checked(program: str) -> str:
    """Returns ``program`` if it has the version of this package."""
    done = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=False)
    version = done.stdout.split()[1:2]
    if version != [_strobe.__version__]:
        raise StrobeError(
            f"{program} is version {' '.join(version) or 'unknown'}, and this package is {_strobe.__version__}; install both from "
            "one place, or name the program in the variable STROBE"
        )
    return program


def _program() -> str:
    beside = PurePath(sysconfig.get_path("scripts")) / "strobe"
    found = os.environ.get("STROBE") or (str(beside) if beside.exists() else shutil.which("strobe"))
    if not found or not os.access(found, os.X_OK):
        raise MissingFileError(
            f"the program strobe was not found{f' ({found})' if found else ''}: guests need it; `pip install .` installs it "
            "with this package, `make install` puts it on PATH, and the variable STROBE names it elsewhere"
        )
    return _checked(found)
