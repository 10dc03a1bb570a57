mod distributions;
mod errors;
mod sizes;
mod streams;

use super::*;
use strobe_types::{Op, SECTOR_BYTES};

fn drive(slots: u64) -> u64 {
    slots * 4096
}

fn config(kind: Kind) -> SyntheticConfig {
    SyntheticConfig { kind, ..SyntheticConfig::default() }
}

fn requests(config: &SyntheticConfig, drive_bytes: u64, seed: u64, count: usize) -> Vec<Request> {
    let mut workload = config.build(drive_bytes, seed).expect("a valid configuration");
    let mut all = Vec::with_capacity(count);
    let mut batch = Vec::new();
    let mut size = 1;
    while all.len() < count {
        workload.fill(&mut batch, size.min(count - all.len()));
        all.extend_from_slice(&batch);
        size = size * 3 % 257 + 1;
    }
    all
}

fn histogram(config: &SyntheticConfig, slots: u64, count: usize) -> Vec<u64> {
    let mut counts = vec![0; slots as usize];
    for request in requests(config, drive(slots), 1, count) {
        counts[(request.lba.get() * SECTOR_BYTES / 4096) as usize] += 1;
    }
    counts
}
