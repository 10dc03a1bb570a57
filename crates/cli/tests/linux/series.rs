use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{kernel, result, strobe, text};

const SYNCED: [&str; 4] = [
    "--",
    "sh",
    "-c",
    "for i in 1 2 3 4 5; do dd if=/dev/zero of=a$i bs=64k count=20 oflag=dsync 2>/dev/null; sleep 0.1; done",
];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn intervals_add_up_to_what_the_guest_did() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("series.csv");
    let file = path.to_str().expect("UTF-8");
    let arguments = [&["--interval", "100ms", "--series", file][..], &SYNCED].concat();
    let (value, bytes) = result(&kernel, &arguments);
    let csv = fs::read_to_string(&path).expect("the series");
    let intervals = value["intervals"].as_array().expect("intervals");
    let measured: Vec<&Value> = intervals.iter().filter(|of| of["measured"] == true).collect();
    let length_s = |of: &Value| (number(&of["end_ns"]) - number(&of["start_ns"])) / 1e9;
    let amount = |op: &str, rate: &str| {
        measured.iter().map(|of| number(&of[op][rate]) * length_s(of)).sum::<f64>().round()
    };
    // Intervals are contiguous from power-on to power-off.
    assert!(intervals.windows(2).all(|pair| pair[0]["end_ns"] == pair[1]["start_ns"]));
    assert_eq!(intervals[0]["start_ns"], 0);
    assert_eq!(intervals[intervals.len() - 1]["end_ns"], value["time"]["session_ns"]);
    // Exactly the window is measured: every request of it is in one interval.
    let window: f64 = measured.iter().map(|of| length_s(of) * 1e9).sum();
    assert!((window - number(&value["time"]["virtual_ns"])).abs() < 1.0);
    assert_eq!(amount("write", "iops"), number(&value["requests"]["write"]));
    assert_eq!(amount("sync", "iops"), number(&value["requests"]["flush"]));
    assert!(amount("write", "bw_bytes") >= 100.0 * 65536.0 - 100.0);
    assert!(measured.len() >= 6, "five rests of 100 ms: {}", measured.len());
    // Each synced write that extends a file is a journal commit.
    let commits: f64 = measured.iter().map(|of| number(&of["kernel"]["commits"])).sum();
    assert!((100.0..=130.0).contains(&commits), "{commits}");
    assert!(measured.iter().all(|of| of["kernel"]["cleanings"].is_null()), "ext4 does not clean");
    assert_eq!(csv.lines().count(), intervals.len() + 1);
    let names: Vec<&str> = csv.lines().next().expect("names").split(',').collect();
    for (line, interval) in csv.lines().skip(1).zip(intervals) {
        let row: Vec<&str> = line.split(',').collect();
        assert_eq!(row.len(), names.len());
        let at = |name: &str| row[names.iter().position(|of| *of == name).expect(name)];
        assert_eq!(at("end_ns"), interval["end_ns"].to_string());
        assert_eq!(at("commits").parse().ok(), interval["kernel"]["commits"].as_u64());
    }
    assert!(bytes == result(&kernel, &arguments).1, "another run, other bytes");
    let json = folder.path().join("result.json");
    fs::write(&json, serde_json::to_string(&value).expect("JSON")).expect("written");
    let mut report = Command::new(env!("CARGO_BIN_EXE_strobe"));
    let output = report.arg("report").arg(&json).arg("--svg").arg(folder.path()).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    for picture in ["iops.svg", "dirty.svg", "commits.svg", "latency-write.svg"] {
        assert!(folder.path().join(picture).exists(), "no {picture}");
    }
}

#[test]
fn a_series_that_goes_nowhere_is_refused() {
    let Some(kernel) = kernel() else { return };
    let output = strobe(&kernel, &["--interval", "1s", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("add --series FILE"), "{}", text(&output.stderr));
    let output = strobe(&kernel, &["--interval", "10us", "--series", "-", "--", "true"]);
    assert!(text(&output.stderr).contains("1ms or more"), "{}", text(&output.stderr));
}
