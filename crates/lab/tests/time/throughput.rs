//! Throughput is the bandwidth of programs divided by write amplification.
//!
//! Each flash operation holds its die for a known time, so the counters give the total time. With one plane
//! per die and a bus for each die nothing is shared, and no operation waits while it holds a die. A program
//! holds it for its transfer and tPROG, a read for tR and the transfer of its units, an erase for tBERS.

use strobe_nand::NandOp;

use crate::assert_near;
use crate::drives::{Drive, ERASE_NS, PLAIN, PROGRAM_NS, READ_NS};
use crate::host::Window;

const SPARES: [f64; 5] = [0.10, 0.18, 0.28, 0.40, 0.60];

fn counted_ns(drive: &Drive, window: &Window) -> u64 {
    let total = |op| window.stats.nand.total(op);
    let units_read = total(NandOp::Read);
    total(NandOp::Program) * (PROGRAM_NS + drive.transfer_ns(drive.units_per_page()))
        + units_read * (READ_NS + drive.transfer_ns(1))
        + total(NandOp::Erase) * ERASE_NS
}

struct Row {
    programs_per_s: f64,
    waf: f64,
}

/// Operations outstanding at both ends of the window, a few dozen of tens of thousands, make 1 % at most.
fn measure(drive: &Drive, window: &Window) -> Row {
    let host_writes = window.stats.host.units_written as f64;
    let per_write_ns = counted_ns(drive, window) as f64 / host_writes;
    let expected = f64::from(window.dies) * window.busy() * 1e9 / per_write_ns;
    let programs_per_s = window.stats.nand.total(NandOp::Program) as f64 * 1e9 / window.ns as f64;
    let waf = window.waf(drive.units_per_page());
    println!(
        "{:<50} spare {:.2}  WAF {waf:>6.3}  busy {:.3}  {:>7.1} writes/s, from counts {expected:>7.1} ({:+.3} %)  {programs_per_s:>7.1} programs/s",
        drive.name(),
        drive.over_provisioning,
        window.busy(),
        window.writes_per_s(),
        (window.writes_per_s() / expected - 1.0) * 100.0,
    );
    assert_near(&format!("writes/s of {}", drive.name()), window.writes_per_s(), expected, 0.02);
    Row { programs_per_s, waf }
}

/// Programs per second must not depend on the fill level, except for reads and erases.
fn assert_bandwidth(of: impl Fn(f64) -> Drive, spares: &[f64], warm_up: u64, window: u64) {
    let rows: Vec<Row> = spares
        .iter()
        .map(|&spare| {
            let drive = of(spare);
            measure(&drive, &drive.saturated(warm_up, window))
        })
        .collect();
    let programs = rows.iter().map(|row| row.programs_per_s);
    let (least, most) = (programs.clone().fold(f64::MAX, f64::min), programs.fold(0.0, f64::max));
    println!("programs a second: {least:.0} to {most:.0}, {:.1} % apart", (most / least - 1.0) * 100.0);
    // Less than 10 % from no copies to only copies: tR + transfer take a tenth of a program, an erase a ninth
    // of a program per page.
    assert!(most / least < 1.15, "programs a second depend on the fill: {least} to {most}");
    // The range is real: writes per second differ by a multiple.
    assert!(rows[0].waf > 2.0 * rows[rows.len() - 1].waf);
}

#[test]
fn throughput_is_program_bandwidth_over_write_amplification() {
    assert_bandwidth(|over_provisioning| Drive { over_provisioning, ..PLAIN }, &[0.10, 0.28, 0.60], 4, 3);
}

#[test]
#[ignore = "a table: make test-long"]
fn table_of_throughput_over_fill() {
    for channels in [1, 4, 16] {
        let of = |over_provisioning| Drive { channels, blocks_per_plane: 128, over_provisioning, ..PLAIN };
        assert_bandwidth(of, &SPARES, 8, 8);
    }
    let buffered = |over_provisioning| Drive { buffer_stripes: 16, over_provisioning, ..PLAIN };
    assert_bandwidth(buffered, &SPARES, 8, 8);
}
