//! The measured window: it begins and ends without a break, in the same way for every kind of workload.

use std::fmt::Write as _;
use std::path::Path;

use strobe_lab::{Experiment, RunResult, runner};
use strobe_types::{Op, Prng};
use strobe_workload::synthetic::{SyntheticConfig, Workload as _};

fn experiment(text: &str) -> Experiment {
    let table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    Experiment::from_table(table, &[], Path::new("")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(text: &str) -> RunResult {
    runner::run(&experiment(text), &mut ()).unwrap_or_else(|error| panic!("{error}\n{text}")).reproducible()
}

/// The 1 TB preset cut down, deep queues, and a window shorter than one collection.
const CUT_DOWN: &str = "
[drive]
preset = 'tlc-nvme-1t'
[drive.nand]
channels = 2
dies_per_channel = 2
blocks_per_plane = 48
pages_per_block = 24
[drive.ftl]
over_provisioning = 0.28
";

const QUEUE: &str = "kind = 'uniform'\nqueue_depth = 64\n";

#[test]
fn a_short_window_of_a_closed_loop_is_that_of_jobs() {
    let run_of =
        |table: &str| run(&format!("{CUT_DOWN}\n{table}\n{QUEUE}[run]\nwarmup = '3x'\nmeasure = 2000"));
    let (workload, jobs) = (run_of("[workload]"), run_of("[[jobs]]\nname = 'uniform'"));
    let same =
        RunResult { config: jobs.config.clone(), config_hash: jobs.config_hash.clone(), ..workload.clone() };
    assert_eq!(same, jobs);
    let long = run(&format!("{CUT_DOWN}\n[workload]\n{QUEUE}[run]\nwarmup = '3x'\nmeasure = '3x'"));
    let iops = |result: &RunResult| result.jobs[0].write.iops.expect("time passed");
    let ratio = iops(&workload) / iops(&long);
    assert!((0.8..1.25).contains(&ratio), "the short window has {ratio} of the throughput of the long one");
}

fn drawn(rng: &mut Prng) -> (String, u64, u64) {
    let pick = |rng: &mut Prng, of: &[&str]| of[rng.below(of.len() as u32) as usize].to_owned();
    let mode = pick(rng, &["background", "stop-the-world"]);
    let buffer = pick(rng, &["0", "65536", "262144"]);
    let depth = pick(rng, &["1", "2", "7", "32", "200"]);
    let bytes = pick(rng, &["512", "4096", "12288", "65536"]);
    let writes = pick(rng, &["1.0", "0.7", "0.2"]);
    let trims = pick(rng, &["0.0", "0.1"]);
    let ranges = if trims == "0.0" { "1".to_owned() } else { pick(rng, &["1", "3"]) };
    let flushes = pick(rng, &["0", "5"]);
    let mapping = pick(rng, &["page", "page", "dftl"]);
    let timing = pick(rng, &["true", "true", "true", "false"]);
    let seed = rng.below(1000);
    let text = format!(
        "seed = {seed}
        [drive.nand]
        channels = 2
        dies_per_channel = 2
        planes_per_die = 1
        blocks_per_plane = 20
        pages_per_block = 32
        page_bytes = 4096
        read_ns = 60_000
        program_ns = 400_000
        erase_ns = 3_000_000
        channel_mb_s = 400
        [drive.ftl]
        mapping = '{mapping}'
        over_provisioning = 0.6
        [drive.ftl.gc]
        mode = '{mode}'
        [drive.controller]
        write_buffer_bytes = {buffer}
        command_ns = 700
        [workload]
        queue_depth = {depth}
        block_bytes = {bytes}
        write_fraction = {writes}
        trim_fraction = {trims}
        trim_ranges = {ranges}
        flush_every = {flushes}
        [run]
        timing = {timing}
        check = true
        "
    );
    // Keys of times are refused without timing.
    let has_effect = |line: &&str| {
        let of_time = ["_ns", "channel_mb_s", "queue_depth", "mode ="];
        timing == "true" || !of_time.iter().any(|key| line.contains(key))
    };
    let text = text.lines().filter(has_effect).map(|line| format!("{line}\n")).collect();
    (text, 1 + u64::from(rng.below(3000)), 1 + u64::from(rng.below(3000)))
}

#[test]
fn two_windows_in_a_row_add_up_to_the_one_over_both() {
    let mut rng = Prng::new(17);
    for _ in 0..60 {
        let (text, first, second) = drawn(&mut rng);
        let window =
            |warmup: u64, measure: u64| run(&format!("{text}warmup = {warmup}\nmeasure = {measure}"));
        // The first may exceed its length: everything that completes at that instant counts.
        let before = window(0, first);
        let first = before.window.host_pages;
        let after = window(first, second);
        let both = window(0, first + after.window.host_pages);
        let what = format!("{first} and {second} of\n{text}");
        for kind in ["read", "write", "trim", "flush"] {
            let of = |result: &RunResult| match kind {
                "read" => result.host.read,
                "write" => result.host.write,
                "trim" => result.host.trim,
                _ => result.host.flush,
            };
            let [before, after, both] = [&before, &after, &both].map(of);
            assert_eq!(before.commands + after.commands, both.commands, "{kind} commands: {what}");
            assert_eq!(before.bytes + after.bytes, both.bytes, "{kind} bytes: {what}");
        }
        assert_eq!(before.host.pages_written + after.host.pages_written, both.host.pages_written, "{what}");
        assert_eq!(before.time.virtual_ns + after.time.virtual_ns, both.time.virtual_ns, "{what}");
        for (name, of) in [
            ("programs", (|result| result.nand.program.total) as fn(&RunResult) -> u64),
            ("reads", |result| result.nand.read.total),
            ("erases", |result| result.nand.erase.total),
            ("die time", |result| result.dies.as_ref().map_or(0, |dies| dies.held_ns)),
        ] {
            assert_eq!(of(&before) + of(&after), of(&both), "{name}: {what}");
        }
        // All counters cover the same requests.
        for result in [&before, &after, &both] {
            let job = &result.jobs[0];
            for (host, op) in [
                (result.host.read, &job.read),
                (result.host.write, &job.write),
                (result.host.trim, &job.trim),
            ] {
                assert_eq!((host.commands, host.bytes), (op.total_ios, op.io_bytes), "{what}");
                assert!(!result.config.run.timing || op.clat_ns.n == op.total_ios, "{what}");
            }
            assert_eq!(result.window.host_pages, result.host.pages_written, "{what}");
        }
    }
}

#[test]
fn windows_of_any_length_agree_in_the_steady_state() {
    let mut rng = Prng::new(4);
    let mut compared = 0;
    while compared < 5 {
        let (text, ..) = drawn(&mut rng);
        if text.contains("timing = false") || text.contains("block_bytes = 512") {
            continue;
        }
        compared += 1;
        let text = text.replace("check = true", "");
        let seed_at = text.find('\n').expect("lines");
        // The mean over seeds, and its standard error.
        let measured = |length: f64| {
            let of = |seed: u32| {
                let text = format!("seed = {seed}{}warmup = '8x'\nmeasure = '{length}x'", &text[seed_at..]);
                let result = run(&text);
                result.host.pages_written as f64 / result.time.virtual_ns as f64
            };
            let values: Vec<f64> = (1..=6).map(of).collect();
            let mean = values.iter().sum::<f64>() / 6.0;
            let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / 5.0;
            (mean, (variance / 6.0).sqrt())
        };
        let (long, long_error) = measured(4.0);
        for length in [0.05, 0.2, 1.0] {
            let (short, short_error) = measured(length);
            let error = (long_error * long_error + short_error * short_error).sqrt();
            assert!(
                (short - long).abs() <= 4.5 * error + 0.01 * long,
                "{short} ± {short_error} pages/ns in {length} x of the capacity, {long} ± {long_error} in 4 x:\n{text}"
            );
        }
    }
}

#[test]
fn a_trace_of_the_same_requests_is_measured_alike() {
    let drive = "
        [drive.nand]
        channels = 2
        dies_per_channel = 2
        planes_per_die = 1
        blocks_per_plane = 20
        pages_per_block = 32
        page_bytes = 4096
        [drive.ftl]
        over_provisioning = 0.6
        [drive.controller]
        write_buffer_bytes = 65536
        ";
    let folder = tempfile::tempdir().expect("a folder");
    let workload = "block_bytes = 8192\nwrite_fraction = 0.8\n";
    let config = SyntheticConfig { block_bytes: 8192, write_fraction: 0.8, ..SyntheticConfig::default() };
    let bytes = experiment(&format!("{drive}[workload]\n{workload}")).drive.logical_bytes();
    let mut requests = Vec::new();
    config.build(bytes, 1).expect("fits").fill(&mut requests, 5000);
    let mut text = "strobe trace 1\n".to_owned();
    for request in requests {
        let op = if request.op == Op::Read { "read" } else { "write" };
        let _ = writeln!(text, "0 {op} {} {}", request.lba.get() * 512, request.sectors * 512);
    }
    let path = folder.path().join("t.trace");
    std::fs::write(&path, text).expect("a file");
    for depth in [1, 8, 33] {
        let measure = "[run]\nprefill = true\nprecondition = '1x'\nmeasure = 3001";
        let generated = run(&format!("{drive}[workload]\n{workload}queue_depth = {depth}\n{measure}"));
        let job =
            run(&format!("{drive}[[jobs]]\nname = 'uniform'\n{workload}queue_depth = {depth}\n{measure}"));
        let replayed = run(&format!(
            "{drive}[workload]\nkind = 'trace'\npath = '{}'\nformat = 'strobe'\npacing = 'closed'\n\
             queue_depth = {depth}\n{measure}",
            path.display()
        ));
        for other in [&job, &replayed] {
            assert_eq!(generated.time.virtual_ns, other.time.virtual_ns, "queue depth {depth}");
            assert_eq!((&generated.host, &generated.nand), (&other.host, &other.nand), "queue depth {depth}");
            let [ours, theirs] = [&generated.jobs[0], &other.jobs[0]];
            assert_eq!((&ours.read, &ours.write), (&theirs.read, &theirs.write), "queue depth {depth}");
        }
    }
}

#[test]
fn what_is_written_back_after_the_window_is_not_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = "0 write 0 4096\n1000000000 write 16777216 4096\n2000000000 write 33554432 4096\n\
                3000000000 write 50331648 4096\n";
    let path = folder.path().join("t.trace");
    std::fs::write(&path, format!("strobe trace 1\n{rows}")).expect("a file");
    let result = run(&format!(
        "[drive]\npreset = 'generic-8g'\n[drive.ftl]\nmapping = 'dftl'\n[workload]\nkind = 'trace'\nformat = 'strobe'\n\
         path = '{}'",
        path.display()
    ));
    assert_eq!((result.waf, result.nand.program.total), (Some(1.0), 4));
    assert_eq!(result.nand.program.by_cause.map, 0);
}

#[test]
fn host_pages_are_mapping_units_written_in_either_loop() {
    let text = "
        [drive.nand]
        channels = 1
        dies_per_channel = 1
        planes_per_die = 1
        blocks_per_plane = 64
        pages_per_block = 16
        page_bytes = 4096
        [drive.ftl]
        over_provisioning = 0.28
        [workload]
        ";
    let pages = |keys: &str| run(&format!("{text}{keys}\n[run]\nmeasure = '1x'")).window;
    for keys in ["block_bytes = 512", "block_bytes = 512\nrate_iops = 100"] {
        let window = pages(keys);
        assert_eq!((window.host_pages, window.capacities), (800, 1.0), "{keys}");
    }
    // Reads are additional.
    let result = run(&format!("{text}write_fraction = 0.25\n[run]\nwarmup = '1x'\nmeasure = '1x'"));
    assert_eq!((result.window.host_pages, result.host.write.commands), (800, 800));
    assert!((2000..2900).contains(&result.host.read.commands), "{:?}", result.host.read);
    // A workload without writes is measured by its reads.
    assert_eq!(pages("write_fraction = 0.0").host_pages, 800);
    assert_eq!(pages("write_fraction = 0.0\nrate_iops = 1000").host_pages, 800);
}

#[test]
fn an_overloaded_drive_has_one_set_of_requests_and_the_rate_that_was_asked_for() {
    let result = run("
        [drive.nand]
        channels = 1
        dies_per_channel = 1
        planes_per_die = 2
        pages_per_block = 8
        page_bytes = 4096
        blocks_per_plane = 64
        program_ns = 200000
        channel_mb_s = 0
        [drive.ftl]
        over_provisioning = 0.28
        [workload]
        block_bytes = 28672
        queue_depth = 1024
        rate_iops = 100000
        rate_process = 'poisson'
        [run]
        warmup = '1x'
        measure = '2x'
    ");
    let job = &result.jobs[0];
    let load = result.load.as_ref().expect("an open loop");
    assert_eq!(result.host.write.commands, job.write.total_ios);
    assert_eq!(job.load.expect("an open loop").served, job.write.total_ios);
    assert!((load.offered_iops / 100_000.0 - 1.0).abs() < 0.05, "{load:?}");
    assert!(!load.kept_up, "{load:?}");
}

#[test]
fn a_phase_in_pages_without_a_writer_left_fails() {
    let text = format!(
        "{CUT_DOWN}\n[[jobs]]\nname = 'writer'\nruntime = '1ms'\n[[jobs]]\nname = 'reader'\nwrite_fraction = 0.0\n\
         [run]\nmeasure = '100x'"
    );
    let error = runner::run(&experiment(&text), &mut ()).expect_err("never ends").to_string();
    assert!(error.contains("every job that writes has ended"), "{error}");
}

#[test]
fn reads_that_take_no_time_do_not_hold_up_the_end_for_ever() {
    let text = "
        [drive]
        preset = 'generic-8g'
        [drive.nand]
        blocks_per_plane = 64
        [drive.ftl]
        over_provisioning = 0.5
        [[jobs]]
        name = 'reads'
        write_fraction = 0.0
        [[jobs]]
        name = 'writes'
        rate_iops = 500
        [run]
        prefill = false
        measure = '0.1x'
    ";
    let error = runner::run(&experiment(text), &mut ()).expect_err("never ends").to_string();
    assert!(error.contains("run.prefill = true"), "{error}");
}

#[test]
fn jitter_of_writes_is_that_of_jobs_on_a_drive_without_caches() {
    let text = "
        [drive.nand]
        channels = 1
        dies_per_channel = 1
        planes_per_die = 1
        blocks_per_plane = 64
        pages_per_block = 16
        program_ns = 200_000
        channel_mb_s = 0
        [drive.ftl]
        over_provisioning = 4.0
        [drive.controller]
        write_jitter_ns = 1_000_000
        ";
    let run_of = |table: &str| run(&format!("{text}{table}\nkind = 'sequential'\n[run]\nmeasure = '4x'"));
    let (workload, jobs) = (run_of("[workload]"), run_of("[[jobs]]\nname = 'sequential'"));
    assert_eq!(workload.jobs[0].write, jobs.jobs[0].write);
    let mean = workload.jobs[0].write.clat_ns.mean;
    assert!((1_050_000.0..1_350_000.0).contains(&mean), "{mean}");
}

fn comparable(result: &RunResult) -> serde_json::Value {
    let mut json = serde_json::to_value(result).expect("serializable");
    for key in ["config", "config_hash", "placement_handles", "streams"] {
        json.as_object_mut().expect("an object").remove(key);
    }
    for sample in json["series"].as_array_mut().expect("a list") {
        sample.as_object_mut().expect("an object").remove("streams");
    }
    json
}

#[test]
fn one_placement_handle_gives_the_result_of_a_drive_without() {
    for timing in ["true", "false"] {
        for isolation in ["initial", "persistent"] {
            let queue = if timing == "true" { QUEUE } else { "kind = 'uniform'" };
            let run_of = |placement: &str| {
                run(&format!(
                    "{CUT_DOWN}\n[drive.ftl.placement]\n{placement}\n[workload]\n{queue}\n[run]\nwarmup = '3x'\n\
                     measure = '2x'\ntiming = {timing}"
                ))
            };
            let plain = run_of("scheme = 'sep-gc'");
            let handles = run_of(&format!("scheme = 'handles'\nhandles = 1\nisolation = '{isolation}'"));
            assert!(plain.gc.units_moved > 1000, "{:?}", plain.gc);
            assert_eq!(comparable(&plain), comparable(&handles), "{isolation}, timing {timing}");
            let own = handles.placement_handles.expect("one handle");
            let media = own.handles[0].media_bytes + own.shared_media_bytes;
            let nand = &handles.config.drive.nand;
            let page_bytes = u64::from(nand.page_bytes * nand.pages_per_program);
            assert_eq!(media, handles.nand.program.total * page_bytes);
        }
    }
}

#[test]
fn no_placement_makes_the_host_wait_at_a_load_that_the_drive_bears() {
    let drive = CUT_DOWN.replace("blocks_per_plane = 48", "blocks_per_plane = 200");
    for scheme in ["sep-gc", "hot-cold", "sepbit", "dac", "sfs", "warcip"] {
        let result = run(&format!(
            "{drive}\n[drive.ftl.placement]\nscheme = '{scheme}'\n[workload]\nkind = 'zipf'\ntheta = 1.0\n\
             queue_depth = 64\nrate_iops = 6000\n[run]\nwarmup = '1x'\nmeasure = '0.5x'"
        ));
        assert!(result.gc.units_moved > 50_000, "{scheme}: {:?}", result.gc);
        assert_eq!(result.host.stalled_writes, 0, "{scheme}");
    }
}
