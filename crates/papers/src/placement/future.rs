//! Placement by the future (FK): the stream of a unit is its remaining life in blocks.
//!
//! Time is counted in units that the host writes. A unit dies at the next write of its address, which nobody knows but this
//! model; SepBIT's authors compare with it. With blocks of S units, a unit that dies d later goes to stream ⌊d / S⌋, or to the
//! last one, when it is written and whenever it is relocated.

use strobe_ftl::{CopyContext, Placement, StreamId, StreamLayout, WriteContext};
use strobe_types::Lpn;

/// The future of a sequence of writes.
#[derive(Clone, Debug)]
pub(super) struct Future {
    streams: u8,
    block_units: u32,
    /// Time at which what each write has written dies; `u32::MAX` if it never does.
    deaths: Vec<u32>,
    now: u32,
    /// Death of the present version of each unit.
    death_of: Vec<u32>,
}

impl Future {
    /// The future of `writes` to `units` units.
    pub(super) fn new(streams: u8, block_units: u32, units: u32, writes: impl Iterator<Item = u32>) -> Self {
        let mut deaths: Vec<u32> = Vec::new();
        let mut last: Vec<Option<usize>> = vec![None; units as usize];
        for (now, unit) in writes.enumerate() {
            if let Some(before) = last[unit as usize].replace(now) {
                deaths[before] = now as u32;
            }
            deaths.push(u32::MAX);
        }
        Self { streams, block_units, deaths, now: 0, death_of: vec![u32::MAX; units as usize] }
    }

    /// Streams that both host writes and relocated units choose from.
    pub(super) fn layout(&self) -> StreamLayout {
        StreamLayout::shared(self.streams)
    }

    fn stream(&self, lpn: Lpn) -> StreamId {
        let left = self.death_of[lpn.index()].saturating_sub(self.now);
        StreamId::new((left / self.block_units).min(u32::from(self.streams) - 1) as u8)
    }
}

impl Placement for Future {
    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        let death = self.deaths.get(self.now as usize).copied();
        self.death_of[lpn.index()] = death.unwrap_or(u32::MAX);
        let stream = self.stream(lpn);
        self.now += 1;
        stream
    }

    fn for_copy(&mut self, lpn: Lpn, _: &CopyContext) -> StreamId {
        self.stream(lpn)
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_go_by_what_is_left_of_their_life() {
        // Unit 0 is written at 0 and 3, unit 1 at 1 and 9, unit 2 once.
        let writes = [0, 1, 2, 0, 3, 3, 3, 3, 3, 1];
        let mut future = Future::new(3, 3, 4, writes.into_iter());
        let streams = writes.map(|unit| future.for_write(Lpn::new(unit), WriteContext::HOST, 0).get());
        // Lives of 3, 8, for ever, for ever, 1, 1, 1, 1, for ever, for ever.
        assert_eq!(streams, [1, 2, 2, 2, 0, 0, 0, 0, 2, 2]);
        assert_eq!(future.stream(Lpn::new(2)).get(), 2, "it never dies");
    }
}
