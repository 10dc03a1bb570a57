//! Owners of flash units: one, or two with logical copy. Maps the copies of units.

use strobe_nand::{Nand, Unit};
use strobe_types::{Lpn, Ppa};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::map::sharing::{Owner, Vpn};
use crate::map::page::map::store::MapStore;

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Owner of `ppa`; of two owners, the first.
    #[inline(always)]
    pub(crate) fn owner_of(&self, ppa: Ppa) -> Lpn {
        match &self.map.sharing {
            None => self.nand.lpn(ppa).unwrap_or_else(|| panic!("FTL bug: valid unit {ppa} is padding")),
            Some(sharing) => match sharing.owner(ppa) {
                Owner::One(lpn) => lpn,
                Owner::Two(vpn) => sharing.owners(vpn)[0],
            },
        }
    }

    /// Points the owner of the unit at `from` to its copy at `to`. The caller records a changed map entry.
    #[inline(always)]
    pub(crate) fn remap(&mut self, lpn: Lpn, from: Ppa, to: Ppa) {
        if let Some(sharing) = &mut self.map.sharing {
            // Both owners hold the virtual number, so only the virtual map changes, which is recorded here.
            if let Owner::Two(vpn) = sharing.owner(from) {
                assert!(sharing.ppa(vpn) == from, "FTL bug: {vpn:?} is not at {from:?}");
                sharing.moved(vpn, to);
                return self.store.entry_moved(vpn.get());
            }
            sharing.written(to, lpn);
            self.store.record_name(lpn, false);
        }
        assert!(self.map.moved(lpn, from, to), "FTL bug: {lpn:?} is not at {from:?}");
    }

    /// Maps copies just written to addresses from `first`. `release` is called with each source.
    #[inline(always)]
    pub(crate) fn settle_copies<'s>(
        &mut self,
        units: &[Unit<N::Payload>],
        first: Ppa,
        sources: &mut impl Iterator<Item = &'s Ppa>,
        mut release: impl FnMut(&mut Self, Ppa),
    ) {
        for (at, (unit, &source)) in (0..).zip(units.iter().zip(sources)) {
            self.remap(unit.lpn, source, first.plus(at));
            release(self, source);
            self.policies.victims.written(first.plus(at), self.tick);
        }
        self.policies.on_placed(units, self.nand.geometry().block_of(first), self.config.logical_units);
        match &mut self.store {
            MapStore::Memory => {}
            MapStore::Journaled(_) => self.record_run(units, first),
            MapStore::Paged(translation) => {
                for (at, unit) in (0..).zip(units) {
                    // A move does not change the map entry of a shared unit.
                    if self.map.get(unit.lpn) == Some(first.plus(at)) {
                        translation.moved(unit.lpn);
                    }
                }
            }
        }
    }

    /// Maps both `owners` to the unit at `ppa`. False without a free virtual entry.
    pub(crate) fn share(&mut self, ppa: Ppa, owners: [Lpn; 2]) -> bool {
        let Some(sharing) = &mut self.map.sharing else { return false };
        let Some(vpn) = sharing.share(ppa, owners) else { return false };
        let entry = sharing.entry(vpn);
        self.map.mapped += 1;
        for lpn in owners {
            self.map.set(lpn, entry);
            self.store.record_name(lpn, false);
            self.store.unit_shared(lpn);
        }
        self.store.entry_moved(vpn.get());
        self.store.owners_changed(self.nand.geometry().block_of(ppa));
        true
    }

    /// Ends the sharing of `vpn`, after its owner `lpn` got another map entry. The map entry of the other
    /// owner holds the flash address again; with demand paging, that entry is cached.
    #[cold]
    pub(crate) fn leave_shared(&mut self, lpn: Lpn, vpn: Vpn) {
        let Some(sharing) = &mut self.map.sharing else { return };
        let (ppa, other) = sharing.drop_owner(vpn, lpn);
        self.map.set(other, ppa);
        self.store.owners_changed(self.nand.geometry().block_of(ppa));
        self.store.unit_left(other);
        self.store.entry_changed(vpn.get());
    }
}
