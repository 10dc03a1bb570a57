//! A drive wrapper that takes snapshots of the state after a power cut at chosen flash operations.

use std::sync::{Arc, Mutex};

use strobe_ftl::{CheckError, Recovery, RecoveryError, WearSummary};
use strobe_ssd::{
    Command, CommandError, CommandKind, Completion, Device, DriveStats, HostCounts, Inspect, Latency,
    LimitsConfig, PowerCut, Range, ReclaimUnits, Simulated, Verdict,
};
use strobe_types::{Geometry, Lba, SimTime, StopFlag};

use super::commands::Commands;
use super::file_log::FileLog;
use super::hear::lock;
use super::kinds::{Kind, Recorded};
use super::pending::Pending;
use super::place::Place;

pub(super) struct Snapshot {
    /// Interrupted flash operation, or the number after the program's last one.
    pub(super) operation: u64,
    pub(super) drive: Box<dyn Simulated>,
    pub(super) at: SimTime,
    pub(super) lines: usize,
    pub(super) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) text: String,
    pub(super) operations: u64,
}

#[derive(Default)]
pub(super) struct RunLog {
    pub(super) lines: Vec<Printed>,
    pub(super) operations: u64,
    pub(super) files: FileLog,
    /// For each flush, the number of flash operations started before its completion.
    pub(super) flushed: Vec<u64>,
    /// Operations that ended before their snapshot could be taken.
    pub(super) missed: Vec<u64>,
    /// True to keep the data of unflushed writes, to compare it with the drive after a cut.
    pub(super) keeps_data: bool,
    /// Kind of each operation, if `keeps_data` is false.
    pub(super) kinds: Recorded,
    commands: Commands,
}

impl RunLog {
    fn place(&self) -> Place {
        Place {
            under_way: self.commands.under_way.values().cloned().collect(),
            unflushed: self.commands.pending.clone(),
            unsent: self.files.unsent().all(),
            syncs: self.files.syncs(),
            last_call: self.files.last(),
            undo: self.files.names().undo(),
        }
    }

    /// Records the kind of the operations up to `operation`.
    fn goes_on_to(&mut self, operation: u64) {
        if operation > self.operations && !self.keeps_data {
            let commands = &self.commands;
            let complete = commands.pending.iter().rev().filter(|write| write.completed.is_some());
            let cached = complete.map(|write| &write.piece.origin);
            let unsent = self.files.unsent().paths();
            let kind = Kind::of(commands.under_way.values(), cached, unsent, &self.files);
            self.kinds.record(self.operations + 1, kind);
        }
        self.operations = operation;
    }

    /// True if a cut now would lose a completed write.
    pub(super) fn has_unflushed(&self) -> bool {
        self.commands.writes > self.commands.covered
    }

    pub(super) fn cut_now(&self, mut drive: Box<dyn Simulated>, at: SimTime, operation: u64) -> Snapshot {
        Snapshot { operation, drive: drive.cut_now().drive, at, lines: self.lines.len(), place: self.place() }
    }

    fn begun(&mut self, tag: u64, command: &Command<'_>, data: Option<&[u8]>, is_durable: bool) {
        let (under_way, pieces) = self.files.under_way(command);
        let commands = &mut self.commands;
        match command {
            Command::Flush => drop(commands.flushes.insert(tag, commands.writes)),
            Command::Write { range, .. } => {
                commands.written(tag, *range, pieces, data.filter(|_| self.keeps_data));
            }
            Command::WriteZeroes { range, .. } => {
                let zeros = if self.keeps_data { vec![0; range.bytes() as usize] } else { Vec::new() };
                commands.written(tag, *range, pieces, Some(&zeros));
            }
            Command::Deallocate(ranges) => {
                ranges.iter().for_each(|range| commands.written(tag, *range, Vec::new(), None));
            }
            Command::Copy { destination, sources } => {
                let sectors = sources.iter().map(|range| range.sectors).sum();
                commands.written(tag, Range::new(*destination, sectors), Vec::new(), None);
            }
            Command::Read { .. } => {}
        }
        commands.under_way.insert(tag, under_way);
        if is_durable {
            commands.durable.insert(tag);
        }
    }

    /// `done` is the number of flash operations so far. If the drive `lies`, a flush covers nothing.
    fn completed(&mut self, tag: u64, is_ok: bool, done: u64, lies: bool) {
        let commands = &mut self.commands;
        let Some(complete) = commands.under_way.remove(&tag) else { return };
        let is_durable = commands.durable.remove(&tag);
        match complete.command {
            "flush" => {
                self.flushed.push(done);
                let covered = commands.flushes.remove(&tag).unwrap_or(0);
                if !lies && is_ok {
                    commands.covered = commands.covered.max(covered);
                    commands.retain(|write| write.completed.is_none_or(|number| number >= covered));
                }
            }
            "write" | "trim" | "copy" => {
                let is_of = |write: &Pending| write.tag == tag && write.completed.is_none();
                if is_durable || !is_ok {
                    commands.settle(tag, is_ok);
                    return;
                }
                // The parts of a command are neighbours, and commands in flight are near the end.
                let parts = commands.pending.iter_mut().rev().skip_while(|write| !is_of(write));
                for write in parts.take_while(|write| is_of(write)) {
                    write.completed = Some(commands.writes);
                }
                commands.writes += u64::from(complete.command == "write");
            }
            _ => {}
        }
    }
}

pub(super) struct SnapshotDrive {
    drive: Box<dyn Simulated>,
    log: Arc<Mutex<RunLog>>,
    /// Snapshot operations in descending order.
    wanted: Vec<u64>,
    take: Box<dyn FnMut(Snapshot) -> bool + Send>,
    lies: bool,
    has_cache: bool,
}

impl SnapshotDrive {
    pub(super) fn new(
        mut drive: Box<dyn Simulated>,
        log: Arc<Mutex<RunLog>>,
        mut wanted: Vec<u64>,
        lies: bool,
        take: Box<dyn FnMut(Snapshot) -> bool + Send>,
    ) -> Self {
        wanted.sort_unstable_by(|a, b| b.cmp(a));
        wanted.dedup();
        if let Some(&first) = wanted.last() {
            drive.plan_cut(first);
        }
        lock(&log).operations = drive.operations();
        Self { wanted, take, ..Self::quiet(drive, log, lies) }
    }

    fn quiet(drive: Box<dyn Simulated>, log: Arc<Mutex<RunLog>>, lies: bool) -> Self {
        Self { drive, log, wanted: Vec::new(), take: Box::new(|_| true), lies, has_cache: true }
    }

    fn snapshot_if_due(&mut self, now: SimTime) {
        let log = Arc::clone(&self.log);
        let mut log = lock(&log);
        log.goes_on_to(self.drive.operations());
        while self.drive.was_cut()
            && let Some(operation) = self.wanted.pop()
        {
            let (drive, lines) = (self.drive.freeze(), log.lines.len());
            if !(self.take)(Snapshot { operation, drive, at: now, lines, place: log.place() }) {
                self.wanted.clear();
                return;
            }
            let done = self.drive.operations();
            while let Some(&next) = self.wanted.last() {
                if next > done {
                    self.drive.plan_cut(next);
                    break;
                }
                // This operation has already ended: it is repeated in another run.
                log.missed.push(next);
                self.wanted.pop();
            }
        }
    }

    fn with(&self, drive: Box<dyn Simulated>) -> Box<dyn Simulated> {
        Box::new(Self::quiet(drive, Arc::clone(&self.log), self.lies))
    }

    fn cut(&self, cut: PowerCut) -> PowerCut {
        PowerCut { drive: self.with(cut.drive), ..cut }
    }
}

impl Device for SnapshotDrive {
    fn submit(&mut self, now: SimTime, tag: u64, command: &Command<'_>, data: Option<&[u8]>) {
        let is_forced = matches!(command, Command::Write { fua: true, .. }) && !self.lies;
        lock(&self.log).begun(tag, command, data, is_forced || !self.has_cache);
        match command {
            Command::Flush if self.lies => {
                // An empty trim completes without effect.
                self.drive.submit(now, tag, &Command::Deallocate(&[Range::new(Lba::new(0), 0)]), None);
            }
            Command::Write { range, tag: described, .. } if self.lies => {
                self.drive.submit(
                    now,
                    tag,
                    &Command::Write { range: *range, fua: false, tag: *described },
                    data,
                );
            }
            _ => self.drive.submit(now, tag, command, data),
        }
        self.snapshot_if_due(now);
    }

    fn advance(&mut self, until: SimTime, completions: &mut Vec<Completion>) {
        let from = completions.len();
        self.drive.advance(until, completions);
        let done = self.drive.operations();
        // The snapshot comes first: the commands that complete now were in flight during the cut operation.
        self.snapshot_if_due(until);
        for completion in completions.iter().skip(from) {
            let is_ok = completion.result.is_ok();
            lock(&self.log).completed(completion.tag, is_ok, done, self.lies);
        }
    }

    fn sectors(&self) -> u64 {
        self.drive.sectors()
    }

    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn limits(&self) -> LimitsConfig {
        self.drive.limits()
    }

    fn keeps_contents(&self) -> bool {
        self.drive.keeps_contents()
    }

    fn outstanding(&self) -> usize {
        self.drive.outstanding()
    }
    fn host_counts(&self) -> &HostCounts {
        self.drive.host_counts()
    }

    fn next_event(&self) -> Option<SimTime> {
        self.drive.next_event()
    }

    fn set_write_cache(&mut self, enabled: bool) {
        self.has_cache = enabled || self.lies;
        self.drive.set_write_cache(self.has_cache);
    }

    fn begin_unit(&mut self, now: SimTime, handle: u16) -> Result<(), CommandError> {
        let begun = self.drive.begin_unit(now, handle);
        self.snapshot_if_due(now);
        begun
    }

    fn settle(&mut self, now: SimTime) -> Result<SimTime, CommandError> {
        self.drive.settle(now)
    }
}

impl Inspect for SnapshotDrive {
    fn logical_units(&self) -> u32 {
        self.drive.logical_units()
    }

    fn oldest_outstanding(&self) -> Option<(CommandKind, SimTime)> {
        self.drive.oldest_outstanding()
    }

    fn mapped_units(&self) -> u32 {
        self.drive.mapped_units()
    }

    fn is_allocated(&self, lba: Lba) -> bool {
        self.drive.is_allocated(lba)
    }

    fn free_blocks(&self) -> u32 {
        self.drive.free_blocks()
    }

    fn reclaim_units(&self) -> Option<ReclaimUnits> {
        self.drive.reclaim_units()
    }

    fn stats(&self) -> DriveStats {
        self.drive.stats()
    }

    fn stats_at(&self, now: SimTime) -> DriveStats {
        self.drive.stats_at(now)
    }

    fn latency(&self) -> &Latency {
        self.drive.latency()
    }

    fn clear_latency(&mut self) {
        self.drive.clear_latency();
    }

    fn wear(&self) -> WearSummary {
        self.drive.wear()
    }

    fn check(&self) -> Result<(), CheckError> {
        self.drive.check()
    }

    fn failure(&self) -> Option<&str> {
        self.drive.failure()
    }

    fn operations(&self) -> u64 {
        self.drive.operations()
    }
}

/// Cuts stay hidden from the guest: the drive keeps running.
impl Simulated for SnapshotDrive {
    fn freeze(&self) -> Box<dyn Simulated> {
        self.with(self.drive.freeze())
    }

    fn set_stop(&mut self, stop: StopFlag) {
        self.drive.set_stop(stop);
    }

    fn is_stopped(&self) -> bool {
        self.drive.is_stopped()
    }

    fn fail_reads(&mut self, lba: Lba) -> bool {
        self.drive.fail_reads(lba)
    }

    fn plan_cut(&mut self, operation: u64) {
        self.drive.plan_cut(operation);
    }

    fn was_cut(&self) -> bool {
        false
    }

    fn cut_everywhere(&mut self) {
        self.drive.cut_everywhere();
    }

    fn take_cuts(&mut self) -> Vec<PowerCut> {
        let cuts = self.drive.take_cuts();
        cuts.into_iter().map(|cut| self.cut(cut)).collect()
    }

    fn cut_now(&mut self) -> PowerCut {
        let cut = self.drive.cut_now();
        self.cut(cut)
    }

    fn watch(&mut self) {
        self.drive.watch();
    }

    fn verify(&mut self) -> Option<Verdict> {
        self.drive.verify()
    }

    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Simulated>, Recovery), RecoveryError> {
        self.drive.restart(now)
    }
}

#[cfg(test)]
mod tests {
    use strobe_ssd::{DataMode, DataTag, DriveConfig};

    use super::*;

    fn in_cache(has_cache: bool, lies: bool) -> Vec<String> {
        let mut config = DriveConfig::preset("jasmine-4g").expect("a preset");
        config.nand.data = DataMode::Bytes;
        let log = Arc::<Mutex<RunLog>>::default();
        lock(&log)
            .files
            .hear(b"bio\t7\tsh\t1\t0\t0\t8\tfile\t12\t/a\nbio\t7\tsh\t1\t0\t8\t8\tfile\t13\t/b\n");
        let drive = strobe_ssd::build(&config, true, 1).expect("a drive");
        let mut drive = SnapshotDrive::new(drive, Arc::clone(&log), Vec::new(), lies, Box::new(|_| true));
        drive.set_write_cache(has_cache);
        for (tag, fua) in [(0, false), (1, true)] {
            let range = Range::new(Lba::new(8 * tag), 8);
            let command = Command::Write { range, fua, tag: DataTag::default() };
            drive.submit(SimTime::ZERO, tag, &command, Some(&[1; 4096]));
        }
        let mut completions = Vec::new();
        drive.advance(SimTime::from_ns(1_000_000_000), &mut completions);
        assert_eq!(completions.len(), 2);
        let log = lock(&log);
        let files: Vec<_> = log.place().unflushed.into_iter().map(|write| write.piece.origin.path).collect();
        assert_eq!(log.has_unflushed(), !files.is_empty());
        files
    }

    #[test]
    fn writes_are_in_the_cache_of_a_drive_that_has_one_and_only_if_they_are_not_forced() {
        assert_eq!(in_cache(true, false), ["/a"]);
        assert!(in_cache(false, false).is_empty());
        assert_eq!(in_cache(true, true), ["/a", "/b"]);
        assert_eq!(in_cache(false, true), ["/a", "/b"], "a drive that lies keeps its cache");
    }
}
