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
    let (free, bytes) = run(&["--syscall-ns", "0"]);
    assert!(free["guest"]["cpu"].is_null());
    // Without system calls copies are free as well, to the byte.
    let (_, zero) = run(&["--syscall-ns", "0", "--copy-ns-per-kib", "0"]);
    // dd says when it began.
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
    // One read and one write for each block, and what dd begins and ends with.
    assert!((2000 * 5000..2500 * 5000).contains(&more), "{more} ns");
    let (_, again) = run(&calls);
    assert!(first == again, "the same every time");

    let (copies, _) = run(&["--syscall-ns", "0", "--copy-ns-per-kib", "1000"]);
    let more = window_ns(&copies) - window_ns(&free);
    // What is written is copied; what is read of /dev/zero is made of nothing.
    assert!((4_000_000..4_800_000).contains(&more), "{more} ns");
}

/// A subshell is a fork, a command of the shell a program in a child that borrows its memory; builtins are neither.
#[test]
fn forks_and_programs_take_what_they_are_said_to() {
    let Some(kernel) = kernel() else { return };
    let time = |process_ns: &str, body: &str| {
        let script = format!("for i in 1 2 3 4 5 6 7 8 9 10; do {body}; done; echo a > a");
        let more = ["--syscall-ns", "0", "--process-ns", process_ns, "--", "sh", "-c", &script];
        window_ns(&result(&kernel, &more).0)
    };
    // What mkfs, mount and the end of the run cost is in all of them.
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
    assert!(text(&output.stderr).contains("count in virtual time only"), "{}", text(&output.stderr));
}

/// A program that makes system calls for ever takes as long as they do: a timer ends it, at the same time in every run.
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

/// One that makes none takes the processor time of this machine, and the result says so.
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
    assert!(said.contains("not repeatable: sh computed for long"), "{said}");
}

/// Programs that wake up preempt one that computes: nobody else waits for it by seconds.
#[test]
fn a_loop_does_not_hold_up_those_who_wait_for_the_drive() {
    let Some(kernel) = kernel() else { return };
    let synced = "dd if=/dev/zero of=f$i bs=4k count=1 conv=fsync 2> /dev/null";
    let script = format!("(while :; do :; done) & for i in 1 2 3 4 5 6 7 8 9 10; do {synced}; done; kill $!");
    let (value, _) = result(&kernel, &["--fs", "ext4", "--spin-limit", "1", "--", "sh", "-c", &script]);
    assert_eq!(value["guest"]["spun"], serde_json::json!(["sh"]));
    // Each sync waits for the drive several times, and the loop would compute for a second each time.
    assert!(window_ns(&value) < 1_000_000_000, "{} ns", window_ns(&value));
}

/// A computation shorter than the limit leaves the result repeatable.
#[test]
fn a_computation_within_the_limit_takes_no_time() {
    let Some(kernel) = kernel() else { return };
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let (value, first) = result(&kernel, &["--fs", "none", "--spin-limit", "600", "--", "sh", "-c", script]);
    assert!(window_ns(&value) < 10_000_000, "{}", window_ns(&value));
    let (_, again) = result(&kernel, &["--fs", "none", "--spin-limit", "600", "--", "sh", "-c", script]);
    assert!(first == again, "the same every time");
}
