//! `strobe paper --quick` with a kernel. Each experiment is stopped after its first guests.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{has, kernel, text};

fn begin(paper: &str, field: &str, runs: usize) -> (usize, String) {
    let kernel = kernel().expect("asked for before");
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.args(["paper", paper, "--quick", "--quiet", "--out"]).arg(folder.path());
    command.env("STROBE_KERNEL", kernel).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let points = folder.path().join(format!("{paper}.points"));
    let count = || {
        let text = fs::read_to_string(&points).unwrap_or_default();
        text.lines().filter(|line| line.contains(field)).count()
    };
    while child.try_wait().expect("a child").is_none() {
        if count() >= runs {
            // Like Ctrl-C, which also ends its guests.
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let said = text(&child.wait_with_output().expect("it ends").stderr);
    (count(), said)
}

/// Fails unless `runs` points with `field`, which only guests measure, are stored.
fn test(paper: &str, field: &str, runs: usize) {
    if kernel().is_none() || !has("mkfs.ext4") || !has("mkfs.f2fs") || !has("mkfs.vfat") {
        return;
    }
    let (ran, said) = begin(paper, field, runs);
    assert!(ran >= runs, "{paper}: {ran} runs in guests\n{said}");
}

#[test]
fn the_quick_trim_experiment_begins_on_a_kernel() {
    test("trim", "\"trim_ns\"", 4);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn the_quick_nvram_experiment_runs_on_a_kernel() {
    test("nvram", "\"fixed\"", 2);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn the_quick_logical_copy_experiment_begins_on_a_kernel() {
    test("logical-copy", "\"page_bytes\"", 1);
}
