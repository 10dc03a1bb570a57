//! The cached mapping table: the map entries that a demand-paged drive holds in memory.
//!
//! Gupta, Kim & Urgaonkar, "DFTL" (ASPLOS 2009), section 3: a segmented LRU list. A new entry enters the
//! probationary segment. A hit promotes an entry to the protected segment. If that segment is full, its
//! oldest entry is demoted. The oldest probationary entry is evicted first. All operations are O(1): an array
//! by logical unit gives the slot of an entry, and the lists link slots.

use strobe_types::{Lpn, State, Stored, prefetch_write};

const NONE: u32 = u32::MAX;

const PROBATIONARY: usize = 0;
const PROTECTED: usize = 1;

#[derive(Clone, Copy, Debug, Stored)]
struct Links {
    newer: u32,
    older: u32,
}

const UNLINKED: Links = Links { newer: NONE, older: NONE };

#[derive(Clone, Copy, Debug, Stored)]
struct Entry {
    lpn: u32,
    segment: u8,
    dirty: bool,
    links: Links,
    /// Links to other dirty entries of the translation page.
    siblings: Links,
}

#[derive(Clone, Copy, Debug, Stored)]
struct Segment {
    newest: u32,
    oldest: u32,
    count: u32,
}

/// The cached mapping table. Memory: 4 bytes per logical unit, 24 per entry, 4 per translation page.
#[derive(Clone, Debug, State)]
pub(crate) struct Cmt {
    #[state(skip)]
    capacity: u32,
    #[state(skip)]
    protected_max: u32,
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    segments: [Segment; 2],
    #[state(table)]
    index: Vec<u32>,
    #[state(table)]
    dirty: Vec<u32>,
}

impl Cmt {
    pub(crate) fn new(logical_units: u32, pages: u32, capacity: u32, protected_max: u32) -> Self {
        let empty = Segment { newest: NONE, oldest: NONE, count: 0 };
        Self {
            capacity,
            protected_max,
            index: vec![NONE; logical_units as usize],
            entries: Vec::new(),
            vacant: Vec::new(),
            segments: [empty; 2],
            dirty: vec![NONE; pages as usize],
        }
    }

    pub(crate) fn bytes(logical_units: u32, pages: u32, capacity: u32) -> u64 {
        let per_entry = std::mem::size_of::<Entry>() as u64;
        4 * u64::from(logical_units) + 4 * u64::from(pages) + per_entry * u64::from(capacity)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.segments[PROBATIONARY].count + self.segments[PROTECTED].count >= self.capacity
    }

    #[inline]
    pub(crate) fn contains(&self, lpn: Lpn) -> bool {
        self.index[lpn.index()] != NONE
    }

    pub(crate) fn is_dirty(&self, lpn: Lpn) -> bool {
        self.entries.get(self.index[lpn.index()] as usize).is_some_and(|entry| entry.dirty)
    }

    pub(crate) fn prefetch(&self, lpn: Lpn) {
        prefetch_write(&self.index, lpn.index());
    }

    /// Promotes the entry of `lpn`. False if the entry is not cached.
    #[inline]
    pub(crate) fn hit(&mut self, lpn: Lpn) -> bool {
        let at = self.index[lpn.index()];
        if at == NONE {
            return false;
        }
        self.unlink(at);
        // Without a protected segment, this is plain LRU.
        if self.protected_max == 0 {
            self.link(at, PROBATIONARY);
            return true;
        }
        self.link(at, PROTECTED);
        // The demoted entry becomes the newest probationary one.
        if self.segments[PROTECTED].count > self.protected_max {
            let oldest = self.segments[PROTECTED].oldest;
            self.unlink(oldest);
            self.link(oldest, PROBATIONARY);
        }
        true
    }

    /// Adds a clean entry. The table must not be full.
    pub(crate) fn insert(&mut self, lpn: Lpn) {
        debug_assert!(!self.contains(lpn) && !self.is_full());
        let segment = PROBATIONARY as u8;
        let entry = Entry { lpn: lpn.get(), segment, dirty: false, links: UNLINKED, siblings: UNLINKED };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.index[lpn.index()] = at;
        self.link(at, PROBATIONARY);
    }

    pub(crate) fn oldest(&self) -> Option<Lpn> {
        let [probationary, protected] = self.segments.map(|segment| segment.oldest);
        let at = if probationary == NONE { protected } else { probationary };
        self.entries.get(at as usize).map(|entry| Lpn::new(entry.lpn))
    }

    /// Evicts the entry of `lpn`. Panics if the entry is dirty.
    pub(crate) fn remove(&mut self, lpn: Lpn) {
        let at = self.index[lpn.index()];
        assert!(!self.entries[at as usize].dirty, "FTL bug: the dirty entry of {lpn:?} is dropped");
        self.unlink(at);
        self.index[lpn.index()] = NONE;
        self.vacant.push(at);
    }

    /// Marks the entry of `lpn` dirty. False if the entry is not cached.
    #[inline]
    pub(crate) fn soil(&mut self, lpn: Lpn, page: u32) -> bool {
        let at = self.index[lpn.index()];
        let Some(entry) = self.entries.get_mut(at as usize) else { return false };
        if !entry.dirty {
            let first = std::mem::replace(&mut self.dirty[page as usize], at);
            entry.dirty = true;
            entry.siblings = Links { newer: NONE, older: first };
            if let Some(next) = self.entries.get_mut(first as usize) {
                next.siblings.newer = at;
            }
        }
        true
    }

    pub(crate) fn clean(&mut self, lpn: Lpn, page: u32) {
        let Some(entry) = self.entries.get_mut(self.index[lpn.index()] as usize) else { return };
        if !std::mem::replace(&mut entry.dirty, false) {
            return;
        }
        let Links { newer, older } = std::mem::replace(&mut entry.siblings, UNLINKED);
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.siblings.older = older,
            None => self.dirty[page as usize] = older,
        }
        if let Some(entry) = self.entries.get_mut(older as usize) {
            entry.siblings.newer = newer;
        }
    }

    pub(crate) fn clean_all(&mut self, page: u32) {
        let mut at = std::mem::replace(&mut self.dirty[page as usize], NONE);
        while let Some(entry) = self.entries.get_mut(at as usize) {
            at = entry.siblings.older;
            entry.dirty = false;
            entry.siblings = UNLINKED;
        }
    }

    pub(crate) fn has_dirty(&self, page: u32) -> bool {
        self.dirty[page as usize] != NONE
    }

    fn unlink(&mut self, at: u32) {
        let Entry { segment, links: Links { newer, older }, .. } = self.entries[at as usize];
        let segment = &mut self.segments[segment as usize];
        segment.count -= 1;
        // Without a neighbour on one side, the entry was that end of the list.
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.links.older = older,
            None => segment.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.links.newer = newer,
            None => segment.oldest = newer,
        }
    }

    fn link(&mut self, at: u32, segment: usize) {
        let list = &mut self.segments[segment];
        let next = std::mem::replace(&mut list.newest, at);
        list.count += 1;
        match self.entries.get_mut(next as usize) {
            Some(entry) => entry.links.newer = at,
            None => list.oldest = at,
        }
        let entry = &mut self.entries[at as usize];
        entry.segment = segment as u8;
        entry.links = Links { newer: NONE, older: next };
    }

    /// Checks that each entry is in one segment, and each dirty entry in the list of its translation page.
    pub(crate) fn check(&self, page_of: impl Fn(Lpn) -> u32) -> Result<(), String> {
        let mut seen = vec![false; self.entries.len()];
        let mut dirty = 0;
        for (number, segment) in self.segments.iter().enumerate() {
            let (mut at, mut newer, mut count) = (segment.newest, NONE, 0);
            while at != NONE {
                let entry = &self.entries[at as usize];
                let is_here = self.index[entry.lpn as usize] == at && entry.segment as usize == number;
                if !is_here || entry.links.newer != newer {
                    return Err(format!("the cached entry of unit {} is misplaced in its list", entry.lpn));
                }
                if std::mem::replace(&mut seen[at as usize], true) {
                    return Err(format!("the cached entry of unit {} is in two lists", entry.lpn));
                }
                dirty += u32::from(entry.dirty);
                (newer, at, count) = (at, entry.links.older, count + 1);
            }
            if count != segment.count || newer != segment.oldest {
                let says = segment.count;
                return Err(format!("{count} cached entries in segment {number}, the count says {says}"));
            }
        }
        let cached = seen.iter().filter(|&&seen| seen).count();
        let indexed = self.index.iter().filter(|&&at| at != NONE).count();
        let places = self.entries.len() - self.vacant.len();
        if cached != indexed || cached != places || cached > self.capacity as usize {
            return Err(format!("{cached} entries are cached, {indexed} are indexed, {places} have places"));
        }
        if self.segments[PROTECTED].count > self.protected_max {
            return Err(format!("{} cached entries are protected", self.segments[PROTECTED].count));
        }
        // If the lists have more entries than are dirty, one of them has a loop.
        let mut listed = 0;
        for (page, &first) in (0..).zip(&self.dirty) {
            let mut at = first;
            while at != NONE {
                let entry = &self.entries[at as usize];
                if !entry.dirty || page_of(Lpn::new(entry.lpn)) != page || listed == dirty {
                    return Err(format!("unit {} is listed as dirty in page {page}", entry.lpn));
                }
                (at, listed) = (entry.siblings.older, listed + 1);
            }
        }
        if listed == dirty {
            Ok(())
        } else {
            Err(format!("{dirty} cached entries are dirty, {listed} are listed as such"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_all(cmt: &mut Cmt, lpns: &[u32]) -> Vec<bool> {
        let mut hits = Vec::new();
        for lpn in lpns.iter().copied().map(Lpn::new) {
            let hit = cmt.hit(lpn);
            if !hit {
                if cmt.is_full() {
                    let oldest = cmt.oldest().expect("full");
                    cmt.clean(oldest, oldest.get() / 4);
                    cmt.remove(oldest);
                }
                cmt.insert(lpn);
            }
            hits.push(hit);
            assert_eq!(cmt.check(|lpn| lpn.get() / 4), Ok(()));
        }
        hits
    }

    #[test]
    fn what_was_hit_outlives_a_stream_of_what_was_not() {
        let mut cmt = Cmt::new(16, 4, 4, 2);
        use_all(&mut cmt, &[0, 1, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(use_all(&mut cmt, &[0, 1]), [true, true]);
        // A third protected entry demotes the oldest, which becomes the newest probationary one.
        use_all(&mut cmt, &[7]);
        assert_eq!(cmt.oldest(), Some(Lpn::new(6)));
        use_all(&mut cmt, &[8]);
        assert_eq!(cmt.oldest(), Some(Lpn::new(0)));
    }

    #[test]
    fn without_protection_it_is_plain_lru() {
        let mut cmt = Cmt::new(16, 4, 3, 0);
        assert_eq!(use_all(&mut cmt, &[0, 1, 2, 0, 3, 1]), [false, false, false, true, false, false]);
    }

    #[test]
    fn dirty_entries_are_listed_by_page() {
        let mut cmt = Cmt::new(16, 4, 4, 2);
        use_all(&mut cmt, &[0, 1, 5, 2]);
        for lpn in [0, 1, 5, 2, 1] {
            assert!(cmt.soil(Lpn::new(lpn), lpn / 4));
        }
        assert!(!cmt.soil(Lpn::new(9), 2));
        cmt.clean(Lpn::new(1), 0);
        assert_eq!(cmt.check(|lpn| lpn.get() / 4), Ok(()));
        cmt.clean_all(0);
        assert_eq!((cmt.has_dirty(0), cmt.has_dirty(1)), (false, true));
        assert!(!cmt.is_dirty(Lpn::new(0)) && cmt.is_dirty(Lpn::new(5)));
    }
}
