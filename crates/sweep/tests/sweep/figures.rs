//! Figures and words about configurations that are compared, and those that are not.

use super::*;
use strobe_sweep::tables;
use strobe_sweep::words::{about_intervals, about_left_out};

/// The plan of `sweep`, and what its runs have come to.
fn found(sweep: &str) -> (Arc<Plan>, Summary) {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan(sweep);
    in_order(&plan, folder.path());
    let store = open_store(folder.path()).expect("a store");
    let summary = Summary::of(&plan, &store, &(0..plan.points.len()).collect::<Vec<_>>()).expect("a summary");
    (plan, summary)
}

const SCHEME: &str = "\"drive.ftl.placement.scheme\"";

#[test]
fn two_keys_of_names_are_groups_of_bars_with_a_colour_for_each_value_of_the_second() {
    let (plan, summary) = found(&format!(
        "[sweep.grid]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"(1-u)/u*sqrt(age_closed)\"]\n\
         {SCHEME} = [\"sep-gc\", \"sepbit\", \"uw\"]\n"
    ));
    let chart = charts(&plan, &summary).remove(0);
    assert_eq!(chart.groups, ["greedy", "(1-u)/u*sqrt(age_closed)"]);
    let kinds: Vec<&str> = chart.curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(kinds, ["sep-gc", "sepbit", "uw"]);
    assert!(chart.curves.iter().all(|curve| curve.points.iter().map(|point| point.x).eq([0.0, 1.0])));
    // One key alone has a group for each value, and so have keys that go together.
    let (plan, summary) = found(&format!("[sweep.grid]\n{SCHEME} = [\"sep-gc\", \"sepbit\"]\n"));
    let chart = charts(&plan, &summary).remove(0);
    assert_eq!((&chart.groups[..], chart.curves.len()), (&["sep-gc".to_owned(), "sepbit".to_owned()][..], 1));
    let (plan, summary) = found(POINTS);
    let chart = charts(&plan, &summary).remove(0);
    assert_eq!((&chart.groups[0][..], chart.groups.len(), chart.curves.len()), ("none, host", 3, 1));
}

/// NoSep, and two schemes that leave the stream of relocation alone.
const POINTS: &str = "[sweep]\nseeds = 2\ncompare = \"drive.ftl.placement.scheme\"\npoints = [\
    { \"drive.ftl.placement.scheme\" = \"none\", \"drive.ftl.gc.stream\" = \"host\" }, \
    { \"drive.ftl.placement.scheme\" = \"sep-gc\" }, { \"drive.ftl.placement.scheme\" = \"sepbit\" }]\n";

#[test]
fn a_value_that_differs_in_another_key_too_is_named_below_the_differences() {
    let (plan, summary) = found(POINTS);
    let line = about_left_out(&plan, &summary).expect("one is left out");
    for part in ["scheme none", "stream host", "in stream, too", "The baseline is sep-gc instead"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let tables = tables(&plan, &summary);
    let note = tables[1].note.as_deref().expect("a note");
    assert!(note.contains(&line) && note.contains("the baseline's mean"), "{note}");
    assert!(page("s", &plan, &summary).contains("The baseline is sep-gc instead"));
    assert!(!about_intervals(&plan, &summary).contains("trace"), "no trace is replayed");
    let (plan, summary) = found(&format!("[sweep.grid]\n{SCHEME} = [\"sep-gc\", \"sepbit\"]\n"));
    assert_eq!(about_left_out(&plan, &summary), None);
    // Where nothing can be compared, the means say so.
    let apart = POINTS.replace("\"sepbit\" }", "\"sepbit\", \"drive.ftl.gc.victim\" = \"fifo\" }");
    let (plan, summary) = found(&apart);
    assert!(summary.differences.is_empty());
    let note = strobe_sweep::tables(&plan, &summary).remove(0).note.expect("a note");
    assert!(note.contains("Not compared: scheme none"), "{note}");
}
