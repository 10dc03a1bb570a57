//! Seven planted durability bugs that `strobe crash` finds, and seven correct twins that pass.

use std::path::Path;

use serde_json::Value;

use super::crash::{crash, found, verdicts};
use super::{has, kernel, text};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/planted.py");

/// With the options that expose them on ext4.
const KINDS: [(&str, &[&str]); 7] = [
    ("append", &["--places=lines"]),
    ("rename-file", &[]),
    ("rename-folder", &[]),
    ("new-file", &["--strict-names"]),
    ("wrong-descriptor", &["--places=lines"]),
    ("in-place", &[]),
    ("log-first", &[]),
];

fn planted(kernel: &Path, folder: &Path, kind: &str, options: &[&str], how: &str) -> std::process::Output {
    let check = format!("python3 {SCRIPT} {kind} check");
    let common = ["--cuts=10", "--keep=none", "--json=-", "--check", &check];
    crash(kernel, folder, &[&common, options, &["--", "python3", SCRIPT, kind, how]].concat())
}

#[test]
fn planted_bugs_are_found_and_their_correct_twins_pass() {
    let Some(kernel) = kernel() else { return };
    if !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut faults = Vec::new();
    for (kind, options) in KINDS {
        let bad = planted(&kernel, folder.path(), kind, options, "bad");
        if bad.status.code() != Some(1) {
            faults.push(format!("{kind}, bad: not found: {}{}", text(&bad.stdout), text(&bad.stderr)));
        }
        // The twin passes in strict mode, too.
        let options = [options, &["--strict-names"]].concat();
        let options = if kind == "new-file" { &options[1..] } else { &options[..] };
        let good = planted(&kernel, folder.path(), kind, options, "good");
        if good.status.code() != Some(0) {
            faults.push(format!("{kind}, good: {}{}", text(&good.stdout), text(&good.stderr)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// ext4 commits the name of a new file with its fsync, which POSIX does not guarantee.
#[test]
fn strict_names_show_what_a_file_system_hides() {
    let Some(kernel) = kernel() else { return };
    if !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let run = |options: &[&str]| planted(&kernel, folder.path(), "new-file", options, "bad");
    let hidden = run(&[]);
    assert_eq!(hidden.status.code(), Some(0), "{}{}", text(&hidden.stdout), text(&hidden.stderr));
    let is_told = found(&hidden).iter().any(|found| found["unsynced_names"].as_u64() > Some(0));
    assert!(is_told, "{}", text(&hidden.stdout));
    let strict = run(&["--strict-names", "--places=lines"]);
    assert!(verdicts(&strict, "lost") > 0, "{}{}", text(&strict.stdout), text(&strict.stderr));
    let lost = found(&strict).into_iter().find(|found| found["verdict"] == "lost").expect("one");
    let taken = lost["undone"].as_array().expect("names").iter().any(|undo| undo["remove"] == "/entry-1");
    assert!(taken, "{lost}");
    assert_eq!(lost["last_call"]["process"], "python3", "{lost}");
}

#[test]
fn the_earliest_cut_is_found_by_bisection() {
    let Some(kernel) = kernel() else { return };
    if !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let run = |workers| planted(&kernel, folder.path(), "rename-file", &["--until-first", workers], "bad");
    let output = run("--workers=2");
    let all = found(&output);
    let is_fine = |found: &&Value| found["verdict"] == "fine";
    let wrong = all.iter().find(|found| !is_fine(found)).expect("one that left something wrong");
    let before = wrong["operation"].as_u64().expect("a number") - 1;
    let fine = all.iter().find(|found| found["operation"] == before);
    assert!(fine.as_ref().is_some_and(is_fine), "{}", text(&output.stdout));
    assert_eq!(text(&run("--workers=1").stdout), text(&output.stdout), "whatever the workers");
}
