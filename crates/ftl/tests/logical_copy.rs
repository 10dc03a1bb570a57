//! Logical copy, rule by rule (Kang, Han & Shin; rules left open there are Strobe's).

use strobe_ftl::gc::{Sampled, Sampling};
use strobe_ftl::{
    CopyStats, Inspectable, MappingScheme, PageMap, PageMapConfig, TranslationConfig, WriteContext,
};
use strobe_nand::{Cause, Chip, Nand, NandOp, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{Geometry, GeometrySpec, Lpn, Prng};

const T0: When = When::START;
const UNITS: u32 = 64;

type Map = PageMap<Chip<Untimed, StampMedium>, Sampled>;

/// Unit n holds 100 + n; units from 60 on are unmapped.
fn drive(virtual_map_entries: u32) -> Map {
    written(PageMapConfig { virtual_map_entries, ..PageMapConfig::new(UNITS) })
}

/// Eight entries per translation page, `cached` in memory.
fn paged_drive(virtual_map_entries: u32, cached: u32) -> Map {
    let translation = TranslationConfig { entry_bytes: 512, ..TranslationConfig::new(cached) };
    written(PageMapConfig {
        virtual_map_entries,
        translation: Some(translation),
        ..PageMapConfig::new(UNITS)
    })
}

fn written(config: PageMapConfig) -> Map {
    let geometry = Geometry::new(GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: if config.translation.is_some() { 40 } else { 24 },
        pages_per_block: 4,
        page_bytes: 4096,
        unit_bytes: 4096,
    })
    .expect("valid geometry");
    // FIFO: every block is collected, full or not.
    let policy = Sampled::new(geometry.blocks(), Sampling::Fifo);
    let nand = Chip::new(geometry, WearConfig::default(), Untimed::default(), 1);
    let mut map = PageMap::new(nand, policy, config).expect("room");
    for lpn in 0..60 {
        write(&mut map, lpn, 100 + u64::from(lpn));
    }
    map
}

fn write(map: &mut Map, lpn: u32, payload: u64) {
    map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload }], WriteContext::HOST).expect("writes");
    map.check().expect("state");
}

fn copy(map: &mut Map, from: u32, to: u32, count: u32) {
    map.copy(T0, Lpn::new(from), Lpn::new(to), count).expect("copies");
    map.check().expect("state");
}

fn trim(map: &mut Map, lpn: u32) {
    map.trim(T0, Lpn::new(lpn), 1).expect("trim");
    map.check().expect("state");
}

fn read(map: &mut Map, lpn: u32) -> u64 {
    let mut out = Vec::new();
    map.read(T0, Lpn::new(lpn), 1, &mut out).expect("reads");
    out[0]
}

fn programs(map: &Map) -> u64 {
    map.nand().counts().total(NandOp::Program)
}

#[test]
fn a_logical_copy_touches_no_flash() {
    let mut map = drive(16);
    let before = map.nand().counts().clone();
    copy(&mut map, 0, 30, 8);
    assert_eq!(map.nand().counts(), &before);
    assert_eq!(map.stats().copies, CopyStats { logical_units: 8, ..CopyStats::default() });
    for n in 0..8 {
        assert_eq!((read(&mut map, n), read(&mut map, 30 + n)), (100 + u64::from(n), 100 + u64::from(n)));
    }
}

#[test]
fn without_a_virtual_map_a_copy_is_read_and_programmed() {
    let mut map = drive(0);
    let before = programs(&map);
    copy(&mut map, 0, 30, 8);
    assert_eq!(programs(&map) - before, 8);
    assert_eq!(map.nand().counts().get(NandOp::Program, Cause::Copy), 8);
    assert_eq!(map.nand().counts().get(NandOp::Read, Cause::Copy), 8);
    assert_eq!(map.stats().copies, CopyStats { physical_units: 8, ..CopyStats::default() });
    assert_eq!(read(&mut map, 37), 107);
}

#[test]
fn overwriting_one_owner_leaves_the_other() {
    let mut map = drive(16);
    copy(&mut map, 0, 30, 2);
    write(&mut map, 0, 7);
    write(&mut map, 31, 8);
    assert_eq!([0, 30, 1, 31].map(|lpn| read(&mut map, lpn)), [7, 100, 101, 8]);
    // Both have one owner again: each can be shared again without a third.
    copy(&mut map, 30, 40, 1);
    copy(&mut map, 1, 41, 1);
    assert_eq!(map.stats().copies.third_owner_units, 0);
    assert_eq!([40, 41].map(|lpn| read(&mut map, lpn)), [100, 101]);
}

#[test]
fn trimming_one_owner_leaves_the_other_and_trimming_both_frees_the_unit() {
    let mut map = drive(1);
    copy(&mut map, 0, 30, 1);
    trim(&mut map, 0);
    assert_eq!([0, 30].map(|lpn| read(&mut map, lpn)), [0, 100]);
    trim(&mut map, 30);
    assert_eq!([0, 30].map(|lpn| read(&mut map, lpn)), [0, 0]);
    // The only entry is free again.
    copy(&mut map, 5, 6, 1);
    assert_eq!(map.stats().copies, CopyStats { logical_units: 2, ..CopyStats::default() });
}

#[test]
fn an_unmapped_source_leaves_its_destination_unmapped() {
    let mut map = drive(16);
    let mapped = map.mapped_units();
    copy(&mut map, 60, 3, 2);
    assert_eq!([3, 4].map(|lpn| read(&mut map, lpn)), [0, 0]);
    assert_eq!(map.mapped_units(), mapped - 2);
}

#[test]
fn a_third_owner_gets_a_copy_of_its_own() {
    let mut map = drive(16);
    copy(&mut map, 0, 30, 1);
    let before = programs(&map);
    copy(&mut map, 0, 31, 1);
    copy(&mut map, 30, 32, 1);
    assert_eq!(programs(&map) - before, 2);
    assert_eq!(
        map.stats().copies,
        CopyStats { logical_units: 1, physical_units: 2, third_owner_units: 2, ..CopyStats::default() }
    );
    assert_eq!([0, 30, 31, 32].map(|lpn| read(&mut map, lpn)), [100; 4]);
}

#[test]
fn copying_the_same_again_changes_nothing() {
    let mut map = drive(1);
    copy(&mut map, 0, 30, 1);
    let before = programs(&map);
    copy(&mut map, 0, 30, 1);
    copy(&mut map, 30, 0, 1);
    copy(&mut map, 5, 5, 1);
    assert_eq!(programs(&map), before);
    assert_eq!([0, 30, 5].map(|lpn| read(&mut map, lpn)), [100, 100, 105]);
}

#[test]
fn a_full_virtual_map_means_physical_copies_that_are_counted() {
    let mut map = drive(2);
    copy(&mut map, 0, 30, 4);
    assert_eq!(
        map.stats().copies,
        CopyStats { logical_units: 2, physical_units: 2, map_full_units: 2, ..CopyStats::default() }
    );
    // A destination that is itself shared frees its entry for the new one.
    let before = programs(&map);
    copy(&mut map, 10, 30, 1);
    assert_eq!(programs(&map), before);
    assert_eq!([0, 30, 10, 32].map(|lpn| read(&mut map, lpn)), [100, 110, 110, 102]);
}

struct Pairs {
    most: usize,
    pairs: Vec<[u32; 2]>,
    logical: u64,
    physical: u64,
    full: u64,
}

impl Pairs {
    fn leave(&mut self, lpn: u32) {
        self.pairs.retain(|pair| !pair.contains(&lpn));
    }

    fn copy(&mut self, from: u32, to: u32, is_mapped: bool) {
        if from == to {
            self.logical += u64::from(is_mapped);
            return;
        }
        if !is_mapped {
            return self.leave(to);
        }
        if let Some(pair) = self.pairs.iter().find(|pair| pair.contains(&from)) {
            if pair.contains(&to) {
                self.logical += 1
            } else {
                self.leave(to);
                self.physical += 1;
            }
            return;
        }
        if !self.pairs.iter().any(|pair| pair.contains(&to)) && self.pairs.len() == self.most {
            self.leave(to);
            self.physical += 1;
            self.full += 1;
            return;
        }
        self.leave(to);
        self.pairs.push([from, to]);
        self.logical += 1;
    }
}

#[test]
fn which_copies_are_physical_is_what_a_naive_list_says() {
    for seed in 0..20 {
        let mut rng = Prng::new(seed);
        let most = 1 + rng.below(6);
        let mut map = drive(most);
        let mut pairs = Pairs { most: most as usize, pairs: Vec::new(), logical: 0, physical: 0, full: 0 };
        let mut stamps: Vec<u64> =
            (0..UNITS).map(|lpn| if lpn < 60 { 100 + u64::from(lpn) } else { 0 }).collect();
        for step in 0..400 {
            let (a, b) = (rng.below(UNITS), rng.below(UNITS));
            match rng.below(8) {
                0 => {
                    write(&mut map, a, 1000 + step);
                    pairs.leave(a);
                    stamps[a as usize] = 1000 + step;
                }
                1 => {
                    trim(&mut map, a);
                    pairs.leave(a);
                    stamps[a as usize] = 0;
                }
                _ => {
                    copy(&mut map, a, b, 1);
                    pairs.copy(a, b, stamps[a as usize] != 0);
                    stamps[b as usize] = stamps[a as usize];
                }
            }
        }
        let copies = map.stats().copies;
        let counted = (copies.logical_units, copies.physical_units, copies.map_full_units);
        assert_eq!(counted, (pairs.logical, pairs.physical, pairs.full), "seed {seed}");
        assert_eq!((0..UNITS).map(|lpn| read(&mut map, lpn)).collect::<Vec<_>>(), stamps);
        assert!(pairs.full > 10, "seed {seed}: {}", pairs.full);
    }
}

#[test]
fn the_old_content_of_a_destination_is_given_up() {
    let mut map = drive(16);
    copy(&mut map, 0, 30, 1); // 30 held 130
    copy(&mut map, 1, 30, 1); // and shares with 0
    assert_eq!([0, 1, 30].map(|lpn| read(&mut map, lpn)), [100, 101, 101]);
    write(&mut map, 1, 9);
    assert_eq!([0, 1, 30].map(|lpn| read(&mut map, lpn)), [100, 9, 101]);
}

#[test]
fn garbage_collection_moves_a_shared_unit_once_for_both_owners() {
    let mut map = drive(16);
    copy(&mut map, 0, 30, 4);
    // Rewrite all other units until every block was collected.
    for round in 0..40 {
        for lpn in (4..30).chain(34..60) {
            write(&mut map, lpn, 1000 * round + u64::from(lpn));
        }
    }
    assert!((0..24).all(|b| map.nand().block(strobe_types::BlockId::new(b)).erase_count > 0));
    for n in 0..4 {
        assert_eq!((read(&mut map, n), read(&mut map, 30 + n)), (100 + u64::from(n), 100 + u64::from(n)));
    }
    // Still shared: moving them needed no third owner, and one overwrite separates them.
    write(&mut map, 0, 1);
    assert_eq!(read(&mut map, 30), 100);
    assert_eq!(map.stats().copies, CopyStats { logical_units: 4, ..CopyStats::default() });
}

#[test]
fn shared_units_take_room_once() {
    // 24 blocks of 4 hold 64 logical units. With half of them shared, collection finds the flash
    // correspondingly emptier.
    let moved = |entries| {
        let mut map = drive(entries);
        copy(&mut map, 0, 30, 30);
        for round in 0..200u64 {
            for lpn in 0..4 {
                write(&mut map, lpn, round);
            }
        }
        map.stats().gc.units_moved
    };
    assert!(moved(64) < moved(0) * 3 / 4 && moved(64) > 0, "{} against {}", moved(64), moved(0));
}

fn table_programs(map: &Map) -> u64 {
    map.stats().translation.expect("demand-paged").tp_programs
}

fn flush(map: &mut Map) {
    map.flush(T0).expect("flushes");
    map.check().expect("state");
}

#[test]
fn with_demand_paging_a_copy_changes_two_map_entries_and_touches_no_flash() {
    let mut map = paged_drive(16, 64);
    flush(&mut map);
    let before = map.nand().counts().clone();
    copy(&mut map, 0, 30, 8);
    assert_eq!(map.nand().counts(), &before, "all entries are cached");
    assert_eq!(map.stats().copies, CopyStats { logical_units: 8, ..CopyStats::default() });
    for n in 0..8 {
        assert_eq!((read(&mut map, n), read(&mut map, 30 + n)), (100 + u64::from(n), 100 + u64::from(n)));
    }
    // Entries 0 to 7, 30 and 31, and 32 to 37 are in three translation pages.
    let before = table_programs(&map);
    flush(&mut map);
    assert_eq!(table_programs(&map) - before, 3);
}

#[test]
fn with_demand_paging_an_owner_that_leaves_changes_the_map_entry_of_the_other() {
    let mut map = paged_drive(1, 64);
    copy(&mut map, 0, 30, 1);
    flush(&mut map);
    let before = table_programs(&map);
    write(&mut map, 0, 7);
    flush(&mut map);
    assert_eq!(table_programs(&map) - before, 2, "that of 0, and that of 30, which has an address again");
    assert_eq!([0, 30].map(|lpn| read(&mut map, lpn)), [7, 100]);
    // The only entry of the virtual map is now free.
    copy(&mut map, 5, 6, 1);
    assert_eq!(map.stats().copies.map_full_units, 0);
    trim(&mut map, 5);
    copy(&mut map, 30, 40, 1);
    assert_eq!(map.stats().copies, CopyStats { logical_units: 3, ..CopyStats::default() });
    assert_eq!([0, 5, 6, 30, 40].map(|lpn| read(&mut map, lpn)), [7, 0, 105, 100, 100]);
}

#[test]
fn with_demand_paging_both_map_entries_are_fetched_before_a_shared_unit_is_left() {
    // The cache is too small: each entry must be fetched again.
    let mut map = paged_drive(4, 3);
    copy(&mut map, 0, 30, 1);
    [50, 51, 52].iter().for_each(|&lpn| assert!(read(&mut map, lpn) > 0));
    let misses = |map: &Map| map.stats().translation.expect("demand-paged").misses;
    let before = misses(&map);
    write(&mut map, 30, 9);
    assert_eq!(misses(&map) - before, 2, "30 and 0");
    copy(&mut map, 0, 31, 1);
    [50, 51, 52].iter().for_each(|&lpn| assert!(read(&mut map, lpn) > 0));
    let before = misses(&map);
    trim(&mut map, 0);
    assert_eq!(misses(&map) - before, 2, "0 and 31");
    assert_eq!([0, 30, 31].map(|lpn| read(&mut map, lpn)), [0, 9, 100]);
}

#[test]
fn with_demand_paging_no_translation_page_is_told_of_a_shared_unit_that_moves() {
    let mut map = paged_drive(32, 4);
    copy(&mut map, 0, 30, 28);
    [28, 29, 58, 59].iter().for_each(|&lpn| trim(&mut map, lpn));
    // Units written repeatedly stay cached.
    (0..8).for_each(|n| write(&mut map, 60 + n % 4, 1));
    flush(&mut map);
    let (told, moved) =
        (map.stats().translation.expect("demand-paged").gc_tp_updates, map.stats().gc.units_moved);
    (0..400).for_each(|n| write(&mut map, 60 + n % 4, u64::from(n)));
    let stats = map.stats();
    assert!(stats.gc.units_moved - moved >= 56, "all of them twice");
    assert_eq!(stats.translation.expect("demand-paged").gc_tp_updates, told);
    for n in 0..28 {
        assert_eq!((read(&mut map, n), read(&mut map, 30 + n)), (100 + u64::from(n), 100 + u64::from(n)));
    }
}
