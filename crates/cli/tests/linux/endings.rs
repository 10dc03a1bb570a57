//! Ends of a guest: success with the command's exit code, and failures with a reason.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use strobe_linux::job::Job;
use strobe_linux::{LinuxError, Machine, PoweredDrive, Root};
use strobe_types::{SimTime, StopFlag};

use super::{DRIVE, kernel, strobe, text};

fn ends(arguments: &[&str]) -> Option<(Option<i32>, String, String)> {
    let kernel = kernel()?;
    let output = strobe(&kernel, &[&["-q"], arguments].concat());
    Some((output.status.code(), text(&output.stdout), text(&output.stderr)))
}

#[test]
fn the_exit_code_of_the_command_is_ours() {
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("false", 1)] {
        let Some((ended, _, errors)) = ends(&["--", "sh", "-c", script]) else { return };
        assert_eq!(ended, Some(code), "{script}: {errors}");
    }
}

#[test]
fn output_and_errors_pass_through_as_they_are() {
    let script = "printf 'a\\n\\tb\\r\\n'; printf 'no end' >&2";
    let Some((code, output, errors)) = ends(&["--", "sh", "-c", script]) else { return };
    assert_eq!((code, output.as_str(), errors.as_str()), (Some(0), "a\n\tb\r\n", "no end"));
}

#[test]
fn a_build_that_takes_our_name_meanwhile_changes_nothing() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("strobe");
    fs::copy(env!("CARGO_BIN_EXE_strobe"), &path).expect("copied");
    let file = File::open(&path).expect("opened");
    // The program has lost its name before it starts.
    fs::remove_file(&path).expect("removed");
    let program = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let version = Command::new(&program).arg("--version").output().expect("it starts").stdout;
    assert!(text(&version).starts_with("strobe "), "{}", text(&version));
    for root in ["host", "packed"] {
        let mut command = Command::new(&program);
        command.arg("linux").arg("--kernel").arg(&kernel).args(DRIVE).args(["-q", "--root", root, "--"]);
        let output = command.args(["strobe", "--version"]).output().expect("it starts");
        assert_eq!(text(&output.stdout), text(&version), "{root}: {}", text(&output.stderr));
    }
}

#[test]
fn what_a_killed_run_leaves_is_swept_by_the_next() {
    let Some(kernel) = kernel() else { return };
    let top = tempfile::tempdir().expect("a folder");
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
        command
            .env("TMPDIR", top.path())
            .arg("linux")
            .arg("--kernel")
            .arg(&kernel)
            .args(DRIVE)
            .args(arguments);
        command.spawn().expect("it starts")
    };
    let left = || {
        let entries = fs::read_dir(top.path()).expect("read").flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("strobe-linux-")).count()
    };
    let mut killed = start(&["-q", "--spin-limit", "0", "--", "sh", "-c", "while :; do :; done"]);
    while left() == 0 {
        assert_eq!(killed.try_wait().expect("a child"), None);
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut beside = start(&["-q", "--spin-limit", "0", "--", "sh", "-c", "while :; do :; done"]);
    while left() == 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().expect("killed");
    killed.wait().expect("ended");
    assert_eq!(left(), 2);
    assert!(start(&["-q", "--", "true"]).wait().expect("it ends").success());
    assert_eq!(left(), 1, "that of the one that still runs");
    beside.kill().expect("killed");
    beside.wait().expect("ended");
}

#[test]
fn scripts_bring_what_they_name() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job.sh");
    fs::write(&path, "#!/bin/sh\nset -e\nseq 1 5 > numbers\nsort -rn numbers | head -1\nwc -l < numbers\n")
        .expect("written");
    let job = path.to_str().expect("text");
    let output = strobe(&kernel, &["-q", "--", "sh", job]);
    assert_eq!(
        text(&output.stdout).split_whitespace().collect::<Vec<_>>(),
        ["5", "5"],
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_program_that_is_not_there_is_named_with_its_package() {
    let Some((code, _, errors)) = ends(&["--", "nosuchprogram"]) else { return };
    assert_eq!(code, Some(2));
    assert!(errors.contains("nosuchprogram is not installed"), "{errors}");
}

#[test]
fn a_program_that_never_looks_at_the_clock_is_reported() {
    let limits = ["--fs", "none", "--stall-limit", "2", "--spin-limit", "0"];
    let job = [&limits[..], &["--", "sh", "-c", "while :; do :; done"]].concat();
    let Some((code, _, errors)) = ends(&job) else { return };
    assert_eq!(code, Some(1));
    assert!(errors.contains("without virtual time passing"), "{errors}");
    assert!(errors.contains("--spin-limit 2") && errors.contains("--syscall-ns 1000"), "{errors}");
}

#[test]
fn a_program_that_sleeps_for_ever_is_reported() {
    let Some((code, _, errors)) = ends(&["--fs", "none", "--time-limit", "100", "--", "sleep", "infinity"])
    else {
        return;
    };
    assert_eq!(code, Some(1));
    assert!(errors.contains("not finished after 100.000 s of virtual time"), "{errors}");
}

#[test]
fn a_full_drive_is_the_file_systems_own_error() {
    let Some((code, _, errors)) = ends(&["--fsck", "--", "dd", "if=/dev/zero", "of=x", "bs=1M"]) else {
        return;
    };
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("No space left on device"), "{errors}");
}

#[test]
fn a_mount_that_fails_says_which_one() {
    let Some((code, _, errors)) = ends(&["--mount-opts", "nosuchoption", "--", "true"]) else { return };
    assert_eq!(code, Some(1));
    assert!(errors.contains("cannot mount ext4 with nosuchoption"), "{errors}");
}

#[test]
fn wrong_kernels_are_refused() {
    for (kernel, reason) in [
        ("/bin/true", "not a User-Mode Linux kernel"),
        ("/nowhere/linux", "not a User-Mode Linux kernel"),
        ("/etc/passwd", "not a User-Mode Linux kernel"),
    ] {
        let output = strobe(&PathBuf::from(kernel), &["--", "true"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
    }
}

#[test]
fn a_machine_with_a_kernel_is_ready() {
    if kernel().is_none() {
        return;
    }
    let doctor = std::process::Command::new(env!("CARGO_BIN_EXE_strobe")).args(["linux", "doctor"]).output();
    let doctor = doctor.expect("it starts");
    let said = text(&doctor.stdout);
    assert!(doctor.status.success() && said.contains("ok  a guest boots"), "{said}");
}

#[test]
fn without_a_command_the_cure_is_named() {
    let output = strobe(&PathBuf::from("/bin/true"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("-- COMMAND"), "{}", text(&output.stderr));
}

pub(crate) fn small_drive() -> PoweredDrive {
    let sets = ["drive.nand.data=bytes", "drive.ftl.durable_map=true"].map(str::to_owned);
    let table = toml::Table::from_iter([(
        "drive".to_owned(),
        strobe_lab::load_drive_table("jasmine-4g", "--drive").expect("a preset").into(),
    )]);
    let experiment =
        strobe_lab::Experiment::from_table(table, &sets, std::path::Path::new("")).expect("valid");
    PoweredDrive::new(strobe_ssd::build(&experiment.drive, true, 1).expect("a drive"), SimTime::ZERO)
}

#[test]
fn a_panic_of_the_kernel_is_quoted() {
    let Some(kernel) = kernel() else { return };
    // An empty root has no first process.
    let ended = Machine::new(kernel).run(
        &Root::default(),
        &Job::default(),
        small_drive(),
        &StopFlag::default(),
        &mut |_, _| {},
    );
    match ended {
        Err(LinuxError::Panic(log)) => assert!(log.contains("Kernel panic"), "{log}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing was there to run"),
    }
}

#[test]
fn a_guest_can_be_stopped() {
    let Some(kernel) = kernel() else { return };
    let ended = Machine::new(kernel).run(
        &Root::new(env!("CARGO_BIN_EXE_strobe").as_ref()).expect("a root"),
        &Job::default(),
        small_drive(),
        &Arc::new(AtomicBool::new(true)).into(),
        &mut |_, _| {},
    );
    assert!(matches!(ended, Err(LinuxError::Interrupted)));
}

#[test]
fn real_time_works_without_a_calendar() {
    let job = [
        "--real-time",
        "--fs",
        "none",
        "--",
        "sh",
        "-c",
        "dd if=/dev/zero of=/dev/vda bs=4k count=64 conv=fsync",
    ];
    let Some((code, _, errors)) = ends(&job) else { return };
    assert_eq!(code, Some(0), "{errors}");
}
