//! Experiments without a file: fio options, fio job files, `strobe new`.

use crate::{Ended, Folder};

#[track_caller]
fn load(folder: &Folder, args: &[&str]) -> Ended {
    folder.strobe(&[&["run", "--drive", "drive.toml", "--quiet", "--json", "-"], args].concat())
}

#[test]
fn a_load_in_fios_words_needs_no_file() {
    let folder = Folder::new();
    let args = ["--rw", "randrw", "--rwmixread", "25", "--bs", "8k", "--iodepth", "4", "--runtime", "50ms"];
    let result = load(&folder, &[&args[..], &["--size", "256k", "--time_based"]].concat()).ok().json();
    let workload = &result["config"]["workload"];
    for (key, value) in [("block_bytes", 8192), ("queue_depth", 4), ("size_bytes", 262_144)] {
        assert_eq!(workload[key], value, "{workload}");
    }
    assert_eq!((&workload["kind"], &workload["write_fraction"]), (&"uniform".into(), &0.75.into()));
    assert_eq!(
        (&workload["random_map"], &result["config"]["run"]["measure"]),
        (&true.into(), &"50ms".into())
    );
    // A job ends at its size unless time_based; a size may be a share of the drive.
    let sized = load(&folder, &["--rw", "randwrite", "--size", "50%", "--rate_iops", "5000"]).ok().json();
    let job = &sized["config"]["jobs"][0];
    assert_eq!(
        (&job["io_bytes"], &job["size_bytes"], &job["rate_iops"]),
        (&327_680.into(), &327_680.into(), &5000.into())
    );
    assert_eq!(sized["jobs"][0]["write"]["total_ios"], 80);
    // Words without effect are named, as in a pasted fio command.
    let pasted =
        ["--rw=write", "--size=64k", "--ioengine=psync", "--iodepth=8", "--direct=1", "--filename=/dev/x"];
    let pasted = load(&folder, &pasted).ok();
    pasted.says(&["ignored", "direct, filename", "iodepth=8 is 1"]);
    assert_eq!(pasted.json()["config"]["jobs"][0]["queue_depth"], 1);
    // Defaults of fio: 4 KiB, queue depth 1; and ten seconds.
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
    load(&folder, &[]).refused(&["no experiment given", "--rw randwrite --bs 4k"]);
    load(&folder, &["--rw", "randwrit"]).refused(&["--rw randwrit", "randrw or randtrim"]);
    load(&folder, &["--rw", "read", "--bs", "4q"]).refused(&["--bs 4q", "4096"]);
    load(&folder, &["--rw", "read", "--runtime", "soon"]).refused(&["--runtime soon"]);
    for (args, parts) in [
        (&["--rw", "randrw", "--rate_iops", "5"][..], &["--rate_iops 5", "separately", "of the reads"][..]),
        (&["--rw", "write", "--verify", "md5"], &["--verify md5", "would change the load", "left out"]),
        (&["--rw", "write", "--stonewall", "2"], &["--stonewall 2", "neither 0 nor 1"]),
        (&["--rw", "write", "--size", "1MiB"], &["--size 1MiB", "1,000 bytes"]),
        (&["--rw", "write", "--bs", "4k-8k"], &["--bs 4k-8k", "bsrange=4k-8k"]),
        (&["--rw", "write", "--bs", "4k,8k"], &["--bs 4k,8k", "a job for each"]),
        (&["--rw", "write", "--time_based"], &["--time_based", "runtime"]),
        (&["--rw", "write", "--numjob", "2"], &["--numjob", "'--numjobs'"]),
    ] {
        load(&folder, args).refused(parts);
    }
    load(&folder, &["--rw", "read", "--rwmixread", "101"]).refused(&["--rwmixread 101", "0 to 100"]);
    load(&folder, &["--bs", "4k"]).refused(&["--rw"]);
    folder.strobe(&["run", "tiny.toml", "--rw", "read"]).refused(&["--rw"]);
    folder.strobe(&["run", "tiny.toml", "--iodepth", "4"]).refused(&["--iodepth", "tiny.toml", "--set"]);
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
    // The commented-out keys are valid.
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
    folder.strobe(&new).refused(&["mine.toml exists"]);
    assert_eq!(folder.read("mine.toml"), "mine");
    folder.strobe(&["new", "bad.toml", "--rw", "wirte"]).refused(&["--rw wirte"]);
    assert!(!folder.path().join("bad.toml").exists());
}

fn span(job: &crate::Json) -> u64 {
    job["read"]["runtime"].as_u64().expect("a time")
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
    one.says(&["one.fio: ignored", "direct, filename"]);
    let result = one.json();
    let config = &result["config"];
    let jobs = config["jobs"].as_array().expect("jobs");
    for (key, value) in [("block_bytes", 8192), ("queue_depth", 8), ("flush_every", 32)] {
        assert_eq!(jobs[0][key], value, "{config}");
    }
    // The job has its name, and the results of the same load without one.
    assert_eq!((jobs.len(), &result["jobs"][0]["jobname"]), (1, &"writes".into()));
    let summary = folder.strobe(&["run", "one.fio", "--drive", "drive.toml"]).ok();
    assert!(summary.out.contains("writes: uniform writes"), "{}", summary.out);
    let words = "--rw randwrite --bs 8k --iodepth 8 --ramp_time 100ms --fsync 32 --randseed 7 --runtime 1 --time_based";
    let same = load(&folder, &words.split(' ').collect::<Vec<_>>()).ok().json();
    for part in ["waf", "nand", "host"] {
        assert_eq!(result[part], same[part], "{part}");
    }
    assert_eq!(result["time"]["virtual_ns"], same["time"]["virtual_ns"]);
    assert_eq!((&config["run"]["measure"], &config["run"]["warmup"]), (&"1s".into(), &"100ms".into()));
    assert_eq!(result["seed"], 7);
    folder.write(
        "two.fio",
        "[global]\nbs=4k\nrw=randread\nruntime=200ms\n[reads]\nnumjobs=2\n[writes]\nrw=randwrite\nstartdelay=50ms\n",
    );
    let two = load(&folder, &["two.fio"]).ok();
    assert_eq!(two.err, "");
    // Each job runs for its time, from its start.
    let spans: Vec<u64> = two.json()["jobs"].as_array().expect("jobs").iter().map(span).collect();
    assert_eq!(spans, [200, 200, 200]);
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
        ("", &["no job found"][..]),
        ("rw=read\n", &["line 1", "before the first [job]"]),
        ("[a]\nrw=read\nread_iolog=x\n", &["[a] read_iolog", "strobe replay FILE --format fio"]),
        ("[a]\nrw=read\n[b]\nrw=read\nstonewall\nsize=4k\n", &["[a] has no runtime and no size"]),
        ("[a]\nrw=read\niodpth=3\n", &["[a] iodpth", "did you mean iodepth?"]),
        ("[a]\nrw=write\nsize=4k\nloops=2\nend_fsync=1\n", &["[a] loops", "each pass"]),
        ("[a]\nrw=write\nsize=4k\nioengine=cpuio\n", &["[a] ioengine", "libaio"]),
        ("[a]\nrw=randwrite\nsize=1m\nbssplit=4k/50:6k/50\n", &["[a] norandommap", "multiples"]),
        ("[a]\nrw=randwrite\nsize=1m\nrandom_distribution=zoned:50/10\n", &["two zones", "80/20:20/80"]),
        (
            "[a]\nrw=read\nruntime=1\nramp_time=1\n[b]\nstonewall\nrw=read\nruntime=1\n",
            &["[b] begins later", "ramp_time"],
        ),
        ("[a]\niodepth=many\n", &["[a] iodepth", "\"many\" is not a whole number"]),
        ("[a]\nnumjobs=99999999999999999999\n", &["[a] numjobs", "is too large"]),
        ("[a]\nsize=99999999999999999999k\n", &["[a] size", "is too large"]),
        ("[a]\nsize=${SIZE}\n", &["line 2", "[a] size: ${SIZE} is not expanded; write its value"]),
        ("[a]\nrw=randrw\nfsync=1\n", &["fsync: it counts writes only"]),
        ("[a]\nrw=read\nruntime=1\n[b]\nrw=read\n", &["[b] has no runtime and no size", "give it one"]),
        ("[a]\nrw=backwards\nruntime=1\n", &["bad.fio", "jobs[0].rw", "backwards"]),
        ("[a]\nrw=\n", &["[a] rw", "no value"]),
    ] {
        folder.write("bad.fio", text);
        load(&folder, &["bad.fio"]).refused(parts);
    }
    folder.write("bad.fio", [0xff, 0xfe, 0]);
    load(&folder, &["bad.fio"]).refused(&["bad.fio", "UTF-8"]);
    load(&folder, &["nosuch.fio"]).refused(&["nosuch.fio", "No such file"]);
    // Arbitrary bytes never panic.
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

#[test]
fn every_word_of_fio_is_known_and_the_page_has_those_of_a_load() {
    use strobe_lab::fio::{WORDS, find, taken_names};
    let page = std::fs::read_to_string(crate::root().join("docs/how-to/fio.md")).expect("the page");
    for name in taken_names() {
        assert!(page.contains(&format!("`{name}`")) || name == "rw", "{name} is not on the page");
    }
    for (at, word) in WORDS.iter().enumerate() {
        let names = || [word.name].into_iter().chain(word.also.iter().copied());
        let others = WORDS[at + 1..].iter();
        let twice = others.flat_map(|word| [word.name].into_iter().chain(word.also.iter().copied()));
        let twice: Vec<&str> = twice.filter(|other| names().any(|name| name == *other)).collect();
        assert!(twice.is_empty(), "{twice:?} twice");
    }
    let Some(fio) = strobe_testing::program("fio", "fio") else { return };
    let words = std::process::Command::new(fio).arg("--cmdhelp=all").output().expect("fio starts").stdout;
    let words = String::from_utf8(words).expect("UTF-8");
    let words: Vec<&str> =
        words.lines().filter_map(|line| line.split_once(':')).map(|(word, _)| word.trim()).collect();
    assert!(words.len() > 200, "{words:?}");
    let missing: Vec<&&str> = words.iter().filter(|word| find(word).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
