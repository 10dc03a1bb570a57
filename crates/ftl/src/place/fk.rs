//! Placement by future knowledge (FK, the oracle in the SepBIT paper: Wang et al., FAST 2022).
//!
//! Time is counted in units written by the host. A unit dies at its next write or trim.
//!
//! 1. [`FutureBuilder`] receives all writes and trims beforehand, in order. [`Future`] stores these events by
//!    unit, and a repeated sequence as one pass.
//! 2. A host write at time t has its death d at the unit's next event. It uses stream ⌊(d − t) / S⌋ with S
//!    units in a block, or the last stream.
//! 3. A relocation uses the same rule with the remaining time.
//!
//! A drive with a write cache is refused: caches delay, merge and reorder units.
//!
//! Example: writes to units 0, 1, 0 in blocks of 1. Unit 0 first lives for 2 writes, in stream 2; then
//! forever, in the last stream.

use std::sync::Arc;

use strobe_types::{Lpn, StateWriter};

use super::{CopyContext, Placement, StreamId, StreamLayout, WriteContext};

/// A write or trim: twice the number of earlier writes, plus one for a write.
type Event = u64;

const fn is_write(event: Event) -> bool {
    event % 2 == 1
}

#[derive(Debug)]
struct Events {
    /// Index of each unit's first event; then the number of events.
    first: Vec<usize>,
    events: Vec<Event>,
    writes: u64,
}

impl Events {
    fn new(units: u32, mut of_units: Vec<(u32, Event)>, writes: u64) -> Self {
        of_units.sort_unstable();
        let mut first = vec![0; units as usize + 1];
        for &(unit, _) in &of_units {
            first[unit as usize + 1] += 1;
        }
        for unit in 1..first.len() {
            first[unit] += first[unit - 1];
        }
        Self { first, events: of_units.into_iter().map(|(_, event)| event).collect(), writes }
    }

    fn of(&self, lpn: Lpn) -> &[Event] {
        &self.events[self.first[lpn.index()]..self.first[lpn.index() + 1]]
    }
}

/// All writes and trims of a host: some once, then a pass that may repeat.
#[derive(Debug)]
pub struct Future {
    once: Events,
    pass: Events,
    repeats: u64,
}

impl Future {
    fn event(&self, lpn: Lpn, at: u64) -> Option<Event> {
        let (once, pass) = (self.once.of(lpn), self.pass.of(lpn));
        let Some(at) = at.checked_sub(once.len() as u64) else { return Some(once[at as usize]) };
        let events = pass.len() as u64;
        if events == 0 || at / events >= self.repeats {
            return None;
        }
        // Event times restart in each pass, so the writes of all earlier passes are added.
        let before = self.once.writes + at / events * self.pass.writes;
        Some(2 * before + pass[(at % events) as usize])
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    Written,
    Trimmed,
}

/// Collects the writes and trims of a [`Future`], in order.
pub struct FutureBuilder {
    known: Vec<Known>,
    noted: Vec<(u32, Event)>,
    writes: u64,
    once: Option<Events>,
    repeats: u64,
}

impl FutureBuilder {
    /// A future of `units` units without events.
    pub fn new(units: u32) -> Self {
        Self {
            known: vec![Known::Nothing; units as usize],
            noted: Vec::new(),
            writes: 0,
            once: None,
            repeats: 1,
        }
    }

    /// Records a write of `lpn`.
    pub fn write(&mut self, lpn: Lpn) {
        self.noted.push((lpn.get(), 2 * self.writes + 1));
        self.known[lpn.index()] = Known::Written;
        self.writes += 1;
    }

    /// Records a trim of `lpn`, unless it holds nothing.
    pub fn trim(&mut self, lpn: Lpn) {
        let known = &mut self.known[lpn.index()];
        // The first trim in a pass ends a unit of the previous pass.
        if *known == Known::Written || *known == Known::Nothing && self.repeats > 1 {
            self.noted.push((lpn.get(), 2 * self.writes));
        }
        *known = Known::Trimmed;
    }

    /// Begins the pass, repeated `repeats` times. Earlier events happen once.
    pub fn begin_pass(&mut self, repeats: u32) {
        self.once = Some(self.take());
        self.repeats = repeats.into();
        if repeats > 1 {
            self.known.fill(Known::Nothing);
        }
    }

    fn take(&mut self) -> Events {
        let noted = std::mem::take(&mut self.noted);
        Events::new(self.known.len() as u32, noted, std::mem::take(&mut self.writes))
    }

    /// Returns the future.
    pub fn finish(mut self) -> Future {
        let pass = self.take();
        let once = self.once.unwrap_or_else(|| Events::new(self.known.len() as u32, Vec::new(), 0));
        Future { once, pass, repeats: self.repeats }
    }
}

/// The FK placement.
#[derive(Clone, Debug)]
pub struct Fk {
    streams: u8,
    block_units: u64,
    future: Arc<Future>,
    now: Event,
    past: Vec<u64>,
}

impl Fk {
    /// A placement by `future`, for `units` units in blocks of `block_units`. `future` must have the same
    /// number of units.
    pub fn new(streams: u8, units: u32, block_units: u32, future: Future) -> Self {
        Self {
            streams,
            block_units: block_units.into(),
            future: Arc::new(future),
            now: 0,
            past: vec![0; units as usize],
        }
    }

    /// Streams shared by host writes and relocated units.
    pub const fn layout(streams: u8) -> StreamLayout {
        StreamLayout::shared(streams)
    }

    /// Host memory per unit in bytes, without the future.
    pub const BYTES_PER_UNIT: u64 = 8;

    fn stream(&self, lpn: Lpn, now: Event) -> StreamId {
        let death = self.future.event(lpn, self.past[lpn.index()]).unwrap_or(Event::MAX);
        let blocks = (death / 2).saturating_sub(now / 2) / self.block_units;
        StreamId::new(blocks.min(u64::from(self.streams) - 1) as u8)
    }
}

impl Placement for Fk {
    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        let past = &mut self.past[lpn.index()];
        // Skips the unit's trims up to this write.
        while let Some(event) = self.future.event(lpn, *past) {
            *past += 1;
            self.now = event + 1;
            if is_write(event) {
                break;
            }
        }
        self.stream(lpn, self.now.saturating_sub(1))
    }

    fn for_copy(&mut self, lpn: Lpn, _: &CopyContext) -> StreamId {
        self.stream(lpn, self.now)
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }

    fn save(&self, out: &mut StateWriter<'_>) {
        out.refuse("placement.scheme = \"fk\" depends on the future writes of one run, which are not saved");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(streams: u8, block_units: u32, future: FutureBuilder) -> Fk {
        Fk::new(streams, future.known.len() as u32, block_units, future.finish())
    }

    fn written(fk: &mut Fk, unit: u32) -> u8 {
        fk.for_write(Lpn::new(unit), WriteContext::HOST, 0).get()
    }

    #[test]
    fn units_go_by_what_is_left_of_their_life() {
        // Unit 0 is written at 0 and 3, unit 1 at 1 and 9, unit 2 once.
        let writes = [0, 1, 2, 0, 3, 3, 3, 3, 3, 1];
        let mut future = FutureBuilder::new(4);
        writes.iter().for_each(|&unit| future.write(Lpn::new(unit)));
        let mut fk = placement(3, 3, future);
        let streams = writes.map(|unit| written(&mut fk, unit));
        // Lifetimes: 3, 8, ∞, ∞, 1, 1, 1, 1, ∞, ∞.
        assert_eq!(streams, [1, 2, 2, 2, 0, 0, 0, 0, 2, 2]);
        assert_eq!(fk.stream(Lpn::new(2), fk.now).get(), 2, "it never dies");
    }

    #[test]
    fn the_life_that_is_left_grows_shorter() {
        let writes = [0, 1, 1, 1, 1, 1, 1, 0];
        let mut future = FutureBuilder::new(2);
        writes.iter().for_each(|&unit| future.write(Lpn::new(unit)));
        let mut fk = placement(6, 2, future);
        let from = CopyContext { block: strobe_types::BlockId::new(0), stream: None, tick: 0 };
        let copied = writes.map(|unit| {
            written(&mut fk, unit);
            fk.for_copy(Lpn::new(0), &from).get()
        });
        assert_eq!(copied[..7], [3, 2, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn a_trim_ends_a_life_and_a_pass_ends_that_of_the_pass_before() {
        let mut future = FutureBuilder::new(3);
        (0..2).for_each(|unit| future.write(Lpn::new(unit)));
        future.begin_pass(2);
        future.trim(Lpn::new(1));
        [2, 0, 2, 1].into_iter().for_each(|unit| future.write(Lpn::new(unit)));
        future.trim(Lpn::new(0));
        future.trim(Lpn::new(0));
        let mut fk = placement(20, 1, future);
        let streams = [0, 1, 2, 0, 2, 1, 2, 0, 2, 1].map(|unit| written(&mut fk, unit));
        // Unit 0: at 0 and 3, trimmed at 6, at 7, trimmed at 10. Unit 1: at 1, trimmed at 2, at 5, trimmed at
        // 6, at 9. Unit 2: at 2, 4, 6 and 8.
        assert_eq!(streams, [3, 1, 2, 3, 2, 1, 2, 3, 19, 19]);
    }
}
