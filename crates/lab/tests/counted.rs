//! Counters of features that are rarely combined: each event is counted once.

use std::fmt::Write as _;
use std::path::Path;

use strobe_lab::{Experiment, RunResult, runner};
use strobe_types::Prng;

fn attempt(text: &str) -> Result<RunResult, String> {
    let table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let experiment = Experiment::from_table(table, &[], Path::new("")).map_err(|error| error.to_string())?;
    runner::run(&experiment, &mut ()).map(RunResult::reproducible).map_err(|error| error.to_string())
}

fn run(text: &str) -> RunResult {
    attempt(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const WIDE: &str = "
[drive.nand]
channels = 4
dies_per_channel = 4
planes_per_die = 1
blocks_per_plane = 64
pages_per_block = 32
page_bytes = 4096
read_ns = 50_000
program_ns = 500_000
erase_ns = 3_000_000
channel_mb_s = 800
";

fn collected(of_ftl: &str) -> String {
    let workload = "kind = 'uniform'\nqueue_depth = 16";
    format!("{WIDE}\n{of_ftl}\n[workload]\n{workload}\n[run]\nwarmup = '1x'\nmeasure = '1x'")
}

/// A lower watermark reserves one block per plane for wear levelling that is never due.
#[test]
fn collection_begins_above_what_the_parts_of_a_drive_keep_in_hand() {
    const LEVELED: &str = "[drive.ftl.wear_leveling]\nkind = 'swap'\nthreshold = 4_000_000_000";
    let plain =
        run(&collected("[drive.ftl]\nover_provisioning = 0.10\n[drive.ftl.gc]\nmin_free_blocks = 34"));
    let leveled = run(&collected(&format!("[drive.ftl]\nover_provisioning = 0.10\n{LEVELED}")));
    assert_eq!(leveled.gc.wear_blocks, 0);
    assert_eq!(leveled.gc.runs, plain.gc.runs);
    assert_eq!(leveled.time.virtual_ns, plain.time.virtual_ns);
    // A lower watermark would never be reached.
    let low = format!("[drive.ftl.gc]\nlow_watermark_blocks = 34\n{LEVELED}");
    let error = attempt(&collected(&low)).expect_err("34 blocks are always kept");
    assert!(
        error.contains("low_watermark_blocks is 34") && error.contains("the 34 erased blocks"),
        "{error}"
    );
    attempt(&collected(&low.replace("= 34", "= 35"))).expect("above what is kept");
}

/// Free blocks are reserved for translation pages too: the host is throttled, and never waits for whole
/// victims.
#[test]
fn a_paged_map_does_not_make_the_host_wait_for_whole_victims() {
    let mark = |gc: &str| {
        let cache = "[drive.ftl.translation]\ncached_entries = 65_536";
        let text = format!("[drive.ftl]\nmapping = 'dftl'\nover_provisioning = 0.25\n{gc}\n{cache}");
        run(&collected(&text)).jobs[0].write.clat_ns.max
    };
    let by_default = mark("");
    let by_hand = mark("[drive.ftl.gc]\nlow_watermark_blocks = 70\nhigh_watermark_blocks = 85");
    assert!(by_default < 2 * by_hand, "{by_default} ns by default, {by_hand} ns with marks given");
}

#[test]
fn a_copy_transfers_what_it_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("copy.trace");
    std::fs::write(&trace, "strobe trace 1\n0 write 0 16384\n1 flush\n1 copy 0 16384 1048576\n")
        .expect("written");
    let result = run(&format!(
        "[drive.nand]
        channels = 1
        dies_per_channel = 1
        planes_per_die = 1
        blocks_per_plane = 64
        pages_per_block = 64
        page_bytes = 16_384
        read_ns = 50_000
        program_ns = 100_000
        erase_ns = 1_000_000
        channel_mb_s = 16
        [drive.ftl]
        mapping_unit_bytes = 4096
        over_provisioning = 0.5
        [workload]
        kind = 'trace'
        path = '{}'
        format = 'strobe'
        pacing = 'closed'",
        trace.display()
    ));
    // One tR, and four units at 16 MB/s.
    let of_dies = result.dies.expect("dies").by_class;
    assert_eq!(of_dies.background_read, 50_000 + 4 * 256_000);
}

#[test]
fn copies_begin_collection_in_the_background() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("copies.trace");
    let mut rng = Prng::new(5);
    let mut text = "strobe trace 1\n".to_owned();
    for at in 0..20_000 {
        let [from, to] = [(); 2].map(|()| rng.below_u64(6000) * 4096);
        if from != to {
            writeln!(text, "{at} copy {to} 4096 {from}").expect("memory");
        }
    }
    std::fs::write(&trace, text).expect("written");
    let copies = format!(
        "[workload]\nkind = 'trace'\npath = '{}'\nformat = 'strobe'\npacing = 'closed'\nqueue_depth = 4",
        trace.display()
    );
    let drive = WIDE.replace("= 64\n", "= 32\n").replace("dies_per_channel = 4", "dies_per_channel = 2");
    let ftl = "[drive.ftl]\nover_provisioning = 0.25";
    let result = run(&format!("{drive}\n{ftl}\n{copies}\n[run]\nprefill = true"));
    let (runs, victims) = (result.gc.runs, result.gc.victims);
    assert!(victims > 1000 && runs * 20 < victims, "{runs} of {victims} victims while a copy waited");
}

#[test]
fn every_block_of_a_read_is_refreshed() {
    for (pages, reads, mode) in [
        (1, 200, "stop-the-world"),
        (2, 200, "stop-the-world"),
        (4, 100, "stop-the-world"),
        (4, 100, "background"),
    ] {
        let result = run(&format!(
            "[drive.nand]
            channels = 2
            dies_per_channel = 1
            planes_per_die = 1
            blocks_per_plane = 1024
            pages_per_block = 16
            page_bytes = 4096
            read_ns = 50_000
            program_ns = 100_000
            erase_ns = 1_000_000
            channel_mb_s = 800
            [drive.ftl]
            die_allocation = 'stripe'
            gc.mode = '{mode}'
            [drive.ftl.refresh]
            reads = {reads}
            [workload]
            kind = 'uniform'
            write_fraction = 0.0
            block_bytes = {}
            size_bytes = 131_072
            [run]
            prefill = true
            measure = 20_000",
            pages * 4096
        ));
        let of_host = result.nand.read.by_cause.host;
        assert_eq!(of_host, 20_000);
        let expected = 20_000 / reads;
        let refreshed = result.gc.refreshed_blocks;
        // In the background, reads during a refresh count for the block that it empties.
        let least = if mode == "background" { expected * 7 / 10 } else { expected - 2 };
        assert!((least..=expected).contains(&refreshed), "{pages} pages: {refreshed} of {expected}");
    }
}

#[test]
fn a_victim_that_is_finished_on_the_spot_is_counted_once() {
    let nvram = "[drive.controller.nvram]\nbytes = 262_144";
    let ftl =
        format!("{nvram}\n[drive.ftl]\nover_provisioning = 0.28\n[drive.ftl.placement]\nscheme = 'sepbit'");
    let result = run(&format!(
        "{}\n{ftl}\n[workload]\nkind = 'zipf'\nqueue_depth = 8\n[run]\nwarmup = '2x'\nmeasure = '3x'",
        WIDE.replace("channels = 4\ndies_per_channel = 4", "channels = 2\ndies_per_channel = 1")
    ));
    let victims: u64 = result.streams.iter().flatten().map(|stream| stream.victims).sum();
    assert!(result.gc.victims > 100);
    assert_eq!(victims, result.gc.victims);
    // One victim may be in progress at either end of the window.
    assert!(result.gc.victims.abs_diff(result.nand.erase.total) <= 2, "{victims} victims");
}
