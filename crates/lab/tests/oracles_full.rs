//! The whole table of `oracles.rs` with the block sizes of real drives.
//!
//! `cargo test --release -p strobe-lab --test oracles_full -- --ignored --nocapture` prints it.

mod oracle_support;

use oracle_support::Policy::{Choices, Fifo, Greedy, GreedyLog, Random};
use oracle_support::hot_cold::{Combination, assert_between_separated_and_mixed};
use oracle_support::{BLOCKS, Cell, Policy, Traffic, assert_agreement};
use strobe_ssd::{GcStream, SchemeName};

const RHOS: [f64; 6] = [0.93, 0.85, 0.72, 0.50, 1.0 / 1.07, 1.0 / 1.28];

fn uniform(policy: Policy, units_per_block: &[u32]) -> Vec<Cell> {
    let sizes = units_per_block.iter();
    sizes.flat_map(|&b| RHOS.map(|rho| Cell::new(policy, b, rho))).collect()
}

#[test]
#[ignore = "long: make test-long"]
fn fifo_under_uniform_writes() {
    assert_agreement(&uniform(Fifo, &[16, 64, 256]));
}

/// The error of the worst cell, b = 16 at ρ = 1/1.07, shrinks to 0.1 % with 16,384 blocks, 0.03 % with 65,536.
#[test]
#[ignore = "long: make test-long"]
fn greedy_under_uniform_writes() {
    assert_agreement(&uniform(Greedy, &[16, 64, 256]));
}

#[test]
#[ignore = "long: make test-long"]
fn random_victims_under_uniform_writes() {
    assert_agreement(&uniform(Random, &[64]));
}

#[test]
#[ignore = "long: make test-long"]
fn d_choices_under_uniform_writes() {
    assert_agreement(&[uniform(Choices(2), &[64, 256]), uniform(Choices(10), &[64, 256])].concat());
}

#[test]
#[ignore = "long: make test-long"]
fn one_log_under_mixed_hot_and_cold_writes() {
    let mut cells = Vec::new();
    for policy in [Fifo, GreedyLog] {
        for rho in [0.93, 0.72] {
            for (f, r) in [(0.2, 0.8), (0.1, 0.9)] {
                cells.push(Cell::new(policy, 64, rho).under(Traffic::HotCold { f, r }));
            }
        }
    }
    assert_agreement(&cells);
}

#[test]
#[ignore = "long: make test-long"]
fn trims_act_on_every_policy_like_spare_space() {
    let mut cells = Vec::new();
    for policy in [Fifo, Greedy, Random, Choices(2), Choices(10)] {
        for q in [0.1, 0.3] {
            cells.push(Cell::new(policy, 64, 0.85).under(Traffic::Trim { q }));
        }
    }
    assert_agreement(&cells);
}

#[test]
#[ignore = "long: make test-long"]
fn the_comparison_cell() {
    let cell = Cell { blocks: 8192, ..Cell::new(Greedy, 256, 1_635_778.0 / (8189.5 * 256.0)) };
    assert_eq!(cell.logical_units(), 1_635_778);
    assert_agreement(&[cell]);
}

fn hot_and_cold_placement(rho: f64, f: f64, r: f64) {
    let mut combinations = Vec::new();
    for placement in [SchemeName::HotCold, SchemeName::Sorted] {
        for stream in [GcStream::Own, GcStream::Host] {
            for victim in ["greedy", "cost-benefit", "cat", "fegc", "capi"] {
                let traffic = (rho, f, r);
                combinations.push(Combination { victim, placement, stream, blocks: BLOCKS, traffic });
            }
        }
    }
    assert_between_separated_and_mixed(&combinations);
}

#[test]
#[ignore = "long: make test-long"]
fn hot_and_cold_placement_with_little_spare_space() {
    hot_and_cold_placement(0.93, 0.2, 0.8);
}

#[test]
#[ignore = "long: make test-long"]
fn hot_and_cold_placement_with_little_spare_space_and_more_skew() {
    hot_and_cold_placement(0.93, 0.1, 0.9);
}

#[test]
#[ignore = "long: make test-long"]
fn hot_and_cold_placement_with_much_spare_space() {
    hot_and_cold_placement(0.72, 0.2, 0.8);
}

#[test]
#[ignore = "long: make test-long"]
fn hot_and_cold_placement_with_much_spare_space_and_more_skew() {
    hot_and_cold_placement(0.72, 0.1, 0.9);
}
