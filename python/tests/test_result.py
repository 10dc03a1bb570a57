"""Results as pages, figures and notebook cells."""

import html
import json
import os
import re
import subprocess
import zlib

import pytest

import strobe

SMALL = {
    "drive": {"preset": "generic-8g", "nand": {"blocks_per_plane": 64}, "ftl": {"over_provisioning": 0.2}},
    "workload": {"kind": "zipf", "queue_depth": 4},
    "run": {"warmup": "2x", "measure": "1x", "interval": "1s"},
}


@pytest.fixture(scope="module")
def result():
    return strobe.run(SMALL, xray=20)


def test_the_page_is_that_of_the_command_line(result, tmp_path):
    program = os.environ.get("STROBE")
    if not program:
        pytest.skip("STROBE names no program")
    (tmp_path / "out.json").write_text(result.to_json())
    subprocess.run([program, "report", "out.json", "--out", "page.html"], cwd=tmp_path, check=True)
    assert result.report(tmp_path / "out.html") is None
    assert (tmp_path / "out.html").read_text().rstrip() == (tmp_path / "page.html").read_text().rstrip()
    assert result.report(name="out") == (tmp_path / "out.html").read_text()
    assert "xray-data" in result.report(), "the page contains the X-ray"


def test_figures_are_drawn_without_another_library(result, tmp_path):
    assert "waf" in result.figures and len(result.figures) > 3
    figure = result.plot()
    assert figure.name == result.figures[0] and figure._repr_svg_() == figure.svg
    assert figure.svg.startswith("<svg") and "var(--" not in figure.svg, "a figure has no CSS variables"
    column = result.plot("waf", width_mm=85)
    assert 'width="85mm"' in column.svg
    grey = re.findall("#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", result.plot("waf", grey=True).svg)
    assert grey and all(red == green == blue for red, green, blue in grey)
    column.save(tmp_path / "waf.svg")
    assert (tmp_path / "waf.svg").read_text() == column.svg
    column.save(tmp_path / "waf.pdf")
    file = (tmp_path / "waf.pdf").read_bytes()
    box = re.search(rb"/MediaBox\[0 0 ([\d.]+) ", file)
    assert file.startswith(b"%PDF") and float(box[1]) == pytest.approx(85 * 72 / 25.4, abs=0.01)
    content = re.search(rb"stream\n(.*?)\nendstream", file, re.S)
    drawn = zlib.decompress(content[1]).decode()
    assert drawn.count("Tj ET") == column.svg.count("<text"), "the PDF has every label"
    for name in result.figures:
        result.plot(name).save(tmp_path / f"{name}.pdf")


def test_the_headline_figure_is_an_attribute(result):
    assert result.waf == result["waf"] > 1
    reads = {"workload.kind": "uniform", "workload.write_fraction": 0.0, "run.warmup": "0s", "run.measure": "1ms"}
    assert strobe.run(strobe.with_keys(SMALL, reads)).waf is None, "nothing was written"


def test_wrong_names_are_answered_as_python_does(result, tmp_path):
    with pytest.raises(KeyError, match="did you mean 'waf'"):
        result["wafs"]
    with pytest.raises(KeyError, match="the figures are .*; did you mean 'waf'"):
        result.plot("wav")
    with pytest.raises(ValueError, match="only a PDF contains its font"):
        result.plot().save(tmp_path / "waf.svg", font=tmp_path / "x.ttf")
    with pytest.raises(ValueError, match="width_mm: a width of 5 mm; allowed are 20 to 500"):
        result.plot(width_mm=5)
    with pytest.raises(ValueError, match=r"'.png'; allowed are .svg and .pdf"):
        result.plot().save(tmp_path / "waf.png")
    with pytest.raises(FileNotFoundError, match="nothere.toml"):
        strobe.run("nothere.toml")
    with pytest.raises(FileNotFoundError, match="nothere.toml"):
        strobe.Drive("nothere.toml")
    with pytest.raises(ValueError, match="drive.ftl.gc.victim") as refused:
        strobe.with_keys(SMALL, {"drive.ftl.gc.victim": "gredy"})
    assert isinstance(refused.value, strobe.ConfigError) and "--set" not in str(refused.value)
    with pytest.raises(ValueError, match="did you mean jasmine-4g") as refused:
        strobe.Drive("jasmin-4g")
    assert "--drive" not in str(refused.value)


def test_a_cell_shows_the_headlines_and_plays_the_xray(result):
    cell = result._repr_html_()
    page = html.unescape(re.search(r'srcdoc="(.*?)"', cell, re.S)[1])
    assert cell.startswith("<iframe") and "<script" not in cell, "scripts stay inside the frame"
    assert "data-plays" in page and "xray-data" in page and "<dt>" in page
    assert "data-plays" not in result.report(), "a page does not play by itself"
    plain = strobe.run(SMALL)
    page = html.unescape(re.search(r'srcdoc="(.*?)"', plain._repr_html_(), re.S)[1])
    assert "xray-data" not in page and page.count("<figure") == 2


def test_the_xray_keyword_is_what_report_takes(result):
    run = json.loads(result.to_json())["config"]["run"]
    assert run["xray"] == 20 and run["latency_bins"] is True
    keys = {**SMALL, "workload": {"kind": "zipf"}, "run": {"measure": "1x", "timing": False}}
    counted = strobe.run(keys, xray=5)
    assert "xray-data" in counted.report() and "latency_bins" not in counted["config"]["run"]


def test_keys_with_dots_are_those_of_their_tables():
    dotted = {"drive.preset": "generic-8g", "drive": {"nand.blocks_per_plane": 64}, "run.measure": "1x", "seed": 2}
    nested = {"drive": {"preset": "generic-8g", "nand": {"blocks_per_plane": 64}}, "run": {"measure": "1x"}, "seed": 2}
    assert strobe.Experiment(dotted) == strobe.Experiment(nested)
    with pytest.raises(ValueError, match="given twice"):
        strobe.Experiment({"run.measure": "1x", "run": {"measure": "2x"}})
