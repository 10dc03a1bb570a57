//! Power cuts between any two writes of a synchronous run.
//!
//! Guarantees checked after a cut:
//!
//! - a file whose last operation was complete has every byte;
//! - a file during an append has its old bytes and perhaps some new ones;
//! - a file during its removal exists in full or not at all.
//!
//! Not guaranteed: the unclean mark is set, clusters may belong to no file, the two tables may differ, and a
//! file may have more clusters than its size needs. `fsck.fat -a` repairs that without removing a file.

use super::support::{Tree, fsck, tree_of_volume};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use strobe_workload::files::camera::CameraConfig;
use strobe_workload::files::fat::{Class, FatFormat, FatVolume, MountOptions, SectorDevice};
use strobe_workload::files::postmark::PostmarkConfig;
use strobe_workload::files::{FileError, FileId, FileSystem, FileWorkload};

const UNCLEAN: usize = 0x25;

type Write = (usize, Vec<u8>);

#[derive(Clone, Default)]
struct Journal {
    image: Vec<u8>,
    writes: Rc<RefCell<Vec<Write>>>,
}

impl SectorDevice for Journal {
    fn sectors(&self) -> u64 {
        self.image.len() as u64 / 512
    }

    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError> {
        buffer.copy_from_slice(&self.image[sector as usize * 512..][..buffer.len()]);
        Ok(())
    }

    fn write(&mut self, sector: u64, bytes: &[u8], _class: Class) -> Result<(), FileError> {
        let at = sector as usize * 512;
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
        self.writes.borrow_mut().push((at, bytes.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FileError> {
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Made {
    File(Vec<u8>),
    Directory,
    Nothing,
}

struct Event {
    begun: usize,
    done: usize,
    path: String,
    made: Made,
}

struct Oracle<'a> {
    fs: &'a mut dyn FileSystem,
    writes: Rc<RefCell<Vec<Write>>>,
    open: BTreeMap<FileId, String>,
    contents: BTreeMap<String, Vec<u8>>,
    events: Vec<Event>,
}

impl Oracle<'_> {
    fn note(&mut self, begun: usize, path: &str, made: Made) {
        let done = self.writes.borrow().len();
        self.events.push(Event { begun, done, path: path.into(), made });
    }

    fn now(&self) -> usize {
        self.writes.borrow().len()
    }
}

impl FileSystem for Oracle<'_> {
    fn make_dir(&mut self, path: &str) -> Result<(), FileError> {
        let begun = self.now();
        self.fs.make_dir(path)?;
        self.note(begun, path, Made::Directory);
        Ok(())
    }

    fn remove_dir(&mut self, path: &str) -> Result<(), FileError> {
        let begun = self.now();
        self.fs.remove_dir(path)?;
        self.note(begun, path, Made::Nothing);
        Ok(())
    }

    fn create(&mut self, path: &str) -> Result<FileId, FileError> {
        let begun = self.now();
        let file = self.fs.create(path)?;
        self.note(begun, path, Made::File(Vec::new()));
        self.open.insert(file, path.into());
        self.contents.insert(path.into(), Vec::new());
        Ok(file)
    }

    fn open(&mut self, path: &str) -> Result<FileId, FileError> {
        let file = self.fs.open(path)?;
        self.open.insert(file, path.into());
        Ok(file)
    }

    fn size(&mut self, file: FileId) -> Result<u64, FileError> {
        self.fs.size(file)
    }

    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let begun = self.now();
        self.fs.write_at(file, offset, bytes)?;
        let path = self.open[&file].clone();
        let contents = self.contents.get_mut(&path).expect("an open file has contents");
        let end = offset as usize + bytes.len();
        contents.resize(end.max(contents.len()), 0);
        contents[offset as usize..end].copy_from_slice(bytes);
        let made = Made::File(contents.clone());
        self.note(begun, &path, made);
        Ok(())
    }

    fn read_at(&mut self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        self.fs.read_at(file, offset, buffer)
    }

    fn sync(&mut self, file: FileId) -> Result<(), FileError> {
        self.fs.sync(file)
    }

    fn close(&mut self, file: FileId) -> Result<(), FileError> {
        self.open.remove(&file);
        let begun = self.now();
        self.fs.close(file)?;
        assert_eq!(begun, self.now(), "there is nothing left to write at close");
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), FileError> {
        let begun = self.now();
        self.fs.remove(path)?;
        self.note(begun, path, Made::Nothing);
        Ok(())
    }
}

struct Run {
    formatted: Vec<u8>,
    writes: Vec<Write>,
    events: Vec<Event>,
}

fn record(format: &FatFormat, workload: &dyn FileWorkload) -> Run {
    let journal = Journal { image: vec![0; format.volume_sectors as usize * 512], ..Journal::default() };
    let writes = Rc::clone(&journal.writes);
    let mut volume = FatVolume::format(journal, format).expect("it is formatted");
    let formatted = volume.with_device(|device| device.image.clone());
    writes.borrow_mut().clear();
    let mut fs = volume.mount(MountOptions::default());
    let mut oracle = Oracle {
        fs: &mut fs,
        writes: Rc::clone(&writes),
        open: BTreeMap::new(),
        contents: BTreeMap::new(),
        events: Vec::new(),
    };
    workload.run(&mut oracle, 42, &mut ()).expect("the workload runs");
    let events = oracle.events;
    drop(fs);
    let writes = writes.take();
    Run { formatted, writes, events }
}

fn assert_promises(run: &Run, cut: usize, tree: &Tree, when: &str) {
    let mut promised: BTreeMap<&str, &Made> = BTreeMap::new();
    for event in run.events.iter().take_while(|event| event.done <= cut) {
        promised.insert(&event.path, &event.made);
    }
    let pending = run.events.iter().find(|event| event.done > cut).filter(|event| event.begun <= cut);
    for (&path, &made) in &promised {
        let found = match tree.get(path) {
            None => Made::Nothing,
            Some(None) => Made::Directory,
            Some(Some(bytes)) => Made::File(bytes.clone()),
        };
        if found == *made {
            continue;
        }
        let pending = pending.filter(|event| event.path == path);
        let pending = pending.unwrap_or_else(|| panic!("{path} is not as it was, {when} {cut} writes"));
        // Contents are written before the entry with the size, so visible appended bytes must be correct.
        let half_done = match (made, &found, &pending.made) {
            (Made::File(before), Made::File(found), Made::File(after)) => {
                found.starts_with(before) && after.starts_with(found)
            }
            _ => found == pending.made,
        };
        assert!(half_done, "{path} is neither as before nor as after, {when} {cut} writes");
    }
    for path in tree.keys().filter(|path| !promised.contains_key(path.as_str())) {
        assert!(pending.is_some_and(|event| event.path == *path), "{path} appears, {when} {cut} writes");
    }
}

fn cut_every(run: &Run, step: usize) {
    let mut image = run.formatted.clone();
    let (mut cuts, mut accepted, mut damaged) = (0, 0, 0);
    for cut in 0..=run.writes.len() {
        if cut.is_multiple_of(step) {
            assert_promises(run, cut, &tree_of_volume(&image), "after");
            cuts += 1;
            // `fsck.fat` complains about the mark alone; clear it to see other faults.
            let mut unmarked = image.clone();
            unmarked[UNCLEAN] &= !1;
            if let Some(verdict) = fsck(&unmarked, "-n") {
                *(if verdict.exit == 0 { &mut accepted } else { &mut damaged }) += 1;
            }
            if let Some(repaired) = fsck(&image, "-a") {
                assert!(repaired.exit <= 1, "after {cut} writes: {}", repaired.text);
                let again = fsck(&repaired.image, "-n").expect("it has just run");
                assert_eq!(again.exit, 0, "after {cut} writes: {}\nthen: {}", repaired.text, again.text);
                let mut tree = tree_of_volume(&repaired.image);
                // `fsck.fat` collects leaked clusters in files of this name.
                tree.retain(|path, _| !path.starts_with("FSCK"));
                assert_promises(run, cut, &tree, "repaired after");
            }
        }
        if let Some((at, bytes)) = run.writes.get(cut) {
            image[*at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
    println!("{} writes, {cuts} cuts, {accepted} accepted, {damaged} repaired", run.writes.len());
    assert!(cuts > 50 && !run.events.is_empty(), "{cuts} cuts, {} promises", run.events.len());
}

fn format() -> FatFormat {
    FatFormat { volume_sectors: 16_500, root_slots: 64, ..FatFormat::default() }
}

#[test]
fn postmark_keeps_its_promises() {
    let workload = PostmarkConfig {
        files: 12,
        size_min_bytes: 300,
        size_max_bytes: 5000,
        transactions: 25,
        subdirectories: 2,
        ..PostmarkConfig::default()
    };
    let run = record(&format(), &workload);
    cut_every(&run, 3);
}

#[test]
fn camera_keeps_its_promises() {
    let workload = CameraConfig {
        transactions: 4,
        photos: 4,
        photo_min_bytes: 2000,
        photo_max_bytes: 9000,
        photos_kept_max: 8,
        ..CameraConfig::default()
    };
    let run = record(&format(), &workload);
    cut_every(&run, 4);
}
