//! A guest's processor that takes time for system calls.

use serde_json::Value;

use super::{kernel, result, strobe, text};

/// Writes 1000 blocks of 4 KiB: 2000 system calls, 4000 KiB, before the sync behind it.
const WRITES: [&str; 6] = ["--", "dd", "if=/dev/zero", "of=a", "bs=4k", "count=1000"];

fn window_ns(value: &Value) -> u64 {
    value["time"]["virtual_ns"].as_u64().expect("a time")
}

#[test]
fn every_system_call_takes_what_it_is_said_to() {
    let Some(kernel) = kernel() else { return };
    let run = |more: &[&str]| result(&kernel, &[more, &WRITES].concat());
    let (free, bytes) = run(&[]);
    assert!(free["guest"]["cpu"].is_null());
    // Nothing is nothing, to the byte.
    let (_, zero) = run(&["--syscall-ns", "0", "--copy-ns-per-kib", "0"]);
    // dd says when it began.
    assert!(bytes == zero, "0 is as without it");

    let (costs, first) = run(&["--syscall-ns", "5000"]);
    assert_eq!(costs["guest"]["cpu"]["syscall_ns"], 5000);
    let more = window_ns(&costs) - window_ns(&free);
    // One read and one write for each block, and what dd begins and ends with.
    assert!((2000 * 5000..2500 * 5000).contains(&more), "{more} ns");
    let (_, again) = run(&["--syscall-ns", "5000"]);
    assert!(first == again, "the same every time");

    let (copies, _) = run(&["--copy-ns-per-kib", "1000"]);
    let more = window_ns(&copies) - window_ns(&free);
    // What is written is copied; what is read of /dev/zero is made of nothing.
    assert!((4_000_000..4_800_000).contains(&more), "{more} ns");
}

#[test]
fn it_counts_in_virtual_time_only() {
    let Some(kernel) = kernel() else { return };
    let output = strobe(&kernel, &["--real-time", "--syscall-ns", "1", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("count in virtual time only"), "{}", text(&output.stderr));
}
