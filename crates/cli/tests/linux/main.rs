//! A real Linux kernel on the drive. These tests need a kernel (`strobe linux build-kernel`, or a path in
//! `STROBE_KERNEL`); without one they say `SKIPPED`, and with `STROBE_REQUIRE_KERNEL=1` they fail.

#![cfg(target_os = "linux")]

mod crash;
mod determinism;
mod devices;
mod discards;
mod endings;
mod events;
mod gallery;
mod hints;
mod kernels;
mod losses;
mod nvme;
mod planted;
mod processor;
mod programs;
mod read_errors;
mod series;
mod storage;
mod timing;
mod traces;

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use strobe_testing::{Need, found};

/// The kernel; without one the test is skipped.
#[track_caller]
pub(crate) fn kernel() -> Option<PathBuf> {
    found(Need::Kernel, strobe_linux::kernel::installed())
}

/// True if a host program exists; otherwise the test is skipped.
#[track_caller]
pub(crate) fn has(program: &str) -> bool {
    found(Need::Kernel, strobe_linux::find_program(program)).is_some()
}

/// A drive small enough for a test.
const DRIVE: [&str; 6] = [
    "--drive",
    "jasmine-4g",
    "--set",
    "drive.ftl.logical_pages=131072",
    "--set",
    "drive.nand.blocks_per_plane=80",
];

/// `strobe linux` with these arguments, on a small drive unless they name one.
pub(crate) fn strobe(kernel: &PathBuf, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    let small: &[&str] = if arguments.contains(&"--drive") { &[] } else { &DRIVE };
    command.arg("linux").arg("--kernel").arg(kernel).args(small).args(arguments);
    command.output().expect("it starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The result of a job that must succeed, and what it printed: the JSON, then what the command has printed.
pub(crate) fn result(kernel: &PathBuf, arguments: &[&str]) -> (Value, Vec<u8>) {
    let output = strobe(kernel, &[&["--json", "-", "--reproducible"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    let value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    (value, [output.stdout, output.stderr].concat())
}
