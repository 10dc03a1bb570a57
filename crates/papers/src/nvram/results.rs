use strobe_ssd::LogVictim;

use super::measure::{Cell, Outcome};
use super::{Absorbed, SCHEMES, Workload};

pub(super) const IN_PAPER: [&str; 3] = ["replacement-block", "log-block", "fast"];

pub(super) struct Results<'a> {
    outcomes: &'a [(Cell, Outcome)],
    host_ns: f64,
}

impl<'a> Results<'a> {
    /// Results without host time.
    pub(super) fn new(outcomes: &'a [(Cell, Outcome)]) -> Self {
        Self { outcomes, host_ns: 0.0 }
    }

    pub(super) fn with_host_ns(self, host_ns: f64) -> Self {
        Self { host_ns, ..self }
    }

    /// Host time per request in addition to the drive, in ns.
    pub(super) fn host_ns(&self) -> f64 {
        // Covers system call, VFAT, block layer and MTD on a 400 MHz PXA255.
        self.host_ns
    }

    fn cell(&self, wanted: Cell) -> Option<&'a Outcome> {
        self.outcomes.iter().find(|(cell, _)| *cell == wanted).map(|(_, of)| of)
    }

    pub(super) fn at(
        &self,
        workload: Workload,
        mapping: &str,
        absorbed: Absorbed,
        offset: u32,
    ) -> Option<&'a Outcome> {
        let mapping = SCHEMES.iter().find(|scheme| scheme.mapping == mapping)?.mapping;
        self.cell(Cell { offset, ..Cell::new(workload, mapping, absorbed) })
    }

    /// Run at partition offset 0.
    pub(super) fn find(&self, workload: Workload, mapping: &str, absorbed: Absorbed) -> Option<&'a Outcome> {
        self.at(workload, mapping, absorbed, 0)
    }

    pub(super) fn seconds(&self, workload: Workload, mapping: &str, absorbed: Absorbed) -> Option<f64> {
        self.find(workload, mapping, absorbed).map(|of| of.seconds(self.host_ns))
    }

    pub(super) fn with_victim(
        &self,
        workload: Workload,
        victim: LogVictim,
        absorbed: Absorbed,
    ) -> Option<f64> {
        let cell = Cell { victim, ..Cell::new(workload, "log-block", absorbed) };
        self.cell(cell).map(|of| of.seconds(self.host_ns))
    }

    pub(super) fn gain(&self, workload: Workload, mapping: &str) -> Option<f64> {
        Some(
            self.seconds(workload, mapping, Absorbed::No)?
                / self.seconds(workload, mapping, Absorbed::FileSystem)?,
        )
    }
}
