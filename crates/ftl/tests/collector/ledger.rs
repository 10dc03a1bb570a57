//! Replay of the log in a naive model.

use std::collections::BTreeSet;

use strobe_ftl::Temperature;
use strobe_ftl::gc::{AnyPolicy, Greedy, Kinetic, LinearScore};
use strobe_nand::Cause;
use strobe_types::{BlockId, Geometry, Lpn, Ppa};

use super::watched::Event;
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ranking {
    Greedy,
    CaPi,
}

impl Ranking {
    pub(super) fn policy(self, geometry: &Geometry) -> AnyPolicy {
        match self {
            Self::Greedy => AnyPolicy::new(Greedy::new(geometry.blocks())),
            Self::CaPi => {
                AnyPolicy::new(Kinetic::new(geometry.blocks(), geometry.units_per_block(), LinearScore::CaPi))
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) geometry: Geometry,
    pub(super) places: Vec<Option<Ppa>>,
    pub(super) blocks: Vec<BTreeSet<Ppa>>,
    pub(super) owner: Vec<Option<Lpn>>,
    pub(super) free: Vec<BlockId>,
    pub(super) open: Vec<(BlockId, u32)>,
    pub(super) closed: Vec<BlockId>,
    pub(super) erases: Vec<u32>,
    pub(super) opened_at: Vec<u64>,
    pub(super) tick: u64,
    pub(super) updates: Vec<u32>,
    pub(super) last_write: Vec<u64>,
}

impl Ledger {
    pub(super) fn new(geometry: &Geometry, logical_units: u32) -> Self {
        let (logical, blocks) = (logical_units as usize, geometry.blocks() as usize);
        Self {
            geometry: geometry.clone(),
            places: vec![None; logical],
            blocks: vec![BTreeSet::new(); blocks],
            owner: vec![None; geometry.units() as usize],
            free: (0..geometry.blocks()).map(BlockId::new).collect(),
            open: Vec::new(),
            closed: Vec::new(),
            erases: vec![0; blocks],
            opened_at: vec![0; blocks],
            tick: 1,
            updates: vec![0; logical],
            last_write: vec![0; logical],
        }
    }

    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Opened(block) => {
                let at = self.free.iter().position(|free| free == block).expect("an opened block was erased");
                self.free.remove(at);
                self.open.push((*block, 0));
                self.opened_at[block.index()] = self.tick;
            }
            Event::Closed(block) => {
                self.open.retain(|(open, _)| open != block);
                self.closed.push(*block);
            }
            Event::Taken(block) => self.closed.retain(|closed| closed != block),
            Event::Programmed { first, lpns, cause } => self.programmed(*first, lpns, *cause),
            Event::ProgramFailed(block) => self.open.retain(|(open, _)| open != block),
            Event::Erased(block, _) => {
                let left = &self.blocks[block.index()];
                assert!(left.is_empty(), "{block:?} was erased with {left:?} in it");
                self.erases[block.index()] += 1;
                self.free.push(*block);
            }
            Event::Bad(block) => assert!(self.blocks[block.index()].is_empty(), "{block:?} is needed"),
        }
    }

    pub(super) fn programmed(&mut self, first: Ppa, lpns: &[Lpn], cause: Cause) {
        let block = self.geometry.block_of(first);
        let pages = (lpns.len() as u32).div_ceil(self.geometry.units_per_page());
        let open = self.open.iter_mut().find(|(open, _)| *open == block).expect("writes go to open blocks");
        open.1 += pages;
        for (ppa, &lpn) in (0..).map(|at| first.plus(at)).zip(lpns) {
            if let Some(old) = self.places[lpn.index()].replace(ppa) {
                self.blocks[self.geometry.block_of(old).index()].remove(&old);
            }
            self.blocks[block.index()].insert(ppa);
            self.owner[ppa.index()] = Some(lpn);
            if cause == Cause::Host {
                self.tick += 1;
                self.updates[lpn.index()] += 1;
                self.last_write[lpn.index()] = self.tick;
            }
        }
    }

    pub(super) fn units(&self, block: BlockId) -> Vec<Lpn> {
        let owner = |ppa: &Ppa| self.owner[ppa.index()].expect("programmed");
        self.blocks[block.index()].iter().map(owner).collect()
    }

    pub(super) fn temperature(&self, measure: Temperature, lpn: Lpn) -> f64 {
        let (updates, last) = (self.updates[lpn.index()], self.last_write[lpn.index()]);
        match measure {
            Temperature::UpdateCount => f64::from(updates),
            Temperature::UpdateRate => f64::from(updates) / (self.tick + 1 - last) as f64,
            Temperature::LastWrite => last as f64,
        }
    }

    pub(super) fn ranked(&self, ranking: Ranking) -> Vec<BlockId> {
        let valid = |block: BlockId| self.blocks[block.index()].len() as u128;
        let mut blocks = self.closed.clone();
        match ranking {
            // The stable sort keeps the closing order of ties.
            Ranking::Greedy => blocks.sort_by_key(|&block| valid(block)),
            Ranking::CaPi => {
                let all = u128::from(self.geometry.units_per_block());
                // age·(1−u)/(1+u)² as numerator and denominator.
                let score = |block: BlockId| {
                    let age = u128::from(self.tick + 1 - self.opened_at[block.index()]);
                    (age * (all - valid(block)), (all + valid(block)).pow(2))
                };
                blocks.sort_by(|&a, &b| {
                    let (x, y) = (score(a), score(b));
                    (y.0 * x.1).cmp(&(x.0 * y.1)).then(a.cmp(&b))
                });
            }
        }
        blocks
    }
}
