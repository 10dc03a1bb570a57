//! Data that databases and file systems keep or lose under `strobe crash`.

use std::fs;
use std::path::Path;
use std::process::Command;

use strobe_linux::kernel;
use strobe_testing::{Need, found};

use super::crash::{crash, found as cuts, verdicts};
use super::{has, kernel as installed, strobe, text};

const APPEND: &str = "for n in $(seq 20); do echo line $n >> log; sync log; echo $n; sleep 1; done";
const THERE: &str = "last=$(tail -n1 $STROBE_ACKNOWLEDGED); test -z \"$last\" || grep -qx \"line $last\" log || \
                     { echo line $last is not there; exit 1; }";

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

/// F2FS rolls forward data synced since its last checkpoint. A second power cut during that can lose a synced
/// line.
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

/// Unsynced data is still in the drive's cache when the program ends: no flash operation follows.
#[test]
fn a_program_that_never_syncs_has_lost_all_at_its_end() {
    let Some(kernel) = installed() else { return };
    if !has("mkfs.vfat") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let check = "test ! -s $STROBE_ACKNOWLEDGED || test -s x";
    let run = |more: &[&str], script: &str| {
        let common = ["--fs", "vfat", "--check", check];
        crash(&kernel, folder.path(), &[&common[..], more, &["--", "sh", "-c", script]].concat())
    };
    let never = "echo a > x; echo saved; sleep 2";
    for places in ["spread", "lines"] {
        let output = run(&["--cuts=3", "--json=-", "--places", places], never);
        assert_eq!(output.status.code(), Some(1), "{places}: {}", text(&output.stderr));
        let last = cuts(&output).pop().expect("a cut");
        assert_eq!((&last["verdict"], &last["last_line"]), (&"lost".into(), &"saved".into()), "{places}");
        assert!(cuts(&output).len() <= 3);
    }
    // The printed command repeats the cut, and the drive is kept.
    let told = text(&run(&["--cuts=1"], never).stdout);
    assert!(
        told.contains("no command: the program had ended") && told.contains("Kept from operation"),
        "{told}"
    );
    let operation = cuts(&run(&["--cuts=1", "--json=-"], never))[0]["operation"].to_string();
    let again = text(&run(&["--at", &operation, "--image", "end.img"], never).stdout);
    assert!(again.contains("1 lost"), "{again}");
    let image = folder.path().join("end.img");
    let there = strobe(
        &kernel,
        &[
            "-q",
            "--fs",
            "vfat",
            "--image",
            image.to_str().expect("text"),
            "--",
            "sh",
            "-c",
            "ls x || echo gone",
        ],
    );
    assert!(text(&there.stdout).ends_with("gone\n"), "{}{}", text(&there.stdout), text(&there.stderr));
    // With a sync, a cut at the end loses no data.
    let synced =
        run(&["--cuts=3", "--places=lines", "--json=-"], "echo a > x; sync x .; echo saved; sleep 2");
    assert_eq!(synced.status.code(), Some(0), "{}{}", text(&synced.stdout), text(&synced.stderr));
}

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
    let lying = crash(&kernel, folder.path(), &[&common[..], &["--lying-flushes"]].concat());
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
