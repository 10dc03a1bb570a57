//! Copy of the volume in memory: reads are cached, and writes stay dirty until they are settled.

use super::device::{Class, SectorDevice};
use super::layout::Layout;
use crate::files::FileError;
use std::ops::Range;

pub(super) const SECTOR: usize = 512;

/// 128 KiB, the largest request of older Linux kernels.
const REQUEST_SECTORS_MAX: usize = 256;

/// Write order of an operation. A power cut between two writes may leak clusters, but never loses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Allocate clusters, fill them, then refer to them: FAT 1, FAT 2, data, directories.
    Grow,
    /// Remove the reference, then free the clusters: directories, FAT 1, FAT 2.
    Shrink,
}

/// A dirty sector; the list keeps the order of becoming dirty.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    sector: u32,
    class: Class,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    present: bool,
    /// Place in the list of dirty sectors plus one; 0 if clean.
    dirty: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Before {
    sector: u32,
    state: State,
    bytes: [u8; SECTOR],
}

#[derive(Debug)]
pub(super) struct SectorCache<D> {
    device: D,
    first: u64,
    layout: Layout,
    bytes: Vec<u8>,
    states: Vec<State>,
    /// Dirty sectors; `None` for sectors written or dropped since.
    dirty: Vec<Option<Dirty>>,
    payload: bool,
    before: Option<Vec<Before>>,
}

impl<D: SectorDevice> SectorCache<D> {
    pub(super) fn new(device: D, first: u64, sectors: u32, layout: Layout, blank: bool) -> Self {
        Self {
            device,
            first,
            layout,
            bytes: vec![0; sectors as usize * SECTOR],
            // A blank volume, not formatted yet, is never read from the device.
            states: vec![State { present: blank, dirty: 0 }; sectors as usize],
            dirty: Vec::new(),
            payload: false,
            before: None,
        }
    }

    pub(super) fn into_device(self) -> D {
        self.device
    }

    pub(super) fn device(&mut self) -> &mut D {
        &mut self.device
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn set_layout(&mut self, layout: Layout) {
        for dirty in self.dirty.iter_mut().flatten() {
            dirty.class = layout.class(dirty.sector, false);
        }
        self.layout = layout;
    }

    pub(super) fn set_payload(&mut self, payload: bool) {
        self.payload = payload;
    }

    pub(super) fn read(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let range = self.clip(at, buffer.len());
        self.load(range.start / SECTOR..range.end.div_ceil(SECTOR))?;
        buffer[..range.len()].copy_from_slice(&self.bytes[range.clone()]);
        Ok(range.len())
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<usize, FileError> {
        let range = self.clip(at, bytes.len());
        if range.is_empty() {
            return Ok(0);
        }
        let sectors = range.start / SECTOR..range.end.div_ceil(SECTOR);
        // A sector that is written only in part must be loaded first.
        if !range.start.is_multiple_of(SECTOR) {
            self.load(sectors.start..sectors.start + 1)?;
        }
        if !range.end.is_multiple_of(SECTOR) {
            self.load(sectors.end - 1..sectors.end)?;
        }
        for sector in sectors {
            self.mark_dirty(sector as u32);
        }
        self.bytes[range.clone()].copy_from_slice(&bytes[..range.len()]);
        Ok(range.len())
    }

    fn clip(&self, at: u64, len: usize) -> Range<usize> {
        let start = at.min(self.len()) as usize;
        start..start + len.min(self.bytes.len() - start)
    }

    fn load(&mut self, sectors: Range<usize>) -> Result<(), FileError> {
        let mut start = sectors.start;
        while start < sectors.end {
            if self.states[start].present {
                start += 1;
                continue;
            }
            let missing = self.states[start..sectors.end].iter().take_while(|state| !state.present).count();
            let run = start..start + missing.min(REQUEST_SECTORS_MAX);
            let bytes = &mut self.bytes[run.start * SECTOR..run.end * SECTOR];
            self.device.read(self.first + run.start as u64, bytes)?;
            for state in &mut self.states[run.clone()] {
                state.present = true;
            }
            start = run.end;
        }
        Ok(())
    }

    fn mark_dirty(&mut self, sector: u32) {
        let class = self.layout.class(sector, self.payload);
        let state = &mut self.states[sector as usize];
        // Save the old contents for a rollback. The unclean mark is not part of the operation and stays.
        if let Some(before) = &mut self.before
            && class != Class::Boot
            && !before.iter().any(|known| known.sector == sector)
        {
            let mut bytes = [0; SECTOR];
            bytes.copy_from_slice(&self.bytes[sector as usize * SECTOR..][..SECTOR]);
            before.push(Before { sector, state: *state, bytes });
        }
        state.present = true;
        if state.dirty == 0 {
            self.dirty.push(Some(Dirty { sector, class }));
            state.dirty = self.dirty.len() as u32;
        } else if let Some(dirty) = &mut self.dirty[state.dirty as usize - 1] {
            dirty.class = class;
        }
    }

    pub(super) fn begin(&mut self) {
        self.before = Some(Vec::new());
    }

    pub(super) fn commit(&mut self) -> Vec<Before> {
        self.before.take().unwrap_or_default()
    }

    pub(super) fn touched(&self) -> Vec<u32> {
        self.before.iter().flatten().map(|before| before.sector).collect()
    }

    pub(super) fn roll_back(&mut self) {
        for Before { sector, state, bytes } in self.before.take().unwrap_or_default() {
            // A sector that was clean before the operation leaves the list of dirty sectors.
            if state.dirty == 0 {
                self.forget(sector..sector + 1);
            }
            self.states[sector as usize] = state;
            self.bytes[sector as usize * SECTOR..][..SECTOR].copy_from_slice(&bytes);
        }
    }

    /// Clusters freed since `before`, as ordered runs of sectors.
    pub(super) fn freed(&self, before: &[Before]) -> Vec<Range<u32>> {
        let mut freed: Vec<Range<u32>> = Vec::new();
        let table = self.layout.fat(0);
        let mut tables: Vec<_> = before.iter().filter(|before| table.contains(&before.sector)).collect();
        tables.sort_unstable_by_key(|before| before.sector);
        for Before { sector, bytes: old, .. } in tables {
            let new = &self.bytes[*sector as usize * SECTOR..][..SECTOR];
            let first_entry = (sector - table.start) * (SECTOR as u32 / 2);
            for (entry, (old, new)) in old.chunks_exact(2).zip(new.chunks_exact(2)).enumerate() {
                if old == [0, 0] || new != [0, 0] {
                    continue;
                }
                let cluster = self.layout.cluster(first_entry + entry as u32);
                match freed.last_mut() {
                    Some(last) if last.end == cluster.start => last.end = cluster.end,
                    _ => freed.push(cluster),
                }
            }
        }
        freed
    }

    pub(super) fn forget(&mut self, sectors: Range<u32>) {
        for sector in sectors {
            let state = &mut self.states[sector as usize];
            if state.dirty != 0 {
                self.dirty[state.dirty as usize - 1] = None;
                state.dirty = 0;
            }
        }
    }

    pub(super) fn trim(&mut self, sectors: Range<u32>) -> Result<(), FileError> {
        self.device.trim(self.first + u64::from(sectors.start), sectors.len() as u64)
    }

    /// Writes all dirty sectors in `order`, then flushes: the end of an operation in synchronous mode.
    pub(super) fn settle(&mut self, order: Order, request_sectors: usize) -> Result<(), FileError> {
        let mut dirty: Vec<Dirty> = self.dirty.iter().flatten().copied().collect();
        let second_fat = self.layout.fat(1).start;
        dirty.sort_by_key(|dirty| {
            let (rank, sector) = match dirty.class {
                Class::Boot => (0, dirty.sector),
                Class::Fat => (if dirty.sector < second_fat { 2 } else { 3 }, dirty.sector),
                Class::Data => (4, dirty.sector),
                // Equal keys keep the order of becoming dirty: a new directory precedes the entry that refers
                // to it.
                Class::RootDirectory | Class::Directory => (if order == Order::Grow { 5 } else { 1 }, 0),
            };
            (rank, sector)
        });
        if dirty.is_empty() {
            return Ok(());
        }
        // Metadata is written in single sectors, like the buffer heads of Linux.
        let data = request_sectors.clamp(1, REQUEST_SECTORS_MAX);
        self.write_runs(&dirty, |class| if class == Class::Data { data } else { 1 })?;
        self.device.flush()
    }

    pub(super) fn write_back(&mut self) -> Result<(), FileError> {
        // Ascending order lets adjacent sectors of one class share a request.
        let mut dirty: Vec<Dirty> = self.dirty.iter().flatten().copied().collect();
        dirty.sort_unstable_by_key(|dirty| dirty.sector);
        self.write_runs(&dirty, |_| REQUEST_SECTORS_MAX)?;
        self.device.flush()
    }

    fn write_runs(&mut self, dirty: &[Dirty], longest: impl Fn(Class) -> usize) -> Result<(), FileError> {
        let mut rest = dirty;
        while let Some(first) = rest.first() {
            let run = rest
                .iter()
                .zip(first.sector..)
                .take(longest(first.class))
                .take_while(|(dirty, sector)| dirty.sector == *sector && dirty.class == first.class)
                .count();
            let bytes = &self.bytes[first.sector as usize * SECTOR..][..run * SECTOR];
            // After an error this run and all later ones stay dirty.
            self.device.write(self.first + u64::from(first.sector), bytes, first.class)?;
            self.forget(first.sector..first.sector + run as u32);
            rest = &rest[run..];
        }
        self.dirty.clear();
        Ok(())
    }
}
