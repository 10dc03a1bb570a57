//! `strobe sweep`: killed processes, full disks, foreign files.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{Folder, TINY, finish};

fn folder() -> Folder {
    let folder = Folder::new();
    let text = TINY.replace("4x", "4000x").replace("seed = 1\n", "");
    let sweep = "[sweep]\nseeds = 3\n[sweep.grid]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\"]\n\
                 \"drive.nand.program_ns\" = [200_000, 700_000]\n";
    folder.write("s.toml", format!("{text}{sweep}"));
    folder
}

fn rows(folder: &Folder, out: &str) -> Vec<u8> {
    std::fs::read(folder.path().join(out).join("rows.parquet")).expect("rows")
}

fn children(parent: u32) -> Vec<String> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let mut found: Vec<String> =
        std::fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    // Children started by a thread are listed under the thread.
    for thread in std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().map(str::to_owned));
    }
    found.sort();
    found.dedup();
    found
}

fn kill(signal: &str, id: &str) {
    let _ = Command::new("kill").args([signal, id]).stderr(Stdio::null()).status();
}

#[test]
fn a_sweep_prints_means_differences_and_files_and_its_rows_do_not_depend_on_workers() {
    let folder = folder();
    let ended = folder.strobe(&["sweep", "s.toml", "--workers", "3"]).ok();
    for part in [
        "greedy",
        "±",
        "best: victim greedy, program 200 µs (lowest WAF: ",
        "waf, compared with victim greedy",
        "more",
        "s-sweep/rows.parquet",
        "s-sweep/waf.svg",
    ] {
        assert!(ended.out.contains(part), "{part} is missing in {}", ended.out);
    }
    folder.strobe(&["sweep", "s.toml", "--workers", "1", "--out", "one", "--quiet"]).ok();
    assert!(rows(&folder, "one") == rows(&folder, "s-sweep"));
    assert!(ended.out.contains("s-sweep/report.html"), "{}", ended.out);
    assert!(!folder.read("s-sweep/waf.svg").contains("var("));
    let csv = folder.read("one/summary.csv");
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let words = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("p (Holm) verdict") && words.contains("corrected by Holm's method for 2"),
        "{words}"
    );
    let table = |form: &str| folder.strobe(&["sweep", "s.toml", "--table", form]).ok().out;
    let latex = table("latex");
    assert!(latex.starts_with("% \\usepackage{booktabs}\n\\begin{table}"), "{latex}");
    for part in ["$\\pm$", "\\midrule\n", "p (Holm) & verdict \\\\"] {
        assert!(latex.contains(part), "{part}: {latex}");
    }
    assert!(latex.contains("\\caption{Means. $\\pm$ is half of the 95"), "{latex}");
    assert_eq!(latex.matches("\\toprule").count(), latex.matches("\\end{table}").count());
    let markdown = table("markdown");
    assert!(markdown.contains("| ---: |") && markdown.contains("| p (Holm) | verdict |"), "{markdown}");
    assert!(!markdown.contains("report.html"), "{markdown}");
    // The folder is enough, as for a sweep from Python, which has no file.
    let of_folder = |form: &str| folder.strobe(&["report", "s-sweep", "--table", form]).ok().out;
    assert_eq!((of_folder("latex"), of_folder("markdown")), (latex, markdown));
    let refused = |args: &[&str], parts: &[&str]| folder.strobe(args).refused(parts);
    refused(
        &["sweep", "s-sweep", "--table", "latex"],
        &["is a folder", "strobe report s-sweep --table latex"],
    );
    folder.write("x.json", "{}");
    refused(&["report", "x.json", "--table", "latex"], &["--table", "strobe report FOLDER --table latex"]);
    refused(&["report", "s-sweep", "--table", "latex", "--out", "-"], &["--table and --out -"]);
    // All points are known: no run is repeated.
    let points = folder.read("one/points.jsonl");
    folder.strobe(&["sweep", "s.toml", "--out", "one", "--quiet"]).ok();
    assert_eq!(folder.read("one/points.jsonl"), points);
}

#[test]
fn the_report_of_a_sweep_has_its_charts_means_and_differences() {
    let folder = folder();
    folder.strobe(&["report", "s.toml", "--out", "-"]).refused(&["s-sweep", "strobe sweep s.toml", "--from"]);
    assert!(!folder.path().join("s-sweep").exists(), "a report makes no sweep");
    folder.strobe(&["sweep", "s.toml", "--quiet", "--out", "there"]).ok();
    let args = ["report", "s.toml", "--from", "there", "--out", "page.html", "--svg", "figures"];
    folder.strobe(&args).ok();
    let page = folder.read("page.html");
    folder.strobe(&["report", "s.toml", "--from", "there", "--out", "alone.html"]).ok();
    assert_eq!(folder.read("alone.html"), page);
    for part in [
        "<h1>s</h1>",
        "4 configurations, 12 runs of 12",
        "id=\"waf\"",
        "class=\"whisker",
        "greedy",
        "WAF, compared with victim greedy",
        "±",
        "[sweep.grid]",
    ] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Equal to the sweep's page, except for the name.
    assert_eq!(page.replace(">s ", ">there ").replace(">s<", ">there<"), folder.read("there/report.html"));
    assert_eq!(folder.read("figures/waf.svg"), folder.read("there/waf.svg"));
    folder.strobe(&["report", "s.toml", "x.json", "--out", "-"]).refused(&["s.toml", "sweep"]);
    folder.write("x.json", "{}");
    folder.strobe(&["report", "x.json", "--from", "there", "--out", "-"]).refused(&["--from", "sweep"]);
    folder.strobe(&["report", "s.toml", "--from", "figures", "--out", "-"]).refused(&["figures", "no sweep"]);
    folder.write("tiny.toml", TINY);
    folder.strobe(&["report", "tiny.toml", "--out", "-"]).refused(&["an experiment", "[sweep.grid]"]);
}

#[test]
fn the_page_of_a_large_sweep_has_its_best_configurations_and_a_filter() {
    let folder = folder();
    let text = TINY.replace("logical_pages = 160\n", "") + "timing = false\n";
    let shares: Vec<String> = (0..8).map(|at| format!("{:.2}", 0.2 + 0.1 * f64::from(at))).collect();
    let grid = format!(
        "[sweep.grid]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\", \"random\"]\n\
         \"drive.ftl.over_provisioning\" = [{}]\n",
        shares.join(", ")
    );
    let text = format!("{text}[sweep]\nmeasure = [\"waf\", \"nand.erase.total\"]\n{grid}");
    folder.write("large.toml", text);
    folder.strobe(&["sweep", "large.toml", "--quiet"]).ok();
    let page = folder.read("large-sweep/report.html");
    let (_, best) = page.split_once("The 10 configurations with the lowest WAF").expect("a table");
    let (best, means) = best.split_once("</section>").expect("an end");
    let (_, means) = means.split_once("<h2>Means</h2>").expect("the means");
    let rows: Vec<&str> = best.split("<tr>").skip(2).collect();
    assert_eq!(rows.len(), 10, "{best}");
    let waf =
        |row: &&str| row.split("<td class=\"n\">").nth(1)?.split(['<', ' ']).next()?.parse::<f64>().ok();
    let wafs: Vec<f64> = rows.iter().filter_map(waf).collect();
    assert!(wafs.len() == 10 && wafs.is_sorted(), "{wafs:?}");
    let all: Vec<f64> =
        means.split("<tr>").skip(2).take(24).collect::<Vec<_>>().iter().filter_map(waf).collect();
    assert_eq!(
        all.iter().filter(|&&waf| waf < wafs[9]).count(),
        wafs.iter().filter(|&&waf| waf < wafs[9]).count()
    );
    assert_eq!(page.matches("<input class=\"filter\"").count(), 1, "of the means, the only long table");
    assert_eq!(page.matches("hidden>Nothing matches.</p>").count(), 1, "below the filter");
    // Each heading of each table sorts its table.
    let (tables, headings) =
        (page.matches("<table class=\"sorted\">").count(), page.matches("</th>").count());
    assert!(tables >= 4 && page.matches("<button class=\"sort\">").count() == headings, "{tables}");
    let (_, cells) = page.split_once("<h2>Best victim by WAF</h2>").expect("a table");
    let (cells, _) = cells.split_once("</section>").expect("an end");
    assert_eq!(cells.matches("<tr>").count(), 9, "a row for each over-provisioning: {cells}");
    assert!(cells.contains("<td>greedy</td>") && !cells.contains("verdict"), "one seed cannot tell: {cells}");
}

#[test]
fn the_report_of_a_folder_is_the_page_that_the_sweep_has_written() {
    let folder = folder();
    folder.strobe(&["sweep", "s.toml", "--quiet", "--out", "v1.0"]).ok();
    folder.write("s.toml", "nothing");
    folder.strobe(&["report", "v1.0", "--out", "page.html", "--svg", "figures"]).ok();
    assert_eq!(folder.read("page.html"), folder.read("v1.0/report.html"));
    assert_eq!(folder.read("figures/waf.svg"), folder.read("v1.0/waf.svg"));
    folder.strobe(&["report", "figures", "--out", "-"]).refused(&["figures", "not the folder of a sweep"]);
    folder.strobe(&["report", "v1.0", "--from", "v1.0", "--out", "-"]).refused(&["--from"]);
    std::fs::remove_file(folder.path().join("v1.0/sweep.json")).expect("there");
    folder.strobe(&["report", "v1.0", "--out", "-"]).refused(&["strobe report SWEEP.toml --from v1.0"]);
}

#[test]
fn keys_of_a_sweep_are_set_on_the_command_line() {
    let folder = folder();
    let set =
        ["--set", "sweep.seeds=1", "--set", "drive.ftl.wear_leveling.kind=none", "--set", "run.measure=2x"];
    let ended = folder.strobe(&[&["sweep", "s.toml", "--out", "set"][..], &set].concat()).ok();
    assert!(ended.out.contains("One seed each") && !ended.out.contains("verdict"), "{}", ended.out);
    let page = folder.read("set/report.html");
    for part in ["4 runs of 4", "kind = &quot;none&quot;", "measure = &quot;2x&quot;"] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    folder.strobe(&["report", "set", "--out", "page.html"]).ok();
    assert_eq!(folder.read("page.html"), page);
    for command in [&["sweep", "s.toml", "--check"][..], &["check", "s.toml"]] {
        let ended = folder.strobe(&[command, &["--set", "sweep.seeds=2"]].concat()).ok();
        assert!(ended.out.contains("8 runs: 4 configurations with 2 seeds each"), "{}", ended.out);
    }
    let refused =
        |set: &str, parts: &[&str]| folder.strobe(&["sweep", "s.toml", "--set", set]).refused(parts);
    refused("drive.ftl.gc.victim=random", &["--set drive.ftl.gc.victim has no effect"]);
    refused("drive.ftl.gc.victm=random", &["did you mean drive.ftl.gc.victim?"]);
    refused("sweep.seds=3", &["did you mean sweep.seeds?"]);
    refused("sweep.seeds", &["sweep.seeds"]);
    assert!(!folder.path().join("s-sweep").exists());
}

#[test]
fn killed_workers_and_a_killed_sweep_lose_points_in_flight_only() {
    let folder = folder();
    folder.strobe(&["sweep", "s.toml", "--quiet", "--out", "calm"]).ok();
    let start = || {
        let mut command = folder.command(&["sweep", "s.toml", "--workers", "2", "--out", "killed"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    };
    // Kills the whole sweep after its first results.
    let mut sweep = start();
    let done = || folder.path().join("killed/points.jsonl").metadata().map_or(0, |there| there.len());
    for _ in 0..2000 {
        if done() > 200 || sweep.try_wait().expect("our own child").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let workers = children(sweep.id());
    sweep.kill().expect("killed");
    sweep.wait().expect("ended");
    std::thread::sleep(Duration::from_millis(300));
    let left: Vec<&String> = workers
        .iter()
        .filter(|id| {
            std::fs::read_to_string(format!("/proc/{id}/cmdline"))
                .is_ok_and(|text| text.contains("sweep-worker"))
        })
        .collect();
    assert!(left.is_empty(), "workers are left: {left:?}");
    let before = folder.read("killed/points.jsonl");
    // Kills workers repeatedly, but not often enough to give up a point.
    let sweep = start();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(40));
        children(sweep.id()).first().into_iter().for_each(|id| kill("-KILL", id));
    }
    finish(sweep).ok();
    assert!(folder.read("killed/points.jsonl").starts_with(before.trim_end_matches(|c| c != '\n')));
    assert!(rows(&folder, "killed") == rows(&folder, "calm"));
}

#[test]
fn a_full_disk_ends_a_sweep_with_a_message_and_keeps_what_is_done() {
    let folder = folder();
    folder.strobe(&["sweep", "s.toml", "--quiet", "--out", "calm"]).ok();
    // A file size limit simulates a full disk without root.
    let size = folder.path().join("calm/points.jsonl").metadata().expect("there").len();
    let script = format!(
        "trap '' XFSZ; ulimit -f {}; exec \"$0\" sweep s.toml --quiet --out full --workers 2",
        size / 2 / 512
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_strobe")]).current_dir(folder.path());
    let ended = finish(
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sh"),
    );
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.says(&["points.jsonl"]);
    let kept = folder.read("full/points.jsonl");
    assert!(kept.ends_with('\n') && kept.lines().count() >= 2, "{} lines", kept.lines().count());
    folder.strobe(&["sweep", "s.toml", "--quiet", "--out", "full"]).ok();
    assert!(folder.read("full/points.jsonl").starts_with(&kept));
    assert!(rows(&folder, "full") == rows(&folder, "calm"));
}

#[test]
fn ctrl_c_ends_a_sweep_and_it_goes_on() {
    let folder = folder();
    let mut command = folder.command(&["sweep", "s.toml", "--workers", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    std::thread::sleep(Duration::from_millis(400));
    kill("-TERM", &child.id().to_string());
    let ended = finish(child);
    if ended.code != 0 {
        ended.says(&["interrupted", "s-sweep", "resumes"]);
        assert_eq!(ended.code, 143);
    }
    folder.strobe(&["sweep", "s.toml", "--quiet"]).ok();
    assert!(!folder.path().join("s-sweep/states").exists());
}

#[test]
fn wrong_sweeps_are_refused_before_anything_is_written() {
    let folder = folder();
    folder.write("plain.toml", TINY).write("bad.toml", "[sweep\n").write("dir-sweep", "mine");
    let sweep = |grid: &str| format!("{TINY}[sweep.grid]\n{grid}\n");
    folder.write("key.toml", sweep("\"drive.ftl.gc.victm\" = [\"fifo\"]"));
    folder.write("all.toml", sweep("\"drive.ftl.logical_pages\" = [100000, 200000]"));
    folder.write("dir.toml", sweep("\"drive.ftl.logical_pages\" = [150]"));
    for (file, parts) in [
        ("none.toml", &["none.toml"][..]),
        ("plain.toml", &["[sweep.grid]"]),
        ("bad.toml", &["not valid TOML"]),
        ("key.toml", &["did you mean drive.ftl.gc.victim?"]),
        ("dir.toml", &["dir-sweep"]),
    ] {
        let ended = folder.strobe(&["sweep", file]);
        assert!(ended.code == 2 || file == "dir.toml" && ended.code == 1, "{file}: {ended:?}");
        ended.says(parts);
    }
    assert_eq!(folder.read("dir-sweep"), "mine");
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        !names.iter().any(|name| name.to_string_lossy().ends_with("-sweep") && name != "dir-sweep"),
        "{names:?}"
    );
    let ended = folder.strobe(&["sweep", "s.toml", "--check"]).ok();
    assert!(ended.out.contains("12 runs: 4 configurations with 3 seeds each"), "{}", ended.out);
    assert!(!folder.path().join("s-sweep").exists());
}

#[test]
fn refused_configurations_are_rows_and_the_others_run() {
    let folder = Folder::new();
    folder.write("s.toml", format!("{TINY}[sweep.grid]\n\"drive.nand.blocks_per_plane\" = [32, 2]\n"));
    let check = folder.strobe(&["sweep", "s.toml", "--check"]).ok();
    let ended = folder.strobe(&["sweep", "s.toml"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("1 of 1 runs failed"), "{}", ended.out);
    assert!(check.out.contains("2 runs"), "{}", check.out);
}

#[test]
fn slips_are_refused_before_the_first_run_and_failed_points_are_no_success() {
    let folder = Folder::new();
    let sweep = |measure: &str, grid: &str| {
        folder.write("s.toml", format!("{TINY}[sweep]\nmeasure = \"{measure}\"\n[sweep.grid]\n{grid}\n"));
        folder.strobe(&["sweep", "s.toml"])
    };
    let victims =
        "\"drive.nand.program_ns\" = [200_000, 700_000]\n\"drive.ftl.gc.victim\" = [\"greedy\", \"fifoo\"]";
    sweep("waf", victims).refused(&["drive.ftl.gc.victim = \"fifoo\"", "did you mean fifo?"]);
    sweep("wav", &victims.replace("fifoo", "fifo")).refused(&[
        "sweep.measure",
        "\"wav\"",
        "did you mean waf?",
    ]);
    assert!(!folder.path().join("s-sweep").exists(), "nothing was run");

    // Too little space for cleaning is found when the drive is built: the other points run.
    let ended = sweep(
        "waf",
        "\"drive.nand.program_ns\" = [200_000, 700_000]\n\"drive.ftl.logical_pages\" = [160, 255]",
    );
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.says(&["2 of 4 runs failed"]);
    assert_eq!(
        ended.out.matches("2 runs of 2 configurations failed, the first with").count(),
        1,
        "{}",
        ended.out
    );
    assert!(ended.out.contains("s-sweep/rows.parquet"), "{}", ended.out);
    // Another sweep of the same name does not overwrite its files.
    sweep("waf", "\"drive.nand.erase_ns\" = [1_000_000]").refused(&[
        "s-sweep",
        "4 runs of another sweep",
        "--out",
    ]);
}
