//! The volume in memory: what was read stays, what was written waits until it is settled.

use super::device::{Class, SectorDevice};
use super::layout::Layout;
use crate::files::FileError;
use std::ops::Range;

/// Bytes of a sector, for slices.
pub(super) const SECTOR: usize = 512;

/// Largest request, in sectors: 128 KiB, the most that Linux long sent at once to a disk.
const REQUEST_SECTORS_MAX: usize = 256;

/// In which order an operation's sectors reach the device one by one, so that a power cut in between
/// costs clusters and never files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// First the clusters are taken, then filled, then referred to: FAT 1, FAT 2, data, directories.
    Grow,
    /// First the reference goes, then the clusters: directories, FAT 1, FAT 2.
    Shrink,
}

/// A dirty sector, in the order in which sectors became dirty.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    sector: u32,
    class: Class,
}

/// Cached state of a sector.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    present: bool,
    /// Place in the list of dirty sectors, plus one.
    dirty: u32,
}

/// A sector as it was before the current operation touched it.
#[derive(Clone, Debug)]
pub(super) struct Before {
    sector: u32,
    state: State,
    bytes: [u8; SECTOR],
}

/// Byte-granular access to the sectors of a volume, and the list of those to be written.
#[derive(Debug)]
pub(super) struct SectorCache<D> {
    device: D,
    /// Sector of the device where the volume begins.
    first: u64,
    layout: Layout,
    bytes: Vec<u8>,
    states: Vec<State>,
    /// `None` are those that have been settled or dropped ahead of the others.
    dirty: Vec<Option<Dirty>>,
    /// True while file contents are written.
    payload: bool,
    before: Option<Vec<Before>>,
}

impl<D: SectorDevice> SectorCache<D> {
    /// A volume of `sectors` sectors from `first` on. If it is `blank`, that is about to be
    /// formatted, nothing of it is ever read from the device.
    pub(super) fn new(device: D, first: u64, sectors: u32, layout: Layout, blank: bool) -> Self {
        Self {
            device,
            first,
            layout,
            bytes: vec![0; sectors as usize * SECTOR],
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

    /// Says where the parts of the volume lie, after it has been formatted.
    pub(super) fn set_layout(&mut self, layout: Layout) {
        for dirty in self.dirty.iter_mut().flatten() {
            dirty.class = layout.class(dirty.sector, false);
        }
        self.layout = layout;
    }

    /// From now on writes to the data area are file contents, or are not.
    pub(super) fn set_payload(&mut self, payload: bool) {
        self.payload = payload;
    }

    /// Reads up to the end of the volume; the number of bytes read.
    pub(super) fn read(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let range = self.clip(at, buffer.len());
        self.load(range.start / SECTOR..range.end.div_ceil(SECTOR))?;
        buffer[..range.len()].copy_from_slice(&self.bytes[range.clone()]);
        Ok(range.len())
    }

    /// Writes up to the end of the volume; the number of bytes written.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<usize, FileError> {
        let range = self.clip(at, bytes.len());
        if range.is_empty() {
            return Ok(0);
        }
        let sectors = range.start / SECTOR..range.end.div_ceil(SECTOR);
        // Only a sector that is not replaced as a whole must be known.
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

    /// Reads those of `sectors` from the device that memory does not hold, in runs.
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
        // The mark of an unclean volume is no part of the operation during which it is set.
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

    /// Begins an operation that either happens or not.
    pub(super) fn begin(&mut self) {
        self.before = Some(Vec::new());
    }

    /// The operation has happened; what it changed, as it was before.
    pub(super) fn commit(&mut self) -> Vec<Before> {
        self.before.take().unwrap_or_default()
    }

    /// The sectors that the current operation has touched.
    pub(super) fn touched(&self) -> Vec<u32> {
        self.before.iter().flatten().map(|before| before.sector).collect()
    }

    /// The operation has not happened.
    pub(super) fn roll_back(&mut self) {
        for Before { sector, state, bytes } in self.before.take().unwrap_or_default() {
            if state.dirty == 0 {
                self.forget(sector..sector + 1);
            }
            self.states[sector as usize] = state;
            self.bytes[sector as usize * SECTOR..][..SECTOR].copy_from_slice(&bytes);
        }
    }

    /// Clusters that `before` shows in use and that are free now, as runs of sectors in order.
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

    /// Contents of `sectors` need not be written any more.
    pub(super) fn forget(&mut self, sectors: Range<u32>) {
        for sector in sectors {
            let state = &mut self.states[sector as usize];
            if state.dirty != 0 {
                self.dirty[state.dirty as usize - 1] = None;
                state.dirty = 0;
            }
        }
    }

    /// Tells the device that `sectors` hold nothing of use.
    pub(super) fn trim(&mut self, sectors: Range<u32>) -> Result<(), FileError> {
        self.device.trim(self.first + u64::from(sectors.start), sectors.len() as u64)
    }

    /// Writes everything dirty in the order of one synchronous operation: metadata a sector at a
    /// time, as the buffer heads of Linux, and file contents in runs of up to `request_sectors`. Then
    /// flushes the device.
    pub(super) fn settle(&mut self, order: Order, request_sectors: usize) -> Result<(), FileError> {
        let mut dirty: Vec<Dirty> = self.dirty.iter().flatten().copied().collect();
        let second_fat = self.layout.fat(1).start;
        dirty.sort_by_key(|dirty| {
            let (rank, sector) = match dirty.class {
                Class::Boot => (0, dirty.sector),
                Class::Fat => (if dirty.sector < second_fat { 2 } else { 3 }, dirty.sector),
                Class::Data => (4, dirty.sector),
                // In the order they became dirty: a new directory before the entry that names it.
                Class::RootDirectory | Class::Directory => (if order == Order::Grow { 5 } else { 1 }, 0),
            };
            (rank, sector)
        });
        if dirty.is_empty() {
            return Ok(());
        }
        let data = request_sectors.clamp(1, REQUEST_SECTORS_MAX);
        self.write_runs(&dirty, |class| if class == Class::Data { data } else { 1 })?;
        self.device.flush()
    }

    /// Writes everything dirty in ascending order, in runs of one class, and flushes the device.
    pub(super) fn write_back(&mut self) -> Result<(), FileError> {
        let mut dirty: Vec<Dirty> = self.dirty.iter().flatten().copied().collect();
        dirty.sort_unstable_by_key(|dirty| dirty.sector);
        self.write_runs(&dirty, |_| REQUEST_SECTORS_MAX)?;
        self.device.flush()
    }

    /// Writes `dirty`, which is everything dirty, neighbours together as far as `longest` allows. What
    /// the device refuses is dirty as before.
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
            self.device.write(self.first + u64::from(first.sector), bytes, first.class)?;
            self.forget(first.sector..first.sector + run as u32);
            rest = &rest[run..];
        }
        self.dirty.clear();
        Ok(())
    }
}
