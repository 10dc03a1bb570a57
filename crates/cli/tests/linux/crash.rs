//! `strobe crash`: finds programs that forget to sync by cutting their power.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::answers::typed;
use super::{DRIVE, has, kernel, text};

pub(crate) fn crash(kernel: &Path, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.current_dir(folder).arg("crash").arg("--kernel").arg(kernel).args(DRIVE).args(arguments);
    command.output().expect("it starts")
}

pub(crate) fn found(output: &Output) -> Vec<Value> {
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    result["found"].as_array().expect("cuts").clone()
}

pub(crate) fn verdicts(output: &Output, verdict: &str) -> usize {
    found(output).iter().filter(|found| found["verdict"] == verdict).count()
}

pub(crate) fn settings(folder: &Path, syncs: bool) {
    let sync = if syncs { "sync config.new;" } else { "" };
    let save = format!(
        "#!/bin/sh\nfor n in $(seq 20); do echo setting $n > config.new; {sync} mv config.new config; echo saved $n; \
         sleep 1; done\n"
    );
    let check = "#!/bin/sh\ntest -s config || { echo nothing there; exit 1; }\necho all there\n";
    for (name, script) in [("save.sh", save.as_str()), ("check.sh", check)] {
        fs::write(folder.join(name), script).expect("written");
        let made = Command::new("chmod").arg("+x").arg(folder.join(name)).status().expect("chmod");
        assert!(made.success());
    }
}

fn place_is_said(folder: &Path, output: &Output) {
    let lost: Vec<_> = found(output).into_iter().filter(|found| found["verdict"] == "lost").collect();
    for cut in &lost {
        assert_eq!(
            (&cut["last_call"]["call"], &cut["last_call"]["process"]),
            (&"rename".into(), &"mv".into())
        );
        assert_eq!(
            (&cut["last_call"]["path"], &cut["last_call"]["to"]),
            (&"/config.new".into(), &"/config".into())
        );
    }
    let under_way: Vec<_> = lost.iter().filter_map(|cut| cut["under_way"].as_array()).flatten().collect();
    assert!(under_way.iter().any(|of| of["origins"][0]["process"] == "jbd2/vda-8"), "{under_way:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let groups = report["groups"].as_array().expect("groups");
    assert_eq!((groups.len(), &groups[0]["reason"]), (1, &"nothing there".into()));
    assert_eq!(groups[0]["operations"].as_array().map(Vec::len), Some(lost.len()));
    let path = |key: &str| folder.join(report["kept"][key].as_str().expect("a path"));
    let log = fs::read_to_string(path("kernel_log")).expect("the log of the kernel");
    assert!(log.contains("EXT4-fs (vda): recovery complete"), "{log}");
    assert!(fs::metadata(path("image")).expect("an image").len() > 1 << 20);
}

#[test]
fn a_cut_within_a_sync_names_its_file_and_process() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let append = "for n in $(seq 6); do echo line $n >> log; sync log; echo $n; sleep 1; done";
    let output = crash(
        &kernel,
        folder.path(),
        &["--cuts", "30", "--json", "-", "--check", "test -e log || exit 0", "--", "sh", "-c", append],
    );
    let cuts = found(&output);
    let waits =
        |cut: &&Value| cut["syncs"].as_array().into_iter().flatten().any(|sync| sync["path"] == "/log");
    let within =
        cuts.iter().find(waits).unwrap_or_else(|| panic!("{}{}", text(&output.stdout), text(&output.stderr)));
    assert_eq!(
        (&within["syncs"][0]["call"], &within["syncs"][0]["process"]),
        (&"fsync".into(), &"sync".into())
    );
    let is_log =
        |origin: &Value| origin["kind"] == "file" && origin["path"] == "/log" && origin["inode"] != 0;
    assert!(
        within["unflushed"].as_array().is_some_and(|all| all.iter().any(|write| is_log(&write["origin"]))),
        "{within}"
    );
    let options =
        ["--write-through", "--cuts", "30", "--json", "-", "--check", "true", "--", "sh", "-c", append];
    let through = crash(&kernel, folder.path(), &options);
    let cuts = found(&through);
    let mut under_way = cuts.iter().filter_map(|cut| cut["under_way"].as_array()).flatten();
    assert!(under_way.any(|of| of["command"] == "write" && is_log(&of["origins"][0])), "{cuts:?}");
    let fine = crash(
        &kernel,
        folder.path(),
        &[
            "--places",
            "lines",
            "--json",
            "-",
            "--fs",
            "ext4,f2fs",
            "--check",
            "true",
            "--",
            "sh",
            "-c",
            append,
        ],
    );
    let all: Value = serde_json::from_slice(&fine.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&fine.stderr)));
    for (report, name) in all["reports"].as_array().expect("reports").iter().zip(["ext4", "f2fs"]) {
        let cuts = report["found"].as_array().expect("cuts");
        assert_eq!((&report["file_system"], cuts.len()), (&name.into(), 6), "one behind each line: {report}");
        let lines: Vec<_> = cuts.iter().map(|cut| cut["acknowledged"].as_u64()).collect();
        assert_eq!(lines, (1..=6).map(Some).collect::<Vec<_>>());
    }
}

const SETTINGS: [&str; 8] = [
    "--mount-opts",
    "noauto_da_alloc",
    "--before",
    "echo setting 0 > config; sync",
    "--check",
    "./check.sh",
    "--",
    "./save.sh",
];

#[test]
fn a_program_that_renames_without_a_sync_is_found_out_and_one_that_syncs_is_not() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    settings(folder.path(), false);
    let run = |more: &[&str]| crash(&kernel, folder.path(), &[more, &SETTINGS].concat());
    let output = run(&["--cuts", "12", "--json", "-", "--report", "cuts.html"]);
    let page = fs::read_to_string(folder.path().join("cuts.html")).expect("a page");
    assert_eq!(page.matches("<circle class=\"dot").count(), 12, "every cut is on the time line");
    assert!(page.contains("<pre>nothing there") && page.contains("./save.sh · on ext4"), "{page}");
    assert!(page.contains("last call: rename /config.new to /config by mv"), "{page}");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let lost: Vec<_> = found(&output).into_iter().filter(|found| found["verdict"] == "lost").collect();
    assert!(lost.len() > 3, "{lost:?}");
    assert_eq!(lost[0]["reason"], "nothing there");
    place_is_said(folder.path(), &output);
    // Equal runs give identical bytes, with any number of workers.
    let again = run(&["--cuts", "12", "--json", "-", "--workers", "1"]);
    assert_eq!(text(&again.stdout), text(&output.stdout));

    // The printed command opens the kept drive.
    let told = run(&["--cuts", "12"]);
    let told = text(&told.stdout);
    let opens = told.lines().find(|line| line.starts_with("  strobe linux ")).expect("a command");
    for part in [" --kernel ", " --image strobe-crash/ext4-", " --drive ", " --fs ext4"] {
        assert!(opens.contains(part), "{told}");
    }
    // The first cut again, alone, with its drive kept.
    let at = format!("--at={}", lost[0]["operation"]);
    let alone = run(&[&at, "--image", "cut.img"]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(text(&alone.stdout).contains("nothing there"), "{}", text(&alone.stdout));
    let image = folder.path().join("cut.img");
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.arg("linux").arg("--kernel").arg(&kernel).args(DRIVE).arg("--image").arg(&image);
    let there = command.args(["-q", "--", "stat", "-c", "%s", "config"]).output().expect("it starts");
    assert_eq!(text(&there.stdout), "0\n", "{}", text(&there.stderr));
    let refused = run(&[&at, "--image", "cut.img"]);
    assert!(text(&refused.stderr).contains("the file exists"), "{}", text(&refused.stderr));

    settings(folder.path(), true);
    let output = run(&["--cuts", "12", "--json", "-"]);
    assert_eq!((output.status.code(), verdicts(&output, "fine")), (Some(0), 12), "{}", text(&output.stdout));
    // A single cut shows the output of its check. Without a bar, a line announces the work.
    let alone = run(&[&format!("--at={}", found(&output)[0]["operation"])]);
    assert!(text(&alone.stdout).contains("\nfine\n    all there\n"), "{}", text(&alone.stdout));
    assert!(
        text(&alone.stderr)
            .starts_with("strobe: ./save.sh runs on ext4 once without a cut, then with a power cut at")
    );
    // A lying drive loses data, unless all of it fits its cache.
    let lies = ["--set", "drive.controller.write_buffer_bytes=131072", "--lying-flushes"];
    let output = run(&[&lies[..], &["--cuts", "12", "--json", "-"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// By `synchronous`: OFF guarantees nothing, FULL a sound database, EXTRA also the last transaction.
#[test]
fn sqlite_keeps_what_its_pragma_synchronous_promises() {
    let Some(kernel) = kernel() else { return };
    if !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The rollback journal is a file that disappears at the commit; only EXTRA syncs the folder.
    let bank = r#"
import sqlite3, sys, time
db = sqlite3.connect("bank.db", isolation_level=None)
db.execute("pragma synchronous = " + sys.argv[1])
db.execute("create table if not exists entries (number integer primary key, text)")
for n in range(1, 61):
    db.execute("begin")
    for k in range(20):
        db.execute("insert into entries values (?, ?)", (n * 100 + k, "entry %d " % n * 20))
    db.execute("delete from entries where number / 100 = ?", (n // 2,))
    db.execute("commit")
    print(n, flush=True)
    time.sleep(0.25)
"#;
    let check = r#"
import os, sqlite3, sys
lines = open(os.environ["STROBE_ACKNOWLEDGED"]).read().split()
last = int(lines[-1]) if lines else 0
try:
    db = sqlite3.connect("bank.db")
    said = db.execute("pragma integrity_check").fetchone()[0]
    top = db.execute("select coalesce(max(number), 0) / 100 from entries").fetchone()[0]
except sqlite3.DatabaseError as error:
    print(error)
    sys.exit(0 if last == 0 else 1 if "no such table" in str(error) else 2)
if said != "ok":
    print(said)
    sys.exit(2)
if top < last:
    print("%d of %d transactions" % (top, last))
    sys.exit(1)
"#;
    fs::write(folder.path().join("bank.py"), bank).expect("written");
    fs::write(folder.path().join("check.py"), check).expect("written");
    let run = |mode: &str| {
        let check = format!("python3 {}", folder.path().join("check.py").display());
        let arguments = [
            "--places=random",
            "--cuts=10",
            "--json=-",
            "--check",
            &check,
            "--",
            "python3",
            "./bank.py",
            mode,
        ];
        crash(&kernel, folder.path(), &arguments)
    };
    let off = run("off");
    assert!(verdicts(&off, "corrupt") > 0, "{}", text(&off.stdout));
    let full = run("full");
    assert_eq!(verdicts(&full, "corrupt"), 0, "{}", text(&full.stdout));
    assert!(verdicts(&full, "lost") > 0, "the last transaction, at times: {}", text(&full.stdout));
    let extra = run("extra");
    assert_eq!((extra.status.code(), verdicts(&extra, "fine")), (Some(0), 10), "{}", text(&extra.stdout));
}

#[test]
fn what_fails_without_a_cut_is_said_before_any_cut() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let says = |arguments: &[&str], wanted: &str| {
        let output = crash(&kernel, folder.path(), arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(wanted), "{arguments:?}: {said}");
        assert_eq!(text(&output.stdout), "", "nothing was cut");
    };
    says(&["--check", "echo it is not there; exit 1", "--", "true"], "it is not there");
    says(&["--", "sh", "-c", "echo oh; exit 3"], "the program exited with 3 without a power cut:\noh");
    let absent = "if ./finds-damage.sh; then exit 1; fi";
    says(&["--check", absent, "--", "touch", "a"], "./finds-damage.sh: not found\": name a program");
    says(&["--check-limit", "5", "--check", "sleep 100", "--", "touch", "a"], "raise --check-limit");
    let differs = ["--", "sh", "-c", "cat /proc/sys/kernel/random/uuid > a; sync; cat /proc/uptime"];
    let output = crash(&kernel, folder.path(), &[&["--cuts", "2"], &differs[..]].concat());
    assert_eq!(
        output.status.code(),
        Some(0),
        "random numbers are the same every time: {}",
        text(&output.stderr)
    );
    says(&["--places", "lines", "--", "sh", "-c", "echo > a; sync"], "after a line that the program prints");
    says(&["--", "sh", "-c", "echo > a; sync; exec sleep infinity"], "it must end by itself");
    says(&["--before", "exit 3", "--", "true"], "before the program: ");
    says(&["--at", "1", "--", "sh", "-c", "echo > a; sync"], "is outside the program's range");
    says(&[], "no program given");
    says(&["--fs", "none", "--", "true"], "no file system");
    says(&["--fs", "ext4,f2fs", "--at", "7", "--", "true"], "need one file system");
    says(&["--cuts", "3", "--at", "7", "--", "true"], "cannot be used with");
}

/// A database with an absolute path is outside the drive, in an overlay that a cut removes.
#[test]
fn files_beside_the_drive_are_told() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let db = elsewhere.path().join("db");
    let script = format!("echo a > a; sync; echo b > {}; echo c > /run/c", db.display());
    let options = ["--cuts", "1", "--keep", "none", "--json", "-", "--", "sh", "-c"];
    let output = crash(&kernel, folder.path(), &[&options[..], &[&script]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["outside"], serde_json::json!({ "files": 1, "paths": [db] }));
    assert!(!db.exists(), "the host's files stay as they are");
    let output = crash(&kernel, folder.path(), &["--cuts", "1", "--keep", "none", "--", "sh", "-c", &script]);
    assert!(text(&output.stdout).contains("not on the drive"), "{}", text(&output.stdout));
}

#[test]
fn a_file_system_that_cannot_be_tried_leaves_the_others_findings() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let run = |check: &str| {
        let program = ["--check", check, "--", "sh", "-c", "echo a > a; echo done; sleep 6"];
        let options = ["--fs", "vfat,ext4", "--cuts", "3", "--keep", "none", "--json", "all.json"];
        let unknown = ["--mount-opts", "noauto_da_alloc"];
        let output = crash(&kernel, folder.path(), &[&options[..], &unknown, &program].concat());
        let json = fs::read(folder.path().join("all.json")).expect("written");
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json["failed"][0]["file_system"], "vfat");
        assert_eq!(json["reports"][0]["file_system"], "ext4");
        assert!(text(&output.stdout).contains("vfat") && text(&output.stdout).contains("not tried"));
        output.status.code()
    };
    let loses = "grep -q done $STROBE_ACKNOWLEDGED && test ! -s a && exit 1; true";
    assert_eq!(run(loses), Some(1), "found on ext4");
    assert_eq!(run("true"), Some(2), "all that could be tried is fine");
}

#[test]
fn findings_of_faults_are_written_though_another_file_system_fails() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = ["--", "sh", "-c", "echo a > a; sleep 6"];
    let options = ["--fs", "ext4,vfat", "--mount-opts", "noauto_da_alloc", "--faults", "2", "--json", "-"];
    let output = crash(&kernel, folder.path(), &[&options[..], &program].concat());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["reports"][0]["file_system"], "ext4", "{json}");
    assert_eq!(json["failed"][0]["file_system"], "vfat", "{json}");
}

#[test]
fn findings_are_printed_though_the_first_cut_cannot_be_kept() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    settings(folder.path(), false);
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.current_dir(folder.path()).arg("crash").arg("--kernel").arg(&kernel).args(DRIVE);
    command.args(["--mount-opts", "noauto_da_alloc", "--cuts", "6", "--keep", "kept", "--json", "-"]);
    command.args(["--check", "./check.sh", "--", "./save.sh"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    errors.read_line(&mut said).expect("it speaks");
    assert!(said.contains("once without a cut"), "{said}");
    fs::write(folder.path().join("kept"), "a file").expect("written");
    errors.read_to_string(&mut said).expect("it speaks");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the first cut was not kept: --keep kept: "), "{said}");
    assert!(verdicts(&output, "lost") > 0, "{}", text(&output.stdout));
}

#[test]
fn a_server_that_still_runs_and_a_setup_that_fails_are_named_with_what_they_said() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let says = |arguments: &[&str], wanted: &[&str]| {
        let output = crash(&kernel, folder.path(), arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && wanted.iter().all(|text| said.contains(text)), "{said}");
    };
    let server = ["--", "sh", "-c", "echo a > a; sync; sleep 1000 &"];
    says(&server, &["sleep still runs: stop it at the end of the program"]);
    fs::write(folder.path().join("before.sh"), "#!/bin/sh\necho no room >&2\nexit 7\n").expect("written");
    let made = Command::new("chmod").arg("+x").arg(folder.path().join("before.sh")).status().expect("chmod");
    assert!(made.success());
    says(&["--before", "./before.sh", "--", "touch", "a"], &["before.sh: exit code 7", "no room"]);
}

#[test]
fn power_may_fail_again_while_a_journal_is_replayed() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    settings(folder.path(), true);
    let output =
        crash(&kernel, folder.path(), &[&["--cuts", "10", "--twice", "--json", "-"], &SETTINGS[..]].concat());
    assert_eq!((output.status.code(), verdicts(&output, "fine")), (Some(0), 10), "{}", text(&output.stdout));
    let twice = found(&output).iter().filter(|found| found["was_cut_again"] == true).count();
    assert!(twice > 0, "{}", text(&output.stdout));
}

fn keeps_lines_that_were_synced(file_system: &str) -> Option<Output> {
    let kernel = kernel()?;
    if !has(&format!("mkfs.{file_system}")) {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let append = "for n in $(seq 20); do echo line $n >> log; sync log; echo $n; sleep 1; done";
    let check = "last=$(tail -n1 $STROBE_ACKNOWLEDGED); test -z \"$last\" || grep -qx \"line $last\" log";
    let arguments =
        ["--fs", file_system, "--cuts", "12", "--json", "-", "--check", check, "--", "sh", "-c", append];
    let output = crash(&kernel, folder.path(), &arguments);
    assert_eq!(
        (output.status.code(), verdicts(&output, "fine")),
        (Some(0), 12),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    let again = crash(&kernel, folder.path(), &arguments);
    assert_eq!(text(&again.stdout), text(&output.stdout));
    Some(output)
}

#[test]
fn exfat_keeps_lines_that_were_synced() {
    keeps_lines_that_were_synced("exfat");
}

/// fsck.fat at least clears the dirty bit, which it finds after every cut.
#[test]
fn vfat_keeps_lines_that_were_synced_and_its_repairs_are_told() {
    let Some(output) = keeps_lines_that_were_synced("vfat") else { return };
    for cut in found(&output) {
        let said = cut["repair"].as_str().unwrap_or_default();
        assert!(said.contains("removing dirty bit"), "{cut}");
    }
}

#[test]
fn the_page_about_it_finds_what_it_says() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (code, said) = typed("crash.md", folder.path(), &kernel);
    assert_eq!(code, Some(1), "{said}");
    let first = said.lines().next().unwrap_or_default();
    assert!(first.starts_with("20 power cuts among ") && !first.contains(" 0 lost"), "{said}");
    assert!(said.contains("config is empty or") && said.contains("strobe crash --at="), "{said}");
}
