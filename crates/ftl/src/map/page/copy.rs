use strobe_nand::{Cause, Nand, Unit, Wanted, When};
use strobe_types::{Lpn, Ppa};

use crate::gc::VictimPolicy;
use crate::map::page::PageMap;
use crate::map::page::core::Core;
use crate::place::WriteContext;
use crate::{Done, FtlError};

/// Reason for a physical copy.
enum Unshared {
    /// No virtual map, or an unmapped source.
    Physical,
    /// The source has two owners.
    ThirdOwner,
    MapFull,
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    pub(super) fn copy_units(&mut self, now: When, from: Lpn, to: Lpn, count: u32) -> Done {
        self.core.refuse_at_end_of_life()?;
        let mut finished = now;
        let mut arrived = now;
        let mut units = Vec::new();
        let mut page_read = None;
        for offset in 0..count {
            let (source, destination) = (from.plus(offset), to.plus(offset));
            if self.core.is_stopped_at(source.get()) {
                self.core.check_stop()?;
            }
            if self.core.store.is_paged() {
                let next = self.look_up_copied(now, source, destination)?;
                arrived = self.core.both(arrived, next);
                // Fetching entries may collect, which may have moved the page last read.
                page_read = None;
            }
            // An unmapped source leaves its destination unmapped.
            if self.core.map().locate(source).is_none() {
                let next = self.pager().look_up_changed(now, destination);
                finished = self.core.both(finished, next);
                self.core.unmap(destination);
                let next = self.core.commit_if_full(now)?;
                finished = self.core.both(finished, next);
                continue;
            }
            match self.share(source, destination) {
                Ok(()) => {
                    self.core.stats.copies.logical_units += 1;
                    let next = self.core.commit_if_full(now)?;
                    finished = self.core.both(finished, next);
                    continue;
                }
                Err(Unshared::ThirdOwner) => self.core.stats.copies.third_owner_units += 1,
                Err(Unshared::MapFull) => self.core.stats.copies.map_full_units += 1,
                Err(Unshared::Physical) => {}
            }
            self.core.stats.copies.physical_units += 1;
            let Some(ppa) = self.core.map().locate(source) else { continue };
            // One read covers consecutive units on the same page.
            let page = (self.core.nand().geometry().page_of(ppa), self.core.nand().part_of(ppa));
            if page_read.replace(page) != Some(page) {
                // With demand paging, the entries of later units are not fetched yet, so each unit is read
                // alone.
                let more = if self.core.store.is_paged() { 1 } else { Self::COPY_UNITS - units.len() };
                let wanted = self.wanted_of_copy(source, destination, (count - offset).min(more as u32));
                let next = self.core.read(now, page.0, wanted, Cause::Copy).when;
                arrived = self.core.both(arrived, next);
            }
            if self.core.nand().has_losses() && self.core.nand().is_lost(ppa) {
                let at = self.core.both(finished, arrived);
                return Err(FtlError::Unreadable { lpn: source, at });
            }
            units.push(Unit { lpn: destination, payload: self.core.nand().payload(ppa) });
            if units.len() >= Self::COPY_UNITS {
                let next = self.write_copied(arrived, &mut units)?;
                finished = self.core.both(finished, next);
                // Garbage collection may have moved the page last read.
                page_read = None;
            }
        }
        let written = self.write_copied(arrived, &mut units)?;
        Ok(self.core.both(finished, written))
    }

    /// Parts of `source`'s page that one read transfers: up to `count` consecutive units to copy.
    fn wanted_of_copy(&self, source: Lpn, destination: Lpn, count: u32) -> Wanted {
        let nand = self.core.nand();
        let mut wanted = Wanted::NONE;
        let mut read = None;
        for offset in 0..count {
            let Some(ppa) = self.core.map().locate(source.plus(offset)) else { break };
            let place = (nand.geometry().page_of(ppa), nand.part_of(ppa));
            // A unit that can be shared needs no read.
            let is_shared = || self.check_share(source.plus(offset), destination.plus(offset)).is_ok();
            if *read.get_or_insert(place) != place || offset > 0 && is_shared() {
                break;
            }
            wanted.add(place.1);
        }
        wanted
    }

    fn look_up_copied(&mut self, now: When, source: Lpn, destination: Lpn) -> Done {
        if !self.core.store.is_paged() || self.core.map().sharing.is_none() {
            return Ok(self.pager().look_up(now, source, 1));
        }
        // A logical copy also changes the map entries of both units, so these must be cached.
        let first = self.pager().use_entry(now, source)?;
        let second = self.pager().use_changed(now, destination)?;
        Ok(self.core.both(first, second))
    }

    const COPY_UNITS: usize = 256;

    fn write_copied(&mut self, now: When, units: &mut Vec<Unit<N::Payload>>) -> Done {
        let done = self.write_host(now, WriteContext::of(Cause::Copy), units, Core::settle);
        units.clear();
        done
    }

    /// Address of `source` if `destination` can share it; `None` if they share it already.
    fn check_share(&self, source: Lpn, destination: Lpn) -> Result<Option<Ppa>, Unshared> {
        if source == destination {
            return Ok(None);
        }
        let (held, replaced) = (self.core.map().get(source), self.core.map().get(destination));
        let (Some(sharing), Some(ppa)) = (&self.core.map().sharing, held) else {
            return Err(Unshared::Physical);
        };
        if sharing.vpn(ppa).is_some() {
            // `source` is shared: with `destination`, which needs no change, or with a third logical unit.
            return if held == replaced { Ok(None) } else { Err(Unshared::ThirdOwner) };
        }
        // If `destination` shares another unit, its release frees a virtual entry.
        let frees_entry = replaced.is_some_and(|entry| sharing.vpn(entry).is_some());
        if frees_entry || sharing.has_space() { Ok(Some(ppa)) } else { Err(Unshared::MapFull) }
    }

    fn share(&mut self, source: Lpn, destination: Lpn) -> Result<(), Unshared> {
        // Logical copy: `source` and `destination` become the owners of one flash unit.
        let Some(ppa) = self.check_share(source, destination)? else { return Ok(()) };
        // The old unit of `destination` is released first: the share may need its virtual entry.
        self.core.unmap(destination);
        if self.core.share(ppa, [source, destination]) { Ok(()) } else { Err(Unshared::MapFull) }
    }
}
