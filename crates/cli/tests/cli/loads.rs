//! Experiments without a file: fio's options, fio's job files, `strobe new`.

use crate::{Ended, Folder};

/// Runs the load of `args` on the tiny drive.
#[track_caller]
fn load(folder: &Folder, args: &[&str]) -> Ended {
    folder.strobe(&[&["run", "--drive", "drive.toml", "--quiet", "--json", "-"], args].concat())
}

#[test]
fn a_load_in_fios_words_needs_no_file() {
    let folder = Folder::new();
    let args = ["--rw", "randrw", "--rwmixread", "25", "--bs", "8k", "--iodepth", "4", "--runtime", "50ms"];
    let result = load(&folder, &[&args[..], &["--size", "256k", "--rate_iops", "500"]].concat()).ok().json();
    let workload = &result["config"]["workload"];
    for (key, value) in
        [("block_bytes", 8192), ("queue_depth", 4), ("size_bytes", 262_144), ("rate_iops", 500)]
    {
        assert_eq!(workload[key], value, "{workload}");
    }
    assert_eq!((&workload["kind"], &workload["write_fraction"]), (&"uniform".into(), &0.75.into()));
    assert_eq!(result["config"]["run"]["measure"], "50ms");
    // As in fio: 4 KiB, one at a time; and ten seconds.
    let plain = load(&folder, &["--rw", "write", "--set", "run.timing=true"]).ok().json();
    let config = &plain["config"];
    assert_eq!(
        (&config["workload"]["kind"], &config["workload"]["block_bytes"]),
        (&"sequential".into(), &4096.into())
    );
    assert_eq!((&config["workload"]["queue_depth"], &config["run"]["measure"]), (&1.into(), &"10s".into()));
}

#[test]
fn errors_of_a_load_name_its_options() {
    let folder = Folder::new();
    load(&folder, &[]).refused(&["nothing says what to run", "--rw randwrite --bs 4k"]);
    load(&folder, &["--rw", "randwrit"]).refused(&["--rw randwrit", "randwrite or randrw"]);
    load(&folder, &["--rw", "read", "--bs", "4q"]).refused(&["--bs 4q", "4096"]);
    load(&folder, &["--rw", "read", "--runtime", "soon"]).refused(&["--runtime soon"]);
    load(&folder, &["--rw", "read", "--rwmixread", "101"]).refused(&["--rwmixread 101", "0 to 100"]);
    load(&folder, &["--bs", "4k"]).refused(&["--rw"]);
    folder.strobe(&["run", "tiny.toml", "--rw", "read"]).refused(&["--rw"]);
    folder.strobe(&["run", "--rw", "read", "--drive", "nosuch"]).refused(&["drive.preset", "nosuch"]);
}

#[test]
fn a_printed_experiment_gives_the_same_result() {
    let folder = Folder::new();
    let args =
        ["--rw", "randrw", "--rwmixread", "30", "--iodepth", "4", "--runtime", "50ms", "--reproducible"];
    let printed =
        folder.strobe(&[&["run", "--drive", "drive.toml", "--print-experiment"], &args[..]].concat()).ok();
    assert!(
        printed.out.contains("rw = \"randrw\"") && printed.out.contains("# requests outstanding"),
        "{printed:?}"
    );
    folder.write("same.toml", &printed.out);
    let same = folder.strobe(&["run", "same.toml", "--quiet", "--json", "-", "--reproducible"]).ok();
    assert_eq!(same.json(), load(&folder, &args).ok().json());
    folder
        .strobe(&["run", "tiny.toml", "--print-experiment"])
        .refused(&["--print-experiment", "strobe check"]);
}

#[test]
fn a_new_experiment_runs_and_replaces_nothing() {
    let folder = Folder::new();
    let new = ["new", "mine.toml", "--drive", "drive.toml"];
    let made = folder.strobe(&new).ok();
    made.says(&["mine.toml is written"]);
    folder.strobe(&["check", "mine.toml"]).ok();
    // The keys that are switched off are keys.
    let on: String = folder
        .read("mine.toml")
        .lines()
        .map(|line| {
            let line = line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line);
            format!("{line}\n")
        })
        .collect();
    assert!(on.contains("\nftl.over_provisioning = 0.28") && on.contains("\nxray = 60"), "{on}");
    folder.write("on.toml", on.replace("\"drive.toml\"", "\"generic-8g\""));
    folder.strobe(&["check", "on.toml"]).ok();
    folder.write("mine.toml", "mine");
    folder.strobe(&new).refused(&["mine.toml is there already"]);
    assert_eq!(folder.read("mine.toml"), "mine");
    folder.strobe(&["new", "bad.toml", "--rw", "wirte"]).refused(&["--rw wirte"]);
    assert!(!folder.path().join("bad.toml").exists());
}

#[test]
fn a_job_file_of_fio_runs() {
    let folder = Folder::new();
    folder.write(
        "one.fio",
        "; comment\n[global]\nioengine=libaio\ndirect=1\nfilename=/dev/nvme0n1\ntime_based\nruntime=1\n\n\
         [writes]\nreadwrite=randwrite\nblocksize=8k\niodepth=8\nramp_time=100ms\nfsync=32\nrandseed=7\n",
    );
    let one = load(&folder, &["one.fio"]).ok();
    one.says(&["one.fio: left out", "ioengine, direct, filename"]);
    let result = one.json();
    let config = &result["config"];
    for (key, value) in [("block_bytes", 8192), ("queue_depth", 8), ("flush_every", 32)] {
        assert_eq!(config["workload"][key], value, "{config}");
    }
    assert_eq!((&config["run"]["measure"], &config["run"]["warmup"]), (&"1s".into(), &"100ms".into()));
    assert_eq!(result["seed"], 7);
    folder.write(
        "two.fio",
        "[global]\nbs=4k\nrw=randread\nruntime=200ms\n[reads]\nnumjobs=2\n[writes]\nrw=randwrite\nstartdelay=50ms\n",
    );
    let two = load(&folder, &["two.fio"]).ok();
    assert_eq!(two.err, "");
    let names: Vec<String> =
        two.json()["jobs"].as_array().expect("jobs").iter().map(|job| job["jobname"].to_string()).collect();
    assert_eq!(names, ["\"reads.0\"", "\"reads.1\"", "\"writes\""]);
    let printed = folder.strobe(&["run", "two.fio", "--drive", "drive.toml", "--print-experiment"]).ok().out;
    assert!(printed.contains("[[jobs]]") && printed.contains("name = \"reads\""), "{printed}");
}

#[test]
fn a_job_file_that_asks_for_more_is_refused() {
    let folder = Folder::new();
    for (text, parts) in [
        ("", &["no job in it"][..]),
        ("rw=read\n", &["line 1", "before the first [job]"]),
        ("[a]\nrw=read\nstonewall\n", &["[a] stonewall", "no key of a job file that is known here"]),
        ("[a]\nrw=read\niodpth=3\n", &["[a] iodpth", "did you mean iodepth?"]),
        ("[a]\niodepth=many\n", &["[a] iodepth", "\"many\" is not a whole number"]),
        ("[a]\nrw=randrw\nfsync=1\n", &["fsync counts writes only"]),
        ("[a]\nrw=read\nruntime=1\n[b]\nrw=read\n", &["no runtime", "give each one"]),
        ("[a]\nrw=backwards\nruntime=1\n", &["bad.fio", "workload.rw", "backwards"]),
        ("[a]\nrw=\n", &["[a] rw", "no value"]),
    ] {
        folder.write("bad.fio", text);
        load(&folder, &["bad.fio"]).refused(parts);
    }
    folder.write("bad.fio", [0xff, 0xfe, 0]);
    load(&folder, &["bad.fio"]).refused(&["bad.fio", "UTF-8"]);
    load(&folder, &["nosuch.fio"]).refused(&["nosuch.fio", "No such file"]);
    // Bytes from outside never panic.
    for text in [
        "[",
        "]",
        "[]",
        "[]\n=",
        "[é]\n=é\n\u{0}=1\n",
        "[global]\n[global]\nrw=read\n",
        "[a]\nname=\nrw=read\n",
    ] {
        folder.write("bad.fio", text);
        load(&folder, &["bad.fio"]).refused(&["bad.fio"]);
    }
}
