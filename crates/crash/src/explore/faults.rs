//! Read faults: one mapping unit of the volume becomes unreadable after the program has ended.
//!
//! 1. Every mapped logical unit gets a [kind](Unreadable::kind) from the last write that the file log reports.
//! 2. Units are chosen from each kind in turn, equally spaced.
//! 3. For each unit, a machine boots with a copy of the drive on which reads of that unit fail. It mounts the
//!    volume without repair and runs the check.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use strobe_linux::command::FileSystem;
use strobe_ssd::Simulated;
use strobe_types::{Lba, StopFlag};

use super::error::ExploreError;
use super::examine::{Examination, Examined, Verdict};
use super::hear::lock;
use super::line::Origin;
use super::{Explorer, Rehearsed, new_examination};

/// Kinds of data, in the order of the report.
pub const KINDS: [&str; 6] = ["superblock", "journal", "metadata", "folder", "file", "earlier"];

/// Unreadable unit and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// First sector, in units of 512 bytes.
    pub lba: u64,
    /// Number of sectors: a mapping unit of the drive.
    pub sectors: u32,
    /// Kind of data: superblock, journal, metadata, folder, file or earlier.
    ///
    /// Superblock means its first copy. Journal data is written by ext4's journal thread or from memory that
    /// belongs to no file. Earlier data was written before the program's run.
    pub kind: &'static str,
    /// Path of the file, if the kernel reports it.
    pub path: String,
    /// True if the guest's kernel reported the read error.
    pub was_read: bool,
    /// Verdict of the check.
    pub verdict: Verdict,
    /// Reason of the verdict; empty if the check passed.
    pub reason: String,
    /// First kernel message about an error, if any.
    pub kernel: String,
}

/// Report on read faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultReport {
    /// Strobe version.
    pub strobe_version: String,
    /// Random seed.
    pub seed: u64,
    /// Program and its arguments.
    pub program: Vec<String>,
    /// File system.
    pub file_system: String,
    /// Mount options.
    pub mount_options: String,
    /// Number of mapped units by kind.
    pub units: BTreeMap<&'static str, u64>,
    /// Results by kind and address.
    pub found: Vec<Unreadable>,
}

type Place = (Lba, &'static str, String);

fn kind_of(origin: Option<&Origin>) -> &'static str {
    let Some(origin) = origin else { return "earlier" };
    match &*origin.kind {
        "file" => "file",
        "folder" => "folder",
        _ if origin.process.starts_with("jbd2") => "journal",
        "block" | "other" => "metadata",
        _ => "journal",
    }
}

fn units_of(rehearsed: &Rehearsed, superblock: u64) -> BTreeMap<&'static str, Vec<Place>> {
    let left = lock(&rehearsed.left);
    let unit_sectors = u64::from(left.geometry().sectors_per_unit());
    let mut units: BTreeMap<&'static str, Vec<Place>> = BTreeMap::new();
    for at in 0..left.sectors() / unit_sectors {
        let lba = Lba::new(at * unit_sectors);
        if left.is_allocated(lba) {
            let sectors = lba.get()..lba.get() + unit_sectors;
            // The origin of the first written page stands for the whole unit.
            let origin = rehearsed.written.range(sectors.clone()).next().map(|(_, origin)| origin);
            let kind = if sectors.contains(&superblock) { "superblock" } else { kind_of(origin) };
            let path = origin.map_or_else(String::new, |origin| origin.path.clone());
            units.entry(kind).or_default().push((lba, kind, path));
        }
    }
    units
}

/// Chooses equally many units of each kind. Kinds with too few units leave their share to others.
fn chosen(units: &BTreeMap<&'static str, Vec<Place>>, count: usize) -> Vec<Place> {
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    let mut left = count;
    // Each round gives every kind one more unit, as far as it has units.
    while left > 0 {
        let before = left;
        for kind in KINDS {
            let most = units.get(kind).map_or(0, Vec::len);
            let share = shares.entry(kind).or_default();
            if left > 0 && *share < most {
                *share += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    let mut chosen = Vec::new();
    for kind in KINDS {
        let (Some(all), Some(&share)) = (units.get(kind), shares.get(kind)) else { continue };
        chosen.extend((0..share).map(|at| all[at * all.len() / share].clone()));
    }
    chosen
}

impl Explorer {
    /// Makes at most `count` units unreadable, each in a separate boot. Calls `tell` with each result.
    pub fn fail_reads(
        &self,
        rehearsed: &Rehearsed,
        count: usize,
        stop: &StopFlag,
        tell: &(dyn Fn(&Unreadable) + Sync),
    ) -> Result<FaultReport, ExploreError> {
        // First superblock. Btrfs leaves the first 64 KiB free.
        let superblock = if self.run.file_system == FileSystem::Btrfs { 128 } else { 0 };
        let units = units_of(rehearsed, superblock);
        let places = chosen(&units, count);
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || -> Result<(), ExploreError> {
            while let Some((lba, kind, path)) = places.get(next.fetch_add(1, Ordering::Relaxed))
                && !stop.is_raised()
            {
                let one = self.unreadable(rehearsed, *lba, kind, path, stop)?;
                tell(&one);
                lock(&found).push(one);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers.max(1)).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        if stop.is_raised() {
            return Err(strobe_linux::command::LinuxRunError::Interrupted.into());
        }
        let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let order = |kind: &str| KINDS.iter().position(|known| *known == kind);
        // Workers finish in any order.
        found.sort_by_key(|one: &Unreadable| (order(one.kind), one.lba));
        let run = &self.run;
        Ok(FaultReport {
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: run.experiment.seed,
            program: run.command.clone(),
            file_system: run.file_system.kernel_name().unwrap_or_default().to_owned(),
            mount_options: run.mount_options.clone(),
            units: units.iter().map(|(kind, all)| (*kind, all.len() as u64)).collect(),
            found,
        })
    }

    fn unreadable(
        &self,
        rehearsed: &Rehearsed,
        lba: Lba,
        kind: &'static str,
        path: &str,
        stop: &StopFlag,
    ) -> Result<Unreadable, ExploreError> {
        // Each unit fails on a separate copy of the drive, so faults do not accumulate.
        let mut drive: Box<dyn Simulated> = lock(&rehearsed.left).freeze();
        drive.fail_reads(lba);
        let sectors = drive.geometry().sectors_per_unit();
        let acknowledged = self.note(&rehearsed.lines, &format!("unreadable-{}", lba.get()))?;
        let mut examination: Examination<'_> = new_examination(self, rehearsed, &acknowledged, stop);
        examination.may_fail = true;
        let Examined { verdict, reason, kernel_log, .. } = examination.at(drive, rehearsed.left_at, None)?;
        // The read error itself takes precedence over messages about its consequences.
        let trouble = |line: &&str| line.contains("I/O error") || line.contains("read error");
        let kernel = kernel_log
            .lines()
            .find(trouble)
            .or_else(|| kernel_log.lines().find(|line| crate::is_alarm(line)));
        let (was_read, kernel) = (kernel.is_some(), kernel.unwrap_or_default().trim().to_owned());
        Ok(Unreadable {
            lba: lba.get(),
            sectors,
            kind,
            path: path.to_owned(),
            was_read,
            verdict,
            reason,
            kernel,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(counts: &[(&'static str, u64)]) -> BTreeMap<&'static str, Vec<Place>> {
        let all = |&(kind, count): &(&'static str, u64)| {
            (kind, (0..count).map(|at| (Lba::new(8 * at), kind, String::new())).collect())
        };
        counts.iter().map(all).collect()
    }

    #[test]
    fn each_kind_gets_its_share_and_what_it_has_not_goes_to_the_others() {
        let units = units(&[("superblock", 1), ("file", 100), ("journal", 3)]);
        let chosen = chosen(&units, 14);
        let of = |kind: &str| chosen.iter().filter(|(_, of, _)| *of == kind).count();
        assert_eq!((of("superblock"), of("journal"), of("file"), chosen.len()), (1, 3, 10, 14));
        let files: Vec<u64> =
            chosen.iter().filter(|(_, of, _)| *of == "file").map(|(lba, ..)| lba.get() / 8).collect();
        assert_eq!(files, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90], "equally far from each other");
        assert_eq!(super::chosen(&units, 1000).len(), 104, "no more than there are");
    }
}
