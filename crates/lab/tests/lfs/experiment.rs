use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use strobe_lab::result::LfsResult;
use strobe_lab::runner::{SaveAt, SaveState, States};
use strobe_lab::{Experiment, RunResult, runner};
use strobe_ssd::StateFile;
use strobe_workload::lfs::LfsConfig;

/// A Jasmine board of 64 MiB with short blocks and short segments.
const SMALL: &str = "
    [drive]
    preset = 'jasmine-4g'
    [drive.nand]
    blocks_per_plane = 76
    pages_per_block = 16
    endurance_pe = 0
    [drive.ftl]
    logical_pages = 16_384
    copy_mode = 'logical'
    virtual_map_entries = 1024
    [workload]
    kind = 'lfs'
    segment_bytes = 131_072
    cleaned_segments = 8
    utilization = 0.7
    [run]
    warmup = '1x'
    measure = '2x'
    timing = false
";

fn run(sets: &[&str]) -> RunResult {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let experiment =
        Experiment::from_table(SMALL.parse().expect("TOML"), &sets, Path::new("")).expect("valid");
    runner::run(&experiment, &mut ()).expect("runs").reproducible()
}

fn lfs(result: &RunResult) -> &LfsResult {
    result.lfs.as_ref().expect("there is one")
}

#[test]
fn copies_and_moves_do_the_same_to_the_files_and_the_rest_adds_up() {
    let moved = run(&["workload.cleaning=move"]);
    let copied = run(&["workload.cleaning=copy"]);
    let [of_move, of_copy] = [&moved, &copied].map(lfs);
    assert_eq!(of_move.updated_bytes, 2 * 16_384 * 4096);
    assert_eq!(
        (of_move.updated_bytes, of_move.cleaned_bytes, of_move.moved_bytes, of_move.checkpoints),
        (of_copy.updated_bytes, of_copy.cleaned_bytes, of_copy.moved_bytes, of_copy.checkpoints)
    );
    // Each dead block of a cleaned segment is replaced by one updated block.
    let gained = (of_move.cleaned_bytes - of_move.moved_bytes) as f64 / of_move.updated_bytes as f64;
    assert!((gained - 1.0).abs() < 0.05, "{gained}");
    let block = 4096;
    // Host writes: updates, checkpoints, and moved blocks.
    let others = of_move.updated_bytes + of_move.checkpoints * 32_768;
    assert_eq!(moved.host.write.bytes, others + of_move.moved_bytes);
    assert_eq!(moved.host.read.bytes, of_move.moved_bytes);
    assert_eq!(moved.host.copy.commands, 0);
    assert_eq!(copied.host.write.bytes, others);
    assert_eq!((copied.host.read.commands, copied.host.copy.bytes), (0, of_copy.moved_bytes));
    let copies = copied.copy.as_ref().expect("copies");
    assert_eq!((copies.logical_units + copies.physical_units) * block, of_copy.moved_bytes);
    // The window ends by application writes; its host pages are the file system's writes for them.
    for result in [&moved, &copied] {
        assert_eq!(result.window.host_pages, result.host.pages_written);
        let programmed = result.nand.program.total * 8192;
        let expected = programmed as f64 / of_move.updated_bytes as f64;
        assert!((lfs(result).programmed_per_byte.expect("updates") - expected).abs() < 1e-9);
    }
    assert!(lfs(&copied).programmed_per_byte < lfs(&moved).programmed_per_byte);
}

#[test]
fn a_trim_has_no_more_ranges_than_asked_for() {
    let [one, many] = [1, 64].map(|ranges| run(&[&format!("workload.trim_ranges={ranges}")]));
    assert_eq!(one.host.trim.bytes, many.host.trim.bytes);
    assert!(one.host.trim.commands > 20 * many.host.trim.commands, "{:?} {:?}", one.host, many.host);
}

#[test]
fn every_way_of_cleaning_runs_and_the_checker_agrees() {
    for cleaning in ["move", "copy", "threaded", "in-place"] {
        for sync in ["true", "false"] {
            let sets = [format!("workload.cleaning={cleaning}"), format!("workload.sync={sync}")];
            let result = run(&[&sets[0], &sets[1], "run.check=true", "run.timing=true", "run.measure=1x"]);
            assert!(!result.partial);
            assert!(lfs(&result).updated_bytes_per_s.is_some_and(|rate| rate > 0.0));
            let flushes = result.host.flush.commands;
            let updates = lfs(&result).updated_bytes / 16_384;
            let expected = lfs(&result).checkpoints + if sync == "true" { updates } else { 0 };
            // An update that ends with a checkpoint needs no extra flush.
            assert!(
                flushes <= expected && flushes + lfs(&result).checkpoints >= expected,
                "{flushes}, {expected}"
            );
            let cleans = matches!(cleaning, "move" | "copy");
            assert_eq!(lfs(&result).victims_live.is_some(), cleans, "{cleaning}");
        }
    }
}

#[test]
fn other_blocks_and_used_drives_will_do() {
    for sets in [
        &["workload.block_bytes=2048", "workload.checkpoint_bytes=8192"][..],
        &["workload.block_bytes=8192", "workload.cleaning=copy"],
        &["workload.block_bytes=512", "workload.update_bytes=512", "run.warmup=0", "run.measure=4000"],
        &["run.prefill=true", "run.precondition=1x"],
    ] {
        let result = run(&[sets, &["run.check=true"]].concat());
        assert!(lfs(&result).moved_bytes > 0 || sets.contains(&"run.measure=4000"), "{sets:?}");
    }
    let [fresh, used] = [run(&[]), run(&["run.prefill=true"])];
    assert_eq!(lfs(&fresh).moved_bytes, lfs(&used).moved_bytes);
}

#[test]
fn a_segment_that_does_not_fit_is_refused_with_its_key() {
    let refusal = |set: &str| {
        let experiment =
            Experiment::from_table(SMALL.parse().expect("TOML"), &[set.to_owned()], Path::new(""));
        runner::check(&experiment.expect("in its range")).expect_err(set).to_string()
    };
    for (set, expected) in [
        ("workload.segment_bytes=100_000", "workload.segment_bytes is 100000"),
        ("workload.segment_bytes=16_777_216", "12 segments"),
        ("workload.utilization=0.999", "workload.utilization is 0.999, it must be from"),
        ("workload.update_bytes=6000", "block_bytes = 4096"),
    ] {
        let error = refusal(set);
        assert!(error.contains(expected), "{set}: {error}");
    }
    assert_eq!(LfsConfig::default().memory_bytes(1 << 30), 16 << 18);
}

#[test]
fn power_may_fail_in_the_midst_of_cleaning() {
    let result = run(&[
        "workload.cleaning=copy",
        "drive.ftl.durable_map=true",
        "drive.nand.data=stamp",
        "power.cut_every=1500",
        "run.measure=1x",
        "run.check=true",
    ]);
    assert!(result.power_cuts.len() > 5, "{}", result.power_cuts.len());
    assert!(result.power_cuts.iter().all(|cut| cut.verified.wrong == 0), "{:?}", result.power_cuts);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a bound of 2 % does not mind the platform's logarithm")]
fn victims_are_as_live_as_theory_says() {
    for utilization in [0.5, 0.7, 0.85] {
        let result = run(&[&format!("workload.utilization={utilization}"), "workload.cleaning=move"]);
        let live = lfs(&result).victims_live.expect("segments are cleaned");
        // 512 segments: one of checkpoints, eight free, two open.
        let share = utilization * 512.0 / (512.0 - 1.0 - 8.0 - 1.0);
        let found = (1.0 - live) / -live.ln();
        assert!((found / share - 1.0).abs() < 0.02, "{utilization}: {live} live, {found} for {share}");
    }
}

#[derive(Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_run_from_a_state_is_the_run_that_saved_it() {
    let experiment = Experiment::from_table(
        SMALL.parse().expect("TOML"),
        &["workload.cleaning=copy".to_owned()],
        Path::new(""),
    )
    .expect("valid");
    let bytes = Bytes::default();
    let mut save = SaveState { at: SaveAt::WarmUp, out: Box::new(bytes.clone()), is_saved: false };
    let states = States { from: None, save: Some(&mut save) };
    let whole = runner::run_with(&experiment, states, &mut ()).expect("runs").reproducible();
    assert!(save.is_saved);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    std::fs::write(&path, &*bytes.0.borrow()).expect("written");
    let from = Some(StateFile::open(&path).expect("a state"));
    let again =
        runner::run_with(&experiment, States { from, save: None }, &mut ()).expect("runs").reproducible();
    assert_eq!(again, whole);
    assert!(lfs(&again).moved_bytes > 0);
}

/// In batches and in the job loop: equal slots in fewer commands.
#[test]
fn synthetic_trims_have_as_many_ranges_as_asked_for() {
    const TRIMS: &str = "
        [drive]
        preset = 'jasmine-4g'
        [drive.nand]
        blocks_per_plane = 76
        pages_per_block = 16
        [drive.ftl]
        logical_pages = 16_384
        [workload]
        trim_fraction = 0.02
        flush_every = 100
        [run]
        check = true
        measure = '2x'
    ";
    let run = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let experiment =
            Experiment::from_table(TRIMS.parse().expect("TOML"), &sets, Path::new("")).expect("valid");
        runner::run(&experiment, &mut ()).expect("runs")
    };
    let one = run(&[]).host;
    assert_eq!(one.trim.bytes, one.trim.commands * 4096);
    let batched = run(&["workload.trim_ranges=16"]).host;
    let looped = run(&["workload.trim_ranges=16", "run.interval=1s"]).host;
    for host in [&batched, &looped] {
        assert_eq!(host.trim.bytes, host.trim.commands * 16 * 4096, "{host:?}");
        let share = host.trim.commands as f64 / (host.trim.commands + host.write.commands) as f64;
        assert!((share - 0.02).abs() < 0.002, "{share}");
        assert!(host.flush.commands * 100 <= host.trim.commands + host.write.commands);
        assert!((host.flush.commands + 1) * 100 > host.trim.commands + host.write.commands);
        // The requested number of pages is written; trims are additional.
        assert_eq!(host.write.bytes, 32_768 * 4096);
    }
    let few = run(&["workload.trim_ranges=16", "workload.flush_every=0"]).host;
    assert_eq!(few.flush.commands, 0);
}
