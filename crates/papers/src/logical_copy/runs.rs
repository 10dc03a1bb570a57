use strobe_nand::Cause;

use strobe_workload::lfs::Trims;

use super::measure::{Measured, Window};
use super::{Mode, PRESET, Phase, READ_WRITE, Setup};

pub(super) struct Runs<'a>(Vec<(Setup, &'a Measured)>);

impl<'a> Runs<'a> {
    pub(super) fn new(runs: Vec<(Setup, &'a Measured)>) -> Self {
        Self(runs)
    }

    pub(super) fn of(&self, setup: Setup) -> Option<&'a Measured> {
        self.0.iter().find(|(of, _)| *of == setup).map(|(_, measured)| *measured)
    }

    pub(super) fn windows(&self, phase: Phase) -> impl Iterator<Item = &'a Window> {
        self.0
            .iter()
            .filter(move |(setup, _)| setup.phase == phase)
            .flat_map(|(_, measured)| &measured.windows)
    }

    pub(super) fn first(&self, setup: Setup) -> Option<&'a Window> {
        self.of(setup)?.windows.first()
    }

    /// Excess programs of logical copy over read and write, in percent.
    pub(super) fn programs(&self, setup: Setup) -> Option<f64> {
        let [copied, written] = self.both(setup)?;
        Some(100.0 * (copied.all_programs() / written.all_programs() - 1.0))
    }

    /// Speed of logical copy as a multiple of read and write.
    pub(super) fn speed(&self, setup: Setup) -> Option<f64> {
        let [copied, written] = self.both(setup)?;
        Some(written.us() / copied.us())
    }

    pub(super) fn speed_over(&self, setup: Setup, over: Mode) -> Option<f64> {
        Some(self.first(Setup { mode: over, ..setup })?.us() / self.first(setup)?.us())
    }

    /// In percent.
    pub(super) fn programs_over(&self, setup: Setup, over: Mode) -> Option<f64> {
        let (ours, theirs) = (self.first(setup)?, self.first(Setup { mode: over, ..setup })?);
        Some(100.0 * (ours.all_programs() / theirs.all_programs() - 1.0))
    }

    /// Map and journal in percent of the host's writes.
    pub(super) fn map_share(&self, setup: Setup) -> Option<f64> {
        let window = self.first(setup)?;
        let map =
            [Cause::Map, Cause::Meta, Cause::P2l].map(|cause| window.programs(cause)).iter().sum::<f64>();
        Some(100.0 * map / window.programs(Cause::Host))
    }

    fn both(&self, setup: Setup) -> Option<[&'a Window; 2]> {
        // Read and write leaves whole blocks dead, so the drive moves no data at any spare size, and one size
        // is run. This requires trims of all dead blocks.
        let spare = if setup.trims == Trims::EveryBlock { PRESET } else { setup.spare };
        Some([self.first(setup)?, self.first(Setup { mode: READ_WRITE, spare, ..setup })?])
    }
}
