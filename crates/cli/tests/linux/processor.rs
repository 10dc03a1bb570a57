use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{has, kernel, result, strobe, text};

/// 1000 blocks of 4 KiB: 2000 system calls and 4000 KiB before the final sync.
const WRITES: [&str; 6] = ["--", "dd", "if=/dev/zero", "of=a", "bs=4k", "count=1000"];

fn window_ns(value: &Value) -> u64 {
    value["time"]["virtual_ns"].as_u64().expect("a time")
}

#[test]
fn every_system_call_takes_what_it_is_said_to() {
    let Some(kernel) = kernel() else { return };
    let run = |more: &[&str]| result(&kernel, &[more, &WRITES].concat());
    let (free, bytes) = run(&["--syscall-ns", "0"]);
    assert!(free["guest"]["cpu"].is_null());
    // Without a cost of system calls copies are free as well, to the byte.
    let (_, zero) = run(&["--syscall-ns", "0", "--copy-ns-per-kib", "0"]);
    assert!(bytes == zero, "0 is as without it");
    let (default, _) = run(&[]);
    let cpu = &default["guest"]["cpu"];
    let costs = ["syscall_ns", "copy_ns_per_kib", "process_ns"].map(|key| cpu[key].as_u64());
    assert_eq!(costs, [Some(1000), Some(100), Some(200_000)]);
    let more = window_ns(&default) - window_ns(&free);
    assert!(
        (3_000_000..3_600_000).contains(&more),
        "{more} ns for 2000 calls, 4000 KiB and a program\n{free}\n{default}"
    );

    let calls = ["--syscall-ns", "5000", "--copy-ns-per-kib", "0", "--process-ns", "0"];
    let (costs, first) = run(&calls);
    assert_eq!(costs["guest"]["cpu"]["syscall_ns"], 5000);
    let more = window_ns(&costs) - window_ns(&free);
    // One read and one write per block, plus start and end of dd.
    assert!((2000 * 5000..2500 * 5000).contains(&more), "{more} ns");
    let (_, again) = run(&calls);
    assert!(first == again, "the same every time");

    let (copies, _) = run(&["--syscall-ns", "0", "--copy-ns-per-kib", "1000"]);
    let more = window_ns(&copies) - window_ns(&free);
    // Writes copy data; reads of /dev/zero do not.
    assert!((4_000_000..4_800_000).contains(&more), "{more} ns");
}

/// At 1 GHz, independent of the host's clock.
#[test]
fn the_time_stamp_counter_is_virtual_time() {
    let Some(kernel) = kernel() else { return };
    if !has("cc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tsc.c");
    let program = folder.path().join("tsc");
    let compiled = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).status().expect("cc");
    assert!(compiled.success());
    let run = |more: &[&str]| {
        let output = strobe(&kernel, &[more, &["-q", "--", program.to_str().expect("text")]].concat());
        assert_eq!(output.status.code(), Some(128 + 11), "hlt is not allowed: {}", text(&output.stderr));
        text(&output.stdout)
    };
    // Without a limit, the host's processor time does not end the loop.
    for limit in ["2", "0"] {
        let said = run(&["--spin-limit", limit]);
        let numbers: Vec<u64> =
            said.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        let [counter, clock, processor, end] = numbers[..] else { panic!("{said}") };
        assert!((500_000_000..501_000_000).contains(&counter), "{said}");
        assert!(counter.abs_diff(clock) < 5000 && processor == 0 && end > 520_000_000, "{said}");
        assert_eq!(run(&["--spin-limit", limit]), said, "the same every time");
    }
}

/// A subshell is a fork. An external command runs in a child that borrows the shell's memory. Builtins are
/// neither.
#[test]
fn forks_and_programs_take_what_they_are_said_to() {
    let Some(kernel) = kernel() else { return };
    let time = |process_ns: &str, body: &str| {
        let script = format!("for i in 1 2 3 4 5 6 7 8 9 10; do {body}; done; echo a > a");
        let more = ["--syscall-ns", "0", "--process-ns", process_ns, "--", "sh", "-c", &script];
        window_ns(&result(&kernel, &more).0)
    };
    let charged = |body| time("1000000", body) - time("0", body);
    let others = charged(":");
    for (body, costs) in [("(:)", 1), ("/bin/true", 3)] {
        let more = charged(body) - others;
        let expected = 10 * costs * 1_000_000;
        // The kernel's clock has ticks of 128 ns.
        assert!((expected - 1000..expected + 100_000).contains(&more), "{more} ns for ten times {body}");
    }
}

#[test]
fn it_counts_in_virtual_time_only() {
    let Some(kernel) = kernel() else { return };
    let output = strobe(&kernel, &["--real-time", "--syscall-ns", "1", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("have no effect with --real-time"), "{}", text(&output.stderr));
}

#[test]
fn a_loop_of_system_calls_is_ended_by_a_timer() {
    let Some(kernel) = kernel() else { return };
    let arguments = ["--fs", "none", "--", "sh", "-c", "timeout 0.05 yes > /dev/null; echo $?"];
    let (value, first) = result(&kernel, &arguments);
    assert!(text(&first).contains("124\n"), "{}", text(&first));
    assert!(value["guest"]["spun"].is_null(), "{}", value["guest"]);
    assert_eq!(value["guest"]["root"]["repeatable"], true);
    let (_, again) = result(&kernel, &arguments);
    assert!(first == again, "the same every time");
}

#[test]
fn a_loop_without_system_calls_is_ended_by_a_timer_and_marked() {
    let Some(kernel) = kernel() else { return };
    let script = "timeout 1 sh -c 'while :; do :; done'; echo $?";
    let arguments = ["--fs", "none", "--spin-limit", "1", "--", "sh", "-c", script];
    let (value, printed) = result(&kernel, &arguments);
    assert!(text(&printed).contains("124\n"), "{}", text(&printed));
    assert_eq!(value["guest"]["spun"], serde_json::json!(["sh"]));
    assert_eq!(value["guest"]["root"]["repeatable"], false);
    let output = strobe(&kernel, &arguments);
    let said = text(&output.stdout);
    assert!(said.contains("not repeatable: sh computed without a system call"), "{said}");
}

/// Waking programs preempt a computing one.
#[test]
fn a_loop_does_not_hold_up_those_who_wait_for_the_drive() {
    let Some(kernel) = kernel() else { return };
    let synced = "dd if=/dev/zero of=f$i bs=4k count=1 conv=fsync 2> /dev/null";
    let script = format!("(while :; do :; done) & for i in 1 2 3 4 5 6 7 8 9 10; do {synced}; done; kill $!");
    let (value, _) = result(&kernel, &["--fs", "ext4", "--spin-limit", "1", "--", "sh", "-c", &script]);
    assert_eq!(value["guest"]["spun"], serde_json::json!(["sh"]));
    // Each sync waits for the drive several times; the loop would delay each by a second.
    assert!(window_ns(&value) < 1_000_000_000, "{} ns", window_ns(&value));
}

#[test]
fn a_computation_within_the_limit_takes_no_time() {
    let Some(kernel) = kernel() else { return };
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let (value, first) = result(&kernel, &["--fs", "none", "--spin-limit", "600", "--", "sh", "-c", script]);
    assert!(window_ns(&value) < 10_000_000, "{}", window_ns(&value));
    let (_, again) = result(&kernel, &["--fs", "none", "--spin-limit", "600", "--", "sh", "-c", script]);
    assert!(first == again, "the same every time");
}
