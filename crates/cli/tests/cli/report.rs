use crate::{Folder, TINY};

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("tiny.toml", TINY);
    let args = ["run", "tiny.toml", "--quiet", "--set", "run.xray=20", "--json", "one.json"];
    folder.strobe(&args).ok();
    folder
}

#[test]
fn a_page_needs_nothing_else_and_shows_what_the_result_has() {
    let folder = folder();
    folder.strobe(&["report", "one.json", "--out", "page.html"]).ok();
    let page = folder.read("page.html");
    for part in ["write amplification", "id=\"waf\"", "id=\"wear\"", "id=\"operations\"", "xray-data"] {
        assert!(page.contains(part), "{part}");
    }
    // The page loads no external resource.
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("id=\"iops\""));
    folder.strobe(&["run", "tiny.toml", "--quiet", "--json", "plain.json"]).ok();
    folder.strobe(&["report", "plain.json", "--out", "plain.html"]).ok();
    assert!(!folder.read("plain.html").contains("xray-data"));
}

#[test]
fn several_results_are_compared_and_figures_are_files() {
    let folder = folder();
    let other = ["run", "tiny.toml", "--quiet", "--set", "drive.ftl.gc.victim=fifo", "--json", "fifo.json"];
    folder.strobe(&other).ok();
    folder.strobe(&["report", "one.json", "fifo.json", "--out", "-", "--svg", "figures"]).ok();
    for name in ["comparison", "waf", "wear", "operations", "latency", "latency-tail"] {
        let svg = folder.read(&format!("figures/{name}.svg"));
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{name}");
    }
    assert!(folder.read("figures/waf.svg").contains("fifo"));
    for name in ["xray-valid-1", "xray-stream-1", "xray-wear-1"] {
        let svg = folder.read(&format!("figures/{name}.svg"));
        assert!(svg.starts_with("<svg ") && svg.contains("stroke-width"), "{name}");
    }
    assert!(!folder.path().join("figures/xray-valid-2.svg").exists());
    // Custom properties are black outside browsers.
    for picture in folder.path().join("figures").read_dir().expect("there").flatten() {
        let svg = std::fs::read_to_string(picture.path()).expect("text");
        assert!(svg.contains("<style>") && !svg.contains("var("), "{picture:?}");
    }
}

#[test]
fn figures_for_papers_are_as_wide_as_a_column() {
    let folder = folder();
    let args = ["report", "one.json", "--pdf", "figures", "--svg", "figures", "--width-mm", "85"];
    folder.strobe(&args).ok();
    let names: Vec<_> = folder.path().join("figures").read_dir().expect("there").flatten().collect();
    assert!(names.len() > 10 && names.len().is_multiple_of(2), "each as both: {names:?}");
    for name in ["waf", "latency", "operations", "wear", "xray-valid"] {
        let svg = folder.read(&format!("figures/{name}.svg"));
        assert!(svg.starts_with("<svg width=\"85mm\" height=\"") && !svg.contains("var("), "{name}: {svg}");
        let pdf = std::fs::read(folder.path().join(format!("figures/{name}.pdf"))).expect("a file");
        let text = String::from_utf8_lossy(&pdf);
        assert!(text.starts_with("%PDF-1.7") && text.contains("/MediaBox[0 0 240.94 "), "{name}");
        assert!(text.contains("/FontFile2 "), "the font is in it");
    }
    folder.strobe(&args).ok();
    let again = std::fs::read(folder.path().join("figures/waf.pdf")).expect("a file");
    folder.strobe(&["report", "one.json", "--pdf", "other", "--width-mm", "85"]).ok();
    folder.strobe(&["report", "one.json", "--svg", "grey", "--grey"]).ok();
    let grey = folder.read("grey/waf.svg");
    let is_grey =
        |colour: &str| colour.len() < 6 || colour[..2] == colour[2..4] && colour[2..4] == colour[4..6];
    assert!(grey.contains("stroke:#") && grey.split('#').skip(1).all(|rest| is_grey(&rest[..6])), "{grey}");
    let refused = |args: &[&str], parts: &[&str]| {
        folder.strobe(&[&["report", "one.json"], args].concat()).refused(parts)
    };
    refused(&["--out", "p.html", "--grey"], &["--grey: no figures are written", "--svg DIR"]);
    refused(&["--pdf", "x", "--font", "one.json"], &["--font one.json: not a TrueType font"]);
    refused(&["--pdf", "x", "--font", "nothere.ttf"], &["--font nothere.ttf", "No such file"]);
    refused(&["--svg", "x", "--font", "one.json"], &["--pdf"]);
    assert_eq!(std::fs::read(folder.path().join("other/waf.pdf")).expect("a file"), again);
    folder
        .strobe(&["report", "one.json", "--out", "x.html", "--width-mm", "85"])
        .refused(&["--width-mm", "--pdf DIR"]);
    folder
        .strobe(&["report", "one.json", "--pdf", "x", "--width-mm", "3"])
        .refused(&["a width from 20 to 500 mm"]);
}

#[test]
fn what_is_no_result_is_refused_with_a_cure() {
    let folder = folder();
    let whole = folder.read("one.json");
    folder.write("half.json", &whole[..whole.len() / 2]);
    folder.write("other.json", "{\"schema_version\": 1, \"figures\": []}");
    folder.write("next.json", whole.replacen("\"schema_version\": 1", "\"schema_version\": 7", 1));
    folder.write("text.json", "hello");
    folder.write("bytes.json", [0xff, 0xfe]);
    let report = |files: &[&str]| folder.strobe(&[&["report"], files, &["--out", "page.html"]].concat());
    report(&["nowhere.json"]).refused(&["nowhere.json", "No such file"]);
    report(&["half.json"]).refused(&["half.json", "is truncated", "--json"]);
    report(&["other.json"]).refused(&["other.json", "not a result of a run", "--json"]);
    report(&["next.json"]).refused(&["next.json", "schema_version 7", "version 1"]);
    report(&["text.json"]).refused(&["text.json", "not JSON"]);
    report(&["bytes.json"]).refused(&["bytes.json", "not a text file"]);
    report(&["one.json", "one.json"]).refused(&["one.json", "twice"]);
    folder.strobe(&["report", "one.json", "--out", "one.json"]).refused(&["--out", "input"]);
    folder.strobe(&["report", "one.json", "--out", "no/where.html"]).refused(&["--out", "folder"]);
    assert!(!folder.path().join("page.html").exists());
    // Untimed reads have neither write amplification nor latencies.
    let sets = ["workload.write_fraction=0", "run.timing=false", "run.warmup=0"];
    let mut args = vec!["run", "tiny.toml", "--quiet", "--json", "reads.json"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    folder.strobe(&args).ok();
    report(&["one.json", "reads.json"]).refused(&["one and reads", "nothing to compare"]);
}

#[test]
fn nothing_of_a_result_becomes_part_of_the_page() {
    let folder = folder();
    let mut result =
        folder.strobe(&["run", "tiny.toml", "--quiet", "--set", "run.xray=5", "--json", "-"]).json();
    let evil = "</script><script>alert(1)</script><img src=x onerror=\"alert(2)\">";
    result["notes"] = serde_json::json!([evil]);
    result["stopped_by"] = evil.into();
    result["config"]["drive"]["preset"] = evil.into();
    result["config_hash"] = evil.into();
    result["jobs"][0]["jobname"] = evil.into();
    result["nand"]["program"]["by_cause"][evil] = 7.into();
    result["xray"]["held"] = evil.into();
    folder.write("evil.json", result.to_string());
    let name = "<script>alert(3)<script>.json";
    folder.write(name, result.to_string());
    for file in ["evil.json", name] {
        folder.strobe(&["report", file, "--out", "page.html"]).ok();
        let page = folder.read("page.html");
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{file}");
    }
}

#[test]
fn frames_cost_no_result_a_byte_and_are_the_same_every_time() {
    let folder = folder();
    let of = |sets: &[&str]| {
        let mut result = folder.tiny(sets).ok().json();
        for key in ["config", "config_hash", "time", "sim"] {
            result.as_object_mut().expect("a result").remove(key);
        }
        let xray = result.as_object_mut().expect("a result").remove("xray");
        (result, xray)
    };
    let ((without, none), (with, some)) = (of(&[]), of(&["run.xray=9"]));
    assert_eq!(without, with);
    assert!(none.is_none());
    let some = some.expect("frames");
    assert_eq!(Some(&some), of(&["run.xray=9"]).1.as_ref());
    let frames = some["frames"].as_array().expect("frames");
    assert!((2..=10).contains(&frames.len()), "{frames:?}");
    assert!(frames.is_sorted_by_key(|frame| frame["at_ns"].as_u64()));
    folder.strobe(&["run", "tiny.toml", "--set", "run.xray=1"]).refused(&["run.xray", "1"]);
}

#[test]
fn a_page_changes_no_result() {
    let folder = Folder::new();
    let run = |more: &[&str]| {
        let args = ["run", "tiny.toml", "-q", "--reproducible", "--json", "-"];
        folder.strobe(&[&args[..], more].concat()).ok().out
    };
    assert_eq!(run(&[]), run(&["--report", "page.html"]));
    // Requested frames are in the result, and the page has every latency.
    let frames = ["--set", "run.xray=10"];
    let with_page = run(&[&frames[..], &["--report", "frames.html"]].concat());
    assert!(run(&frames) == with_page && with_page.contains("\"xray\""));
    for page in ["page.html", "frames.html"] {
        let page = folder.read(page);
        assert!(page.contains("Latency distribution") && !page.contains("From the percentiles"), "{page}");
    }
}
