"""Experiments: results equal to the command line, saved states, progress, Ctrl-C, X-ray."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import strobe

SMALL = {
    "drive": {"preset": "generic-8g", "nand": {"blocks_per_plane": 64}, "ftl": {"over_provisioning": 0.2}},
    "workload": {"kind": "zipf", "queue_depth": 4},
    "run": {"warmup": "2x", "measure": "1x"},
}


def test_results_are_those_of_the_command_line(tmp_path):
    program = os.environ.get("STROBE")
    if not program:
        pytest.skip("STROBE names no program")
    experiment = strobe.Experiment(SMALL)
    (tmp_path / "e.toml").write_text(experiment.to_toml())
    command = [program, "run", tmp_path / "e.toml", "--quiet", "--reproducible", "--json", "-"]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert strobe.run(experiment).reproducible() == told
    assert strobe.run(tmp_path / "e.toml").reproducible() == told


def test_keys_can_be_given_in_all_ways():
    text = strobe.Experiment("seed = 3\n[workload]\nkind = \"zipf\"")
    mapping = strobe.Experiment({"seed": 3, "workload": {"kind": "zipf"}, "power": None})
    assert text == mapping and text.seed == 3
    other = strobe.with_keys(text, {"drive.ftl.gc.victim": "age * (1-u)", "drive.nand.dies_per_channel": 2, "seed": 4})
    assert other != text and other.seed == 4 and other.config_hash != text.config_hash
    assert "age * (1-u)" in other.to_toml()
    again = strobe.with_keys(other, {"drive.nand.dies_per_channel": 1, "drive.ftl.gc.victim": "greedy"})
    assert again.config_hash == text.config_hash
    with pytest.raises(strobe.ConfigError, match="did you mean run.warmup"):
        strobe.Experiment({"run": {"warm_up": "3x"}})
    with pytest.raises(strobe.ConfigError, match="drive.ftl.gc.victim"):
        strobe.with_keys(text, {"drive.ftl.gc.victim": "gredy"})
    with pytest.raises(strobe.StrobeError):
        strobe.Experiment([1, 2])


def test_seeds_give_different_runs_and_the_same_seed_the_same():
    one, two, again = (strobe.run(SMALL, seed=seed) for seed in (1, 2, 1))
    assert one.reproducible() == again.reproducible()
    assert one["waf"] != two["waf"] and one["config_hash"] == two["config_hash"]
    assert dict(one)["seed"] == 1 and "waf" in one and len(one) > 10


def test_a_run_from_a_state_gives_the_bytes_of_the_run_that_saved_it(tmp_path):
    state = tmp_path / "warm"
    whole = strobe.run(SMALL, save_state=state)
    assert strobe.run(SMALL).reproducible() == whole.reproducible(), "saving changes nothing"
    assert strobe.run(SMALL, from_state=state).reproducible() == whole.reproducible()
    longer = strobe.with_keys(SMALL, {"run.measure": "2x"})
    assert strobe.run(longer, from_state=state).reproducible() == strobe.run(longer).reproducible()
    other = strobe.with_keys(SMALL, {"drive.ftl.gc.victim": "fifo", "workload.theta": 0.5})
    with pytest.raises(strobe.StateError) as error:
        strobe.run(other, from_state=state)
    assert "drive.ftl.gc.victim" in str(error.value) and "workload.theta" in str(error.value)
    with pytest.raises(FileExistsError):
        strobe.run(SMALL, save_state=state)


def test_a_drive_and_experiments_share_states(tmp_path):
    strobe.run(SMALL, save_state=tmp_path / "end", save_at="end")
    drive = strobe.Drive.load(tmp_path / "end")
    drive.run("write", 0, 8)
    drive.save(tmp_path / "more")
    measured = strobe.with_keys(SMALL, {"run.warmup": 0, "seed": 5})
    result = strobe.run(measured, from_state=tmp_path / "more")
    assert result["seed"] == 5 and result["from_state"]["seed"] == 1


def test_progress_is_told_and_may_end_a_run():
    told = []
    big = strobe.with_keys(SMALL, {"drive.nand.blocks_per_plane": 1024, "run.measure": "400x"})

    def stop(phase, done, total, virtual_ns):
        told.append((phase, done, total, virtual_ns))
        return len(told) < 3

    result = strobe.run(big, progress=stop)
    assert result["partial"] and len(told) == 3 and told[-1][0] in ("prefill", "warm-up", "measure")

    def wrong(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        strobe.run(big, progress=wrong)


def test_ctrl_c_ends_a_run():
    endless = strobe.with_keys(SMALL, {"run.measure": "100000x"})
    # A background process of a shell may ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            strobe.run(endless)
        assert time.monotonic() - started < 10
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_trace_is_replayed(tmp_path):
    lines = [f"128166372003061629,host,0,Write,{4096 * n},4096,100" for n in range(50)]
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n")
    result = strobe.replay(tmp_path / "trace.csv", "msr", workload={"pacing": "closed"})
    assert result["trace"]["requests"] == {"write": 50}
    with pytest.raises(strobe.StrobeError):
        strobe.replay(tmp_path / "none.csv", "msr")


def test_the_format_of_a_trace_is_recognised(tmp_path):
    lines = [f"128166372003061629,host,0,Write,{4096 * n},4096,100" for n in range(50)]
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n")
    result = strobe.replay(tmp_path / "trace.csv")
    assert result["config"]["workload"]["format"] == "msr" and result["trace"]["requests"] == {"write": 50}
    (tmp_path / "trace").write_text("1 0 1000 8 1\n")
    with pytest.raises(strobe.ConfigError, match="format is missing, .*trace may be disksim, mqsim or ssdsim"):
        strobe.replay(tmp_path / "trace")
    with pytest.raises(strobe.MissingFileError, match="none.csv: no such file"):
        strobe.replay(tmp_path / "none.csv")


def test_a_trace_is_replayed_with_policies(tmp_path):
    offsets = [4096 * (n * 7919 % 8000) for n in range(30_000)]
    (tmp_path / "trace.csv").write_text("".join(f"{n},host,0,Write,{offset},4096,100\n" for n, offset in enumerate(offsets)))
    drive = {"preset": "generic-8g", "nand": {"blocks_per_plane": 40}, "ftl": {"logical_pages": 8000}}
    keys = {"run_keys": {"prefill": True, "timing": False}}

    class OneStream:
        streams = 1

        def on_write(self, units):
            return [0] * len(units)

        on_relocate = on_write

    def config(**policies):
        result = strobe.replay(tmp_path / "trace.csv", "msr", drive, **keys, **policies)
        ftl = result["config"]["drive"]["ftl"]
        return ftl["gc"]["victim"], ftl.get("placement", {}).get("scheme", "none"), result["waf"]

    assert config()[:2] == ("greedy", "none")
    assert config(victim="fifo", placement="sep-gc")[:2] == ("fifo", "sep-gc")
    by_function = config(victim=lambda blocks: blocks["age"], placement=OneStream())
    assert by_function[0] == "<lambda>()" and by_function[1].startswith("OneStream")
    assert config(victim="age", placement=OneStream())[2] == by_function[2] > 1


def test_an_example_is_found_by_its_name():
    text = strobe.example("quickstart.toml").read_text()
    assert text == (Path(__file__).parents[2] / "examples" / "quickstart.toml").read_text()
    assert strobe.example("vfat-camera.iolog.gz").stat().st_size > 1000
    assert strobe.example("p5520.csv").read_text().count("\n") > 5
    with pytest.raises(strobe.MissingFileError, match="the files are .*p5520.csv.*; did you mean 'camera.toml'"):
        strobe.example("camra.toml")


def test_presets_and_policies_are_those_of_the_library():
    names = [name for name, _ in strobe.presets()]
    assert "generic-8g" in names and strobe.preset("generic-8g")["nand"]["page_bytes"] == 4096
    assert "greedy" in dict(strobe.policies()) and "page" in strobe.mappings()
    with pytest.raises(strobe.ConfigError):
        strobe.preset("generic-9g")


def test_a_victim_is_also_a_name_or_a_formula():
    for victim in ("fifo", "age * (1-u)"):
        result = strobe.run(SMALL, victim=victim)
        assert result["config"]["drive"]["ftl"]["gc"]["victim"] == victim
    with pytest.raises(strobe.ConfigError, match="did you mean greedy"):
        strobe.run(SMALL, victim="gredy")


def test_a_victim_function_runs_an_experiment():
    result = strobe.run(SMALL, victim=lambda blocks: 1.0 - blocks["u"])
    assert result["waf"] == pytest.approx(strobe.run(SMALL)["waf"], rel=0.05)


def test_a_placement_is_a_name_a_formula_or_an_object():
    for placement in ("sepbit", "is_copy"):
        result = strobe.run(SMALL, placement=placement)
        assert result["config"]["drive"]["ftl"]["placement"]["scheme"] == placement
    assert result["waf"] == strobe.run(SMALL)["waf"]

    class Apart:
        streams = (1, 1)

        def on_write(self, units):
            return np.zeros(len(units), np.uint8)

        def on_relocate(self, units):
            return np.ones(len(units), np.uint8)

    scheme = lambda run: run["config"]["drive"]["ftl"]["placement"]["scheme"]
    apart = strobe.run(SMALL, placement=Apart())
    assert apart.waf == result.waf and scheme(apart) == "Apart()"
    Apart.name = "apart"
    assert scheme(strobe.run(SMALL, placement=Apart())) == "apart", "the attribute name takes precedence"
    with pytest.raises(strobe.ConfigError, match="a placement object"):
        strobe.run(SMALL, placement=Apart(), save_state="never")


def test_the_import_is_light():
    code = "import sys, strobe; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def xray_of(result):
    """Returns the X-ray, and its planes as arrays of frames and cells, unpacked as the schema says."""
    xray = result["xray"]
    keys = ("stage", "stream", "valid", "written", "changed", "wear")
    return xray, {
        key: np.frombuffer(zlib.decompress(base64.b64decode(xray[key])), np.uint8)
        .reshape(len(xray["frames"]), -1)
        .cumsum(0, dtype=np.uint8)
        for key in keys
    }


def test_an_xray_adds_up_to_what_is_known_of_the_drive():
    """On a full drive every logical unit is valid in one block, and wear equals the number of erases."""
    result = strobe.run(strobe.with_keys(SMALL, {"run.timing": False, "run.xray": 20, "workload.kind": "uniform"}))
    xray, cells = xray_of(result)
    pages_per_block, blocks = 256, 64
    # Requests come in batches of a thousand, so the number of frames may differ from 20.
    assert xray["blocks_per_cell"] == 1 and 10 <= len(xray["frames"]) <= 22
    assert cells["valid"].shape == (len(xray["frames"]), blocks)
    logical = result["capacity"]["logical_bytes"] // 4096
    held = (cells["valid"] / 255 * pages_per_block).sum(axis=1)
    assert np.all(np.abs(held - logical) < blocks * 0.51), held
    wear = xray["wear_min"] + xray["wear_step"] * cells["wear"].astype(int)
    assert xray["wear_step"] == 1 and abs(wear[-1].mean() - result["wear"]["erase_mean"]) < 1e-9
    assert wear[-1].max() == result["wear"]["erase_max"]
    erased = (wear[-1] - wear[0]).sum()
    assert erased == result["nand"]["erase"]["total"]
    assert (cells["stage"][-1] == 0).sum() == result["series"][-1]["free_blocks"]
    # An erase marks its block as changed, and erased blocks have no valid units.
    assert np.all(cells["changed"][1:][np.diff(wear, axis=0) > 0] == 1)
    assert np.all(cells["valid"][cells["stage"] == 0] == 0) and np.all(cells["valid"] <= cells["written"])
    pages = [frame["host_pages"] for frame in xray["frames"]]
    assert pages[0] == 0 and pages[-1] == result["window"]["host_pages"]
    assert max(np.diff(pages)) <= result["window"]["host_pages"] / 20 + 1024


TOY = {
    "preset": "generic-8g",
    "nand": {"channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 8,
             "pages_per_block": 4, "page_bytes": 4096},
    "ftl": {"logical_pages": 15, "gc": {"mode": "stop-the-world"}},
}  # fmt: skip


def test_an_xray_of_a_toy_drive_has_its_units_in_order():
    """Fifteen pages in order, then three overwrites: new versions follow the last page, the first three slots are stale."""
    run = {"warmup": 0, "measure": 3, "xray": 4, "timing": False}
    xray = strobe.run({"drive": TOY, "workload": {"kind": "sequential"}, "run": run})["xray"]
    units = np.frombuffer(zlib.decompress(base64.b64decode(xray["units"])), np.uint8)
    units = units.reshape(len(xray["frames"]), -1).cumsum(0, dtype=np.uint8)
    assert units[0].tolist() == [1] * 15 + [0] * 17
    assert units[-1].tolist() == [0] * 3 + [1] * 15 + [0] * 14
    assert "units" not in strobe.run(strobe.with_keys(SMALL, {"run.timing": False, "run.xray": 2}))["xray"]


def test_an_xray_changes_nothing_and_holds_dies_at_work():
    keys = {"drive.nand.dies_per_channel": 4, "drive.nand.blocks_per_plane": 32, "workload.queue_depth": 16}
    plain = strobe.with_keys(SMALL, keys)
    seen = strobe.run(strobe.with_keys(plain, {"run.xray": 50})).reproducible()
    xray = seen.pop("xray")
    expected = strobe.run(plain).reproducible()
    for values in (seen, expected):
        values.pop("config"), values.pop("config_hash")
    assert seen == expected
    held = np.frombuffer(zlib.decompress(base64.b64decode(xray["held"])), np.uint8).reshape(-1, 4).cumsum(0, dtype=np.uint8)
    assert held.max() <= 5 and (held > 0).mean() > 0.3, "dies are busy with sixteen requests outstanding"
