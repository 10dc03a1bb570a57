//! Every policy with an index agrees with a naive scan on every pick.

use proptest::prelude::*;
use strobe_ftl::gc::{BlockView, Formula, Greedy, Kinetic, LinearScore, VictimPolicy};
use strobe_types::{BlockId, Ppa, Prng};

/// What the naive scan keeps.
#[derive(Clone, Default)]
struct Block {
    valid: u32,
    closed_order: Option<u64>,
    opened: u64,
    closed: u64,
    last_invalidation: u64,
    invalidations: Vec<u64>,
    erase_count: u32,
}

impl Block {
    fn invalidate(&mut self, tick: u64) {
        self.valid -= 1;
        self.last_invalidation = tick;
        self.invalidations.push(tick);
    }
}

/// Plays a random history of closing, invalidation and collection over `blocks` blocks and
/// compares each choice with `naive`. With `ties`, another block of exactly the same score is as good:
/// rounding decides between them when scores are floating point.
fn compare(
    mut policy: impl VictimPolicy,
    naive: impl Fn(&[Block], u64, u32) -> Option<u32>,
    (blocks, units): (u32, u32),
    seed: u64,
    ties: Option<LinearScore>,
) {
    let mut rng = Prng::new(seed);
    let mut state = vec![Block::default(); blocks as usize];
    let (mut tick, mut order) = (1, 0);
    for _ in 0..3000 {
        let id = rng.below(blocks);
        let block = &mut state[id as usize];
        match (block.closed_order, rng.below(8)) {
            (None, _) => {
                *block =
                    Block { valid: units, opened: tick, erase_count: block.erase_count, ..Block::default() };
                policy.opened(BlockId::new(id), block.erase_count, tick);
                // Some units die while the block is open.
                for _ in 0..rng.below(3).min(units) {
                    tick += 1 + u64::from(rng.below(5));
                    block.invalidate(tick);
                    policy.invalidated(Ppa::new(0), BlockId::new(id), block.valid, tick);
                }
                order += 1;
                block.closed_order = Some(order);
                block.closed = tick;
                if block.invalidations.is_empty() {
                    block.last_invalidation = tick;
                }
                policy.closed(BlockId::new(id), block.valid, tick);
            }
            (Some(_), 0) => {
                let valid: Vec<u32> = state.iter().map(|b| b.valid).collect();
                let view = BlockView::new(&valid, units, tick);
                let chosen = policy.choose(&view, &mut rng).map(BlockId::get);
                let expected = naive(&state, tick, units);
                if let (Some(score), Some(chosen), Some(expected)) = (ties, chosen, expected) {
                    let [a, b] =
                        [chosen, expected].map(|id| naive_score(score, &state[id as usize], tick, units));
                    assert!(compare_scores(a, b).is_eq(), "{chosen} scores {a:?}, {expected} scores {b:?}");
                } else {
                    assert_eq!(chosen, expected);
                }
                if let Some(victim) = chosen {
                    policy.taken(BlockId::new(victim));
                    let erase_count = state[victim as usize].erase_count + 1;
                    state[victim as usize] = Block { erase_count, ..Block::default() };
                }
            }
            (Some(_), _) if block.valid > 0 => {
                tick += 1;
                block.invalidate(tick);
                policy.invalidated(Ppa::new(0), BlockId::new(id), block.valid, tick);
            }
            _ => {}
        }
        let closed = state.iter().filter(|b| b.closed_order.is_some()).count();
        assert_eq!(policy.candidates() as usize, closed);
    }
}

fn closed(state: &[Block]) -> impl Iterator<Item = (u32, &Block)> {
    (0..).zip(state).filter(|(_, b)| b.closed_order.is_some())
}

fn naive_greedy(state: &[Block], _tick: u64, _units: u32) -> Option<u32> {
    closed(state).min_by_key(|(_, b)| (b.valid, b.closed_order)).map(|(id, _)| id)
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

/// The published score of a block, as a fraction, straight from the formula.
fn naive_score(score: LinearScore, b: &Block, tick: u64, units: u32) -> Score {
    let wide = u128::from;
    let (valid, dead, units) = (wide(b.valid), wide(units - b.valid), wide(units));
    let age = |since: u64| u128::from(tick + 1 - since);
    match score {
        LinearScore::CostBenefit => (age(b.last_invalidation) * dead, 2 * valid),
        LinearScore::Lfs => (age(b.closed) * dead, units + valid),
        LinearScore::Cat => (age(b.opened) * dead, valid * u128::from(b.erase_count + 1)),
        LinearScore::CaPi => (age(b.opened) * dead * units, (units + valid) * (units + valid)),
        LinearScore::FeGc => (b.invalidations.iter().map(|&at| age(at)).sum(), 1),
    }
}

fn naive_linear(score: LinearScore) -> impl Fn(&[Block], u64, u32) -> Option<u32> {
    move |state, tick, units| {
        let candidates = closed(state).filter(|(_, b)| b.valid < units);
        let best = candidates.max_by(|(ia, a), (ib, b)| {
            let [sa, sb] = [a, b].map(|block| naive_score(score, block, tick, units));
            compare_scores(sa, sb).then(ib.cmp(ia))
        });
        best.map(|(id, _)| id)
    }
}

const FORMULAS: [(LinearScore, &str); 5] = [
    (LinearScore::CostBenefit, "age_last_invalid * (1-u) / (2*u)"),
    (LinearScore::Lfs, "age_closed * (1-u) / (1+u)"),
    (LinearScore::Cat, "(1-u) / u * age / (erase_count + 1)"),
    (LinearScore::FeGc, "age_invalid_sum"),
    (LinearScore::CaPi, "age * (1-u) / (1+u)^2"),
];

const LINEAR: [LinearScore; 5] =
    [LinearScore::CostBenefit, LinearScore::Lfs, LinearScore::Cat, LinearScore::FeGc, LinearScore::CaPi];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn greedy_agrees_with_the_scan(blocks in 1u32..200, units in 1u32..40, seed in any::<u64>()) {
        compare(Greedy::new(blocks), naive_greedy, (blocks, units), seed, None);
    }

    /// With 64 units per block u is exact, and so is every score but for its last division.
    #[test]
    fn published_policies_written_as_formulas_pick_the_same_victims(
        which in 0..FORMULAS.len(),
        blocks in 1u32..200,
        seed in any::<u64>(),
    ) {
        let (score, text) = FORMULAS[which];
        compare(Formula::new(blocks, text).expect(text), naive_linear(score), (blocks, 64), seed, Some(score));
    }

    #[test]
    fn every_linear_score_agrees_with_the_scan(
        score in prop::sample::select(LINEAR.to_vec()),
        blocks in 1u32..200,
        units in 1u32..40,
        seed in any::<u64>(),
    ) {
        compare(Kinetic::new(blocks, units, score), naive_linear(score), (blocks, units), seed, None);
    }
}

#[test]
fn indices_agree_with_the_scan_on_many_blocks() {
    compare(Greedy::new(5000), naive_greedy, (5000, 3), 11, None);
    for score in LINEAR {
        compare(Kinetic::new(3000, 5, score), naive_linear(score), (3000, 5), 12, None);
    }
}
