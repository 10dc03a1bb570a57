use strobe_nand::Class;
use strobe_types::{Lba, Op, Request};
use strobe_workload::synthetic::SyntheticConfig;

use crate::assert_near;
use crate::drives::drive;
use crate::host::Host;

const READ_NS: [f64; 3] = [40_000.0, 60_000.0, 95_000.0];
const PROGRAM_NS: [f64; 3] = [300_000.0, 900_000.0, 2_100_000.0];
const TRANSFER_NS: f64 = 40_960.0;
const UNITS: u32 = 12_000;

fn typed(write_fraction: f64) -> Host {
    let config = drive(&format!(
        "[drive.nand]\nblocks_per_plane = 64\npages_per_block = 255\nchannel_mb_s = 100\n\
         read_ns = [40_000, 60_000, 95_000]\nprogram_ns = [300_000, 900_000, 2_100_000]\nerase_ns = 5_000_000\n\
         endurance_pe = 0\n[drive.ftl]\nlogical_pages = {UNITS}\n"
    ));
    Host::filled(&config, &SyntheticConfig { write_fraction, ..SyntheticConfig::default() })
}

/// M/G/1: the mean wait is ρ·E[S²]/2E[S]/(1 − ρ) (Pollaczek and Khinchine), followed by the service.
#[test]
fn reads_of_several_page_types_wait_as_pollaczek_and_khinchine_say() {
    let services = READ_NS.map(|ns| ns + TRANSFER_NS);
    let mean = services.iter().sum::<f64>() / 3.0;
    let square = services.iter().map(|ns| ns * ns).sum::<f64>() / 3.0;
    for (rho, reads) in [(0.3, 300_000), (0.7, 600_000)] {
        let mut host = typed(0.0);
        let mut arrivals = host.poisson(rho * 1e9 / mean, 1);
        let window = host.measure(|host| host.open(&mut arrivals, reads));
        let expected = rho * square / (2.0 * mean) / (1.0 - rho) + mean;
        println!("ρ {rho}: mean read {:.0} ns, on paper {expected:.0}", window.reads.mean_ns());
        assert_near("mean read", window.reads.mean_ns(), expected, 0.01);
        assert_near("share of busy time", window.busy(), rho, 0.01);
    }
}

#[test]
fn programs_take_the_times_of_their_types() {
    let mut host = typed(1.0);
    let pages: u32 = 255 * 16;
    let window = host.measure(|host| {
        for unit in 0..pages {
            host.submit(Request::new(Op::Write, Lba::new(u64::from(unit) * 8), 8));
        }
        host.rest();
    });
    assert_eq!(window.stats.gc.units_moved, 0, "nothing is copied");
    let mean = PROGRAM_NS.iter().sum::<f64>() / 3.0 + TRANSFER_NS;
    assert_eq!(window.stats.occupancy.of(Class::HostProgram) as f64, f64::from(pages) * mean);
}
