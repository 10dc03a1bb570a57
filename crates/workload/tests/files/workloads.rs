use super::support::{Model, Tree, assert_clean, tree_of_directory, tree_of_volume};
use strobe_workload::files::camera::CameraConfig;
use strobe_workload::files::copy_tar::CopyTarConfig;
use strobe_workload::files::fat::{Class, FatFormat, FatVolume, MemoryDisk, MountOptions};
use strobe_workload::files::filemicro_delete::FilemicroDeleteConfig;
use strobe_workload::files::postmark::PostmarkConfig;
use strobe_workload::files::tiobench::TiobenchConfig;
use strobe_workload::files::varmail::VarmailConfig;
use strobe_workload::files::{FileSystem, FileWorkload, Mode};

fn small_workloads() -> Vec<(&'static str, Box<dyn FileWorkload>)> {
    let postmark = PostmarkConfig { files: 120, subdirectories: 3, ..PostmarkConfig::default() };
    let camera = CameraConfig { photo_min_bytes: 3000, photo_max_bytes: 5000, ..CameraConfig::default() };
    let varmail =
        VarmailConfig { files: 200, file_mean_bytes: 3000, steps: 4000, ..VarmailConfig::default() };
    let delete = FilemicroDeleteConfig {
        files: 400,
        file_bytes: 6000,
        deletes: 150,
        ..FilemicroDeleteConfig::default()
    };
    let tiobench = TiobenchConfig {
        file_bytes: 4 << 20,
        random_write_bytes: 1 << 20,
        random_read_bytes: 1 << 20,
        sequential_read: true,
        ..TiobenchConfig::default()
    };
    let copy_tar = CopyTarConfig { archive_bytes: 3 << 20, ..CopyTarConfig::default() };
    vec![
        ("postmark", Box::new(postmark)),
        ("camera", Box::new(camera)),
        ("varmail", Box::new(varmail)),
        ("filemicro_delete", Box::new(delete)),
        ("tiobench", Box::new(tiobench)),
        ("copy_tar", Box::new(copy_tar)),
    ]
}

fn run_on_fat(workload: &dyn FileWorkload, format: &FatFormat, options: MountOptions) -> (MemoryDisk, Tree) {
    let disk = MemoryDisk::new(format.offset_sectors + format.volume_sectors).recorded();
    let mut volume = FatVolume::format(disk, format).expect("the volume is formatted");
    volume.with_device(MemoryDisk::reset_counts);
    let mut fs = volume.mount(options);
    let mut model = Model::new(&mut fs);
    workload.run(&mut model, 42, &mut ()).expect("the workload runs");
    let tree = model.tree;
    drop(fs);
    (volume.unmount().expect("the volume is unmounted"), tree)
}

#[test]
fn volumes_are_clean_and_hold_what_was_written() {
    let format = FatFormat { offset_sectors: 13, ..FatFormat::default() };
    for (name, workload) in small_workloads() {
        for mode in [Mode::Sync, Mode::Buffered] {
            for discard in [false, true] {
                let options = MountOptions { mode, discard, ..MountOptions::default() };
                let (disk, tree) = run_on_fat(&*workload, &format, options);
                let image = &disk.image()[13 * 512..];
                assert!(tree_of_volume(image) == tree, "{name}, {options:?}");
                assert_clean(image);
                assert_eq!(disk.sectors_trimmed() > 0, discard && !["tiobench", "copy_tar"].contains(&name));
            }
        }
    }
}

#[test]
fn the_same_seed_writes_the_same_log() {
    for (name, workload) in small_workloads() {
        for mode in [Mode::Sync, Mode::Buffered] {
            let run = || {
                run_on_fat(
                    &*workload,
                    &FatFormat::default(),
                    MountOptions { mode, ..MountOptions::default() },
                )
                .0
            };
            let (first, second) = (run(), run());
            assert!(first.log() == second.log() && first.image() == second.image(), "{name}, {mode:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_directory_of_the_machine_ends_up_the_same() {
    use strobe_workload::files::posix::PosixFileSystem;
    for (name, workload) in small_workloads() {
        let (_, tree) = run_on_fat(&*workload, &FatFormat::default(), MountOptions::default());
        // Synchronous runs take minutes; a small one is below.
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut fs = PosixFileSystem::new(directory.path(), Mode::Buffered).expect("it exists");
        let mut model = Model::new(&mut fs);
        workload.run(&mut model, 42, &mut ()).expect("the workload runs");
        assert!(model.tree == tree, "{name}: the model");
        assert!(tree_of_directory(directory.path()) == tree, "{name}: the directory");
    }
}

#[cfg(unix)]
#[test]
fn a_directory_of_the_machine_is_written_synchronously() {
    use strobe_workload::files::posix::PosixFileSystem;
    let workload =
        PostmarkConfig { files: 5, transactions: 10, subdirectories: 2, ..PostmarkConfig::default() };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut fs = PosixFileSystem::new(directory.path(), Mode::Sync).expect("it exists");
    workload.run(&mut Model::new(&mut fs), 42, &mut ()).expect("the workload runs");
    assert!(tree_of_directory(directory.path()).is_empty());
}

fn requests(workload: &dyn FileWorkload, seed: u64) -> [u64; 5] {
    let mut volume =
        FatVolume::format(MemoryDisk::new(65_536), &FatFormat::default()).expect("it is formatted");
    volume.with_device(MemoryDisk::reset_counts);
    let mut fs = volume.mount(MountOptions::default());
    workload.run(&mut fs, seed, &mut ()).expect("the workload runs");
    drop(fs);
    let disk = volume.unmount().expect("the volume is unmounted");
    assert_clean(disk.image());
    Class::ALL.map(|class| disk.written(class).requests)
}

/// Nearly six of ten writes are metadata: 1.5 per write of contents, fewer where an append spans two sectors.
#[test]
fn metadata_takes_the_share_that_the_study_found() {
    let camera = requests(&CameraConfig::default(), 1);
    let postmark = requests(&PostmarkConfig::hot_metadata(), PostmarkConfig::SEED);
    println!("camera {camera:?}\npostmark {postmark:?}");
    for counts in [camera, postmark] {
        let share = 1.0 - counts[0] as f64 / counts.iter().sum::<u64>() as f64;
        assert!((0.57..0.61).contains(&share), "{counts:?}: {share}");
    }
    assert_eq!(camera[Class::Directory as usize], 0, "all photos lie in the root");
}

#[test]
fn reading_reaches_the_device_once() {
    let mut volume =
        FatVolume::format(MemoryDisk::new(65_536), &FatFormat::default()).expect("it is formatted");
    let mut fs = volume.mount(MountOptions::default());
    let file = fs.create("a").expect("created");
    fs.write_at(file, 0, &[7; 10_000]).expect("written");
    fs.close(file).expect("closed");
    drop(fs);
    let mut disk = volume.unmount().expect("the volume is unmounted");
    disk.reset_counts();
    let mut volume = FatVolume::open(disk, 0).expect("it opens");
    let mut fs = volume.mount(MountOptions::default());
    let file = fs.open("a").expect("opened");
    let mut buffer = [0; 20_000];
    assert_eq!(fs.read_at(file, 0, &mut buffer), Ok(10_000));
    assert!(buffer[..10_000] == [7; 10_000]);
    // Boot sector twice (once for the layout), one sector each of table and root, twenty of
    // contents.
    let read = fs.with_device(|disk| disk.sectors_read());
    assert_eq!(read, 2 + 1 + 1 + 20);
    assert_eq!(fs.read_at(file, 0, &mut buffer), Ok(10_000));
    assert_eq!(fs.with_device(|disk| disk.sectors_read()), read);
}
