use strobe_ftl::wear::Leveling;
use strobe_ftl::{Allocation, Inspectable, PageMapConfig, PlacementKind, Temperature};
use strobe_nand::Cause;
use strobe_types::Lpn;

use super::bench::{Bench, Opening, Round, STREAMS, Skewed, spec};
use super::ledger::Ranking;
fn check_opening(opening: &Opening, allocation: Allocation, is_cold: bool, erases: &[u32]) {
    let opened = opening.free.iter().find(|&&(block, _)| block == opening.block).expect("it was erased");
    let counts = || opening.free.iter().map(|&(_, erases)| erases);
    let (most, least) = (counts().max(), counts().min());
    let worn = opening.first.1 == Cause::Wear || allocation == Allocation::Adaptive && is_cold;
    if worn {
        assert_eq!(Some(opened.1), most, "{opening:?}");
        return;
    }
    if allocation == Allocation::AboveAverage && is_cold {
        let sum: u64 = erases.iter().map(|&count| u64::from(count)).sum();
        let is_above = |count: u32| u64::from(count) * erases.len() as u64 > sum;
        let least_above = counts().filter(|&count| is_above(count)).min();
        assert_eq!(Some(opened.1), least_above.or(most), "{opening:?}");
        return;
    }
    let first = match allocation {
        Allocation::Fifo => opening.free.first(),
        _ => opening.free.iter().find(|&&(_, erases)| Some(erases) == least),
    };
    assert_eq!(Some(opened), first, "{opening:?}");
}

#[test]
fn blocks_are_opened_in_the_order_that_allocation_says() {
    for allocation in
        [Allocation::Fifo, Allocation::LeastErased, Allocation::Adaptive, Allocation::AboveAverage]
    {
        for leveling in [None, Some(Leveling::Swap { threshold: 4 })] {
            for gc_stream in STREAMS {
                let config = PageMapConfig {
                    gc_stream,
                    allocation,
                    leveling,
                    placement: PlacementKind::HotCold,
                    min_free_blocks: Some(12),
                    ..PageMapConfig::new(340)
                };
                let mut bench = Bench::filled(spec(64, 8), Ranking::Greedy, config);
                let mut traffic = Skewed::new(config.logical_units);
                let (mut cold, mut worn) = (0, 0);
                for _ in 0..8000 {
                    bench.openings.clear();
                    let rounds = bench.write(traffic.next());
                    for opening in &bench.openings {
                        let (lpn, cause) = opening.first;
                        let is_cold = cause == Cause::Gc && is_below_mean(&rounds, lpn);
                        check_opening(opening, allocation, is_cold, &opening.erases);
                        cold += u32::from(is_cold);
                        worn += u32::from(cause == Cause::Wear);
                    }
                }
                assert!(cold > 100, "{cold} blocks opened for cold units");
                assert!(leveling.is_none() || worn > 0, "no block opened by wear levelling");
                bench.check();
            }
        }
    }
}

fn is_below_mean(rounds: &[Round], lpn: Lpn) -> bool {
    let round = rounds.iter().find(|round| round.copies.iter().any(|&(copied, _)| copied == lpn));
    let round = round.expect("it was copied");
    let heat = |lpn: Lpn| round.before.temperature(Temperature::UpdateCount, lpn);
    let sum: f64 = round.units().into_iter().map(heat).sum();
    heat(lpn) * (round.units().len() as f64) < sum
}

/// Allocation cannot affect static data.
#[test]
fn the_least_erased_block_first_narrows_the_spread_of_erase_counts() {
    for gc_stream in STREAMS {
        let stddev = |allocation| {
            let config = PageMapConfig { gc_stream, allocation, ..PageMapConfig::new(340) };
            let mut bench = Bench::filled(spec(64, 8), Ranking::Greedy, config);
            let mut traffic = Skewed::new(config.logical_units);
            (0..60_000).for_each(|_| drop(bench.write(traffic.next())));
            bench.check();
            bench.ftl.wear().erase_stddev
        };
        let (fifo, young) = (stddev(Allocation::Fifo), stddev(Allocation::LeastErased));
        assert!(young * 1.5 < fifo, "{gc_stream:?}: {young} against {fifo}");
    }
}
