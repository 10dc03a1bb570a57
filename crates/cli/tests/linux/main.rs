//! A real Linux kernel with a simulated drive. These tests need a kernel (`strobe linux build-kernel`, or a
//! path in `STROBE_KERNEL`). Without one they print `SKIPPED`; with `STROBE_REQUIRE_KERNEL=1` they fail.

#![cfg(target_os = "linux")]

mod answers;
mod crash;
mod determinism;
mod devices;
mod discards;
mod endings;
mod events;
mod gallery;
mod hints;
mod kernels;
mod lines;
mod losses;
mod nvme;
mod papers;
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

#[track_caller]
pub(crate) fn kernel() -> Option<PathBuf> {
    found(Need::Kernel, strobe_linux::kernel::installed())
}

#[track_caller]
pub(crate) fn has(program: &str) -> bool {
    found(Need::Kernel, strobe_linux::find_program(program)).is_some()
}

const DRIVE: [&str; 6] = [
    "--drive",
    "jasmine-4g",
    "--set",
    "drive.ftl.logical_pages=131072",
    "--set",
    "drive.nand.blocks_per_plane=80",
];

/// On a small drive, unless the arguments name one.
pub(crate) fn strobe(kernel: &PathBuf, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    let small: &[&str] = if arguments.contains(&"--drive") { &[] } else { &DRIVE };
    command.arg("linux").arg("--kernel").arg(kernel).args(small).args(arguments);
    command.output().expect("it starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn result(kernel: &PathBuf, arguments: &[&str]) -> (Value, Vec<u8>) {
    let output = strobe(kernel, &[&["--json", "-", "--reproducible"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    let value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    (value, [output.stdout, output.stderr].concat())
}
