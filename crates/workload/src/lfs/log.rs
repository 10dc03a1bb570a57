//! The log: placement of blocks in segments, and the resulting commands.

use std::collections::VecDeque;

use strobe_types::{Lba, Prng, Range, State, Stored, counters};

use super::layout::{Cleaning, LfsCommand, LfsDisk, LfsLayout, Trims};

const CHECKPOINTS: u32 = 0;

/// Log head of new blocks; blocks moved by cleaning have a separate head.
const NEW: usize = 0;
const MOVED: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub(super) struct Place(pub(super) u32);

#[derive(Clone, Copy, Debug, Stored)]
struct Head {
    segment: u32,
    used: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub(super) struct Segment {
    pub(super) live: u32,
    /// Dead blocks that the last checkpoint still references.
    pub(super) given_up: u32,
}

/// A log-structured file system without file contents: only the places of blocks are tracked.
///
/// Costs 16 bytes of memory per block of the drive.
#[derive(Clone, Debug, State)]
pub struct Lfs {
    #[state(skip)]
    layout: LfsLayout,
    rng: Prng,
    pub(super) places: Vec<Option<Place>>,
    pub(super) owners: Vec<Option<u32>>,
    pub(super) contents: Vec<Segment>,
    heads: [Head; 2],
    free: VecDeque<u32>,
    full: VecDeque<u32>,
    checkpoints: u32,
    /// Blocks that died since the last checkpoint, which still references them.
    pub(super) dead: Vec<Place>,
    holes: VecDeque<Place>,
    since_checkpoint: u32,
    counts: LfsCounts,
}

counters! {
    /// Counters of a file system, in blocks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LfsCounts {
        /// Blocks written by the application.
        pub written: u64,
        /// Blocks of cleaned segments.
        pub cleaned: u64,
        /// Live blocks of cleaned segments, which were moved.
        pub moved: u64,
        /// Number of checkpoints.
        pub checkpoints: u64,
    }
}

impl Lfs {
    /// Returns an empty file system for `file_blocks` blocks of files, rounded down to whole updates.
    ///
    /// # Panics
    ///
    /// If `file_blocks` exceeds [`LfsLayout::file_blocks_max`], or the layout is invalid.
    pub fn new(layout: LfsLayout, file_blocks: u32, seed: u64) -> Self {
        // An update rewrites a whole extent, so a partial extent would never be written.
        let file_blocks = file_blocks / layout.update_blocks * layout.update_blocks;
        assert!(
            file_blocks <= layout.file_blocks_max(),
            "files of {file_blocks} blocks leave no space for cleaning"
        );
        assert!(layout.segment_blocks.is_multiple_of(layout.update_blocks), "updates do not cross segments");
        // The first segment holds the checkpoints.
        let mut free: VecDeque<u32> = (CHECKPOINTS + 1..layout.segments).collect();
        let heads = [NEW, MOVED].map(|_| Head { segment: free.pop_front().unwrap_or(0), used: 0 });
        Self {
            layout,
            rng: Prng::derive(seed, "lfs"),
            places: vec![None; file_blocks as usize],
            owners: vec![None; (layout.segments * layout.segment_blocks) as usize],
            contents: vec![Segment::default(); layout.segments as usize],
            heads,
            free,
            full: VecDeque::new(),
            checkpoints: 0,
            dead: Vec::new(),
            holes: VecDeque::new(),
            since_checkpoint: 0,
            counts: LfsCounts::default(),
        }
    }

    /// Layout of the file system.
    pub fn layout(&self) -> &LfsLayout {
        &self.layout
    }

    /// Counters so far.
    pub fn counts(&self) -> LfsCounts {
        self.counts
    }

    /// Number of file blocks.
    pub fn file_blocks(&self) -> u32 {
        self.places.len() as u32
    }

    /// Number of extents; an update rewrites one.
    pub fn extents(&self) -> u32 {
        self.places.len() as u32 / self.layout.update_blocks
    }

    /// First sector of file block `block`; `None` before its first write.
    pub fn lba_of(&self, block: u32) -> Option<Lba> {
        self.places[block as usize].map(|place| self.range(place, 1).lba)
    }

    /// Writes all files once, in order.
    pub fn create<D: LfsDisk>(&mut self, disk: &mut D) -> Result<(), D::Error> {
        (0..self.extents()).try_for_each(|extent| self.update(disk, extent))
    }

    /// Rewrites random extents until the next update would need cleaning, then writes a checkpoint.
    ///
    /// A file system that writes in place never cleans. It rewrites the number of extents for which a log
    /// would have space.
    pub fn age<D: LfsDisk>(&mut self, disk: &mut D) -> Result<(), D::Error> {
        if self.layout.cleaning == Cleaning::InPlace {
            let blocks = self.layout.log_blocks().saturating_sub(self.file_blocks());
            for _ in 0..blocks / self.layout.update_blocks {
                self.update_at_random(disk)?;
            }
        } else {
            while !self.is_out() {
                self.update_at_random(disk)?;
            }
        }
        self.checkpoint(disk)
    }

    /// Rewrites a random extent, cleaning as needed.
    pub fn update_at_random<D: LfsDisk>(&mut self, disk: &mut D) -> Result<(), D::Error> {
        let extents = self.extents();
        let extent = self.rng.below(extents);
        self.update(disk, extent)
    }

    /// Rewrites extent `extent`, cleaning as needed.
    pub fn update<D: LfsDisk>(&mut self, disk: &mut D, extent: u32) -> Result<(), D::Error> {
        let LfsLayout { update_blocks, segment_blocks, cleaning, checkpoint_every, sync, .. } = self.layout;
        let first = extent * update_blocks;
        self.counts.written += u64::from(update_blocks);
        self.since_checkpoint += update_blocks;
        match cleaning {
            Cleaning::InPlace => {
                self.write(disk, Place(segment_blocks + first), update_blocks)?;
                (first..first + update_blocks)
                    .for_each(|block| self.places[block as usize] = Some(Place(segment_blocks + block)));
            }
            Cleaning::Threaded if self.is_out() => self.fill_holes(disk, first)?,
            _ => {
                while self.is_out() {
                    self.clean(disk)?;
                }
                let blocks: Vec<u32> = (first..first + update_blocks).collect();
                let to = self.append(NEW, &blocks);
                self.write(disk, to, update_blocks)?;
            }
        }
        // A log with cleaning writes its checkpoints in `clean`; the other two write them by the amount of
        // data.
        if matches!(cleaning, Cleaning::InPlace | Cleaning::Threaded)
            && self.since_checkpoint >= checkpoint_every
        {
            self.checkpoint(disk)
        } else if sync {
            disk.wait()?;
            disk.send(LfsCommand::Flush)?;
            disk.wait()
        } else {
            Ok(())
        }
    }

    /// True if the next block needs a new segment and only the cleaning reserve is free.
    fn is_out(&self) -> bool {
        self.heads[NEW].used == self.layout.segment_blocks
            && self.free.len() <= self.layout.cleaned_segments as usize
    }

    fn fill_holes<D: LfsDisk>(&mut self, disk: &mut D, first: u32) -> Result<(), D::Error> {
        let LfsLayout { update_blocks, request_blocks, .. } = self.layout;
        let mut places = Vec::new();
        for block in first..first + update_blocks {
            if self.holes.is_empty() {
                self.find_holes(disk)?;
            }
            let to = self.holes.pop_front().expect("a file system that is not full has dead blocks");
            self.place(block, to);
            places.push(to);
        }
        for (to, blocks) in runs(places.into_iter(), request_blocks) {
            self.write(disk, to, blocks)?;
        }
        Ok(())
    }

    /// Collects the holes of the full segment with the most holes.
    fn find_holes<D: LfsDisk>(&mut self, disk: &mut D) -> Result<(), D::Error> {
        let most_holes = |lfs: &Self| {
            // A dead block that the last checkpoint still references is not a hole.
            let holes = |segment: u32| {
                let Segment { live, given_up } = lfs.contents[segment as usize];
                lfs.layout.segment_blocks - live - given_up
            };
            // `max_by_key` keeps the last maximum, so with `rev` ties go to the front of `full`.
            let found = lfs.full.iter().enumerate().rev().max_by_key(|&(_, &segment)| holes(segment));
            found.filter(|&(_, &segment)| holes(segment) > 0).map(|(at, _)| at)
        };
        let mut found = most_holes(self);
        // A checkpoint turns all blocks that died since the last one into holes.
        if found.is_none() {
            self.checkpoint(disk)?;
            found = most_holes(self);
        }
        let segment = found.and_then(|at| self.full.remove(at)).expect("there are dead blocks");
        // Move the segment to the end, so that ties visit other segments first.
        self.full.push_back(segment);
        let mut given_up = vec![false; self.layout.segment_blocks as usize];
        let first = segment * self.layout.segment_blocks;
        for place in self.dead.iter().filter(|place| place.0 / self.layout.segment_blocks == segment) {
            given_up[(place.0 - first) as usize] = true;
        }
        let is_hole =
            |&place: &u32| self.owners[place as usize].is_none() && !given_up[(place - first) as usize];
        self.holes = self.segment(segment).filter(is_hole).map(Place).collect();
        Ok(())
    }

    fn free_blocks_in(&self, head: usize) -> u32 {
        // `append` opens a new segment if this one is full.
        match self.layout.segment_blocks - self.heads[head].used {
            0 => self.layout.segment_blocks,
            free_blocks_in => free_blocks_in,
        }
    }

    fn append(&mut self, head: usize, blocks: &[u32]) -> Place {
        assert!(blocks.len() <= self.free_blocks_in(head) as usize, "segments are not crossed");
        if self.heads[head].used == self.layout.segment_blocks {
            self.full.push_back(self.heads[head].segment);
            let segment = self.free.pop_front().expect("cleaning keeps a reserve");
            self.heads[head] = Head { segment, used: 0 };
        }
        let Head { segment, used } = self.heads[head];
        let first = segment * self.layout.segment_blocks + used;
        for (&block, to) in blocks.iter().zip(first..) {
            self.place(block, Place(to));
        }
        self.heads[head].used += blocks.len() as u32;
        Place(first)
    }

    fn place(&mut self, block: u32, to: Place) {
        self.owners[to.0 as usize] = Some(block);
        self.contents_of(to).live += 1;
        // The old place is dead, but becomes a hole only at the next checkpoint.
        if let Some(old) = self.places[block as usize].replace(to) {
            self.owners[old.0 as usize] = None;
            let segment = self.contents_of(old);
            (segment.live, segment.given_up) = (segment.live - 1, segment.given_up + 1);
            self.dead.push(old);
        }
    }

    fn contents_of(&mut self, place: Place) -> &mut Segment {
        &mut self.contents[(place.0 / self.layout.segment_blocks) as usize]
    }

    fn clean<D: LfsDisk>(&mut self, disk: &mut D) -> Result<(), D::Error> {
        let LfsLayout { segment_blocks, cleaned_segments, cleaning, .. } = self.layout;
        // Victims are the oldest full segments, not the emptiest.
        let victims: Vec<u32> = (0..cleaned_segments).filter_map(|_| self.full.pop_front()).collect();
        let all = victims.iter().flat_map(|&segment| self.segment(segment));
        let live: Vec<u32> = all.filter_map(|place| self.owners[place as usize]).collect();
        self.counts.cleaned += victims.len() as u64 * u64::from(segment_blocks);
        self.counts.moved += live.len() as u64;
        // Copy commands move data within the drive, so only `Move` reads.
        if cleaning == Cleaning::Move {
            for (place, blocks) in self.runs_of(&live) {
                disk.send(LfsCommand::Read(self.range(place, blocks)))?;
            }
            disk.wait()?;
        }
        let mut rest = live.as_slice();
        while !rest.is_empty() {
            // The open segment may fill up; the remaining blocks follow in the next one.
            let (some, later) = rest.split_at(rest.len().min(self.free_blocks_in(MOVED) as usize));
            let sources = self.runs_of(some);
            let to = self.append(MOVED, some);
            match cleaning {
                Cleaning::Move => self.write(disk, to, some.len() as u32)?,
                _ => self.copy(disk, &sources, to)?,
            }
            rest = later;
        }
        // A victim becomes free only after this checkpoint: the previous one references its blocks.
        self.checkpoint_after(disk, &victims)?;
        self.free.extend(victims);
        Ok(())
    }

    fn segment(&self, segment: u32) -> std::ops::Range<u32> {
        let first = segment * self.layout.segment_blocks;
        first..first + self.layout.segment_blocks
    }

    fn runs_of(&self, blocks: &[u32]) -> Vec<(Place, u32)> {
        let places = blocks.iter().filter_map(|&block| self.places[block as usize]);
        runs(places, self.layout.request_blocks)
    }

    fn copy<D: LfsDisk>(&self, disk: &mut D, sources: &[(Place, u32)], to: Place) -> Result<(), D::Error> {
        let mut to = to;
        for sources in sources.chunks(self.layout.copy_ranges) {
            let blocks: u32 = sources.iter().map(|&(_, blocks)| blocks).sum();
            let ranges: Vec<Range> =
                sources.iter().map(|&(place, blocks)| self.range(place, blocks)).collect();
            let destination = self.range(to, blocks).lba;
            disk.send(LfsCommand::Copy { destination, sources: &ranges })?;
            to.0 += blocks;
        }
        Ok(())
    }

    /// Makes all data durable, then trims dead blocks.
    pub fn checkpoint<D: LfsDisk>(&mut self, disk: &mut D) -> Result<(), D::Error> {
        self.checkpoint_after(disk, &[])
    }

    fn checkpoint_after<D: LfsDisk>(&mut self, disk: &mut D, victims: &[u32]) -> Result<(), D::Error> {
        let LfsLayout { segment_blocks, checkpoint_blocks, trim_ranges, trims, .. } = self.layout;
        // Checkpoints rotate through the first segment.
        let at = self.checkpoints % (segment_blocks / checkpoint_blocks) * checkpoint_blocks;
        self.checkpoints = self.checkpoints.wrapping_add(1);
        self.counts.checkpoints += 1;
        self.since_checkpoint = 0;
        disk.wait()?;
        // One flush makes the checkpoint and all data before it durable. Only then may blocks of the previous
        // checkpoint be trimmed.
        self.write(disk, Place(CHECKPOINTS * segment_blocks + at), checkpoint_blocks)?;
        disk.wait()?;
        disk.send(LfsCommand::Flush)?;
        disk.wait()?;
        let mut dead = std::mem::take(&mut self.dead);
        dead.iter().for_each(|&place| self.contents_of(place).given_up -= 1);
        // Victims are trimmed as whole segments; in other segments only the newly dead blocks.
        dead.retain(|place| trims == Trims::EveryBlock && !victims.contains(&(place.0 / segment_blocks)));
        dead.extend(victims.iter().flat_map(|&segment| self.segment(segment)).map(Place));
        dead.sort_unstable();
        let ranges: Vec<Range> = runs(dead.into_iter(), segment_blocks)
            .into_iter()
            .map(|(place, blocks)| self.range(place, blocks))
            .collect();
        for ranges in ranges.chunks(trim_ranges) {
            disk.send(LfsCommand::Trim(ranges))?;
        }
        disk.wait()
    }

    fn write<D: LfsDisk>(&self, disk: &mut D, to: Place, blocks: u32) -> Result<(), D::Error> {
        let most = self.layout.request_blocks;
        for offset in (0..blocks).step_by(most as usize) {
            disk.send(LfsCommand::Write(self.range(Place(to.0 + offset), most.min(blocks - offset))))?;
        }
        Ok(())
    }

    fn range(&self, place: Place, blocks: u32) -> Range {
        let sectors = self.layout.block_sectors;
        Range::new(Lba::new(u64::from(place.0) * u64::from(sectors)), blocks * sectors)
    }
}

pub(super) fn runs(places: impl Iterator<Item = Place>, most: u32) -> Vec<(Place, u32)> {
    let mut runs: Vec<(Place, u32)> = Vec::new();
    for place in places {
        match runs.last_mut() {
            Some((first, count)) if first.0 + *count == place.0 && *count < most => *count += 1,
            _ => runs.push((place, 1)),
        }
    }
    runs
}
