//! The timing engine compared with a model written from the rules alone: every operation begins and ends at
//! the same nanosecond, and reports come in the same order.

mod model;
mod workload;

use workload::{Tally, compare};

fn compare_all(seeds: std::ops::Range<u64>) {
    let mut sum = Tally::default();
    let seeds = strobe_testing::seeds(seeds);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let tally = compare(seed.get(), 40 + (seed.get() % 8) as u32 * 20);
        sum.operations += tally.operations;
        sum.suspends += tally.suspends;
        sum.contended += tally.contended;
        sum.trains += tally.trains;
        sum.overlapped += tally.overlapped;
    }
    eprintln!("{sum:?}");
    if !is_whole {
        return;
    }
    assert!(sum.suspends > sum.operations / 200 && sum.contended > sum.operations / 20, "{sum:?}");
    assert!(sum.overlapped > sum.operations / 100, "{sum:?}");
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
