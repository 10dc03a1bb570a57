//! `strobe paper`: on a drive of a few blocks, whose numbers mean nothing but have the right shape.

use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::endings::wait_for_handler;
use crate::schema::violations;
use crate::{Folder, finish};

const FIGURES: [&str; 7] = ["3", "4", "5", "6", "7", "8", "beyond"];

fn tiny(folder: &Folder, more: &[&str]) -> Json {
    let ended = folder.strobe(&[&["paper", "capi", "--tiny", "--json", "-"], more].concat()).ok();
    assert_eq!(ended.err, "");
    ended.json()
}

#[test]
fn a_paper_is_what_its_schema_says() {
    let folder = Folder::new();
    let result = tiny(&folder, &["--seed", "7"]);
    let schema = folder.strobe(&["schema", "paper"]).ok().json();
    assert_eq!(violations(&result, &schema), Vec::<String>::new());
    assert_eq!(
        (&result["paper"], &result["quick"], &result["seed"]),
        (&"capi".into(), &true.into(), &7.into())
    );
    let figures: Vec<&str> =
        result["figures"].as_array().into_iter().flatten().filter_map(|f| f["figure"].as_str()).collect();
    assert_eq!(figures, FIGURES);
    for figure in result["figures"].as_array().into_iter().flatten() {
        for row in figure["rows"].as_array().into_iter().flatten() {
            assert!(row["unit"].is_string(), "{row}");
            assert!(row["measured"].is_number(), "{row}");
            let [verdict, band] = [&row["verdict"], &row["band"]];
            assert_eq!(verdict == "shown", band.is_null(), "{row}");
            assert!(["reproduced", "missed", "shown"].contains(&verdict.as_str().unwrap_or("")), "{row}");
        }
    }
}

#[test]
fn the_figures_hold_what_the_paper_compares() {
    let result = tiny(&Folder::new(), &[]);
    let rows = |figure: usize| result["figures"][figure]["rows"].as_array().expect("rows");
    // Six data sets of seven schemes, and of five in fair mode.
    let lifetimes: Vec<&Json> = rows(1).iter().filter(|row| row["policy"].is_string()).collect();
    assert_eq!(lifetimes.len(), 6 * (7 + 5));
    let averages: Vec<&Json> = rows(1).iter().filter(|row| row["paper"].is_number()).collect();
    let said: Vec<f64> = averages.iter().filter_map(|row| row["paper"].as_f64()).collect();
    assert_eq!(said, [73.0, 39.0, 29.0, 24.0]);
    // Normalised to GA.
    let time = |row: &&Json| row["policy"] == "GA" && row["measured"] == 1.0;
    assert_eq!(rows(5).iter().filter(time).count(), 2 * 6);
    // The mean of the data sets, from the bars.
    let bar = |set: &Json, policy: &str| {
        let here =
            |row: &&&Json| row["mode"] == "paper" && row["cold_hot"] == *set && row["policy"] == policy;
        lifetimes.iter().find(here).and_then(|row| row["measured"].as_f64()).expect("a bar")
    };
    let sets: Vec<&Json> = rows(0).iter().map(|row| &row["cold_hot"]).collect();
    let gains = sets.iter().map(|set| bar(set, "CAPi") / bar(set, "GA") - 1.0);
    let mean = 100.0 * gains.sum::<f64>() / 6.0;
    assert!((averages[0]["measured"].as_f64().expect("a number") - mean).abs() < 1e-9);
}

#[test]
fn a_paper_gives_the_same_bytes_twice_and_csv_beside_json() {
    let folder = Folder::new();
    let run = || folder.strobe(&["paper", "capi", "--tiny", "--json", "-", "--out", "a/b"]).ok().out;
    let first = run();
    let csv = |figure: &str| folder.read(&format!("a/b/capi-{figure}.csv"));
    let files: Vec<String> = FIGURES.map(csv).into();
    assert_eq!(run(), first);
    assert_eq!(FIGURES.map(csv).to_vec(), files);
    for file in &files {
        let columns = file.lines().next().expect("a header").split(',').count();
        assert!(file.contains("unit") && file.lines().count() > 6);
        let plain = file.lines().filter(|line| !line.contains('"'));
        assert!(plain.into_iter().all(|line| line.split(',').count() == columns));
    }
}

#[test]
fn the_tables_name_what_was_compared_and_left_out() {
    let folder = Folder::new();
    let shown = folder.strobe(&["paper", "capi", "--tiny"]).ok();
    for part in ["Hwang", "TINY", "Figure 4", "CAPi", "comparisons reproduced", "mean of the data sets"] {
        assert!(shown.out.contains(part), "{part} is missing in {}", shown.out);
    }
    assert_eq!(folder.strobe(&["paper", "capi", "--tiny", "--quiet"]).ok().out, "");
}

#[test]
fn unknown_papers_are_answered_with_the_known_ones() {
    let folder = Folder::new();
    folder.strobe(&["paper", "cappi"]).refused(&["cappi", "did you mean capi?"]);
    folder.strobe(&["paper", "relativity"]).refused(&["relativity", "known are capi"]);
    folder.strobe(&["paper", "trim"]).refused(&["not reproduced by this version yet", "capi"]);
}

#[test]
fn ctrl_c_ends_a_paper_cleanly() {
    let folder = Folder::new();
    let mut command = folder.command(&["paper", "capi", "--json", "-"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let pid = child.id();
    wait_for_handler(pid);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("kill").success());
    let ended = finish(child);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    ended.says(&["interrupted"]);
}
