use super::*;

fn history() -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..3u32 {
        for page in 0..3u32 {
            steps.push(Step::Program {
                block: round % 2,
                units: vec![(page, 1), (page + 10, 0), (page + 5, 3)],
                cause: 0,
            });
        }
        steps.push(Step::Meta { block: 2, bytes: vec![round as u8 + 1; 700], cause: 3 });
        steps.push(Step::Erase { block: round % 2, cause: 1 });
    }
    steps
}

#[test]
fn a_full_disk_stops_the_chip_and_leaves_the_image_whole() {
    let info = info(geometry(3, 4, 3, 512), WearConfig::default());
    let mut free_bytes = 0;
    loop {
        let (disk, mut chip) = create(&info);
        disk.state().free_bytes = Some(free_bytes);
        let mut model = MemoryChip::new(info.geometry.clone(), info.wear, Untimed::default(), info.seed);
        let mut sequence = (0, 0);
        let mut written = None;
        for step in &history() {
            apply(&mut chip, step, &mut sequence.0);
            if chip.failure().is_none() {
                apply(&mut model, step, &mut sequence.1);
            } else if written.is_none() {
                written = Some(disk.state().log.len());
                // The disk has space again: nothing may be written after the first failure.
                disk.state().free_bytes = None;
            }
        }
        let failure = chip.failure().map(str::to_owned);
        assert_eq!(compare(&mut open(disk.bytes()).expect("opens"), &mut model), Ok(()), "room {free_bytes}");
        let Some(written) = written else {
            assert_eq!(failure, None);
            assert!(free_bytes > 10_000, "the history is long enough to fail in many places");
            return;
        };
        let failure = failure.expect("failed");
        assert!(failure.starts_with("the image could not be written: "), "{failure}");
        assert_eq!(disk.state().log.len(), written, "writes after a failure");
        assert_eq!(chip.clone().failure(), Some(failure.as_str()), "a clone does not hide it");
        free_bytes += 37;
    }
}

#[test]
fn a_read_error_fails_the_chip_and_serves_nothing() {
    let info = info(geometry(2, 2, 2, 512), WearConfig::default());
    let (disk, mut chip) = create(&info);
    apply(&mut chip, &Step::Program { block: 0, units: vec![(1, 1), (2, 2)], cause: 0 }, &mut 0);
    disk.state().reads_fail = true;
    let first = info.geometry.first_unit(BlockId::new(0));
    assert_eq!(chip.payload(first), UnitBytes::zero());
    assert_eq!(chip.failure(), Some("the image could not be read: the disk is broken"));
    disk.state().reads_fail = false;
    assert_eq!(chip.payload(first.plus(1)), UnitBytes::zero(), "nothing is served after a failure");

    disk.state().reads_fail = true;
    assert!(matches!(Image::on(Box::new(disk)), Err(ImageError::Io { doing: "read", .. })));
}

#[test]
fn creation_on_a_full_disk_is_refused() {
    let info = info(geometry(3, 4, 3, 512), WearConfig::default());
    let layout = Layout::new(&info.geometry, info.config.len() as u32).expect("small");
    let disk = Disk::of(vec![0; layout.length as usize]);
    disk.state().free_bytes = Some(600);
    let refused = FileChip::on_blank(Box::new(disk), info, layout, Untimed::default());
    assert_eq!(refused.map(|_| ()).map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
}
