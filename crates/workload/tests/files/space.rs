use super::support::{Model, assert_clean, tree_of_volume};
use strobe_workload::files::fat::{FatFormat, FatVolume, MemoryDisk, MountOptions};
use strobe_workload::files::{FileError, FileSystem, Mode};

const MODES: [Mode; 2] = [Mode::Sync, Mode::Buffered];

fn small() -> FatFormat {
    FatFormat { volume_sectors: 4220, cluster_sectors: 1, root_slots: 32, ..FatFormat::default() }
}

fn volume() -> FatVolume<MemoryDisk> {
    FatVolume::format(MemoryDisk::new(4220), &small()).expect("it is formatted")
}

#[test]
fn a_full_volume_keeps_what_fitted() {
    for mode in MODES {
        let mut volume = volume();
        let clusters = volume.space().expect("space").clusters as usize;
        let mut fs = volume.mount(MountOptions { mode, ..MountOptions::default() });
        let file = fs.create("big").expect("created");
        let bytes: Vec<u8> = (0..(clusters + 9) * 512).map(|i| (i % 251) as u8).collect();
        assert_eq!(fs.write_at(file, 0, &bytes), Err(FileError::NoSpace));
        assert_eq!(fs.size(file), Ok(clusters as u64 * 512));
        assert_eq!(fs.write_at(file, clusters as u64 * 512, &[1]), Err(FileError::NoSpace));
        assert_eq!(fs.write_at(file, 7, &[1]), Ok(()), "no cluster is needed");
        fs.close(file).expect("closed");
        // The root has space for another name, and an empty file needs no cluster.
        let empty = fs.create("empty").expect("created");
        assert_eq!(fs.write_at(empty, 0, &[1]), Err(FileError::NoSpace));
        fs.close(empty).expect("closed");
        assert_eq!(fs.make_dir("d"), Err(FileError::NoSpace));
        drop(fs);
        let disk = volume.unmount().expect("unmounted");
        assert_clean(disk.image());
        let tree = tree_of_volume(disk.image());
        let big = tree["big"].as_ref().expect("a file");
        assert!(big.len() == clusters * 512 && big[7] == 1 && big[8..] == bytes[8..big.len()]);
        assert_eq!(tree["empty"].as_deref(), Some(&[][..]));
        assert_eq!(tree.len(), 2);
    }
}

#[test]
fn a_full_root_refuses_names() {
    for mode in MODES {
        let mut volume = volume();
        let mut fs = volume.mount(MountOptions { mode, ..MountOptions::default() });
        let mut model = Model::new(&mut fs);
        for number in 0..15 {
            let file = model.create(&number.to_string()).expect("created");
            model.close(file).expect("closed");
        }
        // Two of 32 slots are left: a name of three slots does not fit, one of two does.
        assert_eq!(model.create("more than thirteen"), Err(FileError::NoSpace));
        model.make_dir("last").expect("made");
        assert_eq!(model.create("x"), Err(FileError::NoSpace));
        assert_eq!(model.make_dir("y"), Err(FileError::NoSpace));
        let inside = model.create("last/inside").expect("a directory has room");
        model.close(inside).expect("closed");
        let tree = model.tree;
        drop(fs);
        let disk = volume.unmount().expect("unmounted");
        assert_clean(disk.image());
        assert!(tree_of_volume(disk.image()) == tree);
    }
}

#[test]
fn a_directory_that_cannot_grow_refuses_names() {
    for mode in MODES {
        let mut volume = volume();
        let mut fs = volume.mount(MountOptions { mode, ..MountOptions::default() });
        fs.make_dir("d").expect("made");
        let mut names = 0;
        let file = fs.create("fill").expect("created");
        while fs.write_at(file, names * 512, &[0; 512]).is_ok() {
            names += 1;
        }
        let mut made = 0;
        // 16 slots, two for dots: seven names of two slots fit, and none of three in the seventh
        // place.
        let refused = loop {
            match fs.create(&format!("d/{made}")) {
                Ok(file) => fs.close(file).expect("closed"),
                Err(refused) => break refused,
            }
            made += 1;
        };
        assert_eq!((made, refused), (7, FileError::NoSpace));
        fs.remove("d/3").expect("removed");
        assert_eq!(fs.create("d/more than thirteen"), Err(FileError::NoSpace), "three slots");
        drop(fs);
        let disk = volume.unmount().expect("unmounted");
        assert_clean(disk.image());
        assert_eq!(tree_of_volume(disk.image()).len(), 2 + 6);
    }
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    let mut volume = volume();
    let mut fs = volume.mount(MountOptions::default());
    let path = |text: &str| String::from(text);
    fs.make_dir("d").expect("made");
    let file = fs.create("d/f").expect("created");
    assert_eq!(fs.create("d/f"), Err(FileError::Exists(path("d/f"))));
    assert_eq!(fs.create("d"), Err(FileError::Exists(path("d"))));
    assert_eq!(fs.make_dir("d"), Err(FileError::Exists(path("d"))));
    assert_eq!(fs.make_dir("e/g"), Err(FileError::NotFound(path("e"))));
    assert_eq!(fs.open("d/g"), Err(FileError::NotFound(path("d/g"))));
    assert_eq!(fs.open("d/F"), Err(FileError::Busy(path("d/F"))), "names ignore case");
    assert_eq!(fs.remove("d/f"), Err(FileError::Busy(path("d/f"))));
    assert_eq!(fs.remove_dir("d"), Err(FileError::NotEmpty(path("d"))));
    assert!(matches!(fs.remove("d"), Err(FileError::Io(_))));
    assert!(matches!(fs.remove_dir("d/f"), Err(FileError::Io(_))));
    assert!(matches!(fs.write_at(file, 1, &[0]), Err(FileError::Io(_))), "no holes");
    fs.close(file).expect("closed");
    assert_eq!(fs.close(file), Err(FileError::NotOpen));
    assert_eq!(fs.size(file), Err(FileError::NotOpen));
    drop(fs);
    let disk = volume.unmount().expect("unmounted");
    assert_clean(disk.image());
    assert_eq!(tree_of_volume(disk.image()).len(), 2);
}

#[test]
fn wrong_formats_are_refused() {
    let refused = |format: FatFormat, sectors: u32| {
        FatVolume::format(MemoryDisk::new(sectors), &format).err().expect("refused").to_string()
    };
    let base = FatFormat::default;
    assert_eq!(
        refused(FatFormat { cluster_sectors: 3, ..base() }, 65_536),
        "cluster_sectors is 3, it must be a power of two from 1 to 64"
    );
    assert_eq!(
        refused(FatFormat { cluster_sectors: 32, ..base() }, 65_536),
        "cluster_sectors is 32, it must be a value that gives 4085 to 65524 clusters; this one gives 2046"
    );
    assert_eq!(
        refused(FatFormat { offset_sectors: 1, ..base() }, 65_536),
        "volume_sectors is 65536, it must be at most 65535, the sectors of the device after offset_sectors"
    );
    let error = FatVolume::open(MemoryDisk::new(65_536), 0).err().expect("nothing there");
    assert_eq!(
        error.to_string(),
        "input or output failed: not a FAT16 volume: the boot sector has no signature"
    );
}
