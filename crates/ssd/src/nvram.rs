//! The non-volatile write cache.
//!
//! What it holds survives a power cut, so a write that goes to it is complete at once. Three rules see to
//! it that a cut never brings back data older than the last flush:
//!
//! - While a unit is here, no newer version of it is elsewhere: every write to it comes here, whatever its
//!   class, and the write buffer drops the version it had.
//! - A unit leaves only when flash has it.
//! - A unit trimmed here stays as a *tombstone*, which reads as zeros, until a flush of the mapping
//!   scheme has made the trim durable. Without it flash would give back the version before this one.
//!
//! So its content at the start of a command is right after a power cut anywhere inside that command.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use strobe_ftl::{CheckError, Done, FtlError, MappingScheme};
use strobe_nand::{Bus, Cause, Payload, Unit};
use strobe_types::{Geometry, Lba, Lpn, SimTime};

use crate::command::Hint;
use crate::config::{NvramConfig, NvramPolicyName};
use crate::places::Places;
use crate::stats::NvramStats;

/// Which writes come here.
#[derive(Clone, Debug)]
enum Admission {
    All,
    /// Those to units with these numbers.
    Units(Vec<Range<u64>>),
    Metadata,
}

#[derive(Clone, Debug)]
struct Entry<P> {
    /// `None`: a tombstone.
    payload: Option<P>,
    /// Its key in `order`.
    used: u64,
}

/// The non-volatile write cache with its content.
///
/// A place is taken until the unit in it has been written to flash: when all are, a write waits until
/// the units used least recently are there, as many whole pages of them as a stripe takes, but no more
/// than a quarter of the cache.
#[derive(Clone, Debug)]
pub struct Nvram<P> {
    capacity: usize,
    page_units: usize,
    admission: Admission,
    read_ns: u64,
    write_ns: u64,
    port: Bus,
    entries: BTreeMap<Lpn, Entry<P>>,
    /// Units in the order of their last use, the least recent one first.
    order: BTreeMap<u64, Lpn>,
    /// Uses so far.
    uses: u64,
    /// The tombstones among the entries.
    trimmed: BTreeSet<Lpn>,
    places: Places,
    /// When the last read for a partially written unit has arrived; nothing is written back before.
    merged: SimTime,
    batch: Vec<Unit<P>>,
    stats: NvramStats,
}

impl<P: Payload> Nvram<P> {
    /// An empty cache; `None` if `config` wants none.
    pub(crate) fn new(config: &NvramConfig, geometry: &Geometry) -> Option<Self> {
        let capacity = config.bytes.div_ceil(u64::from(geometry.unit_bytes())) as usize;
        let admission = match config.policy {
            NvramPolicyName::Lru => Admission::All,
            NvramPolicyName::Hint => Admission::Metadata,
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
            places: Places::new(capacity),
            merged: SimTime::ZERO,
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

    /// Whether it holds a unit, be it as a tombstone.
    pub fn holds(&self, lpn: Lpn) -> bool {
        self.entries.contains_key(&lpn)
    }

    /// Whether a write of `lpn` belongs here.
    pub(crate) fn takes(&self, lpn: Lpn, hint: Hint) -> bool {
        let admitted = match &self.admission {
            Admission::All => true,
            Admission::Units(ranges) => ranges.iter().any(|units| units.contains(&u64::from(lpn.get()))),
            Admission::Metadata => hint == Hint::Metadata,
        };
        admitted || self.holds(lpn)
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
        self.port.reserve(now, duration_ns) + duration_ns
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
    pub(crate) fn merge_until(&mut self, then: SimTime) {
        self.merged = self.merged.max(then);
    }

    /// Takes a unit; returns when it is here. If flash fails while room is made, nothing changes.
    pub(crate) fn put(
        &mut self,
        now: SimTime,
        lpn: Lpn,
        payload: P,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Done {
        let mut at = now;
        if let Some(entry) = self.entries.get_mut(&lpn) {
            entry.payload = Some(payload);
            self.trimmed.remove(&lpn);
            self.stats.hits += 1;
        } else {
            let free = loop {
                match self.places.take() {
                    Some(free) => break free,
                    None => self.make_room(now, ftl)?,
                }
            };
            at = now.max(free);
            self.entries.insert(lpn, Entry { payload: Some(payload), used: 0 });
        }
        self.touch(lpn);
        self.stats.write_units += 1;
        Ok(self.access(at, self.write_ns))
    }

    /// Lets go of what was used least recently.
    fn make_room(&mut self, now: SimTime, ftl: &mut impl MappingScheme<Payload = P>) -> Result<(), FtlError> {
        let oldest = self.order.values().next();
        if oldest.is_some_and(|lpn| self.trimmed.contains(lpn)) {
            return self.flush(now, ftl).map(|_| ());
        }
        let most = (ftl.stripe_units() as usize).min(self.capacity / 4).max(self.page_units);
        let ready = most.min(self.entries.len() - self.trimmed.len());
        let wanted = if ready < self.page_units { ready } else { ready - ready % self.page_units };
        let payload = |lpn| self.entries.get(lpn)?.payload.clone();
        let units = self.order.values().filter_map(|lpn| Some(Unit { lpn: *lpn, payload: payload(lpn)? }));
        self.batch.clear();
        self.batch.extend(units.take(wanted));
        self.write_batch_back(now, ftl).map(|_| ())
    }

    /// Writes back what is here of the `count` units from `first` on, so that the mapping scheme has all
    /// of it; returns when that is on flash. If flash fails, it stays here.
    pub(crate) fn write_back_units(
        &mut self,
        now: SimTime,
        first: Lpn,
        count: u32,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Done {
        let range = first..first.plus(count);
        let (mut done, mut has_tombstone) = (now, false);
        self.batch.clear();
        for (&lpn, entry) in self.entries.range(range) {
            match &entry.payload {
                Some(payload) => self.batch.push(Unit { lpn, payload: payload.clone() }),
                None => has_tombstone = true,
            }
        }
        if !self.batch.is_empty() {
            done = self.write_batch_back(now, ftl)?;
        }
        if has_tombstone {
            done = self.flush(done, ftl)?;
        }
        Ok(done)
    }

    /// Writes the batch to flash and lets go of it then.
    fn write_batch_back(&mut self, now: SimTime, ftl: &mut impl MappingScheme<Payload = P>) -> Done {
        let done = ftl.write(now.max(self.merged), &self.batch, Cause::Cache)?;
        self.stats.evicted_units += self.batch.len() as u64;
        self.places.give(done, self.batch.len());
        for unit in std::mem::take(&mut self.batch) {
            self.remove(unit.lpn);
        }
        Ok(done)
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
    pub(crate) fn flush(&mut self, now: SimTime, ftl: &mut impl MappingScheme<Payload = P>) -> Done {
        let mut trimmed = now;
        for &lpn in &self.trimmed {
            // Once more, as a power cut may have brought the unit back.
            trimmed = trimmed.max(ftl.trim(now, lpn, 1)?);
        }
        let done = ftl.flush(trimmed)?;
        self.places.give(done, self.trimmed.len());
        for lpn in std::mem::take(&mut self.trimmed) {
            self.remove(lpn);
        }
        Ok(done)
    }

    fn remove(&mut self, lpn: Lpn) {
        if let Some(entry) = self.entries.remove(&lpn) {
            self.order.remove(&entry.used);
        }
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
        } else if self.entries.len() + self.places.count() != self.capacity {
            "entries and free places are not the capacity"
        } else {
            return Ok(());
        };
        Err(CheckError(format!("non-volatile cache: {wrong}")))
    }
}
