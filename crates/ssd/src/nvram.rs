//! The non-volatile write cache.
//!
//! What it holds survives a power cut, so a write that goes to it is complete at once. Three rules see to
//! it that a cut never brings back data older than the last flush:
//!
//! - While a unit is here, no newer version of it is elsewhere: every write to it comes here, whatever its
//!   class, and the write buffer drops the version it had.
//! - A unit leaves only when flash has it. Until then newer versions come here, too, and a flush waits for it.
//! - A unit trimmed here stays as a *tombstone*, which reads as zeros, until a flush of the mapping
//!   scheme has made the trim durable. Without it flash would give back the version before this one.
//!
//! So its content at any moment, with what is on its way to flash, is right after a power cut at that moment.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use strobe_ftl::{CheckError, FtlError, MappingScheme, WriteContext};
use strobe_nand::{Bus, Cause, Nand, Payload, Unit, When};
use strobe_types::{Geometry, Lba, Lpn, SimTime, State, Stored};

use crate::command::{DataTag, Hint};
use crate::config::{NvramConfig, NvramPolicyName};
use crate::fat::metadata_sectors;
use crate::stats::NvramStats;

/// When something is on flash, and the number of its departure.
pub(crate) type Departed = Result<(When, u64), FtlError>;

/// Writes that the cache admits.
#[derive(Clone, Debug)]
enum Admission {
    All,
    /// Writes to units with these numbers.
    Units(Vec<Range<u64>>),
    /// Writes to this number of units from the first one on, learnt from the boot sector of a FAT volume.
    Fat(u64),
    Metadata,
}

#[derive(Clone, Debug, Stored)]
struct Entry<P> {
    /// `None`: a tombstone.
    payload: Option<P>,
    tag: DataTag,
    /// Its key in `order`.
    used: u64,
}

/// Units on their way to flash.
#[derive(Clone, Debug, Stored)]
struct Leaving<P> {
    /// When they are there.
    arrive: When,
    units: Vec<(Lpn, Option<P>, DataTag)>,
}

/// The non-volatile write cache with its content.
///
/// A place is taken until the unit in it is on flash: when all are, a write waits until
/// the units used least recently are there, as many whole pages of them as a stripe takes, but no more
/// than a quarter of the cache.
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
    /// Units in the order of their last use, the least recent one first.
    order: BTreeMap<u64, Lpn>,
    /// Uses so far.
    uses: u64,
    /// The tombstones among the entries.
    trimmed: BTreeSet<Lpn>,
    /// Units on their way to flash, by number of departure. Each keeps its slot until it is there.
    leaving: BTreeMap<u64, Leaving<P>>,
    leaving_units: usize,
    /// Units that may be here before there are places for them: their commands wait for these.
    early: usize,
    departures: u64,
    /// When the last read for a partially written unit has arrived; nothing is written back before.
    merged: When,
    batch: Vec<(DataTag, Unit<P>)>,
    stats: NvramStats,
}

impl<P: Payload> Nvram<P> {
    /// An empty cache; `None` if `config` wants none.
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

    /// Units that it holds, tombstones included.
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

    /// True if a version of `lpn` is on its way to flash. Newer versions must then come here too: on flash
    /// they could overtake the older one, which a power cut would then find here.
    fn is_leaving(&self, lpn: Lpn) -> bool {
        self.leaving.values().any(|leaving| leaving.units.iter().any(|(unit, ..)| *unit == lpn))
    }

    /// The host writes `boot` to the first sector: if it is that of a FAT volume, what comes before its data area belongs here
    /// from now on; if it is not, nothing does.
    #[cold]
    pub(crate) fn learn(&mut self, boot: &[u8], geometry: &Geometry) {
        if let Admission::Fat(units) = &mut self.admission {
            let sectors = metadata_sectors(boot).unwrap_or(0);
            *units = sectors.div_ceil(u64::from(geometry.sectors_per_unit()));
        }
    }

    /// True if a write of `lpn` goes to the cache.
    pub(crate) fn takes(&self, lpn: Lpn, hint: Hint) -> bool {
        let admitted = match &self.admission {
            Admission::All => true,
            Admission::Units(ranges) => ranges.iter().any(|units| units.contains(&u64::from(lpn.get()))),
            Admission::Fat(units) => u64::from(lpn.get()) < *units,
            Admission::Metadata => hint == Hint::Metadata,
        };
        admitted || self.holds(lpn) || self.is_leaving(lpn)
    }

    /// The content of a unit, to be merged with a newer part.
    pub(crate) fn get(&self, lpn: Lpn) -> Option<P> {
        self.entries.get(&lpn).map(|entry| entry.payload.clone().unwrap_or_else(P::zero))
    }

    /// The content of a unit for a host that reads it, and when it is at hand.
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

    /// Notes that the old content of a partially written unit arrives at `then`.
    pub(crate) fn merge_until(&mut self, then: When, ftl: &mut impl MappingScheme) {
        self.merged = ftl.nand_mut().both(self.merged, then);
    }

    /// True if a write of `lpn` finds a free slot, or replaces an entry.
    pub(crate) fn has_place(&self, lpn: Lpn) -> bool {
        self.entries.len() + self.leaving_units < self.capacity || self.holds(lpn)
    }

    /// True if units are on their way to flash, whose slots will be free.
    pub(crate) fn is_making_room(&self) -> bool {
        self.leaving_units > 0
    }

    /// Units on their way to flash.
    pub(crate) fn leaving_units(&self) -> usize {
        self.leaving_units
    }

    /// Takes a unit; returns when it is here. Without a place for it the command waits until there is one, and what it
    /// brings takes that place from then on: what was there stays until it is on flash.
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

    /// Lets go of what was used least recently. If flash fails, nothing changes.
    pub(crate) fn make_room(&mut self, ftl: &mut impl MappingScheme<Payload = P>) -> Departed {
        let oldest = self.order.values().next();
        if oldest.is_some_and(|lpn| self.trimmed.contains(lpn)) {
            return self.flush(When::START, ftl);
        }
        let most = (ftl.stripe_units() as usize).min(self.capacity / 4).max(self.page_units);
        let ready = most.min(self.entries.len() - self.trimmed.len());
        let wanted = if ready < self.page_units { ready } else { ready - ready % self.page_units };
        let unit = |lpn: &Lpn| {
            let entry = self.entries.get(lpn)?;
            Some((entry.tag, Unit { lpn: *lpn, payload: entry.payload.clone()? }))
        };
        let units = self.order.values().filter_map(unit);
        self.batch.clear();
        self.batch.extend(units.take(wanted));
        self.write_batch_back(When::START, ftl)
    }

    /// Writes back what is here of the `count` units from `first` on, so that the mapping scheme has all
    /// of it; returns when it is on flash. If flash fails, it stays here.
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
        if has_tombstone {
            let departed = self.flush(done, ftl)?;
            done = departed.0;
            departures.push(departed);
        }
        Ok((done, departures))
    }

    /// Writes the batch to flash and lets go of it when it is there.
    fn write_batch_back(&mut self, now: When, ftl: &mut impl MappingScheme<Payload = P>) -> Departed {
        let ready = ftl.nand_mut().both(now, self.merged);
        // Units with the same tag are programmed together.
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

    /// `units` are on their way to flash; returns the number of their departure.
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

    /// Frees the slots of departure `number`, which is on flash.
    pub(crate) fn arrived(&mut self, number: u64) {
        if let Some(arrived) = self.leaving.remove(&number) {
            self.leaving_units -= arrived.units.len();
            // An older version that is still on its way, to a slower place, is not to come back.
            for older in self.leaving.range_mut(..number).map(|(_, leaving)| leaving) {
                let before = older.units.len();
                older.units.retain(|(lpn, ..)| arrived.units.iter().all(|(newer, ..)| newer != lpn));
                self.leaving_units -= before - older.units.len();
            }
        }
        self.early = self.early.min(self.units_without_place());
    }

    /// Lets one more unit come before there is a place for it; returns when there is, by what is on its way to flash.
    /// `None` if that is not enough.
    pub(crate) fn next_place(&mut self) -> Option<When> {
        let (mut free, without) = (0, self.units_without_place());
        let frees_one = |leaving: &&Leaving<P>| {
            free += leaving.units.len();
            free > without
        };
        let place = self.leaving.values().find(frees_one)?.arrive;
        self.early = without + 1;
        Some(place)
    }

    /// Units here that came before their places were free.
    fn units_without_place(&self) -> usize {
        (self.entries.len() + self.leaving_units).saturating_sub(self.capacity)
    }

    /// This cache as a power cut would leave it now: what is on its way to flash is still here.
    pub(crate) fn after_cut(&self) -> Self {
        let mut left = self.clone();
        let leaving = std::mem::take(&mut left.leaving);
        left.leaving_units = 0;
        // The newest version of what left twice.
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

    /// Turns what is here of the `count` units from `first` on into tombstones.
    pub(crate) fn trim(&mut self, first: Lpn, count: u32) {
        for (&lpn, entry) in self.entries.range_mut(first..first.plus(count)) {
            entry.payload = None;
            self.trimmed.insert(lpn);
        }
    }

    /// Flushes the mapping scheme; returns when that is done. Then it knows of the trims, and the tombstones
    /// are gone.
    pub(crate) fn flush(&mut self, now: When, ftl: &mut impl MappingScheme<Payload = P>) -> Departed {
        let mut trimmed = now;
        for &lpn in &self.trimmed {
            // Once more, as a power cut may have brought the unit back.
            let done = ftl.trim(now, lpn, 1)?;
            trimmed = ftl.nand_mut().both(trimmed, done);
        }
        let mut done = ftl.flush(trimmed)?;
        // A power cut finds what is on its way still here: trims and copies since then last only when it has arrived.
        for leaving in self.leaving.values() {
            done = ftl.nand_mut().both(done, leaving.arrive);
        }
        let trimmed: Vec<Lpn> = std::mem::take(&mut self.trimmed).into_iter().collect();
        Ok((done, self.depart(done, &trimmed)))
    }

    /// Checks that the tables agree with each other. Cost: a pass over all entries.
    pub(crate) fn check(&self) -> Result<(), CheckError> {
        let sound = |(lpn, entry): (&Lpn, &Entry<P>)| {
            self.order.get(&entry.used) == Some(lpn) && self.trimmed.contains(lpn) == entry.payload.is_none()
        };
        let wrong = if self.order.len() != self.entries.len() || !self.entries.iter().all(sound) {
            "order or tombstones differ from the entries"
        } else if !self.trimmed.iter().all(|lpn| self.holds(*lpn)) {
            "a tombstone is no entry"
        } else if self.units_without_place() > self.early {
            "entries and what is on its way to flash are more than the capacity"
        } else if self.leaving.values().map(|leaving| leaving.units.len()).sum::<usize>()
            != self.leaving_units
        {
            "what is on its way to flash is wrongly counted"
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
        // Flash has the newer one: a cut must not write the older one over it.
        assert_eq!(cache.after_cut().get(lpn), None);
        cache.check().expect("sound");
        cache.arrived(older);
        assert_eq!((cache.after_cut().get(lpn), cache.leaving_units()), (None, 0));
    }

    /// A write is complete when it is here: so a cut at any moment leaves the newest version of each unit, here or on
    /// flash, of which the newest that has arrived counts.
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
