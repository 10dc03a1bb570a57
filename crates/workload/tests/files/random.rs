use super::support::{Model, Tree, assert_clean, tree_of_volume};
use proptest::prelude::*;
use strobe_workload::files::fat::{FatFormat, FatVolume, MemoryDisk, MountOptions};
use strobe_workload::files::{FileError, FileSystem, Mode};

#[derive(Clone, Debug)]
enum Step {
    MakeDir(u8),
    RemoveDir(u8),
    Write { name: u8, at: u32, bytes: u32, fill: u8 },
    Read(u8),
    Remove(u8),
    Mount { buffered: bool, discard: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0..3u8).prop_map(Step::MakeDir),
        1 => (0..3u8).prop_map(Step::RemoveDir),
        12 => (any::<u8>(), any::<u32>(), 0..250_000u32, any::<u8>())
            .prop_map(|(name, at, bytes, fill)| Step::Write { name, at, bytes, fill }),
        2 => any::<u8>().prop_map(Step::Read),
        4 => any::<u8>().prop_map(Step::Remove),
        1 => any::<(bool, bool)>().prop_map(|(buffered, discard)| Step::Mount { buffered, discard }),
    ];
    prop::collection::vec(step, 1..300)
}

fn path(name: u8) -> String {
    let file = ["a", "B.TXT", "longer than thirteen.text"][name as usize % 3];
    let number = name / 12 % 4;
    match name % 4 {
        0 => format!("{number}{file}"),
        directory => format!("d{}/{number}{file}", directory - 1),
    }
}

fn take(model: &mut Model<'_>, step: &Step) -> Result<(), FileError> {
    match *step {
        Step::MakeDir(number) => model.make_dir(&format!("d{number}")),
        Step::RemoveDir(number) => model.remove_dir(&format!("d{number}")),
        Step::Remove(name) => model.remove(&path(name)),
        Step::Mount { .. } => Ok(()),
        Step::Read(name) => {
            let file = model.open(&path(name))?;
            let mut buffer = vec![0; 1 << 20];
            model.read_at(file, 0, &mut buffer)?;
            model.close(file)
        }
        Step::Write { name, at, bytes, fill } => {
            let file = match model.create(&path(name)) {
                Err(FileError::Exists(_)) => model.open(&path(name))?,
                other => other?,
            };
            let size = model.size(file)?;
            let written = model.write_at(file, u64::from(at) % (size + 1), &vec![fill; bytes as usize]);
            model.close(file)?;
            written
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_leave_what_the_model_has(steps in steps()) {
        let format =
            FatFormat { volume_sectors: 4220, cluster_sectors: 1, root_slots: 32, ..FatFormat::default() };
        let mut disk = MemoryDisk::new(4220);
        let mut volume = FatVolume::format(disk, &format).expect("it is formatted");
        let mut options = MountOptions::default();
        let mut tree = Tree::new();
        for steps in steps.split_inclusive(|step| matches!(step, Step::Mount { .. })) {
            let mut fs = volume.mount(options);
            let mut model = Model::new(&mut fs);
            model.tree = tree;
            for step in steps {
                if let Err(error @ (FileError::Io(_) | FileError::NotOpen)) = take(&mut model, step) {
                    panic!("{step:?}: {error}");
                }
                if let Step::Mount { buffered, discard } = *step {
                    let mode = if buffered { Mode::Buffered } else { Mode::Sync };
                    options = MountOptions { mode, discard, ..MountOptions::default() };
                }
            }
            tree = model.tree;
            drop(fs);
            disk = volume.unmount().expect("it is unmounted");
            prop_assert!(tree_of_volume(disk.image()) == tree);
            volume = FatVolume::open(disk, 0).expect("it opens");
        }
        let disk = volume.unmount().expect("it is unmounted");
        assert_clean(disk.image());
    }
}
