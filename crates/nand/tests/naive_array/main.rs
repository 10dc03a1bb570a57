//! The engine of flash in virtual time against a model written from its rules alone: every operation begins and ends
//! at the same nanosecond, and everything is reported in the same order.

mod model;
mod workload;

use workload::{Tally, compare};

/// Compares product and model for each seed. Every kind of trouble must have come up.
fn compare_all(seeds: std::ops::Range<u64>) {
    let mut sum = Tally::default();
    for seed in seeds {
        let tally = compare(seed, 40 + (seed % 8) as u32 * 20);
        sum.operations += tally.operations;
        sum.suspends += tally.suspends;
        sum.contended += tally.contended;
        sum.trains += tally.trains;
        sum.beside += tally.beside;
    }
    eprintln!("{sum:?}");
    assert!(sum.suspends > sum.operations / 200 && sum.contended > sum.operations / 20, "{sum:?}");
    assert!(sum.beside > sum.operations / 100, "{sum:?}");
}

#[test]
fn everything_happens_when_the_rules_say() {
    compare_all(0..6_000);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn everything_happens_when_the_rules_say_in_many_drives() {
    compare_all(1_000_000..1_400_000);
}
