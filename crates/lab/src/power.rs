//! Power cuts during a run, recovery, and verification of the drive's durability.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::{DataMode, DriveConfig, KeyError, Recovery, Simulated, Verdict};
use strobe_types::SimTime;

use crate::RunError;

/// Power cuts, counted in flash operations: programs and erases since the drive was new. An interrupted
/// operation leaves a page or block without readable content. After each cut the drive recovers, every
/// mapping unit is compared with its allowed contents, and the run continues. Needs drive.ftl.durable_map =
/// true or "pages", and drive.nand.data = "stamp" or "bytes".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// Flash operations during which power fails, in ascending order. Default none.
    #[schemars(inner(range(min = 1, max = 9_223_372_036_854_775_807u64)))]
    pub cut_at: Vec<u64>,
    /// Flash operations between power cuts, counted from the start of the measurement or from the last cut. 0
    /// (default): no such cuts.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
    pub cut_every: u64,
}

impl PowerConfig {
    /// True if power never fails.
    pub fn is_steady(&self) -> bool {
        self.cut_at.is_empty() && self.cut_every == 0
    }

    pub(crate) fn check(&self, drive: &DriveConfig) -> Result<(), KeyError> {
        let wrong = |key: &str, given: &str, allowed: &str| Err(KeyError::value(key, given, allowed, ""));
        if self.is_steady() {
            return Ok(());
        }
        if !drive.ftl.durable_map.is_durable() {
            return wrong("drive.ftl.durable_map", "false", "true with power cuts ([power], --cut)");
        }
        if drive.nand.data == DataMode::None {
            let allowed =
                "\"stamp\" or \"bytes\" with power cuts, after which the contents of flash are verified";
            return wrong("drive.nand.data", "\"none\"", allowed);
        }
        if !self.cut_at.is_sorted_by(|a, b| a < b) {
            let given = format!("{:?}", self.cut_at);
            return wrong("power.cut_at", &given, "operations in ascending order, each once");
        }
        Ok(())
    }
}

/// One power cut.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PowerCutResult {
    /// Number of the interrupted flash operation.
    pub operation: u64,
    /// Host commands completed before that operation.
    pub host_commands: u64,
    /// Virtual time at which power was back, in ns.
    pub virtual_ns: u64,
    /// Recovery of the map.
    pub recovery: RecoveryResult,
    /// Comparison of the recovered drive with the oracle.
    pub verified: VerifiedResult,
}

/// Counters of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoveryResult {
    /// Virtual time until the drive took commands again, in ns.
    pub time_ns: u64,
    /// Pages of the map's log that were read.
    pub log_pages: u64,
    /// Checkpoint segments among these pages.
    pub segments: u64,
    /// Epochs of the journal that were replayed.
    pub epochs: u64,
    /// Data pages programmed after the last epoch, read for their out-of-band area.
    pub scanned_pages: u64,
    /// Mapping units found in these data pages.
    pub units_found: u64,
    /// Unreadable log and data pages.
    pub illegible_pages: u64,
    /// Blocks erased.
    pub blocks_erased: u64,
}

impl RecoveryResult {
    /// Converts `recovery`.
    pub fn of(recovery: &Recovery) -> Self {
        let time_ns = recovery.duration_ns();
        let Recovery { log_pages, segments, epochs, scanned_pages, .. } = *recovery;
        let Recovery { units_found, illegible_pages, blocks_erased, .. } = *recovery;
        Self {
            time_ns,
            log_pages,
            segments,
            epochs,
            scanned_pages,
            units_found,
            illegible_pages,
            blocks_erased,
        }
    }
}

/// Comparison of every mapping unit after a cut with its allowed contents: the content at the last flush, or
/// any later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerifiedResult {
    /// Mapping units compared: all.
    pub units: u64,
    /// Units changed since the last flush.
    pub unflushed: u64,
    /// Of `unflushed`, units that kept their newest content.
    pub newest: u64,
    /// Of `unflushed`, units that fell back to an older content, which is allowed.
    pub older: u64,
    /// Units with any other content. More than 0 is a bug in Strobe, and the run fails.
    pub wrong: u64,
}

impl VerifiedResult {
    fn of(verdict: &Verdict) -> Self {
        let &Verdict { units, unflushed, newest, older, .. } = verdict;
        Self { units, unflushed, newest, older, wrong: verdict.wrong.len() as u64 }
    }
}

pub(crate) struct PowerSwitch {
    config: PowerConfig,
    /// Remaining operations of `cut_at`, the next one last.
    at: Vec<u64>,
    is_measuring: bool,
    next: Option<u64>,
    pub(crate) cuts: Vec<PowerCutResult>,
}

impl PowerSwitch {
    pub(crate) fn new(config: &PowerConfig, drive: &mut dyn Simulated) -> Option<Self> {
        if config.is_steady() {
            return None;
        }
        drive.watch();
        let at = config.cut_at.iter().rev().copied().collect();
        let mut switch =
            Self { config: config.clone(), at, is_measuring: false, next: None, cuts: Vec::new() };
        switch.plan(drive);
        Some(switch)
    }

    pub(crate) fn begin_measuring(&mut self, drive: &mut dyn Simulated) {
        self.is_measuring = true;
        self.plan(drive);
    }

    fn plan(&mut self, drive: &mut dyn Simulated) {
        let done = drive.operations();
        // Operations up to `done` have happened, perhaps in a recovery, and can no longer be cut.
        while self.at.last().is_some_and(|&at| at <= done) {
            self.at.pop();
        }
        let every = match self.config.cut_every {
            every if every > 0 && self.is_measuring => Some(done + every),
            _ => None,
        };
        self.next = self.at.last().copied().into_iter().chain(every).min();
        if let Some(next) = self.next {
            drive.plan_cut(next);
        }
    }

    /// Warning about planned cuts that did not happen.
    pub(crate) fn missed(&self, operations: u64) -> Option<String> {
        let was_cut = |at: &&u64| self.cuts.iter().any(|cut| cut.operation == **at);
        let missed: Vec<u64> = self.config.cut_at.iter().filter(|at| !was_cut(at)).copied().collect();
        let Some(&first) = missed.first() else {
            let none = self.config.cut_every > 0 && self.cuts.is_empty();
            return none.then(|| {
                format!(
                    "power was never cut: the measurement had fewer than {} flash operations \
                     (power.cut_every); use a longer run.measure or a smaller number",
                    self.config.cut_every
                )
            });
        };
        let others = match missed.len() - 1 {
            0 => String::new(),
            more => format!(" and at {more} more"),
        };
        // A planned operation that happened without a cut was part of a recovery.
        Some(if first > operations {
            format!(
                "power was never cut at flash operation {first}{others} (power.cut_at, --cut): the run had only \
                 {operations}; use a longer run.measure or a smaller number"
            )
        } else {
            format!(
                "power was never cut at flash operation {first}{others} (power.cut_at, --cut): it was part \
                 of a recovery; use another number"
            )
        })
    }

    /// If power was cut: restarts and verifies the drive, and returns the end of recovery.
    pub(crate) fn after_command(
        &mut self,
        drive: &mut Box<dyn Simulated>,
        host_commands: u64,
    ) -> Result<Option<SimTime>, RunError> {
        let Some(operation) = self.next.filter(|_| drive.was_cut()) else { return Ok(None) };
        // The drive continued past the planned cut. `restart` returns to the flash contents at the cut.
        let (mut back, recovery) = drive.freeze().restart(SimTime::ZERO)?;
        back.check()?;
        let verdict = back.verify().unwrap_or_default();
        self.cuts.push(PowerCutResult {
            operation,
            host_commands,
            virtual_ns: recovery.started.as_ns(),
            recovery: RecoveryResult::of(&recovery),
            verified: VerifiedResult::of(&verdict),
        });
        if let Some(&unit) = verdict.wrong.first() {
            return Err(RunError::Lost { operation, units: verdict.wrong.len(), unit: unit.get() });
        }
        *drive = back;
        self.plan(drive.as_mut());
        Ok(Some(recovery.finished))
    }
}
