//! Streams of a placement in results.

use strobe_lab::{Experiment, RunResult, runner};

const DRIVE: &str = "
    [drive.nand]
    channels = 1
    dies_per_channel = 1
    planes_per_die = 1
    blocks_per_plane = 96
    pages_per_block = 64
    page_bytes = 4096
    [drive.ftl]
    mapping_unit_bytes = 4096
    logical_pages = 4096
";

fn run(text: &str) -> RunResult {
    let text = format!("{DRIVE}{text}\ntiming = false");
    let experiment = Experiment::from_toml(&text).expect("an experiment");
    runner::run(&experiment, &mut ()).expect("runs")
}

#[test]
fn streams_add_up_to_what_the_chip_and_the_collection_did() {
    for scheme in
        ["hot-cold", "sepbit", "gw", "dac", "sfs", "warcip", "fadac", "midas", "min(writes, 3) + 4 * is_copy"]
    {
        let result = run(&format!(
            "[drive.ftl.placement]\nscheme = '{scheme}'\n[workload]\nkind = 'zipf'\n[run]\nwarmup = '3x'\nmeasure = '4x'"
        ));
        let streams = result.streams.as_ref().expect("a placement");
        assert!(streams.len() > 2 && result.gc.units_moved > 1000, "{scheme}: {streams:?}");
        let sum = |of: fn(&strobe_lab::result::StreamResult) -> u64| streams.iter().map(of).sum::<u64>();
        assert_eq!(sum(|stream| stream.media_bytes), 4096 * result.nand.program.total, "{scheme}");
        assert_eq!(sum(|stream| stream.host_bytes), 4096 * result.host.pages_written, "{scheme}");
        assert_eq!(sum(|stream| stream.victims), result.gc.victims, "{scheme}");
        assert_eq!(sum(|stream| stream.ages_at_collection.iter().sum()), result.gc.victims, "{scheme}");
        let valid =
            streams.iter().map(|stream| stream.valid_at_collection.unwrap_or(0.0) * stream.victims as f64);
        let moved = result.gc.units_moved as f64 / 64.0;
        assert!((valid.sum::<f64>() / moved - 1.0).abs() < 1e-9, "{scheme}: {moved}");
        for sample in &result.series {
            let waf: f64 = sample.streams.iter().flatten().sum();
            assert!((waf - sample.waf.expect("writes")).abs() < 1e-9, "{scheme}: {sample:?}");
        }
    }
}

/// A full block is dead, and collected, when nearly all other addresses have been written.
#[test]
fn blocks_of_a_log_are_collected_at_the_age_of_a_round() {
    let result = run(
        "[drive.ftl.placement]\nscheme = 'dac'\n[workload]\nkind = 'sequential'\n[run]\nwarmup = '3x'\nmeasure = '4x'",
    );
    assert_eq!(result.waf, Some(1.0));
    let streams = result.streams.expect("a placement");
    // 4,096 addresses, and less than 2,048 of spare space: from 4,096 to below 8,192.
    let of_a_round: u64 =
        streams.iter().map(|stream| stream.ages_at_collection.get(13).copied().unwrap_or(0)).sum();
    assert_eq!((of_a_round, result.gc.victims), (256, 256), "{streams:?}");
}
