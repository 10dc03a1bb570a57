//! Figure 3: writes per page of each data set, and blocks without writes.

use serde::{Deserialize, Serialize};

use strobe_lab::{Experiment, RunError, WorkloadConfig};
use strobe_types::SECTOR_BYTES;
use strobe_workload::synthetic::Workload;

const BATCH: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Census {
    /// Share of pages written more often than the average page.
    pub(super) hot_share: f64,
    /// Share of blocks, in the layout of the initial fill, without a written page.
    pub(super) cold_blocks: f64,
}

pub(super) fn count(experiment: &Experiment, draws: u64) -> Result<Census, RunError> {
    let WorkloadConfig::Synthetic(workload) = &experiment.workload else { return Ok(Census::default()) };
    let drive = &experiment.drive;
    let mut generator = workload.generator.build(drive.logical_bytes(), experiment.seed)?;
    let sectors = u64::from(drive.ftl.mapping_unit_bytes) / SECTOR_BYTES;
    let mut touched = vec![0u64; drive.logical_units() as usize];
    let mut batch = Vec::with_capacity(BATCH);
    let batches = draws / BATCH as u64;
    for _ in 0..batches {
        generator.fill(&mut batch, BATCH);
        for request in &batch {
            touched[(request.lba.get() / sectors) as usize] += 1;
        }
    }
    let pages = touched.len() as u64;
    let draws = batches * BATCH as u64;
    let hot = touched.iter().filter(|&&count| count * pages > draws).count();
    // The initial fill places consecutive pages in the same block.
    let blocks = touched.chunks_exact(drive.nand.pages_per_block as usize);
    let (all, cold) = (blocks.len(), blocks.filter(|block| block.iter().all(|&count| count == 0)).count());
    Ok(Census { hot_share: hot as f64 / pages as f64, cold_blocks: cold as f64 / all.max(1) as f64 })
}
