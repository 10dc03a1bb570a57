//! Invariants of event logs, on any drive.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

pub(crate) fn check_lines(name: &str, lines: &[Value]) {
    assert_eq!(lines[0]["kind"], "log_begin", "{name}");
    assert_eq!(lines[lines.len() - 1]["kind"], "log_end", "{name}");
    let mut last = 0;
    let (mut begun, mut submitted) = (BTreeMap::new(), BTreeSet::new());
    for line in lines {
        let now = number(&line["t_ns"]);
        assert!(now >= last, "{name}: time goes back at {line}");
        last = now;
        match line["kind"].as_str().expect("a kind") {
            "flash_begin" => {
                let is_new = begun.insert(number(&line["operation"]), now).is_none();
                assert!(is_new, "{name}: begins twice: {line}");
                if !line["command"].is_null() {
                    assert!(submitted.contains(&number(&line["command"])), "{name}: of no command: {line}");
                }
            }
            "flash_end" => {
                let begin = begun.remove(&number(&line["operation"]));
                assert!(begin.is_some_and(|begin| begin <= now), "{name}: ends without a begin: {line}");
            }
            "command_submitted" => assert!(submitted.insert(number(&line["command"])), "{name}: {line}"),
            _ => {}
        }
    }
}

fn ns(event: &Value, member: &str) -> u64 {
    let micros = event[member].as_f64().unwrap_or_else(|| panic!("no {member}: {event}"));
    assert!(micros >= 0.0, "{event}");
    (micros * 1000.0).round() as u64
}

type Track = (u64, u64);

pub(crate) fn check_trace(name: &str, text: &str) {
    let trace: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let events = trace["traceEvents"].as_array().expect("events");
    let mut names: BTreeSet<Track> = BTreeSet::new();
    let mut slices: BTreeMap<Track, Vec<(u64, u64)>> = BTreeMap::new();
    let mut flows: BTreeMap<&str, BTreeMap<u64, (Track, u64)>> = BTreeMap::new();
    let mut used: BTreeSet<Track> = BTreeSet::new();
    for event in events {
        let track = (number(&event["pid"]), number(&event["tid"]));
        let at = ns(event, "ts");
        let ph = event["ph"].as_str().expect("a phase");
        assert!(event["name"].is_string(), "{name}: {event}");
        match ph {
            "M" => {
                if event["name"] == "thread_name" {
                    assert!(names.insert(track), "{name}: two names: {event}");
                }
                continue;
            }
            "X" => slices.entry(track).or_default().push((at, at + ns(event, "dur"))),
            "s" | "f" => {
                let is_new = flows.entry(ph).or_default().insert(number(&event["id"]), (track, at)).is_none();
                assert!(is_new, "{name}: a flow twice: {event}");
            }
            "i" => assert_eq!(event["s"], "t", "{name}: {event}"),
            "C" => assert!(event["args"]["value"].is_u64(), "{name}: {event}"),
            _ => panic!("{name}: an unknown phase: {event}"),
        }
        used.insert(track);
    }
    assert!(used.is_subset(&names), "{name}: tracks without names: {:?}", used.difference(&names));
    for (track, slices) in &mut slices {
        slices.sort_unstable();
        for pair in slices.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{name}: {pair:?} overlap on {track:?}");
        }
    }
    let (starts, ends) = (flows.remove("s").unwrap_or_default(), flows.remove("f").unwrap_or_default());
    assert!(!starts.is_empty(), "{name}: no flow");
    assert!(starts.keys().eq(ends.keys()), "{name}: a flow without an end");
    for (id, start) in &starts {
        assert!(start.1 <= ends[id].1, "{name}: flow {id} goes back in time");
        for (track, at) in [start, &ends[id]] {
            let has_slice = slices[track].iter().any(|&(from, until)| from <= *at && *at <= until);
            assert!(has_slice, "{name}: flow {id} is bound to nothing at {at}");
        }
    }
}
