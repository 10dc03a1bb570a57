use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::FtlError;
use strobe_nand::NandOp;
use strobe_ssd::Simulated;

use crate::Experiment;

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// `run.measure` was reached.
    Measure,
    /// The trace ended, after `workload.repeat` repetitions.
    Trace,
    /// `run.until_bad_blocks` blocks had gone bad.
    BadBlocks,
    /// The drive refused writes because too many blocks had gone bad.
    EndOfLife,
    /// The drive refused writes because its victim policy freed no space.
    NoProgress,
    /// The observer of the run stopped it.
    Interrupted,
}

impl EndedBy {
    pub(crate) fn refusal(error: &FtlError) -> Self {
        match error {
            FtlError::NoProgress { .. } => EndedBy::NoProgress,
            FtlError::Interrupted => EndedBy::Interrupted,
            _ => EndedBy::EndOfLife,
        }
    }
}

/// A point of the curve of bad blocks over host pages written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BadBlockPoint {
    /// Blocks that had gone bad in use, including the block of this point.
    pub bad_blocks: u32,
    /// Host pages (mapping units) written before this block went bad, since the drive was new or its image
    /// was opened.
    pub host_pages: u64,
}

const CURVE_POINTS_MAX: usize = 256;

/// Returns the curve. A long one is thinned evenly and keeps both ends.
pub(crate) fn curve(host_pages: &[u64]) -> Vec<BadBlockPoint> {
    let point = |at: usize| BadBlockPoint { bad_blocks: at as u32 + 1, host_pages: host_pages[at] };
    match host_pages.len() {
        n if n <= CURVE_POINTS_MAX => (0..n).map(point).collect(),
        n => (0..CURVE_POINTS_MAX).map(|at| point(at * (n - 1) / (CURVE_POINTS_MAX - 1))).collect(),
    }
}

/// Counts bad blocks, but only if a block may have gone bad since the last count: counting visits every
/// block.
#[derive(Debug)]
pub(crate) struct BadBlockWatch {
    wanted: u32,
    factory_bad: u32,
    endurance: u32,
    /// As of the last count: total erases that wear out no block, and program failures. `None` before the
    /// first count.
    seen: Option<(u64, u64)>,
}

impl BadBlockWatch {
    pub(crate) fn new(experiment: &Experiment) -> Option<Self> {
        let nand = &experiment.drive.nand;
        experiment.run.until_bad_blocks.map(|wanted| Self {
            wanted,
            factory_bad: nand.factory_bad_blocks,
            endurance: nand.endurance_pe,
            seen: None,
        })
    }

    pub(crate) fn check(&mut self, drive: &dyn Simulated) -> bool {
        let stats = drive.stats();
        let erases = stats.nand.total(NandOp::Erase);
        let failures = stats.gc.program_failures;
        if let Some((erases_due, failures_seen)) = self.seen {
            let may_be_worn = self.endurance > 0 && erases > erases_due;
            if !may_be_worn && failures == failures_seen {
                return false;
            }
        }
        let wear = drive.wear();
        // Even the most worn block survives `endurance` − `erase_max` further erases.
        let erases_due = erases + u64::from(self.endurance.saturating_sub(wear.erase_max));
        self.seen = Some((erases_due, failures));
        wear.bad_blocks.saturating_sub(self.factory_bad) >= self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::curve;

    #[test]
    fn a_curve_is_thinned_evenly_and_keeps_its_ends() {
        assert!(curve(&[]).is_empty());
        let short: Vec<u64> = (10..266).collect();
        assert_eq!(curve(&short).iter().map(|p| p.host_pages).collect::<Vec<_>>(), short);
        let long: Vec<u64> = (0..10_000).map(|n| n * n).collect();
        let thin = curve(&long);
        assert_eq!(thin.len(), 256);
        assert_eq!((thin[0].bad_blocks, thin[0].host_pages), (1, 0));
        assert_eq!((thin[255].bad_blocks, thin[255].host_pages), (10_000, 9_999 * 9_999));
        let steps = thin.windows(2).map(|pair| pair[1].bad_blocks - pair[0].bad_blocks);
        assert!(steps.into_iter().all(|step| (39..=40).contains(&step)));
    }
}
