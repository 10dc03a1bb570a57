//! The virtual map of logical copy: flash units with two owners.
//!
//! Kang, Han & Shin, "Logical copy": a copy points both logical units to an entry of the virtual map, and
//! that entry to the flash unit. The first virtual number follows the last flash address, so a map entry can
//! hold either. When one owner leaves, the map entry of the other points to the flash unit again.
//!
//! With DFTL, `journal/trims.rs` and `recover/rescan.rs` make the sharing durable.

use strobe_types::{Lpn, Ppa, State, Stored, Table};

use crate::journal::format::{Record, WORDS_PER_ENTRY};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    One(Lpn),
    Two(Vpn),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vpn(u32);

impl Vpn {
    pub(crate) fn get(self) -> u32 {
        self.0
    }
}

#[derive(Clone, Copy, Debug, Stored)]
struct Shared {
    ppa: Ppa,
    owners: [Lpn; 2],
}

/// Virtual map and P2L. Memory: 4 bytes per flash unit, 20 per entry.
#[derive(Clone, Debug, State)]
pub(crate) struct Sharing {
    /// Number of flash units, which is also the first virtual number.
    #[state(skip)]
    units: u32,
    entries: Vec<Option<Shared>>,
    free: Vec<u32>,
    /// P2L: the LPN or virtual number that owns each valid flash unit. A copy changes owners, but cannot
    /// change out-of-band records.
    #[state(table)]
    owner: Table<u32>,
}

impl Sharing {
    pub(crate) fn new(units: u32, entries: u32) -> Self {
        Self {
            units,
            owner: Table::new(units as usize),
            entries: vec![None; entries as usize],
            free: (0..entries).rev().collect(),
        }
    }

    pub(crate) fn bytes(units: u32, entries: u32) -> u64 {
        4 * u64::from(units) + (16 + 4) * u64::from(entries)
    }

    pub(crate) fn has_space(&self) -> bool {
        !self.free.is_empty()
    }

    /// `None` unless `entry`, the map entry of `lpn`, holds a virtual number.
    pub(crate) fn other_owner(&self, lpn: Lpn, entry: Ppa) -> Option<Lpn> {
        let [a, b] = self.owners(self.vpn(entry)?);
        Some(if lpn == a { b } else { a })
    }

    pub(crate) fn in_use(&self) -> u32 {
        (self.entries.len() - self.free.len()) as u32
    }

    pub(crate) fn vpn(&self, entry: Ppa) -> Option<Vpn> {
        entry.get().checked_sub(self.units).map(Vpn)
    }

    pub(crate) fn entry(&self, vpn: Vpn) -> Ppa {
        Ppa::new(self.units + vpn.0)
    }

    fn get(&self, vpn: Vpn) -> Shared {
        self.entries[vpn.0 as usize].unwrap_or_else(|| panic!("FTL bug: {vpn:?} is free"))
    }

    pub(crate) fn ppa(&self, vpn: Vpn) -> Ppa {
        self.get(vpn).ppa
    }

    pub(crate) fn owners(&self, vpn: Vpn) -> [Lpn; 2] {
        self.get(vpn).owners
    }

    pub(crate) fn is_in_use(&self, vpn: Vpn) -> bool {
        self.entries.get(vpn.0 as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn owner(&self, ppa: Ppa) -> Owner {
        let owner = self.owner[ppa.index()];
        match owner.checked_sub(self.units) {
            None => Owner::One(Lpn::new(owner)),
            Some(vpn) => Owner::Two(Vpn(vpn)),
        }
    }

    pub(crate) fn written(&mut self, ppa: Ppa, lpn: Lpn) {
        self.owner[ppa.index()] = lpn.get();
    }

    /// `None` if the virtual map is full.
    pub(crate) fn share(&mut self, ppa: Ppa, owners: [Lpn; 2]) -> Option<Vpn> {
        let vpn = self.free.pop()?;
        self.entries[vpn as usize] = Some(Shared { ppa, owners });
        self.owner[ppa.index()] = self.units + vpn;
        Some(Vpn(vpn))
    }

    pub(crate) fn moved(&mut self, vpn: Vpn, to: Ppa) {
        self.entries[vpn.0 as usize] = Some(Shared { ppa: to, ..self.get(vpn) });
        self.owner[to.index()] = self.units + vpn.0;
    }

    /// Removes owner `lpn` and frees the virtual entry. Returns the flash unit and its remaining owner.
    pub(crate) fn drop_owner(&mut self, vpn: Vpn, lpn: Lpn) -> (Ppa, Lpn) {
        let Shared { ppa, owners: [a, b] } = self.get(vpn);
        assert!(lpn == a || lpn == b, "FTL bug: {lpn:?} is no owner of {vpn:?}");
        let other = if lpn == a { b } else { a };
        self.owner[ppa.index()] = other.get();
        self.entries[vpn.0 as usize] = None;
        self.free.push(vpn.0);
        (ppa, other)
    }

    pub(crate) fn record(&self, vpn: u32) -> Record {
        let [entry, a, b] = self.words_of(vpn);
        Record::Shared { vpn, entry, owners: [a, b] }
    }

    pub(crate) fn word(&self, at: u64) -> u32 {
        self.words_of((at / WORDS_PER_ENTRY) as u32)[(at % WORDS_PER_ENTRY) as usize]
    }

    pub(crate) fn words_of(&self, vpn: u32) -> [u32; WORDS_PER_ENTRY as usize] {
        match &self.entries[vpn as usize] {
            Some(Shared { ppa, owners: [a, b] }) => [ppa.get() + 1, a.get(), b.get()],
            None => [0; 3],
        }
    }

    /// Fails on an invalid entry.
    pub(crate) fn restore(&mut self, words: &[u32], logical_units: u32) -> Result<(), String> {
        self.free.clear();
        for (vpn, entry) in words.chunks_exact(WORDS_PER_ENTRY as usize).enumerate() {
            let (place, owners) = (entry[0], [entry[1], entry[2]]);
            let Some(ppa) = place.checked_sub(1) else {
                self.entries[vpn] = None;
                self.free.push(vpn as u32);
                continue;
            };
            let is_sound = ppa < self.units && owners.iter().all(|&lpn| lpn < logical_units);
            if !is_sound || owners[0] == owners[1] {
                return Err(format!("entry {vpn} of the virtual map is {entry:?}"));
            }
            self.entries[vpn] = Some(Shared { ppa: Ppa::new(ppa), owners: owners.map(Lpn::new) });
        }
        // `share` takes the last of `free`: reversed, this is the lowest number.
        self.free.reverse();
        Ok(())
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (Vpn, [Lpn; 2])> + '_ {
        let in_use = |(vpn, entry): (u32, &Option<Shared>)| entry.map(|shared| (Vpn(vpn), shared.owners));
        (0..).zip(&self.entries).filter_map(in_use)
    }

    pub(crate) fn is_owned_by(&self, vpn: Vpn, lpn: Lpn) -> bool {
        let entry = self.entries.get(vpn.0 as usize);
        entry.is_some_and(|entry| entry.is_some_and(|shared| shared.owners.contains(&lpn)))
    }

    /// Restores the owner `lpn` of the unit at `ppa`; `entry` is its map entry.
    pub(crate) fn restore_owner(&mut self, ppa: Ppa, lpn: Lpn, entry: Ppa) {
        self.owner[ppa.index()] = self.vpn(entry).map_or(lpn.get(), |vpn| self.units + vpn.0);
    }
}
