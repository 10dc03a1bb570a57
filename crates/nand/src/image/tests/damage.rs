use strobe_types::SimTime;

use super::super::layout::{self, ALIGN, BLOCK_SLOT, RECORD_SLOT};
use super::*;
use crate::image::{Damage, Scan};

fn sample() -> (Vec<u8>, MemoryChip) {
    let wear = WearConfig { endurance_pe: Some(2), factory_bad_blocks: 1, ..WearConfig::default() };
    let info = info(geometry(5, 3, 2, 512), wear);
    let (disk, mut chip) = create(&info);
    let mut model = MemoryChip::new(info.geometry.clone(), info.wear, Untimed::default(), info.seed);
    let program =
        |block, lpn| Step::Program { block, units: vec![(lpn, 1), (lpn + 1, 0), (lpn + 2, 2)], cause: 0 };
    let mut steps = Vec::new();
    for block in 0..5 {
        steps.extend([
            program(block, block * 3),
            Step::Meta { block, bytes: vec![block as u8; 99], cause: 4 },
        ]);
    }
    steps.extend([Step::Erase { block: 1, cause: 1 }, program(1, 30), Step::MarkBad { block: 2 }]);
    steps.extend((0..3).map(|_| Step::Erase { block: 3, cause: 5 }));
    let mut sequence = (0, 0);
    for step in &steps {
        apply(&mut chip, step, &mut sequence.0);
        apply(&mut model, step, &mut sequence.1);
    }
    (disk.bytes(), model)
}

fn check_never_wrong(bytes: &[u8], model: &mut MemoryChip) -> Result<Option<Scan>, String> {
    let Ok(image) = Image::on(Box::new(Disk::of(bytes.to_vec()))) else { return Ok(None) };
    let geometry = image.info().geometry.clone();
    let (mut loaded, scan) =
        FileChip::load_image(&image, Untimed::default()).map_err(|error| error.to_string())?;
    if scan.damage.is_empty() {
        compare(&mut loaded, model)?;
    }
    let Ok(mut chip) = FileChip::open_image(image, Untimed::default()) else {
        return if scan.damage.is_empty() { Err("fsck finds nothing".to_owned()) } else { Ok(Some(scan)) };
    };
    for block in (0..geometry.blocks()).map(BlockId::new) {
        for page in 0..model.block(block).pages_programmed {
            let first = geometry.first_unit_of_page(geometry.page(block, page));
            for ppa in (0..geometry.units_per_page()).map(|slot| first.plus(slot)) {
                if model.lpn(ppa).is_some()
                    && chip.payload(ppa) != model.payload(ppa)
                    && chip.failure().is_none()
                {
                    return Err(format!("{ppa:?} is served wrong"));
                }
            }
        }
    }
    match compare(&mut chip, model) {
        Err(difference) if chip.failure().is_none() => Err(difference),
        Err(_) if scan.damage.is_empty() => Err("fsck finds nothing".to_owned()),
        _ => Ok(Some(scan)),
    }
}

#[test]
fn the_sample_is_whole() {
    let (bytes, mut model) = sample();
    let scan = check_never_wrong(&bytes, &mut model).expect("whole").expect("opens");
    assert_eq!(scan.damage, vec![]);
    assert!(scan.data_pages >= 5 && scan.table_pages >= 2, "{scan:?}");
    assert_eq!(compare(&mut open(bytes).expect("opens"), &mut model), Ok(()));
}

#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let (bytes, mut model) = sample();
    let (mut refused, mut named, mut harmless) = (0, 0, 0);
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        match check_never_wrong(&flipped, &mut model) {
            Ok(None) => refused += 1,
            Ok(Some(scan)) if scan.damage.is_empty() => harmless += 1,
            Ok(Some(_)) => named += 1,
            Err(wrong) => panic!("byte {at}: {wrong}"),
        }
    }
    // At least every flip in the header is refused, and every flip in five block entries and fifteen records
    // is named.
    assert!(refused >= ALIGN as usize, "{refused} refused, {named} named, {harmless} harmless");
    assert!(
        named >= 5 * BLOCK_SLOT + 15 * RECORD_SLOT,
        "{refused} refused, {named} named, {harmless} harmless"
    );
}

#[test]
fn a_truncated_file_is_refused_and_what_is_lost_is_named() {
    let (bytes, mut model) = sample();
    for length in (0..bytes.len()).filter(|at| at % 512 < 2 || at % 512 == 511) {
        let cut = bytes[..length].to_vec();
        assert!(open(cut.clone()).is_err(), "{length} bytes");
        let scan =
            check_never_wrong(&cut, &mut model).unwrap_or_else(|wrong| panic!("{length} bytes: {wrong}"));
        if let Some(scan) = scan {
            assert!(matches!(scan.damage[0], Damage::Length { .. }), "{length} bytes: {:?}", scan.damage);
        }
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(open(longer).expect_err("refused").to_string().contains("the file has"));
}

#[test]
fn damage_is_named() {
    let (bytes, model) = sample();
    let geometry = model.geometry().clone();
    let layout = Layout::new(&geometry, 15).expect("small");
    let message = |at: u64| {
        let mut flipped = bytes.clone();
        flipped[at as usize] ^= 0x10;
        let loaded = Image::on(Box::new(Disk::of(flipped)))
            .and_then(|image| FileChip::load_image(&image, Untimed::default()))
            .map(|(_, scan)| scan.damage[0].to_string());
        loaded.unwrap_or_else(|error| error.to_string())
    };
    let block = (0..5)
        .map(BlockId::new)
        .find(|&b| !model.block(b).bad && model.block(b).erase_count == 0)
        .expect("one");
    let b = block.get();
    let (first, ppa) = (geometry.page(block, 0), geometry.first_unit(block));
    assert_eq!(message(0), "it is not an image of a Strobe drive");
    assert_eq!(
        message(8),
        "it has format version 20, this program reads version 4: use the version of Strobe that wrote it"
    );
    assert_eq!(message(12), "its header is damaged: it does not match its checksum");
    assert_eq!(message(ALIGN), "its header is damaged: the configuration does not match its checksum");
    assert_eq!(message(layout.block(block)), format!("block {b}: its entry in the block table is damaged"));
    assert_eq!(message(layout.record(first)), format!("block {b} page 0: its record is damaged"));
    assert_eq!(message(layout.unit(ppa)), format!("block {b} page 0: its list of mapping units is damaged"));
    let lpn = model.lpn(ppa).expect("data");
    assert_eq!(
        message(layout.content(ppa)),
        format!("block {b} page 0: the content of mapping unit {lpn} is damaged")
    );
    let table = (0..3)
        .map(|page| geometry.page(block, page))
        .find(|&ppn| model.lpn(geometry.first_unit_of_page(ppn)).is_none());
    let table = table.expect("a table page");
    assert_eq!(
        message(layout.page_content(table)),
        format!(
            "block {b} page {}: the content of this table page is damaged",
            geometry.page_in_block(table)
        )
    );
    // A missing record rather than a damaged one.
    let mut gone = bytes.clone();
    gone[layout.record(first) as usize..][..RECORD_SLOT].fill(0);
    let error = open(gone).expect_err("refused").to_string();
    assert_eq!(error, format!("it is damaged: block {b} page 0: its record is missing"));
}

#[test]
fn what_lies_between_the_regions_is_zero_or_damage() {
    let (bytes, _) = sample();
    let image = Image::on(Box::new(Disk::of(bytes.clone()))).expect("whole");
    let config_end = ALIGN + image.info().config.len() as u64;
    let padding: Vec<_> = image.layout.padding().collect();
    assert_eq!(padding[0], config_end..2 * ALIGN);
    let filled: Vec<_> = padding.into_iter().filter(|padding| !padding.is_empty()).collect();
    assert!(filled.len() >= 4, "{filled:?}");
    for at in filled.into_iter().flat_map(|padding| [padding.start, padding.end - 1]) {
        let mut written = bytes.clone();
        written[at as usize] = 1;
        let image = Image::on(Box::new(Disk::of(written.clone()))).expect("its header is whole");
        let (_, scan) = FileChip::load_image(&image, Untimed::default()).expect("is read");
        assert_eq!(scan.damage, [Damage::Padding { at }]);
        let error = open(written).expect_err("refused").to_string();
        let expected =
            format!("it is damaged: byte {at} of the file lies between its regions and is not zero");
        assert_eq!(error, expected);
    }
}

fn exercise(mut chip: FileChip) {
    let geometry = chip.geometry().clone();
    for block in (0..geometry.blocks()).map(BlockId::new) {
        for page in 0..chip.block(block).pages_programmed {
            let ppn = geometry.page(block, page);
            let _ = (chip.record(ppn), verify_page(&chip, ppn), chip.read_meta(T0, ppn, Cause::Host));
        }
        if chip.block(block).bad {
            continue;
        }
        let _ = chip.erase(T0, block, Cause::Host);
        if !chip.block(block).bad {
            let unit = Unit { lpn: Lpn::new(1), payload: UnitBytes::synthetic(1, geometry.unit_bytes()) };
            let _ = chip.program(T0, geometry.page(block, 0), &[unit], 1, Cause::Host);
        }
    }
    let _ = chip.clone();
}

fn survive(bytes: Vec<u8>) -> bool {
    let Ok(image) = Image::on(Box::new(Disk::of(bytes))) else { return false };
    let loaded = FileChip::load_image(&image, Untimed::default()).map(|(chip, _)| exercise(chip));
    let opened = FileChip::open_image(image, Untimed::default()).map(exercise);
    loaded.is_ok() || opened.is_ok()
}

proptest! {
    // Inputs that are not images are rejected where an image is required, within this limit.
    #![proptest_config(ProptestConfig { max_global_rejects: 400, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..10_000), magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() > 12 {
            bytes[..8].copy_from_slice(&layout::MAGIC);
            bytes[8..12].copy_from_slice(&layout::VERSION.to_le_bytes());
        }
        survive(bytes);
    }

    #[test]
    fn no_mutation_serves_wrong_data(
        edits in prop::collection::vec((any::<u32>(), any::<u32>(), 1..600usize, 0..3u8), 1..6)
    ) {
        let (mut bytes, mut model) = sample();
        for (to, from, length, how) in edits {
            let length = length.min(bytes.len());
            let place = |at: u32| at as usize % (bytes.len() - length + 1);
            let (to, from) = (place(to), place(from));
            match how {
                0 => bytes[to..to + length].fill(0),
                1 => bytes.copy_within(from..from + length, to),
                _ => bytes[to..to + length].iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31 + from) as u8),
            }
        }
        // Zeros in the record table can remove the newest page of a block. This is the only undetected loss:
        // data is missing, but never wrong.
        let before: Vec<u32> = (0..5).map(|b| model.block(BlockId::new(b)).pages_programmed).collect();
        if let Ok(mut chip) = open(bytes.clone())
            && (0..5).any(|b| chip.block(BlockId::new(b)).pages_programmed < before[b as usize])
        {
            let geometry = model.geometry().clone();
            for block in (0..5).map(BlockId::new) {
                for page in 0..chip.block(block).pages_programmed {
                    let first = geometry.first_unit_of_page(geometry.page(block, page));
                    for ppa in [first, first.plus(1)] {
                        prop_assert_eq!(chip.lpn(ppa), model.lpn(ppa));
                        let served = chip.lpn(ppa).map(|_| chip.payload(ppa));
                        let right = model.lpn(ppa).map(|_| model.payload(ppa));
                        prop_assert!(served == right || chip.failure().is_some());
                    }
                }
            }
            exercise(chip.clone());
            chip.sync(SimTime::ZERO);
        } else {
            prop_assert!(check_never_wrong(&bytes, &mut model).is_ok());
        }
        prop_assume!(survive(bytes));
    }

    #[test]
    fn no_forgery_panics(
        fields in prop::collection::vec((0..6u8, any::<u16>(), any::<u32>(), 0..4u8), 1..12)
    ) {
        let (mut bytes, model) = sample();
        let geometry = model.geometry().clone();
        let layout = Layout::new(&geometry, 15).expect("small");
        for (table, at, value, shape) in fields {
            let value = match shape {
                0 => value % 8,
                1 => u32::MAX - value % 3,
                _ => value,
            };
            let (address, start, length) = match table {
                0 => (0, 0, ALIGN as usize),
                1 | 2 => {
                    let block = u32::from(at) % geometry.blocks();
                    (block, layout.block(BlockId::new(block)) as usize, BLOCK_SLOT)
                }
                _ => {
                    let ppn = u32::from(at) % geometry.pages();
                    (ppn, layout.record(strobe_types::Ppn::new(ppn)) as usize, RECORD_SLOT)
                }
            };
            // Only fields are modified, which lie within the first 176 bytes of a slot.
            let field = usize::from(at >> 4) % ((length.min(180) - 4) / 4) * 4;
            let slot = &mut bytes[start..start + length];
            if table > 0 || field >= 12 {
                slot[field..field + 4].copy_from_slice(&value.to_le_bytes());
            }
            let crc = crc32c::crc32c_append(crc32c::crc32c(&address.to_le_bytes()), &slot[..length - 4]);
            slot[length - 4..].copy_from_slice(&crc.to_le_bytes());
        }
        prop_assume!(survive(bytes));
    }
}
