//! Independent plane reads, cache reads, and the cost of commands on a shared bus.

use strobe_lab::{Experiment, RunResult, runner};
use strobe_workload::oracle::md1_wait_ns;

use crate::assert_near;

const READ_NS: u64 = 60_000;
/// At 800 MB/s.
const TRANSFER_NS: u64 = 5_120;

fn random_reads(nand: &str, units: u32, host: &str, requests: u32) -> RunResult {
    let text = format!(
        "[drive.nand]\nblocks_per_plane = 16\npages_per_block = 64\nread_ns = {READ_NS}\n{nand}\n\
         [drive.ftl]\nlogical_pages = {units}\n[workload]\nrw = \"randread\"\n{host}\n\
         [run]\nwarmup = 10000\nmeasure = {requests}"
    );
    let experiment = Experiment::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    runner::run(&experiment, &mut ()).expect("it runs")
}

/// Each plane is an M/D/1 queue. The number of requests keeps the error of the mean below a third of the
/// tolerance.
#[test]
fn poisson_reads_on_independent_planes_wait_as_long_as_in_m_d_1_queues() {
    for (planes, rho, requests) in
        [(4, 0.3, 600_000), (4, 0.6, 1_500_000), (6, 0.6, 1_500_000), (6, 0.8, 3_000_000)]
    {
        let rate_iops = (rho * 1e9 / READ_NS as f64 * f64::from(planes)).round() as u32;
        let result = random_reads(
            &format!("planes_per_die = {planes}\nchannel_mb_s = 0\nindependent_plane_reads = true"),
            planes * 600,
            &format!("iodepth = 65536\nrate_iops = {rate_iops}\nrate_process = \"poisson\""),
            requests,
        );
        let waited = result.jobs[0].read.clat_ns.mean - READ_NS as f64;
        let rho = f64::from(rate_iops) / f64::from(planes) * READ_NS as f64 / 1e9;
        let expected = md1_wait_ns(rho, READ_NS as f64).expect("a share");
        println!(
            "{planes} planes at {rho:.2}: waiting {waited:.0} ns, M/D/1 {expected:.0} ({:+.2} %)",
            (waited / expected - 1.0) * 100.0
        );
        assert_near(&format!("waiting on {planes} planes at {rho}"), waited, expected, 0.01);
    }
}

fn throughput(nand: &str, units: u32, depth: u32) -> f64 {
    let result = random_reads(nand, units, &format!("iodepth = {depth}"), 100_000);
    result.jobs[0].read.iops.expect("time passed")
}

#[test]
fn a_bus_that_many_dies_share_carries_commands_too() {
    for command_ns in [0, 300, 1_000, 5_000] {
        let nand = format!("dies_per_channel = 64\nchannel_mb_s = 800\ncommand_ns = {command_ns}");
        let found = throughput(&nand, 64 * 600, 1024);
        let most = 1e9 / (command_ns + TRANSFER_NS) as f64;
        println!("commands of {command_ns} ns: {found:.0} reads a second, at most {most:.0}");
        assert_near(&format!("reads with commands of {command_ns} ns"), found, most, 0.005);
    }
}

#[test]
fn a_die_with_cache_reads_is_bound_by_the_longer_of_array_and_bus() {
    for channel_mb_s in [800u32, 50] {
        let transfer_ns = (4096 * 1000u64).div_ceil(u64::from(channel_mb_s));
        let nand = format!("channel_mb_s = {channel_mb_s}");
        let plain = throughput(&nand, 600, 16);
        let cached = throughput(&format!("{nand}\ncache_read = true"), 600, 16);
        println!("{channel_mb_s} MB/s: {plain:.0} reads a second, {cached:.0} with cache reads");
        assert_near("reads", plain, 1e9 / (READ_NS + transfer_ns) as f64, 0.001);
        assert_near("cache reads", cached, 1e9 / READ_NS.max(transfer_ns) as f64, 0.001);
    }
}
