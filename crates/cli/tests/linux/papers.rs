//! `strobe paper --quick` with a kernel. A full experiment takes minutes: it is stopped after its first
//! guests.

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

#[test]
fn quick_experiments_begin_on_a_kernel() {
    if kernel().is_none() || !has("mkfs.ext4") {
        return;
    }
    let (paper, runs) = ("trim", 4);
    let (ran, said) = begin(paper, "\"trim_ns\"", runs);
    assert!(ran >= runs, "{paper}: {ran} runs in guests\n{said}");
}
