//! Events of the drive: its host commands.

use strobe_ftl::Inspectable;
use strobe_nand::{EventKind, EventLog, HostCommand, Nand, Timing};
use strobe_types::SimTime;

use super::Drive;
use super::flight::Flight;
use crate::command::{Command, Range};

impl<F: Inspectable> Drive<F> {
    /// The event log, which is off unless somebody has set one.
    #[inline(always)]
    pub(super) fn log(&self) -> &EventLog {
        self.ftl.nand().timing().log()
    }

    /// Logs the submission of the command in `slot`.
    #[cold]
    pub(super) fn log_submission(&mut self, slot: u32) {
        let command = host_command(self.flights.get(slot));
        self.log().submitted(slot, command);
    }

    /// Logs that the command in `slot` is complete at `at`.
    #[cold]
    pub(super) fn log_completion(&mut self, at: SimTime, slot: u32) {
        let flight = self.flights.get(slot);
        let (command, has_failed) = (host_command(flight), flight.result.is_err());
        self.log().completed(at, slot, command, has_failed);
    }

    /// Logs that the command in `slot` begins to wait for room.
    #[cold]
    pub(super) fn log_stall(&self, slot: u32) {
        let Some(command) = self.log().command(slot) else { return };
        let waits_for = match (&self.nvram, &self.buffer) {
            (Some(nvram), _) if nvram.is_making_room() => "nonvolatile-cache",
            (_, Some(_)) => "write-buffer",
            _ => "erased-blocks",
        };
        let erased_blocks = self.ftl.free_blocks();
        self.log().add(self.events.now(), || EventKind::ThrottleOn { command, waits_for, erased_blocks });
    }

    /// Logs that the command in `slot` goes on after it has waited for `waited_ns`.
    #[cold]
    pub(super) fn log_resumption(&self, slot: u32, waited_ns: u64) {
        let Some(command) = self.log().command(slot) else { return };
        self.log().add(self.events.now(), || EventKind::ThrottleOff { command, waited_ns });
    }
}

/// `flight` as the log knows it; the log gives it its number.
fn host_command<P>(flight: &Flight<P>) -> HostCommand {
    let (lba, sectors) = match flight.work.as_command() {
        Command::Read { range } | Command::Write { range, .. } | Command::WriteZeroes { range, .. } => {
            (range.lba.get(), range.sectors.into())
        }
        Command::Flush => (0, 0),
        Command::Deallocate(ranges) => (first(ranges), sum(ranges)),
        Command::Copy { destination, sources } => (destination.get(), sum(sources)),
    };
    let Flight { tag, kind, issued, .. } = *flight;
    HostCommand { number: 0, tag, kind: kind.name(), lba, sectors, issued }
}

fn first(ranges: &[Range]) -> u64 {
    ranges.first().map_or(0, |range| range.lba.get())
}

fn sum(ranges: &[Range]) -> u64 {
    ranges.iter().map(|range| u64::from(range.sectors)).sum()
}
