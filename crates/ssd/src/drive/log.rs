//! Events of host commands in the log.

use strobe_ftl::Inspectable;
use strobe_nand::{EventKind, EventLog, HostCommand, Nand, Timing};
use strobe_types::SimTime;

use super::Drive;
use super::in_flight::InFlight;
use crate::command::{Command, Range};

impl<F: Inspectable> Drive<F> {
    #[inline(always)]
    pub(super) fn log(&self) -> &EventLog {
        self.ftl.nand().timing().log()
    }

    #[cold]
    pub(super) fn log_submission(&mut self, slot: u32) {
        let command = host_command(self.in_flight.get(slot));
        self.log().submitted(slot, command);
    }

    #[cold]
    pub(super) fn log_completion(&mut self, at: SimTime, slot: u32) {
        let entry = self.in_flight.get(slot);
        let (command, has_failed) = (host_command(entry), entry.result.is_err());
        self.log().completed(at, slot, command, has_failed);
    }

    #[cold]
    pub(super) fn log_stall(&self, slot: u32) {
        let Some(command) = self.log().command(slot) else { return };
        let waits_for = match (&self.nvram, &self.buffer) {
            (Some(nvram), _) if nvram.is_evicting() => "nonvolatile-cache",
            (_, Some(_)) => "write-buffer",
            _ => "erased-blocks",
        };
        let erased_blocks = self.ftl.free_blocks();
        self.log().add(self.events.now(), || EventKind::ThrottleOn { command, waits_for, erased_blocks });
    }

    #[cold]
    pub(super) fn log_resumption(&self, slot: u32, waited_ns: u64) {
        let Some(command) = self.log().command(slot) else { return };
        self.log().add(self.events.now(), || EventKind::ThrottleOff { command, waited_ns });
    }
}

fn host_command<P>(entry: &InFlight<P>) -> HostCommand {
    let (lba, sectors) = match entry.work.as_command() {
        Command::Read { range } | Command::Write { range, .. } | Command::WriteZeroes { range, .. } => {
            (range.lba.get(), range.sectors.into())
        }
        Command::Flush => (0, 0),
        Command::Deallocate(ranges) => (first(ranges), sum(ranges)),
        Command::Copy { destination, sources } => (destination.get(), sum(sources)),
    };
    let InFlight { tag, kind, issued, .. } = *entry;
    HostCommand { number: 0, tag, kind: kind.name(), lba, sectors, issued }
}

fn first(ranges: &[Range]) -> u64 {
    ranges.first().map_or(0, |range| range.lba.get())
}

fn sum(ranges: &[Range]) -> u64 {
    ranges.iter().map(|range| u64::from(range.sectors)).sum()
}
