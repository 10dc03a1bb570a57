//! Restores the state of the core of a demand-paged drive.

use strobe_nand::Nand;
use strobe_types::{BlockId, Geometry, Lpn, Ppa};

use crate::gc::VictimPolicy;
use crate::journal::Clock;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::restore::Restorer;
use crate::recovery::damaged;
use crate::scan::{UnitFound, scan, stream_on_flash};
use crate::{Recovery, RecoveryError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Translation,
    Unknown,
}

impl<N: Nand, V: VictimPolicy> Restorer<'_, N, V> {
    /// Restores the map from every page. `shared` and `foreign` are the log's, as of its end `clock`.
    pub(crate) fn adopt_paged(
        &mut self,
        clock: Clock,
        shared: &[u32],
        foreign: &[u32],
        report: &mut Recovery,
    ) -> Result<(), RecoveryError> {
        let geometry = self.0.nand.geometry().clone();
        let blocks: Vec<BlockId> = self.0.blocks.usable().collect();
        let units = self.0.map.count();
        let from_start = blocks.iter().map(|&block| (block, 0));
        let scanned = scan(&mut self.0.nand, from_start, false, units, report)?;
        self.0.stats.host_units_written = clock.host_units;
        self.0.sequence = self.0.sequence.max(scanned.next_sequence).max(clock.sequence);
        if let Some(sharing) = &mut self.0.map.sharing {
            sharing.restore(shared, self.0.config.logical_units).or_else(damaged)?;
        }
        // Newest pages first: a shared or foreign unit in the log counts only if no page after the epoch
        // names it.
        let newest = self.adopt_newest(&scanned.units, clock.sequence, report);
        self.adopt_shared(foreign, &newest, clock.sequence, report)?;
        self.check_entries()?;
        self.check_translation_pages(&geometry)?;
        self.count_valid(&geometry)?;
        // `mapped` counts host units only.
        self.0.map.mapped -= self.0.map.mapped_from(self.0.config.logical_units);
        self.find_stale(&newest, clock.sequence);
        self.resume_open(&blocks, &scanned.units, &geometry);
        for &block in &blocks {
            self.restore_block(block, &geometry, report);
        }
        self.0.wait(report);
        Ok(())
    }

    /// Maps every unit to its newest page, unless the unit was trimmed later. Returns the sequence numbers of
    /// these pages.
    fn adopt_newest(&mut self, units: &[UnitFound], epoch: u64, report: &mut Recovery) -> Vec<u64> {
        let mut newest: Vec<Option<(u64, Ppa)>> = vec![None; self.0.map.count() as usize];
        for found in units {
            let known = &mut newest[found.lpn.index()];
            // If a page holds two versions of the unit, the later position counts.
            *known = (*known).max(Some((found.sequence, found.ppa)));
        }
        for (lpn, found) in (0..).map(Lpn::new).zip(&newest) {
            let &Some((sequence, ppa)) = found else { continue };
            if let Some(trims) = self.0.store.trims()
                && lpn.get() < self.0.config.logical_units
            {
                // A page from after the epoch is newer than any logged trim.
                if sequence < epoch && trims.has(lpn) {
                    continue;
                }
                trims.written(lpn);
            }
            self.0.map.set(lpn, ppa);
            report.units_found += 1;
        }
        newest.into_iter().map(|found| found.map_or(0, |(sequence, _)| sequence)).collect()
    }

    /// Maps foreign units and the owners in the virtual map, as of the end of the epoch. Units with newer
    /// pages are skipped.
    fn adopt_shared(
        &mut self,
        foreign: &[u32],
        newest: &[u64],
        epoch: u64,
        report: &mut Recovery,
    ) -> Result<(), RecoveryError> {
        let units = self.0.nand.geometry().units();
        let is_newer = |lpn: Lpn| newest[lpn.index()] >= epoch;
        for (lpn, &word) in self.0.map.lpns().zip(foreign) {
            let Some(place) = word.checked_sub(1) else { continue };
            if place >= units {
                return damaged(format!("{lpn:?} is mapped to {place}, which is out of range"));
            }
            if is_newer(lpn) {
                self.0.store.record_name(lpn, false)
            } else {
                report.units_found += u64::from(self.0.map.set(lpn, Ppa::new(place)).is_none())
            }
        }
        let Some(sharing) = &self.0.map.sharing else { return Ok(()) };
        let entries: Vec<_> =
            sharing.entries().map(|(vpn, owners)| (vpn, sharing.entry(vpn), owners)).collect();
        for (vpn, entry, owners) in entries {
            let stay = owners.iter().filter(|&&lpn| !is_newer(lpn));
            stay.for_each(|&lpn| report.units_found += u64::from(self.0.map.set(lpn, entry).is_none()));
            // An owner that a newer page names has left the shared unit.
            match owners.map(is_newer) {
                [false, false] => {}
                [true, false] => self.0.leave_shared(owners[0], vpn),
                [false, true] => self.0.leave_shared(owners[1], vpn),
                [true, true] => {
                    if let Some(sharing) = &mut self.0.map.sharing {
                        sharing.drop_owner(vpn, owners[0]);
                    }
                    self.0.store.entry_changed(vpn.get());
                }
            }
        }
        Ok(())
    }

    fn check_translation_pages(&self, geometry: &Geometry) -> Result<(), RecoveryError> {
        let Some(translation) = self.0.store.paged() else { return Ok(()) };
        for page in 0..translation.pages {
            let first = translation.first_unit(page);
            let place = self.0.map.get(first).map(|ppa| geometry.page_of(ppa));
            for at in 0..geometry.units_per_page() {
                let expected = place.map(|ppn| geometry.first_unit_of_page(ppn).plus(at));
                if self.0.map.get(first.plus(at)) != expected {
                    return damaged(format!("translation page {page} is not on one flash page"));
                }
            }
        }
        Ok(())
    }

    /// Marks translation pages that may be older than a unit they map, or than a trim.
    fn find_stale(&mut self, newest: &[u64], epoch: u64) {
        let translation = self.0.store.translation();
        for page in 0..translation.pages {
            let written = newest[translation.first_unit(page).index()];
            let has_trimmed = |lpn| translation.trims.as_ref().is_some_and(|trims| trims.has(lpn));
            let sharing = self.0.map.sharing.as_ref();
            let is_foreign =
                |lpn| translation.trims.as_ref().is_some_and(|trims| trims.is_foreign(lpn) == Some(true));
            let is_newer = |lpn: Lpn| match self.0.map.get(lpn) {
                // No record tells when the unit became shared. The page may be current, but counts as stale.
                Some(entry) if sharing.is_some_and(|sharing| sharing.vpn(entry).is_some()) => true,
                // No record tells when the other owner of a foreign unit left.
                Some(_) if is_foreign(lpn) => true,
                Some(_) => newest[lpn.index()] > written,
                // No record tells when the unit was trimmed: a page from before the epoch counts as stale.
                None => written > 0 && written < epoch && has_trimmed(lpn),
            };
            let is_stale = translation.entries(page).any(is_newer);
            translation.is_stale[page as usize] = is_stale;
        }
    }

    /// Resumes partly filled blocks, and retires blocks with a failed program.
    fn resume_open(&mut self, blocks: &[BlockId], units: &[UnitFound], geometry: &Geometry) {
        let mut kinds = vec![Kind::Unknown; geometry.blocks() as usize];
        let logical_units = self.0.config.logical_units;
        for found in units {
            let is_host = found.lpn.get() < logical_units;
            let kind = if is_host { Kind::Host } else { Kind::Translation };
            kinds[geometry.block_of(found.ppa).index()] = kind;
        }
        let usable: Vec<BlockId> = blocks
            .iter()
            .copied()
            .filter(|&block| {
                let flash = self.0.nand.block(block);
                flash.pages_programmed > 0 && !flash.half_erased
            })
            .collect();
        for &block in &usable {
            if kinds[block.index()] == Kind::Translation {
                self.0.store.translation().blocks.push(block);
            }
            if self.has_failed(block, geometry) {
                self.0.blocks.retire(block);
            }
        }
        // No record tells the lane of a block, but no kind has more partly filled blocks than its streams
        // have lanes. Blocks of unknown kind come last and fill the remaining lanes.
        for kind in [Kind::Host, Kind::Translation, Kind::Unknown] {
            for &block in usable.iter().filter(|block| kinds[block.index()] == kind) {
                let pages = self.0.nand.block(block).pages_programmed;
                let is_free = self.0.blocks.state(block) == BlockState::Free;
                if is_free && pages < geometry.pages_per_block() {
                    self.resume_block(block, pages, kind, geometry);
                }
            }
        }
    }

    /// True if the program of a page has failed.
    fn has_failed(&self, block: BlockId, geometry: &Geometry) -> bool {
        (0..self.0.nand.block(block).pages_programmed).map(|page| geometry.page(block, page)).any(|ppn| {
            let first = geometry.first_unit_of_page(ppn);
            // The page has a sequence number but no owner. After a power cut, the number would be 0.
            let is_written = self.0.nand.record(ppn).is_some_and(|record| record.sequence > 0);
            is_written && (0..geometry.units_per_page()).all(|at| self.0.nand.lpn(first.plus(at)).is_none())
        })
    }

    fn resume_block(&mut self, block: BlockId, pages: u32, kind: Kind, geometry: &Geometry) {
        let translation = self.0.streams.table.translation;
        // With placement handles, pages name their stream.
        let named = self.0.streams.handles.as_ref().and_then(|_| stream_on_flash(&self.0.nand, block));
        for stream in self.0.streams.ids() {
            let fits = match kind {
                _ if named.is_some() => named == Some(stream),
                Kind::Host => stream != translation,
                Kind::Translation => stream == translation,
                Kind::Unknown => true,
            };
            if !fits {
                continue;
            }
            let frontier = &mut self.0.streams[stream];
            let home = frontier.lane_on(geometry.plane_of(block));
            let lanes = home.into_iter().chain(0..frontier.lanes());
            for lane in lanes {
                if frontier.resume(lane, block, pages, geometry) {
                    self.0.blocks.open(block, stream);
                    if stream == translation && kind == Kind::Unknown {
                        self.0.store.translation().blocks.push(block);
                    }
                    return;
                }
            }
        }
    }
}
