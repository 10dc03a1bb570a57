//! Every policy with an index agrees with a naive scan on every pick.

use proptest::prelude::*;
use strobe_ftl::gc::{BlockView, CostBenefit, Greedy, VictimPolicy};
use strobe_types::{BlockId, Prng};

/// What the naive scan keeps.
#[derive(Clone, Copy, Default)]
struct Block {
    valid: u32,
    closed_order: Option<u64>,
    last_invalidation: u64,
}

/// Plays a random history of closing, invalidation and collection over `blocks` blocks and
/// compares each choice with `naive`.
fn compare(
    mut policy: impl VictimPolicy,
    naive: impl Fn(&[Block], u64, u32) -> Option<u32>,
    blocks: u32,
    units: u32,
    seed: u64,
) {
    let mut rng = Prng::new(seed);
    let mut state = vec![Block::default(); blocks as usize];
    let (mut tick, mut order) = (0, 0);
    for _ in 0..3000 {
        let id = rng.below(blocks);
        let block = &mut state[id as usize];
        match (block.closed_order, rng.below(8)) {
            (None, _) => {
                *block = Block { valid: units, closed_order: None, last_invalidation: 0 };
                // Some units die while the block is open.
                for _ in 0..rng.below(3).min(units) {
                    tick += 1;
                    block.valid -= 1;
                    block.last_invalidation = tick;
                    policy.invalidated(BlockId::new(id), block.valid, tick);
                }
                order += 1;
                block.closed_order = Some(order);
                if block.last_invalidation == 0 {
                    block.last_invalidation = tick;
                }
                policy.closed(BlockId::new(id), block.valid, tick);
            }
            (Some(_), 0) => {
                let valid: Vec<u32> = state.iter().map(|b| b.valid).collect();
                let view = BlockView::new(&valid, units, tick);
                let chosen = policy.choose(&view, &mut rng).map(BlockId::get);
                assert_eq!(chosen, naive(&state, tick, units));
                if let Some(victim) = chosen {
                    policy.taken(BlockId::new(victim));
                    state[victim as usize] = Block::default();
                }
            }
            (Some(_), _) if block.valid > 0 => {
                tick += 1;
                block.valid -= 1;
                block.last_invalidation = tick;
                policy.invalidated(BlockId::new(id), block.valid, tick);
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

fn naive_cost_benefit(state: &[Block], tick: u64, units: u32) -> Option<u32> {
    let score = |b: &Block| {
        let u = f64::from(b.valid) / f64::from(units);
        (tick - b.last_invalidation + 1) as f64 * (1.0 - u) / (2.0 * u)
    };
    let best = closed(state).filter(|(_, b)| b.valid < units).max_by(|(ia, a), (ib, b)| {
        // Scores that differ only by rounding count as equal, as the two sides compute them
        // in a different order.
        let (sa, sb) = (score(a), score(b));
        let close = (sa - sb).abs() <= 1e-9 * sa.max(sb) && sa.is_finite() && sb.is_finite();
        let order = if close || sa == sb { std::cmp::Ordering::Equal } else { sa.total_cmp(&sb) };
        order.then((b.last_invalidation, ib).cmp(&(a.last_invalidation, ia)))
    });
    best.map(|(id, _)| id)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn greedy_agrees_with_the_scan(blocks in 1u32..200, units in 1u32..40, seed in any::<u64>()) {
        compare(Greedy::new(blocks), naive_greedy, blocks, units, seed);
    }

    #[test]
    fn cost_benefit_agrees_with_the_scan(blocks in 1u32..200, units in 1u32..40, seed in any::<u64>()) {
        compare(CostBenefit::new(blocks, units), naive_cost_benefit, blocks, units, seed);
    }
}

#[test]
fn greedy_agrees_with_the_scan_on_three_levels() {
    compare(Greedy::new(5000), naive_greedy, 5000, 3, 11);
}
