//! Below saturation the drive keeps up, and collection keeps free space between its watermarks.
//!
//! Writes arrive as a Poisson process at a share of the saturated rate, with unlimited queue depth.

use crate::assert_near;
use crate::drives::{Drive, ERASE_NS, PLAIN, PROGRAM_NS, READ_NS};

/// One erased block per plane for copies, and two more.
fn least_blocks(drive: &Drive) -> u32 {
    drive.dies() * drive.planes + 2
}

fn whole_victim_ns(drive: &Drive, copies: f64) -> f64 {
    let copy_ns = READ_NS + PROGRAM_NS + 2 * drive.transfer_ns(1);
    copies * copy_ns as f64 + ERASE_NS as f64
}

fn assert_paced(drive: &Drive, loads: &[f64], warm_up: u64, window: u64) {
    let saturated = drive.saturated(4, 2).writes_per_s();
    for &load in loads {
        let mut host = drive.warmed_up(3);
        host.rest();
        host.watch_room();
        let units = u64::from(host.drive.logical_units());
        let mut arrivals = host.poisson(load * saturated, 7);
        host.open(&mut arrivals, warm_up * units);
        let offered = window * units;
        let window = host.measure(|host| host.open(&mut arrivals, offered));
        let copies = window.stats.gc.units_moved as f64 / window.stats.gc.victims as f64;
        let whole = whole_victim_ns(drive, copies);
        println!(
            "{} at {load:.2} of {saturated:.0}/s: busy {:.3}  WAF {:.3}  done {:.4}  free {}..{} (mean {:.2})  room {:.2}..{:.2}  write mean {:.2} ms, at most {:.2} ms, a victim {:.1} ms",
            drive.name(),
            window.busy(),
            window.waf(drive.units_per_page()),
            window.writes.count as f64 / offered as f64,
            window.free.least,
            window.free.most,
            window.free_mean,
            window.free_space.least,
            window.free_space.most,
            window.writes.mean_ns() / 1e6,
            window.writes.max_ns as f64 / 1e6,
            whole / 1e6,
        );
        // A few dozen of tens of thousands are outstanding at either end.
        assert_near("writes done of those offered", window.writes.count as f64, offered as f64, 0.01);
        let (least, high) = (least_blocks(drive), drive.high_watermark_blocks);
        assert!(
            window.free_space.least >= f64::from(least),
            "room for {} blocks, {least} at least",
            window.free_space.least
        );
        // Each victim chosen below the watermark gains at most one block.
        let most = high + drive.dies();
        assert!(
            window.free_space.most <= f64::from(most),
            "room for {} blocks, {most} at most",
            window.free_space.most
        );
        assert!((window.writes.max_ns as f64) < whole, "a write has waited for a whole victim");
    }
}

const PACED: Drive = Drive { low_watermark_blocks: 13, high_watermark_blocks: 17, ..PLAIN };

#[test]
fn a_drive_that_is_not_saturated_keeps_up_and_keeps_its_room() {
    assert_paced(&PACED, &[0.2, 0.5, 0.8, 0.95], 1, 2);
}

#[test]
#[ignore = "a table: make test-long"]
fn table_of_paced_drives() {
    let loads = [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95];
    assert_paced(&Drive { blocks_per_plane: 128, ..PACED }, &loads, 2, 6);
    assert_paced(
        &Drive { channels: 16, low_watermark_blocks: 46, high_watermark_blocks: 56, ..PACED },
        &loads,
        2,
        4,
    );
    assert_paced(&Drive { buffer_stripes: 16, ..PACED }, &loads, 2, 6);
}
