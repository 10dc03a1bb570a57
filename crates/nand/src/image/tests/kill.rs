use super::*;
use crate::PowerCuts;

fn pair(info: &ImageInfo) -> (Disk, FileChip, MemoryChip) {
    let (disk, chip) = create(info);
    (disk, chip, MemoryChip::new(info.geometry.clone(), info.wear, Untimed::default(), info.seed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_image_is_a_chip(info in any_info(), steps in steps(40), later in steps(20)) {
        let (disk, mut chip, mut model) = pair(&info);
        let mut sequence = (0, 0);
        for step in &steps {
            apply(&mut chip, step, &mut sequence.0);
            apply(&mut model, step, &mut sequence.1);
        }
        prop_assert_eq!(compare(&mut chip, &mut model), Ok(()));
        prop_assert_eq!(compare(&mut chip.clone(), &mut model), Ok(()));
        drop(chip);

        let image = Image::on(Box::new(disk.clone())).expect("opens");
        prop_assert_eq!(image.info(), &info);
        let (mut loaded, scan) = FileChip::load_image(&image, Untimed::default()).expect("loads");
        prop_assert_eq!(scan.damage, vec![]);
        prop_assert_eq!(compare(&mut loaded, &mut model), Ok(()));

        // A reopened chip draws other program failures, so the comparison continues only without them.
        let mut reopened = FileChip::open_image(image, Untimed::default()).expect("opens");
        prop_assert_eq!(compare(&mut reopened, &mut model), Ok(()));
        if info.wear.program_fail_rate == 0.0 {
            for step in &later {
                apply(&mut reopened, step, &mut sequence.0);
                apply(&mut model, step, &mut sequence.1);
            }
            prop_assert_eq!(compare(&mut reopened, &mut model), Ok(()));
            prop_assert_eq!(compare(&mut open(disk.bytes()).expect("opens"), &mut model), Ok(()));
        }
    }

    #[test]
    fn a_kill_leaves_the_array_between_two_operations(
        info in any_info(),
        steps in steps(25),
        cut in any::<u64>(),
    ) {
        let (disk, mut chip, mut model) = pair(&info);
        let blank_at = disk.state().log.len();
        let mut file = disk.bytes();
        let mut sequence = (0, 0);
        for step in &steps {
            // A step programs at most one page, because each page is a separate operation.
            let mut before = model.clone();
            let logged = disk.state().log.len();
            let single = match step.clone() {
                Step::Program { block, mut units, cause } => {
                    units.truncate(info.geometry.units_per_page() as usize);
                    Step::Program { block, units, cause }
                }
                other => other,
            };
            apply(&mut chip, &single, &mut sequence.0);
            apply(&mut model, &single, &mut sequence.1);
            let changes = disk.state().log[logged..].to_vec();
            let mut happened = false;
            for change in changes {
                if let Change::Write(at, bytes) = &change && bytes.len() >= 512 {
                    let mut torn = file.clone();
                    let part = (cut % bytes.len() as u64) as usize;
                    State::apply(&mut torn, &Change::Write(*at, bytes[..part].to_vec()));
                    prop_assert_eq!(compare(&mut open(torn).expect("opens"), &mut before), Ok(()));
                }
                State::apply(&mut file, &change);
                let mut left = open(file.clone()).expect("opens");
                happened = happened || compare(&mut left, &mut before).is_err();
                if happened {
                    prop_assert_eq!(compare(&mut left, &mut model), Ok(()));
                }
            }
            prop_assert_eq!(compare(&mut open(file.clone()).expect("opens"), &mut model), Ok(()));
        }
        prop_assert!(blank_at > 0 && file == disk.bytes());
    }
}

#[test]
fn a_killed_creation_leaves_a_blank_file() {
    let info = info(geometry(3, 2, 2, 512), WearConfig { factory_bad_blocks: 1, ..WearConfig::default() });
    let (disk, chip) = create(&info);
    drop(chip);
    let log = disk.state().log.clone();
    let mut file = vec![0; disk.bytes().len()];
    assert!(matches!(open(Vec::new()), Err(ImageError::Blank)));
    for (index, change) in log.iter().enumerate() {
        assert!(matches!(open(file.clone()), Err(ImageError::Blank)), "before write {index}");
        State::apply(&mut file, change);
    }
    assert!(open(file).is_ok());
}

#[test]
fn power_cuts_work_on_images() {
    let info = info(geometry(2, 2, 2, 512), WearConfig::default());
    let (disk, mut chip, mut model) = pair(&info);
    let steps = [
        Step::Program { block: 0, units: vec![(1, 1), (2, 2)], cause: 0 },
        Step::Meta { block: 1, bytes: vec![9; 100], cause: 3 },
        Step::Erase { block: 0, cause: 1 },
    ];
    chip.plan_cuts(crate::CutPlan::Everywhere);
    model.plan_cuts(crate::CutPlan::Everywhere);
    let mut sequence = (0, 0);
    for step in &steps {
        apply(&mut chip, step, &mut sequence.0);
        apply(&mut model, step, &mut sequence.1);
    }
    let (taken, expected) = (chip.take_snapshots(), model.take_snapshots());
    assert_eq!(taken.len(), 6);
    for (mut a, mut b) in taken.into_iter().zip(expected) {
        assert_eq!((a.operation, a.begun), (b.operation, b.begun));
        assert_eq!(compare(&mut a.flash, &mut b.flash), Ok(()));
    }
    assert_eq!(compare(&mut open(disk.bytes()).expect("opens"), &mut model), Ok(()));
}
