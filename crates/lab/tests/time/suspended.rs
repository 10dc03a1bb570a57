//! Reads on a die that is busy with back-to-back programs.

use strobe_nand::NandOp;
use strobe_types::{Lba, Op, Prng, Request};
use strobe_workload::oracle::md1_wait_ns;
use strobe_workload::synthetic::SyntheticConfig;

use crate::assert_near;
use crate::drives::drive;
use crate::host::{Host, Window};

const READ_NS: f64 = 60_000.0;
const PROGRAM_NS: f64 = 700_000.0;
const ERASE_NS: f64 = 5_000_000.0;
/// At 100 MB/s, slow enough to affect the result.
const TRANSFER_NS: f64 = 40_960.0;
const SERVICE_NS: f64 = READ_NS + TRANSFER_NS;

const UNITS: u32 = 8_000;

/// One die.
fn measure(suspend: &str, rate: f64, reads: u64) -> Window {
    let config = drive(&format!(
        "[drive.nand]\nblocks_per_plane = 64\npages_per_block = 256\nchannel_mb_s = 100\nread_ns = 60_000\n\
         program_ns = 700_000\nerase_ns = 5_000_000\nendurance_pe = 0\n{suspend}\n[drive.ftl]\nlogical_pages = {UNITS}\n\
         [drive.controller.schedule]\nhost_program_ns = 1_000_000_000\n"
    ));
    let mut host = Host::filled(&config, &SyntheticConfig::default());
    let (mut arrivals, mut prng, mut written) = (host.poisson(rate, 1), Prng::new(2), 0);
    let request = |op, unit: u32| Request::new(op, Lba::new(u64::from(unit) * 8), 8);
    let window = host.measure(|host| {
        for _ in 0..reads {
            let arrival = arrivals.next().expect("endless arrivals");
            arrivals.advance();
            loop {
                // One write is being programmed and one waits.
                while written < host.writes.count + 2 {
                    // The first half in order needs no copies.
                    host.submit(request(Op::Write, (written % u64::from(UNITS / 2)) as u32));
                    written += 1;
                }
                match host.drive.next_event().filter(|&next| next < arrival) {
                    Some(next) => host.advance(next),
                    None => break,
                };
            }
            host.advance(arrival);
            // The other half is never in flight. Reads have priority over all other operations.
            host.submit(request(Op::Read, UNITS / 2 + prng.below(UNITS / 2)));
        }
    });
    assert!(window.busy() > 0.999, "the die always has something to do: {}", window.busy());
    assert_eq!(window.stats.gc.units_moved, 0, "nothing is copied");
    window
}

fn works(window: &Window) -> [(f64, f64); 2] {
    let count = |op| window.stats.nand.total(op) as f64;
    [(count(NandOp::Program), TRANSFER_NS + PROGRAM_NS), (count(NandOp::Erase), ERASE_NS)]
}

fn print(what: &str, window: &Window, expected: f64) {
    let found = window.reads.mean_ns();
    println!(
        "{what}: mean read {found:.0} ns, on paper {expected:.0} ({:+.2} %)",
        (found / expected - 1.0) * 100.0
    );
}

/// Programs and erases are vacations of a server of reads: a read waits as in an M/D/1 queue, plus on average
/// ΣV²/2ΣV, at any rate.
#[test]
fn a_read_waits_for_what_is_left_of_a_program() {
    for (rho, reads) in [(0.05, 60_000), (0.3, 200_000), (0.6, 400_000)] {
        let window = measure("", rho * 1e9 / SERVICE_NS, reads);
        let works = works(&window);
        let square: f64 = works.iter().map(|(count, ns)| count * ns * ns).sum();
        let length: f64 = works.iter().map(|(count, ns)| count * ns).sum();
        let expected = md1_wait_ns(rho, SERVICE_NS).expect("a share") + square / (2.0 * length) + SERVICE_NS;
        print(&format!("without suspend, at {rho}"), &window, expected);
        assert_near(&format!("mean read at {rho}"), window.reads.mean_ns(), expected, 0.01);
    }
}

/// The rate is so low that one read in 300 meets another.
#[test]
fn a_read_waits_for_the_suspend_of_a_program_or_for_its_end() {
    for (suspend_ns, resume_ns, least_left_ns) in [
        (5_000.0, 5_000.0, 20_000.0),
        (30_000.0, 10_000.0, 100_000.0),
        (5_000.0, 5_000.0, 400_000.0),
        (0.0, 0.0, 0.0),
    ] {
        let table = format!(
            "[drive.nand.suspend]\nmost = 1_000_000\nsuspend_ns = {suspend_ns}\nresume_ns = {resume_ns}\n\
             least_left_ns = {least_left_ns}"
        );
        let rate = 1e9 / (50.0 * PROGRAM_NS);
        let window = measure(&table, rate, 20_000);
        let works = works(&window);
        // All moments are equally likely. While the array works, a read waits for the suspend, or for the
        // rest if that is at most `least_left_ns`.
        let array = |ns: f64| (ns - least_left_ns) * suspend_ns + least_left_ns * least_left_ns / 2.0;
        let [(programs, _), (erases, _)] = works;
        // During the page's transfer a read waits for its rest and for the suspend.
        let waits = programs * (TRANSFER_NS * (TRANSFER_NS / 2.0 + suspend_ns) + array(PROGRAM_NS))
            + erases * array(ERASE_NS);
        let length: f64 = works.iter().map(|(count, ns)| count * ns).sum();
        let expected = waits / length + SERVICE_NS;
        print(&format!("suspend {suspend_ns}, least left {least_left_ns}"), &window, expected);
        assert_near("mean read", window.reads.mean_ns(), expected, 0.01);
        let share = window.stats.occupancy.suspends as f64 / window.reads.count as f64;
        let is_left = (programs * (TRANSFER_NS + PROGRAM_NS - least_left_ns)
            + erases * (ERASE_NS - least_left_ns))
            / length;
        assert_near("reads that suspend", share, is_left, 0.01);
    }
}
