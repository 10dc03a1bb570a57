use super::*;
use crate::figures::found;
use strobe_sweep::{Difference, best_line, tables};

const VICTIMS: &str = "\"drive.ftl.gc.victim\" = [\"fifo\", \"greedy\", \"random\"]\n";

fn mean(summary: &Summary, configuration: usize) -> f64 {
    summary.configurations[configuration].measures[0].expect("a mean").mean
}

#[test]
fn the_best_value_of_the_compared_key_is_found_in_each_cell() {
    let grid =
        format!("[sweep]\nseeds = 3\n[sweep.grid]\n\"drive.ftl.over_provisioning\" = [0.15, 0.3]\n{VICTIMS}");
    let (plan, summary) = found(&grid);
    assert_eq!(summary.best.len(), 2);
    for (cell, best) in summary.best.iter().enumerate() {
        let mut ranked: Vec<usize> = (3 * cell..3 * cell + 3).collect();
        ranked.sort_by(|&one, &other| mean(&summary, one).total_cmp(&mean(&summary, other)));
        assert_eq!([best.configuration, best.baseline], ranked[..2], "{best:?}");
        let share = mean(&summary, ranked[0]) / mean(&summary, ranked[1]) - 1.0;
        assert!((best.relative.mean - share).abs() < 1e-12 && best.relative.half_width.is_some());
        let alone = best.relative.p_value().expect("three seeds");
        // Holm's method for two cells.
        assert!(best.p.is_some_and(|p| p >= alone && p <= (2.0 * alone).min(1.0)), "{best:?}");
    }
    let whole = page("s", &plan, &summary);
    let (_, table) = whole.split_once("<h2>Best victim by WAF</h2>").expect("a table");
    let (table, _) = table.split_once("</section>").expect("an end");
    assert_eq!(table.matches("<tr>").count(), 3, "{table}");
    for part in ["over-provisioning", "best victim", "second", "better", "method for 2 comparisons"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let cell = format!("<td>greedy</td><td class=\"n\">{:.1}", mean(&summary, 4));
    assert!(table.contains(&cell), "{cell}: {table}");
    let best = best_line(&plan, &summary).expect("a line");
    let wanted = format!("best: over-provisioning 0.3, victim greedy (lowest WAF: {:.1}", mean(&summary, 4));
    assert!(best.starts_with(&wanted) && best.contains(" ± "), "{best}");
}

#[test]
fn different_workloads_have_no_common_best_and_times_have_units() {
    let grid = format!("[sweep.grid]\n\"workload.write_fraction\" = [0.6, 0.8, 1.0]\n{VICTIMS}");
    let (plan, summary) = found(&grid);
    let best = best_line(&plan, &summary).expect("a line");
    let wanted =
        "best: victim by WAF: greedy in 3 (of 3 combinations of write fraction; report.html has each)";
    assert_eq!(best, wanted);
    // A count that is neither good nor bad has no best; a time has a unit; of rates the highest is the best.
    let of = |measure: &str| {
        let (plan, summary) = found(&format!(
            "[sweep]\nmeasure = \"{measure}\"\n[sweep.grid]\n\"run.timing\" = [true]\n{VICTIMS}"
        ));
        assert_eq!(summary.best.len(), usize::from(measure != "window.host_pages"));
        best_line(&plan, &summary)
    };
    assert_eq!(of("window.host_pages"), None);
    let time = of("write.mean_ns").expect("a line");
    assert!(time.starts_with("best: victim greedy (lowest write mean: ") && time.ends_with(" ms)"), "{time}");
    let rate = of("write.iops").expect("a line");
    assert!(rate.starts_with("best: victim greedy (highest write IOPS: "), "{rate}");
}

#[test]
fn one_seed_is_said_once() {
    let grid = format!("[sweep]\nmeasure = [\"waf\", \"gc.copies_per_erase\"]\n[sweep.grid]\n{VICTIMS}");
    let (plan, summary) = found(&grid);
    assert!(!summary.differences.iter().any(Difference::has_verdict));
    for table in &tables(&plan, &summary, Naming::Paths)[1..] {
        assert_eq!(table.columns.last().map(|(name, _)| name.as_str()), Some("difference"));
        assert_eq!((table.note.as_deref(), table.rows[0].len()), (None, 2));
    }
    assert_eq!(page("s", &plan, &summary).matches("One seed each").count(), 1);
    // If some configurations have several seeds, the first table of differences says it.
    let folder = tempfile::tempdir().expect("a folder");
    let several = grid.replace("[sweep]", "[sweep]\nseeds = 2");
    let plan = self::plan(&several);
    in_order(&plan, folder.path());
    let store = open_store(folder.path()).expect("a store");
    let summary = Summary::of(&plan, &store, &[0, 1, 2, 3, 4]).expect("a summary");
    let found = tables(&plan, &summary, Naming::Paths);
    assert_eq!(found[1].rows[1].last().map(String::as_str), Some("-"), "{:?}", found[1]);
    let says = |table: &strobe_report::Table| {
        table.note.as_deref().is_some_and(|note| note.contains("one seed cannot tell"))
    };
    assert_eq!(found.iter().map(says).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_sweep_of_a_trace_is_the_same_from_any_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let requests: String =
        (0..400).map(|at| format!("{} a write {} 4096\n", at * 1000, at % 90 * 4096)).collect();
    let trace = format!("fio version 3 iolog\n0 a add\n0 a open\n{requests}");
    std::fs::create_dir(folder.path().join("moved")).expect("a folder");
    let plan_of = |name: &str, grid: bool| {
        let path = folder.path().join(name);
        std::fs::write(&path, &trace).expect("written");
        let path = toml::Value::String(path.display().to_string());
        let (fixed, varied) = if grid {
            (String::new(), format!("\"workload.path\" = [{path}]\n"))
        } else {
            (format!("path = {path}\n"), String::new())
        };
        let text = format!(
            "{}[workload]\nkind = \"trace\"\nformat = \"fio\"\n{fixed}[sweep]\nseeds = 2\n[sweep.grid]\n{varied}{VICTIMS}",
            SMALL.replace("warmup = \"2x\"\nmeasure = \"1x\"\n", "")
        );
        let file = SweepFile::of(text.parse().expect("TOML"), Path::new("")).expect("a sweep");
        Arc::new(Plan::new(file).expect("a plan"))
    };
    let keys = |plan: &Plan| plan.points.iter().map(|point| point.key.clone()).collect::<Vec<_>>();
    for grid in [false, true] {
        let (here, there) = (plan_of("a.log", grid), plan_of("moved/a.log", grid));
        assert_eq!(keys(&here), keys(&there));
        assert!(keys(&here) != keys(&plan_of("b.log", grid)), "another name may be another format");
        // A folder of results is resumed from elsewhere; seeds run in both places have equal results.
        let out = folder.path().join(format!("out-{grid}"));
        let mut one = open_store(&out).expect("a store");
        let mut first = |plan: &Arc<Plan>, point: usize| {
            let task = plan.task(point, None);
            let outcome = Outcome::of_answer(&carry_out(&task.to_line())).expect("an answer");
            one.keep(&plan.points[point].key, &outcome).expect("kept");
        };
        first(&here, 0);
        first(&there, 1);
        let summary = Summary::of(&there, &one, &[0, 1]).expect("a summary");
        assert!(summary.configurations[0].is_same, "{:?}", summary.configurations[0]);
    }
}
