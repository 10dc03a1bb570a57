//! Naive collectors after the paper, an independent check of the drive's averages.
//!
//! A block is a list of its written pages, and every choice scans all blocks. Collectors and drive receive
//! the same writes.

use std::cmp::Ordering;
use std::collections::VecDeque;

use strobe_lab::points::Stoppable;
use strobe_lab::{Experiment, WorkloadConfig, runner};
use strobe_types::SECTOR_BYTES;
use strobe_workload::synthetic::Workload;

use super::figures::gain;
use super::metrics::{COPIES, ERASES, LIFETIME, Outcome};
use super::schemes::{CAPI, PAPER};
use super::{DATA_SETS, Environment, to_first_failure};
use crate::figure::mean;
use crate::{Options, Scale};

const HOST: usize = 0;
const HOT: usize = 1;
const COLD: usize = 2;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    Open,
    Full,
    Victim,
}

#[derive(Clone)]
struct Block {
    state: State,
    pages: Vec<usize>,
    erases: u32,
    opened: u64,
    filled: u64,
    invalidated: Vec<u64>,
}

struct Naive<'a> {
    scheme: &'a str,
    pages: usize,
    endurance: u32,
    min_free: usize,
    blocks: Vec<Block>,
    /// Erased blocks in the order of erasure.
    free: VecDeque<usize>,
    open: [Option<usize>; 3],
    place: Vec<Option<(usize, usize)>>,
    updates: Vec<u32>,
    last_update: Vec<u64>,
    now: u64,
    filled: u64,
    copies: u64,
    erases: u64,
    is_worn: bool,
}

impl<'a> Naive<'a> {
    fn new(scheme: &'a str, environment: &Environment) -> Self {
        let (count, logical) = (environment.blocks as usize, environment.logical_pages() as usize);
        let block = Block {
            state: State::Free,
            pages: Vec::new(),
            erases: 0,
            opened: 0,
            filled: 0,
            invalidated: Vec::new(),
        };
        Self {
            scheme,
            pages: environment.pages_per_block as usize,
            endurance: environment.endurance_pe,
            min_free: count / 20 + 1,
            blocks: vec![block; count],
            free: (0..count).collect(),
            open: [None; 3],
            place: vec![None; logical],
            updates: vec![0; logical],
            last_update: vec![0; logical],
            now: 0,
            filled: 0,
            copies: 0,
            erases: 0,
            is_worn: false,
        }
    }

    fn take_free(&mut self, stream: usize) -> usize {
        let erases = |at: &usize| self.blocks[self.free[*at]].erases;
        let least = || (0..self.free.len()).min_by_key(erases);
        let total: u32 = self.blocks.iter().map(|block| block.erases).sum();
        let is_worn = |at: &usize| f64::from(erases(at)) > f64::from(total) / self.blocks.len() as f64;
        let at = match (self.scheme, stream) {
            (CAPI, _) | ("FeGC", HOST | HOT) => least(),
            ("FeGC", _) => {
                // Cold pages of FeGC: the least worn block above the average, else the most worn.
                let worn = (0..self.free.len()).filter(is_worn).min_by_key(erases);
                worn.or_else(|| (0..self.free.len()).rev().max_by_key(erases))
            }
            _ => Some(0),
        };
        at.and_then(|at| self.free.remove(at)).expect("an erased block")
    }

    fn put(&mut self, stream: usize, page: usize) {
        let block = self.open[stream].unwrap_or_else(|| {
            let block = self.take_free(stream);
            self.blocks[block].state = State::Open;
            self.blocks[block].opened = self.now;
            block
        });
        self.place[page] = Some((block, self.blocks[block].pages.len()));
        self.blocks[block].pages.push(page);
        let is_full = self.blocks[block].pages.len() == self.pages;
        self.open[stream] = (!is_full).then_some(block);
        if is_full {
            self.blocks[block].state = State::Full;
            self.blocks[block].filled = self.filled;
            self.filled += 1;
        }
    }

    fn write(&mut self, page: usize) {
        if self.open[HOST].is_none() && self.free.len() < self.min_free {
            self.collect();
        }
        self.now += 1;
        if let Some((block, _)) = self.place[page] {
            self.blocks[block].invalidated.push(self.now);
        }
        self.updates[page] += 1;
        self.last_update[page] = self.now;
        self.put(HOST, page);
    }

    fn valid(&self, block: usize) -> usize {
        self.blocks[block].pages.len() - self.blocks[block].invalidated.len()
    }

    /// Score by Table 1 and equation (1) of the paper.
    fn score(&self, block: usize) -> f64 {
        let Block { opened, invalidated, erases, .. } = &self.blocks[block];
        let age = |since: u64| (self.now + 1 - since) as f64;
        let u = self.valid(block) as f64 / self.pages as f64;
        let of_none = |score: f64| if u == 0.0 { f64::INFINITY } else { score };
        match self.scheme {
            "GA" => 1.0 - u,
            "CB" => of_none(invalidated.last().map_or(0.0, |&last| age(last)) * (1.0 - u) / (2.0 * u)),
            "CAT" => of_none(age(*opened) * (1.0 - u) / u / f64::from(erases + 1)),
            "FeGC" => invalidated.iter().map(|&at| age(at)).sum(),
            _ => age(*opened) * (1.0 - u) / ((1.0 + u) * (1.0 + u)),
        }
    }

    fn victim(&self) -> Option<usize> {
        let full = |&block: &usize| self.blocks[block].state == State::Full && self.valid(block) < self.pages;
        // Ties go to the lowest block number; with greedy to the block filled first.
        let first = |&a: &usize, &b: &usize| match self.scheme {
            "GA" => self.blocks[b].filled.cmp(&self.blocks[a].filled),
            _ => b.cmp(&a),
        };
        let order =
            |a: &usize, b: &usize| self.score(*a).total_cmp(&self.score(*b)).then_with(|| first(a, b));
        (0..self.blocks.len()).filter(full).max_by(order)
    }

    fn is_shared(&self) -> bool {
        matches!(self.scheme, "GA" | "CB" | CAPI)
    }

    fn collect(&mut self) {
        let target = (self.free.len() + 2).max(self.min_free);
        // Two blocks are reclaimed. The host's open block counts as one if relocated pages share it.
        while self.free.len() + usize::from(self.is_shared() && self.open[HOST].is_some()) < target {
            let victims = if self.scheme == CAPI {
                self.sorted_victims(target)
            } else {
                self.victim().into_iter().collect()
            };
            assert!(!victims.is_empty(), "nothing to collect");
            self.empty(&victims);
        }
    }

    fn sorted_victims(&mut self, target: usize) -> Vec<usize> {
        let free = self.open[HOST].map_or(0, |block| self.pages - self.blocks[block].pages.len());
        let opened = |units: usize| units / self.pages + usize::from(units % self.pages > free);
        let (mut victims, mut units) = (Vec::new(), 0);
        while let Some(victim) = self.victim() {
            // Another victim must not use up the erased blocks with its relocated pages.
            if !victims.is_empty() && opened(units + self.valid(victim)) >= self.free.len() {
                break;
            }
            self.blocks[victim].state = State::Victim;
            units += self.valid(victim);
            victims.push(victim);
            let is_left = !(self.pages + free - units % self.pages).is_multiple_of(self.pages);
            if self.free.len() + victims.len() + usize::from(is_left) >= target + opened(units) {
                break;
            }
        }
        victims
    }

    fn empty(&mut self, victims: &[usize]) {
        let mut moved: Vec<usize> = Vec::new();
        for &block in victims {
            self.blocks[block].state = State::Victim;
            let pages = self.blocks[block].pages.iter().enumerate();
            moved.extend(
                pages.filter(|&(at, &page)| self.place[page] == Some((block, at))).map(|(_, &page)| page),
            );
        }
        self.copies += moved.len() as u64;
        self.distribute(moved);
        for &block in victims {
            let of = &mut self.blocks[block];
            of.pages.clear();
            of.invalidated.clear();
            self.erases += 1;
            self.is_worn |= of.erases >= self.endurance;
            of.erases += 1;
            of.state = State::Free;
            self.free.push_back(block);
        }
    }

    fn distribute(&mut self, mut moved: Vec<usize>) {
        // CAPi sorts the relocated pages: the coldest fill whole blocks, the rest goes into the host's block.
        match self.scheme {
            "GA" | "CB" => moved.into_iter().for_each(|page| self.put(HOST, page)),
            CAPI => {
                // Ties stay in flash order.
                moved.sort_by_key(|&page| (self.updates[page], self.place[page]));
                let hot = moved.split_off(moved.len() / self.pages * self.pages);
                hot.into_iter().for_each(|page| self.put(HOST, page));
                moved.into_iter().for_each(|page| self.put(COLD, page));
            }
            _ => {
                let rate = |page: usize| {
                    f64::from(self.updates[page]) / (self.now + 1 - self.last_update[page]) as f64
                };
                let rates: Vec<f64> = moved.iter().map(|&page| rate(page)).collect();
                let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
                for (page, rate) in moved.into_iter().zip(rates) {
                    let is_hot = rate.total_cmp(&mean) != Ordering::Less;
                    self.put(if is_hot { HOT } else { COLD }, page);
                }
            }
        }
    }
}

fn naive(scheme: &str, environment: &Environment, experiment: &Experiment) -> Outcome {
    let WorkloadConfig::Synthetic(workload) = &experiment.workload else { panic!("a generator") };
    let drive = &experiment.drive;
    let mut generator =
        workload.generator.build(drive.logical_bytes(), experiment.seed).expect("a generator");
    let sectors = u64::from(drive.ftl.mapping_unit_bytes) / SECTOR_BYTES;
    let mut model = Naive::new(scheme, environment);
    let filling = u64::from(environment.logical_pages());
    (0..filling as usize).for_each(|page| model.write(page));
    (model.copies, model.erases) = (0, 0);
    let mut batch = Vec::new();
    while !model.is_worn {
        batch.clear();
        generator.fill(&mut batch, 1);
        model.write((batch[0].lba.get() / sectors) as usize);
    }
    Outcome::counted(model.now, model.now - filling, model.copies, model.erases)
}

#[test]
fn the_drives_averages_are_those_of_naive_collectors() {
    let options = Options::new(Scale::Tiny, 1);
    let environment = Environment { endurance_pe: 200, ..Environment::new(&options) };
    let mut of = [Vec::new(), Vec::new()];
    let schemes: Vec<_> = PAPER.iter().take(5).collect();
    for scheme in &schemes {
        let (mut run, mut model) = (Vec::new(), Vec::new());
        for set in [DATA_SETS[1], DATA_SETS[4]] {
            let experiment =
                environment.experiment(scheme, &set.into(), to_first_failure()).expect("a drive");
            run.push(Outcome::of(&runner::run(&experiment, &mut Stoppable(&())).expect("runs")));
            model.push(naive(scheme.label, &environment, &experiment));
        }
        of[0].push(run);
        of[1].push(model);
    }
    // Collect all deviations before failing, so that one run shows them all.
    let mut off = Vec::new();
    let mut note = |what: String, run: f64, model: f64, most: f64| {
        let line = format!("{what}: {run:.3}, {model:.3} by the naive one");
        eprintln!("{line}");
        off.extend(((run - model).abs() >= most).then_some(line));
    };
    for (at, scheme) in schemes.iter().enumerate() {
        let [run, model] = [0, 1].map(|who| mean(of[who][at].iter().map(COPIES.of)).expect("a level"));
        note(format!("{}, copies per erase in %", scheme.label), 100.0 * run / model, 100.0, 1.0);
        for metric in [&LIFETIME, &COPIES, &ERASES].into_iter().filter(|_| scheme.label != CAPI) {
            let [run, model] = [0, 1].map(|who| gain(metric, &of[who][4], &of[who][at]).expect("a lead"));
            note(format!("CAPi over {}, {}, %", scheme.label, metric.title), run, model, 1.0);
        }
    }
    assert!(off.is_empty(), "{off:#?}");
}
