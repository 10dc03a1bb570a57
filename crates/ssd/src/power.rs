//! Power cuts and what comes after them.

use strobe_ftl::{MappingScheme, Recoverable, Recovery, RecoveryError};
use strobe_nand::{CutPlan, Nand, PowerCuts};
use strobe_types::SimTime;

use crate::drive::Drive;
use crate::nvram::Nvram;

/// A cut to come.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCut<P> {
    operation: u64,
    /// The non-volatile cache as it was before the command at hand, which is right for a cut anywhere in
    /// that command.
    nvram: Option<Nvram<P>>,
}

impl<F: MappingScheme> Drive<F> {
    /// Whether the cut planned last has happened, in the last command or before.
    pub fn was_cut(&self) -> bool {
        self.power.as_ref().is_some_and(|cut| self.ftl.nand().counts().changes() >= cut.operation)
    }

    #[inline(always)]
    pub(crate) fn begin_command(&mut self) {
        if self.power.is_some() {
            self.keep_nvram();
        }
    }

    #[cold]
    fn keep_nvram(&mut self) {
        if !self.was_cut()
            && let Some(cut) = &mut self.power
        {
            cut.nvram.clone_from(&self.nvram);
        }
    }
}

impl<F: Recoverable> Drive<F>
where
    F::Nand: Clone,
{
    /// Cuts power during flash operation `operation`, counted as [`strobe_nand::OpCounts::changes`] does:
    /// the page it programs, or the block it erases, is left half done. The drive itself runs on, as a
    /// simulation can; [`Drive::was_cut`] tells after each command whether it should have, and
    /// [`Drive::restart`] then goes back to that moment. Replaces an earlier plan.
    pub fn plan_cut(&mut self, operation: u64) {
        self.ftl.nand_mut().plan_cuts(CutPlan::At(operation));
        self.power = Some(Box::new(PlannedCut { operation, nvram: None }));
    }

    /// The drive when power is back at `now`, after the cut that was planned or, if there was none, one at
    /// this moment: write buffer and map are lost, the map is found again on flash, the non-volatile cache
    /// is as it was. Statistics go on; those of flash fall back to what had been done when power failed.
    pub fn restart(mut self, now: SimTime) -> Result<(Self, Recovery), RecoveryError> {
        let flash = match self.ftl.nand_mut().take_snapshots().pop() {
            Some(snapshot) => {
                self.nvram = self.power.take().and_then(|cut| cut.nvram);
                snapshot.flash
            }
            None => {
                let mut flash = self.ftl.nand().clone();
                flash.plan_cuts(CutPlan::Never);
                flash
            }
        };
        let now = now.max(flash.idle_at());
        let (ftl, recovery) = self.ftl.recover(now, flash)?;
        self.units.clear();
        self.read.clear();
        let buffer = self.buffer.map(|buffer| buffer.emptied());
        Ok((Self { ftl, buffer, power: None, ..self }, recovery))
    }
}
