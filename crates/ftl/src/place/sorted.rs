//! Sorted placement: the coldest units of all victims have a separate stream.

use strobe_types::{Geometry, Lpn, Ppa, State};

use super::{CopyContext, Placement, Relocated, StreamId, by_state};
use crate::heat::HeatTable;

#[derive(Clone, Debug, State)]
pub(super) struct Sorted {
    heat: HeatTable,
    #[state(skip)]
    stripe: usize,
    #[state(skip)]
    hot: u8,
}

impl Sorted {
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
        // Temperatures are never negative: their bits sort like their values.
        units.sort_by_cached_key(|unit| (self.heat.of(unit.lpn, tick).to_bits(), unit.unit));
        // The coldest units that fill whole stripes, one block on each plane, are cold; the rest is hot.
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
