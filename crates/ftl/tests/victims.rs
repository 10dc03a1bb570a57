//! Every policy agrees with a naive scan on every choice.

use proptest::prelude::*;
use strobe_ftl::gc::{
    BlockView, Formula, Greedy, Kinetic, LinearScore, Midas, Sampled, Sampling, ScataAge, SecondChance,
    TwoRegions, VictimPolicy,
};
use strobe_types::{BlockId, Ppa, Prng};

#[derive(Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Erased,
    Open,
    Closed,
}

#[derive(Clone, Default)]
struct Block {
    phase: Phase,
    valid: u32,
    units: Vec<Option<u64>>,
    closed_order: u64,
    opened: u64,
    closed: u64,
    invalidations: Vec<u64>,
    erase_count: u32,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Fifo,
    Greedy,
    Window(usize),
    Linear(LinearScore),
    Scata(ScataAge),
}

/// A fraction; a denominator of 0 is infinity.
type Score = (u128, u128);

fn compare_scores(a: Score, b: Score) -> std::cmp::Ordering {
    match (a.1, b.1) {
        (0, 0) => std::cmp::Ordering::Equal,
        (0, _) => std::cmp::Ordering::Greater,
        (_, 0) => std::cmp::Ordering::Less,
        _ => (a.0 * b.1).cmp(&(b.0 * a.1)),
    }
}

impl Rule {
    fn pick(self, state: &[Block], tick: u64) -> Option<u32> {
        let closed = || (0..).zip(state).filter(|(_, b)| b.phase == Phase::Closed);
        let best = match self {
            Self::Fifo => closed().min_by_key(|(_, b)| b.closed_order),
            Self::Greedy => closed().min_by_key(|(_, b)| (b.valid, b.closed_order)),
            Self::Window(size) => {
                let mut oldest: Vec<_> = closed().collect();
                oldest.sort_by_key(|(_, b)| b.closed_order);
                oldest.truncate(size);
                oldest.into_iter().min_by_key(|(_, b)| (b.valid, b.closed_order))
            }
            Self::Linear(_) | Self::Scata(_) => {
                let candidates = closed().filter(|(_, b)| (b.valid as usize) < b.units.len());
                candidates.max_by(|(ia, a), (ib, b)| {
                    compare_scores(self.score(a, tick), self.score(b, tick)).then(ib.cmp(ia))
                })
            }
        };
        best.map(|(id, _)| id)
    }

    fn score(self, b: &Block, tick: u64) -> Score {
        let (valid, units) = (u128::from(b.valid), b.units.len() as u128);
        let dead = units - valid;
        let age = |since: u64| u128::from(tick + 1 - since);
        let worn = u128::from(b.erase_count) + 1;
        let first_invalidation = b.invalidations.first().copied().unwrap_or(b.closed);
        let last_invalidation = b.invalidations.last().copied().unwrap_or(b.closed);
        match self {
            Self::Fifo => (u128::from(u64::MAX - b.closed_order), 1),
            Self::Greedy | Self::Window(_) => (dead, 1),
            Self::Linear(LinearScore::CostBenefit) => (age(last_invalidation) * dead, 2 * valid),
            Self::Linear(LinearScore::Lfs) => (age(b.closed) * dead, units + valid),
            Self::Linear(LinearScore::Cat) => (age(b.opened) * dead, valid * worn),
            Self::Linear(LinearScore::CaPi) => {
                (age(b.opened) * dead * units, (units + valid) * (units + valid))
            }
            Self::Linear(LinearScore::FeGc) => (b.invalidations.iter().map(|&at| age(at)).sum(), 1),
            Self::Scata(which) => {
                let invalidation = match which {
                    ScataAge::OldestInvalid => first_invalidation,
                    ScataAge::NewestInvalid => last_invalidation,
                };
                match b.units.iter().flatten().map(|&written| age(written)).min() {
                    None => (1, 0),
                    Some(est) => (age(invalidation) * est * dead, worn * (units + valid)),
                }
            }
        }
    }
}

/// Equal scores: the rule's block exactly, or any with that score.
#[derive(Clone, Copy, PartialEq)]
enum Ties {
    Exact,
    Any,
}

struct Play<V> {
    policy: V,
    rng: Prng,
    state: Vec<Block>,
    units: u32,
    tick: u64,
    closings: u64,
}

impl<V: VictimPolicy> Play<V> {
    fn wait(&mut self, bound: u32) {
        self.tick += u64::from(self.rng.below(bound));
    }

    fn fill(&mut self, id: u32) {
        let erase_count = self.state[id as usize].erase_count;
        self.policy.opened(BlockId::new(id), erase_count, self.tick);
        let units = vec![None; self.units as usize];
        self.state[id as usize] =
            Block { phase: Phase::Open, units, opened: self.tick, erase_count, ..Block::default() };
        let (padded, pace) = (self.rng.below(8) == 0, 1 + self.rng.below(3));
        for slot in 0..self.units {
            if padded && self.rng.below(2) == 0 {
                continue;
            }
            self.wait(pace);
            let block = &mut self.state[id as usize];
            block.units[slot as usize] = Some(self.tick);
            block.valid += 1;
            self.policy.written(Ppa::new(id * self.units + slot), self.tick);
            if self.rng.below(16) == 0 {
                self.invalidate(id);
            }
        }
    }

    fn close(&mut self, id: u32) {
        self.closings += 1;
        let block = &mut self.state[id as usize];
        (block.phase, block.closed, block.closed_order) = (Phase::Closed, self.tick, self.closings);
        self.policy.closed(BlockId::new(id), block.valid, self.tick);
    }

    fn invalidate(&mut self, id: u32) {
        let block = &mut self.state[id as usize];
        let valid: Vec<u32> = (0..).zip(&block.units).filter(|(_, u)| u.is_some()).map(|(s, _)| s).collect();
        if valid.is_empty() {
            return;
        }
        let slot = valid[self.rng.below(valid.len() as u32) as usize];
        self.tick += 1;
        block.units[slot as usize] = None;
        block.valid -= 1;
        block.invalidations.push(self.tick);
        let unit = Ppa::new(id * self.units + slot);
        self.policy.invalidated(unit, BlockId::new(id), block.valid, self.tick);
    }

    fn take(&mut self, id: u32) {
        self.policy.taken(BlockId::new(id));
        let erase_count = self.state[id as usize].erase_count + 1 + self.rng.below(3);
        self.state[id as usize] = Block { erase_count, ..Block::default() };
    }

    fn choose(&mut self, rule: Rule, ties: Ties) -> Option<u32> {
        let valid: Vec<u32> = self.state.iter().map(|b| b.valid).collect();
        let view = BlockView::new(&valid, self.units, self.tick);
        let chosen = self.policy.choose(&view, &mut self.rng).map(BlockId::get);
        let expected = rule.pick(&self.state, self.tick);
        // A block without invalid units gains nothing: a policy may name it or not.
        let useful = |id: Option<u32>| id.filter(|&id| self.state[id as usize].valid < self.units);
        let (chosen, expected) = match ties {
            Ties::Any => (useful(chosen), useful(expected)),
            Ties::Exact => (chosen, expected),
        };
        match (ties, chosen, expected) {
            (Ties::Any, Some(chosen), Some(expected)) => {
                assert!(self.state[chosen as usize].phase == Phase::Closed);
                let [a, b] = [chosen, expected].map(|id| rule.score(&self.state[id as usize], self.tick));
                assert!(compare_scores(a, b).is_eq(), "{chosen} scores {a:?}, {expected} scores {b:?}");
            }
            _ => assert_eq!(chosen, expected, "{rule:?}"),
        }
        if let (Rule::Greedy, Ties::Exact) = (rule, ties) {
            self.choose_among_some();
        }
        chosen
    }

    fn choose_among_some(&mut self) {
        let blocks = self.state.len() as u32;
        let start = self.rng.below(blocks);
        let some = start..start + self.rng.below(blocks - start + 1);
        let chosen = self.policy.choose_among(some.clone()).map(BlockId::get);
        let closed = some.filter(|&id| self.state[id as usize].phase == Phase::Closed);
        let order = |&id: &u32| (self.state[id as usize].valid, self.state[id as usize].closed_order);
        assert_eq!(chosen, closed.min_by_key(order), "of those from {start}");
    }
}

fn compare(policy: impl VictimPolicy, rule: Rule, (blocks, units): (u32, u32), seed: u64, ties: Ties) {
    let state = vec![Block::default(); blocks as usize];
    let mut play = Play { policy, rng: Prng::new(seed), state, units, tick: 1, closings: 0 };
    for _ in 0..3000 {
        let id = play.rng.below(blocks);
        match (play.state[id as usize].phase, play.rng.below(16)) {
            (Phase::Erased, _) => play.fill(id),
            (Phase::Open, 0..8) => play.close(id),
            (Phase::Closed, 0) => play.take(id),
            (Phase::Closed, 1..3) => {
                // The best block also changes with time alone.
                for bound in [1, 2, 40, 1000] {
                    play.wait(bound);
                    play.choose(rule, ties);
                }
            }
            (Phase::Closed, 3) => {
                if let Some(victim) = play.choose(rule, ties) {
                    play.take(victim);
                }
            }
            _ => play.invalidate(id),
        }
        let closed = play.state.iter().filter(|b| b.phase == Phase::Closed).count();
        assert_eq!(play.policy.candidates() as usize, closed);
    }
}

/// Empties blocks until only fully valid ones are left. Odd blocks belong to stream 1.
fn name_all_with_something_to_gain<V: VictimPolicy>(policy: V, (blocks, units): (u32, u32), seed: u64) {
    let state = vec![Block::default(); blocks as usize];
    let mut play = Play { policy, rng: Prng::new(seed), state, units, tick: 1, closings: 0 };
    let streams: Vec<u8> = (0..blocks).map(|id| 1 + (id % 2) as u8).collect();
    let choose = |play: &mut Play<V>| {
        let valid: Vec<u32> = play.state.iter().map(|b| b.valid).collect();
        let view = BlockView::new(&valid, units, play.tick).with_streams(&streams);
        let chosen = play.policy.choose(&view, &mut Prng::new(0)).map(BlockId::get)?;
        assert!(play.state[chosen as usize].phase == Phase::Closed, "{chosen} is not closed");
        Some(chosen)
    };
    for _ in 0..2000 {
        let id = play.rng.below(blocks);
        match (play.state[id as usize].phase, play.rng.below(16)) {
            (Phase::Erased, _) => play.fill(id),
            (Phase::Open, 0..8) => play.close(id),
            (Phase::Closed, 0) => play.take(id),
            (Phase::Closed, 1..4) => {
                if let Some(victim) = choose(&mut play).filter(|_| id % 3 > 0) {
                    play.take(victim);
                }
            }
            _ => play.invalidate(id),
        }
        let closed = play.state.iter().filter(|b| b.phase == Phase::Closed).count();
        assert_eq!(play.policy.candidates() as usize, closed);
    }
    while let Some(victim) = choose(&mut play) {
        play.take(victim);
    }
    let mut closed = play.state.iter().filter(|b| b.phase == Phase::Closed);
    assert!(closed.all(|block| block.valid == units), "a block with something to gain is left");
}

const LINEAR: [LinearScore; 5] =
    [LinearScore::CostBenefit, LinearScore::Lfs, LinearScore::Cat, LinearScore::FeGc, LinearScore::CaPi];

const SCATA: [ScataAge; 2] = [ScataAge::OldestInvalid, ScataAge::NewestInvalid];

const FORMULAS: [(Rule, &str); 8] = [
    (Rule::Linear(LinearScore::CostBenefit), "age_last_invalid * (1-u) / (2*u)"),
    (Rule::Linear(LinearScore::Lfs), "age_closed * (1-u) / (1+u)"),
    (Rule::Linear(LinearScore::Cat), "(1-u) / u * age / (erase_count + 1)"),
    (Rule::Linear(LinearScore::FeGc), "age_invalid_sum"),
    (Rule::Linear(LinearScore::CaPi), "age * (1-u) / (1+u)^2"),
    (
        Rule::Scata(ScataAge::OldestInvalid),
        "age_first_invalid * age_newest_valid / (erase_count + 1) * (1-u) / (1+u)",
    ),
    (
        Rule::Scata(ScataAge::NewestInvalid),
        "age_last_invalid * age_newest_valid / (erase_count + 1) * (1-u) / (1+u)",
    ),
    (Rule::Greedy, "invalid"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn greedy_agrees_with_the_scan(blocks in 1u32..200, units in 1u32..40, seed in any::<u64>()) {
        compare(Greedy::new(blocks), Rule::Greedy, (blocks, units), seed, Ties::Exact);
    }

    #[test]
    fn windowed_greedy_agrees_with_the_scan(
        blocks in 1u32..200,
        window in 1u32..220,
        units in 1u32..40,
        seed in any::<u64>(),
    ) {
        let policy = Greedy::windowed(blocks, window);
        compare(policy, Rule::Window(window as usize), (blocks, units), seed, Ties::Exact);
    }

    #[test]
    fn a_window_of_one_is_fifo_and_one_of_all_blocks_greedy(
        blocks in 1u32..100,
        more in 0u32..3,
        units in 1u32..40,
        seed in any::<u64>(),
    ) {
        compare(Greedy::windowed(blocks, 1), Rule::Fifo, (blocks, units), seed, Ties::Exact);
        compare(Greedy::windowed(blocks, blocks + more), Rule::Greedy, (blocks, units), seed, Ties::Exact);
        compare(Greedy::windowed(blocks, u32::MAX), Rule::Greedy, (blocks, units), seed, Ties::Exact);
    }

    #[test]
    fn fifo_agrees_with_the_scan(blocks in 1u32..200, units in 1u32..40, seed in any::<u64>()) {
        compare(Sampled::new(blocks, Sampling::Fifo), Rule::Fifo, (blocks, units), seed, Ties::Exact);
    }

    #[test]
    fn victims_of_published_schemes_leave_no_block_with_something_to_gain(
        blocks in 1u32..100,
        units in 1u32..40,
        seed in any::<u64>(),
    ) {
        name_all_with_something_to_gain(TwoRegions::new(blocks, 1), (blocks, units), seed);
        name_all_with_something_to_gain(SecondChance::new(blocks), (blocks, units), seed);
        name_all_with_something_to_gain(Midas::new(blocks), (blocks, units), seed);
    }

    /// 2000 draws miss a given block of fifty with a probability of 10⁻¹⁷.
    #[test]
    fn many_choices_are_greedy(blocks in 1u32..50, units in 1u32..40, seed in any::<u64>()) {
        let policy = Sampled::new(blocks, Sampling::Choices(2000));
        compare(policy, Rule::Greedy, (blocks, units), seed, Ties::Any);
    }

    /// With 64 units per block, u is exact, and each score except for its divisions.
    #[test]
    fn published_policies_written_as_formulas_pick_the_same_victims(
        which in 0..FORMULAS.len(),
        blocks in 1u32..200,
        seed in any::<u64>(),
    ) {
        let (rule, text) = FORMULAS[which];
        compare(Formula::new(blocks, 64, text).expect(text), rule, (blocks, 64), seed, Ties::Any);
    }

    #[test]
    fn every_linear_score_agrees_with_the_scan(
        score in prop::sample::select(LINEAR.to_vec()),
        blocks in 1u32..200,
        units in 1u32..40,
        seed in any::<u64>(),
    ) {
        let policy = Kinetic::new(blocks, units, score);
        compare(policy, Rule::Linear(score), (blocks, units), seed, Ties::Exact);
    }

    #[test]
    fn scata_agrees_with_the_scan(
        age in prop::sample::select(SCATA.to_vec()),
        blocks in 1u32..200,
        units in 1u32..40,
        seed in any::<u64>(),
    ) {
        let policy = Kinetic::scata(blocks, units, age);
        compare(policy, Rule::Scata(age), (blocks, units), seed, Ties::Exact);
    }
}

#[test]
fn blocks_that_bring_nothing_are_no_choice() {
    let formula = Formula::new(3, 64, "invalid").expect("a formula");
    compare(formula, Rule::Greedy, (3, 64), 10_956_626_834_486_981_071, Ties::Any);
}

#[test]
fn indices_agree_with_the_scan_on_many_blocks() {
    compare(Greedy::new(2000), Rule::Greedy, (2000, 3), 11, Ties::Exact);
    compare(Greedy::windowed(2000, 300), Rule::Window(300), (2000, 3), 11, Ties::Exact);
    for score in LINEAR {
        compare(Kinetic::new(1000, 5, score), Rule::Linear(score), (1000, 5), 12, Ties::Exact);
    }
    for age in SCATA {
        compare(Kinetic::scata(1000, 5, age), Rule::Scata(age), (1000, 5), 12, Ties::Exact);
    }
}

#[test]
fn padding_alone_is_worth_a_collection() {
    fn choice(mut policy: impl VictimPolicy) -> Option<u32> {
        policy.opened(BlockId::new(1), 0, 1);
        policy.written(Ppa::new(4), 1);
        policy.closed(BlockId::new(1), 1, 1);
        policy.choose(&BlockView::new(&[0, 1], 4, 1), &mut Prng::new(1)).map(BlockId::get)
    }
    for score in LINEAR {
        assert_eq!(choice(Kinetic::new(2, 4, score)), Some(1), "{score:?}");
    }
    for age in SCATA {
        assert_eq!(choice(Kinetic::scata(2, 4, age)), Some(1), "{age:?}");
    }
    for (_, text) in FORMULAS {
        assert_eq!(choice(Formula::new(2, 4, text).expect(text)), Some(1), "{text}");
    }
}
