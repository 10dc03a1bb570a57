//! The streams of a drive: who writes each of them, and their open blocks.

use std::ops::{Index, IndexMut, Range};

use strobe_types::{Geometry, State};

use crate::block_info::Stream;
use crate::frontier::Frontier;
use crate::map::page::core::groups::Groups;
use crate::map::page::core::handles::Handles;
use crate::map::page::core::stream_log::StreamLog;
use crate::place::StreamId;

/// The stream of host writes that no placement separates.
pub(crate) const HOST: StreamId = StreamId::new(0);

/// Writers of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    Host,
    /// Relocation.
    Copies,
    /// Host and relocation.
    Both,
    /// Wear levelling.
    Wear,
    /// Translation pages.
    Map,
    /// The host, through the SLC cache.
    SlcCache,
}

/// Streams by number. Those of the placement come first; then wear levelling, translation pages and the SLC cache, as far
/// as a drive has them.
#[derive(Clone, Debug)]
pub(crate) struct StreamTable {
    writers: Vec<Writer>,
    /// Streams of the host, and of relocated units.
    pub(crate) host: Range<u8>,
    pub(crate) copies: Range<u8>,
    /// Most streams that the units of one victim go to.
    pub(crate) victim_streams: u8,
    /// Reclaim groups, each with as many of the streams of the host and of relocated units, one group after the other.
    groups: u32,
    /// Units moved by wear levelling; the last stream of relocated units without levelling.
    pub(crate) wear: StreamId,
    /// Translation pages, which share with nothing; [`StreamId::NONE`] without demand paging.
    pub(crate) translation: StreamId,
    /// Host writes to blocks in SLC mode; [`StreamId::NONE`] without an SLC cache.
    pub(crate) slc: StreamId,
}

impl StreamTable {
    /// The table of a drive whose placement has streams `host` and `copies` in `groups` reclaim groups. The others are there
    /// if asked for.
    pub(crate) fn new(
        groups: u32,
        (host, copies, victim_streams): (Range<u8>, Range<u8>, u8),
        [has_wear, is_paged, has_slc]: [bool; 3],
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
        let slc = add(has_slc, Writer::SlcCache).unwrap_or(StreamId::NONE);
        Self { writers, host, copies, victim_streams, groups, wear, translation, slc }
    }

    /// The reclaim group of `stream`.
    pub(crate) fn group_of(&self, stream: StreamId) -> u32 {
        let streams = if self.host.contains(&stream.get()) { &self.host } else { &self.copies };
        if self.groups == 1 || !streams.contains(&stream.get()) {
            return 0;
        }
        u32::from(stream.get() - streams.start) / (streams.len() as u32 / self.groups)
    }

    /// Streams in all.
    pub(crate) fn count(&self) -> usize {
        self.writers.len()
    }

    /// First stream of relocated units: that of those that nothing is known of.
    #[inline]
    pub(crate) fn first_copy(&self) -> StreamId {
        StreamId::new(self.copies.start)
    }

    /// Streams of relocated units.
    pub(crate) fn copy_streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        self.copies.clone().map(StreamId::new)
    }

    /// Streams of relocated units that the host does not write.
    pub(crate) fn copies_alone(&self) -> impl Iterator<Item = StreamId> + use<> {
        let host = self.host.clone();
        self.copy_streams().filter(move |stream| !host.contains(&stream.get()))
    }

    /// Streams of the host.
    pub(crate) fn host_streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        self.host.clone().map(StreamId::new)
    }

    /// True if relocated units go on in the open blocks of the host's only stream. With several streams there is no telling
    /// which of them the host needs a block for.
    #[inline]
    pub(crate) fn shares_host(&self) -> bool {
        self.copies.start == HOST.get() && self.host.len() == 1
    }

    /// True if the placement decides the stream of `stream`, rather than a part of the drive that has one of its own.
    pub(crate) fn is_placed(&self, stream: StreamId) -> bool {
        stream.get() < self.host.end.max(self.copies.end)
    }

    /// True if the host writes `stream`.
    pub(crate) fn is_of_host(&self, stream: StreamId) -> bool {
        self.host.contains(&stream.get()) || stream == self.slc
    }

    /// The name of `stream` for observers.
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

/// The streams with their open blocks.
#[derive(Clone, Debug, State)]
pub(crate) struct Streams {
    #[state(skip)]
    pub(crate) table: StreamTable,
    /// True if the next row of pages goes to the die with the least work waiting.
    #[state(skip)]
    pub(crate) is_free_first: bool,
    /// True if the address of a page decides which lane it goes to.
    #[state(skip)]
    pub(crate) is_by_address: bool,
    frontiers: Vec<Frontier>,
    /// Placement handles; `None` if the host does not choose streams by handle.
    #[state(part)]
    pub(crate) handles: Option<Box<Handles>>,
    /// Work of each stream; `None` without a placement.
    #[state(part)]
    pub(crate) log: Option<Box<StreamLog>>,
}

impl Streams {
    /// Streams without an open block. `by_die`: as of [`Frontier::new`]; blocks of the SLC cache have `slc_pages` pages.
    pub(crate) fn new(table: StreamTable, geometry: &Geometry, by_die: bool, slc_pages: u32) -> Self {
        let groups = Groups::new(table.groups, geometry);
        let planes = |stream: usize| groups.planes(table.group_of(StreamId::new(stream as u8)));
        let frontier = |stream| match Frontier::new(geometry, planes(stream), by_die) {
            frontier if stream == table.slc.index() => frontier.with_pages(slc_pages),
            frontier => frontier,
        };
        let frontiers = (0..table.count()).map(frontier).collect();
        Self { frontiers, is_free_first: by_die, is_by_address: false, table, handles: None, log: None }
    }

    /// Lets the handles go on after a power cut, with what is left of the blocks that are open.
    pub(crate) fn resume_handles(&mut self) {
        if let Some(handles) = &mut self.handles {
            handles.resume(|stream| self.frontiers[stream.index()].room_pages().into());
        }
    }

    /// Returns the streams with their open blocks on lanes in the order of another drive.
    pub(crate) fn moved(&self, geometry: &Geometry, by_die: bool, slc_pages: u32) -> Self {
        let mut streams = Self::new(self.table.clone(), geometry, by_die, slc_pages);
        streams.handles.clone_from(&self.handles);
        streams.log.clone_from(&self.log);
        for (frontier, moved) in self.frontiers.iter().zip(&mut streams.frontiers) {
            for (_, block, pages) in frontier.open_lanes(geometry) {
                // Lanes are numbered in another order if the planes of a die take turns, and a lane need not have a block of
                // the plane it prefers.
                let plane = geometry.plane_of(block);
                let is_open =
                    moved.lane_on(plane).is_some_and(|lane| moved.resume(lane, block, pages, geometry));
                let _ = is_open || (0..moved.lanes()).any(|lane| moved.resume(lane, block, pages, geometry));
            }
        }
        streams
    }

    /// Notes that `pages` pages of `stream` have been programmed, with `host_units` units of the host.
    #[inline]
    pub(crate) fn programmed(&mut self, stream: StreamId, pages: u64, host_units: u64) {
        if let Some(log) = &mut self.log {
            log.programmed(stream, pages, host_units);
        }
        if let Some(handles) = &mut self.handles {
            handles.programmed(stream, pages);
        }
    }

    /// All streams, by number.
    pub(crate) fn ids(&self) -> impl Iterator<Item = StreamId> + use<> {
        (0..self.frontiers.len() as u8).map(StreamId::new)
    }

    /// Open blocks of all streams, by number.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Frontier> {
        self.frontiers.iter()
    }

    /// Open blocks of streams that write to blocks in normal mode.
    pub(crate) fn in_normal_mode(&self) -> &[Frontier] {
        // The SLC cache is the last one.
        &self.frontiers[..self.table.slc.index().min(self.frontiers.len())]
    }

    /// Open blocks of stream `number`, if there is one.
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
