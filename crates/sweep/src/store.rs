//! What is done, in a file that only grows: a sweep that was killed loses the points in flight, and nothing else.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strobe_lab::MODEL;

use crate::{Outcome, SweepError};

/// The file, in the folder of a sweep.
const NAME: &str = "points.jsonl";

/// Version of the layout of the file.
const VERSION: u32 = 1;

/// The first line: what all the others are of.
#[derive(PartialEq, Serialize, Deserialize)]
struct Heading {
    strobe_sweep: u32,
    model: String,
}

/// Every other line.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    outcome: Outcome,
}

/// Outcomes of points by their keys. Memory holds where they are, not what they say.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    /// Begin and length of the line of each point.
    places: BTreeMap<String, (u64, u32)>,
    end: u64,
}

impl Store {
    /// The store in `folder`, which is made if there is none. It is locked until it is dropped.
    pub fn open(folder: &Path) -> Result<Self, SweepError> {
        let path = folder.join(NAME);
        if let Ok(mut entries) = folder.read_dir()
            && entries.next().is_some()
            && !path.exists()
        {
            return Err(SweepError::Foreign { path: folder.to_owned() });
        }
        let in_folder = |error| SweepError::File { path: folder.to_owned(), error };
        std::fs::create_dir_all(folder).map_err(in_folder)?;
        let wrong = |error| SweepError::File { path: path.clone(), error };
        let file = OpenOptions::new().create(true).read(true).append(true).open(&path).map_err(wrong)?;
        // Until this process ends, however it does. Where files cannot be locked it is up to the user.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(SweepError::InUse { path: folder.to_owned() });
        }
        let mut store = Self { path: path.clone(), file, places: BTreeMap::new(), end: 0 };
        store.read_all(folder)?;
        Ok(store)
    }

    /// Whether a sweep is kept in `folder`.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(NAME).is_file()
    }

    fn read_all(&mut self, folder: &Path) -> Result<(), SweepError> {
        let path = self.path.clone();
        let wrong = |error| SweepError::File { path: path.clone(), error };
        let heading = Heading { strobe_sweep: VERSION, model: MODEL.to_owned() };
        let ours = text_of(&heading);
        let mut reader = BufReader::new(self.file.try_clone().map_err(wrong)?);
        reader.seek(SeekFrom::Start(0)).map_err(wrong)?;
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(wrong)?;
            let is_whole = line.ends_with(b"\n");
            match (number, length) {
                (_, 0) => break,
                (1, _) if !is_whole && ours.as_bytes().starts_with(&line) => break,
                (1, _) => match serde_json::from_slice::<Heading>(&line) {
                    Ok(there) if there == heading => {}
                    Ok(there) => {
                        let (theirs, ours) = (there.model, heading.model);
                        return Err(SweepError::OtherModel { path: folder.to_owned(), theirs, ours });
                    }
                    Err(_) => return Err(SweepError::Foreign { path: folder.to_owned() }),
                },
                // Cut short: it is done again.
                _ if !is_whole => break,
                _ => {
                    let sound = serde_json::from_slice::<Line>(&line);
                    let Line { key, .. } =
                        sound.map_err(|_| SweepError::Damaged { path: path.clone(), line: number })?;
                    self.places.insert(key, (self.end, length as u32));
                }
            }
            self.end += length as u64;
        }
        self.file.set_len(self.end).map_err(wrong)?;
        if self.end == 0 {
            self.append(&ours)?;
        }
        Ok(())
    }

    /// Adds a line, whole or not at all.
    fn append(&mut self, text: &str) -> Result<(u64, u32), SweepError> {
        let place = (self.end, text.len() as u32);
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // A full disk leaves no half of a line, as far as it can be helped.
            let _ = self.file.set_len(self.end);
            let error = match error.kind() {
                ErrorKind::StorageFull => std::io::Error::other(
                    "the disk is full; what is done is kept: make room, and the same command goes on",
                ),
                _ => error,
            };
            return Err(SweepError::File { path: self.path.clone(), error });
        }
        self.end += text.len() as u64;
        Ok(place)
    }

    /// Keeps what came of the point called `key`; the last outcome counts.
    pub fn keep(&mut self, key: &str, outcome: &Outcome) -> Result<(), SweepError> {
        let place = self.append(&text_of(&Line { key: key.to_owned(), outcome: outcome.clone() }))?;
        self.places.insert(key.to_owned(), place);
        Ok(())
    }

    /// Whether something came of the point called `key`.
    pub fn knows(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// The keys of all points of which something came.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// What came of the point called `key`.
    pub fn find(&self, key: &str) -> Result<Option<Outcome>, SweepError> {
        let Some(&(begin, length)) = self.places.get(key) else { return Ok(None) };
        let read = || -> std::io::Result<Outcome> {
            let mut file = &self.file;
            file.seek(SeekFrom::Start(begin))?;
            let mut bytes = vec![0; length as usize];
            file.read_exact(&mut bytes)?;
            Ok(serde_json::from_slice::<Line>(&bytes)?.outcome)
        };
        read().map(Some).map_err(|error| SweepError::File { path: self.path.clone(), error })
    }
}

fn text_of(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect("lines are plain data") + "\n"
}
