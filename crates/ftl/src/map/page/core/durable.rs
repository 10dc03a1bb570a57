//! Durable map: writes changes of the map to the journal.

use strobe_nand::{Nand, Unit, When};
use strobe_types::{BlockId, Geometry, Lpn, Ppa};

use crate::gc::VictimPolicy;
use crate::journal::format::{Clock, Record};
use crate::journal::{Journal, SharedWords};
use crate::map::page::core::Core;
use crate::map::page::core::streams::Streams;
use crate::map::page::map::entries::Entries;
use crate::map::page::map::store::MapStore;
use crate::{Done, FtlError};

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Tells the log of a program that completes at `done`.
    #[inline(always)]
    pub(crate) fn data_programmed(&mut self, done: When) {
        self.store.data_programmed(&mut self.nand, done);
    }

    /// Records the changed map entries of `units`, now stored from `first` on.
    #[cold]
    pub(crate) fn record_run(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        for (at, unit) in (0..).zip(units) {
            // The entry of a shared unit is a virtual number, which a move does not change.
            if self.map.get(unit.lpn) == Some(first.plus(at)) {
                self.store.unit_changed(unit.lpn);
            }
        }
    }

    pub(crate) fn commit_if_full(&mut self, now: When) -> Done {
        if self.store.journal().is_some_and(Journal::is_full) { self.commit(now) } else { Ok(now) }
    }

    /// Ends the epoch if anything changed. Returns the time when all changes are on flash.
    pub(crate) fn commit(&mut self, now: When) -> Done {
        if let (Some(FtlError::MapWornOut), true) = (&self.end_of_life, self.store.journal().is_some()) {
            // The changes of the failed epoch exist only in memory: no later epoch may report success.
            return Err(FtlError::MapWornOut);
        }
        let mut changes = None;
        let done = match &mut self.store {
            MapStore::Memory => return Ok(now),
            MapStore::Journaled(journal) if journal.is_clean() => {
                let durable = journal.durable_at();
                return Ok(self.nand.both(now, durable));
            }
            MapStore::Journaled(journal) => {
                // Records of an epoch: the changed entries, then the open blocks, which recovery scans, and
                // the retiring blocks.
                let (units, shared) = journal.take_changes();
                changes = Some((units.len() + shared.len()) as u64);
                let mut records = map_records(&self.map, &units);
                if let Some(sharing) = &self.map.sharing {
                    records.extend(shared.into_iter().map(|vpn| sharing.record(vpn)));
                }
                records.extend(block_records(&self.streams, &self.blocks.retiring, self.nand.geometry()));
                let host_units = self.stats.host_units_written;
                let clock = Clock { tick: self.tick, sequence: self.sequence, host_units };
                journal.end_epoch(&mut self.nand, now, records, clock, &|at| self.map.table_word(at))
            }
            MapStore::Paged(translation) => match &mut translation.trims {
                None => return Ok(now),
                Some(trims) => {
                    let sharing = self.map.sharing.as_ref();
                    let entry = |vpn| sharing.map_or([0; _], |sharing| sharing.words_of(vpn));
                    let host_units = self.stats.host_units_written;
                    let words = SharedWords { entry: &entry, place: &|lpn| self.map.word(Lpn::new(lpn)) };
                    trims.commit(&mut self.nand, now, self.sequence, host_units, words)
                }
            },
        };
        if let Some(changes) = changes {
            self.log().epoch(changes);
        }
        done.map_err(|_| self.end_of_life.insert(FtlError::MapWornOut).clone())
    }
}

/// Merges runs of consecutive units with consecutive addresses, or all unmapped, into one record.
fn map_records(map: &Entries, units: &[u32]) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for &lpn in units {
        let place = map.word(Lpn::new(lpn));
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

fn block_records<'a>(
    streams: &'a Streams,
    retiring: &'a [BlockId],
    geometry: &'a Geometry,
) -> impl Iterator<Item = Record> + 'a {
    let open = (0..).zip(streams.iter()).flat_map(move |(stream, frontier)| {
        let record = move |(lane, block, pages): (u32, BlockId, u32)| Record::Open {
            stream,
            lane,
            block: block.get(),
            pages,
        };
        frontier.open_lanes(geometry).map(record)
    });
    open.chain(retiring.iter().map(|block| Record::Retiring { block: block.get() }))
}
