//! Runs that end early: full disks, closed pipes, Ctrl-C, worn-out flash.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value as Json;

use crate::{Folder, assert_causes_add_up, finish};

fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("Linux has it").into()
}

#[test]
fn a_full_disk_fails_the_run_with_a_message() {
    let folder = Folder::new();
    let ended = folder.strobe(&["run", "tiny.toml", "--quiet", "--json", "/dev/full"]);
    assert_eq!(ended.code, 1);
    ended.says(&["/dev/full", "No space left"]);
    for args in [
        &["run", "tiny.toml"][..],
        &["run", "tiny.toml", "--json", "-"],
        &["check", "tiny.toml"],
        &["list", "presets"],
        &["show", "preset", "generic-8g"],
        &["schema", "result"],
    ] {
        let child = folder.command(args).stdout(full_disk()).stderr(Stdio::piped()).spawn();
        let ended = finish(child.expect("the program starts"));
        assert_eq!(ended.code, 1, "{args:?}");
        ended.says(&["standard output", "No space left"]);
    }
}

#[test]
fn a_reader_that_has_left_is_no_error() {
    let folder = Folder::new();
    for args in [&["run", "tiny.toml"][..], &["schema", "result"], &["list", "formats"], &["--help"]] {
        let mut command = folder.command(args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        drop(child.stdout.take());
        let ended = finish(child);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn messages_that_nobody_can_read_change_no_exit_code() {
    let folder = Folder::new();
    for (args, code) in [
        (&["run", "missing.toml"][..], 2),
        (&["run", "tiny.toml", "--quiet"], 0),
        (&["run", "tiny.toml", "--quiet", "--set", "drive.nand.endurance_pe=1"], 1),
    ] {
        let mut command = folder.command(args);
        let child = command.stdout(Stdio::null()).stderr(full_disk()).spawn();
        assert_eq!(finish(child.expect("the program starts")).code, code, "{args:?}");
    }
}

pub(crate) fn wait_for_handler(pid: u32) {
    for _ in 0..6_000 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        if mask & 0b10 != 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no handler for SIGINT");
}

fn interrupted(sets: &[&str], after: Duration) -> Json {
    let folder = Folder::new();
    let mut args = vec!["run", "tiny.toml", "--json", "-"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    let mut command = folder.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let pid = child.id();
    wait_for_handler(pid);
    std::thread::sleep(after);
    let sent = Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("kill");
    assert!(sent.success());
    let ended = finish(child);
    assert_eq!(ended.code, 130);
    ended.says(&["partial", "interrupted"]);
    ended.json()
}

#[test]
fn an_interrupted_run_gives_what_it_has() {
    let sets = ["run.measure=\"10000000x\"", "drive.nand.endurance_pe=0", "run.check=true"];
    let result = interrupted(&sets, Duration::from_millis(700));
    assert_eq!((&result["partial"], &result["stopped_by"]), (&Json::Bool(true), &"interrupted".into()));
    assert_causes_add_up(&result);
    let writes = result["host"]["write"]["commands"].as_u64().expect("a count");
    assert!(writes > 0);
    assert_eq!(result["host"]["pages_written"].as_u64(), Some(writes));
    assert_eq!(result["jobs"][0]["write"]["clat_ns"]["N"].as_u64(), Some(writes));
    assert_eq!(result["nand"]["program"]["by_cause"]["host"].as_u64(), Some(writes));
}

#[test]
fn a_run_interrupted_before_the_measurement_has_empty_counters() {
    let sets = ["run.warmup=\"10000000x\"", "drive.nand.endurance_pe=0"];
    let result = interrupted(&sets, Duration::from_millis(300));
    assert_eq!(result["partial"], true);
    assert_eq!(result["host"]["write"]["commands"], 0);
    assert_eq!(result["nand"]["program"]["total"], 0);
    assert_eq!(result["waf"], Json::Null);
    assert!(result["smart"]["host_write_commands"].as_u64() > Some(0));
}

#[test]
fn ctrl_c_is_heard_between_requests_of_hundreds_of_megabytes() {
    let folder_sized = [
        "drive.nand.blocks_per_plane=512",
        "drive.nand.pages_per_block=1024",
        "drive.ftl.logical_pages=400000",
        "drive.nand.endurance_pe=0",
        "workload.block_bytes=\"1g\"",
        "run.measure=\"10000000x\"",
        "run.timing=false",
    ];
    interrupted(&folder_sized, Duration::from_secs(1));
}

#[test]
fn the_end_of_life_is_a_partial_result() {
    let folder = Folder::new();
    let ended = folder.tiny(&["drive.nand.endurance_pe=5", "run.measure=\"1000x\"", "run.check=true"]);
    assert_eq!(ended.code, 1);
    ended.says(&["partial", "end of life", "bad blocks"]);
    let result = ended.json();
    assert_eq!(result["partial"], true);
    assert!(result["stopped_by"].as_str().is_some_and(|why| why.contains("end of life")));
    assert_causes_add_up(&result);
    assert!(result["wear"]["bad_blocks"].as_u64() > Some(0));
    assert!(result["wear"]["first_bad_block_host_writes"].is_u64());
    assert!(result["host"]["write"]["commands"].as_u64() < Some(160_000));
    let summary = folder.strobe(&["run", "tiny.toml", "--set", "drive.nand.endurance_pe=1"]);
    assert_eq!(summary.code, 1);
    assert!(summary.out.contains("PARTIAL RESULT, stopped: end of life"), "{}", summary.out);
}

fn wearing(sets: &[&str]) -> crate::Ended {
    let folder = Folder::new();
    folder.write("open.toml", crate::TINY.replace("measure = \"4x\"", ""));
    let mut args = vec!["run", "open.toml", "--json", "-", "--set", "drive.nand.endurance_pe=20"];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    folder.strobe(&args)
}

#[test]
fn a_run_to_the_end_of_life_ends_well() {
    let result = wearing(&["run.until_end_of_life=true", "run.check=true"]).ok().json();
    assert_eq!((&result["partial"], &result["stopped_by"]), (&Json::Bool(false), &Json::Null));
    assert_eq!(result["ended_by"], "end-of-life");
    let curve = result["wear"]["bad_block_curve"].as_array().expect("a curve");
    assert_eq!(curve.len() as u64, result["wear"]["bad_blocks"].as_u64().expect("a count"));
    assert_eq!(curve[0]["host_pages"], result["wear"]["first_bad_block_host_writes"]);
    for pair in curve.windows(2) {
        assert!(pair[0]["host_pages"].as_u64() <= pair[1]["host_pages"].as_u64());
        assert_eq!(pair[0]["bad_blocks"].as_u64().map(|n| n + 1), pair[1]["bad_blocks"].as_u64());
    }
    let first = curve[0]["host_pages"].as_u64().expect("a count");
    let ideal = result["wear"]["ideal_host_pages"].as_u64().expect("endurance is limited");
    assert!(first < ideal && ideal < 4 * first, "{first} of {ideal}");
    let written = result["host"]["pages_written"].as_u64().expect("a count");
    let last = curve.last().and_then(|point| point["host_pages"].as_u64());
    // Prefill and warm-up come first: 160 and 2 × 160 pages.
    assert_eq!(last, Some(written + 480));
}

#[test]
fn a_run_to_the_nth_bad_block_ends_within_a_batch_of_it() {
    let whole = wearing(&["run.until_end_of_life=true"]).ok().json();
    for wanted in [1, 3] {
        let set = format!("run.until_bad_blocks={wanted}");
        let result = wearing(&[&set]).ok().json();
        assert_eq!((&result["ended_by"], &result["partial"]), (&"bad-blocks".into(), &Json::Bool(false)));
        let (part, all) = (&result["wear"]["bad_block_curve"], &whole["wear"]["bad_block_curve"]);
        for at in 0..wanted {
            assert!(part[at].is_object());
            assert_eq!(part[at], all[at]);
        }
        let written = result["host"]["pages_written"].as_u64().expect("a count");
        let host_pages = part[wanted - 1]["host_pages"].as_u64().expect("a count");
        assert!((host_pages..=host_pages + 1024).contains(&(written + 480)), "{host_pages}, {written}");
    }
    // Program failures count too.
    let failing =
        ["run.until_bad_blocks=2", "drive.nand.endurance_pe=0", "drive.nand.program_fail_rate=0.0001"];
    let result = wearing(&failing).ok().json();
    assert_eq!((&result["ended_by"], &result["wear"]["bad_blocks"]), (&"bad-blocks".into(), &2.into()));
    assert_eq!(result["wear"]["ideal_host_pages"], Json::Null);
}

#[test]
fn a_run_to_the_nth_bad_block_counts_those_of_its_image() {
    let folder = Folder::new();
    folder.write("open.toml", crate::TINY.replace("measure = \"4x\"", ""));
    let worn = || {
        let sets = ["drive.nand.endurance_pe=20", "run.until_bad_blocks=1", "drive.nand.blocks_per_plane=64"];
        let mut args = vec!["run", "open.toml", "--image", "worn.img", "--json", "-"];
        args.extend(sets.into_iter().flat_map(|set| ["--set", set]));
        folder.strobe(&args)
    };
    let first = worn().ok().json();
    assert_eq!(first["ended_by"], "bad-blocks");
    assert!(first["wear"]["bad_blocks"].as_u64() >= Some(1));
    let again = worn();
    assert_eq!(again.code, 1);
    again.says(&["before anything was measured"]);
    let second = again.json();
    assert_eq!((&second["ended_by"], &second["nand"]["erase"]["total"]), (&"bad-blocks".into(), &0.into()));
    assert_eq!(second["wear"]["bad_blocks"], first["wear"]["bad_blocks"]);
}

#[test]
fn what_comes_before_the_wanted_end_is_told() {
    let ended = wearing(&["run.until_bad_blocks=30"]);
    assert_eq!(ended.code, 1);
    let result = ended.json();
    assert_eq!((&result["ended_by"], &result["partial"]), (&"end-of-life".into(), &Json::Bool(true)));
    assert!(result["stopped_by"].as_str().is_some_and(|why| why.contains("end of life")));
    let both = wearing(&["run.until_bad_blocks=30", "run.until_end_of_life=true"]).ok().json();
    assert_eq!(both["ended_by"], "end-of-life");
    let bound = wearing(&["run.until_end_of_life=true", "run.measure=\"1x\""]).ok().json();
    assert_eq!((&bound["ended_by"], &bound["host"]["pages_written"]), (&"measure".into(), &160.into()));
    // The warm-up has worn the drive out.
    for end in ["run.until_end_of_life=true", "run.until_bad_blocks=1"] {
        let ended = wearing(&[end, "run.warmup=\"100x\""]);
        assert_eq!(ended.code, 1);
        ended.says(&["before anything was measured", "run.warmup"]);
    }
}

#[test]
fn a_trace_ends_after_its_repetitions() {
    let folder = Folder::new();
    folder.write("t.csv", "1,h,0,Write,0,65536,1\n2,h,0,Write,65536,65536,1\n");
    let replay = |repeat: &str| {
        let sets = ["--set", "run.until_end_of_life=true", "--set", "drive.nand.endurance_pe=10"];
        folder.replay("t.csv", "msr", &[&sets[..], &["--repeat", repeat]].concat()).ok().json()
    };
    let (short, long) = (replay("3"), replay("100000"));
    assert_eq!((&short["ended_by"], &short["trace"]["repetitions"]), (&"trace".into(), &3.into()));
    assert_eq!(long["ended_by"], "end-of-life");
}

#[test]
fn the_summary_shows_how_the_blocks_died() {
    let folder = Folder::new();
    let text = crate::TINY.replace("measure = \"4x\"", "until_end_of_life = true");
    folder.write("death.toml", text);
    let ended = folder.strobe(&["run", "death.toml", "--full", "--set", "drive.nand.endurance_pe=20"]).ok();
    for part in ["bad blocks over host pages", "▕", "if blocks wore evenly", "% of that was reached"] {
        assert!(ended.out.contains(part), "{part} is missing in {}", ended.out);
    }
}

/// Greedy wears the blocks of hot data out first; FIFO wears all alike.
#[test]
fn a_lifetime_of_unevenly_worn_blocks_says_so() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hot-cold.toml");
    for (victim, is_uneven) in [("greedy", true), ("fifo", false)] {
        let victim = format!("drive.ftl.gc.victim={victim}");
        let sets = ["--set", "drive.nand.endurance_pe=300", "--set", &victim];
        let ended = Folder::new().strobe(&[&["run", example][..], &sets].concat()).ok();
        // Lines are broken.
        let words = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.contains("which they do not"), is_uneven, "{}", ended.out);
    }
}

#[test]
fn flash_on_which_nothing_can_be_programmed_ends_at_once() {
    // Enough blocks for the reserve that failures require.
    let ended = Folder::new().tiny(&["drive.nand.program_fail_rate=1.0", "drive.nand.blocks_per_plane=128"]);
    assert_eq!(ended.code, 1);
    let result = ended.json();
    assert!(result["wear"]["erase_mean"].is_number(), "{}", result["wear"]);
    assert_eq!(result["host"]["write"]["commands"], 0);
}

#[test]
fn virtual_time_does_not_overflow_in_silence() {
    let slow = [
        "drive.controller.command_ns=1000000000000",
        "drive.controller.range_ns=1000000000000",
        "drive.nand.endurance_pe=0",
        "run.measure=\"100000x\"",
        "workload.write_fraction=0",
    ];
    let ended = Folder::new().tiny(&slow);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    ended.says(&["virtual time", "584 years"]);
}

#[test]
fn a_file_that_may_not_grow_and_a_closed_output_are_errors() {
    let folder = Folder::new();
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_strobe")]).current_dir(folder.path());
        crate::finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell"))
    };
    let limited = shell("ulimit -f 8; exec \"$0\" run tiny.toml -q --json out.json --events out.events");
    assert_eq!(limited.code, 1, "{limited:?}");
    assert!(limited.err.contains("cannot write") && limited.err.contains("ulimit -f"), "{limited:?}");
    for script in
        ["exec \"$0\" run tiny.toml >&-", "exec \"$0\" run tiny.toml -q --json - >&-", "exec \"$0\" list >&-"]
    {
        let closed = shell(script);
        assert_eq!(closed.code, 1, "{script}: {closed:?}");
        assert!(closed.err.contains("standard output") && closed.err.contains("closed"), "{closed:?}");
    }
    assert_eq!(shell("exec \"$0\" run tiny.toml > /dev/null").code, 0);
    let left: Vec<_> =
        folder.path().read_dir().expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");
}
