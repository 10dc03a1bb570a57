//! Scaled drives behave as whole ones. A fit gives the same result after any stop, and finds a hidden drive.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use strobe_lab::Experiment;
use strobe_lab::points::Watch;
use strobe_ssd::{Aged, DriveConfig, kept_blocks};
use strobe_twin::check::{self, Figure};
use strobe_twin::fit::{self, FitOptions, HeldOut};
use strobe_twin::measurements::{Addresses, Load, Measurements, Offered};
use strobe_twin::{Effort, Question, Twin, scaled};
use strobe_types::StopFlag;

fn small(sets: &[&str]) -> DriveConfig {
    let sets: Vec<String> = [
        "drive.nand.channels=2",
        "drive.nand.dies_per_channel=2",
        "drive.nand.blocks_per_plane=400",
        "drive.nand.pages_per_block=48",
        "drive.ftl.over_provisioning=0.2",
        "drive.controller.write_buffer_bytes=1000000",
    ]
    .iter()
    .chain(sets)
    .map(|set| (*set).to_owned())
    .collect();
    let table = "[drive]\npreset = \"pm9a3-like\"".parse().expect("TOML");
    Experiment::from_table(table, &sets, Path::new("")).expect("valid").drive
}

fn amplification(config: &DriveConfig) -> f64 {
    let mut aged = Aged::new(config, 1).expect("a drive");
    let units = config.logical_units() as u32;
    aged.fill(units).expect("room");
    aged.overwrite(units, 3 * u64::from(units)).expect("room");
    aged.amplification(units, 4 * u64::from(units)).expect("room")
}

#[test]
fn fewer_blocks_collect_as_much() {
    let whole = small(&[]);
    let of_whole = amplification(&whole);
    for blocks in [200, 100, 64] {
        let part = scaled(&whole, blocks).expect("valid");
        assert_eq!(part.nand.blocks_per_plane, blocks);
        let error = amplification(&part) / of_whole - 1.0;
        assert!(error.abs() < 0.03, "{blocks} blocks: {:.1} %", 100.0 * error);
    }
    // A scaled drive without this correction for reserved blocks differs.
    let mut naive = whole.clone();
    naive.nand.blocks_per_plane = 64;
    naive.ftl.logical_pages = Some((whole.logical_units() * 64 / 400) as u32);
    naive.ftl.over_provisioning = None;
    assert!(amplification(&naive) / of_whole > 1.1, "the comparison shows nothing");
}

/// 12,000 of 43,712 blocks are in SLC mode; the scaled drive has the same share.
#[test]
fn a_cache_has_the_same_share_of_fewer_blocks() {
    for name in ["tlc-client-1t", "qlc-client-2t"] {
        let whole = DriveConfig::preset(name).expect("a preset");
        let part = scaled(&whole, 64).expect("valid");
        kept_blocks(&part).expect("it can be built");
        let share = |of: fn(&DriveConfig) -> u32| {
            let blocks = |drive: &DriveConfig| f64::from(of(drive)) / f64::from(drive.nand.blocks_per_plane);
            blocks(&part) / blocks(&whole)
        };
        for share in [
            share(|drive| drive.ftl.slc_cache.static_blocks),
            share(|drive| drive.ftl.slc_cache.dynamic_blocks),
        ] {
            assert!((share - 1.0).abs() < 0.1, "{name}: {share}");
        }
    }
}

#[test]
fn a_drive_with_times_is_that_without() {
    let config = small(&[]);
    let mut aged = Aged::new(&config, 1).expect("a drive");
    let units = config.logical_units() as u32;
    aged.fill(units).expect("room");
    aged.overwrite(units, 2 * u64::from(units)).expect("room");
    for _ in 0..2 {
        let drive = aged.timed(&config).expect("a drive");
        drive.check().expect("sound");
        assert_eq!(drive.mapped_units(), units);
        assert_eq!(drive.stats().host.bytes(strobe_ssd::CommandKind::Write), 0, "nothing has been counted");
        // Background GC keeps this much free space, part of it in open blocks.
        let (kept, planes) = (kept_blocks(&config).expect("valid"), drive.geometry().planes());
        let free = drive.free_blocks();
        assert!(free <= kept + 1 && free + 2 * planes >= kept, "{free} of {kept}");
    }
    let bytes = DriveConfig {
        nand: strobe_ssd::NandConfig { data: strobe_ssd::DataMode::Bytes, ..config.nand.clone() },
        ..config
    };
    let error = Aged::new(&bytes, 1).expect_err("it keeps data").to_string();
    assert!(error.contains("drive.nand.data is \"bytes\""), "{error}");
}

fn load(writes_s: u64, reads_s: u64) -> Load {
    let offered = Some(Offered { writes_s, reads_s });
    Load { used_bytes: 1 << 40, addresses: Addresses::Uniform, jobs: 3, queue_depth: 32, offered }
}

fn measured(config: &DriveConfig, effort: Effort) -> String {
    measured_at(config, effort, &[500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 40_000], 7)
}

fn measured_at(config: &DriveConfig, effort: Effort, rates: &[u64], seed: u64) -> String {
    let twin = Twin::new(config, effort).expect("a drive");
    let question = |&writes: &u64| Question {
        config: twin.config().clone(),
        load: load(writes, 400),
        capacity_bytes: 1 << 40,
        is_saturated: writes > 10_000,
    };
    let questions: Vec<Question> = rates.iter().map(question).collect();
    let answers = twin.ask(&questions, seed, &()).expect("answers");
    let mut text = String::from(
        "capacity_bytes,jobs,queue_depth,offered_writes_s,offered_reads_s,completed_s,read_p50_us,read_p99_us,read_p999_us,\
         write_p50_us,write_p99_us\n",
    );
    let capacity = config.logical_units() * 4096;
    for (writes, seen) in rates.iter().zip(answers) {
        let us = |us: Option<f64>| us.map_or_else(String::new, |us| format!("{us:.1}"));
        text += &format!(
            "{capacity},3,32,{writes},400,{:.0},{},{},{},{},{}\n",
            seen.completed_s.unwrap_or_default().min((writes + 400) as f64),
            us(seen.read_us[0]),
            us(seen.read_us[1]),
            us(seen.read_us[2]),
            us(seen.write_us[0]),
            us(seen.write_us[1]),
        );
    }
    text
}

fn options(base: DriveConfig, rounds: u32, effort: Effort, memory: Option<std::path::PathBuf>) -> FitOptions {
    FitOptions {
        base,
        kept: Vec::new(),
        held_out: HeldOut::Third,
        rounds,
        effort,
        effort_at_end: effort,
        seed: 1,
        memory,
    }
}

#[test]
fn a_fit_that_was_stopped_comes_to_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let measurements = Measurements::parse(&measured(&small(&[]), Effort::Tiny), "ours.csv").expect("valid");
    let base = small(&["drive.nand.program_ns=400000", "drive.nand.read_ns=[50000,60000,70000]"]);
    let path = folder.path().join("one.progress");
    let options = |memory| options(base.clone(), 1, Effort::Tiny, memory);
    let run =
        |memory| fit::fit(&measurements, &options(memory), &()).map(|fit| fit::preset(&fit, "ours.csv"));
    let whole = run(Some(path.clone())).expect("a fit");
    assert_eq!(run(None).expect("a fit"), whole, "without a file");
    let kept = std::fs::read(&path).expect("kept");
    std::fs::write(&path, &kept[..kept.len() / 2]).expect("written");
    assert_eq!(run(Some(path.clone())).expect("a fit"), whole, "resumed");
    assert_eq!(std::fs::read(&path).expect("kept"), kept);
    // A damaged line, then one with a row too few, which counts as unknown.
    let text = String::from_utf8(kept.clone()).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    for (with, line) in [("\u{0}", 3), ("{}", 2)] {
        let damaged = [&lines[..line - 1], &[with], &lines[line..]].concat().join("\n") + "\n";
        std::fs::write(&path, damaged).expect("written");
        let error = run(Some(path.clone())).expect_err(with).to_string();
        assert!(
            error.contains(&format!("line {line}, is damaged: remove this line and all after it")),
            "{error}"
        );
    }
    let few = format!("{}\"value\":[]}}", lines[2].split("\"value\"").next().expect("a line"));
    std::fs::write(&path, [&lines[..2], &[&few]].concat().join("\n") + "\n").expect("written");
    assert_eq!(run(Some(path.clone())).expect("a fit"), whole, "with a row too few");
    for other in ["a diary", "a diary\n", &text.replacen("\"strobe_points\":1", "\"strobe_points\":0", 1)] {
        std::fs::write(&path, other).expect("written");
        let error = run(Some(path.clone())).expect_err("a diary").to_string();
        assert!(error.contains("does not contain finished points"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), other);
    }
    std::fs::write(&path, &kept).expect("written");
    let held = std::fs::File::open(&path).expect("there");
    held.lock().expect("locked");
    let error = run(Some(path.clone())).expect_err("another fit writes").to_string();
    assert!(error.contains("is being written by another process"), "{error}");
    drop(held);
    let other = FitOptions { seed: 2, ..options(Some(path.clone())) };
    let error = fit::fit(&measurements, &other, &()).expect_err("another seed").to_string();
    assert!(error.contains("holds finished points of another study (fit, model"), "{error}");
    let preset: toml::Table = whole.parse().expect("TOML");
    let table = toml::Table::from_iter([("drive".to_owned(), toml::Value::Table(preset))]);
    Experiment::from_table(table, &[], Path::new("")).expect("a drive");
}

#[test]
fn a_watcher_sees_the_rounds_of_a_fit_and_stops_it() {
    #[derive(Default)]
    struct Seen {
        stages: Mutex<Vec<String>>,
        asked: AtomicUsize,
        most: usize,
        flag: Arc<AtomicBool>,
    }
    impl Watch for Seen {
        fn progress(&self, _: usize, _: usize, _: usize) {
            if self.asked.fetch_add(1, Ordering::Relaxed) + 1 == self.most {
                self.flag.store(true, Ordering::Relaxed);
            }
        }
        fn stage(&self, text: &str) {
            self.stages.lock().expect("not poisoned").push(text.to_owned());
        }
        fn stop_flag(&self) -> StopFlag {
            Arc::clone(&self.flag).into()
        }
    }
    let measurements = Measurements::parse(&measured(&small(&[]), Effort::Tiny), "ours.csv").expect("valid");
    let base = small(&["drive.nand.program_ns=400000"]);
    let run = |watch: &Seen| fit::fit(&measurements, &options(base.clone(), 1, Effort::Tiny, None), watch);
    let whole = Seen::default();
    run(&whole).expect("a fit");
    let stages = whole.stages.into_inner().expect("not poisoned");
    assert!(stages[0].starts_with("fit: round 0 of at most 1, error "), "{stages:?}");
    let asked = whole.asked.into_inner();
    let stopped = Seen { most: 3, ..Seen::default() };
    let error = run(&stopped).expect_err("stopped").to_string();
    assert_eq!(error, "interrupted");
    assert!(stopped.asked.into_inner() < asked.min(20));
}

#[test]
fn what_is_known_stays_as_it_is() {
    let text = measured(&small(&[]), Effort::Tiny);
    let measurements = Measurements::parse(&text, "ours.csv").expect("valid");
    let base = small(&["drive.nand.program_ns=400000", "drive.controller.write_throttle_ns=0"]);
    let kept = ["nand.program_ns", "controller.write_throttle_ns"].map(String::from).to_vec();
    let options = FitOptions { kept, ..options(base, 1, Effort::Tiny, None) };
    let fit = fit::fit(&measurements, &options, &()).expect("a fit");
    assert_eq!(fit.drive.controller.write_throttle_ns, 0);
    assert_eq!(fit.drive.nand.program_ns, options.base.nand.program_ns);
    for found in &fit.found {
        let is_kept = ["program time", "write throttle interval"].contains(&found.name);
        assert_eq!(found.is_kept, is_kept, "{}", found.name);
        assert!(!is_kept || (found.effect == 0.0 && !fit.untold.contains(&found.name)), "{}", found.name);
    }
    assert!(fit::preset(&fit, "ours.csv").contains("#   program time: 400.0 µs (kept, not fitted)\n"));
}

#[test]
fn flash_that_is_known_stays_as_it_is() {
    let capacity = small(&[]).logical_units() * 4096;
    let rows: Vec<String> =
        (1..=5).map(|k| format!("{capacity},{}00,400,{},70,256,,\n", 5 * k, 500 * k + 400)).collect();
    let heading = "capacity_bytes,offered_writes_s,offered_reads_s,completed_s,read_p50_us,read_p99_us,write_p50_us,waf\n";
    let text = format!("{heading}{}{capacity},,,9000,,,,2.5\n", rows.concat());
    let measurements = Measurements::parse(&text, "ours.csv").expect("valid");
    let blocks = |sets: &[&str], kept: &[&str]| {
        let mut base = small(sets);
        let kept: Vec<String> = kept.iter().map(|key| (*key).to_owned()).collect();
        fit::resize(&mut base, &measurements, &kept);
        let options = FitOptions { kept, ..options(base, 1, Effort::Tiny, None) };
        fit::fit(&measurements, &options, &()).expect("a fit").drive.nand.blocks_per_plane
    };
    let found = blocks(&[], &[]);
    let pinned = blocks(&["drive.nand.blocks_per_plane=460"], &["nand.blocks_per_plane"]);
    assert!(pinned == 460 && found != 460, "{pinned}, {found}");
}

/// A drive that completes more in a closed loop than in an open one cannot have a write throttle as slow as the
/// latter.
#[test]
fn a_closed_loop_is_fitted_to() {
    let text = measured(&small(&[]), Effort::Tiny);
    let capacity = text.lines().nth(1).and_then(|line| line.split(',').next()).expect("a row").to_owned();
    let closed = |completed: u32| format!("{text}{capacity},3,32,,,{completed},,,,,\n");
    let fit = |text: &str| {
        let measurements = Measurements::parse(text, "ours.csv").expect("valid");
        fit::fit(&measurements, &options(small(&[]), 1, Effort::Tiny, None), &()).expect("a fit")
    };
    let (open, both) = (fit(&text), fit(&closed(60_000)));
    assert_eq!(both.fitted.rows.len(), open.fitted.rows.len() + 1);
    let last = both.fitted.rows.last().expect("rows");
    assert!(last.writes_s.is_none() && last.figures.iter().any(|at| at.figure == Figure::Completed));
    let pace = |fit: &fit::Fit| fit.drive.controller.write_throttle_ns;
    assert!(pace(&both) < pace(&open), "{} {}", pace(&both), pace(&open));
}

#[test]
fn too_little_is_not_fitted_to() {
    let text = "capacity_bytes,offered_writes_s,offered_reads_s,read_p50_us,read_p99_us\n\
                999997440,10000,5000,70,256\n999997440,20000,5000,80,300\n999997440,30000,5000,90,350\n";
    let measurements = Measurements::parse(text, "few.csv");
    let error = fit::fit(&measurements.expect("valid"), &options(small(&[]), 1, Effort::Tiny, None), &());
    let error = error.expect_err("three rows").to_string();
    assert!(error.contains("3 rows") && error.contains("a fit needs 4"), "{error}");
    let rows: Vec<String> = (1..=5).map(|k| format!("999997440,{k}0000,5000,70,")).collect();
    let text = format!(
        "capacity_bytes,offered_writes_s,offered_reads_s,read_p50_us,read_p99_us\n{}\n",
        rows.join("\n")
    );
    let measurements = Measurements::parse(&text, "few.csv").expect("valid");
    let error = fit::fit(&measurements, &options(small(&[]), 1, Effort::Tiny, None), &());
    let error = error.expect_err("no p99").to_string();
    assert!(error.contains("0 rows below saturation have p50 and p99 of reads"), "{error}");
}

struct Promise {
    found: fit::Fit,
    hidden: DriveConfig,
}

impl Promise {
    fn new(hidden: DriveConfig, held_out: HeldOut) -> Self {
        let measurements =
            Measurements::parse(&measured(&hidden, Effort::Full), "hidden.csv").expect("valid");
        let options = FitOptions { held_out, ..options(small(&[]), 12, Effort::Quick, None) };
        Self { found: fit::fit(&measurements, &options, &()).expect("a fit"), hidden }
    }

    fn within(what: &str, check: &check::Check, figure: Figure, times: f64) -> bool {
        let errors = check.errors(figure);
        println!("{what}, {}: {errors:.3?}", figure.name());
        let tolerance = figure.tolerance().expect("judged") * times;
        !errors.is_empty() && errors.iter().all(|error| *error <= tolerance)
    }

    fn untold(&self, rates: &[u64]) -> check::Check {
        let text = measured_at(&self.hidden, Effort::Full, rates, 11);
        let untold = Measurements::parse(&text, "untold.csv").expect("valid");
        check::check(&self.found.drive, &untold, Effort::Full, 9, &()).expect("a check")
    }
}

const PROMISED: [Figure; 4] = [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999, Figure::WriteP50];

fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / errors.len() as f64
}

const HIDDEN: [&str; 6] = [
    "drive.nand.read_ns=[41000,63000,88000]",
    "drive.nand.program_ns=900000",
    "drive.nand.suspend.suspend_ns=40000",
    "drive.controller.schedule.background_read_ns=300000",
    "drive.controller.latency_ns=6000",
    "drive.controller.jitter_ns=1500",
];

fn is_promised(hidden: DriveConfig, times: f64) {
    let promise = Promise::new(hidden, HeldOut::Third);
    let found = &promise.found;
    let untold = promise.untold(&[750, 1250, 1750, 2250, 2750, 3250, 3750, 4250]);
    let mut broken = Vec::new();
    for figure in PROMISED {
        let stated = [&found.fitted, &found.held_out].map(|check| check.errors(figure)).concat();
        let (stated, now) = (mean(&stated), mean(&untold.errors(figure)));
        println!("{}: {now:.3} at new rates, stated {stated:.3}", figure.name());
        let kept = [
            Promise::within("fitted", &found.fitted, figure, times),
            Promise::within("held out", &found.held_out, figure, 2.0),
            Promise::within("untold", &untold, figure, 2.0),
            // Two seeds of one drive differ by part of this.
            now < stated + 0.03,
        ];
        if kept.contains(&false) {
            broken.push(figure.name());
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
#[ignore = "seven minutes: make test-long"]
fn a_drive_never_seen_is_predicted() {
    is_promised(small(&HIDDEN), 1.0);
}

#[test]
#[ignore = "seven minutes: make test-long"]
fn a_drive_of_other_dies_is_predicted() {
    let dies = ["drive.nand.dies_per_channel=4", "drive.nand.planes_per_die=1"];
    is_promised(small(&[&HIDDEN[..], &dies].concat()), 2.0);
}

#[test]
#[ignore = "seven minutes: make test-long"]
fn the_upper_half_follows_from_the_lower() {
    let promise = Promise::new(small(&HIDDEN), HeldOut::Upper);
    let found = &promise.found;
    let kept = PROMISED.map(|figure| {
        let fitted = Promise::within("fitted", &found.fitted, figure, 1.0);
        Promise::within("upper half", &found.held_out, figure, 2.0) && fitted
    });
    assert_eq!(kept, [true; 4]);
}
