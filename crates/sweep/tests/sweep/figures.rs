use super::*;
use strobe_sweep::tables;
use strobe_sweep::words::{about_intervals, about_left_out};

pub(super) fn found(sweep: &str) -> (Arc<Plan>, Summary) {
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
    // A single key has a group for each value; so have keys of `sweep.points`.
    let (plan, summary) = found(&format!("[sweep.grid]\n{SCHEME} = [\"sep-gc\", \"sepbit\"]\n"));
    let chart = charts(&plan, &summary).remove(0);
    assert_eq!((&chart.groups[..], chart.curves.len()), (&["sep-gc".to_owned(), "sepbit".to_owned()][..], 1));
    let (plan, summary) = found(POINTS);
    let chart = charts(&plan, &summary).remove(0);
    assert_eq!((&chart.groups[0][..], chart.groups.len(), chart.curves.len()), ("none, host", 3, 1));
}

/// NoSep, and two schemes without a setting of the relocation stream.
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
    let tables = tables(&plan, &summary, Naming::Paths);
    let note = tables[1].note.as_deref().expect("a note");
    assert!(note.contains(&line) && note.contains("the baseline's mean"), "{note}");
    assert!(page("s", &plan, &summary).contains("The baseline is sep-gc instead"));
    assert!(!about_intervals(&plan, &summary).contains("trace"), "no trace is replayed");
    let (plan, summary) = found(&format!("[sweep.grid]\n{SCHEME} = [\"sep-gc\", \"sepbit\"]\n"));
    assert_eq!(about_left_out(&plan, &summary), None);
    // Without any comparison, the note is below the means.
    let apart = POINTS.replace("\"sepbit\" }", "\"sepbit\", \"drive.ftl.gc.victim\" = \"fifo\" }");
    let (plan, summary) = found(&apart);
    assert!(summary.differences.is_empty());
    let note = strobe_sweep::tables(&plan, &summary, Naming::Paths).remove(0).note.expect("a note");
    assert!(note.contains("Not compared: scheme none"), "{note}");
}

/// A third axis gives a chart for each of its values.
#[test]
fn many_curves_are_divided_among_charts() {
    let grid = "[sweep.grid]\n\"drive.ftl.over_provisioning\" = [0.2, 0.3]\n\
                \"workload.write_fraction\" = [0.6, 0.8, 1.0]\n\
                \"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\", \"random\"]\n";
    let (plan, summary) = found(grid);
    let drawn = charts(&plan, &summary);
    let names: Vec<&str> = drawn.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(names, ["waf-write-fraction-0-6", "waf-write-fraction-0-8", "waf-write-fraction-1-0"]);
    for chart in &drawn {
        let curves: Vec<&str> = chart.curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!((&curves[..], &chart.note), (&["greedy", "fifo", "random"][..], &None));
        assert!(chart.curves.iter().all(|curve| curve.points.len() == 2) && chart.svg().is_some());
        assert_eq!(chart.over.as_deref(), Some("drive.ftl.over_provisioning"));
    }
    assert!(drawn[1].title.ends_with(", write fraction 0.8"), "{}", drawn[1].title);
    let (plan, summary) = found(&format!("[sweep]\nx = \"workload.write_fraction\"\n{grid}"));
    let drawn = charts(&plan, &summary);
    // Six curves are distinguishable.
    assert_eq!((drawn.len(), drawn[0].curves.len(), drawn[0].curves[0].points.len()), (1, 6, 3));
    assert!(refusal(&format!("[sweep]\nx = \"workload.theta\"\n{grid}")).contains("not a key"));
    assert!(refusal(&format!("[sweep]\nx = \"drive.ftl.gc.victim\"\n{grid}")).contains("a key with numbers"));
    // Excess curves over one key are dropped with a note.
    let seeds: Vec<String> = (1..=13).map(|at| format!("\"age * {at}\"")).collect();
    let many = format!(
        "[sweep.grid]\n\"drive.ftl.over_provisioning\" = [0.2, 0.3]\n\"drive.ftl.gc.victim\" = [{}]\n",
        seeds.join(", ")
    );
    let (plan, summary) = found(&many);
    let drawn = charts(&plan, &summary);
    assert_eq!((drawn.len(), drawn[0].curves.len()), (1, 12));
    assert!(
        drawn[0].note.as_deref().is_some_and(|note| note.contains("first 12 of 13 curves")),
        "{:?}",
        drawn[0].note
    );
}

#[test]
fn the_compared_key_is_no_trace() {
    let compared = |grid: &str| file(&format!("[sweep.grid]\n{grid}")).expect("a sweep").compare;
    let (victims, paths) =
        ("\"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\"]", "\"workload.path\" = [\"a.csv\", \"b.csv\"]");
    assert_eq!(compared(&format!("{victims}\n{paths}")).as_deref(), Some("drive.ftl.gc.victim"));
    assert_eq!(compared(paths), None);
    let asked = file(&format!("[sweep]\ncompare = \"workload.path\"\n[sweep.grid]\n{victims}\n{paths}"));
    assert_eq!(asked.expect("a sweep").compare.as_deref(), Some("workload.path"));
}
