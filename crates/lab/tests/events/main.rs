//! The event log: it does not change the run, it matches the result, and its files are well formed.

mod checker;
mod drives;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value;
use strobe_lab::events::{self, EventFile};
use strobe_lab::runner::{self, Observer, Progress};
use strobe_lab::{Experiment, RunResult};
use strobe_nand::{EventLog, Recorded};

use drives::DRIVES;

struct Logger(EventLog);

impl Observer for Logger {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn event_log(&mut self) -> EventLog {
        self.0.clone()
    }
}

fn experiment(text: &str) -> Experiment {
    let table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    Experiment::from_table(table, &[], Path::new("")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn logged(experiment: &Experiment, most: usize) -> (RunResult, Recorded) {
    let mut logger = Logger(EventLog::new(most));
    let result = runner::run(experiment, &mut logger).expect("it runs").reproducible();
    (result, logger.0.take())
}

fn files(recorded: &Recorded, experiment: &Experiment) -> (String, String) {
    let file = EventFile { recorded, drive: &experiment.drive };
    let (mut lines, mut trace) = (Vec::new(), Vec::new());
    events::lines(file, &mut lines).expect("memory takes all");
    events::perfetto(file, &mut trace).expect("memory takes all");
    (String::from_utf8(lines).expect("text"), String::from_utf8(trace).expect("text"))
}

fn parsed(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn count(lines: &[Value], wanted: impl Fn(&Value) -> bool) -> u64 {
    lines.iter().filter(|line| wanted(line)).count() as u64
}

fn assert_adds_up(name: &str, lines: &[Value], result: &Value) {
    let issued = |line: &Value| line["kind"] == "flash_begin" || line["kind"] == "flash_pending";
    for op in ["program", "read", "erase"] {
        let found = count(lines, |line| issued(line) && line["op"] == op);
        assert_eq!(Value::from(found), result["nand"][op]["total"], "{name}: {op}");
        for (cause, total) in result["nand"][op]["by_cause"].as_object().expect("causes") {
            let found = count(lines, |line| issued(line) && line["op"] == op && line["cause"] == **cause);
            assert_eq!(Value::from(found), *total, "{name}: {op} because of {cause}");
        }
    }
    let victims = count(lines, |line| line["kind"] == "victim");
    assert_eq!(Value::from(victims), result["gc"]["victims"], "{name}: victims");
    for op in ["read", "write", "trim", "flush"] {
        let found = count(lines, |line| line["kind"] == "command_completed" && line["op"] == op);
        assert_eq!(Value::from(found), result["host"][op]["commands"], "{name}: {op} commands");
    }
}

#[test]
fn a_log_changes_nothing_adds_up_and_is_well_formed() {
    let mut kinds = BTreeMap::new();
    for (name, text) in DRIVES {
        let experiment = experiment(text);
        let plain = runner::run(&experiment, &mut ()).expect("it runs").reproducible();
        let (result, recorded) = logged(&experiment, EventLog::MOST);
        assert_eq!(result, plain, "{name}: the log has changed the result");
        let (lines, trace) = files(&recorded, &experiment);
        let parsed = parsed(&lines);
        assert_adds_up(name, &parsed, &serde_json::to_value(&result).expect("plain data"));
        checker::check_lines(name, &parsed);
        checker::check_trace(name, &trace);
        for line in &parsed {
            *kinds.entry(line["kind"].as_str().expect("a kind").to_owned()).or_insert(0u64) += 1;
        }
        let again = logged(&experiment, EventLog::MOST).1;
        assert!(files(&again, &experiment) == (lines, trace), "{name}: another run, other bytes");
    }
    for kind in [
        "command_submitted",
        "flash_end",
        "flash_suspended",
        "flash_resumed",
        "transfer",
        "victim",
        "block_opened",
        "block_closed",
        "block_erased",
        "throttle_on",
        "throttle_off",
        "epoch_ended",
    ] {
        assert!(kinds.contains_key(kind), "no drive has logged {kind}: {kinds:?}");
    }
}

#[test]
fn a_log_that_is_full_stops_and_says_so() {
    let experiment = experiment(DRIVES[0].1);
    let (result, recorded) = logged(&experiment, 500);
    assert_eq!(result, runner::run(&experiment, &mut ()).expect("it runs").reproducible());
    assert!(recorded.is_cut_off && recorded.events.len() == 500);
    let warning = events::warning(&recorded).expect("a warning");
    assert!(warning.contains("full after 500 events") && warning.contains("run.measure"), "{warning}");
    let (lines, trace) = files(&recorded, &experiment);
    checker::check_lines("full", &parsed(&lines));
    checker::check_trace("full", &trace);
    let whole = logged(&experiment, EventLog::MOST).1;
    assert!(events::warning(&whole).is_none());
    assert!(whole.events[..400] == recorded.events[..400], "the begin of a full log is that of a whole one");
}

#[test]
fn victims_name_their_score_and_the_runner_up_of_their_policy() {
    let text = DRIVES[0].1.replace("blocks_per_plane", "#").replace("#", "blocks_per_plane");
    for (victim, has_scores) in [
        ("greedy", true),
        ("cost-benefit", true),
        ("scata", true),
        ("capi", true),
        ("fifo", false),
        ("age * (1-u) / (1+u)^2", true),
    ] {
        let mut experiment = experiment(&text);
        experiment.drive.ftl.gc.victim = victim.to_owned();
        let (_, recorded) = logged(&experiment, EventLog::MOST);
        let (lines, _) = files(&recorded, &experiment);
        let (mut victims, mut runners) = (0, 0);
        for line in parsed(&lines).iter().filter(|line| line["kind"] == "victim") {
            victims += 1;
            assert_eq!(line["policy"], victim);
            assert_eq!(line["score"].is_null(), !has_scores, "{line}");
            let share = line["valid_share"].as_f64().expect("a share");
            assert!((0.0..1.0).contains(&share), "{line}");
            if let Some(other) = line["runner_up"]["score"].as_f64()
                && let Some(score) = line["score"].as_f64()
            {
                runners += 1;
                assert!(
                    score >= other * (1.0 - 1e-12),
                    "{victim}: the runner-up has the better score: {line}"
                );
                assert_ne!(line["block"], line["runner_up"]["block"]);
            }
        }
        assert!(
            victims > 10 && (runners > 10) == has_scores,
            "{victim}: {victims} victims, {runners} runners-up"
        );
    }
}
