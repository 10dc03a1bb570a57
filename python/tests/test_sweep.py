"""Sweeps: the same rows whoever runs them, whoever dies."""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess

import numpy as np
import pyarrow.parquet
import pytest

import strobe

SMALL = {
    "drive": {"preset": "generic-8g", "nand": {"blocks_per_plane": 64}, "ftl": {"over_provisioning": 0.2}},
    "workload": {"kind": "uniform"},
    "run": {"warmup": "2x", "measure": "1x", "timing": False},
}
GRID = {"drive.ftl.gc.victim": ["greedy", "fifo"], "run.measure": ["1x", "2x"]}


def sweep(folder, **more):
    return strobe.sweep(SMALL, GRID, seeds=2, out=folder, **more)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The rows as one process after the other makes them."""
    found = sweep(tmp_path_factory.mktemp("sweep") / "expected", workers=1)
    return found, found.parquet.read_bytes()


def test_rows_are_those_of_single_runs(expected):
    found, _ = expected
    table = pyarrow.parquet.read_table(found.parquet)
    assert table.num_rows == 8 and table.column_names == found.rows.columns
    assert pyarrow.table(found.rows).equals(table.cast(pyarrow.table(found.rows).schema))
    for row in table.to_pylist():
        keys = {key: row[key] for key in GRID} | {"seed": row["seed"]}
        alone = strobe.run(strobe.with_keys(SMALL, keys))
        assert row["status"] == "done" and row["waf"] == alone["waf"]
    assert isinstance(found.rows["waf"], np.ndarray) and found.rows["seed"].tolist() == [1, 2] * 4
    assert found.rows["error"] == [None] * 8


def test_rows_are_the_same_from_threads_and_processes(expected, tmp_path):
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        assert sweep(tmp_path / "threads", executor=executor).parquet.read_bytes() == expected[1]
    assert sweep(tmp_path / "processes", workers=2, in_flight=5).parquet.read_bytes() == expected[1]
    assert not (tmp_path / "processes" / "states").exists()


def test_rows_are_the_same_from_the_command_line(expected, tmp_path):
    program = os.environ.get("STROBE")
    if not program:
        pytest.skip("STROBE names no program")
    file = tmp_path / "s.toml"
    grid = "[sweep]\nseeds = 2\n[sweep.grid]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\"]\n\"run.measure\" = [\"1x\", \"2x\"]"
    keys = "[drive]\npreset = \"generic-8g\"\nnand.blocks_per_plane = 64\nftl.over_provisioning = 0.2\n[workload]\nkind = \"uniform\""
    file.write_text(f"{keys}\n[run]\nwarmup = \"2x\"\nmeasure = \"1x\"\ntiming = false\n{grid}\n")
    subprocess.run([program, "sweep", file, "--quiet", "--out", tmp_path / "out"], check=True)
    assert (tmp_path / "out" / "rows.parquet").read_bytes() == expected[1]
    # The same file from here, and what the program has done is not done again.
    points = (tmp_path / "out" / "points.jsonl").read_bytes()
    assert strobe.sweep(file, out=tmp_path / "out").parquet.read_bytes() == expected[1]
    assert (tmp_path / "out" / "points.jsonl").read_bytes() == points


def test_rows_are_the_same_from_dask(expected, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            found = sweep(tmp_path / "dask", executor=client.get_executor())
    assert found.parquet.read_bytes() == expected[1]


def test_rows_are_the_same_from_submitit(expected, tmp_path):
    submitit = pytest.importorskip("submitit")
    executor = submitit.LocalExecutor(folder=tmp_path / "log")
    executor.update_parameters(timeout_min=2)
    found = sweep(tmp_path / "submitit", executor=executor, in_flight=2)
    assert found.parquet.read_bytes() == expected[1]


def test_workers_that_are_killed_lose_nothing(tmp_path):
    """A worker takes all others of its pool with it."""
    killed = []

    def kill_one(done, wanted, failed):
        if done == 2 and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    long = strobe.with_keys(SMALL, {"drive.nand.blocks_per_plane": 256})
    calm = strobe.sweep(long, GRID, seeds=2, out=tmp_path / "calm", workers=2)
    found = strobe.sweep(long, GRID, seeds=2, out=tmp_path / "killed", workers=2, progress=kill_one)
    assert killed and found.parquet.read_bytes() == calm.parquet.read_bytes()


def test_a_worker_that_always_dies_is_a_row_with_a_reason_and_is_tried_anew(expected, tmp_path):
    class Dying(concurrent.futures.ThreadPoolExecutor):
        def submit(self, fn, line):
            if '"point":3' in line:
                return super().submit(os.strerror, "no number")
            return super().submit(fn, line)

    with Dying(1) as executor:
        found = sweep(tmp_path, executor=executor, retries=1)
    assert found.rows["status"].count("lost") == 1
    assert "died 2 times" in found.rows["error"][3] and "TypeError" in found.rows["error"][3]
    assert np.isnan(found.rows["waf"][3])
    assert sweep(tmp_path, workers=1).parquet.read_bytes() == expected[1]


def test_ctrl_c_ends_a_sweep_and_it_goes_on(expected, tmp_path):
    def stop(done, wanted, failed):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, workers=1, progress=stop)
    assert len((tmp_path / "points.jsonl").read_text().splitlines()) == 4
    assert sweep(tmp_path, workers=1).parquet.read_bytes() == expected[1]


def test_differences_and_pictures(expected):
    found, _ = expected
    assert [one["done"] for one in found.configurations] == [2] * 4
    for one in found.differences:
        assert one["measure"] == "waf" and one["relative"]["n"] == 2
        baseline = found.configurations[one["baseline"]]["values"]
        assert baseline["drive.ftl.gc.victim"] == "greedy" or baseline["run.measure"] == "1x"
    assert found.pictures[0].read_text().startswith("<svg") and "<svg" in found._repr_html_()
    page = found.page.read_text()
    assert page.startswith("<!DOCTYPE html>") and "verdict" in page


def test_nonsense_is_refused(tmp_path):
    for keys, wanted in [
        ({"grid": {"drive.ftl.gc.victm": ["fifo"]}}, "did you mean drive.ftl.gc.victim"),
        ({"grid": {"drive.nand.read_ns": range(1, 1001), "drive.nand.erase_ns": range(1, 1001), "drive.nand.program_ns": range(1, 1001)}}, "1000000000 points"),
        ({"grid": {}, "seeds": 0}, "sweep.seeds"),
        ({"grid": {"drive.ftl.gc.victim": "fifo"}}, "greedy"),
    ]:
        with pytest.raises(strobe.ConfigError) as refused:
            strobe.sweep(SMALL, out=tmp_path / "none", **keys)
        assert wanted in str(refused.value) or wanted == "greedy"
        assert not (tmp_path / "none" / "rows.parquet").exists()
    with pytest.raises(ValueError, match="in_flight"):
        strobe.sweep(SMALL, GRID, out=tmp_path / "none", in_flight=0)
    with pytest.raises(ValueError, match="in_flight"), concurrent.futures.ThreadPoolExecutor(1) as executor:
        strobe.sweep(SMALL, GRID, out=tmp_path / "none", executor=executor, workers=3)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("mine")
    with pytest.raises(strobe.ConfigError, match="something else"):
        sweep(tmp_path / "thesis")


def test_optuna_looks_for_the_best(tmp_path):
    pytest.importorskip("optuna")
    space = {"drive.ftl.gc.victim": ["greedy", "fifo"], "drive.ftl.over_provisioning": (0.1, 0.3)}
    found = [
        strobe.search(SMALL, space, out=tmp_path / name, trials=6, workers=1) for name in ("one", "two")
    ]
    assert found[0].best_params == found[1].best_params and len(found[0].trials) == 6
    assert found[0].best_params["drive.ftl.over_provisioning"] > 0.15, "more spare room is better"
    rows = pyarrow.parquet.read_table(tmp_path / "one" / "rows.parquet")
    assert min(rows["waf"].to_pylist()) == found[0].best_value and rows.num_rows == 6




def test_a_function_in_a_grid_and_another_sweep_in_the_folder_are_refused(tmp_path):
    with pytest.raises(TypeError, match="drive.ftl.gc.victim: a function cannot go to the workers"):
        strobe.sweep(SMALL, {"drive.ftl.gc.victim": [lambda blocks: blocks["u"]]}, out=tmp_path / "f")
    out = tmp_path / "one"
    strobe.sweep(SMALL, {"drive.ftl.gc.victim": ["greedy"]}, out=out, workers=1)
    with pytest.raises(strobe.ConfigError, match="another sweep"):
        strobe.sweep(SMALL, {"drive.ftl.gc.victim": ["fifo"]}, out=out, workers=1)
    found = strobe.sweep(SMALL, {"drive.ftl.gc.victim": ["fifo"]}, out=out, workers=1, shared=True)
    assert found.configurations[0]["done"] == 1 and found.configurations[0]["same_for_every_seed"] is False
