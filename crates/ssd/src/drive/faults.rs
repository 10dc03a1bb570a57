//! Planned read errors: each waits for its moment, and for data at its place.

use strobe_ftl::Inspectable;
use strobe_nand::{Lasts, Nand};
use strobe_types::{Lpn, Ppa, Ppn, SimTime, Stored};

use super::Drive;

/// A read error that is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(crate) struct Fault {
    pub(crate) place: FaultPlace,
    /// Mapping units that the host has written before.
    pub(crate) after_writes: u64,
    /// Virtual time before which it does not come.
    pub(crate) after: SimTime,
    pub(crate) lasts: Lasts,
}

/// The place of a planned read error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(crate) enum FaultPlace {
    /// Wherever a logical unit lies then.
    Unit(Lpn),
    /// Flash page `part` of the `parts` that are programmed together as `page`.
    Page { page: Ppn, part: u32, parts: u32 },
}

impl<F: Inspectable> Drive<F> {
    /// This drive with `faults` to come.
    #[must_use]
    pub(crate) fn with_faults(self, faults: Vec<Fault>) -> Self {
        Self { faults, ..self }
    }

    /// Brings about the faults that are due. To be called before a command does anything.
    #[inline(always)]
    pub(super) fn bring_faults(&mut self) {
        if !self.faults.is_empty() {
            self.bring_due_faults();
        }
    }

    #[cold]
    fn bring_due_faults(&mut self) {
        let (now, written) = (self.events.now(), self.host.units_written);
        let mut faults = std::mem::take(&mut self.faults);
        faults.retain(|fault| {
            let is_due = now >= fault.after && written >= fault.after_writes;
            !(is_due && self.bring(fault))
        });
        self.faults = faults;
    }

    /// Makes `lpn` unreadable where it lies now; false if it does not lie on flash.
    pub(super) fn lose(&mut self, lpn: Lpn) -> bool {
        let place = self.ftl.locate(lpn);
        if let Some(ppa) = place {
            self.ftl.nand_mut().lose(ppa, Lasts::UntilErased);
        }
        place.is_some()
    }

    /// Brings `fault` about; false if nothing is stored at its place.
    fn bring(&mut self, fault: &Fault) -> bool {
        let nand = self.ftl.nand();
        let units: Vec<Ppa> = match fault.place {
            FaultPlace::Unit(lpn) => self.ftl.locate(lpn).into_iter().collect(),
            FaultPlace::Page { page, .. } if !nand.is_programmed(page) => Vec::new(),
            FaultPlace::Page { page, part, parts } => {
                let per_part = self.geometry.units_per_page() / parts;
                let first = self.geometry.first_unit_of_page(page).plus(part * per_part);
                (0..per_part).map(|at| first.plus(at)).collect()
            }
        };
        for &ppa in &units {
            self.ftl.nand_mut().lose(ppa, fault.lasts);
        }
        !units.is_empty()
    }
}
