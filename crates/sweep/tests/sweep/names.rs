use crate::*;

const NAMED: &str = "
[sweep]
seeds = 2
[sweep.names]
youngest = \"age * (1-u) / (1+u)^2\"
halves = \"min(writes / 4, 2) + 3 * is_copy\"
[sweep.grid]
\"drive.ftl.gc.victim\" = [\"fifo\", \"youngest\"]
\"drive.ftl.placement.scheme\" = [\"none\", \"halves\"]
";

#[test]
fn a_name_stands_for_its_formula_and_is_what_people_see() {
    let (named, folder) = (plan(NAMED), tempfile::tempdir().expect("a folder"));
    let formulas = NAMED
        .replace("\"youngest\"]", "\"age * (1-u) / (1+u)^2\"]")
        .replace("\"halves\"]", "\"min(writes / 4, 2) + 3 * is_copy\"]");
    let without = formulas.split("[sweep.names]").next().expect("the head").to_owned()
        + &formulas[formulas.find("[sweep.grid]").expect("a grid")..];
    let keys = |plan: &Plan| plan.points.iter().map(|point| point.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&named), keys(&plan(&without)), "a result is that of the formula, whatever its name");

    in_order(&named, folder.path());
    let store = open_store(folder.path()).expect("a store");
    let all: Vec<usize> = (0..named.points.len()).collect();
    let summary = Summary::of(&named, &store, &all).expect("a summary");
    assert!(summary.configurations.iter().all(|found| found.runs == (2, 0)), "{summary:?}");
    let csv = summary.csv(&named);
    let rows = strobe_sweep::tables(&named, &summary, Naming::Paths)[0].latex();
    let chart = charts(&named, &summary).remove(0);
    let bars = chart.svg().expect("bars");
    let page = page("s", &named, &summary);
    for (place, text) in [("csv", &csv), ("table", &rows), ("figure", &bars), ("page", &page)] {
        assert!(text.contains("youngest") && text.contains("halves"), "{place}: {text}");
        assert!(
            place == "page" || !text.contains("age * ") && !text.contains("writes / 4"),
            "{place}: {text}"
        );
    }
    assert!(page.contains("age * (1-u)"), "the page has the formula in its file");
}

#[test]
fn names_that_stand_for_nothing_are_refused() {
    let grid = "[sweep.grid]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"mine\"]\n\"run.measure\" = [\"1x\"]";
    for (names, wanted) in [
        ("mine = \"age * (1-u\"", "')' is missing"),
        ("mine = 3", "a formula is a text"),
        ("mine = \"age\"\nfifo = \"age\"", "fifo is the name of a built-in policy"),
        ("mine = \"age\"\nsepbit = \"age\"", "sepbit is the name of a built-in policy"),
        ("mine = \"age\"\nmin = \"age\"", "in the grid or in points is \"min\""),
        // A value, but of a key that takes no formula.
        ("mine = \"age\"\n1x = \"age\"", "in the grid or in points is \"1x\""),
    ] {
        let found = refusal(&format!("[sweep.names]\n{names}\n{grid}"));
        assert!(found.contains(wanted), "{found:?} does not say {wanted:?}");
    }
    let found = refusal(&format!("[sweep]\nnames = 3\n{grid}"));
    assert!(found.contains("[sweep.names]"), "{found}");
}
