//! A trace in several files, merged by time.

use super::error::Position;
use super::line::{Line, Source};
use super::problem::Problem;

pub(super) trait Timed: Source {
    /// Loads the next record without decoding it. False at the end of the file.
    fn load(&mut self) -> Result<bool, Problem>;

    fn time(&self) -> u64;

    fn decode(&mut self) -> Result<Line<'_>, Problem>;

    fn name(&self) -> &str;
}

/// Files of one trace; ties go to the first file.
pub(super) struct Merged<S> {
    files: Vec<S>,
    times: Vec<Option<u64>>,
    last: Option<usize>,
    number: u64,
}

impl<S: Timed> Merged<S> {
    pub(super) fn new(files: Vec<S>) -> Self {
        let times = vec![None; files.len()];
        Self { files, times, last: None, number: 0 }
    }

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
        // Every file has one record loaded; only the file of the last record needs its next one.
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
