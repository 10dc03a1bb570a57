//! The policies of a drive. They are told of the life of each block, and choose; they move nothing.

use strobe_nand::Unit;
use strobe_types::{BlockId, Lpn, Prng, State, StateError, StateReader, StateWriter};

use crate::gc::{BlockView, VictimPolicy};
use crate::map::page::core::streams::HOST;
use crate::map::page::core::write::ENTRY_AHEAD;
use crate::place::{CopyContext, DataTag, Placement, StreamId, WriteContext};
use crate::wear::Leveler;

/// Victim policy, wear leveler and placement of a drive.
#[derive(Clone, Debug)]
pub(crate) struct Policies<V> {
    pub(crate) victims: V,
    /// Random numbers of the victim policy.
    rng: Prng,
    pub(crate) leveler: Option<Leveler>,
    /// Chooses streams; `None` if there is nothing to choose.
    pub(crate) placement: Option<Box<dyn Placement>>,
}

impl<V: VictimPolicy> Policies<V> {
    /// `seed` is that of the drive.
    pub(crate) fn new(
        victims: V,
        seed: u64,
        leveler: Option<Leveler>,
        placement: Option<Box<dyn Placement>>,
    ) -> Self {
        Self { victims, rng: Prng::derive(seed, "victim"), leveler, placement }
    }

    /// Notes that `block`, erased `erase_count` times, is open for `stream`. Blocks outside wear levelling are not
    /// `is_leveled`.
    pub(crate) fn on_opened(
        &mut self,
        block: BlockId,
        stream: StreamId,
        erase_count: u32,
        is_leveled: bool,
        tick: u64,
    ) {
        if is_leveled && let Some(leveler) = &mut self.leveler {
            leveler.left(block);
        }
        self.victims.opened(block, erase_count, tick);
        if let Some(placement) = &mut self.placement {
            placement.on_opened(block, stream, tick);
        }
    }

    /// Notes that the block of `closed` is full, with `valid` valid units: from now on it is a candidate.
    pub(crate) fn on_closed(&mut self, closed: &CopyContext, valid: u32) {
        if let Some(leveler) = &mut self.leveler {
            leveler.closed(closed.block);
        }
        self.victims.closed(closed.block, valid, closed.tick);
        if let Some(placement) = &mut self.placement {
            placement.on_closed(closed);
        }
    }

    /// Notes that `units` lie in `block`. Those from `logical_units` on are translation pages.
    #[inline]
    pub(crate) fn on_placed<P>(&mut self, units: &[Unit<P>], block: BlockId, logical_units: u32) {
        if let Some(placement) = &mut self.placement {
            let is_data = |lpn: &Lpn| lpn.get() < logical_units;
            placement.on_placed(&mut units.iter().map(|unit| unit.lpn).filter(is_data), block);
        }
    }

    /// Notes that `lpn` holds nothing any more.
    #[inline]
    pub(crate) fn on_unmapped(&mut self, lpn: Lpn) {
        if let Some(placement) = &mut self.placement {
            placement.on_unmapped(lpn);
        }
    }

    /// Notes that `block` is no candidate any more, as it is about to be emptied.
    pub(crate) fn on_taken(&mut self, block: BlockId) {
        self.victims.taken(block);
        if let Some(leveler) = &mut self.leveler {
            leveler.left(block);
        }
    }

    /// Notes that nothing valid is left in the block of `from`.
    pub(crate) fn on_collected(&mut self, from: &CopyContext) {
        if let Some(placement) = &mut self.placement {
            placement.on_collected(from);
        }
    }

    /// Notes that `block` is erased, for the `erase_count`th time.
    pub(crate) fn on_erased(&mut self, block: BlockId, erase_count: u32) {
        if let Some(leveler) = &mut self.leveler {
            leveler.erased(block, erase_count);
        }
    }

    /// Notes that `block` is out of service.
    pub(crate) fn on_retired(&mut self, block: BlockId) {
        if let Some(leveler) = &mut self.leveler {
            leveler.bad(block);
        }
    }

    /// Tells the placement that the host has written `units`, the last of them at `tick`.
    pub(crate) fn on_written<P>(&mut self, units: &[Unit<P>], tick: u64) {
        let Some(placement) = &mut self.placement else { return };
        let first = tick + 1 - units.len() as u64;
        for (tick, unit) in (first..).zip(units) {
            placement.on_written(unit.lpn, tick);
        }
    }

    /// True if all relocated units go to their first stream, and the placement has nothing to note of them.
    #[inline]
    pub(crate) fn moves_alike(&self) -> bool {
        self.placement.as_ref().is_none_or(|placement| placement.moves_alike())
    }

    /// The next victim, if there is a candidate.
    pub(crate) fn choose(&mut self, view: &BlockView<'_>) -> Option<BlockId> {
        let groups = self.placement.as_ref().and_then(|placement| placement.victim_group());
        self.victims.choose(&view.with_victim_group(groups), &mut self.rng)
    }

    /// True if one question about the stream will do for all units of a write.
    #[inline]
    pub(crate) fn goes_by_tag(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.goes_by_tag())
    }

    /// Tells the placement that the host writes `units` next.
    pub(crate) fn on_batch<P>(&mut self, units: &[Unit<P>], context: WriteContext) {
        if let Some(placement) = &mut self.placement {
            units.iter().take(ENTRY_AHEAD).for_each(|unit| placement.prefetch(unit.lpn));
            placement.on_batch(&mut units.iter().map(|unit| unit.lpn), context);
        }
    }

    /// Fetches what the placement knows of `lpn` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, lpn: Lpn) {
        if let Some(placement) = &self.placement {
            placement.prefetch(lpn);
        }
    }

    /// The stream of `lpn`, which the host writes at `tick`.
    pub(crate) fn stream_for(&mut self, lpn: Lpn, context: WriteContext, tick: u64) -> StreamId {
        self.placement.as_mut().map_or(HOST, |placement| placement.for_write(lpn, context, tick))
    }

    /// The part of `tag` that the placement looks at.
    #[inline]
    pub(crate) fn relevant(&self, tag: DataTag) -> DataTag {
        self.placement.as_ref().map_or(DataTag::default(), |placement| placement.relevant(tag))
    }

    /// True if the placement puts units of several victims in order together.
    pub(crate) fn sorts_victims(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.sorts_victims())
    }

    /// True if the host takes over the blocks that relocation has left partly filled.
    #[inline]
    pub(crate) fn hands_over(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.hands_over())
    }

    /// True if units of several streams may share a page that none of them fills.
    pub(crate) fn shares_pages(&self) -> bool {
        self.placement.as_ref().is_none_or(|placement| placement.shares_pages())
    }

    /// True if `stream` is for data that is seldom written.
    pub(crate) fn is_cold(&self, stream: StreamId) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.is_cold(stream))
    }
}

impl<V: VictimPolicy> State for Policies<V> {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        let Self { victims, rng, leveler, placement } = self;
        victims.save(out);
        rng.save_state(out);
        if let Some(placement) = placement {
            placement.save(out);
        }
        leveler.save_state(out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.victims.load(from)?;
        self.rng.load_state(from)?;
        if let Some(placement) = &mut self.placement {
            placement.load(from)?;
        }
        self.leveler.load_state(from)
    }
}
