//! Hot-cold separation: each victim is split at its mean temperature.

use std::collections::BTreeMap;
use strobe_types::{BlockId, Lpn, State};

use super::{CopyContext, Placement, StreamId, by_state};
use crate::heat::HeatTable;

#[derive(Clone, Debug, State)]
pub(super) struct HotCold {
    heat: HeatTable,
    /// Sum of temperatures and number of valid units of each victim.
    victims: BTreeMap<BlockId, (f64, u32)>,
    #[state(skip)]
    hot: u8,
}

impl HotCold {
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
        // The sum and the number of units give the mean temperature at which the victim is split.
        let sum = valid.fold((0.0, 0), add);
        self.victims.insert(from.block, sum);
    }

    fn on_collected(&mut self, from: &CopyContext) {
        self.victims.remove(&from.block);
    }

    by_state!();
}
