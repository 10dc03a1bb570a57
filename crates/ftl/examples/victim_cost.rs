//! Cost of one victim choice, by policy and number of blocks.
//!
//! `cargo run --release -p strobe-ftl --example victim_cost [POLICY...]`
//!
//! Drives each policy as in steady state: random units become invalid, one per unit refilled. Prints the
//! median time of a choice (`choose` and `taken`), and of all other calls per unit written.

// A benchmark reads the clock; the engine does not.
#![allow(clippy::disallowed_types)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use strobe_ftl::gc::{BlockView, Greedy, Kinetic, LinearScore, Sampled, Sampling, ScataAge, VictimPolicy};
use strobe_types::{BlockId, Ppa, Prng};

const UNITS: u32 = 64;
const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const UTILISATION: f64 = 0.8;
const CHOICES_TIMED: usize = 20_000;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    println!("ns per choice, median (ns per unit written for all other calls), {UNITS} units per block\n");
    println!("{:<16}{:>18}{:>18}{:>18}{:>18}{:>10}", "blocks", "10^3", "10^4", "10^5", "10^6", "ratio");
    row("memory latency", &wanted, memory_latency);
    let kinetic = |score| move |blocks| time(Kinetic::new(blocks, UNITS, score), blocks);
    row("greedy", &wanted, |blocks| time(Greedy::new(blocks), blocks));
    row("windowed-greedy", &wanted, |blocks| time(Greedy::windowed(blocks, 1000), blocks));
    row("cost-benefit", &wanted, kinetic(LinearScore::CostBenefit));
    row("lfs", &wanted, kinetic(LinearScore::Lfs));
    row("cat", &wanted, kinetic(LinearScore::Cat));
    row("fegc", &wanted, kinetic(LinearScore::FeGc));
    row("capi", &wanted, kinetic(LinearScore::CaPi));
    let scata = |age| move |blocks| time(Kinetic::scata(blocks, UNITS, age), blocks);
    row("scata", &wanted, scata(ScataAge::OldestInvalid));
    row("scata-newest", &wanted, scata(ScataAge::NewestInvalid));
    let sampled = |sampling| move |blocks| time(Sampled::new(blocks, sampling), blocks);
    row("fifo", &wanted, sampled(Sampling::Fifo));
    row("random", &wanted, sampled(Sampling::Choices(1)));
    row("d-choices", &wanted, sampled(Sampling::Choices(10)));
}

fn row(name: &str, wanted: &[String], cost: impl Fn(u32) -> (f64, f64)) {
    if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
        return;
    }
    print!("{name:<16}");
    let costs = SIZES.map(|blocks| {
        let (choice, hooks) = cost(blocks);
        print!("{:>18}", format!("{choice:.0} ({hooks:.1})"));
        std::io::Write::flush(&mut std::io::stdout()).expect("standard output");
        choice
    });
    println!("{:>10.2}", costs[3] / costs[0].max(1.0));
}

/// Latency of dependent loads from a table of 64 bytes per block.
fn memory_latency(blocks: u32) -> (f64, f64) {
    let mut rng = Prng::new(1);
    // Sattolo 1986: one cycle through all entries.
    let mut next: Vec<[u32; 16]> = (0..blocks).map(|at| [at; 16]).collect();
    for at in (1..blocks).rev() {
        let other = rng.below(at) as usize;
        let here = next[at as usize][0];
        next[at as usize][0] = std::mem::replace(&mut next[other][0], here);
    }
    let (mut at, loads) = (0, 4_000_000);
    let start = Instant::now();
    for _ in 0..loads {
        at = next[at as usize][0];
    }
    black_box(at);
    (start.elapsed().as_secs_f64() * 1e9 / f64::from(loads), 0.0)
}

struct Drive<V> {
    policy: V,
    rng: Prng,
    blocks: u32,
    valid: Vec<u32>,
    units: Vec<u64>,
    erase_counts: Vec<u32>,
    tick: u64,
    written: u64,
}

impl<V: VictimPolicy> Drive<V> {
    fn fill(&mut self, block: u32) {
        let id = BlockId::new(block);
        self.policy.opened(id, self.erase_counts[id.index()], self.tick);
        for slot in 0..UNITS {
            self.policy.written(Ppa::new(block * UNITS + slot), self.tick);
        }
        self.written += u64::from(UNITS);
        self.valid[id.index()] = UNITS;
        self.units[id.index()] = u64::MAX;
        self.policy.closed(id, UNITS, self.tick);
    }

    fn invalidate(&mut self, mut count: u32) {
        while count > 0 {
            let unit = self.rng.below(self.blocks * UNITS);
            let (block, bit) = ((unit / UNITS) as usize, 1 << (unit % UNITS));
            if self.units[block] & bit != 0 {
                self.units[block] ^= bit;
                self.valid[block] -= 1;
                self.tick += 1;
                let id = BlockId::new(block as u32);
                self.policy.invalidated(Ppa::new(unit), id, self.valid[block], self.tick);
                count -= 1;
            }
        }
    }

    fn collect(&mut self) -> Duration {
        let view = BlockView::new(&self.valid, UNITS, self.tick);
        let start = Instant::now();
        let victim = self.policy.choose(&view, &mut self.rng).expect("there is a victim");
        self.policy.taken(victim);
        let took = start.elapsed();
        let gain = UNITS - self.valid[victim.index()];
        self.erase_counts[victim.index()] += 1;
        self.fill(victim.get());
        self.invalidate(gain);
        took
    }
}

fn time(policy: impl VictimPolicy, blocks: u32) -> (f64, f64) {
    let mut drive = Drive {
        policy,
        rng: Prng::new(1),
        blocks,
        valid: vec![0; blocks as usize],
        units: vec![0; blocks as usize],
        erase_counts: vec![0; blocks as usize],
        tick: 1,
        written: 0,
    };
    for block in 0..blocks {
        drive.fill(block);
        drive.tick += u64::from(UNITS);
    }
    drive.invalidate((f64::from(blocks * UNITS) * (1.0 - UTILISATION)) as u32);
    for _ in 0..2 * blocks {
        drive.collect();
    }
    let clock = median((0..CHOICES_TIMED).map(|_| Instant::now().elapsed()).collect());
    let (start, before) = (Instant::now(), drive.written);
    let choices: Vec<Duration> = (0..CHOICES_TIMED).map(|_| drive.collect()).collect();
    let hooks = start.elapsed().saturating_sub(choices.iter().sum());
    let hooks = hooks.as_secs_f64() * 1e9 / (drive.written - before) as f64;
    (median(choices) - clock, hooks)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e9
}
