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
            let verdicts = ["reproduced", "not-reached", "missed", "shown"];
            assert!(verdicts.contains(&verdict.as_str().unwrap_or("")), "{row}");
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
    for part in ["Hwang", "TINY", "Figure 4", "CAPi", " comparisons: ", "mean of the data sets"] {
        assert!(shown.out.contains(part), "{part} is missing in {}", shown.out);
    }
    assert_eq!(folder.strobe(&["paper", "capi", "--tiny", "--quiet"]).ok().out, "");
}

#[test]
fn unknown_papers_are_answered_with_the_known_ones() {
    let folder = Folder::new();
    folder.strobe(&["paper", "cappi"]).refused(&["cappi", "did you mean capi?"]);
    folder.strobe(&["paper", "relativity"]).refused(&["relativity", "known are capi"]);
}

#[test]
fn the_nvram_paper_has_its_figures_with_every_scheme_and_a_picture() {
    let folder = Folder::new();
    let out = folder.path().join("figures");
    let out = out.to_str().expect("plain text");
    let ended = folder.strobe(&["paper", "nvram", "--tiny", "--json", "-", "--out", out]).ok();
    assert_eq!(ended.err, "");
    let result = ended.json();
    let figures = result["figures"].as_array().expect("figures");
    let names: Vec<&str> = figures.iter().map(|figure| figure["figure"].as_str().expect("a name")).collect();
    assert_eq!(names, ["1a", "1b", "written", "2a", "2b", "3a", "3b", "offsets"]);
    for (workload, times) in [("camera", &figures[5]), ("postmark", &figures[6])] {
        for scheme in ["replacement", "log-block", "FAST", "page", "DFTL"] {
            let seconds = |metadata: &str, quantity: &str| {
                at(times, &[("metadata", metadata), ("quantity", quantity), ("scheme", scheme)])
            };
            let (before, after) = (seconds("before", "time"), seconds("after", "time"));
            assert!(before > after && after > 0.0, "{workload} on {scheme}: {before} s, then {after} s");
            let drive = seconds("before", "of this, drive");
            assert!(drive > 0.0 && drive < before, "{workload} on {scheme}: {drive} s of {before} s");
        }
    }
    // Every request of the pattern is in one of its cells.
    let sum = |metadata: &str| {
        let of = |row: &&Json| row["metadata"] == metadata;
        rows(&figures[0]).iter().filter(of).map(|row| row["measured"].as_f64().expect("a count")).sum::<f64>()
    };
    let written = |class: &str| at(&figures[2], &[("workload", "Camera-MS500"), ("requests", class)]);
    assert_eq!(sum("after"), written("data"));
    let all: f64 = ["data", "boot", "fat", "root_directory", "directory"].map(written).iter().sum();
    assert_eq!(sum("before"), all);
    let svg = std::fs::read_to_string(folder.path().join("figures").join("nvram-1a.svg")).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("<rect"));
}

const TRIM_FIGURES: [&str; 5] = ["1", "2", "jasmine", "table-2", "3"];

fn trim(folder: &Folder, more: &[&str]) -> Json {
    let ended = folder.strobe(&[&["paper", "trim", "--tiny", "--json", "-"], more].concat()).ok();
    assert_eq!(ended.err, "");
    ended.json()
}

fn rows(figure: &Json) -> &Vec<Json> {
    figure["rows"].as_array().expect("rows")
}

/// The number of the row of `figure` that has these coordinates.
#[track_caller]
fn at(figure: &Json, coordinates: &[(&str, &str)]) -> f64 {
    let here = |row: &&Json| coordinates.iter().all(|&(name, value)| row[name] == value);
    let found: Vec<&Json> = rows(figure).iter().filter(here).collect();
    assert_eq!(found.len(), 1, "{coordinates:?}");
    found[0]["measured"].as_f64().expect("a number")
}

/// What the tiny run gives for each comparison with the paper. That they agree with the paper shows nothing: the
/// presets were fitted to it. These numbers say only that neither the presets nor the model have changed since.
const TRIM_FITTED: [(&str, &str, f64); 15] = [
    ("1", "mean of all bars", 1106.84),
    ("1", "aligned against unaligned: least time saved", 4.96),
    ("1", "random against continuous: least time saved", 6.31),
    ("1", "per KB, against half the size: least time saved", 48.68),
    ("2", "mean of all bars", 206.56),
    ("2", "aligned against unaligned: least time saved", 6.85),
    ("2", "continuous against random: least time saved", 4.9),
    ("2", "per KB, against half the size: least time saved", 47.43),
    ("jasmine", "aligned against unaligned: least time saved", 3.99),
    ("jasmine", "continuous against random: least time saved", 3.81),
    ("jasmine", "per KB, against half the size: least time saved", 47.72),
    ("3", "Jasmine, 64 ranges against 1", -92.29),
    ("3", "Samsung 840, more ranges per command: least time saved by a step", 8.52),
    ("3", "Intel 320, more ranges per command: least time saved by a step", 15.26),
    ("3", "Jasmine, more ranges per command: least time saved by a step", 15.97),
];

#[test]
fn trim_comparisons_stay_where_the_presets_were_fitted() {
    let result = trim(&Folder::new(), &[]);
    let figures = result["figures"].as_array().expect("figures");
    let judged: Vec<(&str, &str, f64)> = figures
        .iter()
        .flat_map(|figure| rows(figure).iter().map(move |row| (&figure["figure"], row)))
        .filter(|(_, row)| row["band"].is_array())
        .map(|(figure, row)| {
            let text = |value: &'static str| row[value].as_str().expect("text");
            (figure.as_str().expect("a name"), text("claim"), row["measured"].as_f64().expect("a number"))
        })
        .collect();
    assert_eq!(judged.len(), TRIM_FITTED.len(), "{judged:?}");
    for (found, pinned) in judged.iter().zip(TRIM_FITTED) {
        assert_eq!((found.0, found.1), (pinned.0, pinned.1));
        assert!((found.2 / pinned.2 - 1.0).abs() < 0.002, "{found:?} was {}", pinned.2);
    }
}

#[test]
fn trim_is_what_its_schema_says() {
    let folder = Folder::new();
    let result = trim(&folder, &["--out", "csv"]);
    let schema = folder.strobe(&["schema", "paper"]).ok().json();
    assert_eq!(violations(&result, &schema), Vec::<String>::new());
    let figures = result["figures"].as_array().expect("figures");
    let names: Vec<&str> = figures.iter().filter_map(|f| f["figure"].as_str()).collect();
    assert_eq!(names, TRIM_FIGURES);
    for row in figures.iter().flat_map(rows) {
        assert!(row["unit"].is_string(), "{row}");
        let measured = row["measured"].as_f64().expect("a number");
        // The verdict is whether the number is in the band, and nothing else.
        let verdict = match row["band"].as_array() {
            None => "shown",
            Some(band) => {
                let reaches = |value: f64| {
                    band[0].as_f64().is_none_or(|low| value >= low)
                        && band[1].as_f64().is_none_or(|high| value <= high)
                };
                match (reaches(measured), row["paper"].as_f64().is_none_or(reaches)) {
                    (true, true) => "reproduced",
                    (true, false) => "not-reached",
                    (false, _) => "missed",
                }
            }
        };
        assert_eq!(row["verdict"], verdict, "{row}");
    }
    for name in TRIM_FIGURES {
        let csv = folder.read(&format!("csv/trim-{name}.csv"));
        assert!(csv.lines().count() > 4 && csv.starts_with(|c: char| c.is_lowercase()), "{csv}");
    }
    let notes = result["notes"].to_string();
    for part in ["TINY", "need a kernel", "chosen to agree"] {
        assert!(notes.contains(part), "{part} is missing in {notes}");
    }
}

#[test]
fn trims_of_larger_aligned_and_many_ranges_are_cheaper_on_every_drive() {
    let result = trim(&Folder::new(), &[]);
    let sizes = ["4 KB", "8 KB", "16 KB", "32 KB", "64 KB", "128 KB"];
    for (figure, continuous_is_cheaper) in [(0, false), (1, true), (2, true)] {
        let figure = &result["figures"][figure];
        let time = |alignment, order, size| {
            at(figure, &[("alignment", alignment), ("order", order), ("size", size)])
        };
        for order in ["continuous", "random"] {
            for size in sizes {
                assert!(time("aligned", order, size) < time("unaligned", order, size));
            }
            for pair in sizes.windows(2) {
                let (small, large) = (time("aligned", order, pair[0]), time("aligned", order, pair[1]));
                assert!(small < large && large < 2.0 * small, "{pair:?}: {small} to {large}");
            }
        }
        for size in sizes {
            let (continuous, random) = (time("aligned", "continuous", size), time("aligned", "random", size));
            assert_eq!(continuous < random, continuous_is_cheaper, "{size}");
        }
    }
    for drive in ["Samsung 840", "Intel 320", "Jasmine"] {
        let time =
            |ranges| at(&result["figures"][4], &[("drive", drive), ("quantity", "time"), ("ranges", ranges)]);
        let times = ["1", "16", "32", "64"].map(time);
        assert!(times.is_sorted_by(|a, b| a > b), "{drive}: {times:?}");
    }
    let commands = |ranges| at(&result["figures"][3], &[("ranges per command", ranges)]);
    assert_eq!(["1", "16", "32", "64"].map(commands), [512.0, 32.0, 16.0, 8.0]);
}

#[test]
fn trim_says_what_it_took_and_gives_the_same_bytes_twice() {
    let folder = Folder::new();
    let json = || folder.strobe(&["paper", "trim", "--tiny", "--json", "-", "--quiet"]).ok().out;
    assert_eq!(json(), json());
    let shown = folder.strobe(&["paper", "trim", "--tiny"]).ok().out;
    for part in ["Hyobong Son", "Figure 1", "Samsung 840", "Figure 3", "Ext4", "15 comparisons: "] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    let listed = folder.strobe(&["list", "papers"]).ok().out;
    assert!(listed.contains("trim") && listed.contains("on a real kernel"), "{listed}");
}

const LOGICAL_COPY_FIGURES: [&str; 7] =
    ["lfs-clean", "sustained", "over-time", "spare", "trims", "virtual-map", "paper"];

fn logical_copy(folder: &Folder, more: &[&str]) -> Json {
    let ended = folder.strobe(&[&["paper", "logical-copy", "--tiny", "--json", "-"], more].concat()).ok();
    assert_eq!(ended.err, "");
    ended.json()
}

#[test]
fn logical_copy_is_what_its_schema_says_and_judges_its_claims_at_one_utilisation() {
    let folder = Folder::new();
    let result = logical_copy(&folder, &["--out", "csv"]);
    let schema = folder.strobe(&["schema", "paper"]).ok().json();
    assert_eq!(violations(&result, &schema), Vec::<String>::new());
    let figures = result["figures"].as_array().expect("figures");
    let names: Vec<&str> = figures.iter().filter_map(|f| f["figure"].as_str()).collect();
    assert_eq!(names, LOGICAL_COPY_FIGURES);
    for row in figures[..6].iter().flat_map(rows) {
        assert!(row["unit"].is_string() && row["measured"].is_number(), "{row}");
    }
    let judged: Vec<&Json> = figures.iter().flat_map(rows).filter(|row| row["band"].is_array()).collect();
    assert_eq!(judged.len(), 4);
    for row in judged {
        assert!(row["claim"].as_str().is_some_and(|claim| claim.ends_with("u = 0.8")), "{row}");
        assert!([Json::from(-80.0), 3.0.into()].contains(&row["paper"]), "{row}");
    }
    // What only a kernel can show has the paper's number and none of ours.
    let open = rows(&figures[6]).iter().filter(|row| row["measured"].is_null());
    let said: Vec<f64> = open.filter_map(|row| row["paper"].as_f64()).collect();
    assert_eq!(said, [2.8, 1.5, 1.3]);
    let notes = result["notes"].to_string();
    for part in ["TINY", "need a kernel", "durable_map"] {
        assert!(notes.contains(part), "{part} is missing in {notes}");
    }
    for name in LOGICAL_COPY_FIGURES {
        assert!(folder.read(&format!("csv/logical-copy-{name}.csv")).lines().count() > 4, "{name}");
    }
}

#[test]
fn logical_copy_programs_what_physical_copies_and_writes_would() {
    let result = logical_copy(&Folder::new(), &[]);
    for figure in [0, 1] {
        let figure = &result["figures"][figure];
        for u in ["0.5", "0.6", "0.7", "0.8", "0.9"] {
            let of =
                |quantity, cleaning| at(figure, &[("u", u), ("quantity", quantity), ("cleaning", cleaning)]);
            let [written, physical, logical] =
                ["read and write", "physical copy", "logical copy"].map(|cleaning| {
                    let causes = ["for host", "for gc", "for map", "for meta", "for copy"]
                        .map(|cause| of(cause, cleaning));
                    let all = of("programs", cleaning);
                    assert!((causes.iter().sum::<f64>() - all).abs() < 1e-9, "{u}, {cleaning}: {causes:?}");
                    (all, causes)
                });
            assert!(logical.0 < written.0, "{u}");
            // Blocks that are copied are programmed as copies, not as writes, or not at all.
            assert_eq!((written.1[4], logical.1[4]), (0.0, 0.0));
            assert!((physical.1[0] - logical.1[0]).abs() < 0.05 && physical.1[4] > 0.5, "{u}");
            let full = of("file system full", "logical copy");
            assert!(full < 100.0 && full > 50.0, "{u}: {full}");
        }
    }
    let map = &result["figures"][5];
    let without = |entries: &str, batch| {
        at(map, &[("cleaning", entries), ("quantity", "copies without an entry"), ("per checkpoint", batch)])
    };
    for batch in ["2 MiB", "8 MiB", "16 MiB"] {
        assert_eq!(without("logical copy, 4096 entries", batch), 0.0);
    }
    assert_eq!(without("logical copy, 1024 entries", "2 MiB"), 0.0);
    assert!(without("logical copy, 1024 entries", "16 MiB") > without("logical copy, 1024 entries", "8 MiB"));
    assert!(without("logical copy, 1024 entries", "8 MiB") > 0.0);
}

#[test]
fn logical_copy_says_what_it_took_and_gives_the_same_bytes_twice() {
    let folder = Folder::new();
    let json = || folder.strobe(&["paper", "logical-copy", "--tiny", "--json", "-", "--quiet"]).ok().out;
    assert_eq!(json(), json());
    let shown = folder.strobe(&["paper", "logical-copy", "--tiny"]).ok().out;
    for part in ["Yunji Kang", "lfs-clean", "virtual-map", "1 - u", "4 comparisons: "] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
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
