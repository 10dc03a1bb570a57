//! Takes X-ray frames.
//!
//! 1. A frame is due every `step` on the clock. The first step is the length of the window divided by the
//!    number of frames, if known.
//! 2. If there are too many frames, the step doubles, and the first frame of each step is kept.
//! 3. The last frame is taken at the end of the window.

use strobe_ssd::{BlockInfo, Simulated, Stage, Stream};
use strobe_types::{Lpn, SimTime};

use super::packed::packed;
use super::{CELLS_MAX, Xray, XrayFrame};

/// Unit of the distance between frames, and the length of the window, if known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    Time(Option<u64>),
    Pages(Option<u64>),
}

/// First step for a window of unknown length, in ns or host pages.
const FIRST_STEP: u64 = 1024;

/// Single units are recorded up to this number of blocks, and of units per block.
const TOY_MAX: u32 = 64;

#[derive(Clone, Debug, Default)]
struct Frame {
    place: u64,
    when: XrayFrame,
    stage: Vec<u8>,
    stream: Vec<u8>,
    valid: Vec<u8>,
    written: Vec<u8>,
    changed: Vec<u8>,
    wear: Vec<u32>,
    /// Valid units, on a small drive only.
    units: Vec<u8>,
    held: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    clock: Clock,
    start: SimTime,
    most: usize,
    step: u64,
    due: u64,
    frames: Vec<Frame>,
    before: Vec<(u32, u32)>,
    /// Cells changed in dropped frames since the last one kept.
    unseen: Vec<u8>,
    /// True if the drive is small and all of its units can be located.
    shows_units: bool,
    shape: Xray,
}

impl Recorder {
    /// Takes the first frame. At most `frames` follow, and one at the end.
    pub(crate) fn new(drive: &dyn Simulated, frames: u32, clock: Clock, now: SimTime) -> Self {
        let geometry = drive.geometry();
        let spec = geometry.spec();
        // The budget covers all frames, the first and the last included.
        let budget = CELLS_MAX / u64::from(frames + 2) / u64::from(geometry.planes());
        let per_plane = geometry.blocks() / geometry.planes();
        let per_cell = per_plane.div_ceil(u32::try_from(budget.max(1)).unwrap_or(u32::MAX));
        let (Clock::Time(total) | Clock::Pages(total)) = clock;
        let step = total.map_or(FIRST_STEP, |total| total.div_ceil(u64::from(frames)));
        let mut recorder = Self {
            clock,
            start: now,
            most: frames as usize + 1,
            step: step.max(1),
            due: 0,
            frames: Vec::new(),
            before: Vec::new(),
            unseen: Vec::new(),
            shows_units: true,
            shape: Xray {
                channels: spec.channels,
                dies: geometry.dies(),
                planes_per_die: spec.planes_per_die,
                blocks_per_plane: per_plane,
                blocks_per_cell: per_cell,
                cells_per_plane: per_plane.div_ceil(per_cell),
                frames: Vec::new(),
                stage: String::new(),
                stream: String::new(),
                valid: String::new(),
                written: String::new(),
                changed: String::new(),
                wear: String::new(),
                wear_min: 0,
                wear_step: 1,
                units: None,
                held: None,
            },
        };
        recorder.take(drive, now, 0);
        recorder
    }

    #[inline]
    pub(crate) fn due_at(&self) -> Option<SimTime> {
        matches!(self.clock, Clock::Time(_)).then(|| self.start + self.due)
    }

    #[inline]
    pub(crate) fn is_due(&self, now: SimTime, pages: u64) -> bool {
        self.place(now, pages) >= self.due
    }

    fn place(&self, now: SimTime, pages: u64) -> u64 {
        match self.clock {
            Clock::Time(_) => now.as_ns().saturating_sub(self.start.as_ns()),
            Clock::Pages(_) => pages,
        }
    }

    pub(crate) fn take(&mut self, drive: &dyn Simulated, now: SimTime, pages: u64) {
        let place = self.place(now, pages);
        let frame = self.frame(drive, place, XrayFrame { at_ns: now.as_ns(), host_pages: pages });
        self.frames.push(frame);
        self.due = (place / self.step + 1).saturating_mul(self.step);
        while self.frames.len() > self.most {
            self.thin(place);
        }
    }

    fn thin(&mut self, place: u64) {
        self.step = self.step.saturating_mul(2);
        self.due = (place / self.step + 1).saturating_mul(self.step);
        let mut last = None;
        // Changes in a dropped frame are carried over to the next one kept, or no cell would show them.
        let mut unseen: Vec<u8> = Vec::new();
        for mut frame in std::mem::take(&mut self.frames) {
            note(&mut frame.changed, &unseen);
            let slot = frame.place / self.step;
            if last == Some(slot) {
                unseen = frame.changed;
            } else {
                (last, unseen) = (Some(slot), Vec::new());
                self.frames.push(frame);
            }
        }
        self.unseen = unseen;
    }

    fn frame(&mut self, drive: &dyn Simulated, place: u64, when: XrayFrame) -> Frame {
        let (blocks, has_placement) = (drive.blocks(), !drive.stats().streams.is_empty());
        let is_first = self.before.is_empty();
        let mut frame = Frame { place, when, ..Frame::default() };
        // Each program raises `written` and each erase raises `erases`, so a change of either shows activity.
        let now: Vec<(u32, u32)> = blocks.iter().map(|block| (block.erases, block.written)).collect();
        let per_plane = self.shape.blocks_per_plane as usize;
        let per_cell = self.shape.blocks_per_cell as usize;
        for (plane, at) in blocks.chunks(per_plane).zip((0..).step_by(per_plane)) {
            for (cell, at) in plane.chunks(per_cell).zip((at..).step_by(per_cell)) {
                frame.add(cell, has_placement);
                let span = at..at + cell.len();
                // The first frame has nothing to compare with.
                let has_changed = !is_first && now[span.clone()] != self.before[span];
                frame.changed.push(u8::from(has_changed));
            }
        }
        self.before = now;
        note(&mut frame.changed, &std::mem::take(&mut self.unseen));
        if self.shows_units {
            let units = toy_units(drive, &blocks);
            self.shows_units = units.is_some();
            frame.units = units.unwrap_or_default();
        }
        frame.held =
            drive.die_holders().iter().map(|holder| holder.map_or(0, |class| class as u8 + 1)).collect();
        frame
    }

    pub(crate) fn finish(mut self, drive: &dyn Simulated, end: SimTime, pages: u64) -> Xray {
        let place = self.place(end, pages);
        // The window may end at the time of the last frame.
        if self.frames.last().is_none_or(|last| last.place < place) {
            let last = self.frame(drive, place, XrayFrame { at_ns: end.as_ns(), host_pages: pages });
            self.frames.push(last);
        }
        let Self { frames, shows_units, mut shape, .. } = self;
        let erases = || frames.iter().flat_map(|frame| &frame.wear).copied();
        let (min, max) = (erases().min().unwrap_or(0), erases().max().unwrap_or(0));
        // One scale for all frames, so the wear of a cell can be compared over time.
        let step = (max - min).div_ceil(255).max(1);
        let wear: Vec<Vec<u8>> = frames
            .iter()
            .map(|frame| frame.wear.iter().map(|&erases| ((erases - min) / step) as u8).collect())
            .collect();
        let of = |bytes: fn(&Frame) -> &[u8]| packed(frames.iter().map(bytes));
        (shape.wear_min, shape.wear_step) = (min, step);
        shape.stage = of(|frame| &frame.stage);
        shape.stream = of(|frame| &frame.stream);
        shape.valid = of(|frame| &frame.valid);
        shape.written = of(|frame| &frame.written);
        shape.changed = of(|frame| &frame.changed);
        shape.wear = packed(wear.iter().map(Vec::as_slice));
        shape.units = shows_units.then(|| of(|frame| &frame.units));
        let has_times = frames.iter().any(|frame| !frame.held.is_empty());
        shape.held = has_times.then(|| of(|frame| &frame.held));
        shape.frames = frames.iter().map(|frame| frame.when).collect();
        shape
    }
}

/// Valid units in the order on flash. `None` if the drive is too large or a unit cannot be located.
fn toy_units(drive: &dyn Simulated, blocks: &[BlockInfo]) -> Option<Vec<u8>> {
    let per_block = drive.geometry().units_per_block();
    if blocks.len() > TOY_MAX as usize || per_block > TOY_MAX {
        return None;
    }
    let mut units = vec![0; blocks.len() * per_block as usize];
    for (block, slot) in (0..drive.logical_units()).filter_map(|unit| drive.locate(Lpn::new(unit))) {
        units[(block.get() * per_block + slot) as usize] = 1;
    }
    // A block whose count differs from its valid units has a unit that was not located.
    let located =
        units.chunks(per_block as usize).map(|block| block.iter().map(|&unit| u32::from(unit)).sum::<u32>());
    located.eq(blocks.iter().map(|block| block.valid)).then_some(units)
}

fn note(changed: &mut [u8], other: &[u8]) {
    changed.iter_mut().zip(other).for_each(|(changed, other)| *changed |= other);
}

impl Frame {
    fn add(&mut self, blocks: &[BlockInfo], has_placement: bool) {
        let sum = |of: fn(&BlockInfo) -> u32| blocks.iter().map(|block| u64::from(of(block))).sum::<u64>();
        let units = sum(|block| block.units);
        self.valid.push(share(sum(|block| block.valid), units));
        self.written.push(share(sum(|block| block.written), units));
        self.stage.push(stage(blocks) as u8);
        let streams = blocks
            .iter()
            .map(|block| stream(block, has_placement))
            .filter(|&code| code != Stream::Unknown as u8);
        let codes: Vec<u8> = (0..=LAST_STREAM).collect();
        self.stream.push(most(&codes, streams).unwrap_or_default());
        let good = blocks.iter().filter(|block| block.stage != Stage::Bad);
        let (count, erases) =
            good.fold((0, 0), |(count, erases), block| (count + 1, erases + u64::from(block.erases)));
        let mean =
            erases.checked_div(count).unwrap_or_else(|| sum(|block| block.erases) / blocks.len() as u64);
        self.wear.push(mean as u32);
    }
}

const LAST_STREAM: u8 = 22;

/// Code of the stream, from its number if the drive has a placement.
fn stream(block: &BlockInfo, has_placement: bool) -> u8 {
    match block.number {
        Some(number) if has_placement => LAST_STREAM.min(Stream::ALL.len() as u8 + number.get()),
        _ => block.stream as u8,
    }
}

/// Stage of a cell: blocks being emptied or open take precedence over the majority.
fn stage(blocks: &[BlockInfo]) -> Stage {
    let any = |stage| blocks.iter().any(|block| block.stage == stage).then_some(stage);
    let most = || most(&Stage::ALL, blocks.iter().map(|block| block.stage));
    any(Stage::Emptying).or_else(|| any(Stage::Open)).or_else(most).unwrap_or_default()
}

/// Most frequent element, the first in `all` on a tie.
fn most<T: Copy + PartialEq>(all: &[T], these: impl Iterator<Item = T> + Clone) -> Option<T> {
    let count = |wanted: T| these.clone().filter(|&this| this == wanted).count();
    all.iter().rev().copied().filter(|&one| count(one) > 0).max_by_key(|&one| count(one))
}

/// Scales `part` of `whole` to 0..=255; 0 and 255 mean exactly none and all.
fn share(part: u64, whole: u64) -> u8 {
    match part {
        0 => 0,
        _ if part >= whole => 255,
        _ => (part * 255 / whole).clamp(1, 254) as u8,
    }
}
