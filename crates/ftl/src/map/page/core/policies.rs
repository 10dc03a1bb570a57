//! The policies of a drive. They choose, but never move data. Methods that only forward are documented at
//! [`Placement`].

use strobe_nand::Unit;
use strobe_types::{BlockId, Lpn, Prng, State, StateError, StateReader, StateWriter};

use crate::gc::{BlockView, VictimPolicy};
use crate::map::page::core::streams::HOST;
use crate::map::page::core::write::ENTRY_AHEAD;
use crate::place::{CopyContext, DataTag, Placement, StreamId, WriteContext};
use crate::wear::Leveler;

#[derive(Clone, Debug)]
pub(crate) struct Policies<V> {
    pub(crate) victims: V,
    rng: Prng,
    pub(crate) leveler: Option<Leveler>,
    /// `None` if the streams of host writes and of copies are fixed.
    pub(crate) placement: Option<Box<dyn Placement>>,
}

impl<V: VictimPolicy> Policies<V> {
    pub(crate) fn new(
        victims: V,
        seed: u64,
        leveler: Option<Leveler>,
        placement: Option<Box<dyn Placement>>,
    ) -> Self {
        Self { victims, rng: Prng::derive(seed, "victim"), leveler, placement }
    }

    /// `is_leveled` is false for blocks permanently in SLC mode.
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

    pub(crate) fn on_closed(&mut self, closed: &CopyContext, valid: u32) {
        if let Some(leveler) = &mut self.leveler {
            leveler.closed(closed.block);
        }
        self.victims.closed(closed.block, valid, closed.tick);
        if let Some(placement) = &mut self.placement {
            placement.on_closed(closed);
        }
    }

    /// Units from `logical_units` up are translation pages.
    #[inline]
    pub(crate) fn on_placed<P>(&mut self, units: &[Unit<P>], block: BlockId, logical_units: u32) {
        if let Some(placement) = &mut self.placement {
            let is_data = |lpn: &Lpn| lpn.get() < logical_units;
            placement.on_placed(&mut units.iter().map(|unit| unit.lpn).filter(is_data), block);
        }
    }

    #[inline]
    pub(crate) fn on_unmapped(&mut self, lpn: Lpn) {
        if let Some(placement) = &mut self.placement {
            placement.on_unmapped(lpn);
        }
    }

    pub(crate) fn on_taken(&mut self, block: BlockId) {
        self.victims.taken(block);
        if let Some(leveler) = &mut self.leveler {
            leveler.left(block);
        }
    }

    pub(crate) fn on_collected(&mut self, from: &CopyContext) {
        if let Some(placement) = &mut self.placement {
            placement.on_collected(from);
        }
    }

    pub(crate) fn on_erased(&mut self, block: BlockId, erase_count: u32) {
        if let Some(leveler) = &mut self.leveler {
            leveler.erased(block, erase_count);
        }
    }

    pub(crate) fn on_retired(&mut self, block: BlockId) {
        if let Some(leveler) = &mut self.leveler {
            leveler.bad(block);
        }
    }

    pub(crate) fn on_written<P>(&mut self, units: &[Unit<P>], tick: u64) {
        let Some(placement) = &mut self.placement else { return };
        // `tick` is that of the last unit; each unit has advanced it by one.
        let first = tick + 1 - units.len() as u64;
        for (tick, unit) in (first..).zip(units) {
            placement.on_written(unit.lpn, tick);
        }
    }

    #[inline]
    pub(crate) fn moves_alike(&self) -> bool {
        self.placement.as_ref().is_none_or(|placement| placement.moves_alike())
    }

    pub(crate) fn choose(&mut self, view: &BlockView<'_>) -> Option<BlockId> {
        let groups = self.placement.as_ref().and_then(|placement| placement.victim_group());
        self.victims.choose(&view.with_victim_group(groups), &mut self.rng)
    }

    #[inline]
    pub(crate) fn goes_by_tag(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.goes_by_tag())
    }

    pub(crate) fn on_batch<P>(&mut self, units: &[Unit<P>], context: WriteContext) {
        if let Some(placement) = &mut self.placement {
            units.iter().take(ENTRY_AHEAD).for_each(|unit| placement.prefetch(unit.lpn));
            placement.on_batch(&mut units.iter().map(|unit| unit.lpn), context);
        }
    }

    #[inline]
    pub(crate) fn prefetch(&self, lpn: Lpn) {
        if let Some(placement) = &self.placement {
            placement.prefetch(lpn);
        }
    }

    pub(crate) fn stream_for(&mut self, lpn: Lpn, context: WriteContext, tick: u64) -> StreamId {
        self.placement.as_mut().map_or(HOST, |placement| placement.for_write(lpn, context, tick))
    }

    #[inline]
    pub(crate) fn relevant(&self, tag: DataTag) -> DataTag {
        self.placement.as_ref().map_or(DataTag::default(), |placement| placement.relevant(tag))
    }

    pub(crate) fn sorts_victims(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.sorts_victims())
    }

    #[inline]
    pub(crate) fn hands_over(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.hands_over())
    }

    pub(crate) fn shares_pages(&self) -> bool {
        self.placement.as_ref().is_none_or(|placement| placement.shares_pages())
    }

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
