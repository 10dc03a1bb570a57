use strobe_nand::{ByteMedium, NandOp, StampMedium, Untimed};
use strobe_ssd::{
    BuildError, Command, CommandKind, DataMode, Device, DriveConfig, Hint, Inspect, NVRAM_RANGES_MAX,
    NvramError, NvramPolicyName, NvramStats, Range, SectorRange, Simulated, build, memory_bytes,
};
use strobe_types::{Lba, Lpn, SimTime};

use crate::setup::{
    Host as _, PROGRAM, PageDrive, READ, T0, TRANSFER, UNIT, buffered, cached, closed, config, contents,
    counting, read_unit, timed, write, write_unit,
};

/// One page on the one die.
const SERVICE: u64 = TRANSFER + PROGRAM;

fn unit_range(unit: u64, units: u32) -> Range {
    Range::new(Lba::new(unit * u64::from(UNIT)), units * UNIT)
}

fn with_policy(mut config: DriveConfig, policy: NvramPolicyName) -> DriveConfig {
    config.controller.nvram.policy = policy;
    config
}

fn hinted(units: u64) -> DriveConfig {
    with_policy(cached(config(), units), NvramPolicyName::Hint)
}

fn write_as(range: Range, hint: Hint) -> Command<'static> {
    Command::Write { range, fua: false, tag: hint.into() }
}

fn metadata(unit: u64) -> Command<'static> {
    write_as(unit_range(unit, 1), Hint::Metadata)
}

type Counting<M> = PageDrive<Untimed, M>;

fn run<M: strobe_nand::Medium>(drive: &mut Counting<M>, commands: &[Command<'_>])
where
    Counting<M>: Device,
{
    for command in commands {
        drive.execute(T0, command).unwrap_or_else(|e| panic!("{command:?}: {e}"));
        drive.check().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    }
}

fn programs(drive: &impl Inspect) -> u64 {
    drive.stats().nand.total(NandOp::Program)
}

fn held<M: strobe_nand::Medium>(drive: &Counting<M>) -> Vec<u32> {
    let nvram = drive.nvram().expect("there is one");
    let held: Vec<u32> = (0..160).filter(|&unit| nvram.holds(Lpn::new(unit))).collect();
    assert_eq!(held.len(), nvram.held_units());
    held
}

fn stats(drive: &impl Inspect) -> NvramStats {
    drive.stats().nvram.expect("there is one")
}

#[test]
fn hot_units_in_the_cache_cost_flash_nothing() {
    for timing in [false, true] {
        let mut engine = build(&cached(config(), 32), timing, 1).expect("valid");
        let requests: Vec<_> = (0..1032).map(|n| write_unit(n * 7 % 32)).collect();
        engine.run(&requests, &[], &mut closed(4)).expect("runs");
        engine.run(&[strobe_types::Request::FLUSH], &[], &mut closed(1)).expect("runs");
        engine.settle(T0).expect("runs");
        assert_eq!(programs_of(engine.as_ref()), 0);
        assert_eq!(engine.stats().host.units_written, 1032);
        let expected = NvramStats { write_units: 1032, hits: 1000, read_hits: 0, evicted_units: 0 };
        assert_eq!(engine.stats().nvram, Some(expected));
        // One unit more than the cache can hold.
        engine.run(&[write_unit(32)], &[], &mut closed(1)).expect("runs");
        assert_eq!(programs_of(engine.as_ref()), 1);
    }
}

fn programs_of(engine: &dyn Simulated) -> u64 {
    engine.stats().nand.total(NandOp::Program)
}

#[test]
fn without_a_cache_there_are_no_counters() {
    assert_eq!(counting::<StampMedium>(&config()).stats().nvram, None);
    assert!(counting::<StampMedium>(&config()).nvram().is_none());
}

#[test]
fn a_size_is_rounded_up_to_whole_units() {
    for (bytes, units) in [(1, 1), (4096, 1), (4097, 2), (3 * 4096, 3)] {
        let mut config = config();
        config.controller.nvram.bytes = bytes;
        let mut drive = counting::<StampMedium>(&config);
        (0..9).for_each(|unit| drive.request(T0, write_unit(unit)).map(|_| ()).expect("runs"));
        assert_eq!(held(&drive).len(), units, "{bytes} bytes");
    }
}

#[test]
fn the_unit_used_least_recently_makes_room() {
    let mut drive = counting::<StampMedium>(&cached(config(), 4));
    for unit in [0, 1, 2, 3] {
        drive.request(T0, write_unit(unit)).expect("runs");
    }
    drive.request(T0, read_unit(0)).expect("runs");
    drive.request(T0, write_unit(1)).expect("runs");
    for (unit, expected) in [(4, [0, 1, 3, 4]), (5, [0, 1, 4, 5]), (6, [1, 4, 5, 6]), (7, [4, 5, 6, 7])] {
        drive.request(T0, write_unit(unit)).expect("runs");
        assert_eq!(held(&drive), expected);
    }
    assert_eq!(programs(&drive), 4);
    assert_eq!(stats(&drive), NvramStats { write_units: 9, hits: 1, read_hits: 1, evicted_units: 4 });
    assert_eq!(contents(&mut drive)[..8], [1, 5, 3, 4, 6, 7, 8, 9]);
}

#[test]
fn whole_pages_are_written_back_but_no_more_than_a_quarter() {
    // Eight planes of pages of four units: a stripe is 32.
    let mut config = crate::setup::shaped(2, 2, 2);
    (config.nand.page_bytes, config.nand.blocks_per_plane) = (16_384, 16);
    for (units, written_back) in [(1, 1u64), (3, 3), (4, 4), (9, 4), (63, 12), (64, 16), (400, 32)] {
        config.ftl.logical_pages = Some(500);
        let mut engine = build(&cached(config.clone(), units), false, 1).expect("valid");
        for unit in 0..=units {
            engine.run(&[write_unit(unit)], &[], &mut closed(1)).expect("runs");
        }
        let evicted = engine.stats().nvram.expect("there is one").evicted_units;
        assert_eq!((evicted, programs_of(engine.as_ref())), (written_back, written_back.div_ceil(4)));
    }
}

#[test]
fn a_range_takes_the_units_it_touches_and_no_others() {
    let mut config = with_policy(cached(config(), 16), NvramPolicyName::LbaRange);
    config.controller.nvram.ranges = [(12, 8), (64, 1), (72, 8), (1279, 1)]
        .map(|(first_sector, sectors)| SectorRange { first_sector, sectors })
        .to_vec();
    let mut drive = counting::<StampMedium>(&config);
    for unit in 0..160 {
        drive.request(T0, write_unit(unit)).expect("runs");
    }
    assert_eq!(held(&drive), [1, 2, 8, 9, 159]);
    assert_eq!((programs(&drive), drive.mapped_units()), (155, 155));
    // One command inside and outside.
    drive.request(T0, write(0, 4 * UNIT)).expect("runs");
    assert_eq!((programs(&drive), stats(&drive).hits), (157, 2));
}

#[test]
fn a_hint_takes_what_is_marked_and_nothing_else() {
    let mut drive = counting::<StampMedium>(&hinted(8));
    run(&mut drive, &[metadata(3), write_as(unit_range(4, 2), Hint::None)]);
    drive.request(T0, write_unit(6)).expect("runs");
    assert_eq!(held(&drive), [3]);
    assert_eq!(programs(&drive), 3);
}

#[test]
fn a_unit_in_the_cache_is_updated_there_whatever_the_class_of_the_write() {
    for buffer_units in [0, 8] {
        let mut drive = counting::<StampMedium>(&buffered(hinted(8), buffer_units));
        run(&mut drive, &[metadata(3), Command::Flush]);
        let zeroes = Command::WriteZeroes { range: unit_range(3, 1), deallocate: false };
        run(&mut drive, &[write_as(unit_range(2, 3), Hint::None), zeroes]);
        drive.request(T0, write(3 * 8 + 2, 1)).expect("runs");
        assert_eq!((held(&drive), stats(&drive).hits), (vec![3], 3));
        run(&mut drive, &[Command::Flush]);
        assert_eq!(programs(&drive), 2, "units 2 and 4");
        assert_eq!(contents(&mut drive)[..6], [0, 0, 2, 3, 2, 0]);
    }
}

#[test]
fn a_unit_taken_leaves_the_write_buffer() {
    let mut drive = counting::<StampMedium>(&buffered(hinted(8), 8));
    run(&mut drive, &[write_as(unit_range(0, 2), Hint::None), metadata(1), Command::Flush]);
    assert_eq!(programs(&drive), 1, "only unit 0");
    assert_eq!(contents(&mut drive)[..3], [1, 2, 0]);
}

#[test]
fn partial_writes_merge_with_what_the_cache_the_buffer_and_flash_hold() {
    let mut drive = counting::<ByteMedium>(&buffered(hinted(8), 8));
    let mut expected = vec![0; 4 * 4096];
    let mut write = |drive: &mut Counting<ByteMedium>, sector: usize, count: usize, byte, hint| {
        let range = Range::new(Lba::new(sector as u64), count as u32);
        expected[sector * 512..(sector + count) * 512].fill(byte);
        let data = &mut vec![byte; count * 512];
        drive.execute_with(T0, &write_as(range, hint), data).expect("runs");
        let mut found = vec![9; 4 * 4096];
        drive.read_bytes(T0, Lba::new(0), &mut found).expect("runs");
        assert!(found == expected, "after {byte}");
    };
    write(&mut drive, 0, 32, 1, Hint::None);
    drive.execute(T0, &Command::Flush).expect("runs");
    write(&mut drive, 3, 2, 2, Hint::Metadata); // with flash
    write(&mut drive, 9, 2, 3, Hint::None);
    write(&mut drive, 11, 1, 4, Hint::Metadata); // with the buffer
    write(&mut drive, 4, 8, 5, Hint::None); // with the cache
    assert_eq!(held(&drive), [0, 1]);
    write(&mut drive, 12, 14, 6, Hint::Metadata);
    assert_eq!(held(&drive), [0, 1, 2, 3]);
    assert_eq!(drive.stats().host.read_modify_writes, 7);
}

#[test]
fn a_trimmed_unit_reads_as_zeros_from_a_tombstone_until_the_next_flush() {
    let deallocate = [unit_range(1, 3)];
    let zeroes = Command::WriteZeroes { range: unit_range(1, 3), deallocate: true };
    for trim in [Command::Deallocate(&deallocate), zeroes] {
        let mut drive = counting::<StampMedium>(&hinted(8));
        run(&mut drive, &[write_as(unit_range(0, 5), Hint::None), metadata(2), metadata(4), trim]);
        assert_eq!(contents(&mut drive)[..5], [1, 0, 0, 0, 3]);
        assert_eq!((held(&drive), drive.mapped_units()), (vec![2, 4], 2));
        run(&mut drive, &[Command::Flush]);
        assert_eq!(contents(&mut drive)[..5], [1, 0, 0, 0, 3]);
        assert_eq!(held(&drive), [4], "the tombstone is gone, data stays");
    }
}

#[test]
fn a_part_of_a_unit_trimmed_keeps_its_data() {
    let mut drive = counting::<StampMedium>(&hinted(8));
    let part = [Range::new(Lba::new(16), 7)];
    run(&mut drive, &[metadata(2), Command::Deallocate(&part)]);
    assert_eq!(contents(&mut drive)[2], 1);
}

#[test]
fn a_tombstone_can_be_written_again() {
    let mut drive = counting::<ByteMedium>(&hinted(8));
    let mut data = vec![7; 4096];
    drive.execute_with(T0, &metadata(2), &data).expect("runs");
    let trim = [unit_range(2, 1)];
    run(&mut drive, &[Command::Deallocate(&trim)]);
    drive.write_bytes(T0, Lba::new(17), &[8; 512]).expect("runs");
    assert_eq!((held(&drive), programs(&drive)), (vec![2], 0), "unhinted, but present");
    run(&mut drive, &[Command::Flush]);
    drive.read_bytes(T0, Lba::new(16), &mut data).expect("runs");
    assert!(data.iter().enumerate().all(|(at, &byte)| byte == if at / 512 == 1 { 8 } else { 0 }));
}

#[test]
fn a_tombstone_makes_room_when_its_turn_comes() {
    let mut drive = counting::<StampMedium>(&cached(config(), 3));
    let trim = [unit_range(0, 2)];
    (0..3).for_each(|unit| drive.request(T0, write_unit(unit)).map(|_| ()).expect("runs"));
    run(&mut drive, &[Command::Deallocate(&trim)]);
    drive.request(T0, read_unit(0)).expect("runs");
    drive.request(T0, write_unit(3)).expect("runs");
    assert_eq!(held(&drive), [2, 3], "one flush is for all tombstones");
    assert_eq!((programs(&drive), stats(&drive).evicted_units), (0, 0));
    assert_eq!(contents(&mut drive)[..4], [0, 0, 3, 4]);
}

#[test]
fn tombstones_are_not_written_back_with_data() {
    let mut config = cached(config(), 8);
    (config.nand.page_bytes, config.nand.blocks_per_plane) = (16_384, 32);
    let mut drive = counting::<StampMedium>(&config);
    let trim = [unit_range(2, 1)];
    (0..8).for_each(|unit| drive.request(T0, write_unit(unit)).map(|_| ()).expect("runs"));
    run(&mut drive, &[Command::Deallocate(&trim)]);
    drive.request(T0, write_unit(8)).expect("runs");
    assert_eq!(held(&drive), [2, 5, 6, 7, 8]);
    assert_eq!(contents(&mut drive)[..9], [1, 2, 0, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn settling_ends_tombstones_and_leaves_data_where_it_is() {
    let mut drive = counting::<StampMedium>(&buffered(hinted(8), 8));
    let trim = [unit_range(2, 1)];
    run(&mut drive, &[metadata(2), metadata(4), write_as(unit_range(6, 1), Hint::None)]);
    run(&mut drive, &[Command::Deallocate(&trim)]);
    drive.settle(T0).expect("runs");
    assert_eq!((held(&drive), programs(&drive)), (vec![4], 1));
}

#[test]
fn a_tombstone_outlives_a_power_cut_and_the_unit_stays_trimmed() {
    let mut config = hinted(8);
    (config.ftl.durable_map, config.nand.data) = (true.into(), DataMode::Stamp);
    let mut drive = counting::<StampMedium>(&config);
    let trim = [unit_range(2, 1)];
    run(&mut drive, &[write_as(unit_range(2, 1), Hint::None), Command::Flush]);
    run(&mut drive, &[metadata(2), Command::Deallocate(&trim)]);
    for _ in 0..3 {
        drive = drive.recovered(T0).expect("recovers").0;
        assert_eq!(contents(&mut drive)[2], 0);
        run(&mut drive, &[Command::Flush]);
        assert_eq!((held(&drive), drive.mapped_units()), (vec![], 0));
    }
}

#[test]
fn a_copy_takes_its_sources_from_the_cache() {
    for buffer_units in [0, 8] {
        let mut drive = counting::<StampMedium>(&buffered(hinted(8), buffer_units));
        run(&mut drive, &[write_as(unit_range(0, 3), Hint::None), Command::Flush]);
        let trim = [unit_range(2, 1)];
        run(&mut drive, &[metadata(1), metadata(2), metadata(7), Command::Deallocate(&trim)]);
        let sources = [unit_range(0, 3)];
        run(&mut drive, &[Command::Copy { destination: Lba::new(80), sources: &sources }]);
        assert_eq!(contents(&mut drive)[..3], [1, 2, 0]);
        assert_eq!(contents(&mut drive)[10..13], [1, 2, 0]);
        assert_eq!(held(&drive), [7]);
    }
}

#[test]
fn a_copy_replaces_destinations_in_the_cache() {
    for buffer_units in [0, 8] {
        let mut drive = counting::<StampMedium>(&buffered(hinted(8), buffer_units));
        run(&mut drive, &[write_as(unit_range(0, 3), Hint::None), metadata(10), metadata(11), metadata(12)]);
        let trim = [unit_range(2, 1), unit_range(12, 1)];
        let sources = [unit_range(0, 3)];
        let copy = Command::Copy { destination: Lba::new(80), sources: &sources };
        run(&mut drive, &[Command::Deallocate(&trim), copy]);
        for _ in 0..2 {
            assert_eq!(contents(&mut drive)[10..13], [1, 1, 0]);
            run(&mut drive, &[Command::Flush]);
        }
    }
}

#[test]
fn a_misaligned_copy_goes_through_the_cache() {
    let mut drive = counting::<ByteMedium>(&cached(config(), 8));
    let mut data: Vec<u8> = (0..3 * 4096).map(|at| (at / 512) as u8 + 1).collect();
    drive.write_bytes(T0, Lba::new(0), &data).expect("runs");
    let sources = [Range::new(Lba::new(3), 16)];
    run(&mut drive, &[Command::Copy { destination: Lba::new(40), sources: &sources }]);
    assert_eq!((held(&drive), programs(&drive)), (vec![0, 1, 2, 5, 6], 0));
    let expected = data[3 * 512..19 * 512].to_vec();
    data.truncate(16 * 512);
    drive.read_bytes(T0, Lba::new(40), &mut data).expect("runs");
    assert!(data == expected);
}

#[test]
fn forced_unit_access_is_done_in_the_cache_for_what_belongs_there() {
    let mut drive = timed::<ByteMedium>(&buffered(hinted(8), 40));
    let command = |hint: Hint| Command::Write { range: unit_range(3, 1), fua: true, tag: hint.into() };
    let mut data = vec![1; 4096];
    assert_eq!(drive.execute_with(T0, &command(Hint::Metadata), &data), Ok(T0));
    data.fill(2);
    assert_eq!(drive.execute_with(T0, &command(Hint::None), &data), Ok(T0), "it is there");
    assert_eq!(programs(&drive), 0);
    // The cache does not admit units 2 and 4; older versions of them wait in the buffer.
    drive.execute_with(T0, &write_as(unit_range(2, 1), Hint::None), &data).expect("runs");
    drive.execute_with(T0, &write_as(unit_range(4, 1), Hint::None), &data).expect("runs");
    let through = Command::Write { range: unit_range(2, 3), fua: true, tag: Hint::None.into() };
    let mut three = vec![3; 3 * 4096];
    let done = drive.execute_with(T0, &through, &three).expect("runs");
    assert_eq!((programs(&drive), done > T0), (2, true));
    assert_eq!(drive.execute(done, &Command::Flush), Ok(done), "nothing is left in the buffer");
    drive.read_bytes(done, Lba::new(16), &mut three).expect("runs");
    assert!(three.iter().all(|&byte| byte == 3));
    drive.check().expect("state");
}

#[test]
fn a_write_to_the_cache_takes_its_time_and_waits_for_room() {
    let mut config = cached(config(), 2);
    (config.controller.nvram.write_ns, config.controller.nvram.read_ns) = (300, 100);
    let mut drive = timed::<StampMedium>(&config);
    let at = SimTime::from_ns;
    assert_eq!(drive.request(T0, write(0, 2 * UNIT)), Ok(at(600)), "one unit after the other");
    assert_eq!(drive.request(T0, write_unit(1)), Ok(at(900)), "one command after the other");
    assert_eq!(drive.request(at(5000), read_unit(1)), Ok(at(5100)));
    assert_eq!(drive.request(at(6000), read_unit(7)), Ok(at(6000)), "not there, nor anywhere");
    assert_eq!(drive.request(at(10_000), write_unit(2)), Ok(at(10_000 + SERVICE + 300)), "unit 0 leaves");
    let later = at(10_000 + SERVICE + 300);
    assert_eq!(drive.request(later, write_unit(1)), Ok(later + 300), "unit 1 has its place");
    let read = TRANSFER + READ;
    let idle = at(10_000_000);
    assert_eq!(drive.request(idle, read_unit(0)), Ok(idle + read), "it is on flash");
    assert_eq!(drive.request(idle + read, read_unit(2)), Ok(idle + (read + 100)));
}

#[test]
fn a_partial_write_does_not_wait_for_the_rest_but_its_write_back_does() {
    let mut drive = timed::<StampMedium>(&hinted(1));
    let now = drive.request(T0, write_unit(0)).expect("runs");
    let part = write_as(Range::new(Lba::new(1), 1), Hint::Metadata);
    assert_eq!(drive.execute(now, &part), Ok(now));
    let done = drive.execute(now, &metadata(1)).expect("runs");
    assert_eq!(done.since(now), READ + TRANSFER + SERVICE);
}

#[test]
fn the_link_and_the_firmware_come_first() {
    let mut config = cached(config(), 2);
    (config.controller.command_ns, config.controller.range_ns) = (1000, 100);
    config.controller.link_mb_s = 1;
    config.controller.nvram.write_ns = 7;
    let mut drive = timed::<StampMedium>(&config);
    assert_eq!(drive.request(T0, write_unit(0)), Ok(SimTime::from_ns(1100 + 4_096_000 + 7)));
}

#[test]
fn counters_of_a_window_are_differences() {
    let mut drive = counting::<StampMedium>(&cached(config(), 2));
    (0..3).for_each(|unit| drive.request(T0, write_unit(unit)).map(|_| ()).expect("runs"));
    let before = drive.stats();
    for request in [write_unit(2), read_unit(2), write_unit(5)] {
        drive.request(T0, request).expect("runs");
    }
    let window = drive.stats().since(&before);
    let expected = NvramStats { write_units: 2, hits: 1, read_hits: 1, evicted_units: 1 };
    assert_eq!(window.nvram, Some(expected));
    assert_eq!(window.host.commands(CommandKind::Write), 2);
}

#[test]
fn impossible_caches_are_refused_with_key_and_cure() {
    let range = |first_sector, sectors| SectorRange { first_sector, sectors };
    let outside = |first_sector, sectors| NvramError::Range { first_sector, sectors, drive_sectors: 1280 };
    use NvramPolicyName::{Hint, LbaRange, Lru};
    for bytes in [0, 1 << 17] {
        for (policy, ranges, expected) in [
            (Lru, vec![], None),
            (Hint, vec![], None),
            (LbaRange, vec![range(0, 1280)], None),
            (LbaRange, vec![range(1279, 1); NVRAM_RANGES_MAX], None),
            (LbaRange, vec![], Some(NvramError::NoRanges)),
            (Lru, vec![range(0, 8)], None),
            (Hint, vec![range(8, 0)], Some(outside(8, 0))),
            (LbaRange, vec![range(0, 8); NVRAM_RANGES_MAX + 1], Some(NvramError::ManyRanges(65))),
            (LbaRange, vec![range(0, 8), range(0, 1281)], Some(outside(0, 1281))),
            (LbaRange, vec![range(1280, 1)], Some(outside(1280, 1))),
            (LbaRange, vec![range(8, 0)], Some(outside(8, 0))),
            (LbaRange, vec![range(u64::MAX, u64::MAX)], Some(outside(u64::MAX, u64::MAX))),
        ] {
            let mut config = with_policy(config(), policy);
            (config.controller.nvram.bytes, config.controller.nvram.ranges) = (bytes, ranges);
            match (build(&config, true, 1).err(), expected) {
                (None, None) => {}
                (Some(BuildError::Nvram(error)), Some(expected)) => {
                    assert_eq!(error, expected);
                    let text = BuildError::Nvram(error).to_string();
                    assert!(
                        text.starts_with("drive.controller.nvram: ") && text.contains("ranges"),
                        "{text}"
                    );
                }
                (found, expected) => panic!("{expected:?} expected, found {found:?}"),
            }
        }
    }
}

#[test]
fn the_memory_of_the_cache_is_estimated() {
    let needed = |units, data| {
        let mut config = cached(config(), units);
        config.nand.data = data;
        memory_bytes(&config).expect("valid")
    };
    for (data, per_unit) in [(DataMode::None, 128), (DataMode::Stamp, 128), (DataMode::Bytes, 4096 + 160)] {
        assert_eq!(needed(100, data) - needed(0, data), 100 * per_unit);
        assert_eq!(needed(1 << 28, data) - needed(0, data), 160 * per_unit, "it cannot hold more units");
    }
}

#[test]
fn a_drive_without_a_cache_says_nothing_about_it() {
    let text = |config: &DriveConfig| toml::to_string(config).expect("TOML");
    assert!(!text(&config()).contains("nvram"));
    let with = with_policy(cached(config(), 1), NvramPolicyName::Hint);
    assert!(text(&with).contains("[controller.nvram]"));
    assert_eq!(toml::from_str::<DriveConfig>(&text(&with)).expect("TOML"), with);
}
