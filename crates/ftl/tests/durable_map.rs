//! The map on flash, rule by rule: cost, power cuts, refusals.

use strobe_ftl::gc::{Greedy, Sampled, Sampling};
use strobe_ftl::{
    FtlError, Inspectable, MappingScheme, PageMap, PageMapConfig, Recoverable, Recovery, RecoveryError,
    WriteContext,
};
use strobe_nand::{
    ArrayTiming, Cause, Chip, CutPlan, Nand, NandOp, NoMedium, PowerCuts, StampMedium, TimingConfig, Unit,
    Untimed, WearConfig, When,
};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, SimTime};

const T0: When = When::START;
const UNITS: u32 = 64;

type TestChip = Chip<Untimed, StampMedium>;
type Map = PageMap<TestChip, Greedy>;

fn geometry() -> Geometry {
    Geometry::new(GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 40,
        pages_per_block: 8,
        page_bytes: 4096,
        unit_bytes: 4096,
    })
    .expect("valid geometry")
}

fn config() -> PageMapConfig {
    PageMapConfig { durable: true, virtual_map_entries: 16, ..PageMapConfig::new(UNITS) }
}

fn policy() -> Greedy {
    Greedy::new(geometry().blocks())
}

fn drive() -> Map {
    PageMap::new(Chip::new(geometry(), WearConfig::default(), Untimed::default(), 1), policy(), config())
        .expect("room")
}

fn write(map: &mut Map, lpn: u32, payload: u64) {
    map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload }], WriteContext::HOST).expect("writes");
}

fn copy(map: &mut Map, from: u32, to: u32) {
    map.copy(T0, Lpn::new(from), Lpn::new(to), 1).expect("copies");
}

fn trim(map: &mut Map, lpn: u32) {
    map.trim(T0, Lpn::new(lpn), 1).expect("trims");
}

fn flush(map: &mut Map) {
    map.flush(T0).expect("flushes");
}

fn read(map: &Map, lpn: u32) -> u64 {
    map.peek(Lpn::new(lpn))
}

fn cut(map: &Map) -> Map {
    try_cut(map).expect("recovers").0
}

fn try_cut(map: &Map) -> Result<(Map, Recovery), RecoveryError> {
    let (map, report) = PageMap::restart(map.nand().clone(), policy(), config(), SimTime::ZERO)?;
    map.check().expect("state");
    Ok((map, report))
}

fn programs(map: &Map, cause: Cause) -> u64 {
    map.nand().counts().get(NandOp::Program, cause)
}

/// The paper's log-structured file system: file block at 10, checkpoint 10.
const OLD: u32 = 10;
const NEW: u32 = 30;
const CHECKPOINT: u32 = 0;

fn cleaned_after_checkpoint_10() -> Map {
    let mut map = drive();
    write(&mut map, OLD, 77);
    write(&mut map, CHECKPOINT, 10);
    flush(&mut map);
    copy(&mut map, OLD, NEW);
    assert_eq!(map.stats().copies.logical_units, 1, "no data has moved");
    map
}

#[test]
fn c1_power_fails_after_the_copy_and_both_are_back_at_checkpoint_10() {
    let map = cut(&cleaned_after_checkpoint_10());
    assert_eq!([CHECKPOINT, OLD, NEW].map(|lpn| read(&map, lpn)), [10, 77, 0]);
}

#[test]
fn c2_power_fails_after_writes_that_follow_and_both_are_back_at_checkpoint_10() {
    let mut map = cleaned_after_checkpoint_10();
    write(&mut map, 40, 1);
    write(&mut map, 41, 2);
    let map = cut(&map);
    assert_eq!([CHECKPOINT, OLD, NEW].map(|lpn| read(&map, lpn)), [10, 77, 0]);
    // The writes are found on flash, although the file system does not rely on them.
    assert_eq!([40, 41].map(|lpn| read(&map, lpn)), [1, 2]);
}

#[test]
fn c3_the_map_is_flushed_as_the_active_block_changes_and_both_owners_are_there() {
    let mut map = cleaned_after_checkpoint_10();
    let logged = |map: &Map| programs(map, Cause::Map) + programs(map, Cause::Meta);
    let before = logged(&map);
    (40..48).for_each(|lpn| write(&mut map, lpn, 5));
    assert!(logged(&map) > before, "the maps went to flash with the block");
    let mut map = cut(&map);
    // The file system is still at checkpoint 10 and reads the old location.
    assert_eq!([CHECKPOINT, OLD, NEW].map(|lpn| read(&map, lpn)), [10, 77, 77]);
    // The unit is shared, not copied: either owner may leave.
    trim(&mut map, NEW);
    assert_eq!([OLD, NEW].map(|lpn| read(&map, lpn)), [77, 0]);
    map.check().expect("state");
}

#[test]
fn c4_after_checkpoint_11_both_are_there_and_the_trimmed_place_is_nobodys_business() {
    let mut map = cleaned_after_checkpoint_10();
    write(&mut map, CHECKPOINT, 11);
    flush(&mut map);
    trim(&mut map, OLD);
    let unflushed = cut(&map);
    assert_eq!([CHECKPOINT, NEW].map(|lpn| read(&unflushed, lpn)), [11, 77]);
    flush(&mut map);
    let flushed = cut(&map);
    assert_eq!([CHECKPOINT, OLD, NEW].map(|lpn| read(&flushed, lpn)), [11, 0, 77]);
}

#[test]
fn a_trim_holds_from_the_next_flush_on() {
    let mut map = drive();
    write(&mut map, 3, 33);
    flush(&mut map);
    trim(&mut map, 3);
    assert_eq!(read(&cut(&map), 3), 33, "not flushed, it may come back");
    flush(&mut map);
    assert_eq!(read(&cut(&map), 3), 0);
}

#[test]
fn a_completed_write_is_found_without_a_flush() {
    let mut map = drive();
    (0..29).for_each(|n| write(&mut map, n % 7, 100 + u64::from(n)));
    let recovered = cut(&map);
    for lpn in 0..8 {
        assert_eq!(read(&recovered, lpn), read(&map, lpn));
    }
}

#[test]
fn a_write_after_an_unflushed_trim_or_copy_wins() {
    let mut map = drive();
    (0..4).for_each(|lpn| write(&mut map, lpn, 10));
    flush(&mut map);
    trim(&mut map, 0);
    write(&mut map, 0, 20);
    copy(&mut map, 1, 2);
    write(&mut map, 2, 21);
    let map = cut(&map);
    assert_eq!([0, 1, 2, 3].map(|lpn| read(&map, lpn)), [20, 10, 21, 10]);
}

#[test]
fn a_flush_costs_one_page_of_journal_and_none_if_nothing_has_changed() {
    let mut map = drive();
    write(&mut map, 1, 1);
    flush(&mut map);
    let before = map.nand().counts().total(NandOp::Program);
    flush(&mut map);
    assert_eq!(map.nand().counts().total(NandOp::Program), before, "nothing has changed");
    write(&mut map, 2, 2);
    let (map_pages, meta_pages) = (programs(&map, Cause::Map), programs(&map, Cause::Meta));
    flush(&mut map);
    // Every third journal page is followed by a segment of the checkpoint.
    let added = programs(&map, Cause::Map) + programs(&map, Cause::Meta) - map_pages - meta_pages;
    assert!((1..=2).contains(&added), "{added} pages");
}

/// Counted by the majority of its changes.
#[test]
fn changes_of_p2l_and_of_l2p_share_a_page_that_counts_as_what_most_of_them_are() {
    let counts = |map: &Map| [Cause::Map, Cause::Meta].map(|cause| programs(map, cause));
    // After three journal pages follows a segment of the checkpoint; here it holds both maps.
    // One copy makes two L2P changes and a virtual one. Four make two runs of L2P and four virtual changes.
    for (copies, expected) in [(1, [3, 1]), (4, [0, 4])] {
        let mut map = drive();
        (0..12).for_each(|lpn| write(&mut map, lpn, 1));
        flush(&mut map);
        let before = counts(&map);
        for round in 0..3 {
            (0..copies).for_each(|at| copy(&mut map, at + round * 4, 20 + round * 8 + at));
            flush(&mut map);
        }
        let after = counts(&map);
        assert_eq!([after[0] - before[0], after[1] - before[1]], expected, "{copies} copies");
    }
}

#[test]
fn without_a_durable_map_nothing_is_written_and_nothing_can_be_found() {
    let volatile = PageMapConfig { durable: false, ..config() };
    let chip: TestChip = Chip::new(geometry(), WearConfig::default(), Untimed::default(), 1);
    let mut map = PageMap::new(chip, policy(), volatile).expect("room");
    write(&mut map, 1, 1);
    flush(&mut map);
    assert_eq!(map.nand().counts().total(NandOp::Program), 1);
    let refused = PageMap::restart(map.nand().clone(), policy(), volatile, SimTime::ZERO).err();
    assert_eq!(refused, Some(RecoveryError::Volatile));
}

#[test]
fn flash_that_keeps_no_contents_is_refused() {
    let chip: Chip<Untimed, NoMedium> = Chip::new(geometry(), WearConfig::default(), Untimed::default(), 1);
    let mut map = PageMap::new(chip, policy(), config()).expect("room");
    map.write(T0, &[Unit { lpn: Lpn::new(1), payload: () }], WriteContext::HOST).expect("writes");
    let refused = PageMap::restart(map.nand().clone(), policy(), config(), SimTime::ZERO).err();
    assert_eq!(refused, Some(RecoveryError::NoContents));
}

#[test]
fn the_log_goes_round_for_ever() {
    let mut map = drive();
    for round in 0..4000u64 {
        write(&mut map, (round % 61) as u32, round);
        if round % 3 == 0 {
            copy(&mut map, (round % 61) as u32, 62);
        }
        flush(&mut map);
    }
    let reserved = config().map_blocks(&geometry());
    let erases = map.nand().counts().get(NandOp::Erase, Cause::Map);
    assert!(erases > 10 * u64::from(reserved), "{erases} erases of {reserved} blocks");
    let (recovered, report) = try_cut(&map).expect("recovers");
    for lpn in 0..UNITS {
        assert_eq!(read(&recovered, lpn), read(&map, lpn));
    }
    assert!(report.log_pages <= u64::from(reserved * 8), "{report:?}");
}

#[test]
fn recovery_takes_time_and_is_charged_to_its_cause() {
    let timing = TimingConfig {
        read_ns: 1000.into(),
        program_ns: 50_000.into(),
        erase_ns: 700_000,
        ..TimingConfig::default()
    };
    let chip: Chip<ArrayTiming, StampMedium> =
        Chip::new(geometry(), WearConfig::default(), ArrayTiming::new(timing, &geometry()), 1);
    let mut map = PageMap::new(chip, policy(), config()).expect("room");
    for lpn in 0..20 {
        map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload: 1 }], WriteContext::HOST).expect("writes");
    }
    let off = map.nand_mut().drain();
    let (map, report) = PageMap::restart(map.nand().clone(), policy(), config(), off).expect("recovers");
    let reads = map.nand().counts().get(NandOp::Read, Cause::Recovery);
    assert_eq!(reads, report.log_pages + report.scanned_pages);
    assert_eq!((report.scanned_pages, report.units_found), (4, 4), "the pages of the open block");
    // One die: the reads are sequential, then one epoch is written.
    assert_eq!(report.duration_ns(), reads * 1000 + 50_000);
}

#[test]
fn a_log_with_a_page_missing_is_damaged_not_half_believed() {
    let mut map = drive();
    let mut refused = 0;
    for n in 0..200u32 {
        write(&mut map, n % 60, n.into());
        flush(&mut map);
        for block in 0..config().map_blocks(&geometry()) {
            let mut flash = map.nand().clone();
            flash.erase(T0, BlockId::new(block), Cause::Host).expect("erases");
            match PageMap::restart(flash, policy(), config(), SimTime::ZERO) {
                Err(RecoveryError::Damaged(_)) => refused += 1,
                Err(error) => panic!("{error}"),
                // Obsolete pages may be missing, and pages recoverable from the open block.
                Ok((found, _)) => (0..60).for_each(|lpn| assert_eq!(read(&found, lpn), read(&map, lpn))),
            }
        }
    }
    assert!(refused > 50, "{refused}");
    // Without the whole log, data exists that cannot be found.
    let mut flash = map.nand().clone();
    for block in 0..config().map_blocks(&geometry()) {
        flash.erase(T0, BlockId::new(block), Cause::Host).expect("erases");
    }
    let error = PageMap::restart(flash, policy(), config(), SimTime::ZERO).expect_err("damaged");
    assert!(error.to_string().contains("after the last epoch in the log"), "{error}");
}

#[test]
fn a_drive_of_another_size_is_damaged_not_misread() {
    let mut map = drive();
    (0..60).for_each(|lpn| write(&mut map, lpn, 1));
    flush(&mut map);
    for logical in [40, 80] {
        let other = PageMapConfig { logical_units: logical, ..config() };
        let result = PageMap::restart(map.nand().clone(), policy(), other, SimTime::ZERO);
        assert!(matches!(result, Err(RecoveryError::Damaged(_))), "{logical} units");
    }
}

#[test]
fn failing_blocks_of_the_log_are_replaced_until_there_is_none() {
    let wear = WearConfig { endurance_pe: Some(30), ..WearConfig::default() };
    let chip: TestChip = Chip::new(geometry(), wear, Untimed::default(), 1);
    let mut map = PageMap::new(chip, policy(), config()).expect("room");
    let error = loop {
        if let Err(error) = map
            .write(T0, &[Unit { lpn: Lpn::new(1), payload: 1 }], WriteContext::HOST)
            .and_then(|_| map.flush(T0))
        {
            break error;
        }
    };
    assert_eq!(error, FtlError::MapWornOut);
    for _ in 0..2 {
        assert_eq!(map.flush(T0), Err(FtlError::MapWornOut), "what the epoch had is not on flash");
    }
    assert_eq!(map.write(T0, &[Unit { lpn: Lpn::new(1), payload: 2 }], WriteContext::HOST), Err(error));
    assert_eq!(read(&map, 1), 1, "reads go on");
    map.check().expect("state");
}

#[test]
fn a_failed_commit_during_collection_leaves_a_sound_drive_that_recovers() {
    // Only the log's blocks wear out. Victims collected when the log fails must stay.
    let wear = WearConfig { endurance_pe: Some(12), ..WearConfig::default() };
    let mut worn_out = 0;
    for seed in 0..20 {
        let chip: TestChip = Chip::new(geometry(), wear, Untimed::default(), 1);
        let mut map = PageMap::new(chip, policy(), PageMapConfig { seed, ..config() }).expect("room");
        let mut rng = strobe_types::Prng::new(seed);
        let mut payload = 0;
        let (lpn, error) = loop {
            payload += 1;
            let lpn = rng.below(UNITS);
            if let Err(error) = map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload }], WriteContext::HOST) {
                break (lpn, error);
            }
        };
        worn_out += u32::from(error == FtlError::MapWornOut);
        map.check().unwrap_or_else(|broken| panic!("seed {seed}, {error}: {broken}"));
        let flash = map.nand().clone();
        let before: Vec<u64> = (0..UNITS).map(|lpn| read(&map, lpn)).collect();
        let (after, _) =
            map.recover(SimTime::ZERO, flash).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        after.check().expect("state");
        for other in (0..UNITS).filter(|&other| other != lpn) {
            assert_eq!(read(&after, other), before[other as usize], "seed {seed} unit {other}");
        }
    }
    assert!(worn_out > 0, "the log was never what gave up");
}

#[test]
fn the_log_bears_one_cut_after_the_other() {
    for step in 1..7 {
        let mut map = drive();
        (0..60).for_each(|lpn| write(&mut map, lpn, 1));
        flush(&mut map);
        for round in 0..400u64 {
            let cut_at = map.nand().counts().changes() + 1 + round % step;
            map.nand_mut().plan_cuts(CutPlan::At(cut_at));
            for lpn in 0..10 {
                write(&mut map, lpn, 100 + round);
                flush(&mut map);
            }
            let snapshot = map.nand_mut().take_snapshots().pop().expect("a cut");
            (map, _) = PageMap::restart(snapshot.flash, policy(), config(), SimTime::ZERO).expect("recovers");
            map.check().expect("state");
            (10..60).for_each(|lpn| assert_eq!(read(&map, lpn), 1));
        }
        write(&mut map, 0, 7);
        flush(&mut map);
    }
}

#[test]
fn a_recovered_drive_goes_on_whatever_its_policy() {
    let fifo = || Sampled::new(geometry().blocks(), Sampling::Fifo);
    let chip: TestChip = Chip::new(geometry(), WearConfig::default(), Untimed::default(), 1);
    let mut map = PageMap::new(chip, fifo(), config()).expect("room");
    map.nand_mut().plan_cuts(CutPlan::Never);
    for round in 0..40u64 {
        for lpn in 0..60 {
            map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload: round }], WriteContext::HOST)
                .expect("writes");
        }
        let flash = map.nand().clone();
        let before = map.stats().gc;
        (map, _) = map.recover(SimTime::ZERO, flash).expect("recovers");
        map.check().expect("state");
        assert_eq!(map.stats().gc, before, "statistics go on");
        (0..60).for_each(|lpn| assert_eq!(map.peek(Lpn::new(lpn)), round));
    }
}
