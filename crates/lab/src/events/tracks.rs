//! Slices of a trace: from a begin to its end event, without overlap in a lane.

use std::collections::BTreeMap;

use strobe_nand::{EventKind, FlashOp, HostCommand, Recorded};

#[derive(Clone, Debug)]
pub(super) struct Slice<T> {
    pub(super) what: T,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) lane: usize,
    /// True for the first slice of an operation, which suspensions divide into several.
    pub(super) is_first: bool,
    /// False if cut short by a suspension, a power cut or the end of the log.
    pub(super) is_whole: bool,
}

/// Puts each slice into the lowest free lane of its track. Returns the number of lanes per track.
pub(super) fn spread<T>(slices: &mut [Slice<T>], track: impl Fn(&T) -> u32) -> BTreeMap<u32, usize> {
    let mut lanes: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    // A stable sort: equal times stay in order of issue.
    slices.sort_by_key(|slice| slice.from_ns);
    for slice in slices {
        let ends = lanes.entry(track(&slice.what)).or_default();
        let free = ends.iter().position(|&end| end <= slice.from_ns);
        slice.lane = free.unwrap_or(ends.len());
        match free {
            Some(lane) => ends[lane] = slice.until_ns,
            None => ends.push(slice.until_ns),
        }
    }
    lanes.into_iter().map(|(track, ends)| (track, ends.len())).collect()
}

/// Slices of flash operations. Each suspension splits a slice in two.
pub(super) fn flash(recorded: &Recorded) -> Vec<Slice<FlashOp>> {
    let mut slices = Slices::default();
    for event in &recorded.events {
        let now = event.at.as_ns();
        match event.kind {
            EventKind::FlashBegin(op) => slices.begin(op.number, op, now, true),
            EventKind::Resumed(op) => slices.begin(op.number, op, now, false),
            EventKind::Suspended(op) => slices.end(op.number, now, false),
            EventKind::FlashEnd(op) => slices.end(op.number, now, true),
            EventKind::PowerCut => slices.end_all(now),
            _ => {}
        }
    }
    slices.end_all(recorded.until.as_ns());
    slices.done
}

pub(super) fn host(recorded: &Recorded) -> Vec<Slice<HostCommand>> {
    let mut slices = Slices::default();
    for event in &recorded.events {
        let now = event.at.as_ns();
        match event.kind {
            EventKind::Submitted(command) => slices.begin(command.number, command, now, true),
            EventKind::Completed(command, _) => slices.end(command.number, now, true),
            EventKind::PowerCut => slices.end_all(now),
            _ => {}
        }
    }
    slices.end_all(recorded.until.as_ns());
    slices.done
}

struct Slices<T> {
    open: BTreeMap<u64, Slice<T>>,
    done: Vec<Slice<T>>,
}

impl<T> Default for Slices<T> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), done: Vec::new() }
    }
}

impl<T> Slices<T> {
    fn begin(&mut self, number: u64, what: T, now: u64, is_first: bool) {
        let slice = Slice { what, from_ns: now, until_ns: now, lane: 0, is_first, is_whole: false };
        self.open.insert(number, slice);
    }

    /// Ends a slice. An operation or command that began before the log has none.
    fn end(&mut self, number: u64, now: u64, is_whole: bool) {
        if let Some(slice) = self.open.remove(&number) {
            self.done.push(Slice { until_ns: now.max(slice.from_ns), is_whole, ..slice });
        }
    }

    fn end_all(&mut self, now: u64) {
        while let Some((&number, _)) = self.open.first_key_value() {
            self.end(number, now, false);
        }
    }
}
