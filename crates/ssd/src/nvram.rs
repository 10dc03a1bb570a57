//! The non-volatile write cache.
//!
//! The cache survives a power cut, so a cached write is durable. Three rules ensure that no unit after a cut
//! is older than at the last flush:
//!
//! - While a unit is in the cache, no newer version is elsewhere. Every write to the unit is cached, whatever
//!   the admission policy, and the write buffer drops its version.
//! - An evicted unit stays part of the cache until it is on flash. Until then newer versions are cached as
//!   well, and a flush waits for the unit.
//! - A cached unit that is trimmed becomes a *tombstone*, which reads as zeros, until a flush makes the trim
//!   durable. Without the tombstone, flash would return an older version after a cut.
//!
//! So after a cut, the cache holds the cached units and the units on their way to flash.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use strobe_ftl::{CheckError, FtlError, MappingScheme, WriteContext};
use strobe_nand::{Bus, Cause, Nand, Payload, Unit, When};
use strobe_types::{Geometry, Lba, Lpn, SimTime, State, Stored};

use crate::command::{DataTag, Hint};
use crate::config::{NvramConfig, NvramPolicyName};
use crate::fat::metadata_sectors;
use crate::stats::NvramStats;

/// Arrival of evicted units on flash, and their departure number.
pub(crate) type Departed = Result<(When, u64), FtlError>;

#[derive(Clone, Debug)]
enum Admission {
    All,
    Units(Vec<Range<u64>>),
    /// Writes to this number of units at the start of the drive, learnt from a FAT boot sector.
    Fat(u64),
    Metadata,
}

#[derive(Clone, Debug, Stored)]
struct Entry<P> {
    /// `None` for a tombstone.
    payload: Option<P>,
    tag: DataTag,
    /// Number of the last access.
    used: u64,
}

#[derive(Clone, Debug, Stored)]
struct Leaving<P> {
    arrive: When,
    units: Vec<(Lpn, Option<P>, DataTag)>,
}

/// The non-volatile write cache with its content.
///
/// A unit occupies its slot until it is on flash. Without a free slot, a write waits for the eviction of the
/// least recently used units: whole pages, at most a stripe and a quarter of the cache.
#[derive(Clone, Debug, State)]
pub struct Nvram<P> {
    #[state(skip)]
    capacity: usize,
    #[state(skip)]
    page_units: usize,
    #[state(skip)]
    admission: Admission,
    #[state(skip)]
    read_ns: u64,
    #[state(skip)]
    write_ns: u64,
    port: Bus,
    entries: BTreeMap<Lpn, Entry<P>>,
    /// Units by last access.
    order: BTreeMap<u64, Lpn>,
    uses: u64,
    /// Tombstones.
    trimmed: BTreeSet<Lpn>,
    /// Evicted units by departure number.
    leaving: BTreeMap<u64, Leaving<P>>,
    leaving_units: usize,
    /// Units stored before a slot was free, by commands that cannot stall.
    early: usize,
    departures: u64,
    /// Arrival of the last old content read for a partial write; evictions wait for it.
    merged: When,
    batch: Vec<(DataTag, Unit<P>)>,
    stats: NvramStats,
}

impl<P: Payload> Nvram<P> {
    /// The cache of `config`; `None` if its size is 0.
    pub(crate) fn new(config: &NvramConfig, geometry: &Geometry) -> Option<Self> {
        let capacity = config.bytes.div_ceil(u64::from(geometry.unit_bytes())) as usize;
        let admission = match config.policy {
            NvramPolicyName::Lru => Admission::All,
            NvramPolicyName::Hint => Admission::Metadata,
            NvramPolicyName::Fat => Admission::Fat(0),
            NvramPolicyName::LbaRange => {
                let units = config
                    .ranges
                    .iter()
                    .map(|range| geometry.units_touched(Lba::new(range.first_sector), range.sectors));
                Admission::Units(units.collect())
            }
        };
        (capacity > 0).then(|| Self {
            capacity,
            page_units: geometry.units_per_page() as usize,
            admission,
            read_ns: config.read_ns,
            write_ns: config.write_ns,
            port: Bus::default(),
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            trimmed: BTreeSet::new(),
            leaving: BTreeMap::new(),
            leaving_units: 0,
            early: 0,
            departures: 0,
            merged: When::START,
            batch: Vec::new(),
            stats: NvramStats::default(),
        })
    }

    /// Units in the cache, tombstones included.
    pub fn held_units(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn stats(&self) -> NvramStats {
        self.stats
    }

    /// True if the cache holds `lpn`, possibly as a tombstone.
    pub fn holds(&self, lpn: Lpn) -> bool {
        self.entries.contains_key(&lpn)
    }

    fn is_leaving(&self, lpn: Lpn) -> bool {
        self.leaving.values().any(|leaving| leaving.units.iter().any(|(unit, ..)| *unit == lpn))
    }

    /// Learns the extent of the metadata of a FAT volume from `boot`, its first sector.
    #[cold]
    pub(crate) fn learn(&mut self, boot: &[u8], geometry: &Geometry) {
        if let Admission::Fat(units) = &mut self.admission {
            // Without a valid FAT boot sector, no new unit is admitted.
            let sectors = metadata_sectors(boot).unwrap_or(0);
            *units = sectors.div_ceil(u64::from(geometry.sectors_per_unit()));
        }
    }

    pub(crate) fn takes(&self, lpn: Lpn, hint: Hint) -> bool {
        let admitted = match &self.admission {
            Admission::All => true,
            Admission::Units(ranges) => ranges.iter().any(|units| units.contains(&u64::from(lpn.get()))),
            Admission::Fat(units) => u64::from(lpn.get()) < *units,
            Admission::Metadata => hint == Hint::Metadata,
        };
        // If a newer version bypassed the cache, it could reach flash before the evicted one. A power cut
        // would then restore the older version.
        admitted || self.holds(lpn) || self.is_leaving(lpn)
    }

    pub(crate) fn get(&self, lpn: Lpn) -> Option<P> {
        self.entries.get(&lpn).map(|entry| entry.payload.clone().unwrap_or_else(P::zero))
    }

    pub(crate) fn read(&mut self, now: SimTime, lpn: Lpn) -> Option<(P, SimTime)> {
        let payload = self.get(lpn)?;
        self.touch(lpn);
        self.stats.read_hits += 1;
        Some((payload, self.access(now, self.read_ns)))
    }

    fn access(&mut self, now: SimTime, duration_ns: u64) -> SimTime {
        self.port.reserve(now, duration_ns)
    }

    fn touch(&mut self, lpn: Lpn) {
        if let Some(entry) = self.entries.get_mut(&lpn) {
            self.order.remove(&entry.used);
            self.uses += 1;
            entry.used = self.uses;
            self.order.insert(self.uses, lpn);
        }
    }

    pub(crate) fn merge_until(&mut self, then: When, ftl: &mut impl MappingScheme) {
        self.merged = ftl.nand_mut().both(self.merged, then);
    }

    pub(crate) fn has_place(&self, lpn: Lpn) -> bool {
        self.entries.len() + self.leaving_units < self.capacity || self.holds(lpn)
    }

    pub(crate) fn is_evicting(&self) -> bool {
        self.leaving_units > 0
    }

    pub(crate) fn leaving_units(&self) -> usize {
        self.leaving_units
    }

    /// Stores a unit; returns the end of the access. Without a slot, the caller waits for
    /// [`Nvram::next_place`].
    pub(crate) fn put(&mut self, now: SimTime, lpn: Lpn, payload: P, tag: DataTag) -> SimTime {
        if let Some(entry) = self.entries.get_mut(&lpn) {
            (entry.payload, entry.tag) = (Some(payload), tag);
            self.trimmed.remove(&lpn);
            self.stats.hits += 1;
        } else {
            self.entries.insert(lpn, Entry { payload: Some(payload), tag, used: 0 });
            debug_assert!(self.units_without_place() <= self.early);
        }
        self.touch(lpn);
        self.stats.write_units += 1;
        self.access(now, self.write_ns)
    }

    /// Evicts the least recently used units. If flash fails, the cache is unchanged.
    pub(crate) fn evict(&mut self, ftl: &mut impl MappingScheme<Payload = P>) -> Departed {
        let oldest = self.order.values().next();
        // A tombstone may leave only when its trim is durable, so a flush evicts all tombstones.
        if oldest.is_some_and(|lpn| self.trimmed.contains(lpn)) {
            return self.flush(When::START, ftl);
        }
        // Whole pages only: at most a stripe and a quarter of the cache, but at least one page.
        let most = (ftl.stripe_units() as usize).min(self.capacity / 4).max(self.page_units);
        let ready = most.min(self.entries.len() - self.trimmed.len());
        let wanted = if ready < self.page_units { ready } else { ready - ready % self.page_units };
        // Tombstones have no payload and are skipped.
        let unit = |lpn: &Lpn| {
            let entry = self.entries.get(lpn)?;
            Some((entry.tag, Unit { lpn: *lpn, payload: entry.payload.clone()? }))
        };
        let units = self.order.values().filter_map(unit);
        self.batch.clear();
        self.batch.extend(units.take(wanted));
        self.write_batch_back(When::START, ftl)
    }

    /// Evicts the units of a range; returns their arrival on flash, and the departures. If flash fails, they
    /// stay.
    pub(crate) fn write_back_units(
        &mut self,
        now: When,
        first: Lpn,
        count: u32,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Result<(When, Vec<(When, u64)>), FtlError> {
        let range = first..first.plus(count);
        let (mut done, mut has_tombstone) = (now, false);
        let mut departures = Vec::new();
        self.batch.clear();
        for (&lpn, entry) in self.entries.range(range) {
            match &entry.payload {
                Some(payload) => self.batch.push((entry.tag, Unit { lpn, payload: payload.clone() })),
                None => has_tombstone = true,
            }
        }
        if !self.batch.is_empty() {
            let departed = self.write_batch_back(now, ftl)?;
            done = departed.0;
            departures.push(departed);
        }
        // A flush makes the trims of tombstones durable and evicts the tombstones.
        if has_tombstone {
            let departed = self.flush(done, ftl)?;
            done = departed.0;
            departures.push(departed);
        }
        Ok((done, departures))
    }

    /// Writes the units of `self.batch` to flash. They keep their slots until arrival.
    fn write_batch_back(&mut self, now: When, ftl: &mut impl MappingScheme<Payload = P>) -> Departed {
        let ready = ftl.nand_mut().both(now, self.merged);
        // Only units with equal tags are programmed together.
        self.batch.sort_by_key(|&(tag, _)| tag);
        let mut done = ready;
        for run in self.batch.chunk_by(|a, b| a.0 == b.0) {
            let units: Vec<Unit<P>> = run.iter().map(|(_, unit)| unit.clone()).collect();
            let next = ftl.write(ready, &units, WriteContext { cause: Cause::Cache, tag: run[0].0 })?;
            done = ftl.nand_mut().both(done, next);
        }
        self.stats.evicted_units += self.batch.len() as u64;
        let units: Vec<Lpn> = self.batch.drain(..).map(|(_, unit)| unit.lpn).collect();
        Ok((done, self.depart(done, &units)))
    }

    /// Moves `units` to `leaving` under a new departure number, which it returns.
    fn depart(&mut self, arrive: When, units: &[Lpn]) -> u64 {
        let gone = |lpn: &Lpn| {
            let entry = self.entries.remove(lpn)?;
            self.order.remove(&entry.used);
            Some((*lpn, entry.payload, entry.tag))
        };
        let units: Vec<_> = units.iter().filter_map(gone).collect();
        self.departures += 1;
        self.leaving_units += units.len();
        self.leaving.insert(self.departures, Leaving { arrive, units });
        self.departures
    }

    pub(crate) fn arrived(&mut self, number: u64) {
        if let Some(arrived) = self.leaving.remove(&number) {
            self.leaving_units -= arrived.units.len();
            // Flash now holds this version, so a cut must not restore an older one that is still on its way.
            for older in self.leaving.range_mut(..number).map(|(_, leaving)| leaving) {
                let before = older.units.len();
                older.units.retain(|(lpn, ..)| arrived.units.iter().all(|(newer, ..)| newer != lpn));
                self.leaving_units -= before - older.units.len();
            }
        }
        self.early = self.early.min(self.units_without_place());
    }

    /// Reserves the next slot that an evicted unit will free; returns its time. `None` if all of these slots
    /// are reserved.
    pub(crate) fn next_place(&mut self) -> Option<When> {
        // Departures free slots in order. `without` of these slots are reserved already.
        let (mut free, without) = (0, self.units_without_place());
        let frees_one = |leaving: &&Leaving<P>| {
            free += leaving.units.len();
            free > without
        };
        let place = self.leaving.values().find(frees_one)?.arrive;
        self.early = without + 1;
        Some(place)
    }

    fn units_without_place(&self) -> usize {
        (self.entries.len() + self.leaving_units).saturating_sub(self.capacity)
    }

    /// The cache after a power cut. Units on their way to flash are in the cache again.
    pub(crate) fn after_cut(&self) -> Self {
        let mut left = self.clone();
        let leaving = std::mem::take(&mut left.leaving);
        left.leaving_units = 0;
        // Of several versions, the newest counts: first the cached one, then the latest departure.
        for (lpn, payload, tag) in leaving.into_values().rev().flat_map(|leaving| leaving.units) {
            if left.entries.contains_key(&lpn) {
                continue;
            }
            if payload.is_none() {
                left.trimmed.insert(lpn);
            }
            left.entries.insert(lpn, Entry { payload, tag, used: 0 });
            left.touch(lpn);
        }
        left.port = Bus::default();
        left.merged = When::START;
        left.early = left.units_without_place();
        left
    }

    pub(crate) fn trim(&mut self, first: Lpn, count: u32) {
        for (&lpn, entry) in self.entries.range_mut(first..first.plus(count)) {
            entry.payload = None;
            self.trimmed.insert(lpn);
        }
    }

    /// Makes trims durable; the tombstones leave at the returned time.
    pub(crate) fn flush(&mut self, now: When, ftl: &mut impl MappingScheme<Payload = P>) -> Departed {
        let mut trimmed = now;
        for &lpn in &self.trimmed {
            // The unit is trimmed again, because a power cut may have restored an older version on flash.
            let done = ftl.trim(now, lpn, 1)?;
            trimmed = ftl.nand_mut().both(trimmed, done);
        }
        let mut done = ftl.flush(trimmed)?;
        // A cut returns units on their way to the cache, where they hide later trims and copies. So the flush
        // completes only when these units have arrived.
        for leaving in self.leaving.values() {
            done = ftl.nand_mut().both(done, leaving.arrive);
        }
        let trimmed: Vec<Lpn> = std::mem::take(&mut self.trimmed).into_iter().collect();
        Ok((done, self.depart(done, &trimmed)))
    }

    pub(crate) fn check(&self) -> Result<(), CheckError> {
        let sound = |(lpn, entry): (&Lpn, &Entry<P>)| {
            self.order.get(&entry.used) == Some(lpn) && self.trimmed.contains(lpn) == entry.payload.is_none()
        };
        let wrong = if self.order.len() != self.entries.len() || !self.entries.iter().all(sound) {
            "order or tombstones differ from the entries"
        } else if !self.trimmed.iter().all(|lpn| self.holds(*lpn)) {
            "a tombstone without an entry"
        } else if self.units_without_place() > self.early {
            "entries and units on their way to flash exceed the capacity"
        } else if self.leaving.values().map(|leaving| leaving.units.len()).sum::<usize>()
            != self.leaving_units
        {
            "wrong count of units on their way to flash"
        } else {
            return Ok(());
        };
        Err(CheckError(format!("non-volatile cache: {wrong}")))
    }
}

#[cfg(test)]
mod tests {
    use strobe_types::{GeometrySpec, Prng};

    use super::*;

    fn cache(units: u64) -> Nvram<u64> {
        let config = NvramConfig { bytes: units * 4096, ..NvramConfig::default() };
        let geometry = Geometry::new(GeometrySpec {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 8,
            pages_per_block: 8,
            page_bytes: 4096,
            unit_bytes: 4096,
        });
        Nvram::new(&config, &geometry.expect("valid")).expect("a cache")
    }

    #[test]
    fn a_newer_version_that_arrives_first_is_not_overtaken() {
        let (mut cache, lpn) = (cache(4), Lpn::new(7));
        cache.put(SimTime::ZERO, lpn, 1, DataTag::default());
        let older = cache.depart(When::START, &[lpn]);
        cache.put(SimTime::ZERO, lpn, 2, DataTag::default());
        let newer = cache.depart(When::START, &[lpn]);
        assert_eq!(cache.after_cut().get(lpn), Some(2), "both are on their way");
        cache.arrived(newer);
        // Flash has the newer version: a cut must not write the older one over it.
        assert_eq!(cache.after_cut().get(lpn), None);
        cache.check().expect("sound");
        cache.arrived(older);
        assert_eq!((cache.after_cut().get(lpn), cache.leaving_units()), (None, 0));
    }

    #[test]
    fn a_cut_leaves_the_newest_version_of_each_unit() {
        for seed in 0..200 {
            let mut random = Prng::derive(seed, "nvram");
            let mut cache = cache(64);
            let (mut newest, mut flash) = (BTreeMap::new(), BTreeMap::<Lpn, u64>::new());
            let mut under_way: Vec<(u64, Vec<(Lpn, u64)>)> = Vec::new();
            for version in 1..200 {
                let lpn = Lpn::new(random.below(6));
                match random.below(3) {
                    0 => {
                        cache.put(SimTime::ZERO, lpn, version, DataTag::default());
                        newest.insert(lpn, version);
                    }
                    1 => {
                        let units: Vec<Lpn> = cache.order.values().take(2).copied().collect();
                        let leaving = units.iter().filter_map(|&lpn| Some((lpn, cache.get(lpn)?))).collect();
                        under_way.push((cache.depart(When::START, &units), leaving));
                    }
                    _ if under_way.is_empty() => {}
                    _ => {
                        let (number, units) =
                            under_way.swap_remove(random.below(under_way.len() as u32) as usize);
                        cache.arrived(number);
                        for (lpn, version) in units {
                            let there = flash.entry(lpn).or_default();
                            *there = version.max(*there);
                        }
                    }
                }
                cache.check().expect("sound");
                let left = cache.after_cut();
                for (&lpn, &version) in &newest {
                    let found = left.get(lpn).or_else(|| flash.get(&lpn).copied());
                    assert_eq!(found, Some(version), "seed {seed}, version {version}, {lpn:?}");
                }
            }
        }
    }
}
