//! `strobe twin` on drives of a few blocks: the values are meaningless, but the structure is complete.

use serde_json::Value as Json;

use crate::Folder;
use crate::schema::violations;

const CSV: &str = "capacity_bytes,offered_writes_s,offered_reads_s,completed_s,read_p50_us,read_p99_us,write_p50_us\n\
                   96018432,10000,5000,15000,64,237,11\n96018432,20000,5000,25000,71,276,11\n\
                   96018432,30000,5000,35000,73,318,11\n96018432,40000,5000,45000,89,349,11\n\
                   96018432,50000,5000,55000,104,372,12\n96018432,200000,5000,82300,,,\n";

const SMALL: [&str; 10] = [
    "--set",
    "drive.nand.channels=2",
    "--set",
    "drive.nand.dies_per_channel=1",
    "--set",
    "drive.nand.planes_per_die=1",
    "--set",
    "drive.nand.pages_per_block=24",
    "--set",
    "drive.nand.blocks_per_plane=400",
];

#[test]
fn a_drive_is_held_against_what_was_published() {
    let folder = Folder::new();
    let args = ["twin", "check", "pm9a3-like", "--tiny", "--out", "out", "--json", "out.json"];
    let shown = folder.strobe(&args).ok();
    assert!(shown.out.contains("pm9a3-like compared with Samsung PM9A3"), "{}", shown.out);
    assert!(shown.out.lines().all(|line| line.chars().count() <= 80), "{}", shown.out);
    let result: Json = serde_json::from_str(&folder.read("out.json")).expect("JSON");
    assert_eq!(
        violations(&result, &folder.strobe(&["schema", "twin-check"]).ok().json()),
        Vec::<String>::new()
    );
    let rows = result["drives"][0]["check"]["rows"].as_array().expect("rows");
    // Seven rates below saturation and eleven beyond; of the latter only the first and last are judged.
    assert_eq!(rows.len(), 18);
    let stable: Vec<&Json> = rows.iter().filter(|row| row["is_stable"] == true).collect();
    assert_eq!(stable.len(), 7);
    for figure in rows.iter().flat_map(|row| row["figures"].as_array().expect("figures")) {
        let number = |key: &str| figure[key].as_f64().expect("a number");
        assert!((number("ours") / number("measured") - 1.0 - number("error")).abs() < 1e-9, "{figure}");
    }
    let judged = |row: &Json| {
        let figures = row["figures"].as_array().expect("figures");
        let judged = figures.iter().filter(|figure| !figure["is_met"].is_null());
        judged.map(|figure| figure["figure"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(judged(&rows[0]), ["read-p50", "read-p99", "write-p50", "write-p99"]);
    // Fewer than a thousand reads are requested.
    assert!(rows[0]["figures"].as_array().expect("figures").iter().all(|of| of["figure"] != "read-p999"));
    assert_eq!(judged(&rows[7]), ["completed"]);
    assert_eq!(judged(&rows[8]), [""; 0]);
    assert_eq!(judged(&rows[17]), ["completed"], "whether ours completes the same whatever it is offered");
    assert!(shown.out.contains("read p99") && shown.out.contains("in brackets"), "{}", shown.out);
    assert_eq!(stable[0]["figures"][1]["measured"], 237.0);
    let figures: usize = rows.iter().map(|row| row["figures"].as_array().expect("figures").len()).sum();
    assert_eq!(folder.read("out/pm9a3-like.csv").lines().count(), 1 + figures);
    for picture in ["reads", "writes"] {
        let svg = folder.read(&format!("out/pm9a3-like-{picture}.svg"));
        assert!(svg.starts_with("<svg") && svg.contains("measured"), "{svg}");
    }
}

#[test]
fn what_a_mechanism_is_worth_is_drawn_and_popular_addresses_are_asked() {
    let folder = Folder::new();
    folder.write(
        "my.csv",
        CSV.replace("capacity_bytes,", "capacity_bytes,addresses,").replace("96018432,", "96018432,,"),
    );
    let zipf = "96018432,zipf:0.8,,,90000,,,\n96018432,zipf-in-order:0.8,,,80000,,,\n";
    folder.write("my.csv", folder.read("my.csv") + zipf);
    let args =
        ["twin", "check", "pm9a3-like", "--tiny", "--measurements", "my.csv", "--ablate", "--out", "out"];
    let shown = folder.strobe(&args).ok();
    for part in ["as fast as it can, zipf:0.8", "as fast as it can, zipf-in-order:0.8", "Mean error without"]
    {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    let csv = folder.read("out/pm9a3-like-without.csv");
    assert!(csv.starts_with("without,figure,mean_error\n\"nothing\",read p50,"), "{csv}");
    // The full drive and ten mechanisms removed in turn: p50 and p99 of reads, p50 of writes.
    assert_eq!(csv.lines().count(), 1 + 11 * 3, "{csv}");
    let svg = folder.read("out/pm9a3-like-without.svg");
    assert!(svg.contains("suspend: reads wait") && svg.contains("mean error over the rates"), "{svg}");
}

#[test]
fn what_cannot_be_checked_is_said() {
    let folder = Folder::new();
    folder.write("my.csv", CSV);
    let refused =
        |args: &[&str], parts: &[&str]| folder.strobe(&[&["twin", "check"], args].concat()).refused(parts);
    refused(&["pm9a4-like"], &["pm9a4-like", "did you mean pm9a3-like?", "--measurements"]);
    refused(&["--measurements", "my.csv"], &["needs exactly one DRIVE"]);
    refused(&["tlc-nvme-1t"], &["no bundled measurements"]);
    refused(&["pm9a3-like", "--measurements", "none.csv"], &["none.csv"]);
    folder.write("bad.csv", CSV.replace("64,237", "64,37"));
    refused(
        &["pm9a3-like", "--measurements", "bad.csv"],
        &["bad.csv, line 2", "read_p50_us is 64, more than"],
    );
}

#[test]
fn a_check_writes_over_nothing_that_it_reads() {
    let folder = Folder::new();
    folder.write("my.csv", CSV).write("my.toml", "preset = \"pm9a3-like\"\n");
    let check = ["twin", "check", "my.toml", "--tiny", "--measurements", "my.csv", "--out"];
    folder.strobe(&[&check[..], &["."]].concat()).refused(&["my.csv", "an input of the run"]);
    assert_eq!(folder.read("my.csv"), CSV);
    std::fs::create_dir(folder.path().join("out")).expect("new");
    let twice = ["out", "--json", "out/my.csv"];
    folder.strobe(&[&check[..], &twice].concat()).refused(&["--out and --json are the same file"]);
    // Another folder works; a note says that a drive of 960 GB is not one of 96 MB.
    let shown = folder.strobe(&[&check[..], &["out"]].concat()).ok();
    for part in ["my has 960.197 GB", "0.096 GB", "is it the right drive?"] {
        assert!(shown.err.contains(part), "{part}: {}", shown.err);
    }
    assert_eq!(folder.read("my.csv"), CSV);
}

#[test]
fn a_fit_that_is_refused_leaves_nothing_behind() {
    let folder = Folder::new();
    folder.write("my.csv", CSV);
    let fit = |more: &[&str]| {
        let args = ["twin", "fit", "my.csv", "--out", "my.toml", "--tiny", "--rounds", "1"];
        folder.strobe(&[&args[..], &SMALL, more].concat())
    };
    fit(&["--set", "drive.nand.data=\"bytes\""]).refused(&["data"]);
    fit(&["--set", "drive.nand.suspend.least_left_ns=99000000"]).refused(&["least_left_ns"]);
    assert!(!folder.path().join("my.toml.progress").exists());
    // Given settings are kept, even if they contradict the fitted values.
    fit(&["--set", "drive.nand.suspend.most=0"]).ok();
    let preset: toml::Table = folder.read("my.toml").parse().expect("TOML");
    let most = preset["nand"].get("suspend").and_then(|suspend| suspend.get("most"));
    assert!(most.is_none_or(|most| most.as_integer() == Some(0)), "{most:?}");
    // An edited preset is not overwritten.
    folder.write("my.toml", folder.read("my.toml").replace("[nand]", "# Mine.\n[nand]"));
    fit(&["--set", "drive.nand.suspend.most=0"]).refused(&["my.toml exists", "was changed since"]);
}

#[test]
fn a_fit_writes_a_preset_and_says_how_far_it_can_be_trusted() {
    let folder = Folder::new();
    folder.write("my.csv", CSV);
    let fit = |out: &str| {
        let args = ["twin", "fit", "my.csv", "--out", out, "--tiny", "--rounds", "1", "--json", "fit.json"];
        folder.strobe(&[&args[..], &SMALL].concat()).ok()
    };
    let shown = fit("my.toml");
    for part in ["Held-out rows, predicted", "parameter, fitted", "drives were simulated"] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    assert!(shown.err.contains("my.toml.progress"), "{}", shown.err);
    let result: Json = serde_json::from_str(&folder.read("fit.json")).expect("JSON");
    assert_eq!(
        violations(&result, &folder.strobe(&["schema", "twin-fit"]).ok().json()),
        Vec::<String>::new()
    );
    let preset = folder.read("my.toml");
    assert!(preset.contains("# Rows held out: 1") && preset.contains("# Rows fitted to: 5"), "{preset}");
    let run = ["run", "x.toml", "--set", "drive.preset=my.toml", "--json", "-", "--quiet"];
    folder.write("x.toml", "[run]\ntiming = false\nmeasure = \"1x\"\n");
    let result = folder.strobe(&run).ok().json();
    assert_eq!(result["config"]["drive"]["ftl"]["logical_pages"], 96_018_432 / 4096);
    // A resumed fit and a new one give identical bytes.
    fit("my.toml");
    assert_eq!(folder.read("my.toml"), preset);
    fit("other.toml");
    assert_eq!(folder.read("other.toml"), preset);
    let refused = |args: &[&str], parts: &[&str]| {
        folder.strobe(&[&["twin", "fit"], args, &["--tiny", "--rounds", "1"]].concat()).refused(parts);
    };
    refused(&["my.csv", "--out", "my.csv"], &["my.csv"]);
    refused(
        &["my.csv", "--out", "my.toml", "--seed", "2"],
        &["my.toml.progress holds finished points of another study"],
    );
    refused(&["my.csv", "--out", "new.toml", "--set", "run.timing=false"], &["only keys of the drive"]);
    refused(
        &["my.csv", "--out", "new.toml", "--set", "drive.ftl.logical_pages=20000"],
        &["capacity_bytes of the measurements"],
    );
    refused(
        &["my.csv", "--out", "new.toml", "--set", "drive.ftl={ logical_pages = 20000 }"],
        &["capacity_bytes of the measurements"],
    );
    let both = ["--set", "drive.nand . blocks_per_plane=400", "--set", "drive.ftl.over_provisioning=0.3"];
    refused(&[&["my.csv", "--out", "new.toml"], &both[..]].concat(), &["give one of them"]);
    let few: String = CSV.lines().take(4).map(|line| format!("{line}\n")).collect();
    folder.write("few.csv", few);
    refused(&["few.csv", "--out", "few.toml"], &["3 rows", "a fit needs 4"]);
    let thousands = CSV.replace("15000", "15").replace("25000", "25").replace("35000", "35");
    let thousands = thousands.replace("45000", "45").replace("55000", "55").replace("82300", "82");
    folder.write("few.csv", thousands);
    refused(&["few.csv", "--out", "few.toml"], &["is completed_s in another unit? It is requests a second"]);
    let bare = CSV.replace(",237,", ",,").replace(",276,", ",,");
    folder.write("few.csv", bare);
    refused(&["few.csv", "--out", "few.toml"], &["3 rows", "2 because read_p50_us or read_p99_us is empty"]);
}

#[test]
fn a_fit_that_is_killed_goes_on() {
    let folder = Folder::new();
    folder.write("my.csv", CSV);
    let fit = |out: &str| {
        let args = ["twin", "fit", "my.csv", "--out", out, "--tiny", "--rounds", "1", "--quiet"];
        folder.command(&[&args[..], &SMALL].concat())
    };
    let whole = fit("whole.toml").output().expect("the program starts");
    assert!(whole.status.success(), "{whole:?}");
    let kept = folder.read("whole.toml.progress");
    let lines = kept.lines().count();
    let so_far = || std::fs::read_to_string(folder.path().join("my.toml.progress")).unwrap_or_default();
    let mut killed = 0;
    for at in [1, 2, lines / 2, lines - 1] {
        let mut child = fit("my.toml").spawn().expect("the program starts");
        while so_far().lines().count() < at && child.try_wait().expect("its state").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().expect("killed");
        killed += u32::from(!child.wait().expect("ended").success());
        assert!(kept.starts_with(&so_far()), "killed at line {at}");
    }
    assert!(killed >= 2, "the machine was too fast, or too slow: {killed} of 4");
    let last = fit("my.toml").output().expect("the program starts");
    assert!(last.status.success(), "{last:?}");
    assert_eq!(folder.read("my.toml"), folder.read("whole.toml"));
    assert_eq!(so_far(), kept);
}

#[test]
fn a_fit_writes_over_nothing_but_itself() {
    let folder = Folder::new();
    folder
        .write("my.csv", CSV)
        .write("mine.toml", "[nand]\n")
        .write("old.toml", "# A drive fitted to x by `strobe");
    let refused = |args: &[&str], parts: &[&str]| {
        folder.strobe(&[&["twin", "fit", "my.csv", "--tiny", "--rounds", "1"], args].concat()).refused(parts);
    };
    // A file of another kind, and a fit without its progress file.
    for name in ["mine.toml", "old.toml"] {
        let before = folder.read(name);
        refused(&["--out", name], &[name, "exists and was not", "name another file, or remove it first"]);
        assert_eq!(folder.read(name), before);
    }
    refused(&["--out", "new.toml", "--json", "new.toml"], &["--out and --json are the same file"]);
    refused(&["--out", "new.toml", "--json", "new.toml.progress"], &["an input of the run"]);
    refused(&["--out", "old.toml", "--like", "old.toml"], &["an input of the run"]);
    refused(&["--out", "no/where.toml"], &["no such folder"]);
    folder.write("small.csv", CSV.replace("96018432", "4096"));
    let small = ["twin", "fit", "small.csv", "--out", "new.toml", "--tiny"];
    folder.strobe(&small).refused(&["a drive like pm9a3-like with 4096 bytes (capacity_bytes)", "--like"]);
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    // A pipe gets only the preset, and no file is kept.
    let args = ["twin", "fit", "my.csv", "--out", "-", "--tiny", "--rounds", "1"];
    let shown = folder.strobe(&[&args[..], &SMALL].concat()).ok();
    let preset: toml::Table = shown.out.parse().expect("TOML");
    assert!(preset.contains_key("nand"), "{}", shown.out);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), files);
}
