"""Sweeps: rows are the same on every executor, and after workers die."""

import concurrent.futures
import json
import multiprocessing
import os
import signal
import subprocess
import sys

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
    """Returns the sweep and its rows, run by a single worker."""
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


SCRIPT = """
import strobe
found = strobe.sweep({small}, {grid}, seeds=2, out="swept", workers=2)
assert found.rows["error"] == [None] * 8, found.rows["error"]
"""
OWN = """
import strobe, sys
sys.modules["cloudpickle"] = None

class Emptiest:
    def score(self, blocks, now):
        return -blocks.valid

strobe.sweep({small}, {{"drive.ftl.gc.victim": ["greedy", Emptiest]}}, out="own", workers=1, retries=0)
"""


def run_script(folder, text):
    (folder / "script.py").write_text(text.format(small=SMALL, grid=GRID))
    return subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=120)


def test_a_script_sweeps_without_a_guard(expected, tmp_path):
    done = run_script(tmp_path, SCRIPT)
    assert (done.returncode, done.stderr) == (0, "")
    assert next((tmp_path / "swept").glob("*.parquet")).read_bytes() == expected[1]


def test_a_script_with_policies_of_its_own_is_told_of_the_guard(tmp_path):
    done = run_script(tmp_path, OWN)
    assert 'below if __name__ == "__main__":' in done.stderr


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
    # Python reads the same file, and repeats no run of the program.
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
    """A killed worker ends its whole pool."""
    killed = []

    def kill_one(done, wanted, failed):
        # Two runs may have ended since the last call.
        if 2 <= done < wanted and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    long = strobe.with_keys(SMALL, {"drive.nand.blocks_per_plane": 256})
    calm = strobe.sweep(long, GRID, seeds=2, out=tmp_path / "calm", workers=2)
    found = strobe.sweep(long, GRID, seeds=2, out=tmp_path / "killed", workers=2, progress=kill_one)
    assert killed and found.parquet.read_bytes() == calm.parquet.read_bytes()


def test_a_worker_that_always_dies_is_a_row_with_a_reason_and_is_tried_anew(expected, tmp_path):
    class Dying(concurrent.futures.ThreadPoolExecutor):
        def submit(self, fn, line, *more):
            if '"point":3' in line:
                return super().submit(os.strerror, "no number")
            return super().submit(fn, line, *more)

    with Dying(1) as executor:
        found = sweep(tmp_path, executor=executor, retries=1)
    assert found.rows["status"].count("lost") == 1
    assert "died 2 times" in found.rows["error"][3] and "TypeError" in found.rows["error"][3]
    assert np.isnan(found.rows["waf"][3])
    assert sweep(tmp_path, workers=1).parquet.read_bytes() == expected[1]


def test_ctrl_c_ends_a_sweep_and_it_goes_on(expected, tmp_path):
    def stop(done, wanted, failed):
        if done >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, workers=1, progress=stop)
    assert len((tmp_path / "points.jsonl").read_text().splitlines()) == 4
    assert sweep(tmp_path, workers=1).parquet.read_bytes() == expected[1]


def test_formulas_have_names(tmp_path):
    grid = {"drive.ftl.gc.victim": ["fifo", "youngest"]}
    found = strobe.sweep(SMALL, grid, names={"youngest": "age * (1-u) / (1+u)^2"}, out=tmp_path / "named", workers=1)
    assert found.rows["drive.ftl.gc.victim"] == ["fifo", "youngest"]
    assert found.rows["waf"][1] == strobe.run(SMALL, victim="age * (1-u) / (1+u)^2")["waf"]
    assert "youngest" in found.page.read_text() and "youngest" in (tmp_path / "named" / "summary.csv").read_text()
    with pytest.raises(strobe.ConfigError, match='sweep.names: .*"oldest"'):
        strobe.sweep(SMALL, grid, names={"youngest": "age", "oldest": "age"}, out=tmp_path / "other")


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
        ({"grid": {"drive.ftl.gc.victim": "fifo"}}, "drive.ftl.gc.victim"),
    ]:
        with pytest.raises(strobe.ConfigError) as refused:
            strobe.sweep(SMALL, out=tmp_path / "none", **keys)
        assert wanted in str(refused.value)
        assert not (tmp_path / "none" / "rows.parquet").exists()
    with pytest.raises(ValueError, match="in_flight"):
        strobe.sweep(SMALL, GRID, out=tmp_path / "none", in_flight=0)
    with pytest.raises(ValueError, match="in_flight"), concurrent.futures.ThreadPoolExecutor(1) as executor:
        strobe.sweep(SMALL, GRID, out=tmp_path / "none", executor=executor, workers=3)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("mine")
    with pytest.raises(strobe.ConfigError, match="not the folder of a sweep"):
        sweep(tmp_path / "thesis")


def test_optuna_looks_for_the_best(tmp_path):
    pytest.importorskip("optuna")
    space = {"drive.ftl.gc.victim": ["greedy", "fifo"], "drive.ftl.over_provisioning": (0.1, 0.3)}
    found = [
        strobe.search(SMALL, space, out=tmp_path / name, trials=6, workers=1) for name in ("one", "two")
    ]
    assert found[0].best_params == found[1].best_params and len(found[0].trials) == 6
    assert found[0].best_params["drive.ftl.over_provisioning"] > 0.15, "more over-provisioning is better"
    rows = pyarrow.parquet.read_table(tmp_path / "one" / "rows.parquet")
    assert min(rows["waf"].to_pylist()) == found[0].best_value and rows.num_rows == 6


def fewest_valid(blocks):
    return -blocks["valid"].astype(np.float64)


def first_in_the_table(blocks):
    return -blocks["block"].astype(np.float64)


class OneStream:
    """Host writes and relocated units share blocks (NoSep)."""

    streams = 1

    def on_write(self, units):
        return np.zeros(len(units), int)

    on_relocate = on_write


class Failing(OneStream):
    def on_relocate(self, units):
        raise ZeroDivisionError("in the placement")


def test_functions_and_objects_are_values_like_names(tmp_path):
    grid = {"drive.ftl.gc.victim": ["greedy", fewest_valid, first_in_the_table]}
    found = strobe.sweep(SMALL, grid, seeds=2, out=tmp_path / "own", workers=2)
    waf = {one["values"]["drive.ftl.gc.victim"]: one["measures"]["waf"]["mean"] for one in found.configurations}
    assert list(waf) == ["greedy", "fewest_valid()", "first_in_the_table()"]
    single = [strobe.run(SMALL, victim=fewest_valid, seed=seed) for seed in (1, 2)]
    assert waf["fewest_valid()"] == sum(run["waf"] for run in single) / 2
    assert waf["fewest_valid()"] == pytest.approx(waf["greedy"], rel=0.03) and waf["first_in_the_table()"] > 1.2 * waf["greedy"]
    told = json.loads(found.rows["result"][2])["config"]["drive"]["ftl"]["gc"]["victim"]
    assert told == "fewest_valid()", "a result names its policy"
    assert single[0]["config"]["drive"]["ftl"]["gc"]["victim"] == told
    assert single[0]["config_hash"] != strobe.Experiment(SMALL).config_hash


class Splitting:
    """Uses the first ``used`` streams for host writes."""

    streams = (2, 1)

    def __init__(self, used, name=None):
        self.used = used
        if name is not None:
            self.name = name

    def on_write(self, units):
        return units % self.used

    def on_relocate(self, units):
        return 0 * units + 2


def test_objects_of_one_class_are_told_apart_by_their_names(tmp_path):
    def grid(*policies):
        return {"drive.ftl.placement.scheme": list(policies)}

    with pytest.raises(ValueError, match=r'two policies are called Splitting\(\); give each a different attribute "name"'):
        strobe.sweep(SMALL, grid(Splitting(1), Splitting(2)), out=tmp_path / "no")
    with pytest.raises(ValueError, match='two policies are called one; give each a different attribute "name"'):
        strobe.sweep(SMALL, grid(Splitting(1, "one"), Splitting(2, "one")), out=tmp_path / "no")
    for policies in [("sepbit", Splitting(1, "sepbit")), (Splitting(1, "sepbit"), "sepbit")]:
        with pytest.raises(ValueError, match='"sepbit" is both a value'):
            strobe.sweep(SMALL, grid(*policies), out=tmp_path / "no")
    found = strobe.sweep(SMALL, grid(Splitting(1, "one"), Splitting(2, "two"), "sep-gc"), out=tmp_path / "yes", workers=2)
    assert list(found.rows["drive.ftl.placement.scheme"]) == ["one", "two", "sep-gc"]
    waf = {found["values"]["drive.ftl.placement.scheme"]: found["measures"]["waf"]["mean"] for found in found.configurations}
    assert waf["one"] == waf["sep-gc"] != waf["two"]


def test_policies_of_all_kinds_go_to_sweeps_as_keywords(tmp_path):
    def waf(**policies):
        found = strobe.sweep(SMALL, {"run.measure": ["1x"]}, out=tmp_path / str(len(list(tmp_path.iterdir()))), workers=1, **policies)
        assert found.configurations[0]["error"] is None, found.configurations[0]
        return found.configurations[0]["measures"]["waf"]["mean"]

    assert waf(victim="fifo") == strobe.run(SMALL, victim="fifo")["waf"]
    assert waf(victim="age * (1-u)") == strobe.run(SMALL, victim="age * (1-u)")["waf"]
    assert waf(victim=fewest_valid, placement="sep-gc") == strobe.run(SMALL, victim=fewest_valid, placement="sep-gc")["waf"]
    assert waf(placement=OneStream()) == strobe.run(SMALL, placement=OneStream())["waf"]
    found = strobe.sweep(SMALL, {"run.measure": ["1x"]}, out=tmp_path / "bad", workers=1, placement=Failing())
    assert "in the placement" in found.configurations[0]["error"]


def test_what_is_kept_of_a_function_counts_while_its_code_is_the_same(tmp_path):
    out = tmp_path / "out"
    scale = 1.0

    def scored(blocks):
        return scale * blocks["u"]

    def ran():
        names = []
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            strobe.sweep(SMALL, {"drive.ftl.gc.victim": [scored]}, out=out, executor=executor, shared=True, progress=lambda *numbers: names.append(numbers))
        return names[0]

    pytest.importorskip("cloudpickle")
    assert ran()[0] == 0 and ran()[0] == 1, "the second sweep reuses the run"
    scale = -1.0
    assert ran()[0] == 0, "the function has changed"


def test_objects_that_cannot_be_policies_are_refused(tmp_path):
    with pytest.raises(TypeError, match="run.measure: a OneStream is no value"):
        strobe.sweep(SMALL, {"run.measure": [OneStream()]}, out=tmp_path / "a")
    with pytest.raises(ValueError, match="two policies are called <lambda>"):
        strobe.sweep(SMALL, {"drive.ftl.gc.victim": [lambda blocks: 1, lambda blocks: 2]}, out=tmp_path / "b")
    with pytest.raises(ValueError, match="victim: the grid has values of drive.ftl.gc.victim"):
        strobe.sweep(SMALL, {"drive.ftl.gc.victim": ["greedy"]}, victim="fifo", out=tmp_path / "c")
    with pytest.raises(TypeError, match="victim=int: a victim policy is a name, a formula, or a function"):
        strobe.run(SMALL, victim=3)


def test_another_sweep_in_the_folder_is_refused(tmp_path):
    out = tmp_path / "one"
    strobe.sweep(SMALL, {"drive.ftl.gc.victim": ["greedy"]}, out=out, workers=1)
    with pytest.raises(strobe.ConfigError, match="another sweep"):
        strobe.sweep(SMALL, {"drive.ftl.gc.victim": ["fifo"]}, out=out, workers=1)
    found = strobe.sweep(SMALL, {"drive.ftl.gc.victim": ["fifo"]}, out=out, workers=1, shared=True)
    assert found.configurations[0]["done"] == 1 and found.configurations[0]["same_for_every_seed"] is False


def test_pandas_takes_the_rows(expected):
    pandas = pytest.importorskip("pandas")
    found, _ = expected
    frame = pandas.DataFrame(found.rows)
    assert list(frame.columns) == found.rows.columns and len(frame) == 8
    assert frame["waf"].to_list() == found.rows["waf"].tolist()
    assert [row["seed"] for row in found.rows] == found.rows["seed"].tolist()


def test_figures_and_tables_of_a_sweep(expected):
    found, _ = expected
    assert found.figures == [path.stem for path in found.pictures]
    assert found.plot().svg == found.pictures[0].read_text()
    assert "width" in found.plot("waf", width_mm=85).svg
    with pytest.raises(KeyError, match="did you mean 'waf'"):
        found.plot("wafs")
    assert "WAF" in found.table() and "| ---: |" in found.table("markdown")
    assert found.table("latex").startswith("% \\usepackage{booktabs}")
    with pytest.raises(ValueError, match="latex or markdown"):
        found.table("html")


def test_all_pairs_and_the_axis_are_keywords(tmp_path):
    grid = {"drive.ftl.gc.victim": ["greedy", "fifo", "random"]}
    found = strobe.sweep(SMALL, grid, seeds=2, out=tmp_path / "pairs", pairs="all", workers=1)
    assert len(found.differences) == 3
    with pytest.raises(strobe.ConfigError, match="a key with numbers"):
        strobe.sweep(SMALL, grid, out=tmp_path / "x", x="drive.ftl.gc.victim")


class StandIn:
    """Stand-in on threads for the part of Ray that the executor uses."""

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.seen = {}

    def remote(self, fn):
        task = type("Task", (), {})()
        task.remote = lambda *args: self.pool.submit(fn, *args)
        task.options = lambda **options: self.seen.update(options) or task
        return task

    def wait(self, references, timeout):
        return [one for one in references if one.done()], [one for one in references if not one.done()]

    def get(self, reference):
        return reference.result()

    def cancel(self, reference):
        reference.cancel()


def test_rows_are_the_same_from_ray(expected, tmp_path, monkeypatch):
    _, rows = expected
    ray = StandIn()
    monkeypatch.setitem(sys.modules, "ray", ray)
    found = sweep(tmp_path / "ray", executor=strobe.RayExecutor(num_cpus=1))
    assert found.parquet.read_bytes() == rows and ray.seen == {"num_cpus": 1}


def test_a_range_may_be_logarithmic(tmp_path):
    pytest.importorskip("optuna")
    space = {"drive.ftl.over_provisioning": (0.01, 1.0, "log")}
    found = strobe.search(SMALL, space, out=tmp_path / "log", trials=3, workers=1)
    distribution = found.trials[0].distributions["drive.ftl.over_provisioning"]
    assert distribution.log and 0.01 <= found.best_params["drive.ftl.over_provisioning"] <= 1.0
    with pytest.raises(ValueError, match='"log"'):
        strobe.search(SMALL, {"drive.ftl.over_provisioning": (0.01, 1.0, "lin")}, out=tmp_path / "no", trials=1)


def test_a_search_for_two_measures_finds_what_no_other_trial_beats(tmp_path):
    pytest.importorskip("optuna")
    space = {"drive.ftl.over_provisioning": (0.2, 1.0)}
    goals = ["waf", "host.write.bytes"]
    study = strobe.search(
        SMALL, space, out=tmp_path / "two", trials=6, workers=1, measure=goals, direction=["minimize", "maximize"]
    )
    tried = [trial.values for trial in study.trials]
    best = [trial.values for trial in study.best_trials]
    beaten = [one for one in tried if any(a[0] <= one[0] and a[1] >= one[1] and a != one for a in tried)]
    assert sorted(best) == sorted(one for one in tried if one not in beaten) and len(best) > 1
    with pytest.raises(ValueError, match="direction: 1 directions for 2 measures"):
        strobe.search(SMALL, space, out=tmp_path / "no", trials=1, measure=goals, direction=["minimize"])
