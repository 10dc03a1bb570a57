//! First hour of a new user: figures are labelled, and options take effect.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value as Json;

use crate::endings::wait_for_handler;
use crate::{Folder, TINY, finish, root};

fn trace(requests: u64, interval_us: u64) -> String {
    let mut text = String::from("fio version 3 iolog\n0 a add\n0 a open\n");
    for request in 0..requests {
        text += &format!("{} a write {} 4096\n", request * interval_us, request % 160 * 4096);
    }
    text
}

#[test]
fn latencies_beyond_eighteen_minutes_are_told_apart() {
    let folder = Folder::new();
    folder.write("t.fio", trace(4000, 50));
    let slow = ["--set", "drive.nand.program_ns=900000000", "--set", "drive.nand.erase_ns=900000000"];
    let result = folder.replay("t.fio", "fio", &slow).ok().json();
    let latency = &result["jobs"][0]["write"]["clat_ns"];
    let at = |key: &str| latency["percentile"][key].as_u64().expect("a percentile");
    let (p50, p99, max) = (at("50.000000"), at("99.000000"), latency["max"].as_u64().expect("a maximum"));
    assert!(p50 > 1_500_000_000_000, "half of an hour of waiting: {p50}");
    assert!(p99 > p50 && p99 <= max, "{p50} {p99} {max}");
    assert!(at("99.950000") as f64 > 0.99 * max as f64, "{latency}");
    assert!(latency["percentile"]["99.990000"].is_null(), "10,000 would tell: {latency}");
}

#[test]
fn a_run_in_which_the_drive_did_not_keep_up_says_so() {
    let folder = Folder::new();
    // 200 ms of trace, more than two seconds of work.
    folder.write("fast.fio", trace(4000, 50)).write("slow.fio", trace(400, 20_000));
    let fast = folder.replay("fast.fio", "fio", &[]).ok().json();
    assert_eq!(fast["load"]["kept_up"], false);
    assert!(fast["load"]["behind_ns"].as_u64() > Some(1_000_000_000), "{}", fast["load"]);
    assert!(fast["notes"][0].as_str().expect("a note").contains("DID NOT KEEP UP"), "{}", fast["notes"]);
    let slow = folder.replay("slow.fio", "fio", &[]).ok().json();
    assert_eq!((&slow["load"]["kept_up"], &slow["notes"]), (&Json::Bool(true), &Json::Array(vec![])));
    assert!((slow["load"]["offered_iops"].as_f64().expect("a rate") - 50.1).abs() < 0.1, "{}", slow["load"]);
    let text = folder.strobe(&["replay", "fast.fio", "--format", "fio", "--drive", "drive.toml"]).ok().out;
    assert!(text.contains("DID NOT KEEP UP") && text.contains("--closed-loop"), "{text}");
    assert_eq!(folder.tiny(&["workload.rate_iops=100"]).ok().json()["load"]["kept_up"], true);
    let late = folder.tiny(&["workload.rate_iops=100000"]).ok().json();
    assert_eq!(late["load"]["kept_up"], false);
    assert_eq!(folder.tiny(&[]).ok().json()["load"], Json::Null);
}

#[test]
fn a_trace_without_times_in_open_loop_is_called_that() {
    let folder = Folder::new();
    let mut text = String::from("fio version 2 iolog\na add\na open\n");
    (0..10).for_each(|at| text += &format!("a write {} 4096\n", at * 4096));
    folder.write("t.fio", text);
    let result = folder.replay("t.fio", "fio", &[]).ok().json();
    assert_eq!(result["load"]["kept_up"], false);
    assert!(result["notes"][0].as_str().is_some_and(|note| note.contains("NO TIMES")), "{}", result["notes"]);
    assert_eq!(folder.replay("t.fio", "fio", &["--closed-loop"]).ok().json()["notes"], Json::Array(vec![]));
}

#[test]
fn wear_that_was_waited_for_in_vain_is_told() {
    let folder = Folder::new();
    let notes = |sets: &[&str]| folder.tiny(sets).ok().json()["notes"].to_string();
    assert!(notes(&["run.until_bad_blocks=3"]).contains("run.until_bad_blocks"));
    assert!(notes(&["run.until_end_of_life=true"]).contains("run.measure ended first"));
    assert_eq!(notes(&[]), "[]");
}

#[test]
fn no_percentile_lies_beyond_the_longest() {
    let folder = Folder::new();
    for seed in 1..5 {
        let result = folder.tiny(&[&format!("seed={seed}"), "workload.write_fraction=0.5"]).ok().json();
        for kind in ["read", "write"] {
            let latency = &result["jobs"][0][kind]["clat_ns"];
            let (min, max) = (latency["min"].as_u64().expect("min"), latency["max"].as_u64().expect("max"));
            for (key, value) in latency["percentile"].as_object().expect("percentiles") {
                let value = value.as_u64().unwrap_or(max);
                assert!((min..=max).contains(&value), "{kind} p{key} is {value}, of {min} to {max}");
            }
            assert!(latency["percentile"]["50.000000"].is_u64(), "{latency}");
        }
    }
}

#[test]
fn a_drive_that_collected_nothing_is_not_steady() {
    let folder = Folder::new();
    let sets = ["drive.nand.blocks_per_plane=16384", "drive.ftl.logical_pages=16000"];
    let result = folder.tiny(&sets).ok().json();
    assert_eq!((&result["waf"], &result["nand"]["erase"]["total"]), (&1.0.into(), &0.into()));
    assert_eq!(
        (&result["window"]["verdict"], &result["steady_state"]["reached"]),
        (&"nothing-collected".into(), &false.into())
    );
    let args: Vec<&str> = ["run", "tiny.toml", "--full"]
        .into_iter()
        .chain(sets.iter().flat_map(|set| ["--set", set]))
        .collect();
    let text = folder.strobe(&args).ok().out;
    assert!(text.contains("NOTHING WAS COLLECTED") && !text.contains("steady state:"), "{text}");
}

#[test]
fn the_headline_names_its_window_and_a_transient_is_called_that() {
    let folder = Folder::new();
    let run = |sets: &[&str]| {
        let all: Vec<&str> = [
            "drive.nand.blocks_per_plane=2560",
            "drive.ftl.logical_pages=16000",
            "drive.nand.endurance_pe=0",
        ]
        .iter()
        .chain(sets)
        .copied()
        .collect();
        let args: Vec<&str> = ["run", "tiny.toml", "--full"]
            .into_iter()
            .chain(all.iter().flat_map(|set| ["--set", set]))
            .collect();
        (folder.tiny(&all).ok().json(), folder.strobe(&args).ok().out)
    };
    let (early, text) = run(&["run.warmup=0", "run.measure=2x"]);
    assert_eq!(early["window"]["verdict"], "transient");
    assert!(text.contains("over 32,000 host pages, 2.00 × of the capacity"), "{text}");
    assert!(text.contains("TRANSIENT") && text.contains("run.warmup"), "{text}");
    // The end of the window is steady, the window as a whole is not.
    let (mixed, text) = run(&["run.warmup=0", "run.measure=6x"]);
    assert_eq!(
        (&mixed["window"]["verdict"], &mixed["steady_state"]["reached"]),
        (&"transient".into(), &true.into())
    );
    assert!(text.contains("steady at the end, but not over the whole measured window"), "{text}");
    let (late, text) = run(&["run.warmup=20x", "run.measure=10x"]);
    assert_eq!(late["window"]["verdict"], "steady", "{}", late["steady_state"]);
    assert!(!text.contains("TRANSIENT") && text.contains("steady state"), "{text}");
    let (short, text) = run(&["run.warmup=20x", "run.measure=0.3x"]);
    assert_eq!(
        (&short["window"]["verdict"], &short["steady_state"]),
        (&"too-few-intervals".into(), &Json::Null)
    );
    assert!(text.contains("no verdict on the steady state"), "{text}");
}

#[test]
fn capacity_and_over_provisioning_are_stated_and_kept_when_a_preset_is_resized() {
    let folder = Folder::new();
    folder.write("plain.toml", "[run]\nmeasure = 1000\nprefill = false\ntiming = false\n");
    let run = |sets: &[&str]| {
        let args: Vec<&str> = ["run", "plain.toml", "--quiet", "--json", "-"]
            .into_iter()
            .chain(sets.iter().flat_map(|set| ["--set", set]))
            .collect();
        folder.strobe(&args).ok().json()["capacity"].clone()
    };
    let spare = |room: &Json| (room["over_provisioning"].as_f64().expect("a share") * 1e4).round();
    let preset = run(&[]);
    assert_eq!(
        (preset["raw_bytes"].as_u64(), preset["logical_bytes"].as_u64()),
        (Some(8 << 30), Some(1_635_778 * 4096))
    );
    assert_eq!(spare(&preset), 2821.0);
    assert_eq!(spare(&run(&["drive.nand.blocks_per_plane=32768"])), 2821.0);
    assert_eq!(spare(&run(&["drive.nand.blocks_per_plane=512"])), 2821.0);
    assert_eq!(
        spare(&run(&["drive.nand.blocks_per_plane=16384", "drive.ftl.logical_pages=1635778"])),
        15641.0
    );
    // Blocks that hold the map are no capacity for data.
    let durable = run(&[
        "drive.nand.blocks_per_plane=512",
        "drive.ftl.durable_map=true",
        "drive.nand.factory_bad_blocks=5",
    ]);
    assert!(durable["reserved_bytes"].as_u64() > Some(5 << 20) && spare(&durable) < 2700.0, "{durable}");
    let text = folder.strobe(&["run", "plain.toml", "--full"]).ok().out;
    for part in
        ["generic-8g", "8.0 GiB of flash", "6.2 GiB offered", "28.2 % over-provisioning", "greedy", "uniform"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let checked =
        folder.strobe(&["check", "plain.toml", "--set", "drive.nand.blocks_per_plane=16384"]).ok().out;
    assert!(checked.contains("16.0 GiB of flash, 12.5 GiB offered, 28.2 % over-provisioning"), "{checked}");
    folder.write("again.toml", &checked);
    assert_eq!(folder.strobe(&["check", "again.toml"]).ok().out, checked);
}

#[test]
fn options_without_effect_are_refused() {
    let folder = Folder::new();
    folder.write("t.fio", trace(10, 50));
    folder
        .strobe(&["replay", "t.fio", "--format", "fio", "--drive", "drive.toml", "--queue-depth", "4"])
        .refused(&["workload.queue_depth", "no effect", "--closed-loop"]);
    folder.replay("t.fio", "fio", &["--queue-depth", "4", "--closed-loop"]).ok();
    folder
        .strobe(&["replay", "t.fio", "--format", "fio", "--action", "D"])
        .refused(&["action", "format fio has no actions"]);
    folder.tiny(&["workload.theta=1.2"]).refused(&["workload.theta", "no effect", "zipf"]);
    folder.tiny(&["run.timing=false", "workload.rate_iops=5"]).refused(&["rate_iops", "run.timing = true"]);
    folder.tiny(&["drive.ftl.log_blocks=9"]).refused(&["log_blocks", "fast"]);
    // The file may keep keys that the command line disables; a note says so.
    folder.write("zipf.toml", TINY.replace("kind = \"uniform\"", "kind = \"zipf\"\ntheta = 1.2"));
    let args = ["run", "zipf.toml", "--set", "workload.kind=uniform"];
    let text = folder.strobe(&args).ok().out;
    assert!(text.contains("note: workload.theta has no effect unless"), "{text}");
}

#[test]
fn a_power_cut_beyond_the_end_fails_the_run() {
    let folder = Folder::new();
    let durable = [
        "--set",
        "drive.ftl.durable_map=true",
        "--set",
        "drive.nand.data=stamp",
        "--set",
        "drive.nand.blocks_per_plane=128",
    ];
    let run = |more: &[&str]| {
        let args: Vec<&str> = ["run", "tiny.toml", "--json", "-"]
            .into_iter()
            .chain(durable)
            .chain(more.iter().copied())
            .collect();
        folder.strobe(&args)
    };
    run(&["--cut", "300"]).ok();
    let missed = run(&["--cut", "300", "--cut", "100000000"]);
    assert_eq!(missed.code, 1);
    missed.says(&["never cut at flash operation 100000000", "longer run.measure"]);
    let result = missed.json();
    assert_eq!((&result["partial"], result["power_cuts"].as_array().map(Vec::len)), (&true.into(), Some(1)));
    let never = run(&["--set", "power.cut_every=100000000"]);
    assert_eq!(never.code, 1);
    never.says(&["power.cut_every"]);
}

#[test]
fn a_formula_of_the_wrong_sign_is_named_as_what_killed_the_drive() {
    let folder = Folder::new();
    folder.write("worn.toml", "[drive.nand]\nblocks_per_plane = 256\npages_per_block = 64\nendurance_pe = 100\n[drive.ftl.gc]\nvictim = \"u\"\n[run]\nmeasure = \"20x\"\ntiming = false\n");
    let ended = folder.strobe(&["run", "worn.toml", "--json", "-"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.says(&["worn out by copies", "write amplification was", "LARGEST", "-(u)"]);
    // With unlimited endurance it continues, with a note.
    let args =
        ["run", "worn.toml", "--json", "-", "--set", "drive.nand.endurance_pe=0", "--set", "run.measure=2x"];
    let result = folder.strobe(&args).ok().json();
    assert!(result["notes"][0].as_str().is_some_and(|note| note.contains("LARGEST")), "{}", result["notes"]);
    let args = [
        "run",
        "worn.toml",
        "--json",
        "-",
        "--set",
        "drive.ftl.gc.victim=1-u",
        "--set",
        "drive.nand.endurance_pe=0",
    ];
    assert_eq!(folder.strobe(&args).ok().json()["notes"], Json::Array(vec![]));
}

#[test]
fn a_run_that_is_told_to_terminate_leaves_a_partial_result() {
    let folder = Folder::new();
    let args = [
        "run",
        "tiny.toml",
        "--json",
        "out.json",
        "--set",
        "run.measure=10000000x",
        "--set",
        "drive.nand.endurance_pe=0",
    ];
    let mut command = folder.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    wait_for_handler(child.id());
    std::thread::sleep(Duration::from_millis(300));
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let ended = finish(child);
    assert_eq!(ended.code, 143);
    ended.says(&["partial", "interrupted"]);
    assert!(ended.out.starts_with("PARTIAL RESULT"), "{}", ended.out);
    let result: Json = serde_json::from_str(&folder.read("out.json")).expect("JSON");
    assert_eq!(result["partial"], true);
}

#[test]
fn experiments_and_traces_come_from_standard_input_too() {
    let folder = Folder::new();
    let piped = |args: &[&str], input: &str| {
        let mut command = folder.command(args);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut pipe, input.as_bytes()).expect("read by the program");
        drop(pipe);
        finish(child)
    };
    let args = ["run", "-", "--quiet", "--json", "-", "--reproducible"];
    let from_file = folder.strobe(&["run", "tiny.toml", "--quiet", "--json", "-", "--reproducible"]).ok();
    assert_eq!(piped(&args, TINY).ok().out, from_file.out);
    piped(&["check", "-"], "[worklod]").refused(&["-", "workload"]);
    let args = ["replay", "-", "--format", "fio", "--drive", "drive.toml", "--quiet", "--json", "-"];
    let replayed = piped(&args, &trace(100, 50)).ok().json();
    assert_eq!(replayed["trace"]["requests"]["write"], 100);
    piped(&[&args[..], &["--repeat", "2"]].concat(), "").refused(&["--repeat", "only once"]);
}

#[test]
fn presets_of_ones_own_are_files_or_names() {
    let folder = Folder::new();
    let shown = folder.strobe(&["show", "preset", "ez-x5-32m"]).ok().out;
    folder.write("mine.toml", &shown);
    folder.write("e.toml", "[drive]\npreset = \"mine.toml\"\n[run]\nmeasure = 100\n");
    let capacity = |args: &[&str]| folder.strobe(args).ok().json()["capacity"].clone();
    let named = capacity(&["run", "e.toml", "--quiet", "--json", "-", "--set", "drive.preset=ez-x5-32m"]);
    assert_eq!(capacity(&["run", "e.toml", "--quiet", "--json", "-"]), named);
    folder.write("t.fio", trace(10, 50));
    assert_eq!(
        capacity(&["replay", "t.fio", "--format", "fio", "--drive", "mine.toml", "--quiet", "--json", "-"]),
        named
    );
    let home = folder.path().join("config");
    std::fs::create_dir_all(home.join("strobe/presets")).expect("made");
    std::fs::write(home.join("strobe/presets/own.toml"), &shown).expect("written");
    let with_home = |args: &[&str]| {
        let mut command = folder.command(args);
        command.env("XDG_CONFIG_HOME", &home).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("the program starts"))
    };
    let args = ["run", "e.toml", "--quiet", "--json", "-", "--set", "drive.preset=own"];
    assert_eq!(with_home(&args).ok().json()["capacity"], named);
    assert!(with_home(&["list", "presets"]).ok().out.contains("own"));
    assert_eq!(with_home(&["show", "preset", "own"]).ok().out.trim_end(), shown.trim_end());
    with_home(&["run", "e.toml", "--set", "drive.preset=wn"]).refused(&["drive.preset", "own"]);
    std::fs::write(home.join("strobe/presets/generic-8g.toml"), &shown).expect("written");
    with_home(&["run", "tiny.toml", "--set", "drive.preset=generic-8g"])
        .refused(&["generic-8g.toml", "rename"]);
    folder
        .strobe(&["replay", "t.fio", "--format", "fio", "--drive", "tiny.toml"])
        .refused(&["tiny.toml", "next to [drive]"]);
    folder.write("empty.toml", "\n# nothing\n");
    folder.strobe(&["run", "empty.toml"]).refused(&["empty.toml", "the file is empty"]);
    folder.strobe(&["run", "mine.toml"]).refused(&["a drive, not an experiment", "preset"]);
}

#[test]
fn every_program_runs_with_its_own_defaults() {
    let folder = Folder::new();
    for (program, shorter) in [
        ("postmark", &[][..]),
        ("camera", &["--set", "transactions=3"]),
        ("varmail", &["--set", "steps=2000"]),
        ("filemicro-delete", &[]),
        ("tiobench", &[]),
        ("copy-tar", &[]),
        ("ageing", &["--set", "update_bytes=1048576"]),
    ] {
        folder.strobe(&[&["files", program][..], shorter].concat()).ok();
    }
    let full = folder.strobe(&["files", "postmark", "--volume", "4"]);
    assert_eq!(full.code, 1, "{full:?}");
    full.says(&["no space left on the FAT volume of 4 MiB", "--volume", "--set"]);
    folder
        .strobe(&["files", "postmark", "--volume", "4", "--directory", "d"])
        .refused(&["--volume", "--directory"]);
}

#[test]
fn tables_fit_eighty_columns() {
    let folder = Folder::new();
    folder.write("t.fio", trace(4000, 50));
    let grid = "[sweep]\nseeds = 2\nmeasure = [\"waf\", \"write.p99_9_ns\"]\n[sweep.grid]\n\
                \"drive.ftl.gc.victim\" = [\"greedy\", \"cost-benefit\"]\n\"drive.nand.erase_ns\" = [1_000_000, 20_000_000]";
    folder.write("sweep.toml", format!("{}\n{grid}", crate::TINY));
    let sets = [
        "--set",
        "drive.ftl.durable_map=true",
        "--set",
        "drive.nand.data=stamp",
        "--set",
        "drive.nand.blocks_per_plane=128",
    ];
    let cut = [&["run", "tiny.toml", "--full", "--set", "power.cut_every=200"][..], &sets].concat();
    let mixed = [
        "run",
        "tiny.toml",
        "--full",
        "--set",
        "workload.write_fraction=0.5",
        "--set",
        "workload.trim_fraction=0.1",
    ];
    // The terminal wraps sentences, but would break tables and charts.
    let is_prose =
        |line: &str| line.trim_start().matches("  ").count() < 3 && !line.contains(['─', '│', '█']);
    for args in [
        &cut[..],
        &mixed,
        &["replay", "t.fio", "--format", "fio", "--drive", "drive.toml"],
        &["sweep", "sweep.toml"],
        &["list", "presets"],
        &["list", "policies"],
        &["list", "formats"],
        &["list", "papers"],
        &["list", "workloads"],
        &["paper", "trim", "--tiny"],
        &["paper", "capi", "--tiny"],
    ] {
        let text = folder.strobe(args).ok().out;
        for line in text.lines().filter(|line| !is_prose(line)) {
            assert!(
                line.chars().count() <= 80,
                "{args:?}: {} columns:\n{line}\nin\n{text}",
                line.chars().count()
            );
        }
    }
}

#[test]
fn help_begins_with_the_six_options_that_a_newcomer_needs() {
    let folder = Folder::new();
    for (command, headings) in [
        ("run", &["More output:", "Images and saved states:", "Load without a file, in fio's words:"][..]),
        ("linux", &["File system:", "Guest:", "More output:"]),
        ("crash", &["File system:", "Guest:", "Power cuts:"]),
        ("sweep", &[]),
    ] {
        let help = folder.strobe(&[command, "-h"]).ok().out;
        let first = help.lines().skip_while(|line| *line != "Options:").take_while(|line| !line.is_empty());
        let options: Vec<&str> = first.filter(|line| line.trim_start().starts_with('-')).collect();
        // Including --help itself.
        assert!((4..=7).contains(&options.len()), "{command}: {options:?}");
        for heading in headings {
            assert!(help.contains(&format!("\n{heading}\n")), "{command}: {heading} is missing in {help}");
        }
    }
}

#[test]
fn help_teaches_by_example_and_the_program_tells_its_commit() {
    let folder = Folder::new();
    for (command, parts) in [
        ("run", ["strobe run examples/quickstart.toml", "--set"]),
        ("replay", ["strobe replay -", "--closed-loop"]),
        ("files", ["strobe files camera", "--trace"]),
    ] {
        let help = folder.strobe(&[command, "--help"]).ok().out;
        assert!(help.contains("Examples:") && parts.iter().all(|part| help.contains(part)), "{help}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(folder.strobe(&["completions", shell]).ok().out.contains("replay"), "{shell}");
    }
    assert!(folder.strobe(&["man"]).ok().out.contains(".TH strobe 1"));
    std::fs::create_dir(folder.path().join("man")).expect("made");
    folder.strobe(&["man", "--out", "man"]).ok();
    for page in ["strobe.1", "strobe-run.1", "strobe-replay.1", "strobe-linux-build-kernel.1"] {
        assert!(folder.read(&format!("man/{page}")).contains(".SH"), "{page}");
    }
    assert!(!folder.path().join("man/strobe-sweep-worker.1").exists());
    let page = folder.strobe(&["schema", "experiment", "--markdown"]).ok().out;
    assert_eq!(
        page.trim_end(),
        std::fs::read_to_string(root().join("docs/REFERENCE.md")).expect("there").trim_end()
    );
    assert!(folder.strobe(&["--version"]).ok().out.starts_with("strobe 0."));
}

#[test]
fn the_full_output_has_pictures() {
    let folder = Folder::new();
    let text = folder.strobe(&["run", "tiny.toml", "--full", "--set", "run.measure=10x"]).ok().out;
    assert!(text.contains("write amplification from") && text.contains('┊') && text.contains('┤'), "{text}");
    assert!(text.contains("latency ") && text.contains("↑p50") && text.contains('█'), "{text}");
}
