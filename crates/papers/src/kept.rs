//! Points that are done, in a file: a run that was stopped goes on, and comes to the same bytes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Digest as _;

use super::PaperError;

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    value: Value,
}

/// What is known already. Without a file everything is forgotten at the end.
#[derive(Debug, Default)]
pub(super) struct Kept {
    known: BTreeMap<String, Value>,
    file: Option<(PathBuf, Mutex<File>)>,
}

/// Identifies a point: what makes it what it is, and the model it is a point of.
pub(super) fn key(kind: &str, point: &impl Serialize) -> String {
    let point = serde_json::to_string(point).unwrap_or_default();
    let digest = sha2::Sha256::digest(format!("{} {kind} {point}", strobe_lab::MODEL));
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Kept {
    /// What is in the file `path`, which is made if there is none.
    pub(super) fn open(path: &Path) -> Result<Self, PaperError> {
        let wrong = |error| PaperError::Kept { path: path.to_owned(), error };
        let text = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(wrong(error)),
        };
        let (mut known, mut whole) = (BTreeMap::new(), 0);
        // What was cut short is done again, and so is all behind it.
        for line in text.split_inclusive(|&byte| byte == b'\n').take_while(|line| line.ends_with(b"\n")) {
            let Ok(Line { key, value }) = serde_json::from_slice(line) else { break };
            known.insert(key, value);
            whole += line.len() as u64;
        }
        if whole == 0 && !text.is_empty() {
            return Err(wrong(std::io::Error::other(
                "this is not a file of points; remove it, or choose another --out",
            )));
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(wrong)?;
        file.set_len(whole).map_err(wrong)?;
        Ok(Self { known, file: Some((path.to_owned(), Mutex::new(file))) })
    }

    /// The point called `key`, if it is known and what is expected.
    pub(super) fn find<R: DeserializeOwned>(&self, key: &str) -> Option<R> {
        serde_json::from_value(self.known.get(key)?.clone()).ok()
    }

    /// Keeps a point.
    pub(super) fn keep(&self, key: String, value: &impl Serialize) -> Result<(), PaperError> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        let write = || {
            let value = serde_json::to_value(value)?;
            let line = serde_json::to_string(&Line { key, value })? + "\n";
            // The lock is poisoned only if a thread has panicked, and the run with it.
            file.lock().map_or(Ok(()), |mut file| file.write_all(line.as_bytes()))
        };
        write().map_err(|error| PaperError::Kept { path: path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_known_again_and_what_was_cut_short_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("points");
        let kept = Kept::open(&path).expect("a new file");
        let third = 1.0 / 3.0;
        kept.keep(key("a", &1), &vec![third]).expect("written");
        kept.keep(key("a", &2), &vec![2.0]).expect("written");
        assert_eq!(kept.find::<Vec<f64>>(&key("a", &1)), None, "a run computes each point once");
        drop(kept);
        let whole = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &whole[..whole.len() - 1]).expect("cut short");
        let kept = Kept::open(&path).expect("the file");
        assert_eq!(kept.find(&key("a", &1)), Some(vec![third]), "to the last bit");
        assert_eq!(kept.find::<Vec<f64>>(&key("a", &2)), None);
        assert_eq!(kept.find::<Vec<f64>>(&key("b", &1)), None, "of another kind");
        assert_eq!(kept.find::<String>(&key("a", &1)), None, "of another form");
        kept.keep(key("a", &2), &vec![2.0]).expect("written");
        drop(kept);
        assert_eq!(std::fs::read(&path).expect("a file"), whole);
    }

    #[test]
    fn a_file_of_something_else_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("points");
        std::fs::write(&path, "a letter\n").expect("written");
        let refused = Kept::open(&path).expect_err("no points").to_string();
        assert!(refused.contains("remove it"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).expect("still there"), "a letter\n");
    }
}
