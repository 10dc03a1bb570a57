//! Traces that do not fit or are damaged.

use std::io::Write as _;
use std::process::Stdio;

use crate::{Folder, finish};

const DRIVE_BYTES: u64 = 160 * 4096;

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("into memory");
    encoder.finish().expect("into memory")
}

fn msr(records: &[(u64, &str, u64, u64)]) -> Folder {
    let folder = Folder::new();
    let lines: String = records
        .iter()
        .map(|(time, op, offset, bytes)| format!("{time},h,0,{op},{offset},{bytes},1\n"))
        .collect();
    folder.write("t", lines);
    folder
}

#[test]
fn malformed_lines_are_shown_with_their_number() {
    let folder = Folder::new();
    let good = "1,h,0,Write,0,4096,1\n";
    for bad in [
        "2,h,0,Write,0",
        "2,h,0,Wri",
        "2,h,0,Write,zero,4096,1",
        "2,h,0,Write,-4096,4096,1",
        "2,h,0,Write,18446744073709551615,4096,1",
        "2,h,0,Write,99999999999999999999,4096,1",
        "nonsense",
        "2;h;0;Write;0;4096;1",
    ] {
        folder.write("t", format!("{good}{bad}\n{good}"));
        folder.replay("t", "msr", &[]).refused(&["trace t, line 2", bad]);
        folder.replay("t", "msr", &["--wrap"]).refused(&["trace t, line 2", bad]);
    }
    folder.write("t", [good.as_bytes(), b"\xff\xfe\x00binary\n"].concat());
    folder.replay("t", "msr", &[]).refused(&["line 2", "not text"]);
    folder.write("t", [good.as_bytes(), &vec![b'x'; 1 << 20]].concat());
    folder.replay("t", "msr", &[]).refused(&["line 2", "longer than 65536 bytes"]);
}

#[test]
fn a_cut_off_gzip_file_is_refused() {
    let folder = Folder::new();
    let lines: String = (0..3_000).map(|n| format!("{n},h,0,Write,{},4096,1\n", n % 160 * 4096)).collect();
    let whole = gzip(lines.as_bytes());
    folder.write("t.gz", &whole);
    folder.replay("t.gz", "msr", &[]).ok();
    for length in [10, 11, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        folder.write("t.gz", &whole[..length]);
        folder.replay("t.gz", "msr", &[]).refused(&["trace t.gz, line", "cut off"]);
    }
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0xff;
    folder.write("t.gz", flipped);
    let ended = folder.replay("t.gz", "msr", &[]);
    ended.refused(&["t.gz", "line"]);
    folder.write("t.zst", b"\x28\xb5\x2f\xfd....");
    folder.replay("t.zst", "msr", &[]).refused(&["cannot read trace t.zst"]);
}

#[test]
fn requests_beyond_the_drive_are_refused_or_changed_and_counted() {
    let folder = msr(&[
        (1, "Write", 0, 4096),
        (2, "Write", DRIVE_BYTES - 4096, 8192),
        (3, "Read", DRIVE_BYTES, 4096),
        (4, "Write", 9_999_990_272, 4096),
    ]);
    let size = DRIVE_BYTES.to_string();
    folder.replay("t", "msr", &[]).refused(&["t, line 2", "exceeds the drive", &size, "--wrap", "--clip"]);
    let clip = folder.replay("t", "msr", &["--clip"]).ok().json();
    assert_eq!(clip["trace"]["changes"]["shortened"], 1);
    assert_eq!(clip["trace"]["changes"]["dropped"], 2);
    assert_eq!(clip["host"]["write"]["bytes"], 8192);
    let wrap = folder.replay("t", "msr", &["--wrap"]).ok().json();
    assert_eq!(wrap["trace"]["changes"]["shortened"], 1);
    assert_eq!(wrap["trace"]["changes"]["wrapped"], 2);
    assert_eq!(wrap["trace"]["changes"]["dropped"], 0);
    assert_eq!(wrap["host"]["write"]["bytes"], 3 * 4096);
    assert_eq!(wrap["host"]["read"]["bytes"], 4096);
    let said = folder.strobe(&["replay", "t", "--format", "msr", "--drive", "drive.toml", "--wrap"]).ok();
    assert!(said.out.contains("CHANGED") && said.out.contains("2 wrapped"), "{}", said.out);
}

#[test]
fn misaligned_requests_are_refused_or_changed_and_counted() {
    let folder = msr(&[(1, "Write", 0, 4096), (2, "Write", 700, 100)]);
    folder.replay("t", "msr", &[]).refused(&["t, line 2", "100 bytes at offset 700", "512"]);
    let wrap = folder.replay("t", "msr", &["--wrap"]).ok().json();
    assert_eq!(wrap["trace"]["changes"]["rounded"], 1);
    assert_eq!(wrap["host"]["write"]["bytes"], 4096 + 512);
}

#[test]
fn time_going_backwards_is_refused_in_open_loop_only() {
    let folder = msr(&[(100, "Write", 0, 4096), (50, "Write", 4096, 4096), (200, "Read", 0, 4096)]);
    folder.replay("t", "msr", &[]).refused(&["t, line 2", "backwards", "--closed-loop", "--late issue"]);
    // Fitting addresses does not affect late requests.
    folder.replay("t", "msr", &["--wrap"]).refused(&["t, line 2", "backwards", "--late issue"]);
    let closed = folder.replay("t", "msr", &["--closed-loop"]).ok().json();
    assert_eq!(closed["trace"]["changes"]["late"], 0);
    assert_eq!(closed["host"]["write"]["commands"], 2);
    let late = folder.replay("t", "msr", &["--late", "issue"]).ok().json();
    assert_eq!(late["trace"]["changes"]["late"], 1);
    assert_eq!(late["config"]["workload"]["late"], "issue");
}

#[test]
fn formats_and_options_that_do_not_fit_are_refused() {
    let folder = msr(&[(1, "Write", 0, 4096)]);
    folder.replay("t", "blkparce", &[]).refused(&["blkparce", "did you mean blkparse?", "tencent"]);
    folder.replay("t", "msr", &["--action", "D"]).refused(&["action", "msr"]);
    folder.replay("t", "blkparse", &["--action", "X"]).refused(&["action", "D, Q, C"]);
    folder.replay("t", "mqsim", &["--time-unit-ns", "0"]).refused(&["time_unit_ns", "from 1"]);
    folder.replay("t", "msr", &["--device", "other"]).refused(&["`other`", "`h.0`"]);
    folder.replay("t", "msr", &["--queue-depth", "0"]).refused(&["queue_depth", "from 1 to 65536"]);
    folder.replay("t", "msr", &["--repeat", "0"]).refused(&["repeat", "from 1"]);
    folder.write("t", "1,h,0,Write,0,4096,1\n2,h,1,Write,0,4096,1\n");
    folder.replay("t", "msr", &[]).refused(&["line 2", "--device h.0"]);
    folder.replay("t", "msr", &["--device", "all"]).ok();
}

#[test]
fn a_trace_that_cannot_be_opened_is_refused_before_anything_runs() {
    let folder = Folder::new();
    let long = ["--prefill", "--set", "run.warmup=\"1000000x\""];
    folder.replay("missing", "msr", &long).refused(&["cannot open trace missing", "No such file"]);
    folder.write("t.zst", b"\x28\xb5\x2f\xfd....");
    folder.replay("t.zst", "msr", &long).refused(&["cannot read trace t.zst"]);
    folder.replay(".", "msr", &[]).refused(&["cannot read trace .", "directory"]);
    folder.write("e.toml", "[workload]\nkind = \"trace\"\npath = \"missing\"\nformat = \"msr\"\n");
    folder.strobe(&["check", "e.toml"]).refused(&["cannot open trace missing"]);
}

#[test]
fn a_trace_without_requests_is_refused_however_often_it_is_repeated() {
    let folder = msr(&[]);
    folder.replay("t", "msr", &["--repeat", "1000000"]).refused(&["t: no requests to replay"]);
    let folder = msr(&[(1, "Write", DRIVE_BYTES, 4096), (2, "Write", 0, 0)]);
    let dropped = folder.replay("t", "msr", &["--clip", "--repeat", "1000000"]);
    dropped.refused(&["no requests to replay", "1 were beyond the drive", "1 were empty"]);
    folder.write("f", "fio version 3 iolog\n0 f add\n0 f open\n");
    folder.replay("f", "fio", &[]).refused(&["no requests to replay", "left out: 2"]);
}

#[test]
fn a_pipe_is_replayed_once_and_not_repeated_in_silence() {
    let folder = msr(&[(1, "Write", 0, 4096), (2, "Read", 0, 4096)]);
    let replay = |repeat: &str| {
        let args = ["replay", "/dev/stdin", "--format", "msr", "--drive", "drive.toml", "--repeat", repeat];
        let mut command = folder.command(&[&args[..], &["--quiet", "--json", "-"]].concat());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(folder.read("t").as_bytes()).expect("a reader");
        drop(stdin);
        finish(child)
    };
    assert_eq!(replay("1").ok().json()["host"]["write"]["commands"], 1);
    replay("3").refused(&["/dev/stdin", "no requests to replay", "after 1 times", "pipe"]);
}

#[test]
fn a_limit_ends_a_replay_at_that_page() {
    let folder = msr(&(0..3_000).map(|n| (n, "Write", n % 160 * 4096, 4096)).collect::<Vec<_>>());
    let commands = |measure: &str, more: &[&str]| {
        let set = format!("run.measure={measure}");
        let args = [&["--set", &set], more].concat();
        folder.replay("t", "msr", &args).ok().json()["host"]["write"]["commands"].clone()
    };
    assert_eq!(commands("10", &[]), 10);
    assert_eq!(commands("1025", &[]), 1025);
    assert_eq!(commands("0", &[]), 0);
    assert_eq!(commands("7000", &["--repeat", "5"]), 7000);
    assert_eq!(commands("7000", &["--repeat", "2"]), 6000);
}

#[test]
fn records_as_long_as_numbers_go_take_no_memory_in_proportion() {
    let folder = msr(&[(1, "Write", 0, u64::MAX - 1000)]);
    let clip = folder.replay("t", "msr", &["--clip"]).ok().json();
    assert_eq!(clip["host"]["write"]["bytes"].as_u64(), Some(DRIVE_BYTES));
    folder.replay("t", "msr", &[]).refused(&["t, line 1"]);
}

#[test]
fn a_gap_of_centuries_ends_the_run_with_a_reason() {
    let folder = msr(&[(0, "Write", 0, 4096), (184_467_440_737_095_516, "Write", 0, 4096)]);
    let ended = folder.replay("t", "msr", &[]);
    assert_eq!(ended.code, 1);
    ended.says(&["virtual time", "584 years", "--closed-loop"]);
    folder.replay("t", "msr", &["--closed-loop"]).ok();
}

#[test]
fn a_device_file_is_not_mistaken_for_a_trace() {
    let folder = Folder::new();
    for format in ["msr", "fio", "blktrace"] {
        folder.replay("/dev/zero", format, &[]).refused(&["/dev/zero"]);
        folder.replay("/dev/null", format, &[]).refused(&["/dev/null"]);
    }
}

const UNIT: u64 = 4096;

#[test]
fn copies_and_trims_of_several_ranges_are_replayed_as_such() {
    let folder = Folder::new();
    let rows = [
        "strobe trace 1".to_owned(),
        format!("0 write 0 {}", 64 * UNIT),
        format!("10 copy 0 {UNIT} {}", 100 * UNIT),
        format!("10 + {} {UNIT}", 5 * UNIT),
        format!("20 trim 0 {UNIT}"),
        format!("20 + {} {}", 5 * UNIT, 2 * UNIT),
        format!("20 + {} {UNIT}", 9 * UNIT),
        "30 flush".to_owned(),
    ];
    folder.write("t", rows.join("\n"));
    let result = folder.replay("t", "strobe", &[]).ok().json();
    let host = |kind: &str, what: &str| result["host"][kind][what].as_u64().expect("a count");
    assert_eq!((host("copy", "commands"), host("copy", "bytes")), (1, 2 * UNIT));
    assert_eq!((host("trim", "commands"), host("trim", "bytes")), (1, 4 * UNIT));
    assert_eq!(result["trace"]["requests"]["copy"], 1);
    assert_eq!(result["copy"]["physical_units"], 2);
    let logical = folder.replay("t", "strobe", &["--set", "drive.ftl.copy_mode=logical"]).ok().json();
    assert_eq!(logical["copy"]["logical_units"], 2);
}

#[test]
fn trims_that_follow_each_other_become_commands_of_several_ranges() {
    let folder = Folder::new();
    let mut log = "fio version 3 iolog\n0 f add\n".to_owned();
    for at in 0..10u64 {
        log += &format!("{at} f trim {} 4096\n", at * 2 * UNIT);
    }
    log += "11 f write 0 4096\n12 f trim 8192 4096\n12 f trim 12288 4096\n";
    folder.write("t", &log);
    let trims = |ranges: &str| {
        let set = format!("workload.trim_ranges={ranges}");
        let result = folder.replay("t", "fio", &["--set", &set]).ok().json();
        let bytes = result["host"]["trim"]["bytes"].as_u64().expect("a count");
        assert_eq!(bytes, 12 * UNIT, "{ranges}");
        result["host"]["trim"]["commands"].as_u64().expect("a count")
    };
    assert_eq!([trims("1"), trims("4"), trims("64")], [12, 4, 2]);
    let refused = ["--set", "workload.trim_ranges=64", "--set", "drive.controller.limits.trim_ranges=4"];
    let ended = folder.replay("t", "fio", &refused);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.says(&["trim", "4"]);
}

#[test]
fn writes_that_a_trace_marks_as_metadata_go_to_a_cache_for_them() {
    let folder = Folder::new();
    let lines: String = (0..20u64)
        .map(|n| {
            format!("8,0 0 {n} 0.{n:09} 1 D {} {} + 8 [x]\n", if n % 4 == 0 { "WSM" } else { "WS" }, n * 8)
        })
        .collect();
    folder.write("t", lines);
    let hint = ["--set", "drive.controller.nvram.bytes=65536", "--set", "drive.controller.nvram.policy=hint"];
    let result = folder.replay("t", "blkparse", &hint).ok().json();
    assert_eq!(result["nvram"]["write_units"], 5);
    assert_eq!(result["host"]["pages_written"], 20);
}
