use strobe_nand::{Class, NandOp};
use strobe_workload::synthetic::SyntheticConfig;

use crate::assert_near;
use crate::drives::{PROGRAM_NS, drive};
use crate::host::{Host, Window};

/// One die of four planes behind a write buffer, at a rate that leaves it mostly idle.
fn writes(batch_pages: u32, rate: f64) -> Window {
    let config = drive(&format!(
        "[drive.nand]\nchannels = 1\ndies_per_channel = 1\nplanes_per_die = 4\nblocks_per_plane = 32\n\
         pages_per_block = 64\nchannel_mb_s = 0\nendurance_pe = 0\n[drive.ftl]\nover_provisioning = 0.5\n\
         batch_pages = {batch_pages}\n[drive.controller]\nwrite_buffer_bytes = 262_144\n"
    ));
    let mut host = Host::filled(&config, &SyntheticConfig::default());
    let mut arrivals = host.poisson(rate, 1);
    host.open(&mut arrivals, 20_000);
    host.measure(|host| host.open(&mut arrivals, 20_000))
}

#[test]
fn pages_that_are_programmed_alone_share_no_time() {
    let each = |window: &Window| {
        let held =
            [Class::HostProgram, Class::BackgroundProgram].map(|class| window.stats.occupancy.of(class));
        held.iter().sum::<u64>() as f64 / window.stats.nand.total(NandOp::Program) as f64
    };
    // The last copies of a victim may be fewer than a row.
    let rows = writes(0, 100.0);
    assert_near("time of a page of a row", each(&rows), PROGRAM_NS as f64 / 4.0, 0.06);
    let pages = writes(1, 100.0);
    // Sometimes the next page comes while the die is busy, and copies of one read step come together.
    assert!(each(&pages) > 0.6 * PROGRAM_NS as f64, "{} ns a page", each(&pages));
    let pairs = writes(2, 100.0);
    assert!(each(&pairs) < 0.55 * PROGRAM_NS as f64 && each(&pairs) > each(&rows), "{} ns", each(&pairs));
    // Pages that arrive while the die is busy are programmed together: the die carries more than page by
    // page.
    let alone = 1e9 / PROGRAM_NS as f64;
    let crowded = writes(1, 0.9 * alone);
    let programs = crowded.stats.nand.total(NandOp::Program) as f64 * 1e9 / crowded.ns as f64;
    assert_near("writes a second", crowded.writes_per_s(), 0.9 * alone, 0.02);
    assert!(programs > 1.3 * alone, "{programs} programs a second where {alone} go one by one");
}
