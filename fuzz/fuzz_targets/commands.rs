//! Any stream of commands on any durable drive, with a power cut at a position from the input. Commands
//! complete or are refused, no flushed data is lost, and the state is sound.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use strobe_ssd::{
    Command, CopyMode, DataMode, DriveConfig, Hint, LogVictim, NvramPolicyName, Range, SectorRange,
    build, presets,
};
use strobe_types::{Lba, SimTime};

const T0: SimTime = SimTime::ZERO;
const UNITS: u32 = 40;

fuzz_target!(|input: &[u8]| {
    let _ = exercise(&mut Unstructured::new(input));
});

fn exercise(u: &mut Unstructured<'_>) -> Result<()> {
    let config = drive(u)?;
    let Ok(mut drive) = build(&config, false, 1) else { return Ok(()) };
    drive.watch();
    while !u.is_empty() {
        if u.ratio(1, 8)? {
            drive.plan_cut(drive.operations() + u64::from(u.int_in_range(1..=40u8)?));
        }
        let ranges: Vec<Range> = (0..u.int_in_range(0..=4)?).map(|_| range(u)).collect::<Result<_>>()?;
        let hint = if u.arbitrary()? { Hint::Metadata } else { Hint::None };
        let command = match u.int_in_range(0..=7)? {
            0 => Command::Read { range: range(u)? },
            1 => Command::Flush,
            2 => Command::Deallocate(&ranges),
            3 => Command::WriteZeroes { range: range(u)?, deallocate: u.arbitrary()? },
            4 | 5 => Command::Copy { destination: range(u)?.lba, sources: &ranges },
            _ => Command::Write { range: range(u)?, fua: u.ratio(1, 5)?, tag: hint.into() },
        };
        if let Err(error) = drive.execute(T0, &command) {
            assert!(!error.to_string().is_empty());
        }
        if drive.was_cut() || u.ratio(1, 30)? {
            drive = drive.restart(T0).expect("recovers").0;
            let verdict = drive.verify().expect("watched");
            assert!(verdict.wrong.is_empty(), "{command:?}: {verdict:?}");
        }
        drive.check().expect("sound");
    }
    assert!(drive.verify().expect("watched").wrong.is_empty());
    Ok(())
}

/// A range, possibly empty or beyond the end of the drive.
fn range(u: &mut Unstructured<'_>) -> Result<Range> {
    let sectors = u64::from(UNITS) * 2;
    let lba = if u.ratio(1, 40)? { u.arbitrary()? } else { u.int_in_range(0..=sectors)? };
    Ok(Range::new(Lba::new(lba), u.int_in_range(0..=9)?))
}

fn drive(u: &mut Unstructured<'_>) -> Result<DriveConfig> {
    let preset = presets::find("generic-8g").expect("a preset");
    let mut config: DriveConfig = toml::from_str(preset.toml).expect("presets are complete");
    let nand = &mut config.nand;
    nand.channels = u.int_in_range(1..=2)?;
    nand.blocks_per_plane = 40;
    nand.pages_per_block = u.int_in_range(2..=6)?;
    nand.page_bytes = 1024 * u.int_in_range(1..=2)?;
    nand.data = if u.arbitrary()? { DataMode::Bytes } else { DataMode::Stamp };
    config.ftl.mapping_unit_bytes = 1024;
    config.ftl.logical_pages = Some(UNITS);
    config.ftl.durable_map = true.into();
    if u.arbitrary()? {
        config.ftl.copy_mode = CopyMode::Logical;
        config.ftl.virtual_map_entries = u.int_in_range(1..=20)?;
    }
    config.ftl.gc.victim = (*u.choose(&["greedy", "fifo", "capi", "age * (1-u)"])?).to_owned();
    config.ftl.mapping =
        (*u.choose(&["page", "page", "dftl", "replacement-block", "log-block", "fast"])?).to_owned();
    if config.ftl.mapping != "page" {
        config.ftl.copy_mode = CopyMode::Physical;
        config.ftl.translation.cached_entries = u.int_in_range(1..=30)?;
        config.ftl.log_blocks = u.int_in_range(2..=6)?;
        config.ftl.log_victim =
            *u.choose(&[LogVictim::Lru, LogVictim::Fifo, LogVictim::Fullest])?;
        config.nand.any_page_order = config.ftl.mapping == "replacement-block" || u.arbitrary()?;
        config.nand.blocks_per_plane = 60;
    }
    config.controller.write_buffer_bytes = 1024 * u.int_in_range(0..=9u64)?;
    let nvram = &mut config.controller.nvram;
    nvram.bytes = 1024 * u.int_in_range(0..=6u64)?;
    nvram.policy = *u.choose(&[NvramPolicyName::Lru, NvramPolicyName::Hint, NvramPolicyName::LbaRange])?;
    if nvram.policy == NvramPolicyName::LbaRange {
        nvram.ranges = vec![SectorRange { first_sector: 3, sectors: 20 }];
    }
    Ok(config)
}
