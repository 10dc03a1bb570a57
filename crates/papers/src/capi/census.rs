//! Figure 3: how often the data sets touch each page.

use strobe_lab::{Experiment, RunError, WorkloadConfig};
use strobe_types::SECTOR_BYTES;
use strobe_workload::synthetic::Workload;

const BATCH: usize = 4096;

/// The share of the logical pages that the workload of `experiment` touches more often than the
/// average page, counted over many draws.
pub(super) fn hot_share(experiment: &Experiment, draws: u64) -> Result<f64, RunError> {
    let WorkloadConfig::Synthetic(workload) = &experiment.workload else { return Ok(f64::NAN) };
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
    Ok(hot as f64 / pages as f64)
}
