//! Each victim split at its mean temperature.

use std::collections::BTreeMap;
use strobe_types::{BlockId, Lpn, State};

use super::{CopyContext, Placement, StreamId, by_state};
use crate::heat::HeatTable;

/// Units at least as hot as the mean of their victim go to the first stream of relocated units, the others to the
/// second (CAT: Chiang & Chang 1999).
#[derive(Clone, Debug, State)]
pub(super) struct HotCold {
    heat: HeatTable,
    /// Sum of temperatures and number of units of each block that is being emptied.
    victims: BTreeMap<BlockId, (f64, u32)>,
    #[state(skip)]
    hot: u8,
}

impl HotCold {
    /// A split into streams `hot` and `hot + 1`.
    pub(super) fn new(heat: HeatTable, hot: u8) -> Self {
        Self { heat, victims: BTreeMap::new(), hot }
    }
}

impl Placement for HotCold {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream.get() == self.hot + 1
    }

    fn for_copy(&mut self, lpn: Lpn, from: &CopyContext) -> StreamId {
        let heat = self.heat.of(lpn, from.tick);
        let is_cold =
            self.victims.get(&from.block).is_some_and(|&(sum, units)| heat * f64::from(units) < sum);
        StreamId::new(self.hot + u8::from(is_cold))
    }

    fn on_written(&mut self, lpn: Lpn, tick: u64) {
        self.heat.written(lpn, tick);
    }

    fn on_victim(&mut self, from: &CopyContext, valid: &mut dyn Iterator<Item = Lpn>) {
        let add = |(sum, units), lpn| (sum + self.heat.of(lpn, from.tick), units + 1);
        // An empty sum is −0, as that of `Iterator::sum`; it makes no difference to a comparison.
        let sum = valid.fold((0.0, 0), add);
        self.victims.insert(from.block, sum);
    }

    fn on_collected(&mut self, from: &CopyContext) {
        self.victims.remove(&from.block);
    }

    by_state!();
}
