//! What the map keeps on flash: changes are noted here and end up in the journal.

use strobe_nand::{Nand, Unit};
use strobe_types::{Lpn, PackedPpa, Ppa, SimTime};

use super::PageMap;
use super::sharing::Sharing;
use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::journal::format::{Clock, Record};

/// A map entry as a word of the tables: 0 is unmapped.
pub(super) fn word(entry: PackedPpa) -> u32 {
    entry.get().map_or(0, |ppa| ppa.get() + 1)
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Notes that the map entry of `lpn` has changed.
    #[inline(always)]
    pub(super) fn note(&mut self, lpn: Lpn) {
        if let Some(journal) = &mut self.journal {
            journal.unit_changed(lpn.get());
        }
    }

    /// Notes that `units` lie at `first` and behind it now; those that their owners share are not in the
    /// map with that address.
    #[cold]
    pub(super) fn note_run(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        let Some(journal) = &mut self.journal else { return };
        for (at, unit) in (0..).zip(units) {
            if self.map[unit.lpn.index()] == PackedPpa::some(first.plus(at)) {
                journal.unit_changed(unit.lpn.get());
            }
        }
    }

    /// Ends the epoch if much has changed since the last one.
    pub(super) fn commit_if_full(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        let trims = || self.translation.as_ref().and_then(|translation| translation.trims.as_ref());
        let is_full = match &self.journal {
            Some(journal) => journal.is_full(),
            None => trims().is_some_and(|trims| trims.is_full()),
        };
        match is_full {
            true => self.commit(now),
            false => Ok(now),
        }
    }

    /// Makes the map as it is now survive a power cut; returns when it does.
    pub(super) fn commit(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        let Some(journal) = &self.journal else { return self.commit_trims(now) };
        if let Some(FtlError::MapWornOut) = self.end_of_life {
            // The changes of the epoch that failed are nowhere but in memory.
            return Err(FtlError::MapWornOut);
        }
        if journal.is_clean() {
            return Ok(now.max(journal.durable_at()));
        }
        let Some(mut journal) = self.journal.take() else { return Ok(now) };
        let (units, shared) = journal.take_changes();
        let mut records = self.map_records(&units);
        if let Some(sharing) = &self.sharing {
            records.extend(shared.into_iter().map(|vpn| sharing.record(vpn)));
        }
        records.extend(self.block_records());
        let clock = Clock { tick: self.tick, sequence: self.sequence, host_units: self.host_units_written };
        let (map, sharing) = (&self.map, &self.sharing);
        let words = |at: u64| table_word(map, sharing.as_ref(), at);
        let done = journal.end_epoch(&mut self.nand, now, records, clock, &words);
        self.journal = Some(journal);
        done.map_err(|_| self.end_of_life.insert(FtlError::MapWornOut).clone())
    }

    /// Runs of neighbours that lie beside each other, or nowhere, become one record.
    fn map_records(&self, units: &[u32]) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        for &lpn in units {
            let place = word(self.map[lpn as usize]);
            if let Some(Record::Map { lpn: first, entry, count }) = records.last_mut()
                && *first + *count == lpn
                && place == if *entry == 0 { 0 } else { *entry + *count }
            {
                *count += 1;
                continue;
            }
            records.push(Record::Map { lpn, entry: place, count: 1 });
        }
        records
    }

    fn block_records(&self) -> impl Iterator<Item = Record> + '_ {
        let geometry = self.nand.geometry();
        let open = self.frontiers.iter().enumerate().flat_map(move |(stream, frontier)| {
            frontier.open_lanes(geometry).map(move |(lane, block, pages)| Record::Open {
                stream: stream as u32,
                lane,
                block: block.get(),
                pages,
            })
        });
        open.chain(self.retiring.iter().map(|block| Record::Retiring { block: block.get() }))
    }
}

/// Word `at` of the tables that checkpoints consist of: the map, then the virtual map.
fn table_word(map: &[PackedPpa], sharing: Option<&Sharing>, at: u64) -> u32 {
    match map.get(at as usize) {
        Some(&entry) => word(entry),
        None => sharing.map_or(0, |sharing| sharing.word(at - map.len() as u64)),
    }
}
