//! Copies as a command of the drive.

use strobe_nand::{Cause, Nand, Unit, When};
use strobe_types::Lpn;

use crate::gc::VictimPolicy;
use crate::map::page::PageMap;
use crate::map::page::core::Core;
use crate::place::WriteContext;
use crate::{Done, FtlError};

/// Why a unit cannot be shared.
enum Unshared {
    Physical,
    ThirdOwner,
    MapFull,
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Copies unit by unit: shared if that is possible, else read and programmed.
    pub(super) fn copy_units(&mut self, now: When, from: Lpn, to: Lpn, count: u32) -> Done {
        self.core.refuse_at_end_of_life()?;
        let mut finished = now;
        let mut arrived = now;
        let mut units = Vec::new();
        let mut page_read = None;
        for offset in 0..count {
            let (source, destination) = (from.plus(offset), to.plus(offset));
            if self.core.is_stopped_at(source.get()) {
                self.core.heed_stop()?;
            }
            if self.core.store.is_paged() {
                let next = self.look_up_copied(now, source, destination)?;
                arrived = self.core.nand.both(arrived, next);
                // That may have moved what was read.
                page_read = None;
            }
            if self.core.map.locate(source).is_none() {
                let next = self.pager().look_up_changed(now, destination);
                finished = self.core.nand.both(finished, next);
                self.core.unmap(destination);
                let next = self.core.commit_if_full(now)?;
                finished = self.core.nand.both(finished, next);
                continue;
            }
            match self.share(source, destination) {
                Ok(()) => {
                    self.core.stats.copies.logical_units += 1;
                    let next = self.core.commit_if_full(now)?;
                    finished = self.core.nand.both(finished, next);
                    continue;
                }
                Err(Unshared::ThirdOwner) => self.core.stats.copies.third_owner_units += 1,
                Err(Unshared::MapFull) => self.core.stats.copies.map_full_units += 1,
                Err(Unshared::Physical) => {}
            }
            self.core.stats.copies.physical_units += 1;
            // Making room may have moved it.
            let Some(ppa) = self.core.map.locate(source) else { continue };
            // Neighbours on the same page come with one read.
            let page = (self.core.nand.geometry().page_of(ppa), self.core.nand.part_of(ppa));
            if page_read.replace(page) != Some(page) {
                let wanted = self.core.nand.wanted([ppa].into_iter());
                let next = self.core.nand.read(now, page.0, wanted, Cause::Copy).when;
                arrived = self.core.nand.both(arrived, next);
            }
            if self.core.nand.has_losses() && self.core.nand.is_lost(ppa) {
                let at = self.core.nand.both(finished, arrived);
                return Err(FtlError::Unreadable { lpn: source, at });
            }
            units.push(Unit { lpn: destination, payload: self.core.nand.payload(ppa) });
            if units.len() >= Self::COPY_UNITS {
                let next = self.write_copied(arrived, &mut units)?;
                finished = self.core.nand.both(finished, next);
                // Garbage collection may have moved what was read.
                page_read = None;
            }
        }
        let written = self.write_copied(arrived, &mut units)?;
        Ok(self.core.nand.both(finished, written))
    }

    /// When the map entries are known that a copy of one unit needs: that of `source`, and, where it can be shared, all that
    /// change.
    fn look_up_copied(&mut self, now: When, source: Lpn, destination: Lpn) -> Done {
        if !self.core.store.is_paged() || self.core.map.sharing.is_none() {
            return Ok(self.pager().look_up(now, source, 1));
        }
        let first = self.pager().use_entry(now, source)?;
        let second = self.pager().use_changed(now, destination)?;
        Ok(self.core.nand.both(first, second))
    }

    /// Units read before they are programmed.
    const COPY_UNITS: usize = 256;

    fn write_copied(&mut self, now: When, units: &mut Vec<Unit<N::Payload>>) -> Done {
        let done = self.write_host(now, WriteContext::of(Cause::Copy), units, Core::settle);
        units.clear();
        done
    }

    /// Makes `destination` the second owner of what `source`, which is mapped, holds.
    fn share(&mut self, source: Lpn, destination: Lpn) -> Result<(), Unshared> {
        if source == destination {
            return Ok(());
        }
        let (held, replaced) = (self.core.map.get(source), self.core.map.get(destination));
        let (Some(sharing), Some(ppa)) = (&self.core.map.sharing, held) else {
            return Err(Unshared::Physical);
        };
        if sharing.vpn(ppa).is_some() {
            // Copied before: nothing to do if it was to here.
            return if held == replaced { Ok(()) } else { Err(Unshared::ThirdOwner) };
        }
        let frees_entry = replaced.is_some_and(|entry| sharing.vpn(entry).is_some());
        if !frees_entry && !sharing.has_room() {
            return Err(Unshared::MapFull);
        }
        self.core.unmap(destination);
        let sharing = self.core.map.sharing.as_mut().ok_or(Unshared::Physical)?;
        let vpn = sharing.share(ppa, [source, destination]).ok_or(Unshared::MapFull)?;
        let entry = sharing.entry(vpn);
        self.core.map.mapped += 1;
        for lpn in [source, destination] {
            self.core.map.set(lpn, entry);
            self.core.store.name_changed(lpn, false);
            self.core.store.unit_shared(lpn);
        }
        self.core.store.entry_moved(vpn.get());
        self.core.store.owners_changed(self.core.nand.geometry().block_of(ppa));
        Ok(())
    }
}
