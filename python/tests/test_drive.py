"""Single drives: commands, arrays, tables, policies, forks and saved states."""

import threading

import numpy as np
import pytest

import strobe

SMALL = {"preset": "generic-8g", "nand": {"blocks_per_plane": 64}, "ftl": {"logical_pages": 12_000}}


def small(**keys):
    return strobe.Drive(SMALL, **keys)


def lbas(drive, count, seed=1):
    units = drive.sectors // drive.unit_sectors
    return np.random.default_rng(seed).integers(0, units, count, dtype=np.uint64) * drive.unit_sectors


def test_commands_take_their_time_and_are_counted():
    drive = small()
    assert (drive.now, drive.waf) == (0, None)
    done = drive.write(0, 8)
    assert done == drive.now > 0
    drive.flush()
    drive.trim(0, 8)
    assert drive.read(0, 8) is None, "this drive stores no data"
    assert drive.commands("write") == 1 and drive.stats()["host"]["trim"] == {"commands": 1, "bytes": 4096, "errors": 0}
    assert drive.latency("write")["count"] == 1
    drive.check()


def test_a_drive_that_keeps_data_gives_it_back():
    keys = {**SMALL, "nand": {**SMALL["nand"], "data": "bytes"}}
    drive = strobe.Drive(keys)
    drive.write(8, data=b"x" * 512 + b"y" * 512)
    assert drive.read(7, 4) == bytes(512) + b"x" * 512 + b"y" * 512 + bytes(512)


def test_lost_data_raises_until_it_is_written_again():
    faults = {"at": [{"unit": 3, "after_writes": 8}]}
    drive = strobe.Drive({**SMALL, "nand": {**SMALL["nand"], "data": "bytes", "faults": faults}})
    drive.write(0, data=b"x" * 64 * 512)
    drive.flush()
    with pytest.raises(strobe.CommandError, match="unrecovered read error in sectors 24 to 31"):
        drive.read(16, 16)
    with pytest.raises(strobe.CommandError, match="unrecovered read error"):
        drive.write(25, data=b"y" * 512)
    assert drive.read(32, 8) == b"x" * 8 * 512
    drive.run("read", np.array([16, 24, 32], np.uint64), 8)
    host = drive.stats()["host"]
    assert (host["read"]["errors"], host["write"]["errors"]) == (2, 1), "a run continues after errors"
    drive.write(24, data=b"z" * 8 * 512)
    assert drive.read(24, 8) == b"z" * 8 * 512
    assert drive.stats()["uncorrectable_reads"] == 3


def test_refusals_change_nothing_and_say_why():
    drive = small()
    before = drive.stats()
    with pytest.raises(strobe.CommandError, match="exceeds the drive"):
        drive.write(drive.sectors, 8)
    with pytest.raises(strobe.CommandError, match="request 1: write of 8 sectors"):
        drive.run("write", np.array([0, 2**62], dtype=np.uint64), 8)
    with pytest.raises(strobe.CommandError):
        drive.read(drive.sectors - 1, 2**31)
    assert drive.stats()["host"]["write"]["commands"] == before["host"]["write"]["commands"] + 1
    with pytest.raises(ValueError, match="different lengths"):
        drive.run("write", np.zeros(3, np.uint64), np.full(4, 8, np.uint32))
    with pytest.raises(ValueError, match="the ops are"):
        drive.run("wirte", 0, 8)
    with pytest.raises(TypeError, match="Float64"):
        drive.run("write", np.zeros(3), 8)
    with pytest.raises(ValueError, match="negative lba"):
        drive.run("write", np.array([0, -1]), 8)
    with pytest.raises(strobe.ConfigError, match=r'drive.ftl.gc.victim = "gredy" is not known; did you mean greedy\?'):
        small(victim="gredy")
    with pytest.raises(strobe.ConfigError, match="unknown variable agee; did you mean age"):
        small(victim="agee * (1-u)")
    with pytest.raises(strobe.BuildError):
        strobe.Drive({**SMALL, "ftl": {"logical_pages": 64 * 256}})


def test_batches_do_what_single_commands_do():
    single, batch = small(), small()
    where = lbas(single, 3000)
    for lba in where:
        single.write(int(lba), 8)
    assert batch.run("write", where, 8) == single.now
    assert batch.stats() == single.stats() and batch.latency("write") == single.latency("write")


@pytest.mark.parametrize("kind", ["uint64", "int64", "uint32", "int32"])
def test_numpy_and_arrow_columns_mean_the_same(kind):
    pyarrow = pytest.importorskip("pyarrow")
    one, other = small(timing=False), small(timing=False)
    where = lbas(one, 2000).astype(kind)
    ops = np.where(np.arange(2000) % 5 == 0, strobe.READ, strobe.WRITE).astype(np.uint8)
    one.run(ops, where, np.full(2000, 8, np.uint32))
    other.run(pyarrow.array(ops), pyarrow.array(where), pyarrow.array(np.full(2000, 8, np.uint32)))
    assert one.stats() == other.stats() and one.commands("read") == 400


def test_open_loop_takes_arrivals_as_they_come():
    drive = small()
    arrivals = np.arange(100, dtype=np.uint64) * 10_000_000
    done = drive.run("write", lbas(drive, 100), 8, arrivals_ns=arrivals)
    assert 990_000_000 < done < 1_000_000_000
    assert drive.latency("write")["max"] < 2_000_000


def test_submitted_commands_come_back_as_a_table():
    pyarrow = pytest.importorskip("pyarrow")
    drive = small()
    first = drive.submit("write", lbas(drive, 10), 8)
    assert (first, drive.outstanding) == (1, 10)
    assert len(drive.advance(drive.now)) == 0
    done = drive.advance()
    assert sorted(done["tag"]) == list(range(1, 11)) and drive.outstanding == 0
    assert done["at_ns"].dtype == np.uint64 and int(done["at_ns"].max()) == drive.now
    table = pyarrow.table(done)
    assert table.column_names == ["tag", "at_ns", "error"] == done.columns
    assert table["at_ns"].to_pylist() == done["at_ns"].tolist()
    drive.submit("read", drive.sectors, 8)
    assert "exceeds the drive" in drive.advance(drive.now)["error"][0]
    with pytest.raises(KeyError, match="at_ns"):
        done["at"]


def test_columns_are_views_of_the_table():
    drive = small()
    drive.submit("write", lbas(drive, 10), 8)
    done = drive.advance()
    tags = done["tag"]
    assert not tags.flags.writeable and np.shares_memory(tags, done["tag"])
    del done
    assert tags.sum() == 55


@pytest.mark.parametrize("timing", [True, False])
def test_forks_and_loaded_drives_go_on_like_the_original(timing, tmp_path):
    drive = small(timing=timing, victim="cost-benefit")
    drive.run("write", lbas(drive, 30_000), 8, queue_depth=8)
    drive.submit("write", lbas(drive, 5, 3), 8)
    fork = drive.fork()
    drive.save(tmp_path / "state")
    loaded = strobe.Drive.load(tmp_path / "state")
    assert loaded.now == drive.now and loaded.outstanding == 5
    futures = []
    for each in (drive, fork, loaded):
        tags = each.advance()["tag"].tolist()
        now = each.run("write", lbas(each, 30_000, 2), 8, queue_depth=8)
        each.check()
        futures.append((tags, now, each.stats(), each.latency("write"), each.wear()))
    assert futures[0] == futures[1] == futures[2]
    with pytest.raises(FileExistsError, match="overwrite=True"):
        drive.save(tmp_path / "state")
    drive.save(tmp_path / "state", overwrite=True)


def test_a_damaged_state_is_refused(tmp_path):
    drive = small()
    drive.save(tmp_path / "state")
    content = bytearray((tmp_path / "state").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(strobe.StateError, match="damaged at byte"):
        strobe.Drive.load(tmp_path / "state")
    (tmp_path / "other").write_text("seed = 1")
    with pytest.raises(strobe.StateError, match="not a Strobe state file"):
        strobe.Drive.load(tmp_path / "other")


def test_a_function_of_fewest_valid_units_is_greedy_up_to_ties():
    by_function = small(timing=False, victim=lambda blocks: -blocks["valid"].astype(np.int64))
    greedy = small(timing=False, victim="greedy")
    for drive in (by_function, greedy):
        drive.run("write", lbas(drive, 60_000), 8)
        drive.check()
    assert by_function.waf == pytest.approx(greedy.waf, rel=0.01)
    assert greedy.waf > 1.5


def test_a_victim_function_may_return_a_list_and_nothing_else_that_is_no_array():
    by_list = small(timing=False, victim=lambda blocks: [-float(valid) for valid in blocks["valid"]])
    by_array = small(timing=False, victim=lambda blocks: -blocks["valid"].astype(np.float64))
    for drive in (by_list, by_array):
        drive.run("write", lbas(drive, 40_000), 8)
    assert by_list.stats() == by_array.stats()
    for answer, said in [
        (None, "returned None; it must return an array or list of"),
        ([1.0], "returned 1 scores"),
        (["a"], "other than numbers"),
        ("abc", "returned a str"),
    ]:
        drive = small(timing=False, victim=lambda blocks, answer=answer: answer)
        with pytest.raises(ValueError, match=said):
            drive.run("write", lbas(drive, 40_000), 8)


def test_what_a_victim_function_raises_comes_out():
    def wrong(blocks):
        raise ZeroDivisionError("in the function")

    for function, error in [(wrong, ZeroDivisionError), (lambda blocks: np.zeros(1), ValueError)]:
        drive = small(timing=False, victim=function)
        with pytest.raises(error):
            drive.run("write", lbas(drive, 60_000), 8)
    with pytest.raises(strobe.StateError, match="victim policy"):
        drive.save("never")


class Levels:
    """DAC: a unit moves up a stream with each host write, and down with each relocation."""

    streams = 4

    def __init__(self):
        self.level = np.full(12_000, -1)
        self.collected = 0

    def on_write(self, units):
        assert units.dtype == np.uint32
        for unit in units:
            self.level[unit] = min(self.level[unit] + 1, 3)
        # A batch may contain a unit several times.
        return [self.level[unit] for unit in units]

    def on_relocate(self, units):
        self.level[units] = np.maximum(self.level[units] - 1, 0)
        return self.level[units]

    def on_collect(self, block):
        self.collected += 1


def test_a_placement_object_chooses_streams():
    own = {**SMALL, "ftl": {**SMALL["ftl"], "gc": {"min_free_blocks": 8}}}
    table = {**own, "ftl": {**own["ftl"], "placement": {"scheme": "dac", "streams": 4}}}
    levels = Levels()
    by_object = strobe.Drive(own, timing=False, placement=levels)
    others = [strobe.Drive(table, timing=False, placement=name) for name in ("dac", "stream + 1 - 2 * is_copy")]
    for drive in (by_object, *others):
        # One write per call, so each batch has one unit.
        for lba in lbas(drive, 30_000):
            drive.write(int(lba), 8)
        drive.check()
    assert by_object.stats() == others[0].stats() == others[1].stats()
    assert by_object.waf > 1.2 and levels.collected == by_object.stats()["gc"]["victims"]
    with pytest.raises(strobe.StateError, match="placement"):
        by_object.save("never")


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("on_write", lambda units: None, "on_write returned None; it must return an array or list of 8 streams"),
        ("on_write", lambda units: [0], "on_write returned 1 streams"),
        ("on_write", lambda units: [0] * 7 + [2], r"on_write returned stream 2 in row 7 \(unit 7\); .* from 0 to 1"),
        ("on_write", lambda units: np.full(len(units), 0.5), "on_write returned stream 0.5 in row 0"),
        ("on_relocate", lambda units: np.zeros(len(units), int), "on_relocate returned stream 0 in row 0 .* from 2 to 2"),
    ],
)
def test_a_wrong_stream_names_the_row(method, answer, said):
    class Wrong:
        streams = (2, 1)

        def on_write(self, units):
            return units % 2

        def on_relocate(self, units):
            return np.full(len(units), 2)

    setattr(Wrong, method, lambda self, units: answer(units))
    drive = small(timing=False, placement=Wrong())
    with pytest.raises(ValueError, match=said):
        drive.write(0, 64)
        drive.run("write", lbas(drive, 60_000), 8)


def test_keys_that_count_with_a_scheme_are_checked_with_the_scheme_given_beside_them():
    table = {**SMALL, "ftl": {**SMALL["ftl"], "gc": {"min_free_blocks": 8}, "placement": {"streams": 4}}}
    named = {**table, "ftl": {**table["ftl"], "placement": {"streams": 4, "scheme": "dac"}}}
    one, other = strobe.Drive(table, timing=False, placement="dac"), strobe.Drive(named, timing=False)
    for drive in (one, other):
        drive.run("write", lbas(drive, 30_000), 8)
    assert one.stats() == other.stats()
    with pytest.raises(ValueError, match="drive.ftl.placement.streams has no effect"):
        strobe.Drive(table)
    experiment = {"drive": table, "run": {"measure": "1x", "timing": False}}
    assert strobe.run(experiment, placement="dac")["waf"] == strobe.run({**experiment, "drive": named})["waf"]
    assert strobe.Drive(strobe.Experiment({"drive": named}), placement="sepbit").sectors == one.sectors
    windowed = {**SMALL, "ftl": {**SMALL["ftl"], "gc": {"window": 4}}}
    assert strobe.Drive(windowed, victim="windowed-greedy").sectors == strobe.Drive(SMALL).sectors


def test_what_is_no_placement_is_refused():
    with pytest.raises(TypeError, match="int: it has no method on_write"):
        small(placement=3)
    with pytest.raises(strobe.ConfigError, match=r"did you mean sepbit\?"):
        small(placement="sepbitt")
    with pytest.raises(strobe.ConfigError, match=r"unknown variable wirtes; did you mean writes\?"):
        small(placement="wirtes / 2")
    none_at_all = type("NoStreams", (Levels,), {"streams": 0})
    with pytest.raises(strobe.BuildError, match="at least one of each"):
        small(placement=none_at_all())


def test_others_work_while_a_drive_does():
    drive = small(timing=False)
    where = lbas(drive, 2_000_000)
    ticks = 0
    worker = threading.Thread(target=drive.run, args=("write", where, 8))
    worker.start()
    while worker.is_alive():
        ticks += 1
        worker.join(0.001)
    assert ticks > 20 and drive.commands("write") == 2_000_000


def test_units_are_where_they_were_programmed():
    toy = {"channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 8, "pages_per_block": 4}
    drive = strobe.Drive({"preset": "generic-8g", "nand": toy, "ftl": {"logical_pages": 12}})
    assert len(drive.units()["unit"]) == 0
    for unit in (5, 6, 7, 8, 6):
        drive.write(unit * 8, 8)
    drive.flush()
    table = drive.units()
    where = {int(unit): (int(b), int(s)) for unit, b, s in zip(table["unit"], table["block"], table["slot"])}
    first = where[5][0]
    assert where == {5: (first, 0), 6: (where[6][0], 0), 7: (first, 2), 8: (first, 3)} and where[6][0] != first
    drive.trim(5 * 8, 8)
    assert drive.units()["unit"].tolist() == [6, 7, 8]


def test_blocks_are_shown_as_they_are():
    drive = small(timing=False)
    units = drive.sectors // 8
    drive.run("write", np.arange(units) * 8, 8)
    blocks = drive.blocks()
    assert blocks["valid"].sum() == units == drive.mapped_units
    assert (blocks["valid"] <= blocks["written"]).all() and (blocks["written"] <= blocks["units"]).all()
    assert blocks["stage"].count("erased") >= drive.free_blocks > 0
    drive.trim(0, 8)
    assert drive.blocks()["valid"].sum() == units - 1
    assert blocks["block"].tolist() == list(range(len(blocks))) and set(blocks["stream"]) <= {-1, 0, 1}
    assert (blocks["u"] == blocks["valid"] / blocks["units"]).all()
    assert (blocks["invalid"] + blocks["valid"] == blocks["written"]).all()
    assert "host" in blocks["purpose"] and blocks["erase_count"].max() <= drive.wear()["erase_max"]


VARIABLES = [
    "u", "valid", "invalid", "units", "age", "age_closed", "age_last_invalid", "age_first_invalid", "age_newest_valid",
    "age_invalid_sum", "stream", "erase_count",
]


@pytest.mark.parametrize("scored", VARIABLES)
def test_a_function_sees_what_a_formula_sees(scored):
    """Formula and function choose the same victims by each variable: equal names have equal values."""
    columns = []

    def function(blocks):
        columns.append(blocks.columns)
        return blocks[scored] - 0.5 * blocks["u"].astype(float)

    keys = {"drive": {**SMALL, "nand": {"blocks_per_plane": 40}, "ftl": {"logical_pages": 8000}}, "workload": {"kind": "zipf"},
            "run": {"warmup": "1x", "measure": "1x", "timing": False}}
    by_name = strobe.run(keys, victim=f"{scored} - 0.5 * u")
    by_function = strobe.run(keys, victim=function)
    assert columns[0] == ["block", *VARIABLES]
    assert by_function["waf"] == by_name["waf"] > 1 and by_function["wear"] == by_name["wear"]
