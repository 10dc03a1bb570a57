//! Sweeps give the same rows with any workers, any order and any number of kills.

mod best;
mod coverage;
mod figures;
mod names;
mod refusals;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use strobe_sweep::{
    Naming, Outcome, Plan, Rows, Schedule, Seeds, Step, Summary, Sweep, SweepError, SweepFile, Task,
    carry_out, charts, open_store, page, write_parquet,
};

const SMALL: &str = "
[drive.nand]
blocks_per_plane = 64
pages_per_block = 32
[drive.ftl]
over_provisioning = 0.2
[run]
warmup = \"2x\"
measure = \"1x\"
timing = false
";

fn file(sweep: &str) -> Result<SweepFile, SweepError> {
    SweepFile::of(format!("{SMALL}\n{sweep}").parse().expect("TOML"), Path::new(""))
}

fn plan(sweep: &str) -> Arc<Plan> {
    Arc::new(Plan::new(file(sweep).expect("a sweep")).expect("a plan"))
}

fn refusal(sweep: &str) -> String {
    file(sweep).and_then(Plan::new).expect_err("refused").to_string()
}

/// Runs the remaining points in the order chosen by `pick`. `die` gives the number of worker deaths of a
/// task.
fn run(
    plan: &Arc<Plan>,
    folder: &Path,
    on_their_way: usize,
    mut pick: impl FnMut(usize) -> usize,
    die: impl Fn(&Task) -> u32,
) -> Vec<u8> {
    let mut store = open_store(folder).expect("a store");
    let mut schedule = Schedule::new(plan, &mut store, folder).expect("a schedule");
    let (mut tasks, mut deaths) = (Vec::new(), BTreeMap::new());
    loop {
        let step =
            if tasks.len() < on_their_way { schedule.next_step().expect("a step") } else { Step::Wait };
        match step {
            Step::Run(task) => tasks.push(task),
            Step::End => break,
            Step::Wait => {
                let task = tasks.swap_remove(pick(tasks.len()));
                let died = deaths.entry(task.point).or_insert(0u32);
                if *died < die(&task) {
                    *died += 1;
                    schedule.lost(task.point, "killed", &mut store).expect("kept");
                } else {
                    let outcome = Outcome::of_answer(&carry_out(&task.to_line())).expect("an answer");
                    schedule.done(task.point, &outcome, &mut store).expect("kept");
                }
            }
        }
    }
    let rows = Rows::new(plan, &store, schedule.wanted()).expect("rows");
    let mut bytes = Vec::new();
    write_parquet(&rows, &store, &mut bytes).expect("written");
    assert!(!folder.join("states").read_dir().is_ok_and(|mut left| left.next().is_some()), "a state is left");
    bytes
}

fn in_order(plan: &Arc<Plan>, folder: &Path) -> Vec<u8> {
    run(plan, folder, 1, |_| 0, |_| 0)
}

const GRID: &str = "
[sweep]
seeds = 3
[sweep.grid]
\"drive.ftl.over_provisioning\" = [0.15, 0.3]
\"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\"]
";

#[test]
fn every_combination_and_seed_is_a_row_with_what_a_run_of_its_own_gives() {
    let (plan, folder) = (plan(GRID), tempfile::tempdir().expect("a folder"));
    assert_eq!((plan.configurations.len(), plan.points.len()), (4, 12));
    let bytes = in_order(&plan, folder.path());
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("Parquet");
    let schema = reader.metadata().file_metadata().schema_descr();
    let names: Vec<String> = schema.columns().iter().map(|column| column.name().to_owned()).collect();
    let place = |name: &str| names.iter().position(|other| other == name).expect("a column");
    let mut seen = Vec::new();
    for row in reader.get_row_iter(None).expect("rows") {
        let row = row.expect("a row");
        let victim = row.get_string(place("drive.ftl.gc.victim")).expect("text").clone();
        let spare = row.get_double(place("drive.ftl.over_provisioning")).expect("number");
        let seed = row.get_long(place("seed")).expect("whole");
        let waf = row.get_double(place("waf")).expect("number");
        let table = SMALL.parse().expect("TOML");
        let sets = [
            format!("drive.ftl.gc.victim={victim}"),
            format!("drive.ftl.over_provisioning={spare}"),
            format!("seed={seed}"),
        ];
        let experiment =
            strobe_lab::Experiment::from_table(table, &sets, Path::new("")).expect("an experiment");
        let alone = strobe_lab::runner::run(&experiment, &mut ()).expect("runs").reproducible();
        assert_eq!(alone.waf, Some(waf), "{victim} {spare} {seed}");
        assert_eq!(alone.nand.erase.total as i64, row.get_long(place("nand.erase.total")).expect("whole"));
        let whole: serde_json::Value =
            serde_json::from_str(row.get_string(place("result")).expect("text")).expect("JSON");
        assert_eq!(whole, serde_json::to_value(&alone).expect("data"));
        seen.push((victim, spare, seed));
    }
    let mut expected = Vec::new();
    for spare in [0.15, 0.3] {
        for victim in ["greedy", "fifo"] {
            expected.extend((1..=3).map(|seed| (victim.to_owned(), spare, seed)));
        }
    }
    assert_eq!(seen, expected);
}

#[test]
fn rows_are_the_same_in_any_order_with_deaths_and_without_shared_warmups() {
    let sweep = format!("{GRID}\n\"run.measure\" = [\"0.5x\", \"1x\"]");
    let plan = plan(&sweep);
    let shared = plan.points.iter().filter(|point| point.warm.is_some()).count();
    assert_eq!((plan.points.len(), shared), (24, 24));
    let folder = tempfile::tempdir().expect("a folder");
    let expected = in_order(&plan, &folder.path().join("order"));
    let mut state = 7u64;
    for round in 0..6 {
        let mut chance = move |below: usize| {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407 + round);
            (state >> 33) as usize % below
        };
        let deaths = |task: &Task| u32::from(task.point.is_multiple_of(5)) * 2;
        let found = run(&plan, &folder.path().join(format!("{round}")), 4, &mut chance, deaths);
        assert!(found == expected, "round {round}");
    }
    let alone = self::plan(&sweep.replace("seeds = 3", "seeds = 3\nshare_warmup = false"));
    assert!(alone.points.iter().all(|point| point.warm.is_none()));
    assert!(in_order(&alone, &folder.path().join("alone")) == expected);
}

#[test]
fn a_sweep_that_was_killed_goes_on_and_loses_what_was_on_its_way() {
    let (plan, folder) = (plan(GRID), tempfile::tempdir().expect("a folder"));
    let expected = in_order(&plan, &folder.path().join("whole"));
    let path = folder.path().join("whole").join("points.jsonl");
    let kept = std::fs::read(&path).expect("a file");
    let lines: Vec<usize> =
        kept.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    // At the start, in the heading, within a point, after one.
    for cut in [0, 5, lines[0], lines[0] + 1, lines[3] - 1, lines[3], lines[7] + 100, kept.len()] {
        std::fs::write(&path, &kept[..cut]).expect("written");
        let whole = lines.iter().filter(|&&end| end <= cut).count().saturating_sub(1);
        let mut store = open_store(&folder.path().join("whole")).expect("a store");
        let schedule = Schedule::new(&plan, &mut store, folder.path()).expect("a schedule");
        assert_eq!(schedule.progress(), (whole, 12, 0), "cut at {cut}");
        drop((schedule, store));
        assert!(in_order(&plan, &folder.path().join("whole")) == expected, "cut at {cut}");
        assert!(std::fs::read(&path).expect("a file") == kept, "cut at {cut}");
    }
}

#[test]
fn only_states_are_cleared_away() {
    let (plan, folder) = (plan(GRID), tempfile::tempdir().expect("a folder"));
    let mut store = open_store(folder.path()).expect("a store");
    let states = folder.path().join("states");
    std::fs::create_dir(&states).expect("made");
    for name in ["left.state", ".tmp.part", "thesis.tex"] {
        std::fs::write(states.join(name), "").expect("written");
    }
    let schedule = Schedule::new(&plan, &mut store, folder.path()).expect("a schedule");
    schedule.clear();
    let left: Vec<_> = states.read_dir().expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["thesis.tex"]);
    std::fs::remove_file(states.join("thesis.tex")).expect("removed");
    schedule.clear();
    assert!(!states.exists());
}

#[test]
fn what_is_no_store_of_this_model_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).expect("made");
        std::fs::write(folder.join("points.jsonl"), text).expect("written");
        let error = open_store(&folder).expect_err("refused");
        assert_eq!(std::fs::read_to_string(folder.join("points.jsonl")).expect("there"), text);
        assert!(error.is_bad_request());
        error.to_string()
    };
    let heading = |model: &str| format!("{{\"strobe_points\":1,\"of\":\"sweep, model {model}\"}}\n");
    assert!(write("letter", "Dear reader,\n").contains("finished points"));
    assert!(write("short", "Dear").contains("finished points"));
    assert!(write("other", &heading("0.0.1 abc")).contains("(sweep, model 0.0.1 abc; this is"));
    assert!(write("damaged", &format!("{}{{\"key\":3}}\n", heading(strobe_lab::MODEL))).contains("line 2"));
    let full = folder.path().join("full");
    std::fs::create_dir(&full).expect("made");
    std::fs::write(full.join("thesis.tex"), "").expect("written");
    assert!(open_store(&full).expect_err("refused").to_string().contains("not the folder of a sweep"));
    let used = folder.path().join("used");
    let _first = open_store(&used).expect("a store");
    assert!(open_store(&used).expect_err("refused").to_string().contains("another process"));
}

#[test]
fn a_point_that_fails_is_a_row_with_its_error() {
    // Two pages of spare capacity are too little for collection.
    let sweep = "[sweep]\n[sweep.grid]\n\"drive.ftl.logical_pages\" = [1500, 2047]";
    let (plan, folder) = (plan(sweep), tempfile::tempdir().expect("a folder"));
    in_order(&plan, folder.path());
    let store = open_store(folder.path()).expect("a store");
    let summary = Summary::of(&plan, &store, &[0, 1]).expect("a summary");
    assert_eq!((summary.configurations[0].runs, summary.configurations[1].runs), ((1, 0), (0, 1)));
    let why = summary.configurations[1].error.as_deref().expect("a reason");
    assert!(why.contains("logical"), "{why}");
    assert!(summary.csv(&plan).contains(",1,"), "{}", summary.csv(&plan));
}

#[test]
fn a_point_whose_worker_dies_is_given_up_and_tried_again_next_time() {
    let sweep = "[sweep]\nretries = 1\n[sweep.grid]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\"]";
    let (plan, folder) = (plan(sweep), tempfile::tempdir().expect("a folder"));
    run(&plan, folder.path(), 2, |_| 0, |task| if task.point == 1 { 9 } else { 0 });
    let store = open_store(folder.path()).expect("a store");
    assert!(
        matches!(store.find(&plan.points[1].key), Ok(Some(Outcome::Lost(why))) if why.contains("2 times"))
    );
    drop(store);
    in_order(&plan, folder.path());
    let store = open_store(folder.path()).expect("a store");
    assert!(matches!(store.find(&plan.points[1].key), Ok(Some(Outcome::Done(_)))));
}

#[test]
fn seeds_are_added_by_the_spread_of_the_first_eight_whoever_comes_first() {
    let sweep = "[sweep]\nseeds_max = 40\nuntil = \"0.4%\"\nmeasure = \"wear.erase_stddev\"\n[sweep.grid]\n\
                 \"drive.ftl.over_provisioning\" = [0.1, 0.3]";
    let (plan, folder) = (plan(sweep), tempfile::tempdir().expect("a folder"));
    assert_eq!(plan.points.len(), 80);
    let expected = in_order(&plan, &folder.path().join("a"));
    let found = run(&plan, &folder.path().join("b"), 7, |count| count - 1, |_| 0);
    assert!(found == expected);
    let mut store = open_store(&folder.path().join("a")).expect("a store");
    let schedule = Schedule::new(&plan, &mut store, folder.path()).expect("a schedule");
    let wanted = schedule.wanted();
    let summary = Summary::of(&plan, &store, &wanted).expect("a summary");
    for found in &summary.configurations {
        let estimate = found.measures[0].expect("measured");
        let is_narrow = estimate.half_width.expect("several") <= 0.004 * estimate.mean;
        assert!(is_narrow || estimate.n == 40, "{estimate:?}");
        assert_eq!(estimate.degrees, 7);
    }
    assert!(wanted.len() > 16, "at least one needed more than eight: {}", wanted.len());
    let line = strobe_sweep::words::about_intervals(&plan, &summary);
    for part in ["the spread of the first 8", "± 0.4 % of wear.erase_stddev", "at most 40"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn differences_are_of_runs_with_the_same_seed_and_say_when_none_is_shown() {
    let (plan, folder) = (plan(GRID), tempfile::tempdir().expect("a folder"));
    in_order(&plan, folder.path());
    let store = open_store(folder.path()).expect("a store");
    let all: Vec<usize> = (0..12).collect();
    let summary = Summary::of(&plan, &store, &all).expect("a summary");
    assert_eq!(summary.compare.as_deref(), Some("drive.ftl.gc.victim"));
    let waf = |point: usize| match store.find(&plan.points[point].key) {
        Ok(Some(Outcome::Done(result))) => result["waf"].as_f64().expect("a number"),
        other => panic!("{other:?}"),
    };
    assert_eq!(summary.differences.len(), 2);
    for (at, found) in summary.differences.iter().enumerate() {
        assert_eq!((found.baseline, found.configuration), (2 * at, 2 * at + 1));
        let of = |configuration: usize| (0..3).map(|seed| waf(configuration * 3 + seed)).sum::<f64>() / 3.0;
        let expected = (of(2 * at + 1) - of(2 * at)) / of(2 * at);
        assert!((found.relative.mean - expected).abs() < 1e-12);
        assert!(found.is_shown(0.95) && found.relative.mean > 0.0, "FIFO copies more: {found:?}");
    }
    // Of two comparisons the smaller p value counts twice.
    let alone: Vec<f64> = summary.differences.iter().filter_map(|found| found.relative.p_value()).collect();
    let least = alone.iter().copied().fold(1.0, f64::min);
    let corrected = summary.differences.iter().filter_map(|found| found.p).fold(1.0, f64::min);
    assert!(alone.len() == 2 && corrected == (2.0 * least).min(1.0), "{alone:?} {corrected}");
    // A key without effect on the results: no difference, and the figure has both values.
    let same = "[sweep]\nseeds = 3\n[sweep.grid]\n\"run.check\" = [false, true]";
    let plan = self::plan(same);
    let folder = folder.path().join("same");
    in_order(&plan, &folder);
    let store = open_store(&folder).expect("a store");
    let summary = Summary::of(&plan, &store, &(0..6).collect::<Vec<_>>()).expect("a summary");
    assert_eq!(
        (summary.differences[0].relative.mean, summary.differences[0].relative.half_width),
        (0.0, Some(0.0))
    );
    let picture = charts(&plan, &summary)[0].svg().expect("something");
    assert!(picture.starts_with("<svg") && picture.contains("check false"), "{picture}");
    let whole = page("same", &plan, &summary);
    for wanted in
        ["<h1>same</h1>", "2 configurations, 6 runs of 6", "+0.00 ± 0.00 %", "the same", "check false"]
    {
        assert!(whole.contains(wanted), "{wanted}: {whole}");
    }
    // A page of half a sweep says so.
    let summary = Summary::of(&plan, &store, &[0, 3]).expect("a summary");
    let half = page("half", &plan, &summary);
    assert!(half.contains("2 of 6 runs are done") && half.contains("One seed each"), "{half}");
}

#[test]
fn keys_have_the_order_of_the_file_and_the_last_with_names_is_compared() {
    let grid = "[sweep.grid]\n\"workload.kind\" = [\"uniform\", \"sequential\"]\n\"drive.ftl.over_provisioning\" = [0.2, 0.3]\n\
                \"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\"]";
    let plan = plan(grid);
    assert_eq!(plan.keys, ["workload.kind", "drive.ftl.over_provisioning", "drive.ftl.gc.victim"]);
    assert_eq!(plan.file.compare.as_deref(), Some("drive.ftl.gc.victim"));
    assert_eq!(plan.label(1), "kind uniform, over_provisioning 0.2, victim fifo");
}

#[test]
fn a_trace_is_the_same_for_every_seed_and_has_no_interval() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut trace = String::from("fio version 3 iolog\n0 a add\n0 a open\n");
    for request in 0..6000u64 {
        let address = request * 7919 % 1500;
        trace += &format!("{} a write {} 4096\n", request * 1000, address * 4096);
    }
    std::fs::write(folder.path().join("t.fio"), trace).expect("written");
    let text = |victims: &str| {
        let base = SMALL.split("[run]").next().expect("a drive");
        format!(
            "{base}[workload]\nkind = \"trace\"\npath = \"t.fio\"\nformat = \"fio\"\npacing = \"closed\"\n[run]\nprefill = true\n\
             [sweep]\nseeds = 5\n[sweep.grid]\n\"drive.ftl.gc.victim\" = [{victims}]"
        )
    };
    let found = |victims: &str, name: &str| {
        let file = SweepFile::of(text(victims).parse().expect("TOML"), folder.path()).expect("a sweep");
        let (plan, out) = (Arc::new(Plan::new(file).expect("a plan")), folder.path().join(name));
        in_order(&plan, &out);
        let mut store = open_store(&out).expect("a store");
        let wanted = Schedule::new(&plan, &mut store, &out).expect("a schedule").wanted();
        let summary = Summary::of(&plan, &store, &wanted).expect("a summary");
        (wanted.len(), page("t", &plan, &summary), summary.csv(&plan), summary)
    };
    let (runs, page, csv, summary) = found("\"greedy\", \"fifo\"", "same");
    assert_eq!(runs, 4, "two seeds tell");
    assert!(summary.configurations.iter().all(|found| found.is_same));
    assert!(summary.differences.iter().all(|found| found.is_exact && found.relative.half_width.is_none()));
    assert!(page.contains("The same for every seed") && !page.contains('±'), "{page}");
    assert!(!page.contains("sweep.seeds = 5") && csv.contains(",true,"), "{csv}");
    // A policy that draws at random is random with any workload.
    let (runs, page, ..) = found("\"random\", \"d-choices\"", "random");
    assert_eq!(runs, 10);
    assert!(page.contains("over seeds. Each seed replays the same trace: ± covers randomness"), "{page}");
}

#[test]
fn runs_that_were_not_steady_are_counted_and_marked() {
    let sweep = "[sweep]\nseeds = 2\n[sweep.grid]\n\"run.measure\" = [\"0.01x\", \"4x\"]";
    let (plan, folder) = (plan(sweep), tempfile::tempdir().expect("a folder"));
    in_order(&plan, folder.path());
    let store = open_store(folder.path()).expect("a store");
    let summary = Summary::of(&plan, &store, &[0, 1, 2, 3]).expect("a summary");
    let short = &summary.configurations[0];
    assert_eq!(short.not_steady_runs(), 2, "{short:?}");
    let runs: usize = summary.configurations.iter().map(|found| found.not_steady_runs()).sum();
    let page = page("s", &plan, &summary);
    assert!(page.contains(&format!("{runs} of 4 runs were not steady")), "{page}");
    assert!(page.contains(">2*<"), "{page}");
    let csv = summary.csv(&plan);
    assert!(csv.lines().next().is_some_and(|names| names.contains(",not_steady,verdicts,")), "{csv}");
    assert!(csv.lines().nth(1).is_some_and(|line| line.contains(",2,")), "{csv}");
}

#[test]
fn all_pairs_are_compared_where_that_is_wanted_and_columns_have_plain_names() {
    let sweep = "[sweep]\nseeds = 2\npairs = \"all\"\n[sweep.grid]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\", \"random\"]";
    let (all, folder) = (plan(sweep), tempfile::tempdir().expect("a folder"));
    in_order(&all, folder.path());
    let store = open_store(folder.path()).expect("a store");
    let points: Vec<usize> = (0..6).collect();
    let pairs = |plan: &Plan| {
        let summary = Summary::of(plan, &store, &points).expect("a summary");
        summary.differences.iter().map(|of| (of.baseline, of.configuration)).collect::<Vec<_>>()
    };
    assert_eq!(pairs(&all), [(0, 1), (0, 2), (1, 2)]);
    assert_eq!(pairs(&plan(&sweep.replace("pairs = \"all\"\n", ""))), [(0, 1), (0, 2)]);
    let summary = Summary::of(&all, &store, &points).expect("a summary");
    let csv = summary.csv(&all);
    assert!(csv.starts_with("victim,waf,waf_half,waf_n,not_steady,"), "{csv}");
    assert!(page("s", &all, &summary).contains("each victim compared with each"));
}

#[test]
fn another_sweep_does_not_write_over_the_files_of_an_old_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let new = |sweep: &str| {
        Sweep::new(Plan::new(file(sweep).expect("a sweep")).expect("a plan"), folder.path()).map(drop)
    };
    let run = |seeds: u32, spare: &str| {
        format!("[sweep]\nseeds = {seeds}\n[sweep.grid]\n\"drive.ftl.over_provisioning\" = [{spare}]")
    };
    in_order(&plan(&run(1, "0.2")), folder.path());
    assert!(new(&run(1, "0.2")).is_ok(), "the same goes on");
    assert!(new(&run(2, "0.2, 0.3")).is_ok(), "as does one with more values and seeds");
    let error = new(&run(1, "0.3")).expect_err("refused");
    assert!(error.is_bad_request() && error.to_string().contains("1 runs of another sweep"), "{error}");
}

#[test]
fn tables_that_go_together_are_combined_with_the_grid() {
    let sweep = "[sweep]\nseeds = [5, 9]\npoints = [{ \"drive.ftl.gc.victim\" = \"fifo\" }, { drive.ftl.gc.victim = \"d-choices\", \
                 \"drive.ftl.gc.choices\" = 3 }]\n[sweep.grid]\n\"drive.ftl.over_provisioning\" = [0.2, 0.3]";
    let plan = plan(sweep);
    assert_eq!(plan.file.seeds, Seeds { all: vec![5, 9], first: 2, until: None });
    let labels: Vec<String> = (0..plan.configurations.len()).map(|at| plan.label(at)).collect();
    assert_eq!(labels.len(), 4);
    assert!(
        labels[0].contains("victim fifo") && labels[0].contains("0.2") && !labels[0].contains("choices"),
        "{labels:?}"
    );
    assert!(labels[3].contains("choices 3") && labels[3].contains("0.3"), "{labels:?}");
}

#[test]
fn a_worker_answers_anything_and_one_of_another_model_ends_the_sweep() {
    for text in ["", "{}", "null", "[1]", "\u{0}"] {
        let answer = carry_out(text);
        assert!(
            matches!(Outcome::of_answer(&answer), Ok(Outcome::Failed(why)) if why.contains("not a task"))
        );
    }
    assert!(matches!(Outcome::of_answer("no JSON"), Err(SweepError::Outcome(_))));
    let other = "{\"model\":\"0.0.1\",\"outcome\":{\"done\":{}}}";
    assert!(matches!(Outcome::of_answer(other), Err(SweepError::OtherWorker { .. })));
}
