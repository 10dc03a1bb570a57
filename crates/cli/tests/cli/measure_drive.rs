//! `scripts/measure-drive.py` with a fake fio: it protects drives in use, resumes, and writes files for
//! `strobe twin fit`.

use std::process::Command;

use crate::Folder;

/// Answers like fio 3.33 and logs its arguments in `asked`; fails while a file `fail` exists.
const FIO: &str = r#"#!/usr/bin/env python3
import json, os, sys
if sys.argv[1:] == ["--version"]:
    print(open("version").read() if os.path.exists("version") else "fio-3.33")
    sys.exit()
open("asked", "a").write(" ".join(sys.argv[1:]) + "\n")
print("fio: a note", file=sys.stderr)
if os.path.exists("fail"):
    print("fio: no such engine")
    sys.exit(1)
jobs, values = [], dict(a[2:].split("=", 1) for a in sys.argv[1:])
for name in [a[7:] for a in sys.argv if a.startswith("--name=")]:
    ns = {"50.000000": 64256, "99.000000": 236544, "99.900000": 395264, "99.990000": 528384}
    side = {"iops": 5000.0, "clat_ns": {"min": 9000, "percentile": ns if name == "probe" else {}}}
    jobs += [{"jobname": name, "error": 0, "read": side, "write": side}] * (int(values["numjobs"]) if name == "load" else 1)
print("fio: another\n" + json.dumps({"fio version": "fio-3.33", "jobs": jobs}))
"#;

fn folder() -> Option<Folder> {
    strobe_testing::program("python3", "python3")?;
    strobe_testing::program("blkid", "util-linux")?;
    let folder = Folder::new();
    folder.write("drive", vec![7u8; 1 << 20]).write("fio", FIO);
    let chmod = Command::new("chmod").arg("+x").arg(folder.path().join("fio")).status();
    assert!(chmod.is_ok_and(|status| status.success()));
    Some(folder)
}

fn run(folder: &Folder, more: &[&str]) -> (Option<i32>, String) {
    let script = crate::root().join("scripts/measure-drive.py");
    let mut command = Command::new("python3");
    command.current_dir(folder.path()).arg(script).args(["drive", "--out", "my.csv", "--fio", "./fio"]);
    let rates = ["--rates", "5000,10000", "--no-closed-loop"];
    let done = command.args(rates).args(more).output().expect("python3");
    (
        done.status.code(),
        [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat(),
    )
}

fn asked(folder: &Folder) -> Vec<String> {
    let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap_or_default();
    asked.lines().map(str::to_owned).collect()
}

#[test]
fn a_drive_is_measured_when_it_was_named_twice() {
    let Some(folder) = folder() else { return };
    // Without confirmation it prints its plan and does nothing.
    let (code, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}");
    for part in
        ["EVERYTHING ON drive WILL BE LOST", "10 minutes", "4 times", "0.001 GB", "writes at most 0.02 TB"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (code, _) = run(&folder, &["--yes", "another"]);
    assert_eq!(code, Some(2));
    assert!(asked(&folder).is_empty() && !folder.path().join("my.csv").exists());
    let (code, said) = run(&folder, &["--yes", "drive"]);
    assert_eq!(code, Some(0), "{said}");
    let all = asked(&folder);
    // One sequential pass, three random ones, and two rates.
    let kinds = [
        "--name=fill",
        "--name=overwrite",
        "--name=overwrite",
        "--name=overwrite",
        "--name=probe",
        "--name=probe",
    ];
    assert!(all.len() == 6 && all.iter().zip(kinds).all(|(line, kind)| line.contains(kind)), "{all:?}");
    for part in
        ["--rate_process=poisson", "--name=load", "--numjobs=6", "--rate_iops=833", "--rate_iops=5000,5000"]
    {
        assert!(all[5].contains(part), "{part}: {}", all[5]);
    }
    // No two passes write the same addresses in the same order.
    let seeds: std::collections::BTreeSet<_> = all[1..]
        .iter()
        .map(|line| line.split("--randseed=").nth(1).and_then(|seed| seed.split(' ').next()))
        .collect();
    assert_eq!(seeds.len(), 5, "{seeds:?}");
    let csv = folder.read("my.csv");
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(
        csv.contains("1048576,7,64,5000,5000,10000,64.3,236.5,395.3,528.4,64.3,236.5,395.3,528.4\n"),
        "{csv}"
    );
    // A repetition has no work left. Fewer reads per second are another measurement.
    let (code, said) = run(&folder, &["--yes", "drive"]);
    assert_eq!((code, asked(&folder).len()), (Some(0), 6), "{said}");
    let (code, said) = run(&folder, &["--yes", "drive", "--rates", "6000", "--reads", "4000"]);
    assert_eq!((code, asked(&folder).len()), (Some(0), 7), "{said}");
    // Full speed: one row without rates.
    for _ in 0..2 {
        let (code, said) = run(&folder, &["--yes", "drive", "--closed-loop"]);
        assert_eq!((code, asked(&folder).len()), (Some(0), 8), "{said}");
    }
    let last = &asked(&folder)[7];
    assert!(last.contains("--name=load") && last.contains("--numjobs=7") && !last.contains("rate"), "{last}");
    assert!(folder.read("my.csv").ends_with("\n1048576,7,64,,,70000,,,,,,,,\n"), "{}", folder.read("my.csv"));
    let read = folder.strobe(&["twin", "fit", "my.csv", "--out", "my.toml", "--tiny"]);
    read.refused(&["3 rows", "a fit needs 4"]);
}

#[test]
fn a_measurement_that_failed_goes_on() {
    let Some(folder) = folder() else { return };
    folder.write("fail", "");
    let (code, said) = run(&folder, &["--yes", "drive"]);
    assert!(code == Some(1) && said.contains("fio failed with exit code 1: ./fio"), "{said}");
    std::fs::remove_file(folder.path().join("fail")).expect("there");
    // Resumes after the second of four passes, and after one rate.
    let (code, said) = run(&folder, &["--yes", "drive", "--rates", "5000"]);
    assert_eq!((code, asked(&folder).len()), (Some(0), 1 + 5), "{said}");
    let csv = folder.read("my.csv");
    let (code, said) = run(&folder, &["--yes", "drive"]);
    assert_eq!((code, asked(&folder).len()), (Some(0), 6 + 1), "{said}");
    assert!(folder.read("my.csv").starts_with(&csv));
    let heading: String = csv
        .replace("\"passes\": 4", "\"passes\": 2")
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    folder.write("my.csv", heading);
    let (code, said) = run(&folder, &["--yes", "drive"]);
    assert!(code == Some(0) && !said.contains("in order ...") && said.contains("random, 2 of 3"), "{said}");
    assert_eq!(asked(&folder).len(), 7 + 2 + 2);
}

#[test]
fn what_is_not_to_be_measured_is_not_touched() {
    let Some(folder) = folder() else { return };
    let refused = |more: &[&str], part: &str| {
        let (code, said) = run(&folder, &[&["--yes", "drive"], more].concat());
        assert!(code == Some(2) && said.contains(part) && !said.contains("Traceback"), "{part}: {said}");
        assert!(asked(&folder).is_empty(), "{:?}", asked(&folder));
    };
    let mut drive = vec![7u8; 1 << 20];
    refused(&["--rates", "5000,x"], "numbers with commas");
    refused(&["--rates", "10000,5000"], "--rates must ascend");
    refused(&["--reads", "10"], "--reads must be 100 or more");
    refused(&["--fio", "./none"], "./none: No such file or directory; install fio 3");
    refused(&["--out", "drive"], "--out drive is the measured target");
    refused(&["--out", "no/where.csv"], "there is no such folder");
    folder.write("version", "fio-2.16");
    refused(&[], "says \"fio-2.16\": it takes fio 3");
    std::fs::remove_file(folder.path().join("version")).expect("there");
    for mine in ["a diary", "capacity_bytes,waf\n4096,1\n", "# measure-drive.py: {}\n", "\u{0}"] {
        folder.write("mine.csv", mine);
        refused(&["--out", "mine.csv"], "is no file of this script, or was changed");
        assert_eq!(folder.read("mine.csv"), mine);
    }
    let held = std::fs::File::open(folder.path().join("drive")).expect("there");
    held.lock().expect("locked");
    refused(&[], "drive is in use: mounted, part of something, or being measured; nothing was done");
    drop(held);
    drive[..8].copy_from_slice(b"LUKS\xba\xbe\0\x01");
    folder.write("drive", &drive);
    refused(&[], "drive is not empty: it has crypto_LUKS on it");
    folder.write("drive", [7u8; 4096]);
    refused(&[], "there is nothing to measure");
    std::fs::remove_file(folder.path().join("drive")).expect("there");
    refused(&[], "drive: No such file or directory");
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("drive")).expect("linked");
    refused(&[], "is neither a block device nor a file");
}

#[test]
fn tests_of_the_script_itself_pass() {
    passes("measure_drive_test.py", "Ran 6 tests");
}

#[test]
fn tests_of_the_model_of_write_pauses_pass() {
    passes("write_pauses_test.py", "Ran 7 tests");
}

#[test]
fn tests_of_the_scripts_for_suites_pass() {
    passes("suites_test.py", "Ran 6 tests");
}

fn passes(script: &str, ran: &str) {
    if strobe_testing::program("python3", "python3").is_none() {
        return;
    }
    let script = crate::root().join("scripts").join(script);
    let done = Command::new("python3").arg(script).output().expect("python3");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains(ran), "{said}");
}
