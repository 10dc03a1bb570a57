//! Work conservation: no die is idle while it has work.
//!
//! Saturated random writes give every die work: host writes while space is free, collection otherwise. Dies
//! may still be idle because erased blocks are on other dies, because all work is queued on a few dies, or
//! because a throttled host waits for work that does not fill the dies.

use crate::drives::{Drive, PLAIN};
use crate::host::Window;

fn print(drive: &Drive, window: &Window) {
    let share = |ns: u64| ns as f64 / (window.ns as f64 * f64::from(window.dies));
    let [_, host, reads, copies, erases] = window.stats.occupancy.held_ns.map(share);
    println!(
        "{:<58} busy {:.3}  {:>6.0} writes/s  WAF {:.3}  host {host:.3} reads {reads:.3} copies {copies:.3} \
         erases {erases:.3}  free {}..{}",
        drive.name(),
        window.busy(),
        window.writes_per_s(),
        window.waf(drive.units_per_page()),
        window.free.least,
        window.free.most,
    );
}

#[track_caller]
fn assert_busy(drives: &[Drive], least: f64) {
    for drive in drives {
        let window = drive.saturated(3, 2);
        print(drive, &window);
        assert!(window.busy() >= least, "{}: dies are busy for {:.3}", drive.name(), window.busy());
    }
}

const PLANES: Drive = Drive { planes: 4, page_bytes: 16384, buffer_stripes: 8, depth_per_die: 64, ..PLAIN };

#[test]
fn saturated_dies_are_busy() {
    let shape = |channels, dies_per_channel| Drive { channels, dies_per_channel, ..PLAIN };
    // All reach 0.98 or more; the requirement is 0.90. The rest is a margin for other rules.
    assert_busy(&[shape(1, 1), shape(4, 1), shape(1, 4), shape(16, 1)], 0.95);
}

#[test]
fn dies_are_idle_while_the_world_stops() {
    let drive = Drive { mode: "stop-the-world", ..PLAIN };
    let window = drive.saturated(3, 2);
    print(&drive, &window);
    assert!((0.5..0.7).contains(&window.busy()), "dies are busy for {:.3}", window.busy());
}

/// Stripes fill blocks on all planes at once and need many erased blocks: this drive once ran out of them. It
/// reaches 0.82: a stripe waits for the next die in turn unless that has no free block.
#[test]
fn saturated_dies_that_take_turns_are_less_busy() {
    let drive = Drive { channels: 4, dies_per_channel: 4, die_allocation: "stripe", ..PLAIN };
    let window = drive.saturated(4, 4);
    print(&drive, &window);
    assert!(window.busy() >= 0.75, "dies are busy for {:.3}", window.busy());
}

#[test]
fn saturated_dies_behind_a_write_buffer_are_busy() {
    let buffered = Drive { buffer_stripes: 16, ..PLAIN };
    let planes = Drive { channels: 2, dies_per_channel: 2, ..PLANES };
    assert_busy(&[buffered, planes], 0.95);
}

/// Policies that cannot find the best block of a plane choose among all blocks.
#[test]
#[ignore = "a table: make test-long"]
fn table_of_saturated_dies_by_victim_policy() {
    for channels in [4, 16] {
        for victim in ["greedy", "cost-benefit", "cat", "fifo", "random", "d-choices"] {
            let drive = Drive { channels, victim, ..PLAIN };
            print(&drive, &drive.saturated(4, 4));
        }
    }
}

#[test]
#[ignore = "a table: make test-long"]
fn table_of_saturated_dies() {
    for mode in ["background", "stop-the-world"] {
        for die_allocation in ["free-first", "stripe"] {
            for buffer_stripes in [0, 4, 16] {
                for (channels, dies_per_channel) in [(1, 1), (4, 1), (1, 4), (4, 4), (16, 1)] {
                    let shape =
                        Drive { channels, dies_per_channel, mode, die_allocation, buffer_stripes, ..PLAIN };
                    print(&shape, &shape.saturated(4, 4));
                }
                if buffer_stripes > 0 {
                    for (channels, dies_per_channel, planes) in [(2, 2, 4), (4, 2, 2), (4, 4, 4)] {
                        let shape = Drive {
                            channels,
                            dies_per_channel,
                            mode,
                            die_allocation,
                            buffer_stripes,
                            planes,
                            ..PLANES
                        };
                        print(&shape, &shape.saturated(4, 4));
                    }
                }
            }
        }
    }
}
