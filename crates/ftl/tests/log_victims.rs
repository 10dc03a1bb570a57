//! Choice of the log block to merge, against a naive table.

use strobe_ftl::BlockScheme::LogBlock;
use strobe_ftl::{BlockMap, BlockMapConfig, LogVictim, MergeStats};
use strobe_nand::{Chip, Untimed, WearConfig};
use strobe_types::Prng;

use crate::block_maps::{TestChip, VICTIMS, config, cost, geometry, write};

/// Logical block, and number and offset of the writes to its log.
type NaiveLog = (u32, Vec<(usize, u32)>);

fn naive_victim(rule: LogVictim, table: &[Option<NaiveLog>]) -> usize {
    let mut slots: Vec<usize> = (0..table.len()).collect();
    let writes = |slot: usize| &table[slot].as_ref().expect("the table is full").1;
    // Sorted by last write: the first of equals is the least recently written.
    let by_age = |slots: &mut Vec<usize>| slots.sort_by_key(|&slot| writes(slot).last().map(|write| write.0));
    let size = |slot: &usize| writes(*slot).len();
    match rule {
        LogVictim::Lru => by_age(&mut slots),
        LogVictim::Mru => {
            by_age(&mut slots);
            slots.reverse();
        }
        LogVictim::Fifo => slots.sort_by_key(|&slot| writes(slot)[0].0),
        LogVictim::Fullest => {
            let most = slots.iter().map(size).max();
            slots.retain(|slot| Some(size(slot)) == most);
        }
        LogVictim::Emptiest => {
            by_age(&mut slots);
            let least = slots.iter().map(size).min();
            slots.retain(|slot| Some(size(slot)) == least);
        }
    }
    slots[0]
}

fn naive_merges(rule: LogVictim, per_block: u32, most: usize, writes: &[u32]) -> MergeStats {
    let mut table: Vec<Option<NaiveLog>> = vec![None; most];
    let mut merges = MergeStats::default();
    let mut merge = |log: Option<NaiveLog>, may_thrash: bool, time: usize| {
        let Some((_, log)) = log else { return };
        let in_order = (0..).zip(&log).all(|(at, &(_, offset))| at == offset);
        let kind = match (in_order, log.len() as u32 == per_block) {
            (false, _) => &mut merges.full,
            (true, true) => &mut merges.switched,
            (true, false) => &mut merges.partial,
        };
        *kind += 1;
        merges.logs += 1;
        merges.log_pages += log.len() as u64;
        merges.thrashed_logs += u64::from(may_thrash && time - log[0].0 < 200);
    };
    for (time, &lpn) in writes.iter().enumerate() {
        let (logical, offset) = (lpn / per_block, lpn % per_block);
        let is_its = |log: &Option<NaiveLog>| log.as_ref().is_some_and(|log| log.0 == logical);
        if let Some(own) = table.iter_mut().find(|log| is_its(log))
            && own.as_ref().is_some_and(|log| log.1.len() as u32 == per_block)
        {
            merge(own.take(), false, time);
        }
        let slot = table.iter().position(is_its).unwrap_or_else(|| {
            let slot = table.iter().position(Option::is_none).unwrap_or_else(|| naive_victim(rule, &table));
            merge(table[slot].replace((logical, Vec::new())), true, time);
            slot
        });
        table[slot].as_mut().expect("it was opened").1.push((time, offset));
    }
    merges
}

#[test]
fn the_log_block_that_is_merged_is_the_one_that_the_rule_names() {
    let mut distinct = std::collections::BTreeSet::new();
    for rule in VICTIMS {
        let config = BlockMapConfig { log_victim: rule, ..config(LogBlock, 128, 3) };
        let chip = Chip::new(geometry(24, 8), WearConfig::default(), Untimed::default(), 1).in_any_order();
        let mut map: BlockMap<TestChip> = BlockMap::new(chip, config).expect("room");
        write(&mut map, 0..128);
        let mut rng = Prng::new(5);
        // Runs of several sectors: logs then differ in fill and order.
        let mut writes = Vec::new();
        while writes.len() < 6000 {
            let most = 4 + 12 * rng.below(2);
            let logical = rng.below(most);
            let (a, b) = (rng.below(3), rng.below(3));
            let first = a * b;
            let run = 1 + rng.below(8 - first);
            writes.extend((first..first + run).map(|offset| logical * 8 + offset));
        }
        let merges = cost(&mut map, |map| write(map, writes.iter().copied())).2;
        let expected = naive_merges(rule, 8, 3, &writes);
        let (units_copied, blocks_erased) = (merges.units_copied, merges.blocks_erased);
        assert_eq!(merges, MergeStats { units_copied, blocks_erased, ..expected }, "{rule:?}");
        assert!(merges.thrashed_logs > 0 && merges.log_pages < 8 * merges.logs, "{rule:?}: {merges:?}");
        distinct.insert((merges.switched, merges.partial, merges.full));
    }
    assert_eq!(distinct.len(), VICTIMS.len(), "rules that do the same prove nothing: {distinct:?}");
}
