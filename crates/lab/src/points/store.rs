//! Finished points in an append-only file: a killed study loses only the points in progress.
//!
//! The file has a heading that names the study, then one line of JSON per point:
//!
//! ```text
//! {"strobe_points":1,"of":"sweep, model 0.1.0 3f…"}
//! {"key":"9e…","value":…}
//! ```

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, Error, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// Errors when finished points are read or stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: Error,
    },
    /// The file is not a store of this version.
    #[error(
        "{path} does not contain finished points of this version of Strobe: choose another --out, or remove \
         it"
    )]
    Foreign {
        /// Path of the file.
        path: PathBuf,
    },
    /// The points belong to another study.
    #[error(
        "{path} holds finished points of another study ({theirs}; this is {ours}): choose another --out, or \
         remove it to start again"
    )]
    Other {
        /// Path of the file.
        path: PathBuf,
        /// Study in the heading of the file.
        theirs: String,
        /// Study that opened it.
        ours: String,
    },
    /// A line is not a point.
    #[error(
        "{path}, line {line}, is damaged: remove this line and all after it to keep the earlier points, or \
         remove the file"
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
    /// Another process has the file open.
    #[error("{path} is being written by another process: wait until it ends, or choose another --out")]
    InUse {
        /// Path of the file.
        path: PathBuf,
    },
}

impl StoreError {
    /// True if the request was wrong, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        !matches!(self, Self::File { .. })
    }
}

#[derive(Serialize, Deserialize)]
struct Heading {
    strobe_points: u32,
    of: String,
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    key: String,
    value: T,
}

#[derive(Debug)]
enum Medium {
    File(PathBuf, File),
    Memory(Vec<u8>),
}

/// Values of finished points by their keys.
///
/// Memory holds the positions of the values in the file, not the values. Without a file, memory holds the
/// lines.
#[derive(Debug)]
pub struct Store<T> {
    medium: Medium,
    places: BTreeMap<String, (u64, u32)>,
    end: u64,
    values: PhantomData<fn() -> T>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { medium: Medium::Memory(Vec::new()), places: BTreeMap::new(), end: 0, values: PhantomData }
    }
}

impl<T: Serialize + DeserializeOwned> Store<T> {
    /// Opens the store of the study `of` in the file `path`, or creates it. The file is locked until the
    /// store is dropped.
    ///
    /// An incomplete last line is removed; its point will be computed again. A file of another kind or study
    /// is refused and left unchanged.
    pub fn open(path: &Path, of: &str) -> Result<Self, StoreError> {
        let wrong = |error| StoreError::File { path: path.to_owned(), error };
        let file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(wrong)?;
        // The lock ends with this process, even on a crash. On systems without file locks the user must keep
        // one writer.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(StoreError::InUse { path: path.to_owned() });
        }
        let mut reader = BufReader::new(file.try_clone().map_err(wrong)?);
        let mut store = Self { medium: Medium::File(path.to_owned(), file), ..Self::default() };
        // Read until the last complete line; `store.end` is the end of the valid part. The rest is cut off
        // below.
        let heading = text_of(&Heading { strobe_points: VERSION, of: of.to_owned() });
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(wrong)?;
            if number == 1 {
                // A crash while the heading was written leaves its beginning. The store is then empty.
                if !line.ends_with(b"\n") && heading.as_bytes().starts_with(&line) {
                    break;
                }
                judge(&line, path, of)?;
            } else if line.ends_with(b"\n") {
                let Line::<T> { key, .. } = serde_json::from_slice(&line)
                    .map_err(|_| StoreError::Damaged { path: path.to_owned(), line: number })?;
                store.places.insert(key, (store.end, length as u32));
            } else {
                break;
            }
            store.end += length as u64;
        }
        if let Medium::File(_, file) = &store.medium {
            file.set_len(store.end).map_err(wrong)?;
        }
        if store.end == 0 {
            store.append(&heading)?;
        }
        Ok(store)
    }

    /// Appends a line, whole or not at all.
    fn append(&mut self, text: &str) -> Result<(u64, u32), StoreError> {
        let place = (self.end, text.len() as u32);
        match &mut self.medium {
            Medium::Memory(lines) => lines.extend_from_slice(text.as_bytes()),
            Medium::File(path, file) => {
                if let Err(error) = file.write_all(text.as_bytes()) {
                    // A full disk must not leave a partial line.
                    let _ = file.set_len(self.end);
                    let error = match error.kind() {
                        ErrorKind::StorageFull => Error::other(
                            "the disk is full; finished points are kept: free some space, and run the same \
                             command again to continue",
                        ),
                        _ => error,
                    };
                    return Err(StoreError::File { path: path.clone(), error });
                }
            }
        }
        self.end += text.len() as u64;
        Ok(place)
    }

    /// Stores the value of the point `key`; the last value of a key counts.
    pub fn keep(&mut self, key: &str, value: &T) -> Result<(), StoreError> {
        let place = self.append(&text_of(&Line { key: key.to_owned(), value }))?;
        self.places.insert(key.to_owned(), place);
        Ok(())
    }

    /// Value of the point `key`, if it is finished.
    pub fn find(&self, key: &str) -> Result<Option<T>, StoreError> {
        let Some(&(begin, length)) = self.places.get(key) else { return Ok(None) };
        let parsed = |bytes: &[u8]| Ok(serde_json::from_slice::<Line<T>>(bytes)?.value);
        match &self.medium {
            Medium::Memory(lines) => {
                let value = parsed(&lines[begin as usize..][..length as usize]);
                value.map_err(|error| StoreError::File { path: "memory".into(), error })
            }
            Medium::File(path, file) => {
                let read = || -> std::io::Result<T> {
                    let (mut file, mut bytes) = (file, vec![0; length as usize]);
                    file.seek(SeekFrom::Start(begin))?;
                    file.read_exact(&mut bytes)?;
                    parsed(&bytes)
                };
                read().map_err(|error| StoreError::File { path: path.clone(), error })
            }
        }
        .map(Some)
    }
}

impl<T> Store<T> {
    /// Keys of all finished points.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Removes the file if it has no points.
    pub fn remove_if_empty(self) {
        if let Medium::File(path, _) = self.medium
            && self.places.is_empty()
        {
            // If this fails, the next run reuses the file.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn judge(line: &[u8], path: &Path, of: &str) -> Result<(), StoreError> {
    let path = path.to_owned();
    match serde_json::from_slice::<Heading>(line) {
        Ok(there) if there.strobe_points != VERSION || !line.ends_with(b"\n") => {
            Err(StoreError::Foreign { path })
        }
        Ok(there) if there.of != of => Err(StoreError::Other { path, theirs: there.of, ours: of.to_owned() }),
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Foreign { path }),
    }
}

fn text_of(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect("lines are plain data") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    type Values = Store<Vec<f64>>;

    #[test]
    fn finished_points_are_known_again_and_a_line_cut_short_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("points");
        let third = vec![1.0 / 3.0];
        let mut store = Values::open(&path, "a").expect("a new file");
        store.keep("1", &third).expect("written");
        store.keep("2", &vec![2.0]).expect("written");
        drop(store);
        let whole = std::fs::read(&path).expect("a file");
        let ends: Vec<usize> = (1..=whole.len()).filter(|&at| whole[at - 1] == b'\n').collect();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let mut store = Values::open(&path, "a").expect("the file");
            let known = ends.iter().filter(|&&end| end <= cut).count().saturating_sub(1);
            assert_eq!(store.keys().len(), known, "cut at {cut}");
            for (key, value) in [("1", &third), ("2", &vec![2.0])].into_iter().skip(known) {
                assert_eq!(store.find(key).expect("readable"), None);
                store.keep(key, value).expect("written");
            }
            assert_eq!(store.find("1").expect("readable"), Some(third.clone()), "to the last bit");
            drop(store);
            assert_eq!(std::fs::read(&path).expect("a file"), whole, "cut at {cut}");
        }
    }

    #[test]
    fn the_last_value_of_a_key_counts_with_and_without_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("points");
        for mut store in [Values::default(), Values::open(&path, "a").expect("a new file")] {
            for value in [1.0, 2.0] {
                store.keep("1", &vec![value]).expect("kept");
            }
            assert_eq!(store.find("1").expect("readable"), Some(vec![2.0]));
            assert_eq!(store.find("2").expect("readable"), None);
            assert_eq!(store.keys().collect::<Vec<_>>(), ["1"]);
        }
        let store = Values::open(&path, "a").expect("the file");
        assert_eq!(store.find("1").expect("readable"), Some(vec![2.0]));
        store.remove_if_empty();
        assert!(path.exists(), "it has a point");
        std::fs::remove_file(&path).expect("removed");
        Values::open(&path, "a").expect("a new file").remove_if_empty();
        assert!(!path.exists());
    }

    #[test]
    fn a_file_of_something_else_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("points");
        let heading = "{\"strobe_points\":1,\"of\":\"a\"}\n";
        let cases = [
            ("Dear reader,\n".to_owned(), "does not contain finished points"),
            ("Dear".to_owned(), "does not contain finished points"),
            ("\u{0}\n".to_owned(), "does not contain finished points"),
            // Older files: without a heading, or with another kind.
            ("{\"key\":\"1\",\"value\":[1.0]}\n".to_owned(), "does not contain finished points"),
            ("{\"strobe_sweep\":1,\"model\":\"a\"}\n".to_owned(), "does not contain finished points"),
            (heading.replace(":1", ":2"), "does not contain finished points"),
            (heading.replace("\"a\"", "\"b\""), "another study (b; this is a)"),
            (format!("{heading}{{\"key\":\"1\",\"value\":3}}\n"), "line 2, is damaged"),
            (format!("{heading}\u{0}\n"), "line 2, is damaged"),
        ];
        for (text, says) in cases {
            std::fs::write(&path, &text).expect("written");
            let error = Values::open(&path, "a").expect_err("refused");
            assert!(error.is_bad_request() && error.to_string().contains(says), "{text}: {error}");
            assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
        }
    }

    #[test]
    fn one_process_writes_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("points");
        let _first = Values::open(&path, "a").expect("a store");
        let error = Values::open(&path, "a").expect_err("refused").to_string();
        assert!(error.contains("is being written by another process"), "{error}");
    }
}
