//! Data that databases and file systems keep or lose under `strobe crash`.

use std::fs;
use std::path::Path;
use std::process::Command;

use strobe_linux::kernel;
use strobe_testing::{Need, found};

use super::crash::{crash, found as cuts, verdicts};
use super::{has, kernel as installed, strobe, text};

/// A program that appends lines to a file, each synced before it is acknowledged, and the check that they are there.
const APPEND: &str = "for n in $(seq 20); do echo line $n >> log; sync log; echo $n; sleep 1; done";
const THERE: &str = "last=$(tail -n1 $STROBE_ACKNOWLEDGED); test -z \"$last\" || grep -qx \"line $last\" log || \
                     { echo line $last is not there; exit 1; }";

/// The program with which the tests of LevelDB write and check, compiled in `folder`.
fn level_db(folder: &Path) -> Option<String> {
    if !has("cc") {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/leveldb.c");
    let program = folder.join("leveldb");
    let mut compiler = Command::new("cc");
    let compiled =
        compiler.arg("-O1").arg("-o").arg(&program).arg(source).arg("-lleveldb").output().expect("cc");
    let has_library = fs::exists("/usr/include/leveldb/c.h").unwrap_or(false);
    assert!(compiled.status.success() || !has_library, "{}", text(&compiled.stderr));
    found(Need::Kernel, if has_library { Ok(()) } else { Err("libleveldb-dev is not installed") })?;
    Some(program.to_str().expect("UTF-8").to_owned())
}

/// Promises of LevelDB: with `sync` every acknowledged line is present; without it the database is sound.
#[test]
fn leveldb_keeps_lines_that_it_syncs_and_is_sound_without() {
    let Some(kernel) = installed() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = level_db(folder.path()) else { return };
    let check = format!("{program} check");
    let run = |mode: &str| {
        let options = ["--places=random", "--cuts=12", "--json=-", "--check", &check, "--"];
        crash(&kernel, folder.path(), &[&options[..], &[&program, mode]].concat())
    };
    let synced = run("sync");
    assert_eq!((synced.status.code(), verdicts(&synced, "fine")), (Some(0), 12), "{}", text(&synced.stdout));
    let last = cuts(&synced).into_iter().filter_map(|cut| cut["acknowledged"].as_u64()).max();
    assert!(last > Some(50), "{}", text(&synced.stdout));
    let not = run("nosync");
    assert!(verdicts(&not, "lost") > 0, "{}", text(&not.stdout));
    assert_eq!(verdicts(&not, "lost") + verdicts(&not, "fine"), 12, "{}", text(&not.stdout));
}

/// F2FS rolls forward what was synced since its last checkpoint. Power that fails while it does so can cost a synced line:
/// with one cut all are there.
#[test]
fn f2fs_may_lose_a_synced_line_when_power_fails_again_in_its_recovery() {
    let Some(kernel) = installed() else { return };
    if !has("mkfs.f2fs") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let options = [
        "--fs",
        "f2fs",
        "--mount-opts",
        "fsync_mode=strict",
        "--cuts",
        "15",
        "--json",
        "-",
        "--check",
        THERE,
    ];
    let run = |more: &[&str]| {
        let program = ["--", "sh", "-c", APPEND];
        crash(&kernel, folder.path(), &[&options[..], more, &program].concat())
    };
    let once = run(&[]);
    assert_eq!((once.status.code(), verdicts(&once, "fine")), (Some(0), 15), "{}", text(&once.stdout));
    let twice = run(&["--twice"]);
    let lost: Vec<_> = cuts(&twice).into_iter().filter(|cut| cut["verdict"] != "fine").collect();
    assert!(
        !lost.is_empty() && lost.iter().all(|cut| cut["was_cut_again"] == true),
        "{}",
        text(&twice.stdout)
    );
}

/// The default kernel has no XFS and says which one has; one with it keeps synced lines.
#[test]
fn xfs_mounts_after_a_cut_and_keeps_lines_that_were_synced() {
    let Some(path) = installed() else { return };
    if !kernel::inspect(&path).expect("a kernel").has_file_system("xfs") {
        let output = strobe(&path, &["--fs", "xfs", "--", "true"]);
        assert!(text(&output.stderr).contains("build-kernel --with xfs"), "{}", text(&output.stderr));
        return;
    }
    if !has("mkfs.xfs") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script =
        "yes | head -c 3000000 > a; sync; echo 3 > /proc/sys/vm/drop_caches; cksum a | cut -d' ' -f2";
    let output = strobe(&path, &["-q", "--fs", "xfs", "--fsck", "--", "sh", "-ec", script]);
    assert_eq!(text(&output.stdout), "3000000\n", "{}", text(&output.stderr));
    let arguments = ["--fs", "xfs", "--cuts", "8", "--json", "-", "--check", THERE, "--", "sh", "-c", APPEND];
    let output = crash(&path, folder.path(), &arguments);
    assert_eq!((output.status.code(), verdicts(&output, "fine")), (Some(0), 8), "{}", text(&output.stdout));
    assert_eq!(text(&crash(&path, folder.path(), &arguments).stdout), text(&output.stdout));
}

/// Random programs on a drive that flushes keep their promises; one that lies breaks them, and the smallest program is shown.
#[test]
fn random_programs_find_a_drive_that_lies() {
    let Some(kernel) = installed() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let common = ["--explore=2", "--first-program=3", "--json=-"];
    let honest = crash(&kernel, folder.path(), &common);
    assert_eq!(honest.status.code(), Some(0), "{}{}", text(&honest.stdout), text(&honest.stderr));
    // Little of what it has not flushed is in its cache.
    let lies = ["--lying-flushes", "--set", "drive.controller.write_buffer_bytes=131072"];
    let lying = crash(&kernel, folder.path(), &[&common[..], &lies].concat());
    assert_eq!(lying.status.code(), Some(1), "{}{}", text(&lying.stdout), text(&lying.stderr));
    let found: serde_json::Value = serde_json::from_slice(&lying.stdout).expect("JSON alone");
    let broken = found["broken"].as_array().expect("programs");
    assert!(!broken.is_empty(), "{found}");
    for one in broken {
        let script = one["script"].as_str().expect("a script");
        assert!(script.starts_with("set -e\n") && script.contains("sync"), "{script}");
        assert!(script.lines().count() <= 8, "{script}");
    }
}
