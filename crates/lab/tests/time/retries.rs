//! Read retries, and refreshes of blocks with too many reads or too old data.

use strobe_nand::{Cause, NandOp};
use strobe_workload::synthetic::SyntheticConfig;

use crate::assert_near;
use crate::drives::{READ_NS, drive};
use crate::host::{Host, Window};

/// The buses take no time.
fn reads(tables: &str, rate: f64, count: u64) -> Window {
    let config = drive(&format!(
        "[drive.nand]\nchannels = 4\ndies_per_channel = 1\nplanes_per_die = 1\nblocks_per_plane = 32\n\
         pages_per_block = 64\nchannel_mb_s = 0\nendurance_pe = 0\n[drive.ftl]\nover_provisioning = 0.28\n{tables}"
    ));
    let mut host =
        Host::filled(&config, &SyntheticConfig { write_fraction: 0.0, ..SyntheticConfig::default() });
    let mut arrivals = host.poisson(rate, 1);
    host.measure(|host| host.open(&mut arrivals, count))
}

#[test]
fn retries_hold_the_die_as_reads_do() {
    for fresh in [0.0, 0.4, 2.5] {
        let (rate, count) = (500.0, 40_000);
        let window = reads(&format!("[drive.nand.read_retry]\nfresh = {fresh}\n"), rate, count);
        let each = 1.0 + fresh;
        let array = window.stats.nand.total(NandOp::Read);
        assert_eq!(window.stats.read_retries + count, array);
        assert_near("reads of the array", array as f64, each * count as f64, 0.02);
        let busy = array as f64 * READ_NS as f64 / (window.ns as f64 * 4.0);
        assert_near("share of busy time", window.busy(), busy, 1e-3);
        // The firmware's time is added, and rarely another read on the same die.
        let mean = window.reads.mean_ns();
        assert!(mean > each * 0.98 * READ_NS as f64, "mean read {mean} ns with {fresh} retries");
        assert!(mean < each * 1.08 * READ_NS as f64 + 20_000.0, "mean read {mean} ns with {fresh} retries");
    }
}

/// A block is moved after `limit` reads; its retries grow no further.
#[test]
fn blocks_are_refreshed_after_so_many_reads() {
    let count = 200_000;
    let disturbed = "[drive.nand.read_retry]\nper_kread = 2.0\n";
    let without = reads(disturbed, 2_000.0, count);
    assert_eq!(without.stats.nand.total(NandOp::Erase), 0, "nothing is collected");
    let limit = 500;
    let with = reads(&format!("{disturbed}[drive.ftl.refresh]\nreads = {limit}\n"), 2_000.0, count);
    let refreshed = with.stats.gc.refreshed_blocks;
    assert_eq!(refreshed, with.stats.nand.total(NandOp::Erase));
    // Host reads on blocks not yet due are subtracted. The moves read, too, but make no block due.
    let most = host_reads(&with) / f64::from(limit);
    let least = (host_reads(&with) - f64::from(limit) * 100.0) / f64::from(limit) * 0.95;
    assert!((least..=most).contains(&(refreshed as f64)), "{refreshed} blocks, expected {least} to {most}");
    // From 0 to `limit` reads with 2 retries per thousand: 0.5 on average; open blocks are not moved. Without
    // refresh, retries grow with the reads.
    let retries = |window: &Window| host_reads(window) / count as f64 - 1.0;
    assert!((0.4..0.65).contains(&retries(&with)), "{} retries a read", retries(&with));
    assert!(retries(&without) > 3.0 * retries(&with), "{} retries a read", retries(&without));
}

fn host_reads(window: &Window) -> f64 {
    window.stats.nand.get(NandOp::Read, Cause::Host) as f64
}

/// Each read checks one more block.
#[test]
fn blocks_are_refreshed_after_so_many_days() {
    let (rate, count) = (2_000.0, 100_000);
    let tables =
        "[drive.nand.read_retry]\nper_day = 0.1\ndays_per_second = 2.0\n[drive.ftl.refresh]\ndays = 10.0\n";
    let window = reads(tables, rate, count);
    // 50 s, which are 100 days: each of about a hundred blocks is moved nine or ten times.
    let days = window.ns as f64 / 1e9 * 2.0;
    let rounds = window.stats.gc.refreshed_blocks as f64 / 100.0;
    assert!((0.8 * days / 10.0..1.2 * days / 10.0).contains(&rounds), "{rounds} rounds in {days} days");
    let retries = host_reads(&window) / count as f64 - 1.0;
    assert!((0.4..0.62).contains(&retries), "{retries} retries a read, half of 0.1 for each of ten days");
}
