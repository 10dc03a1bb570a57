use std::process::Stdio;

use crate::{Folder, finish};

#[test]
fn options_of_other_commands_are_taken_or_answered_with_those_of_this_one() {
    let folder = Folder::new();
    folder.strobe(&["run", "tiny.toml", "--out", "x.json"]).refused(&[
        "--out x.json",
        "--json FILE",
        "strobe report",
    ]);
    folder.strobe(&["run", "tiny.toml", "--seed", "-1"]).refused(&[
        "-1",
        "--seed",
        "a whole number from 0 to",
    ]);
    folder.strobe(&["files", "camera", "--seed", "-1"]).refused(&["-1", "--seed"]);
    // Another drive; keys of the file take precedence.
    let args =
        ["run", "tiny.toml", "--drive", "tlc-nvme-1t", "--set", "run.measure=20", "--set", "run.warmup=0"];
    let result = folder.strobe(&[&args[..], &["--json", "-"]].concat()).ok().json();
    assert_eq!(result["config"]["drive"]["preset"], "tlc-nvme-1t");
    assert_eq!(result["config"]["drive"]["nand"]["blocks_per_plane"], 32);
    folder
        .strobe(&["run", "tiny.toml", "--drive", "tlc-nvme-1"])
        .refused(&["--drive tlc-nvme-1: ", "did you mean tlc-nvme-1t?"]);
    let quiet = folder.strobe(&["files", "camera", "--set", "photos=1", "-q"]);
    assert!(!quiet.err.contains("unexpected"), "{quiet:?}");
    assert_eq!(quiet.out, "");
}

#[test]
fn numbers_shares_and_keys_are_answered_with_the_likely_cure() {
    let folder = Folder::new();
    let set = |set: &str| folder.strobe(&["run", "tiny.toml", "--set", set]);
    set("drive.ftl.over_provisioning=28")
        .refused(&["from 0 to 10; a share, not percent: try 0.28. Over-provisioning: spare share"]);
    let seven = set("drive.ftl.over_provisioning=7").ok().out;
    let seven = seven.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(seven.contains("= 7 means 700 % of spare flash; did you mean 0.07?"), "{seven}");
    set("victim=greedy")
        .refused(&["--set victim=greedy: unknown key victim; did you mean drive.ftl.gc.victim?"]);
    set("run.timing=maybe").refused(&["--set run.timing=maybe: must be true or false"]);
    // A whole number may be written as a float.
    assert_eq!(folder.tiny(&["run.measure=1e3"]).ok().json()["config"]["run"]["measure"], 1000);
    set("run.measure=1.5").refused(&["a text in quotes or a whole number"]);
    folder.write("large.toml", "seed = 99999999999999999999\n");
    folder.strobe(&["run", "large.toml"]).refused(&["too large: at most 9223372036854775807", "line 1"]);
    folder.write("wide.toml", [0xff, 0xfe, b's', 0, b'=', 0, b'1', 0]);
    folder.strobe(&["run", "wide.toml"]).refused(&["wide.toml: this is UTF-16 text; save it as UTF-8"]);
    folder.strobe(&["sweep", "wide.toml"]).refused(&["this is UTF-16 text"]);
    for args in [&["--set", "seed=x"][..], &["--set", "run.timing=3"], &["--set", "drive=3"]] {
        let ended = folder.strobe(&[&["run", "tiny.toml"], args].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(
            ended.err.lines().all(|line| line == line.trim_end()),
            "a line ends in a blank: {:?}",
            ended.err
        );
    }
}

#[test]
fn lists_need_no_plural_and_presets_no_kind() {
    let folder = Folder::new();
    let overview = folder.strobe(&["list"]).ok().out;
    for what in ["presets", "policies", "mappings", "workloads", "formats", "papers"] {
        assert!(overview.contains(&format!("strobe list {what}")), "{overview}");
    }
    for (one, all) in [("policy", "policies"), ("preset", "presets"), ("format", "formats")] {
        assert_eq!(folder.strobe(&["list", one]).ok().out, folder.strobe(&["list", all]).ok().out);
    }
    let shown = folder.strobe(&["show", "tlc-nvme-1t"]).ok().out;
    assert_eq!(shown, folder.strobe(&["show", "preset", "tlc-nvme-1t"]).ok().out);
    folder.strobe(&["show", "preset"]).refused(&["strobe show preset NAME", "strobe list presets"]);
    folder.strobe(&["show", "policy", "greedy"]).refused(&["strobe show preset NAME"]);
    folder.strobe(&["show", "tlc-nvme-1"]).refused(&["did you mean tlc-nvme-1t?"]);
}

#[test]
fn a_formula_as_the_list_prints_it_can_be_pasted_back() {
    let folder = Folder::new();
    let listed = folder.strobe(&["list", "policies"]).ok().out;
    let formula = "age · (1−u) / (1+u)²";
    assert!(listed.contains(formula), "{listed}");
    let result = folder.tiny(&[&format!("drive.ftl.gc.victim={formula}")]).ok().json();
    let typed = folder.tiny(&["drive.ftl.gc.victim=age * (1-u) / (1+u)^2"]).ok().json();
    assert_eq!(result["waf"], typed["waf"]);
}

#[test]
fn an_experiment_has_no_report_before_it_is_run() {
    let folder = Folder::new();
    let report = folder.strobe(&["report", "tiny.toml", "--out", "-"]);
    report.refused(&[
        "tiny.toml is an experiment",
        "strobe run tiny.toml --json out.json",
        "strobe report out.json",
    ]);
}

/// A file size limit simulates a full disk without root.
#[cfg(target_os = "linux")]
#[test]
fn a_state_that_cannot_be_saved_names_its_file() {
    let folder = Folder::new();
    let script = r#"trap '' XFSZ; ulimit -f 1; exec "$0" "$@""#;
    let mut command = std::process::Command::new("sh");
    command.args([
        "-c",
        script,
        env!("CARGO_BIN_EXE_strobe"),
        "run",
        "tiny.toml",
        "--save-state",
        "full.state",
    ]);
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = finish(command.spawn().expect("sh starts"));
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.says(&["--save-state full.state: "]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_kernel_is_looked_for_without_home_and_a_missing_program_is_named() {
    let folder = Folder::new();
    let mut command = folder.command(&["linux", "--kernel", "/bin/sh", "--", "./nothere.sh"]);
    command
        .env_remove("HOME")
        .env_remove("STROBE_KERNEL")
        .env_remove("STROBE_CACHE")
        .env_remove("XDG_CACHE_HOME");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Without a working kernel the search stops; the message names /bin/sh.
    assert!(said.contains("/bin/sh"), "{said}");
    let mut command = folder.command(&["linux", "doctor"]);
    command
        .env_remove("HOME")
        .env_remove("STROBE_CACHE")
        .env_remove("XDG_CACHE_HOME")
        .env_remove("STROBE_KERNEL");
    let output = command.output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(!String::from_utf8_lossy(&said).contains("strobe-cache"), "{}", String::from_utf8_lossy(&said));
}
