//! `strobe twin`: on drives of a few blocks, whose numbers mean nothing but have the right shape.

use serde_json::Value as Json;

use crate::Folder;
use crate::schema::violations;

const CSV: &str = "capacity_bytes,offered_writes_s,offered_reads_s,completed_s,read_p50_us,read_p99_us,write_p50_us\n\
                   96018432,10000,5000,15000,64,237,11\n96018432,20000,5000,25000,71,276,11\n\
                   96018432,30000,5000,35000,73,318,11\n96018432,40000,5000,45000,89,349,11\n\
                   96018432,50000,5000,55000,104,372,12\n96018432,200000,5000,82300,,,\n";

/// Few dies, small blocks: what a test has time for.
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
    assert!(shown.out.contains("pm9a3-like beside Samsung PM9A3"), "{}", shown.out);
    assert!(shown.out.lines().all(|line| line.chars().count() <= 80), "{}", shown.out);
    let result: Json = serde_json::from_str(&folder.read("out.json")).expect("JSON");
    assert_eq!(
        violations(&result, &folder.strobe(&["schema", "twin-check"]).ok().json()),
        Vec::<String>::new()
    );
    let rows = result["drives"][0]["check"]["rows"].as_array().expect("rows");
    // Seven rates below saturation, and one beyond it.
    assert_eq!(rows.len(), 8);
    let stable: Vec<&Json> = rows.iter().filter(|row| row["is_stable"] == true).collect();
    assert_eq!(stable.len(), 7);
    for figure in rows.iter().flat_map(|row| row["figures"].as_array().expect("figures")) {
        let number = |key: &str| figure[key].as_f64().expect("a number");
        assert!((number("ours") / number("measured") - 1.0 - number("error")).abs() < 1e-9, "{figure}");
    }
    // Published: reads at 10,000 writes a second.
    assert_eq!(stable[0]["figures"][1]["measured"], 237.0);
    assert_eq!(folder.read("out/pm9a3-like.csv").lines().count(), 1 + 7 * 5 + 1);
    for picture in ["reads", "writes"] {
        let svg = folder.read(&format!("out/pm9a3-like-{picture}.svg"));
        assert!(svg.starts_with("<svg") && svg.contains("measured"), "{svg}");
    }
}

#[test]
fn what_cannot_be_checked_is_said() {
    let folder = Folder::new();
    folder.write("my.csv", CSV);
    let refused =
        |args: &[&str], parts: &[&str]| folder.strobe(&[&["twin", "check"], args].concat()).refused(parts);
    refused(&["pm9a4-like"], &["pm9a4-like", "did you mean pm9a3-like?", "--measurements"]);
    refused(&["--measurements", "my.csv"], &["needs one DRIVE"]);
    refused(&["tlc-nvme-1t"], &["no measurements come along"]);
    refused(&["pm9a3-like", "--measurements", "none.csv"], &["none.csv"]);
    folder.write("bad.csv", CSV.replace("64,237", "64,37"));
    refused(
        &["pm9a3-like", "--measurements", "bad.csv"],
        &["bad.csv, line 2", "read_p50_us is 64, more than"],
    );
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
    for part in ["Rows held out, predicted", "parameter, fitted", "drives were simulated"] {
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
    // It is a drive, of the capacity that was measured.
    let run = ["run", "x.toml", "--set", "drive.preset=my.toml", "--json", "-", "--quiet"];
    folder.write("x.toml", "[run]\ntiming = false\nmeasure = \"1x\"\n");
    let result = folder.strobe(&run).ok().json();
    assert_eq!(result["config"]["drive"]["ftl"]["logical_pages"], 96_018_432 / 4096);
    // Again, with what is kept, and anew: the same to the byte.
    fit("my.toml");
    assert_eq!(folder.read("my.toml"), preset);
    fit("other.toml");
    assert_eq!(folder.read("other.toml"), preset);
    let refused = |args: &[&str], parts: &[&str]| {
        folder.strobe(&[&["twin", "fit"], args, &["--tiny", "--rounds", "1"]].concat()).refused(parts);
    };
    refused(&["my.csv", "--out", "my.csv"], &["my.csv"]);
    refused(&["my.csv", "--out", "my.toml", "--seed", "2"], &["my.toml.progress belongs to another fit"]);
    refused(&["my.csv", "--out", "new.toml", "--set", "run.timing=false"], &["only keys of the drive"]);
    let few: String = CSV.lines().take(4).map(|line| format!("{line}\n")).collect();
    folder.write("few.csv", few);
    refused(&["few.csv", "--out", "few.toml"], &["3 rows", "a fit needs 4"]);
}

/// The script that measures drives, with a program in fio's place that answers at once.
#[test]
fn the_script_measures_only_what_it_was_told_to() {
    let folder = Folder::new();
    folder.write("drive", vec![7u8; 1 << 20]);
    let fake = "#!/usr/bin/env python3\nimport json, sys\nopen('asked', 'a').write(' '.join(sys.argv[1:]) + '\\n')\n\
        names = [a[7:] for a in sys.argv if a.startswith('--name=')]\n\
        p = {'50.000000': 64000, '99.000000': 237000, '99.900000': 393000, '99.990000': 526000}\n\
        one = lambda n: {'jobname': n, 'read': {'iops': 5000.0, 'clat_ns': {'percentile': p}}, \
        'write': {'iops': 5000.0, 'clat_ns': {'percentile': p}}}\nprint('fio: a note', file=sys.stderr)\n\
        print(json.dumps({'jobs': [one(n) for n in names]}))\n";
    folder.write("fio", fake);
    let run = |more: &[&str]| {
        let script = crate::root().join("scripts/measure-drive.py");
        let mut command = std::process::Command::new("python3");
        command.current_dir(folder.path()).arg(script).args(["drive", "--out", "my.csv", "--fio", "./fio"]);
        let done = command.args(["--rates", "5000,10000"]).args(more).output().expect("python3");
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stdout).into_owned(),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    let chmod = std::process::Command::new("chmod").arg("+x").arg(folder.path().join("fio")).status();
    assert!(chmod.is_ok_and(|status| status.success()));
    // Without a yes it says what it would do, and does nothing.
    let (code, out, err) = run(&[]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("EVERYTHING ON drive WILL BE LOST") && out.contains("10 minutes"), "{out}");
    assert!(!folder.path().join("asked").exists());
    let (code, ..) = run(&["--yes", "another"]);
    assert_eq!(code, Some(2));
    assert!(!folder.path().join("asked").exists());
    let (code, out, err) = run(&["--yes", "drive"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let asked = folder.read("asked");
    // In order, three times at random, and two rates.
    assert_eq!(asked.lines().count(), 1 + 3 + 2, "{asked}");
    assert!(
        asked.contains("--rate_process=poisson")
            && asked.contains("--numjobs=6")
            && asked.contains("--rate_iops=833")
    );
    let csv = folder.read("my.csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(
        csv.contains("1048576,7,64,5000,5000,10000,64.0,237.0,393.0,526.0,64.0,237.0,393.0,526.0"),
        "{csv}"
    );
    // Once more: nothing is left to do.
    let (code, out, _) = run(&["--yes", "drive"]);
    assert_eq!((code, folder.read("asked").lines().count()), (Some(0), 6), "{out}");
    // And what it writes is what a fit reads.
    let read = folder.strobe(&["twin", "fit", "my.csv", "--out", "my.toml", "--tiny"]);
    read.refused(&["2 rows", "a fit needs 4"]);
}
