//! Reads of collection, issued a few per step, and host reads among them.

use strobe_workload::synthetic::SyntheticConfig;

use crate::drives::drive;
use crate::host::Host;

const READ_NS: u64 = 50_000;
const TRANSFER_NS: u64 = 1_000;

/// Negligible program and erase times, FIFO order, one victim in progress.
fn collecting(read_pages: u32) -> Host {
    let config = drive(&format!(
        "[drive.nand]\nblocks_per_plane = 64\npages_per_block = 64\nchannel_mb_s = 4096\nread_ns = {READ_NS}\n\
         program_ns = 1\nerase_ns = 1\nendurance_pe = 0\n[drive.ftl]\nlogical_pages = 3300\n[drive.ftl.gc]\nvictims = 1\n\
         read_pages = {read_pages}\n[drive.controller.schedule]\nhost_program_ns = 0\nbackground_read_ns = 0\n\
         background_program_ns = 0\nerase_ns = 0\n"
    ));
    Host::filled(&config, &SyntheticConfig { write_fraction: 0.9, ..SyntheticConfig::default() })
}

/// With equal deadlines, a host read waits for `read_pages` reads, and sometimes another host read.
#[test]
fn a_read_waits_for_one_step_of_collection() {
    let mut before = 0;
    for read_pages in [1, 2, 4, 8] {
        let mut host = collecting(read_pages);
        let mut arrivals = host.poisson(300.0, 1);
        let window = host.measure(|host| host.open(&mut arrivals, 60_000));
        assert!(window.stats.gc.units_moved > 60_000, "it collects");
        let longest = window.reads.max_ns;
        println!("{read_pages} pages: the longest read takes {longest} ns");
        let one = READ_NS + TRANSFER_NS;
        // The transfer of a program may delay it, too.
        let most = u64::from(read_pages + 3) * one;
        assert!(
            longest <= most && longest > before,
            "{read_pages} pages: {longest}, at most {most}, before {before}"
        );
        assert!(longest >= u64::from(read_pages) * one, "{read_pages} pages: {longest}");
        before = longest;
    }
}
