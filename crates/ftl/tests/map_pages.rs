//! A map in map pages, held in memory: programs of its pages, owners' lists and metadata.

use strobe_ftl::gc::Greedy;
use strobe_ftl::{Inspectable, MappingScheme, PageMap, PageMapConfig, TranslationConfig};
use strobe_nand::{Cause, Chip, Nand, NandOp, Untimed, WearConfig};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn};

use crate::dftl::{CountingMap, T0, counting, counts, spec, stats, write};

#[test]
fn a_map_that_is_all_in_memory_is_programmed_at_flushes_and_when_the_host_opens_a_block() {
    let how = TranslationConfig::loaded();
    let config = |durable| PageMapConfig { durable, translation: Some(how), ..PageMapConfig::new(1000) };
    let mut map = counting(80, config(true));
    // 128 entries per page, 32 pages per block: units of three map pages, with space left in the first block.
    [0, 1, 300, 999].iter().for_each(|&lpn| write(&mut map, lpn));
    let first_open = stats(&map).tp_programs;
    // Opening the very first block programs only the map page of the unit written to it.
    assert_eq!(first_open, 1);
    (0..27).for_each(|lpn| write(&mut map, 130 + lpn));
    assert_eq!(stats(&map).tp_programs, first_open, "no block was opened");
    map.flush(T0).expect("flushes");
    assert_eq!(stats(&map).tp_programs, first_open + 4, "entries of pages 0, 1, 2 and 7 have changed");
    map.flush(T0).expect("flushes");
    assert_eq!(stats(&map).tp_programs, first_open + 4, "nothing has changed");
    // One page is left. Opening the next block for 501 also programs the map of both units.
    [500, 501].iter().for_each(|&lpn| write(&mut map, lpn));
    assert_eq!(stats(&map).tp_programs, first_open + 5);
    let mut out = Vec::new();
    map.read(T0, Lpn::new(0), 1000, &mut out).expect("reads");
    let after = stats(&map);
    assert_eq!((after.misses, after.tp_reads, counts(&map, NandOp::Read, Cause::Map)), (0, 0, 0));
    // A volatile map is programmed at flushes only.
    let mut volatile = counting(80, config(false));
    (0..200).for_each(|lpn| write(&mut volatile, lpn));
    assert_eq!(stats(&volatile).tp_programs, 0);
}

#[test]
fn a_flush_programs_a_page_of_metadata_on_each_plane() {
    let shape = GeometrySpec { channels: 2, dies_per_channel: 2, blocks_per_plane: 20, ..spec(0) };
    let programs = |flush_metadata| {
        let geometry = Geometry::new(shape).expect("valid");
        let chip = Chip::new(geometry.clone(), WearConfig::default(), Untimed::default(), 1);
        let translation = Some(TranslationConfig::loaded());
        let config = PageMapConfig { durable: true, translation, flush_metadata, ..PageMapConfig::new(1000) };
        let mut map: CountingMap = PageMap::new(chip, Greedy::new(geometry.blocks()), config).expect("room");
        for round in 0..300 {
            write(&mut map, round);
            map.flush(T0).expect("flushes");
        }
        map.check().expect("sound");
        let planes = geometry.striped_planes().map(|plane| {
            let blocks = geometry.blocks() / 4;
            (0..blocks)
                .map(|at| map.nand().block(BlockId::new(plane * blocks + at)).pages_programmed)
                .sum::<u32>()
        });
        (counts(&map, NandOp::Program, Cause::Map), planes.collect::<Vec<_>>())
    };
    let ((without, _), (with, planes)) = (programs(false), programs(true));
    assert_eq!(with - without, 300 * 4);
    assert!(planes.iter().all(|&pages| pages > 300), "{planes:?}");
}

#[test]
fn owners_lists_follow_full_blocks_and_logical_copies() {
    let config = |owner_lists| PageMapConfig {
        durable: true,
        virtual_map_entries: 200,
        translation: Some(TranslationConfig::loaded()),
        owner_lists,
        ..PageMapConfig::new(1000)
    };
    let mut maps = [false, true].map(|owner_lists| counting(80, config(owner_lists)));
    // Lists programmed for a step.
    let mut seen = 0;
    let mut lists = |step: &dyn Fn(&mut CountingMap)| {
        maps.iter_mut().for_each(|map| {
            step(map);
            map.flush(T0).expect("flushes");
            map.check().expect("sound");
        });
        let [without, with] = [&maps[0], &maps[1]].map(|map| counts(map, NandOp::Program, Cause::P2l));
        assert_eq!(without, 0);
        with - std::mem::replace(&mut seen, with)
    };
    // 32 pages in a block: three are full, and a fourth is open.
    assert_eq!(lists(&|map| (0..100).for_each(|lpn| write(map, lpn))), 3);
    assert_eq!(lists(&|_| {}), 0, "nothing has changed");
    // Units of the first two blocks, and of the open one, which has no list yet.
    assert_eq!(
        lists(&|map| {
            map.copy(T0, Lpn::new(20), Lpn::new(500), 30).expect("copies");
        }),
        2
    );
    assert_eq!(
        lists(&|map| {
            map.copy(T0, Lpn::new(97), Lpn::new(600), 2).expect("copies");
        }),
        0
    );
    // The sources leave: the copies become sole owners.
    assert_eq!(
        lists(&|map| {
            map.trim(T0, Lpn::new(20), 10).expect("trims");
        }),
        1
    );
    assert_eq!(lists(&|map| write(map, 40)), 1);
    // Trimming an unshared unit changes no owner.
    assert_eq!(
        lists(&|map| {
            map.trim(T0, Lpn::new(0), 5).expect("trims");
        }),
        0
    );
}
