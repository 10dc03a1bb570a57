//! Planned read errors. A fault occurs when it is due and its place (unit or flash page) holds data.

use strobe_ftl::Inspectable;
use strobe_nand::{Lasts, Nand};
use strobe_types::{Lba, Lpn, Ppa};

use super::Drive;
use super::planned::{Fault, FaultPlace, Planned};

impl<F: Inspectable> Drive<F> {
    #[must_use]
    pub(crate) fn with_faults(self, faults: Vec<Fault>) -> Self {
        Self { faults: Planned::new(faults), ..self }
    }

    /// Injects due faults. Must run before a command is executed.
    #[inline(always)]
    pub(super) fn bring_faults(&mut self) {
        if !self.faults.is_empty() {
            self.bring_due_faults();
        }
    }

    #[cold]
    fn bring_due_faults(&mut self) {
        let mut faults = std::mem::take(&mut self.faults);
        self.report_programs(&mut faults);
        let (now, written) = (self.events.now(), self.host.units_written);
        let due = faults.take_due(now, written, |place| self.is_stored(place));
        due.iter().for_each(|fault| self.bring(fault));
        // The places of waiting faults have just been checked, so only later programs matter.
        self.ftl.nand_mut().watch_programs(faults.is_waiting());
        self.faults = faults;
    }

    fn report_programs(&mut self, faults: &mut Planned) {
        let units = self.geometry.units_per_page();
        for page in self.ftl.nand_mut().watch_programs(true) {
            faults.on_programmed(page);
            let (nand, first) = (self.ftl.nand(), self.geometry.first_unit_of_page(page));
            for lpn in (0..units).filter_map(|at| nand.lpn(first.plus(at))) {
                faults.on_stored(FaultPlace::Unit(lpn), FaultPlace::Unit(lpn));
            }
        }
    }

    /// Marks the destination of a copy as a candidate: a logical copy maps units without a program.
    pub(super) fn report_copy(&mut self, destination: Lba, sectors: u64) {
        if sectors > 0 && self.faults.is_waiting() {
            let last = Lba::new(destination.get() + sectors - 1);
            let [first, last] = [destination, last].map(|lba| FaultPlace::Unit(self.geometry.lpn_of(lba)));
            self.faults.on_stored(first, last);
        }
    }

    /// Makes `lpn` unreadable; false if it is not on flash.
    pub(super) fn lose(&mut self, lpn: Lpn) -> bool {
        let place = self.ftl.locate(lpn);
        if let Some(ppa) = place {
            self.ftl.nand_mut().lose(ppa, Lasts::UntilErased);
        }
        place.is_some()
    }

    fn is_stored(&self, place: FaultPlace) -> bool {
        match place {
            FaultPlace::Unit(lpn) => self.ftl.locate(lpn).is_some(),
            FaultPlace::Page { page, .. } => self.ftl.nand().is_programmed(page),
        }
    }

    fn bring(&mut self, fault: &Fault) {
        let units: Vec<Ppa> = match fault.place {
            FaultPlace::Unit(lpn) => self.ftl.locate(lpn).into_iter().collect(),
            FaultPlace::Page { page, part, parts } => {
                let per_part = self.geometry.units_per_page() / parts;
                let first = self.geometry.first_unit_of_page(page).plus(part * per_part);
                (0..per_part).map(|at| first.plus(at)).collect()
            }
        };
        for &ppa in &units {
            self.ftl.nand_mut().lose(ppa, fault.lasts);
        }
    }
}
