//! Traces that are one file for each CPU, merged by time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Position;
use super::blktrace::Records;
use super::line::{Line, Source};
use super::problem::Problem;

/// What stands before the number of the CPU in the names that blktrace gives.
const MARK: &str = ".blktrace.";

/// The files of the trace at `path`: `NAME.blktrace.0` and its siblings if `path` is one of them, or if it names no
/// file and is `NAME` or `NAME.blktrace`. Otherwise `path` alone. Ordered by CPU.
pub(super) fn files(path: &Path) -> Vec<PathBuf> {
    let alone = || vec![path.to_path_buf()];
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return alone() };
    let stem = match split(name) {
        Some((stem, _)) => stem,
        None if path.exists() => return alone(),
        None => name.strip_suffix(".blktrace").unwrap_or(name),
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(entries) = folder.read_dir() else { return alone() };
    let mut found = BTreeMap::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some((own, cpu)) = name.to_str().and_then(split) else { continue };
        // The one that was asked for, where there is the same plain and compressed.
        let file = path.with_file_name(&name);
        if own == stem && (file == path || !found.contains_key(&cpu)) {
            found.insert(cpu, file);
        }
    }
    if found.is_empty() { alone() } else { found.into_values().collect() }
}

/// `NAME` and the CPU of `NAME.blktrace.CPU`, which may end in `.gz`.
fn split(name: &str) -> Option<(&str, u32)> {
    let (stem, cpu) = name.strip_suffix(".gz").unwrap_or(name).rsplit_once(MARK)?;
    let is_number = cpu.bytes().all(|byte| byte.is_ascii_digit());
    if stem.is_empty() || !is_number { None } else { Some((stem, cpu.parse().ok()?)) }
}

/// The records of several files by their times; of equal times the one of the first file comes first.
pub(super) struct Merged {
    files: Vec<Records>,
    /// Time of the record that each file has loaded; `None` at its end.
    times: Vec<Option<u64>>,
    /// The file that was read or decoded last; `None` before the first one.
    last: Option<usize>,
    number: u64,
}

impl Merged {
    pub(super) fn new(files: Vec<Records>) -> Self {
        let times = vec![None; files.len()];
        Self { files, times, last: None, number: 0 }
    }

    /// Reads the next record of file `at`.
    fn load(&mut self, at: usize) -> Result<(), Problem> {
        self.last = Some(at);
        let file = &mut self.files[at];
        self.times[at] = file.load()?.then(|| file.time());
        Ok(())
    }
}

impl Source for Merged {
    fn next(&mut self) -> Result<Option<Line<'_>>, Problem> {
        self.number += 1;
        match self.last {
            Some(at) => self.load(at)?,
            None => (0..self.files.len()).try_for_each(|at| self.load(at))?,
        }
        let times = self.times.iter().enumerate().filter_map(|(at, time)| time.map(|time| (time, at)));
        let Some((_, at)) = times.min() else { return Ok(None) };
        self.last = Some(at);
        self.files[at].decode().map(Some)
    }

    fn position(&self) -> Position {
        Position::Record(self.number)
    }

    fn place(&self) -> Option<(&str, Position)> {
        self.last.map(|at| (self.files[at].name(), self.files[at].position()))
    }

    fn text(&self) -> String {
        self.last.map_or(String::new(), |at| self.files[at].text())
    }
}
