"""Programs on a real kernel: keywords are options of the command line, results are its JSON."""

import json
import os
import re
import stat
import subprocess

import pytest

import strobe
from strobe import _guest

SET = {"drive.ftl.logical_pages": 131072, "drive.nand.blocks_per_plane": 80}
SMALL = {"drive": "jasmine-4g", "set": SET}
#: Options without a keyword: Python has other ways to get the result, its page and the output.
OTHERWISE = {"json", "report", "quiet", "full", "reproducible", "help"}


@pytest.fixture
def program():
    found = os.environ.get("STROBE")
    if not found:
        pytest.skip("STROBE names no program")
    return found


@pytest.mark.parametrize(("name", "kind"), [("linux", _guest.LinuxOptions), ("crash", _guest.CrashOptions)])
def test_keywords_are_the_options_of_the_command_line(program, name, kind):
    text = subprocess.run([program, name, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    options = set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)(?=[ \[\n])", text, re.M)) - OTHERWISE
    keywords = {option.rstrip("_").replace("_", "-") for option in kind.__annotations__}
    assert keywords == options


def test_wrong_keywords_and_values_are_answered_as_python_does(program):
    with pytest.raises(TypeError, match=r"strobe.linux\(\) got an unexpected keyword argument 'drives'; did you mean 'drive'"):
        strobe.linux("true", drives="jasmine-4g")
    with pytest.raises(ValueError, match="cuts='0': 0 is not in 1..=1000000"):
        strobe.crash("true", cuts=0, kernel=program)
    with pytest.raises(ValueError, match="fs='ext5': .*ext4"):
        strobe.linux("true", fs="ext5")
    with pytest.raises(ValueError, match="command: it is empty"):
        strobe.linux([])
    with pytest.raises(FileNotFoundError, match="put .*nothere"):
        strobe.crash("true", put="nothere", kernel=program)
    with pytest.raises(FileNotFoundError, match="nothere"):
        strobe.linux("true", kernel="nothere")
    with pytest.raises(ValueError, match="did you mean drive.ftl.gc.victim") as refused:
        strobe.crash("true", set={"drive.ftl.gc.victm": "fifo"}, kernel=program)
    assert "--" not in str(refused.value), "Python messages name keywords, not options"


def test_the_program_is_found_and_is_of_this_version(monkeypatch, tmp_path):
    monkeypatch.setenv("STROBE", str(tmp_path / "nothere"))
    with pytest.raises(FileNotFoundError, match="the variable STROBE"):
        strobe.linux("true")
    other = tmp_path / "strobe"
    other.write_text("#!/bin/sh\necho strobe 99.0.0\n")
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("STROBE", str(other))
    with pytest.raises(strobe.StrobeError, match=f"version 99.0.0, and this package is {strobe.__version__}"):
        strobe.linux("true")


def test_options_are_words_of_the_command_line():
    words = [word for option, value in {"age": True, "no_copy": False, "put": ["a", "b"], "set": {"k.l": True, "m": 2}, "with_": "x", "seed": 3}.items() for word in _guest._words(option, value)]
    assert words == ["--age", "--put=a", "--put=b", "--set=k.l=true", "--set=m=2", "--with=x", "--seed=3"]


def test_a_page_of_power_cuts_has_every_cut_and_reason(tmp_path):
    cut = {"operation": 7, "at_ns": 5_000_000, "acknowledged": 2, "last_line": "saved 2", "was_cut_again": False}
    found = [{**cut, "verdict": "lost", "reason": "one\ntwo"}, {**cut, "verdict": "fine", "reason": ""}]
    text = json.dumps({"program": ["./a"], "operations": [1, 9], "took_ns": 10_000_000, "found": found})
    result = strobe.CrashResult(text)
    assert len(result.wrong) == 1 and "2 power cuts, 1 of them" in repr(result)
    result.report(tmp_path / "cuts.html")
    page = (tmp_path / "cuts.html").read_text()
    assert "<title>cuts" in page and "<pre>one\ntwo</pre>" in page and page.count('<circle class="dot') == 2
    assert "<iframe" in result._repr_html_()


@pytest.mark.kernel
def test_a_guest_gives_the_json_of_the_command_line(program):
    script = "echo told; echo wrong >&2; echo hi > f; sync; exit 3"
    result = strobe.linux(script, fsck=True, **SMALL)
    assert (result.exit_code, result.stdout, result.stderr.splitlines()[0]) == (3, "told\n", "wrong")
    sets = [f"--set={key}={value}" for key, value in SET.items()]
    line = [program, "linux", "--drive", "jasmine-4g", *sets, "--fsck", "--quiet", "--json", "-", "--", "sh", "-c", script]
    told = json.loads(subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    for values in (told, mine := result.reproducible()):
        values["time"].update(wall_s=None, cpu_s=None)
    assert mine == told
    assert result.figures and "<iframe" in result._repr_html_()


@pytest.mark.kernel
def test_power_cuts_find_what_was_not_synced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save = "for n in 1 2 3 4 5 6 7 8; do echo setting $n > new; mv new config; echo saved $n; sleep 1; done"
    options = {"mount_opts": "noauto_da_alloc", "before": "echo setting 0 > config; sync", "check": "test -s config || exit 1"}
    result = strobe.crash(save, cuts=6, **options, **SMALL)
    assert len(result["found"]) == 6 and {cut["verdict"] for cut in result.wrong} == {"lost"}
    again = strobe.crash(save, at=result.wrong[0]["operation"], **options, **SMALL)
    assert again["found"][0]["verdict"] == "lost"
    with pytest.raises(strobe.ConfigError, match="no-such-command"):
        strobe.crash("no-such-command", cuts=1, **SMALL)
