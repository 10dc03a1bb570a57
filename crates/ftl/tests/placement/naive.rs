//! A drive of arrays and scans, and the published placement rules.

use std::collections::VecDeque;

use strobe_ftl::PlacementKind;

use super::{By, formulas, schemes};

pub(super) type Full = Vec<Vec<u32>>;

/// A placement scheme; time is in units written by the host.
pub(super) trait Rules {
    /// Streams, and the most used by one victim.
    fn streams(&self) -> (usize, usize);
    fn write(&mut self, lpn: u32, now: u64) -> usize;
    fn copy(&mut self, lpn: u32, now: u64, from: usize) -> usize;
    fn collecting(&mut self, _full: &Full, _now: u64) {}
    fn closed(&mut self, _stream: usize) {}
    fn collected(&mut self, _stream: usize, _lifespan: u64) {}
    fn is_exercised(&self) -> bool {
        true
    }
}

pub(super) fn rules(by: By, units_per_block: usize) -> Box<dyn Rules> {
    match by {
        By::Name(PlacementKind::SepBit { streams }) => Box::new(schemes::SepBit::new(streams.into(), true)),
        By::Name(PlacementKind::SepBitCopies { streams }) => {
            Box::new(schemes::SepBit::new(streams.into(), false))
        }
        By::Name(PlacementKind::Dac { streams }) => Box::new(schemes::Dac::new(streams.into())),
        By::Name(PlacementKind::Fadac { streams }) => Box::new(schemes::Fadac::new(streams.into())),
        By::Name(PlacementKind::Warcip { streams }) => {
            Box::new(schemes::Warcip::new(streams.into(), units_per_block))
        }
        By::Name(PlacementKind::Sfs { streams }) => Box::new(schemes::Sfs::new(streams.into())),
        By::Name(PlacementKind::Single) => Box::new(schemes::SepGc),
        By::Formula(text) => Box::new(formulas::rules(text)),
        By::Name(kind) => panic!("{kind:?} has no naive rules"),
    }
}

pub(super) struct Naive {
    pub(super) rules: Box<dyn Rules>,
    units_per_block: usize,
    min_free: usize,
    garbage: Option<f64>,
    /// In write order; `place` gives the validity of each unit.
    blocks: Vec<Vec<u32>>,
    place: Vec<Option<(usize, usize)>>,
    stream_of: Vec<usize>,
    open: Vec<Option<usize>>,
    free: VecDeque<usize>,
    closed_at: Vec<Option<u64>>,
    opened_at: Vec<u64>,
    at_hand: Option<u32>,
    time: u64,
    pub(super) programs: u64,
}

impl Naive {
    pub(super) fn new(
        [blocks, units_per_block, units]: [usize; 3],
        rules: Box<dyn Rules>,
        garbage: Option<f64>,
    ) -> Self {
        let (streams, of_victim) = rules.streams();
        Self {
            rules,
            units_per_block,
            // One block for each stream of a victim, one for a failed program, one for the host.
            min_free: of_victim + 2,
            garbage,
            blocks: vec![Vec::new(); blocks],
            place: vec![None; units],
            stream_of: vec![0; blocks],
            open: vec![None; streams],
            free: (0..blocks).collect(),
            closed_at: vec![None; blocks],
            opened_at: vec![0; blocks],
            at_hand: None,
            time: 0,
            programs: 0,
        }
    }

    pub(super) fn host_write(&mut self, lpn: u32) {
        self.time += 1;
        let stream = self.rules.write(lpn, self.time);
        self.at_hand = Some(lpn);
        if self.open[stream].is_none() {
            while self.free.len() < self.min_free {
                // Ticks start at 1, and the present unit is not counted yet.
                let victim = self.victim(self.time, self.units_per_block - 1);
                self.collect(victim.expect("a block with something invalid"), self.time);
            }
        }
        self.append(stream, lpn, self.time + 1);
        let Some(share) = self.garbage else { return };
        let all: usize = self.blocks.iter().map(Vec::len).sum();
        let full = (0..self.blocks.len()).filter(|&block| self.closed_at[block].is_some());
        let garbage: usize = full.map(|block| self.blocks[block].len() - self.valid(block).len()).sum();
        if garbage as f64 / all as f64 > share {
            let most = (1..self.units_per_block)
                .rev()
                .find(|&valid| 1.0 - valid as f64 / self.units_per_block as f64 >= share);
            let victim = self.victim(self.time + 1, most.unwrap_or(0));
            self.collect(victim.expect("some block has more garbage than the average"), self.time + 1);
        }
    }

    fn append(&mut self, stream: usize, lpn: u32, tick: u64) {
        let block = *self.open[stream].get_or_insert_with(|| {
            let block = self.free.pop_front().expect("an erased block");
            (self.stream_of[block], self.opened_at[block]) = (stream, self.time);
            block
        });
        self.blocks[block].push(lpn);
        self.at_hand = self.at_hand.filter(|&at_hand| at_hand != lpn);
        self.place[lpn as usize] = Some((block, self.blocks[block].len() - 1));
        self.programs += 1;
        if self.blocks[block].len() == self.units_per_block {
            self.open[stream] = None;
            self.closed_at[block] = Some(tick);
            self.rules.closed(stream);
        }
    }

    pub(super) fn valid(&self, block: usize) -> Vec<u32> {
        let is_valid = |&(at, lpn): &(usize, &u32)| self.place[*lpn as usize] == Some((block, at));
        self.blocks[block].iter().enumerate().filter(is_valid).map(|(_, &lpn)| lpn).collect()
    }

    /// By the greatest (1 − u)/u √age, with at most `most` valid units.
    fn victim(&self, tick: u64, most: usize) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for block in 0..self.blocks.len() {
            let Some(closed) = self.closed_at[block] else { continue };
            let valid = self.valid(block).len();
            let u = valid as f64 / self.units_per_block as f64;
            let score = (1.0 - u) / u * ((tick + 1 - closed) as f64).sqrt();
            if valid <= most && best.is_none_or(|(top, _)| score > top) {
                best = Some((score, block));
            }
        }
        best.map(|(_, victim)| victim)
    }

    fn collect(&mut self, victim: usize, tick: u64) {
        let full = (0..self.blocks.len()).filter(|&block| self.closed_at[block].is_some());
        let known = |block| self.valid(block).into_iter().filter(|&lpn| self.at_hand != Some(lpn)).collect();
        let full: Full = full.map(known).collect();
        self.rules.collecting(&full, self.time);
        self.closed_at[victim] = None;
        let from = self.stream_of[victim];
        let valid = self.valid(victim);
        let mut moved: Vec<(usize, u32)> =
            valid.into_iter().map(|lpn| (self.rules.copy(lpn, self.time, from), lpn)).collect();
        moved.sort_by_key(|&(stream, _)| stream);
        for (stream, lpn) in moved {
            self.append(stream, lpn, tick);
        }
        self.rules.collected(from, self.time - self.opened_at[victim]);
        self.blocks[victim].clear();
        self.free.push_back(victim);
    }
}
