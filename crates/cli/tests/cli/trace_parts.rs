//! Parts, windows, devices and columns of a trace, as a user gives them.

use serde_json::Value;

use crate::{Ended, Folder};

/// A write a second on each of two devices, 100 writes in all.
fn mine() -> Folder {
    let folder = Folder::new();
    let lines = (0..100).map(|n| format!("{}.5,w,{},8,{}\n", n / 2, n % 20 * 8, ["web", "db"][n % 2]));
    folder.write("t.csv", format!("time,op,lbn,len,device\n{}", lines.collect::<String>()));
    folder
}

fn replay(folder: &Folder, options: &[&str]) -> Ended {
    let arguments = ["replay", "t.csv", "--drive", "drive.toml", "--quiet", "--json", "-"];
    folder.strobe(&[&arguments[..], options].concat())
}

fn trace(folder: &Folder, options: &[&str]) -> Value {
    replay(folder, options).ok().json()["trace"].clone()
}

#[test]
fn a_part_and_a_window_are_given_as_options_and_keys() {
    let folder = mine();
    let all = ["--device", "all"];
    let with = |options: &[&str]| trace(&folder, &[&all[..], options].concat());
    assert_eq!(with(&[])["requests"]["write"], 100);
    let part = with(&["--skip", "10 requests", "--take", "10s"]);
    assert_eq!((&part["requests"]["write"], &part["duration_ns"]), (&20.into(), &9_000_000_000u64.into()));
    assert_eq!(part["skipped"]["records before the part that was chosen"], 10);
    let keys = ["--set", "workload.skip=10 requests", "--set", "workload.take=10s"];
    assert_eq!(with(&keys), part);
    let window =
        replay(&folder, &[&all[..], &["--warmup", "20 requests", "--measure", "40KiB"]].concat()).ok().json();
    assert_eq!(window["trace"]["warmup_requests"], 20);
    assert_eq!(window["trace"]["requests"]["write"], 30);
    assert_eq!(window["ended_by"], "measure");
    let fast = replay(&folder, &[&all[..], &["--speed", "10", "--warmup", "10s"]].concat()).ok().json();
    assert_eq!(fast["trace"]["warmup_requests"], 20);
    // 80 requests from 1 s to the last arrival, at 4.9 s.
    assert_eq!(fast["load"]["offered_iops"], 80.0 / 3.9);
    let repeated = with(&["--repeat", "3", "--warmup", "1 repeat"]);
    assert_eq!((&repeated["warmup_requests"], &repeated["requests"]["write"]), (&100.into(), &300.into()));
}

#[test]
fn windows_beyond_a_trace_are_refused_with_the_cure() {
    let folder = mine();
    let refused = |options: &[&str], expected: &[&str]| {
        replay(&folder, &[&["--device", "all"], options].concat()).refused(expected);
    };
    refused(&["--warmup", "1h"], &["run.warmup = 1h", "ended before the measurement", "workload.repeat"]);
    refused(&["--warmup", "100 requests"], &["after 100 requests", "use a shorter warm-up"]);
    refused(&["--skip", "1GiB"], &["no requests to replay", "100 records before", "skip less"]);
    refused(&["--take", "2x"], &["--take", "must be a part of the trace", "5000 requests", "10GiB", "2h"]);
    refused(&["--skip=-1 requests"], &["--skip", "must be a part of the trace"]);
    refused(&["--speed", "0"], &["--speed 0", "from 0.000001"]);
    refused(
        &["--speed", "2", "--closed-loop"],
        &["workload.speed has no effect unless workload.pacing = \"open\""],
    );
    refused(&["--warmup", "5 request s"], &["--warmup", "2 repeats"]);
    let long = replay(&folder, &["--device", "all", "--measure", "1h"]).ok().json();
    let note = &long["trace"]["notes"][1];
    assert!(
        note.as_str().is_some_and(|note| note.contains("the trace ended before run.measure = 1h")),
        "{note}"
    );
    let long = trace(&folder, &["--device", "all", "--take", "1h", "--closed-loop"]);
    assert_eq!(long["notes"][0], "the trace ended before workload.take = 1h");
    folder.write("e.toml", "[run]\nmeasure = \"5 requests\"\n");
    folder.strobe(&["run", "e.toml"]).refused(&["run.measure = \"5 requests\"", "run.measure of a trace"]);
}

#[test]
fn a_sweep_marks_traces_that_are_too_fast_or_too_short() {
    let folder = mine();
    let text = std::fs::read_to_string(folder.path().join("drive.toml")).expect("a drive");
    let drive = text.replace("[nand]", "[drive.nand]").replace("[ftl]", "[drive.ftl]");
    let workload =
        "[workload]\nkind = \"trace\"\npath = \"t.csv\"\nformat = \"csv\"\ndevice = \"all\"\nrepeat = 10\n";
    let sweep =
        "[sweep.grid]\n\"workload.speed\" = [1.0, 1000000.0]\n\"run.measure\" = [\"10 requests\", \"1h\"]\n";
    folder.write("s.toml", format!("{drive}{workload}{sweep}"));
    let ended = folder.strobe(&["sweep", "s.toml"]).ok();
    let said = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["trace-ended: the trace ended before run.measure", "overloaded: the drive did not keep up"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let csv = folder.read("s-sweep/summary.csv");
    assert_eq!(csv.lines().filter(|line| line.contains("trace-ended 1")).count(), 1, "{csv}");
}

#[test]
fn several_devices_share_the_drive_with_an_offset_each() {
    let folder = mine();
    let placed = trace(&folder, &["--device", "web@0", "--device", "db@128k"]);
    assert_eq!(placed["requests"]["write"], 100);
    assert_eq!(placed["span_bytes"], 128 * 1024 + 20 * 4096);
    assert!(placed["notes"].is_null(), "{placed}");
    // web ends at 76 KiB, and db begins 4 KiB after its offset.
    let close = trace(&folder, &["--device", "web@0", "--device", "db@64k"]);
    let note = close["notes"][0].as_str().expect("a note");
    let wanted = "the devices web and db overlap: both use the same 8.0 KiB of the drive; place db behind web: \
                  --device db@128KiB";
    assert_eq!(note, wanted);
    assert!(trace(&folder, &["--device", "web@0", "--device", "db@128KiB"])["notes"].is_null());
    let all = trace(&folder, &["--device", "all"]);
    assert_eq!(all["span_bytes"], 20 * 4096);
    let note = all["notes"][0].as_str().expect("a note");
    assert!(
        note.contains("lie over each other, such as web and db") && note.contains("--device db@100g"),
        "{note}"
    );
    let one = trace(&folder, &["--device", "db@4k"]);
    assert_eq!((&one["requests"]["write"], &one["span_bytes"]), (&50.into(), &(21 * 4096).into()));
    let refused = |options: &[&str], expected: &[&str]| replay(&folder, options).refused(expected);
    refused(&[], &["a second device `db` after `web`", "--device web@0 --device db@100g"]);
    refused(&["--device", "web@0", "--device", "mail@4k"], &["has no device `mail`, but `web`, `db`"]);
    refused(&["--device", "web", "--device", "db@4k"], &["workload.device", "\"web\"", "with its offset"]);
    refused(&["--device", "web@0", "--device", "web@4k"], &["not in the list yet"]);
    refused(&["--device", "web@0", "--device", "db@15EiB"], &["workload.device", "with its offset"]);
}

#[test]
fn refusals_name_the_key_the_value_and_the_cure() {
    let folder = Folder::new();
    let with = |text: &str, options: &[&str], expected: &[&str]| {
        folder.write("t.csv", text);
        replay(&folder, options).refused(expected);
    };
    let plain = "time,op,lbn,len\n0.1,w,0,8\n0.2,w,8,8\n";
    let refused = |options: &[&str], expected: &[&str]| with(plain, options, expected);
    refused(&["--device", "vol1@100"], &["workload.device = \"vol1@100\"", "512-byte sectors", "100g"]);
    refused(
        &["--device", "vol1@100k"],
        &["no names of devices", "`--device vol1`", "leave it out", "--columns ...,device"],
    );
    refused(&["--take", "0s"], &["workload.take = \"0s\"", "longer than nothing", "leave it out"]);
    refused(&["--measure", "0s"], &["run.measure = \"0s\"", "longer than nothing", "leave it out"]);
    refused(
        &["--set", "run.until_steady=waf"],
        &["run.until_steady=waf", "left out with a trace", "workload.repeat", "run.warmup = \"2 repeats\""],
    );
    refused(&["--repeat", "-1"], &["--repeat -1", "workload.repeat = -1", "from 1 to 1000000"]);
    refused(&["--closed-loop", "--queue-depth", "-1"], &["workload.queue_depth = -1", "from 1 to 65536"]);
    refused(&["--time-unit-ns", "-5"], &["workload.time_unit_ns = -5", "from 1"]);
    for options in [&[][..], &["--format", "csv"]] {
        with("", options, &["empty", "again"]);
        with("time,op,lbn,len\n", options, &["header line", "again"]);
        with("time;op;lbn;len\n0.1;w;0;8\n", options, &["`;` does not separate columns", "tr ';' ','"]);
    }
    let decimals = "0,1;w;0;8\n0,2;w;8;8\n";
    with(decimals, &["--columns", "time,op,lbn,len"], &["line 1", "tr ',;' '.,'"]);
    // The cure works.
    folder.write("t.csv", decimals.replace(',', ".").replace(';', ","));
    assert_eq!(trace(&folder, &["--columns", "time,op,lbn,len"])["requests"]["write"], 2);
}

#[test]
fn columns_are_named_by_the_user_or_the_file() {
    let folder = Folder::new();
    folder.write("t.csv", "1,0,W,0,8\n2,0,W,8,8\n");
    let ended = folder.strobe(&["replay", "t.csv"]);
    ended.refused(&["--format is missing", "t.csv fits no format", "--format csv --columns time,op,lbn,len"]);
    let named = trace(&folder, &["--format", "csv", "--columns", "time,-,op,lbn,len"]);
    assert_eq!((&named["requests"]["write"], &named["duration_ns"]), (&2.into(), &1_000_000_000.into()));
    let refused = |options: &[&str], expected: &[&str]| {
        replay(&folder, &[&["--format", "csv"], options].concat()).refused(expected);
    };
    refused(&["--columns", "time,what,lbn,len"], &["columns: `what` is no column; the names are time, op"]);
    refused(&[], &["line 1", "the columns have no names"]);
    replay(&folder, &["--format", "msr", "--columns", "op,lbn,len"]).refused(&["only format csv"]);
    folder.write("t.csv", "time,op,lbn,len\n1,W,0,8\n");
    assert_eq!(trace(&folder, &[])["requests"]["write"], 1, "the header names the format");
    folder.write("t.csv", "w,8,8\n");
    assert_eq!(trace(&folder, &["--columns", "op,lbn,len"])["requests"]["write"], 1, "names mean csv");
    refused(&["--skip", "-5 requests"], &["--skip", "must be a part of the trace"]);
}

#[test]
fn zstd_is_read_and_whole_seconds_are_noted() {
    let text = "1538323200,0,8,1,1\n".repeat(6) + &"1538323201,0,8,1,1\n".repeat(6);
    // A frame of one raw block.
    let length = text.len() as u32;
    let header = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, length as u8][..], &(length << 3 | 1).to_le_bytes()[..3]];
    let folder = Folder::new();
    folder.write("t.csv", [&header.concat()[..], text.as_bytes()].concat());
    let read = trace(&folder, &["--format", "tencent"]);
    assert_eq!(read["requests"]["write"], 12);
    let note = read["notes"][0].as_str().expect("a note");
    assert!(note.contains("whole seconds") && note.contains("--closed-loop"), "{note}");
    assert!(trace(&folder, &["--format", "tencent", "--closed-loop"])["notes"].is_null());
}
