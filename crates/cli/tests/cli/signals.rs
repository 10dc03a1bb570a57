//! INT, TERM and HUP end every phase of every command soon, with the signal's exit code and any partial
//! result.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value as Json;

use crate::endings::wait_for_handler;
use crate::{Ended, Folder, finish, finish_with};

const SIGNALS: [(&str, i32); 3] = [("-INT", 130), ("-TERM", 143), ("-HUP", 129)];

/// Sends `signal` after the program starts to listen. `args` must name a run too long to end by itself.
fn stopped(folder: &Folder, args: &[&str], (signal, code): (&str, i32)) -> Ended {
    // Ignored signals are inherited, for example from nohup.
    let program = folder.command(args);
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM").arg(program.get_program()).args(program.get_args());
    command.current_dir(folder.path()).stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let pid = child.id();
    wait_for_handler(pid);
    std::thread::sleep(Duration::from_millis(250));
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
    assert!(sent.success(), "{args:?} has ended by itself");
    // Within two seconds on an idle machine.
    let ended = finish_with(child, Duration::from_secs(20));
    assert_eq!(ended.code, code, "{args:?}: {ended:?}");
    ended
}

/// `sets` make one phase last for minutes; each signal leaves a complete partial result.
fn phase(folder: &Folder, sets: &[&str], more: &[&str]) -> Vec<Json> {
    // A drive that wears out would end the run.
    let mut args = vec!["run", "tiny.toml", "--quiet", "--json", "-", "--set", "drive.nand.endurance_pe=0"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    args.extend(more);
    SIGNALS.map(|signal| partial(&stopped(folder, &args, signal))).into()
}

#[track_caller]
fn partial(ended: &Ended) -> Json {
    let result = ended.json();
    assert_eq!((&result["partial"], &result["stopped_by"]), (&Json::Bool(true), &"interrupted".into()));
    assert_eq!(result["ended_by"], "interrupted");
    crate::assert_causes_add_up(&result);
    ended.says(&["the result is partial: interrupted"]);
    result
}

const FOREVER: &str = "run.measure=\"10000000x\"";
const DURABLE: &str = "drive.ftl.durable_map=true";
/// One write moves much data: the map is almost entirely on flash, with an update for every entry.
const PAGED: [&str; 3] = [
    "drive.ftl.mapping=dftl",
    "drive.ftl.translation.cached_entries=2",
    "drive.ftl.translation.batched_eviction=false",
];

#[test]
fn a_prefill_is_ended() {
    let folder = Folder::new();
    let large =
        ["drive.nand.blocks_per_plane=8192", "drive.nand.pages_per_block=256", "drive.nand.page_bytes=4096"];
    let sets = [&large[..], &PAGED, &["drive.ftl.logical_pages=1500000"]].concat();
    for result in phase(&folder, &sets, &[]) {
        assert_eq!(result["host"]["write"]["commands"], 0, "nothing is measured");
        assert!(result["smart"]["host_write_commands"].as_u64() > Some(0));
    }
}

#[test]
fn a_warm_up_and_a_measurement_are_ended() {
    let folder = Folder::new();
    for result in phase(&folder, &["run.warmup=\"10000000x\"", "drive.nand.endurance_pe=0"], &[]) {
        assert_eq!(result["host"]["write"]["commands"], 0);
    }
    for timing in ["run.timing=true", "run.timing=false"] {
        for result in phase(&folder, &[FOREVER, "drive.nand.endurance_pe=0", timing], &[]) {
            assert!(result["host"]["write"]["commands"].as_u64() > Some(0));
        }
    }
    for result in phase(&folder, &[FOREVER, "workload.write_fraction=0"], &[]) {
        assert!(result["host"]["read"]["commands"].as_u64() > Some(0));
    }
}

#[test]
fn jobs_and_a_series_are_ended() {
    let folder = Folder::new();
    let endless = "drive.nand.endurance_pe=0";
    phase(&folder, &[FOREVER, endless, "run.interval=\"10s\""], &["--series", "series.csv"]);
    assert!(folder.read("series.csv").lines().count() > 1);
    let jobs = crate::TINY.replace("[workload]", "[[jobs]]\nname = \"a\"").replace("4x", "10000000x");
    folder.write("tiny.toml", jobs);
    phase(&folder, &[endless], &[]);
}

#[test]
fn collection_within_one_command_is_ended() {
    // Each request writes the whole drive many times over, with minimal free space.
    let folder = Folder::new();
    let drive = [
        "drive.nand.blocks_per_plane=2048",
        "drive.nand.pages_per_block=128",
        "drive.ftl.logical_pages=240000",
        "drive.nand.endurance_pe=0",
        "workload.block_bytes=\"900m\"",
    ];
    for mode in ["drive.ftl.gc.mode=stop-the-world", "drive.ftl.gc.mode=background"] {
        phase(&folder, &[&drive[..], &[FOREVER, mode]].concat(), &[]);
    }
}

#[test]
fn map_traffic_and_flushes_are_ended() {
    let folder = Folder::new();
    let drive =
        ["drive.nand.blocks_per_plane=1024", "drive.ftl.logical_pages=5000", "drive.nand.endurance_pe=0"];
    for more in
        [&["workload.flush_every=1"][..], &["workload.write_fraction=0.1"], &["workload.trim_fraction=0.3"]]
    {
        phase(&folder, &[&drive[..], &PAGED, &[FOREVER], more].concat(), &[]);
    }
}

#[test]
fn the_checker_is_ended() {
    let folder = Folder::new();
    let drive = [
        "drive.nand.blocks_per_plane=8192",
        "drive.nand.pages_per_block=256",
        "drive.ftl.logical_pages=1600000",
        "drive.nand.endurance_pe=0",
        "drive.nand.data=stamp",
        "run.check=true",
        "run.prefill=false",
        "run.warmup=\"10000x\"",
    ];
    phase(&folder, &drive, &[]);
}

#[test]
fn recoveries_are_ended() {
    let folder = Folder::new();
    let cuts = [
        FOREVER,
        DURABLE,
        "drive.nand.data=stamp",
        "drive.nand.endurance_pe=0",
        "drive.nand.blocks_per_plane=2048",
        "drive.nand.pages_per_block=64",
        "drive.ftl.logical_pages=60000",
        "power.cut_every=64",
        "run.prefill=false",
        "run.warmup=0",
    ];
    for mapping in ["drive.ftl.mapping=page", "drive.ftl.mapping=dftl"] {
        for result in phase(&folder, &[&cuts[..], &[mapping]].concat(), &[]) {
            assert!(!result["power_cuts"].as_array().expect("a list").is_empty(), "no cut has come");
        }
    }
}

#[test]
fn block_mapped_schemes_are_ended() {
    let folder = Folder::new();
    for mapping in ["fast", "log-block", "replacement-block"] {
        let mapping = format!("drive.ftl.mapping={mapping}");
        let sets = [
            FOREVER,
            "drive.nand.endurance_pe=0",
            "drive.nand.any_page_order=true",
            "drive.ftl.log_blocks=4",
            &mapping,
        ];
        phase(&folder, &sets, &[]);
    }
}

#[test]
fn a_replay_is_ended() {
    let folder = Folder::new();
    folder.write(
        "t.disksim",
        (0..5_000).map(|at| format!("{at}.0 0 {} 8 0\n", at % 100 * 8)).collect::<String>(),
    );
    let args = [
        "replay",
        "t.disksim",
        "--format",
        "disksim",
        "--drive",
        "drive.toml",
        "--repeat",
        "1000000",
        "--closed-loop",
        "--quiet",
        "--json",
        "-",
        "--set",
        "drive.nand.endurance_pe=0",
    ];
    for signal in SIGNALS {
        partial(&stopped(&folder, &args, signal));
    }
}

#[test]
fn an_image_that_a_signal_has_closed_is_whole() {
    let folder = Folder::new();
    for signal in SIGNALS {
        let args = [
            "run",
            "tiny.toml",
            "--image",
            "d.img",
            "--quiet",
            "--json",
            "-",
            "--set",
            FOREVER,
            "--set",
            "drive.nand.endurance_pe=0",
        ];
        partial(&stopped(&folder, &args, signal));
        folder.strobe(&["fsck", "d.img"]).ok();
    }
}

#[test]
fn a_run_that_is_stopped_saves_no_state() {
    let folder = Folder::new();
    for at in ["warm-up", "end"] {
        let sets = ["run.warmup=\"10000000x\"", "drive.nand.endurance_pe=0"];
        phase(&folder, &sets, &["--save-state", "s.state", "--save-at", at]);
        assert!(!folder.path().join("s.state").exists());
    }
}

#[test]
fn the_second_signal_ends_a_run_at_once() {
    // The pipe has no reader: the run cannot end by itself.
    let folder = Folder::new();
    let args = ["run", "tiny.toml", "--quiet", "--set", FOREVER, "--json", "pipe"];
    let made = Command::new("mkfifo").arg(folder.path().join("pipe")).status().expect("mkfifo");
    assert!(made.success());
    let child = folder.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let pid = child.id().to_string();
    wait_for_handler(child.id());
    let kill = |signal: &str| {
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
    };
    kill("-INT");
    std::thread::sleep(Duration::from_millis(1500));
    kill("-TERM");
    assert_eq!(finish_with(child, Duration::from_secs(20)).code, 143);
}

#[test]
fn commands_without_a_partial_result_end_with_the_same_codes() {
    let folder = Folder::new();
    let text = crate::TINY.replace("4x", "10000000x").replace("seed = 1\n", "");
    // A drive that wears out would end the run.
    let text = text.replace("[drive.nand]\n", "[drive.nand]\nendurance_pe = 0\n");
    folder.write("s.toml", format!("{text}[sweep]\nseeds = 3\n"));
    let repository = crate::root();
    let measurements = repository.join("crates/twin/data/pm9a3.csv").display().to_string();
    let commands: [&[&str]; 6] = [
        &["sweep", "s.toml", "--quiet"],
        &["paper", "capi", "--quiet", "--no-kernel"],
        &["paper", "logical-copy", "--quiet", "--no-kernel"],
        &["twin", "check"],
        &["twin", "fit", &measurements, "--out", "fit.toml"],
        &["bench", "--only", "8g-timed"],
    ];
    for (args, signal) in commands.iter().flat_map(|args| SIGNALS.map(|signal| (args, signal))) {
        stopped(&folder, args, signal);
    }
    let settings = ["files", "postmark", "--set", "transactions=2000000000", "--trace", "-"];
    for signal in SIGNALS {
        let ended = stopped(&folder, &settings, signal);
        assert!(!ended.out.is_empty());
    }
}

#[test]
fn ctrl_c_ends_a_paper_cleanly() {
    let folder = Folder::new();
    let mut command = folder.command(&["paper", "capi", "--json", "-"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let pid = child.id();
    wait_for_handler(pid);
    std::thread::sleep(Duration::from_millis(500));
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("kill").success());
    let ended = finish(child);
    assert_eq!((ended.code, ended.out.as_str()), (130, ""));
    ended.says(&["interrupted"]);
}

/// Writing events can take as long as the run.
#[test]
fn an_interrupted_run_writes_its_result_and_no_events() {
    let folder = Folder::new();
    let args = [
        "run",
        "tiny.toml",
        "-q",
        "--json",
        "-",
        "--events",
        "e.jsonl",
        "--perfetto",
        "p.json",
        "--set",
        FOREVER,
    ];
    let endless = [&args[..], &["--set", "drive.nand.endurance_pe=0"]].concat();
    let ended = stopped(&folder, &endless, ("-TERM", 143));
    partial(&ended);
    ended.says(&["no events were written"]);
    let left: Vec<_> =
        folder.path().read_dir().expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains(".json")), "{left:?}");
}
