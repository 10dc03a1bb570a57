//! The streams of a drive: writers and open blocks.

use std::ops::{Index, IndexMut, Range};

use strobe_types::{Geometry, State};

use crate::block_info::Stream;
use crate::frontier::Frontier;
use crate::map::page::core::groups::Groups;
use crate::map::page::core::handles::Handles;
use crate::map::page::core::stream_log::StreamLog;
use crate::place::StreamId;

/// Stream of host writes without a placement.
pub(crate) const HOST: StreamId = StreamId::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    Host,
    Copies,
    Both,
    Wear,
    Map,
    /// The host, through the SLC cache.
    SlcCache,
}

/// Streams by number. Placement streams come first, then wear levelling, translation pages and the SLC cache,
/// if present.
#[derive(Clone, Debug)]
pub(crate) struct StreamTable {
    writers: Vec<Writer>,
    pub(crate) host: Range<u8>,
    pub(crate) copies: Range<u8>,
    /// Maximum number of streams that take the units of one victim.
    pub(crate) victim_streams: u8,
    /// Number of reclaim groups. Host streams and copy streams are divided evenly among them, in order.
    groups: u32,
    /// Stream of wear levelling. Without wear levelling, the last copy stream.
    pub(crate) wear: StreamId,
    /// [`StreamId::NONE`] without demand paging.
    pub(crate) translation: StreamId,
    /// Streams of the SLC cache: none, one, or one for each host stream.
    slc: Range<u8>,
    /// True if folded units go to the host stream that their placement chose. Otherwise they are placed as relocated
    /// ones.
    pub(crate) folds_to_host: bool,
}

impl StreamTable {
    /// The flags add streams after the placement's streams.
    pub(crate) fn new(
        groups: u32,
        (host, copies, victim_streams): (Range<u8>, Range<u8>, u8),
        [has_wear, is_paged, has_slc]: [bool; 3],
        folds_to_host: bool,
    ) -> Self {
        let placed = (0..host.end.max(copies.end)).map(|stream| {
            match (host.contains(&stream), copies.contains(&stream)) {
                (true, true) => Writer::Both,
                (true, false) => Writer::Host,
                (false, _) => Writer::Copies,
            }
        });
        let mut writers: Vec<Writer> = placed.collect();
        let mut add = |is_wanted: bool, writer| {
            let next = StreamId::new(writers.len() as u8);
            if is_wanted {
                writers.push(writer);
            }
            is_wanted.then_some(next)
        };
        let wear = add(has_wear, Writer::Wear).unwrap_or(StreamId::new(copies.end - 1));
        let translation = add(is_paged, Writer::Map).unwrap_or(StreamId::NONE);
        let first = writers.len() as u8;
        let of_cache = if folds_to_host { host.len() } else { 1 };
        writers.extend(std::iter::repeat_n(Writer::SlcCache, if has_slc { of_cache } else { 0 }));
        let slc = first..writers.len() as u8;
        let folds_to_host = folds_to_host && has_slc;
        Self { writers, host, copies, victim_streams, groups, wear, translation, slc, folds_to_host }
    }

    #[inline]
    pub(crate) fn is_slc(&self, stream: StreamId) -> bool {
        self.slc.contains(&stream.get())
    }

    /// Stream of the SLC cache for units of the host `stream`.
    pub(crate) fn cache_of(&self, stream: StreamId) -> StreamId {
        StreamId::new(self.slc.start + if self.folds_to_host { stream.get() } else { 0 })
    }

    pub(crate) fn cache_streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        self.slc.clone().map(StreamId::new)
    }

    /// Host stream for the folded units of a block that the cache `stream` has filled; unknown after a power cut.
    pub(crate) fn fold_of(&self, stream: Option<StreamId>) -> Option<StreamId> {
        let of_host = |stream: StreamId| StreamId::new(stream.get() - self.slc.start);
        let stream = stream.filter(|&stream| self.is_slc(stream));
        self.folds_to_host.then(|| stream.map_or(HOST, of_host))
    }

    /// Number of streams of a reclaim group that may take units of victims.
    pub(crate) fn targets(&self) -> u32 {
        let of_host = if self.folds_to_host {
            self.host_streams().filter(|&to| !self.is_of_copies(to)).count()
        } else {
            0
        };
        (self.copies.len() + of_host) as u32 / self.groups
    }

    /// True if units of victims may go to `stream`.
    pub(crate) fn is_target(&self, stream: StreamId) -> bool {
        self.is_of_copies(stream) || self.folds_to_host && self.host.contains(&stream.get())
    }

    pub(crate) fn group_of(&self, stream: StreamId) -> u32 {
        let streams = if self.host.contains(&stream.get()) { &self.host } else { &self.copies };
        if self.groups == 1 || !streams.contains(&stream.get()) {
            return 0;
        }
        u32::from(stream.get() - streams.start) / (streams.len() as u32 / self.groups)
    }

    pub(crate) fn count(&self) -> usize {
        self.writers.len()
    }

    /// First stream of relocated units, and their default.
    #[inline]
    pub(crate) fn first_copy(&self) -> StreamId {
        StreamId::new(self.copies.start)
    }

    pub(crate) fn copy_streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        self.copies.clone().map(StreamId::new)
    }

    /// Streams of relocated units that the host never writes.
    pub(crate) fn copies_alone(&self) -> impl Iterator<Item = StreamId> + use<> {
        let host = self.host.clone();
        self.copy_streams().filter(move |stream| !host.contains(&stream.get()))
    }

    pub(crate) fn host_streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        self.host.clone().map(StreamId::new)
    }

    /// True if host and relocation share the host's only stream, and thus its open blocks.
    #[inline]
    pub(crate) fn shares_host(&self) -> bool {
        self.copies.start == HOST.get() && self.host.len() == 1
    }

    /// True if `stream` is one of the placement's.
    pub(crate) fn is_placed(&self, stream: StreamId) -> bool {
        stream.get() < self.host.end.max(self.copies.end)
    }

    pub(crate) fn is_of_host(&self, stream: StreamId) -> bool {
        self.host.contains(&stream.get()) || self.is_slc(stream)
    }

    pub(crate) fn is_of_copies(&self, stream: StreamId) -> bool {
        self.copies.contains(&stream.get())
    }

    pub(crate) fn named(&self, stream: StreamId) -> Stream {
        match self.writers.get(stream.index()) {
            Some(Writer::Host | Writer::Both) => Stream::Host,
            Some(Writer::Copies) if self.is_last_of_several(stream) => Stream::Cold,
            Some(Writer::Copies) => Stream::Moved,
            Some(Writer::Wear) => Stream::Leveled,
            Some(Writer::Map) => Stream::Map,
            Some(Writer::SlcCache) => Stream::Slc,
            None => Stream::Unknown,
        }
    }

    fn is_last_of_several(&self, stream: StreamId) -> bool {
        self.copies.len() > 1 && stream.get() == self.copies.end - 1
    }
}

#[derive(Clone, Debug, State)]
pub(crate) struct Streams {
    #[state(skip)]
    pub(crate) table: StreamTable,
    /// True if the next row of pages is placed on the die with the shortest backlog.
    #[state(skip)]
    pub(crate) is_free_first: bool,
    #[state(skip)]
    pub(crate) is_by_address: bool,
    /// True if a program must not open a block on another die, even if that die is less busy. False between calls.
    #[state(skip)]
    pub(crate) stays_open: bool,
    frontiers: Vec<Frontier>,
    #[state(part)]
    pub(crate) handles: Option<Box<Handles>>,
    #[state(part)]
    pub(crate) log: Option<Box<StreamLog>>,
}

impl Streams {
    /// `by_die`: see [`Frontier::new`]. Blocks of the SLC cache have `slc_pages` pages.
    pub(crate) fn new(table: StreamTable, geometry: &Geometry, by_die: bool, slc_pages: u32) -> Self {
        let groups = Groups::new(table.groups, geometry);
        let planes = |stream: usize| groups.planes(table.group_of(StreamId::new(stream as u8)));
        let frontier = |stream| match Frontier::new(geometry, planes(stream), by_die) {
            frontier if table.is_slc(StreamId::new(stream as u8)) => frontier.with_pages(slc_pages),
            frontier => frontier,
        };
        let frontiers = (0..table.count()).map(frontier).collect();
        Self {
            frontiers,
            is_free_first: by_die,
            is_by_address: false,
            stays_open: false,
            table,
            handles: None,
            log: None,
        }
    }

    pub(crate) fn resume_handles(&mut self) {
        if let Some(handles) = &mut self.handles {
            handles.resume(|stream| self.frontiers[stream.index()].free_pages().into());
        }
    }

    /// Returns the streams for other flash, with the same open blocks on its lanes.
    pub(crate) fn moved(&self, geometry: &Geometry, by_die: bool, slc_pages: u32) -> Self {
        let mut streams = Self::new(self.table.clone(), geometry, by_die, slc_pages);
        streams.handles.clone_from(&self.handles);
        streams.log.clone_from(&self.log);
        for (frontier, moved) in self.frontiers.iter().zip(&mut streams.frontiers) {
            for (_, block, pages) in frontier.open_lanes(geometry) {
                // The order of lanes depends on `by_die`, so the lane is found by the plane of the block. If
                // that lane has an open block, any lane without one takes this block.
                let plane = geometry.plane_of(block);
                let is_open =
                    moved.lane_on(plane).is_some_and(|lane| moved.resume(lane, block, pages, geometry));
                let _ = is_open || (0..moved.lanes()).any(|lane| moved.resume(lane, block, pages, geometry));
            }
        }
        streams
    }

    #[inline]
    pub(crate) fn programmed(&mut self, stream: StreamId, pages: u64, host_units: u64) {
        if let Some(log) = &mut self.log {
            log.programmed(stream, pages, host_units);
        }
        if let Some(handles) = &mut self.handles {
            handles.programmed(stream, pages);
        }
    }

    /// Blocks that `stream` opens for the next `pages` pages.
    #[inline]
    pub(crate) fn blocks_for(&self, stream: StreamId, pages: u32, per_block: u32) -> u32 {
        let frontier = &self[stream];
        // With allocation by address, any lane may be next.
        if self.is_by_address {
            frontier.full_lanes().min(pages)
        } else {
            frontier.blocks_for(pages, per_block)
        }
    }

    pub(crate) fn ids(&self) -> impl ExactSizeIterator<Item = StreamId> + use<> {
        (0..self.frontiers.len() as u8).map(StreamId::new)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Frontier> {
        self.frontiers.iter()
    }

    pub(crate) fn in_normal_mode(&self) -> &[Frontier] {
        // The streams of the SLC cache are the last ones.
        &self.frontiers[..self.table.slc.start.into()]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Frontier> {
        self.frontiers.get_mut(number as usize)
    }
}

impl Index<StreamId> for Streams {
    type Output = Frontier;

    #[inline(always)]
    fn index(&self, stream: StreamId) -> &Frontier {
        &self.frontiers[stream.index()]
    }
}

impl IndexMut<StreamId> for Streams {
    #[inline(always)]
    fn index_mut(&mut self, stream: StreamId) -> &mut Frontier {
        &mut self.frontiers[stream.index()]
    }
}
