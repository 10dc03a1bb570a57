use serde_json::Value as Json;

use crate::Folder;
use crate::determinism::assert_golden;

/// Short, but contains victims.
const SHORT: [&str; 6] = ["run", "tiny.toml", "--quiet", "--set", "run.measure=40", "--events"];

fn lines(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn golden_events_of_a_short_window() {
    let folder = Folder::new();
    let ended = folder.strobe(&[&SHORT[..], &["-"]].concat()).ok();
    assert!(lines(&ended.out).iter().any(|line| line["kind"] == "victim"), "a window without a victim");
    assert_golden("golden-events.jsonl", &ended.out);
    folder.strobe(&[&SHORT[..], &["events.jsonl", "--perfetto", "trace.json"]].concat()).ok();
    assert_eq!(folder.read("events.jsonl"), ended.out, "the file is what is printed");
    assert_golden("golden-events.perfetto.json", &folder.read("trace.json"));
}

#[test]
fn a_log_leaves_the_result_as_it_is() {
    let folder = Folder::new();
    let run = ["run", "tiny.toml", "--reproducible", "--json", "-"];
    let plain = folder.strobe(&run).ok();
    let logged = folder.strobe(&[&run[..], &["--events", "a", "--perfetto", "b"]].concat()).ok();
    assert_eq!(plain.out, logged.out);
    let result = plain.json();
    let victims = lines(&folder.read("a")).iter().filter(|line| line["kind"] == "victim").count();
    assert_eq!(Json::from(victims), result["gc"]["victims"]);
}

#[test]
fn replays_have_a_log_too() {
    let folder = Folder::new();
    folder.write("trace.strobe", "strobe trace 1\n0 write 0 8192\n3000000 read 4096 4096\n4000000 flush\n");
    folder.replay("trace.strobe", "strobe", &["--events", "events.jsonl"]).ok();
    let lines = lines(&folder.read("events.jsonl"));
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    let kinds: Vec<&Json> = of("command_submitted").iter().map(|line| &line["op"]).collect();
    assert_eq!(kinds, ["write", "read", "flush"]);
    let [read] = of("flash_begin").into_iter().filter(|line| line["op"] == "read").collect::<Vec<_>>()[..]
    else {
        panic!("one read: {lines:?}")
    };
    assert_eq!((&read["command"], &read["cause"]), (&Json::from(1), &Json::from("host")));
}

#[test]
fn what_cannot_be_logged_or_written_is_refused_before_the_run() {
    let folder = Folder::new();
    for option in ["--events", "--perfetto"] {
        let run = ["run", "tiny.toml", option];
        folder.strobe(&[&run[..], &["out", "--set", "run.timing=false"]].concat()).refused(&[
            option,
            "run.timing = false",
            "--set run.timing=true",
        ]);
        folder.strobe(&[&run[..], &["tiny.toml"]].concat()).refused(&[option, "tiny.toml"]);
        folder.strobe(&[&run[..], &["no/such/folder"]].concat()).refused(&[option]);
        folder.strobe(&[&run[..], &["out", "--json", "out"]].concat()).refused(&[option, "--json"]);
        assert!(!folder.path().join("out").exists());
    }
}
