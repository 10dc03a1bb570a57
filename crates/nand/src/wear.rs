//! Bad blocks: endurance, program failures and factory defects.

use strobe_types::Prng;

/// Causes of bad blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WearConfig {
    /// Erases that a block survives; the next erase fails and the block is bad. `None`: unlimited.
    pub endurance_pe: Option<u32>,
    /// Number of factory-bad blocks, at random positions.
    pub factory_bad_blocks: u32,
    /// Probability that a page program fails, 0..1.
    pub program_fail_rate: f64,
}

pub(crate) fn factory_bad(blocks: u32, wear: &WearConfig, seed: u64) -> Vec<bool> {
    let mut bad = vec![false; blocks as usize];
    let mut rng = Prng::derive(seed, "factory-bad");
    for _ in 0..wear.factory_bad_blocks.min(blocks) {
        // Linear probing from a random block: terminates and needs no list of good blocks.
        let mut block = rng.below(blocks) as usize;
        while bad[block] {
            block = (block + 1) % blocks as usize;
        }
        bad[block] = true;
    }
    bad
}
