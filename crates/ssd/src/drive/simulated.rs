//! What only a simulation can do: copy itself, have its power cut, and answer for what it gives back.

use strobe_ftl::{Inspectable, Recoverable, Recovery, RecoveryError};
use strobe_nand::{CutPlan, Nand, PowerCuts};
use strobe_types::{Lpn, SimTime};

use super::Drive;
use super::door::Pending;
use crate::command::{Command, Range};
use crate::device::{Inspect, Simulated};
use crate::nvram::Nvram;
use crate::witness::{Verdict, Witness};

/// A cut to come.
#[derive(Clone, Debug)]
pub(super) struct PlannedCut<P> {
    operation: u64,
    /// The non-volatile cache as it was before the command at hand, which is right for a cut anywhere in
    /// that command.
    nvram: Option<Nvram<P>>,
}

impl<F> Simulated for Drive<F>
where
    F: Inspectable + Recoverable + Clone + Send + 'static,
    F::Nand: Clone,
{
    fn freeze(&self) -> Box<dyn Simulated> {
        Box::new(self.clone())
    }

    fn plan_cut(&mut self, operation: u64) {
        self.ftl.nand_mut().plan_cuts(CutPlan::At(operation));
        self.power = Some(Box::new(PlannedCut { operation, nvram: None }));
    }

    fn was_cut(&self) -> bool {
        self.has_lost_power()
    }

    fn watch(&mut self) {
        self.witness = Some(Box::new(Witness::new(self.contents())));
    }

    fn verify(&mut self) -> Option<Verdict> {
        let contents = self.contents();
        Some(self.witness.as_mut()?.compare(contents))
    }

    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Simulated>, Recovery), RecoveryError> {
        let (drive, recovery) = self.recovered(now)?;
        Ok((Box::new(drive), recovery))
    }
}

impl<F: Recoverable> Drive<F>
where
    F::Nand: Clone,
{
    /// [`Simulated::restart`] of a drive whose type is known.
    pub fn recovered(mut self, now: SimTime) -> Result<(Self, Recovery), RecoveryError> {
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
        let buffer = self.buffer.map(|buffer| buffer.emptied());
        let (units, read, pending) = (Vec::new(), Vec::new(), Pending::default());
        Ok((Self { ftl, buffer, units, read, pending, power: None, ..self }, recovery))
    }
}

impl<F: Inspectable> Drive<F> {
    /// Keeps what a power cut inside the command that now begins would go back to.
    #[inline(always)]
    pub(super) fn begin_command(&mut self) {
        if self.power.is_some() {
            self.keep_nvram();
        }
    }

    #[cold]
    fn keep_nvram(&mut self) {
        if !self.has_lost_power()
            && let Some(cut) = &mut self.power
        {
            cut.nvram.clone_from(&self.nvram);
        }
    }

    fn has_lost_power(&self) -> bool {
        self.power.as_ref().is_some_and(|cut| self.operations() >= cut.operation)
    }

    /// The content of a unit, without asking flash for it.
    fn peek(&self, lpn: Lpn) -> F::Payload {
        let cached = self.nvram.as_ref().and_then(|nvram| nvram.get(lpn));
        let cached = cached.or_else(|| self.buffer.as_ref()?.get(lpn).cloned());
        cached.unwrap_or_else(|| self.ftl.peek(lpn))
    }

    fn contents(&self) -> Vec<F::Payload> {
        (0..self.ftl.logical_units()).map(|lpn| self.peek(Lpn::new(lpn))).collect()
    }

    /// Notes what `command`, which has been executed or has failed on the way, has changed.
    #[inline(always)]
    pub(super) fn note(&mut self, command: &Command<'_>, is_done: bool) {
        if self.witness.is_some() {
            self.note_changes(command, is_done);
        }
    }

    #[cold]
    fn note_changes(&mut self, command: &Command<'_>, is_done: bool) {
        let Some(mut witness) = self.witness.take() else { return };
        // What is complete after the cut has not happened.
        let counts = is_done && !self.has_lost_power();
        match *command {
            Command::Read { .. } | Command::Flush => {}
            Command::Write { range, fua, .. } => self.note_range(&mut witness, range, fua && counts),
            Command::WriteZeroes { range, .. } => self.note_range(&mut witness, range, false),
            Command::Deallocate(ranges) => {
                for &range in ranges {
                    self.note_range(&mut witness, range, false);
                }
            }
            Command::Copy { destination, sources } => {
                let sectors: u64 = sources.iter().map(|source| u64::from(source.sectors)).sum();
                let range = Range::new(destination, u32::try_from(sectors).unwrap_or(u32::MAX));
                self.note_range(&mut witness, range, false);
            }
        }
        let makes_durable = match command {
            Command::Flush => true,
            Command::WriteZeroes { .. } | Command::Copy { .. } => !self.write_cache,
            _ => false,
        };
        if makes_durable && counts {
            witness.flushed();
        }
        self.witness = Some(witness);
    }

    fn note_range(&self, witness: &mut Witness<F::Payload>, range: Range, is_durable: bool) {
        let touched = self.geometry.units_touched(range.lba, range.sectors.into());
        for unit in touched.start..touched.end.min(self.ftl.logical_units().into()) {
            let lpn = Lpn::new(unit as u32);
            witness.holds(lpn, self.peek(lpn), is_durable);
        }
    }
}
