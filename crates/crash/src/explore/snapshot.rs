//! A drive that takes snapshots of itself at chosen flash operations, as a power cut would leave it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use strobe_ftl::{CheckError, Recovery, RecoveryError, WearSummary};
use strobe_linux::job::Undo;
use strobe_ssd::{
    Command, CommandError, Completion, Device, DriveStats, HostCounts, Inspect, Latency, LimitsConfig,
    PowerCut, Range, ReclaimUnits, Simulated, Verdict,
};
use strobe_types::{Geometry, Lba, SimTime, StopFlag};

use super::file_log::{FileCall, FileLog, Origin, UnderWay};
use super::hear::lock;

/// Snapshot of the drive after a cut.
pub(super) struct Snapshot {
    /// The flash operation that is cut short.
    pub(super) operation: u64,
    /// The drive, to be restarted.
    pub(super) drive: Box<dyn Simulated>,
    /// When.
    pub(super) at: SimTime,
    /// Lines that the program had printed before.
    pub(super) lines: usize,
    /// Place in the program.
    pub(super) place: Place,
}

/// Place of a cut in the program's work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Commands that the drive had not completed, in the order in which they came.
    pub(super) under_way: Vec<UnderWay>,
    /// Origins of writes that were complete and that no flush covered.
    pub(super) unflushed: Vec<Origin>,
    /// Syncs that had begun and not ended.
    pub(super) syncs: Vec<FileCall>,
    /// The last call that was complete.
    pub(super) last_call: Option<FileCall>,
    /// Steps that take back the names that no sync covers.
    pub(super) undo: Vec<Undo>,
}

/// A line that the program has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) text: String,
    /// Flash operations that had begun.
    pub(super) operations: u64,
}

/// Log of the rehearsal.
#[derive(Default)]
pub(super) struct RunLog {
    /// Lines that were printed.
    pub(super) lines: Vec<Printed>,
    /// Flash operations that have begun.
    pub(super) operations: u64,
    /// Reports of files by the guest's kernel.
    pub(super) files: FileLog,
    /// For each flush, the number of flash operations that had begun when it completed.
    pub(super) flushed: Vec<u64>,
    /// Operations that ended before their snapshot could be taken.
    pub(super) missed: Vec<u64>,
}

/// Wrapper of a drive that takes snapshots.
pub(super) struct SnapshotDrive {
    drive: Box<dyn Simulated>,
    log: Arc<Mutex<RunLog>>,
    /// Operations at which to take a snapshot, the next one last.
    wanted: Vec<u64>,
    take: Box<dyn FnMut(Snapshot) + Send>,
    /// True if the drive acknowledges flushes without flushing.
    lies: bool,
    /// Commands that are not complete, by tag.
    under_way: BTreeMap<u64, UnderWay>,
    /// Origins of complete writes that no flush covers, each with the number of its write.
    unflushed: Vec<(u64, Origin)>,
    /// Writes that are complete.
    writes: u64,
    /// Flushes under way by tag, each with the writes that were complete when it came.
    flushes: BTreeMap<u64, u64>,
    /// Writes under way that are durable when they are complete, by tag.
    durable: BTreeSet<u64>,
    /// True if the drive has a volatile write cache.
    has_cache: bool,
}

impl SnapshotDrive {
    /// Wraps `drive`. Snapshots at the operations `wanted` go to `take`.
    pub(super) fn new(
        mut drive: Box<dyn Simulated>,
        log: Arc<Mutex<RunLog>>,
        mut wanted: Vec<u64>,
        lies: bool,
        take: Box<dyn FnMut(Snapshot) + Send>,
    ) -> Self {
        wanted.sort_unstable_by(|a, b| b.cmp(a));
        wanted.dedup();
        if let Some(&first) = wanted.last() {
            drive.plan_cut(first);
        }
        lock(&log).operations = drive.operations();
        Self { wanted, take, ..Self::quiet(drive, log, lies) }
    }

    /// A wrapper that takes no snapshots.
    fn quiet(drive: Box<dyn Simulated>, log: Arc<Mutex<RunLog>>, lies: bool) -> Self {
        Self {
            drive,
            log,
            wanted: Vec::new(),
            take: Box::new(drop),
            lies,
            under_way: BTreeMap::new(),
            unflushed: Vec::new(),
            writes: 0,
            flushes: BTreeMap::new(),
            durable: BTreeSet::new(),
            has_cache: true,
        }
    }

    /// Notes that the command `tag` is complete.
    fn completed(&mut self, tag: u64, done: u64) {
        let Some(complete) = self.under_way.remove(&tag) else { return };
        let is_durable = self.durable.remove(&tag);
        match complete.command {
            "flush" => {
                lock(&self.log).flushed.push(done);
                let covered = self.flushes.remove(&tag).unwrap_or(0);
                self.unflushed.retain(|(write, _)| self.lies || *write >= covered);
            }
            "write" if is_durable => {}
            "write" => {
                for origin in complete.origins {
                    // The last write of a file is the one that counts.
                    self.unflushed.retain(|(_, other)| *other != origin);
                    self.unflushed.push((self.writes, origin));
                }
                self.writes += 1;
            }
            _ => {}
        }
    }

    /// Takes the snapshots that are due at `now`.
    fn look(&mut self, now: SimTime) {
        let log = Arc::clone(&self.log);
        let mut log = lock(&log);
        log.operations = self.drive.operations();
        while self.drive.was_cut()
            && let Some(operation) = self.wanted.pop()
        {
            let (drive, lines) = (self.drive.freeze(), log.lines.len());
            let place = Place {
                under_way: self.under_way.values().cloned().collect(),
                unflushed: self.unflushed.iter().map(|(_, origin)| origin.clone()).collect(),
                syncs: log.files.syncs(),
                last_call: log.files.last(),
                undo: log.files.names().undo(),
            };
            (self.take)(Snapshot { operation, drive, at: now, lines, place });
            let done = self.drive.operations();
            while let Some(&next) = self.wanted.last() {
                if next > done {
                    self.drive.plan_cut(next);
                    break;
                }
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
        self.under_way.insert(tag, lock(&self.log).files.under_way(command));
        if matches!(command, Command::Flush) {
            self.flushes.insert(tag, self.writes);
        }
        let is_forced = matches!(command, Command::Write { fua: true, .. }) && !self.lies;
        if is_forced || !self.has_cache {
            self.durable.insert(tag);
        }
        match command {
            Command::Flush if self.lies => {
                // An empty trim: nothing, and an answer.
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
        self.look(now);
    }

    fn advance(&mut self, until: SimTime, completions: &mut Vec<Completion>) {
        let from = completions.len();
        self.drive.advance(until, completions);
        let done = self.drive.operations();
        // What completes now was under way when the operations until now began.
        self.look(until);
        for completion in completions.iter().skip(from) {
            self.completed(completion.tag, done);
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
        self.look(now);
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

/// Cuts stay hidden from the guest: the drive runs on.
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

    /// Files named as in the drive's cache when a write of /a is complete, and then a forced one of /b.
    fn in_cache(has_cache: bool, lies: bool) -> Vec<String> {
        let mut config = DriveConfig::preset("jasmine-4g").expect("a preset");
        config.nand.data = DataMode::Bytes;
        let log = Arc::<Mutex<RunLog>>::default();
        lock(&log)
            .files
            .hear(b"bio\t7\tsh\t1\t0\t0\t8\tfile\t12\t/a\nbio\t7\tsh\t1\t0\t8\t8\tfile\t13\t/b\n");
        let drive = strobe_ssd::build(&config, true, 1).expect("a drive");
        let mut drive = SnapshotDrive::new(drive, log, Vec::new(), lies, Box::new(drop));
        drive.set_write_cache(has_cache);
        for (tag, fua) in [(0, false), (1, true)] {
            let range = Range::new(Lba::new(8 * tag), 8);
            let command = Command::Write { range, fua, tag: DataTag::default() };
            drive.submit(SimTime::ZERO, tag, &command, Some(&[1; 4096]));
        }
        let mut completions = Vec::new();
        drive.advance(SimTime::from_ns(1_000_000_000), &mut completions);
        assert_eq!(completions.len(), 2);
        drive.unflushed.iter().map(|(_, origin)| origin.path.clone()).collect()
    }

    #[test]
    fn writes_are_in_the_cache_of_a_drive_that_has_one_and_only_if_they_are_not_forced() {
        assert_eq!(in_cache(true, false), ["/a"]);
        assert!(in_cache(false, false).is_empty());
        assert_eq!(in_cache(true, true), ["/a", "/b"]);
        assert_eq!(in_cache(false, true), ["/a", "/b"], "a drive that lies keeps its cache");
    }
}
