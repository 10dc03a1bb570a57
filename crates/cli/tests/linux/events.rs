use std::fs;

use serde_json::Value;

use super::{kernel, result};

#[test]
fn a_guest_is_logged_while_its_command_runs() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (lines, trace) = (folder.path().join("events.jsonl"), folder.path().join("trace.json"));
    let command = ["--", "dd", "if=/dev/zero", "of=a", "bs=64k", "count=20", "oflag=dsync"];
    let files = ["--events", lines.to_str().expect("UTF-8"), "--perfetto", trace.to_str().expect("UTF-8")];
    let (plain, _) = result(&kernel, &command);
    let (logged, _) = result(&kernel, &[&files[..], &command].concat());
    assert_eq!(plain, logged, "the log has changed the result");
    let text = fs::read_to_string(&lines).expect("the events");
    let events: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let programs = events
        .iter()
        .filter(|event| event["kind"] == "flash_begin" || event["kind"] == "flash_pending")
        .filter(|event| event["op"] == "program")
        .count();
    assert_eq!(Value::from(programs), plain["nand"]["program"]["total"]);
    let flushes =
        events.iter().filter(|event| event["kind"] == "command_completed" && event["op"] == "flush").count();
    assert!(flushes >= 20, "twenty synced writes: {flushes} flushes");
    let trace: Value = serde_json::from_str(&fs::read_to_string(&trace).expect("the trace")).expect("JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > programs));
}
