//! Determinism: identical bytes in every run, on every machine, in debug and release builds.
//!
//! The golden results in `tests/data/golden-*.json` are written by
//!
//! ```text
//! STROBE_BLESS=1 cargo test -p strobe-cli --test cli golden
//! ```
//!
//! Run it after an intended change of results, and review the diff. CI runs this test in debug and release
//! builds: both equal the file, so they equal each other.

use std::path::Path;

use crate::{Folder, root};

const TIMED: &str = "\
seed = 7
[drive.nand]
channels = 2
dies_per_channel = 2
planes_per_die = 2
blocks_per_plane = 16
pages_per_block = 16
page_bytes = 8192
spare_bytes = 448
cache_program = true
factory_bad_blocks = 2
program_fail_rate = 0.0001
data = \"stamp\"
[drive.ftl]
mapping_unit_bytes = 4096
over_provisioning = 0.6
[drive.ftl.gc]
victim = \"cost-benefit\"
[drive.controller]
command_ns = 5000
range_ns = 200
link_mb_s = 3000
write_buffer_bytes = \"128k\"
[workload]
kind = \"zipf\"
theta = 0.9
block_bytes = \"6k\"
write_fraction = 0.6
trim_fraction = 0.05
queue_depth = 8
[run]
warmup = \"1x\"
measure = \"2x\"
check = true
";

fn trace() -> String {
    let (mut state, mut time_us) = (12_345u64, 0);
    let mut lines = String::from("fio version 3 iolog\n0 disk add\n0 disk open\n");
    for _ in 0..2_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = state >> 33;
        time_us += draw % 3_000;
        let sectors = 1 + (draw >> 12) % 24;
        let offset = (draw >> 3) % (1_280 - sectors) * 512;
        let line = match draw % 16 {
            0 => format!("{time_us} disk sync 0 0\n"),
            1 => format!("{time_us} disk trim {offset} {}\n", sectors * 512),
            2..=5 => format!("{time_us} disk read {offset} {}\n", sectors * 512),
            _ => format!("{time_us} disk write {offset} {}\n", sectors * 512),
        };
        lines += &line;
    }
    lines
}

#[track_caller]
pub(crate) fn assert_golden(name: &str, json: &str) {
    let path = root().join("crates/cli/tests/data").join(name);
    if std::env::var_os("STROBE_BLESS").is_some() {
        std::fs::write(&path, json).expect("the data folder is writable");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = golden.lines().zip(json.lines()).enumerate().find(|(_, (a, b))| a != b);
    if let Some((at, (golden, now))) = differs {
        panic!("{}, line {}: was {golden}, is now {now}", shown(&path), at + 1);
    }
    assert_eq!(golden.len(), json.len(), "{}: STROBE_BLESS=1 writes it", shown(&path));
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn golden_timed_run_on_several_dies() {
    let folder = Folder::new();
    folder.write("timed.toml", TIMED);
    let run = folder.strobe(&["run", "timed.toml", "--reproducible", "--json", "-"]).ok();
    assert_golden("golden-timed.json", &run.out);
}

#[test]
fn golden_trace_replay() {
    let folder = Folder::new();
    folder.write("trace.iolog", trace());
    let more = ["--reproducible", "--prefill", "--repeat", "2"];
    let run = folder.replay("trace.iolog", "fio", &more).ok();
    assert_golden("golden-trace.json", &run.out);
}

#[test]
fn a_run_gives_the_same_bytes_twice_and_other_bytes_with_another_seed() {
    let folder = Folder::new();
    folder.write("timed.toml", TIMED);
    let run = |seed: &str| {
        let args = ["run", "timed.toml", "--reproducible", "--json", "-", "--seed", seed];
        folder.strobe(&args).ok()
    };
    let (first, again, other) = (run("7"), run("7"), run("8"));
    assert!(first.out == again.out, "two runs differ");
    assert_ne!(first.json()["nand"], other.json()["nand"]);
    assert_eq!(first.json()["config_hash"], other.json()["config_hash"]);
}

#[test]
fn a_compressed_trace_gives_the_same_result() {
    let folder = Folder::new();
    folder.write("trace.iolog", trace());
    let plain = folder.replay("trace.iolog", "fio", &["--reproducible"]).ok();
    folder.write("trace.iolog", crate::traces::gzip(trace().as_bytes()));
    assert_eq!(folder.replay("trace.iolog", "fio", &["--reproducible"]).ok().out, plain.out);
}

#[test]
fn checking_does_not_change_the_result() {
    let folder = Folder::new();
    let nand = |sets: &[&str]| folder.tiny(sets).ok().json()["nand"].clone();
    assert_eq!(nand(&["run.check=true"]), nand(&["run.check=false"]));
}

#[test]
fn counting_and_timing_do_the_same_flash_operations() {
    let folder = Folder::new();
    let run = |timing: &str| {
        let sets = [timing, "drive.ftl.gc.victim=fifo", "drive.ftl.gc.mode=stop-the-world"];
        folder.tiny(&sets).ok().json()
    };
    let (counted, timed) = (run("run.timing=false"), run("run.timing=true"));
    assert_eq!(counted["nand"], timed["nand"]);
    assert_eq!(counted["host"], timed["host"]);
    assert_eq!(counted["time"]["virtual_ns"], 0);
    assert!(timed["time"]["virtual_ns"].as_u64() > Some(0));
}
