use strobe_ftl::wear::Leveling;
use strobe_ftl::{Allocation, Inspectable, MappingScheme, PageMapConfig};
use strobe_nand::{Cause, Nand, NandOp};
use strobe_types::Prng;

use super::bench::{STREAMS, worn_drive};
/// Each leveler with its threshold and the largest spread of erase counts.
///
/// * Swap: cold data moves to one of the few erased blocks, which may be among the least worn. It falls
///   behind until known to be cold. Twice the threshold.
/// * Dual-pool: the hot pool spreads over twice the threshold before it gives up its least worn block, one
///   per collection. Half of the cold data starts there. Three times.
/// * SW Leveler: a round has at most `threshold` erases per block. They fall on the two fifths with hot data,
///   2.5 × `threshold` each, until the next round moves cold data there. Four times.
const LEVELERS: [(Leveling, u32, u32); 3] = [
    (Leveling::Swap { threshold: 20 }, 20, 40),
    (Leveling::DualPool { threshold: 20 }, 20, 60),
    (Leveling::SwLeveler { threshold: 10, set_blocks: 1 }, 10, 40),
];

#[test]
fn static_wear_leveling_bounds_the_spread_that_cold_data_causes() {
    for gc_stream in STREAMS {
        for allocation in [Allocation::Fifo, Allocation::LeastErased] {
            let config = PageMapConfig { gc_stream, allocation, ..PageMapConfig::new(0) };
            let wear = worn_drive(config, 480, 60_000).ftl.wear();
            assert!(wear.erase_min == 0 && wear.erase_max > 150, "{wear:?}");
            for (leveling, threshold, bound) in LEVELERS {
                let config = PageMapConfig { leveling: Some(leveling), ..config };
                let mut bench = worn_drive(config, 480, 0);
                let mut rng = Prng::new(3);
                let (mut moved, mut still) = (0, 0);
                for _ in 0..60_000 {
                    let rounds = bench.write(480 + rng.below(320));
                    for round in rounds.iter().filter(|round| round.cause == Cause::Wear) {
                        moved += 1;
                        still += round.copies.iter().filter(|(lpn, _)| lpn.get() < 480).count() as u64;
                    }
                    let erases = &bench.ledger.erases;
                    let spread = erases.iter().max().unwrap_or(&0) - erases.iter().min().unwrap_or(&0);
                    assert!(spread <= bound, "{config:?}: erase counts spread over {spread}");
                }
                bench.check();
                let (stats, counts) = (bench.ftl.stats().gc, bench.ftl.nand().counts().clone());
                assert_eq!(counts.get(NandOp::Program, Cause::Wear), stats.wear_units_moved);
                assert_eq!(counts.get(NandOp::Read, Cause::Wear), stats.wear_units_moved);
                assert_eq!(counts.get(NandOp::Erase, Cause::Wear), stats.wear_blocks);
                assert_eq!(counts.get(NandOp::Program, Cause::Gc), stats.units_moved);
                assert_eq!(counts.get(NandOp::Erase, Cause::Gc), stats.victims);
                assert_eq!(stats.wear_blocks, moved);
                // Mostly static data must be moved.
                let units = stats.wear_units_moved;
                assert!(still * 100 >= units * 98, "{config:?}: {still} of {units} units");
                assert!(moved > 50, "{config:?}: {moved} blocks");
                // A block is moved only after it fell `threshold` erases behind, or after that number of
                // erases per set. At most one in `threshold` erases is therefore caused by the leveler.
                let share = u64::from(threshold);
                let erases = counts.total(NandOp::Erase);
                assert!(moved * share <= erases, "{config:?}: {moved} of {erases} erases");
                let (extra, programs) = (stats.wear_units_moved, counts.total(NandOp::Program));
                assert!(extra * share <= programs, "{config:?}: {extra} of {programs} programs");
            }
        }
    }
}

#[test]
fn static_wear_leveling_leaves_uniform_traffic_alone() {
    for gc_stream in STREAMS {
        for (allocation, share) in [(Allocation::LeastErased, 1000), (Allocation::Fifo, 200)] {
            for (leveling, ..) in LEVELERS {
                let leveling = Some(leveling);
                let config = PageMapConfig { gc_stream, allocation, leveling, ..PageMapConfig::new(0) };
                let stats = worn_drive(config, 0, 60_000).ftl.stats().gc;
                assert!(stats.victims > 5000);
                assert!(
                    stats.wear_blocks * share <= stats.victims,
                    "{config:?}: {} moved",
                    stats.wear_blocks
                );
            }
        }
    }
}
