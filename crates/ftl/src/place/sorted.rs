//! Victims of a collection sorted together by temperature.

use strobe_types::{Geometry, Lpn, Ppa, State};

use super::{CopyContext, Placement, Relocated, StreamId, by_state};
use crate::heat::HeatTable;

/// Whole blocks of the coldest units go to a stream of their own; the rest, less than a block on each lane and the
/// hottest, goes to the first stream of relocated units (CAPi: Hwang & Kwak 2016, §III).
#[derive(Clone, Debug, State)]
pub(super) struct Sorted {
    heat: HeatTable,
    /// Units of one block on every lane.
    #[state(skip)]
    stripe: usize,
    #[state(skip)]
    hot: u8,
}

impl Sorted {
    /// A sort into streams `hot` and `hot + 1`.
    pub(super) fn new(heat: HeatTable, hot: u8, geometry: &Geometry) -> Self {
        let stripe = geometry.planes() as usize * geometry.units_per_block() as usize;
        Self { heat, stripe, hot }
    }
}

impl Placement for Sorted {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream.get() == self.hot + 1
    }

    fn sorts_victims(&self) -> bool {
        true
    }

    fn for_copy(&mut self, _: Lpn, _: &CopyContext) -> StreamId {
        StreamId::new(self.hot)
    }

    fn arrange(&mut self, units: &mut [Relocated], from: &mut dyn FnMut(Ppa) -> CopyContext) {
        let Some(first) = units.first() else { return };
        let tick = from(first.unit).tick;
        // Temperatures are not negative, so their bits are in the order of their values.
        units.sort_by_cached_key(|unit| (self.heat.of(unit.lpn, tick).to_bits(), unit.unit));
        let cold = units.len() - units.len() % self.stripe;
        for (at, unit) in units.iter_mut().enumerate() {
            unit.to = StreamId::new(self.hot + u8::from(at < cold));
        }
    }

    fn on_written(&mut self, lpn: Lpn, tick: u64) {
        self.heat.written(lpn, tick);
    }

    by_state!();
}
