//! A trace in several files, merged by time.

use super::error::Position;
use super::line::{Line, Source};
use super::problem::Problem;

/// A file whose next record can be looked at before it is decoded.
pub(super) trait Timed: Source {
    /// Reads the next record without decoding it. `false` at the end of the file.
    fn load(&mut self) -> Result<bool, Problem>;

    /// Time of the record that was loaded last, in its units.
    fn time(&self) -> u64;

    /// Decodes the record that was loaded last.
    fn decode(&mut self) -> Result<Line<'_>, Problem>;

    /// The name of the file.
    fn name(&self) -> &str;
}

/// The records of several files by their times; of equal times the one of the first file comes first.
pub(super) struct Merged<S> {
    files: Vec<S>,
    /// Time of the record that each file has loaded; `None` at its end.
    times: Vec<Option<u64>>,
    /// The file that was read or decoded last; `None` before the first one.
    last: Option<usize>,
    number: u64,
}

impl<S: Timed> Merged<S> {
    pub(super) fn new(files: Vec<S>) -> Self {
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

impl<S: Timed> Source for Merged<S> {
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
