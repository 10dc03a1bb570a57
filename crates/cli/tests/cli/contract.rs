//! Commands, exit codes and output streams.

use serde_json::Value as Json;

use crate::{Folder, root};

const PRESETS: [&str; 5] = ["generic-8g", "jasmine-4g", "ez-x5-32m", "disksim-ssd", "tlc-nvme-1t"];

#[test]
fn list_knows_all_six_kinds() {
    let folder = Folder::new();
    for (what, names) in [
        ("presets", &PRESETS[..]),
        ("policies", &["greedy", "cost-benefit", "fifo", "random", "d-choices"]),
        ("mappings", &["page"]),
        ("workloads", &["uniform", "sequential", "zipf", "hotcold", "gaussian", "trace", "lfs"]),
        (
            "formats",
            &[
                "fio", "msr", "blkparse", "blktrace", "disksim", "mqsim", "ssdsim", "spc", "alibaba",
                "tencent",
            ],
        ),
        ("papers", &["capi", "Hwang"]),
    ] {
        let listed = folder.strobe(&["list", what]).ok();
        assert_eq!(listed.err, "");
        for name in names {
            assert!(listed.out.contains(name), "{what}: {name} is missing in {}", listed.out);
        }
    }
}

#[test]
fn every_preset_is_shown_as_toml_that_is_a_drive() {
    let folder = Folder::new();
    for preset in PRESETS {
        let shown = folder.strobe(&["show", "preset", preset]).ok();
        assert_eq!(shown.err, "");
        let table: toml::Table = shown.out.parse().expect("TOML");
        assert!(table.contains_key("nand"), "{preset}");
        folder.write("shown.toml", format!("[drive]\npreset = \"{preset}\"\n"));
        folder.strobe(&["check", "shown.toml"]).ok();
    }
}

#[test]
fn the_schemas_are_json_schemas() {
    let folder = Folder::new();
    for what in ["drive", "experiment", "result", "paper"] {
        let printed = folder.strobe(&["schema", what]).ok();
        assert_eq!(printed.err, "");
        let schema = printed.json();
        assert!(schema["$schema"].as_str().is_some_and(|url| url.contains("json-schema.org")), "{what}");
        assert_eq!(schema["type"], "object", "{what}");
    }
}

#[test]
fn check_prints_a_configuration_that_means_the_same() {
    let folder = Folder::new();
    let sets = ["--set", "drive.ftl.over_provisioning=0.5", "--set", "workload.kind=zipf"];
    let first = folder.strobe(&[&["check", "tiny.toml"], &sets[..]].concat()).ok();
    assert_eq!(first.err, "");
    folder.write("resolved.toml", &first.out);
    assert_eq!(folder.strobe(&["check", "resolved.toml"]).ok().out, first.out);
    let hash = |args: &[&str]| folder.strobe(args).ok().json()["config_hash"].clone();
    let direct = hash(&[&["run", "tiny.toml", "--quiet", "--json", "-"], &sets[..]].concat());
    assert_eq!(hash(&["run", "resolved.toml", "--quiet", "--json", "-"]), direct);
}

#[test]
fn wrong_arguments_exit_with_2_and_help_with_0() {
    let folder = Folder::new();
    for args in [
        &[][..],
        &["fly"],
        &["run"],
        &["run", "tiny.toml", "--nonsense"],
        &["run", "tiny.toml", "--seed", "-1"],
        &["run", "tiny.toml", "--seed", "18446744073709551615"],
        &["run", "tiny.toml", "--json"],
        &["replay", "x"],
        &["replay", "x", "--format", "msr", "--wrap", "--clip"],
        &["list", "formtas"],
        &["show", "preset"],
        &["schema", "universe"],
        &["bench", "--only", "nonsense"],
        &["paper"],
        &["paper", "capi", "--seed", "-1"],
        &["paper", "capi", "--json", "no/such/folder/x"],
        &["paper", "capi", "--out", "tiny.toml/x"],
    ] {
        let ended = folder.strobe(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert_eq!(ended.out, "", "{args:?}");
        assert!(!ended.err.is_empty(), "{args:?}");
    }
    for args in [&["--help"][..], &["--version"], &["run", "--help"], &["help", "replay"]] {
        let ended = folder.strobe(args).ok();
        assert!(!ended.out.is_empty() && ended.err.is_empty(), "{args:?}");
    }
}

#[test]
fn bench_without_a_matching_cell_names_the_cells() {
    Folder::new().strobe(&["bench", "--only", "nonsense"]).refused(&["8g-count", "8g-timed"]);
}

#[test]
fn json_on_standard_output_stands_alone() {
    let folder = Folder::new();
    for more in [&[][..], &["--quiet"]] {
        let ended = folder.strobe(&[&["run", "tiny.toml", "--json", "-"], more].concat()).ok();
        assert_eq!(ended.err, "");
        assert!(ended.json().is_object());
    }
}

#[test]
fn json_in_a_file_is_the_same_and_the_summary_goes_to_standard_output() {
    let folder = Folder::new();
    let run = ["run", "tiny.toml", "--reproducible", "--json"];
    let printed = folder.strobe(&[&run[..], &["-"]].concat()).ok();
    let summary = folder.strobe(&[&run[..], &["out.json"]].concat()).ok();
    assert_eq!(folder.read("out.json"), printed.out);
    assert!(summary.out.contains("\nWAF ") && summary.err.is_empty(), "{summary:?}");
    let quiet = folder.strobe(&[&run[..], &["out.json", "--quiet"]].concat()).ok();
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
}

#[test]
fn every_policy_and_workload_that_is_listed_runs() {
    let folder = Folder::new();
    for policy in ["greedy", "cost-benefit", "fifo", "random", "d-choices"] {
        folder.tiny(&[&format!("drive.ftl.gc.victim={policy}"), "run.check=true"]).ok();
    }
    for kind in ["uniform", "sequential", "zipf", "hotcold", "gaussian"] {
        let set = format!("workload.kind={kind}");
        let result = folder.tiny(&[&set, "workload.write_fraction=0.5", "run.check=true"]).ok().json();
        assert_eq!(result["jobs"][0]["jobname"], kind);
    }
}

#[test]
fn every_example_passes_check_and_the_first_ones_run() {
    let folder = Folder::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("examples")).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "toml") {
            folder.strobe(&["check", path.to_str().expect("UTF-8")]).ok();
            seen += 1;
        }
    }
    assert!(seen >= 2);
    let camera = root().join("examples/camera.toml");
    let result =
        folder.strobe(&["run", camera.to_str().expect("UTF-8"), "--json", "-", "--check"]).ok().json();
    assert_eq!(result["partial"], Json::Bool(false));
    assert_eq!(result["trace"]["repetitions"], 10);
    assert!(result["waf"].as_f64().is_some_and(|waf| waf > 1.0 && waf < 10.0), "{}", result["waf"]);
    // Shortened: this build is not optimised.
    let quickstart = root().join("examples/quickstart.toml");
    let less = ["--set", "run.precondition=0.1x", "--set", "run.measure=20000"];
    let args = ["run", quickstart.to_str().expect("UTF-8"), "--json", "-"];
    let result = folder.strobe(&[&args[..], &less].concat()).ok().json();
    assert_eq!((&result["partial"], &result["jobs"][0]["jobname"]), (&Json::Bool(false), &"uniform".into()));
}
