//! [`Simulated`] for [`Drive`]: snapshots, power cuts and the oracle.
//!
//! 1. At each planned cut, flash takes a snapshot.
//! 2. `snapshot_after_cuts` saves the other state before later completions.
//! 3. `recovered` recovers the map from the snapshot.

use strobe_ftl::{Inspectable, Recoverable, Recovery, RecoveryError};
use strobe_nand::{CutOperations, CutPlan, EventLog, Nand, PowerCuts, Snapshot, Timing};
use strobe_types::{Lba, Lpn, SimTime, State, StateError, StateReader, StateWriter, StopFlag};

use super::Drive;
use super::events::Events;
use super::in_flight::InFlightTable;
use crate::command::{Command, Range};
use crate::device::{InFlightWork, Inspect, PowerCut, Simulated};
use crate::nvram::Nvram;
use crate::oracle::{Oracle, Verdict};

#[derive(Clone, Debug)]
pub(super) struct Plan<P> {
    cuts: Cuts<P>,
    /// Without timing, the non-volatile cache before the current command, valid after a cut at any point of
    /// that command.
    before: Option<Nvram<P>>,
}

#[derive(Clone, Debug)]
enum Cuts<P> {
    /// One cut at flash operation `operation`. `left` is set once the cut has happened.
    At { operation: u64, left: Option<Box<Left<P>>> },
    /// A cut at every flash operation, with the states left so far.
    Everywhere(Vec<Left<P>>),
    /// Drive after a cut. Its recovery may be cut everywhere as well.
    Dead { is_cut_again: bool },
}

/// State after one or more cuts, except for flash.
#[derive(Clone, Debug)]
struct Left<P> {
    /// Number of flash snapshots taken when this state was saved.
    snapshots: usize,
    nvram: Option<Nvram<P>>,
    oracle: Option<Box<Oracle<P>>>,
    in_flight: InFlightWork,
}

impl<F> Simulated for Drive<F>
where
    F: Inspectable + Recoverable + State + Clone + Send + 'static,
    F::Nand: Clone,
{
    fn freeze(&self) -> Box<dyn Simulated> {
        Box::new(self.clone())
    }

    fn save_state(&self, out: &mut StateWriter<'_>) {
        State::save_state(self, out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        State::load_state(self, from)
    }

    fn set_stop(&mut self, stop: StopFlag) {
        self.ftl.nand_mut().set_stop(stop);
    }

    fn is_stopped(&self) -> bool {
        self.ftl.nand().is_stopped()
    }

    fn set_log(&mut self, log: EventLog) {
        self.ftl.nand_mut().timing_mut().set_log(log);
    }

    fn plan_cut(&mut self, operation: u64) {
        self.ftl.nand_mut().plan_cuts(CutPlan::At(operation));
        self.power = Some(Box::new(Plan::new(Cuts::At { operation, left: None })));
    }

    fn was_cut(&self) -> bool {
        self.has_lost_power()
    }

    fn cut_everywhere(&mut self) {
        self.ftl.nand_mut().plan_cuts(CutPlan::Everywhere);
        // A drive without power executes no commands, so the cuts hit its recovery.
        let cuts =
            if self.is_dead() { Cuts::Dead { is_cut_again: true } } else { Cuts::Everywhere(Vec::new()) };
        self.power = Some(Box::new(Plan::new(cuts)));
    }

    fn take_cuts(&mut self) -> Vec<PowerCut> {
        self.snapshot_after_cuts();
        let snapshots = self.ftl.nand_mut().take_snapshots();
        let lefts = match self.power.as_deref_mut() {
            Some(Plan { cuts: Cuts::Everywhere(lefts), .. }) => std::mem::take(lefts),
            _ => Vec::new(),
        };
        let mut lefts = lefts.into_iter().peekable();
        let mut cuts = Vec::with_capacity(snapshots.len());
        for (at, Snapshot { operation, begun, in_flight, flash }) in snapshots.into_iter().enumerate() {
            // A saved state belongs to all snapshots below its count that no earlier state covers.
            while lefts.next_if(|left| left.snapshots <= at).is_some() {}
            let Some(left) = lefts.peek() else { break };
            let in_flight = InFlightWork { flash: in_flight, ..left.in_flight };
            let drive = Box::new(self.dead(flash, left.nvram.clone(), left.oracle.clone()));
            cuts.push(PowerCut { operation, begun, in_flight, drive });
        }
        cuts
    }

    fn fail_reads(&mut self, lba: Lba) -> bool {
        let lpn = self.geometry.lpn_of(lba);
        let is_cached = self.nvram.as_ref().is_some_and(|nvram| nvram.get(lpn).is_some())
            || self.buffer.as_ref().is_some_and(|buffer| buffer.get(lpn).is_some());
        !is_cached && self.lose(lpn)
    }

    fn cut_now(&mut self) -> PowerCut {
        let Snapshot { operation, begun, in_flight, flash } = self.ftl.nand_mut().cut_now();
        let in_flight = InFlightWork { flash: in_flight, ..self.underway() };
        let nvram = self.nvram.as_ref().map(Nvram::after_cut);
        let drive = Box::new(self.dead(flash, nvram, self.oracle.clone()));
        PowerCut { operation, begun, in_flight, drive }
    }

    fn watch(&mut self) {
        self.oracle = Some(Box::new(Oracle::new(self.contents())));
    }

    fn verify(&mut self) -> Option<Verdict> {
        let contents = self.contents();
        Some(self.oracle.as_mut()?.compare(contents))
    }

    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Simulated>, Recovery), RecoveryError> {
        let (drive, recovery) = self.recovered(now)?;
        Ok((Box::new(drive), recovery))
    }
}

impl<F: Inspectable + Recoverable + Clone> Drive<F> {
    fn dead(
        &self,
        flash: F::Nand,
        nvram: Option<Nvram<F::Payload>>,
        oracle: Option<Box<Oracle<F::Payload>>>,
    ) -> Self {
        let power = Some(Box::new(Plan::new(Cuts::Dead { is_cut_again: false })));
        let mut drive = Self { nvram, oracle, power, ..self.clone() };
        *drive.ftl.nand_mut() = flash;
        drive
    }
}

impl<F: Inspectable + Recoverable> Drive<F>
where
    F::Nand: Clone,
{
    /// [`Simulated::restart`], but returns the concrete type of the drive.
    pub fn recovered(mut self, now: SimTime) -> Result<(Self, Recovery), RecoveryError> {
        self.snapshot_after_cuts();
        let plan = self.power.take().map(|plan| plan.cuts);
        let mut power = None;
        // Three cases: the planned cut has happened, this drive is itself the result of a cut, or power is
        // cut now.
        let mut flash = match plan {
            Some(Cuts::At { left: Some(left), .. })
                if let Some(snapshot) = self.ftl.nand_mut().take_snapshots().pop() =>
            {
                self.nvram = left.nvram;
                snapshot.flash
            }
            Some(Cuts::Dead { is_cut_again }) => {
                power = is_cut_again.then(|| Box::new(Plan::new(Cuts::Everywhere(Vec::new()))));
                self.ftl.nand().clone()
            }
            planned => {
                self.nvram = self.nvram.as_ref().map(Nvram::after_cut);
                let mut flash = match planned {
                    Some(_) => self.ftl.nand_mut().cut_now().flash,
                    None => self.ftl.nand().clone(),
                };
                flash.plan_cuts(CutPlan::Never);
                flash
            }
        };
        // Recovery begins when the flash is at rest.
        let now = now.max(flash.drain()).max(flash.timing().now());
        // Drop the reports of earlier operations: after the cut, no command or cache waits for them.
        while flash.next_reported().is_some() {}
        flash.timing().log().power_cut(now);
        let (ftl, recovery) = self.ftl.recover(now, flash)?;
        let buffer = self.buffer.map(|buffer| buffer.emptied());
        self.faults.on_restarted();
        let (units, read, in_flight) = (Vec::new(), Vec::new(), InFlightTable::default());
        let events = Events::at_rest(recovery.finished);
        let controller = self.controller.at_rest();
        Ok((Self { ftl, buffer, units, read, in_flight, events, controller, power, ..self }, recovery))
    }
}

impl<P> Plan<P> {
    fn new(cuts: Cuts<P>) -> Self {
        Self { cuts, before: None }
    }
}

impl<F: Inspectable> Drive<F> {
    #[inline(always)]
    pub(super) fn begin_command(&mut self) {
        if self.power.is_some() {
            self.snapshot_before_command();
        }
    }

    #[cold]
    fn snapshot_before_command(&mut self) {
        self.snapshot_after_cuts();
        // Without timing, a cut at any point of the command leaves the cache as before the command.
        if !self.is_timed()
            && let Some(plan) = &mut self.power
        {
            plan.before = self.nvram.as_ref().map(Nvram::after_cut);
        }
    }

    /// Saves the state after new cuts. Must run before new completions are processed, which may lie after the
    /// cuts.
    #[cold]
    pub(super) fn snapshot_after_cuts(&mut self) {
        let snapshots = self.ftl.nand().snapshots();
        let Some(plan) = &self.power else { return };
        let known = match &plan.cuts {
            Cuts::At { left, .. } => left.as_ref().map_or(0, |left| left.snapshots),
            Cuts::Everywhere(lefts) => lefts.last().map_or(0, |left| left.snapshots),
            Cuts::Dead { .. } => return,
        };
        if snapshots <= known {
            return;
        }
        let nvram =
            if self.is_timed() { self.nvram.as_ref().map(Nvram::after_cut) } else { plan.before.clone() };
        let mut left = Left { snapshots, nvram, oracle: None, in_flight: self.underway() };
        match self.power.as_deref_mut().map(|plan| &mut plan.cuts) {
            Some(Cuts::At { left: kept, .. }) => *kept = Some(Box::new(left)),
            Some(Cuts::Everywhere(lefts)) => {
                left.oracle = self.oracle.clone();
                lefts.push(left);
            }
            _ => {}
        }
    }

    fn underway(&self) -> InFlightWork {
        InFlightWork {
            flash: CutOperations::default(),
            is_collecting: self.ftl.is_collecting(),
            leaving_units: self.nvram.as_ref().map_or(0, Nvram::leaving_units),
            flushes: self.in_flight.flushes(),
        }
    }

    fn is_dead(&self) -> bool {
        self.power.as_ref().is_some_and(|plan| matches!(plan.cuts, Cuts::Dead { .. }))
    }

    fn has_lost_power(&self) -> bool {
        let is_timed = self.is_timed();
        self.power.as_ref().is_some_and(|plan| match plan.cuts {
            Cuts::At { ref left, .. } if is_timed => left.is_some(),
            Cuts::At { operation, .. } => self.operations() >= operation,
            Cuts::Everywhere(_) | Cuts::Dead { .. } => false,
        })
    }

    /// Newest content of a unit, without a flash operation.
    pub(super) fn peek(&self, lpn: Lpn) -> F::Payload {
        let cached = self.nvram.as_ref().and_then(|nvram| nvram.get(lpn));
        let cached = cached.or_else(|| self.buffer.as_ref()?.get(lpn).cloned());
        cached.unwrap_or_else(|| self.ftl.peek(lpn))
    }

    fn contents(&self) -> Vec<F::Payload> {
        (0..self.ftl.logical_units()).map(|lpn| self.peek(Lpn::new(lpn))).collect()
    }

    /// Records the contents after `command`, even if the command failed or stalled midway.
    #[inline(always)]
    pub(super) fn record(&mut self, command: &Command<'_>) {
        if self.oracle.is_some() {
            self.record_changes(command);
        }
    }

    #[cold]
    fn record_changes(&mut self, command: &Command<'_>) {
        let Some(mut oracle) = self.oracle.take() else { return };
        match *command {
            Command::Read { .. } | Command::Flush => {}
            Command::Write { range, .. } | Command::WriteZeroes { range, .. } => {
                self.record_range(&mut oracle, range)
            }
            Command::Deallocate(ranges) => {
                for &range in ranges {
                    self.record_range(&mut oracle, range);
                }
            }
            Command::Copy { destination, sources } => {
                let sectors: u64 = sources.iter().map(|source| u64::from(source.sectors)).sum();
                let range = Range::new(destination, u32::try_from(sectors).unwrap_or(u32::MAX));
                self.record_range(&mut oracle, range);
            }
        }
        self.oracle = Some(oracle);
    }

    pub(super) fn seen(&self) -> u64 {
        self.oracle.as_ref().map_or(0, |oracle| oracle.seen())
    }

    /// Tells the oracle which changes a completed command makes durable. Completions after a cut do not
    /// count.
    #[cold]
    pub(super) fn record_completion(&mut self, slot: u32) {
        if self.has_lost_power() {
            return;
        }
        let (write_cache, entry) = (self.write_cache, self.in_flight.get(slot));
        let seen = entry.seen;
        let range = match entry.work.as_command() {
            Command::Flush => None,
            Command::WriteZeroes { .. } | Command::Copy { .. } if !write_cache => None,
            Command::Write { range, fua: true, .. } => {
                let touched = self.geometry.units_touched(range.lba, range.sectors.into());
                let end = touched.end.min(self.ftl.logical_units().into());
                Some(Lpn::new(touched.start as u32)..Lpn::new(end as u32))
            }
            _ => return,
        };
        if let Some(oracle) = &mut self.oracle {
            oracle.durable(range, seen);
        }
    }

    pub(super) fn record_settled(&mut self) {
        let (seen, is_cut) = (self.seen(), self.has_lost_power());
        if let Some(oracle) = &mut self.oracle
            && !is_cut
        {
            oracle.durable(None, seen);
        }
    }

    fn record_range(&self, oracle: &mut Oracle<F::Payload>, range: Range) {
        let touched = self.geometry.units_touched(range.lba, range.sectors.into());
        for unit in touched.start..touched.end.min(self.ftl.logical_units().into()) {
            let lpn = Lpn::new(unit as u32);
            oracle.holds(lpn, self.peek(lpn));
        }
    }
}
