use super::*;
use crate::files::{FileSystem, Mode};

const BOOT: Class = Class::Boot;
const FAT: Class = Class::Fat;
const ROOT: Class = Class::RootDirectory;
const DIRECTORY: Class = Class::Directory;

const FAT1: u64 = 1;
const FAT2: u64 = FAT1 + 64;
const ROOT_START: u64 = FAT2 + 64;
const DATA: u64 = ROOT_START + 32;

fn volume(offset_sectors: u32) -> FatVolume<MemoryDisk> {
    let disk = MemoryDisk::new(65_536 + offset_sectors).recorded();
    FatVolume::format(disk, &FatFormat { offset_sectors, ..FatFormat::default() }).expect("it is formatted")
}

fn written(fs: &mut FatMount<'_, MemoryDisk>) -> Vec<(u64, u32, Class)> {
    fs.with_device(|disk| {
        let log = disk.log().iter().map(|entry| (entry.sector, entry.count, entry.class)).collect();
        disk.reset_counts();
        log
    })
}

fn mount(volume: &mut FatVolume<MemoryDisk>, mode: Mode) -> FatMount<'_, MemoryDisk> {
    volume.with_device(MemoryDisk::reset_counts);
    let mut fs = volume.mount(MountOptions { mode, ..MountOptions::default() });
    let file = fs.create("first").expect("created");
    fs.write_at(file, 0, &[0; 2048]).expect("written");
    fs.sync(file).expect("synced");
    fs.close(file).expect("closed");
    assert_eq!(written(&mut fs)[0].2, BOOT);
    fs
}

#[test]
fn the_default_format_is_that_of_the_study() {
    let mut volume = volume(0);
    let space = volume.space().expect("space");
    assert_eq!(space, FatSpace { cluster_bytes: 2048, clusters: 16_343, free_clusters: 16_343 });
    assert_eq!(volume.data_start(), DATA);
    let runs = [(0, 1, BOOT), (FAT1, 128, FAT), (ROOT_START, 32, ROOT)];
    let log = volume.with_device(|disk| disk.log().to_vec());
    assert!(log.iter().map(|entry| (entry.sector, entry.count, entry.class)).eq(runs));
}

#[test]
fn appends_of_512_bytes_write_a_table_every_fourth_time() {
    let mut volume = volume(0);
    let mut fs = mount(&mut volume, Mode::Sync);
    let file = fs.create("a").expect("created");
    assert_eq!(written(&mut fs), [(ROOT_START, 1, ROOT)]);
    for append in 0..64 {
        fs.write_at(file, append * 512, &[1; 512]).expect("written");
        let mut expected = vec![(DATA + 4 + append, 1, Class::Data), (ROOT_START, 1, ROOT)];
        if append % 4 == 0 {
            expected.splice(0..0, [(FAT1, 1, FAT), (FAT2, 1, FAT)]);
        }
        assert_eq!(written(&mut fs), expected, "append {append}");
    }
    fs.write_at(file, 0, &[2; 512]).expect("written");
    assert_eq!(written(&mut fs), [(DATA + 4, 1, Class::Data)], "an overwrite changes no entry");
    fs.close(file).expect("closed");
    assert_eq!(written(&mut fs), []);
}

#[test]
fn contents_go_in_requests_of_the_size_asked_for() {
    for (sync_request_sectors, requests) in [(0, 8), (1, 8), (3, 3), (256, 1)] {
        let mut volume = volume(0);
        let mut fs = volume.mount(MountOptions { sync_request_sectors, ..MountOptions::default() });
        let file = fs.create("a").expect("created");
        fs.write_at(file, 0, &[1; 4096]).expect("written");
        assert_eq!(fs.with_device(|disk| disk.written(Class::Data)), ClassCount { requests, sectors: 8 });
    }
}

#[test]
fn a_removal_writes_the_entry_and_each_table_sector_twice() {
    let mut volume = volume(0);
    let mut fs = mount(&mut volume, Mode::Sync);
    let file = fs.create("a").expect("created");
    // 600 clusters from 3 on: entries 3 to 602 lie in three sectors of 256.
    fs.write_at(file, 0, &[1; 600 * 2048]).expect("written");
    fs.close(file).expect("closed");
    written(&mut fs);
    fs.remove("a").expect("removed");
    let tables = |start| (start..start + 3).map(|sector| (sector, 1, FAT));
    let expected: Vec<_> =
        [(ROOT_START, 1, ROOT)].into_iter().chain(tables(FAT1)).chain(tables(FAT2)).collect();
    assert_eq!(written(&mut fs), expected);
}

#[test]
fn a_directory_is_filled_before_it_is_named() {
    let mut volume = volume(31);
    let mut fs = mount(&mut volume, Mode::Sync);
    fs.make_dir("d").expect("made");
    let mut expected = vec![(31 + FAT1, 1, FAT), (31 + FAT2, 1, FAT)];
    expected.extend((31 + DATA + 4..31 + DATA + 8).map(|sector| (sector, 1, DIRECTORY)));
    expected.push((31 + ROOT_START, 1, ROOT));
    assert_eq!(written(&mut fs), expected);
    fs.create("d/a").expect("created");
    assert_eq!(written(&mut fs), [(31 + DATA + 4, 1, DIRECTORY)]);
}

#[test]
fn buffered_changes_wait_and_are_written_in_runs() {
    let mut volume = volume(0);
    let mut fs = mount(&mut volume, Mode::Buffered);
    let file = fs.create("a").expect("created");
    for append in 0..1024 {
        fs.write_at(file, append * 512, &[1; 512]).expect("written");
    }
    assert_eq!(written(&mut fs), []);
    fs.sync(file).expect("synced");
    let mut expected = vec![(FAT1, 2, FAT), (FAT2, 2, FAT), (ROOT_START, 1, ROOT)];
    expected.extend((0..4).map(|run| (DATA + 4 + run * 256, 256, Class::Data)));
    assert_eq!(written(&mut fs), expected);
    fs.sync(file).expect("synced");
    assert_eq!(fs.with_device(|disk| (disk.log().len(), disk.flushes())), (0, 1));
}

#[test]
fn what_a_removed_file_held_is_never_written() {
    let mut volume = volume(0);
    let mut fs = mount(&mut volume, Mode::Buffered);
    let kept = fs.create("kept").expect("created");
    let file = fs.create("a").expect("created");
    fs.write_at(file, 0, &[1; 9000]).expect("written");
    fs.close(file).expect("closed");
    fs.remove("a").expect("removed");
    fs.sync(kept).expect("synced");
    assert_eq!(written(&mut fs), [(FAT1, 1, FAT), (FAT2, 1, FAT), (ROOT_START, 1, ROOT)]);
}

#[test]
fn freed_clusters_are_trimmed_when_asked() {
    let mut volume = volume(5);
    volume.with_device(MemoryDisk::reset_counts);
    let mut fs = volume.mount(MountOptions { discard: true, ..MountOptions::default() });
    for name in ["a", "b"] {
        let file = fs.create(name).expect("created");
        fs.write_at(file, 0, &[1; 3 * 2048]).expect("written");
        fs.close(file).expect("closed");
    }
    fs.remove("a").expect("removed");
    assert_eq!(fs.with_device(|disk| disk.sectors_trimmed()), 12);
    let start = (5 + DATA) as usize * 512;
    let image = fs.with_device(|disk| disk.image()[start..start + 24 * 512].to_vec());
    assert!(image[..12 * 512].iter().all(|&byte| byte != 1) && image[12 * 512..] == [1; 12 * 512]);
}

struct Failing(MemoryDisk, u32);

impl SectorDevice for Failing {
    fn sectors(&self) -> u64 {
        self.0.sectors()
    }
    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError> {
        self.0.read(sector, buffer)
    }
    fn write(&mut self, sector: u64, bytes: &[u8], class: Class) -> Result<(), FileError> {
        if self.1 == 0 {
            return Err(FileError::Io("the device is worn out".into()));
        }
        self.1 -= 1;
        self.0.write(sector, bytes, class)
    }
    fn flush(&mut self) -> Result<(), FileError> {
        self.0.flush()
    }
}

#[test]
fn an_error_of_the_device_arrives_and_what_it_refused_is_tried_again() {
    let device = Failing(MemoryDisk::new(65_536), 6);
    let mut volume = FatVolume::format(device, &FatFormat::default()).expect("it is formatted");
    let mut fs = volume.mount(MountOptions::default());
    let file = fs.create("a").expect("created");
    let refused = fs.write_at(file, 0, &[3; 512]);
    assert_eq!(refused, Err(FileError::Io("the device is worn out".into())));
    fs.with_device(|device| device.1 = 100);
    fs.close(file).expect("closed");
    drop(fs);
    let Failing(disk, _) = volume.unmount().expect("unmounted");
    assert_eq!(disk.image()[DATA as usize * 512..][..513], [[3; 512].as_slice(), &[0]].concat());
}
