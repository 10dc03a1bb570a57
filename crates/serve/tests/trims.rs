//! Trims of a drive with limits, compared with a set of units.

use proptest::prelude::*;
use strobe_serve::nbd::Op;
use strobe_serve::{Engine, Pace};
use strobe_ssd::{DriveConfig, Range};
use strobe_types::{Lba, SECTOR_BYTES, SimTime};

const UNIT_SECTORS: u64 = 8;
const UNITS: u64 = 160;

fn engine(trim_ranges: u32, trim_range_sectors: u32, trim_sectors: u64) -> Engine {
    let limits = serde_json::json!({
        "trim_ranges": trim_ranges, "trim_range_sectors": trim_range_sectors, "trim_sectors": trim_sectors,
    });
    let config = serde_json::json!({
        "nand": {
            "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 32, "pages_per_block": 8,
            "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
            "endurance_pe": 1000, "data": "bytes",
        },
        "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": UNITS },
        "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536, "limits": limits },
    });
    let config: DriveConfig = serde_json::from_value(config).expect("a configuration");
    Engine::new(strobe_ssd::build(&config, true, 1).expect("a drive"), SimTime::ZERO, Pace::None)
}

fn ask(engine: &mut Engine, op: Op, sector: u64, sectors: u64, data: &[u8]) {
    engine.submit(1, op, Range::new(Lba::new(sector), sectors as u32), data);
    let mut answers = Vec::new();
    engine.advance(&mut answers);
    let failed: Vec<_> = answers.iter().filter(|(_, result)| result.is_err()).collect();
    assert!(failed.is_empty(), "{op:?} of {sectors} sectors at {sector}: {failed:?}");
}

proptest! {
    #[test]
    fn limits_do_not_show(
        trim_ranges in 0_u32..4, range_units in 0_u32..3, units in 0_u64..4,
        first in 0..UNITS * UNIT_SECTORS - 1, sectors in 1_u64..300,
    ) {
        let trim_sectors = units * UNIT_SECTORS;
        let mut engine = engine(trim_ranges, range_units * UNIT_SECTORS as u32, trim_sectors);
        let sectors = sectors.min(UNITS * UNIT_SECTORS - first);
        let all = UNITS * UNIT_SECTORS;
        ask(&mut engine, Op::Write { fua: false }, 0, all, &vec![1; (all * SECTOR_BYTES) as usize]);
        ask(&mut engine, Op::Trim { fua: false }, first, sectors, &[]);
        for unit in 0..UNITS {
            let is_inside = unit * UNIT_SECTORS >= first && (unit + 1) * UNIT_SECTORS <= first + sectors;
            let is_allocated = engine.drive().is_allocated(Lba::new(unit * UNIT_SECTORS));
            prop_assert_eq!(is_allocated, !is_inside, "unit {}", unit);
        }
    }
}
