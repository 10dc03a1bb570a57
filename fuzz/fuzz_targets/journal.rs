//! Any bytes as the map's log. Decoded pages re-encode to the same page. A drive that finds such pages on its
//! flash recovers to a sound state or reports the damage.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use strobe_ftl::gc::Greedy;
use strobe_ftl::journal::format::{Clock, Content, LogPage, Record};
use strobe_ftl::{Inspectable as _, MappingScheme, PageMap, PageMapConfig, WriteContext};
use strobe_nand::{Cause, Chip, Nand, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, SimTime};

const T0: When = When::START;
const UNITS: u32 = 40;

fuzz_target!(|input: &[u8]| {
    if let Some(page) = LogPage::decode(input) {
        assert_eq!(LogPage::decode(&page.encode()), Some(page));
    }
    let _ = recover(&mut Unstructured::new(input));
});

fn recover(u: &mut Unstructured<'_>) -> Result<()> {
    let geometry = Geometry::new(GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 2,
        blocks_per_plane: 12,
        pages_per_block: 8,
        page_bytes: 512,
        unit_bytes: 512,
    })
    .expect("valid geometry");
    let config = PageMapConfig {
        durable: true,
        virtual_map_entries: if u.arbitrary()? { 4 } else { 0 },
        ..PageMapConfig::new(UNITS)
    };
    let chip =
        Chip::<Untimed, StampMedium>::new(geometry.clone(), WearConfig::default(), Untimed::default(), 1);
    let mut drive = PageMap::new(chip, Greedy::new(geometry.blocks()), config).expect("room");
    // Real data first, as a target for references.
    for n in 0..u.int_in_range(0..=120u64)? {
        let lpn = Lpn::new(u.int_in_range(0..=UNITS - 1)?);
        drive.write(T0, &[Unit { lpn, payload: n + 1 }], WriteContext::HOST).expect("room");
    }
    let mut flash = drive.nand().clone();
    for _ in 0..u.int_in_range(0..=6)? {
        let block = BlockId::new(u.int_in_range(0..=geometry.blocks() - 1)?);
        if u.ratio(1, 3)? {
            flash.erase(T0, block, Cause::Host).expect("erases");
        }
        let page = flash.block(block).pages_programmed;
        if page == geometry.pages_per_block() {
            continue;
        }
        let bytes = if u.arbitrary()? { log_page(u)?.encode() } else { u.arbitrary::<Vec<u8>>()? };
        flash.program_meta(T0, geometry.page(block, page), &bytes, Cause::Map).expect("programs");
    }
    let Ok((mut found, _)) = PageMap::restart(flash, Greedy::new(geometry.blocks()), config, SimTime::ZERO)
    else {
        return Ok(());
    };
    found.check().expect("what was believed is sound");
    for n in 0..60 {
        let unit = Unit { lpn: Lpn::new(n % UNITS), payload: u64::from(n) };
        if found.write(T0, &[unit], WriteContext::HOST).and_then(|_| found.flush(T0)).is_err() {
            break;
        }
    }
    found.check().expect("and stays so");
    Ok(())
}

fn log_page(u: &mut Unstructured<'_>) -> Result<LogPage> {
    let small = |u: &mut Unstructured<'_>| u.int_in_range(0..=60u64);
    let content = if u.arbitrary()? {
        Content::Segment((0..u.int_in_range(0..=60)?).map(|_| word(u)).collect::<Result<_>>()?)
    } else {
        Content::Journal((0..u.int_in_range(0..=8)?).map(|_| record(u)).collect::<Result<_>>()?)
    };
    Ok(LogPage {
        lsn: small(u)?,
        base: small(u)?,
        epoch: small(u)?,
        number: u.int_in_range(0..=2)?,
        count: u.int_in_range(0..=2)?,
        clock: Clock { tick: small(u)?, sequence: u.arbitrary()?, host_units: small(u)? },
        region: u.int_in_range(0..=12)?,
        content,
    })
}

/// A word, mostly in the valid range.
fn word(u: &mut Unstructured<'_>) -> Result<u32> {
    if u.ratio(1, 10)? { u.arbitrary() } else { u.int_in_range(0..=210) }
}

fn record(u: &mut Unstructured<'_>) -> Result<Record> {
    Ok(match u.int_in_range(0..=3)? {
        0 => Record::Map { lpn: word(u)?, entry: word(u)?, count: word(u)? },
        1 => Record::Shared { vpn: u.int_in_range(0..=4)?, entry: word(u)?, owners: [word(u)?, word(u)?] },
        2 => Record::Open {
            stream: u.int_in_range(0..=3)?,
            lane: u.int_in_range(0..=2)?,
            block: u.int_in_range(0..=25)?,
            pages: u.int_in_range(0..=9)?,
        },
        _ => Record::Retiring { block: u.int_in_range(0..=25)? },
    })
}
