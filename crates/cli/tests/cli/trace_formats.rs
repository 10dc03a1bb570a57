//! Options for reading a trace: action, time unit and format.

use crate::Folder;

fn with(text: &str) -> Folder {
    let folder = Folder::new();
    folder.write("t", text);
    folder
}

const COMPLETIONS: &str = "1,0 0 1 0.5 9 C WS 0 + 8 [0]\n1,0 0 2 1.5 9 C WS 8 + 8 [0]\n";

#[test]
fn completions_alone_are_replayed_and_that_is_said() {
    let folder = with(COMPLETIONS);
    let result = folder.replay("t", "blkparse", &[]).ok().json();
    assert_eq!(result["host"]["write"]["bytes"], 8192);
    assert_eq!(result["trace"]["action"], "C");
    assert_eq!(result["trace"]["duration_ns"], 1_000_000_000);
    let said = folder.strobe(&["replay", "t", "--format", "blkparse", "--drive", "drive.toml"]).ok().out;
    assert!(said.contains("note: the trace has no dispatched (D) or queued requests (Q)"), "{said}");
    let asked = folder.replay("t", "blkparse", &["--action", "C"]).ok().json();
    assert_eq!(asked["trace"]["action"], "C");
    assert!(asked["trace"]["notes"].is_null(), "{}", asked["trace"]);
    for action in ["D", "Q"] {
        let refused = folder.replay("t", "blkparse", &["--action", action]);
        refused.refused(&["no requests to replay; left out: 2 completed requests (C); try --action C"]);
    }
    let set = ["--set", "workload.action=\"C\""];
    assert_eq!(folder.replay("t", "blkparse", &set).ok().json()["host"]["write"]["commands"], 2);
}

#[test]
fn dispatched_requests_come_first_and_queued_ones_second() {
    let line = |action: &str| format!("1,0 0 1 0.5 9 {action} WS 0 + 8 [x]\n");
    for (actions, expected) in [("QCD", "D"), ("CQ", "Q")] {
        let folder = with(&actions.chars().map(|action| line(&action.to_string())).collect::<String>());
        let result = folder.replay("t", "blkparse", &[]).ok().json();
        assert_eq!(result["trace"]["action"], expected);
        assert_eq!(result["host"]["write"]["commands"], 1);
        assert_eq!(result["trace"]["notes"].is_null(), expected == "D");
    }
}

#[test]
fn per_cpu_files_of_blktrace_are_one_trace() {
    let folder = Folder::new();
    let record = |time_ns: u64, sector: u64| {
        let mut bytes = vec![0; 48];
        bytes[..4].copy_from_slice(&0x6561_7407u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&time_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&sector.to_le_bytes());
        bytes[24..28].copy_from_slice(&4096u32.to_le_bytes());
        bytes[28..32].copy_from_slice(&(1u32 << 17 | 7).to_le_bytes());
        bytes
    };
    folder.write("sda.blktrace.0", [record(0, 0), record(2000, 16)].concat());
    folder.write("sda.blktrace.1", [record(1000, 8), record(5000, 24)].concat());
    for name in ["sda", "sda.blktrace", "sda.blktrace.0", "sda.blktrace.1"] {
        let result = folder.replay(name, "blktrace", &[]).ok().json();
        assert_eq!(result["host"]["write"]["commands"], 4, "{name}");
        assert_eq!(result["trace"]["duration_ns"], 5000);
        assert_eq!(result["trace"]["notes"][0], "2 per-CPU files were merged by time");
    }
    folder.replay("sdb", "blktrace", &[]).refused(&["cannot open trace sdb"]);
}

#[test]
fn requests_of_zero_bytes_are_dropped_and_counted_in_every_format() {
    for (format, text) in [
        ("fio", "fio version 3 iolog\n0 f write 0 4096\n1 f read 0 0\n2 f write 8 0\n"),
        ("msr", "1,h,0,Write,0,4096,1\n2,h,0,Read,0,0,1\n3,h,0,Write,8,0,1\n"),
        ("disksim", "0 0 0 8 0\n1 0 8 0 1\n2 0 8 0 0\n"),
        ("spc", "0,0,4096,W,0\n0,8,0,R,1\n0,9,0,W,2\n"),
        ("alibaba", "1,W,0,4096,0\n1,R,0,0,1\n1,W,8,0,2\n"),
        ("strobe", "strobe trace 1\n0 write 0 4096\n1 trim 8 0\n2 copy 0 0 4096\n"),
        ("systor", "0.0,0.1,W,0,0,4096\n1.0,0.1,R,0,0,0\n2.0,0.1,W,0,8,0\n"),
        ("fiu", "0 1 x 0 8 W 6 0 a\n1 1 x 8 0 R 6 0 a\n2 1 x 9 0 W 6 0 a\n"),
    ] {
        let result = with(text).replay("t", format, &[]).ok().json();
        assert_eq!(result["trace"]["changes"]["empty"], 2, "{format}");
        assert_eq!(result["trace"]["span_bytes"], 4096, "{format}");
        assert_eq!(result["host"]["write"]["commands"], 1, "{format}");
        assert_eq!(result["host"]["read"]["commands"], 0, "{format}");
    }
}

#[test]
fn the_unit_of_time_can_be_said_for_every_format() {
    for (format, text, unit_ns, expected_ns) in [
        ("fio", "fio version 3 iolog\n5 f write 0 4096\n9 f write 0 4096\n", 1_000_000, 4_000_000),
        ("msr", "0,h,0,Write,0,4096,1\n7,h,0,Write,0,4096,1\n", 1000, 7000),
        ("blkparse", "8,0 0 1 0.5 99 D W 0 + 8 [x]\n8,0 0 1 1.5 99 D W 0 + 8 [x]\n", 1000, 1000),
        ("disksim", "0.25 0 0 8 0\n1.5 0 0 8 0\n", 1_000_000_000, 1_250_000_000),
        ("ssdsim", "1 0 0 8 0\n4 0 0 8 0\n", 100, 300),
        ("systor", "1.5,,W,0,0,4096\n3.5,,W,0,0,4096\n", 5, 10),
    ] {
        let folder = with(text);
        let unit = unit_ns.to_string();
        let result = folder.replay("t", format, &["--time-unit-ns", &unit]).ok().json();
        assert_eq!(result["trace"]["duration_ns"], expected_ns, "{format}");
    }
}

#[test]
fn times_that_look_like_another_unit_are_noticed() {
    let log = |gap: u64| {
        let lines = (0..10).map(|at| format!("{} f write {} 4096\n", at * gap, at * 4096));
        format!("fio version 3 iolog\n{}", lines.collect::<String>())
    };
    // A second in ns, read as a thousand seconds.
    let folder = with(&log(1_000_000_000));
    let result = folder.replay("t", "fio", &[]).ok().json();
    let note = result["trace"]["notes"][0].as_str().expect("a note");
    assert!(note.contains("10 requests take") && note.contains("--time-unit-ns"), "{note}");
    for more in [&["--time-unit-ns", "1"][..], &["--closed-loop"]] {
        let result = folder.replay("t", "fio", more).ok().json();
        assert!(result["trace"]["notes"].is_null(), "{more:?}");
    }
    let ordinary = with(&log(1_000_000)).replay("t", "fio", &[]).ok().json();
    assert!(ordinary["trace"]["notes"].is_null());
}

#[test]
fn waits_of_fio_below_100_us_do_not_count() {
    let log = "fio version 2 iolog\nx add\nx open\nx write 0 4096\nx wait 50 0\nx write 4096 4096\nx close\n";
    assert_eq!(with(log).replay("t", "fio", &[]).ok().json()["trace"]["duration_ns"], 0);
    let long = log.replace("wait 50", "wait 150");
    assert_eq!(with(&long).replay("t", "fio", &[]).ok().json()["trace"]["duration_ns"], 150_000);
}

#[test]
fn a_missing_format_is_recognised_and_a_wrong_one_answered_with_what_the_trace_looks_like() {
    let fio = with("fio version 3 iolog\n0 f add\n7 f write 0 4096\n");
    let recognised = fio.strobe(&["replay", "t", "--json", "-"]).ok();
    assert!(recognised.err.contains("t is read as fio"), "{}", recognised.err);
    assert_eq!(recognised.json()["config"]["workload"]["format"], "fio");
    fio.replay("t", "msr", &[]).refused(&["line 1", "this looks like format fio: `--format fio`"]);
    let several = with("48513000 0 0 8 0\n");
    several.strobe(&["replay", "t"]).refused(&["--format is missing", "t may be disksim, mqsim or ssdsim"]);
    let none = with("Dear reader,\n");
    none.strobe(&["replay", "t"]).refused(&["--format is missing", "strobe list formats"]);
    none.strobe(&["replay", "-"]).refused(&["--format is missing", "strobe list formats"]);
    none.strobe(&["replay", "nothere.csv"]).refused(&["cannot open trace nothere.csv"]);
    let line = "128166372003061629,hm,1,Write,0,4096,413\n";
    let bad = with(&format!("{}{}", line.repeat(5), line.replace("Write", "Wrote")));
    bad.strobe(&["replay", "t"]).refused(&["--format is missing", "t is msr except for line 6"]);
    let refused = none.replay("t", "msr", &[]);
    refused.refused(&["line 1"]);
    assert!(!refused.err.contains("looks like format"), "{}", refused.err);
}
