//! What only a simulation can do: copy itself, have its power cut, and answer for what it gives back.

use strobe_ftl::{Inspectable, Recoverable, Recovery, RecoveryError};
use strobe_nand::{CutPlan, Nand, PowerCuts, Timing};
use strobe_types::{Lpn, SimTime};

use super::Drive;
use super::events::Events;
use super::flight::Flights;
use crate::command::{Command, Range};
use crate::device::{Inspect, Simulated};
use crate::nvram::Nvram;
use crate::witness::{Verdict, Witness};

/// A cut to come.
#[derive(Clone, Debug)]
pub(super) struct PlannedCut<P> {
    operation: u64,
    /// The non-volatile cache as the cut leaves it. Where operations take no time: as it was before the command at
    /// hand, which is right for a cut anywhere in that command.
    nvram: Option<Nvram<P>>,
    /// Whether it has happened, where operations take time.
    is_past: bool,
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
        self.power = Some(Box::new(PlannedCut { operation, nvram: None, is_past: false }));
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
                self.nvram = self.nvram.as_ref().map(Nvram::after_cut);
                flash
            }
        };
        let mut flash = flash;
        let now = now.max(flash.drain()).max(flash.timing().now());
        let (ftl, recovery) = self.ftl.recover(now, flash)?;
        let buffer = self.buffer.map(|buffer| buffer.emptied());
        let (units, read, flights) = (Vec::new(), Vec::new(), Flights::default());
        let events = Events::at_rest(recovery.finished);
        let controller = self.controller.at_rest();
        Ok((Self { ftl, buffer, units, read, flights, events, controller, power: None, ..self }, recovery))
    }
}

impl<F: Inspectable> Drive<F> {
    /// Keeps what a power cut inside the command that now begins would go back to.
    #[inline(always)]
    pub(super) fn begin_command(&mut self) {
        if self.power.is_some() && !self.is_timed() {
            self.keep_nvram();
        }
    }

    #[cold]
    fn keep_nvram(&mut self) {
        if !self.has_lost_power()
            && let Some(cut) = &mut self.power
        {
            cut.nvram = self.nvram.as_ref().map(Nvram::after_cut);
        }
    }

    /// Keeps what the planned cut leaves, if it has just happened.
    #[cold]
    pub(super) fn keep_nvram_of_cut(&mut self) {
        if self.is_timed()
            && self.ftl.nand().was_cut()
            && let Some(cut) = &mut self.power
            && !cut.is_past
        {
            cut.is_past = true;
            cut.nvram = self.nvram.as_ref().map(Nvram::after_cut);
        }
    }

    fn has_lost_power(&self) -> bool {
        let is_timed = self.is_timed();
        self.power.as_ref().is_some_and(|cut| match is_timed {
            true => cut.is_past,
            false => self.operations() >= cut.operation,
        })
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

    /// Notes what `command`, of which something has been done or which has failed on the way, has changed.
    #[inline(always)]
    pub(super) fn note(&mut self, command: &Command<'_>) {
        if self.witness.is_some() {
            self.note_changes(command);
        }
    }

    #[cold]
    fn note_changes(&mut self, command: &Command<'_>) {
        let Some(mut witness) = self.witness.take() else { return };
        match *command {
            Command::Read { .. } | Command::Flush => {}
            Command::Write { range, .. } | Command::WriteZeroes { range, .. } => {
                self.note_range(&mut witness, range)
            }
            Command::Deallocate(ranges) => {
                for &range in ranges {
                    self.note_range(&mut witness, range);
                }
            }
            Command::Copy { destination, sources } => {
                let sectors: u64 = sources.iter().map(|source| u64::from(source.sectors)).sum();
                let range = Range::new(destination, u32::try_from(sectors).unwrap_or(u32::MAX));
                self.note_range(&mut witness, range);
            }
        }
        self.witness = Some(witness);
    }

    /// Changes noted so far.
    pub(super) fn seen(&self) -> u64 {
        self.witness.as_ref().map_or(0, |witness| witness.seen())
    }

    /// The command in `slot` is complete on flash: what it promises is durable from now on. What is complete after a
    /// cut has not happened.
    #[cold]
    pub(super) fn note_done(&mut self, slot: u32) {
        if self.has_lost_power() {
            return;
        }
        let (write_cache, flight) = (self.write_cache, self.flights.get(slot));
        let seen = flight.seen;
        let range = match flight.work.as_command() {
            Command::Flush => None,
            Command::WriteZeroes { .. } | Command::Copy { .. } if !write_cache => None,
            Command::Write { range, fua: true, .. } => {
                let touched = self.geometry.units_touched(range.lba, range.sectors.into());
                let end = touched.end.min(self.ftl.logical_units().into());
                Some(Lpn::new(touched.start as u32)..Lpn::new(end as u32))
            }
            _ => return,
        };
        if let Some(witness) = &mut self.witness {
            witness.durable(range, seen);
        }
    }

    /// Everything is durable.
    pub(super) fn note_settled(&mut self) {
        let (seen, is_cut) = (self.seen(), self.has_lost_power());
        if let Some(witness) = &mut self.witness
            && !is_cut
        {
            witness.durable(None, seen);
        }
    }

    fn note_range(&self, witness: &mut Witness<F::Payload>, range: Range) {
        let touched = self.geometry.units_touched(range.lba, range.sectors.into());
        for unit in touched.start..touched.end.min(self.ftl.logical_units().into()) {
            let lpn = Lpn::new(unit as u32);
            witness.holds(lpn, self.peek(lpn));
        }
    }
}
