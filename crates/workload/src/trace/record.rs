//! Binary traces with little-endian records of one size.

use super::Position;
use super::input::Input;
use super::line::{Line, Source};
use super::problem::{Problem, Reason};

/// Opens a binary trace. Records have `bytes` bytes plus the number that `longer` returns for the first
/// record.
pub(super) fn open_records<F>(
    input: Input,
    bytes: usize,
    longer: fn(&[u8]) -> usize,
    parse: F,
) -> Box<dyn Source>
where
    F: FnMut(&[u8]) -> Result<Line<'static>, Reason> + Send + 'static,
{
    Box::new(Records { input, parse, longer, record: vec![0; bytes], length: 0, number: 0 })
}

struct Records<F> {
    input: Input,
    parse: F,
    longer: fn(&[u8]) -> usize,
    record: Vec<u8>,
    length: usize,
    number: u64,
}

impl<F> Source for Records<F>
where
    F: FnMut(&[u8]) -> Result<Line<'static>, Reason> + Send,
{
    fn next(&mut self) -> Result<Option<Line<'_>>, Problem> {
        self.number += 1;
        self.length = 0;
        self.length = self.input.read(&mut self.record)?;
        if self.length == 0 {
            return Ok(None);
        }
        if self.number == 1 && self.length == self.record.len() {
            self.record.resize(self.length + (self.longer)(&self.record), 0);
            self.length += self.input.read(&mut self.record[self.length..])?;
        }
        if self.length < self.record.len() {
            let reason = format!("it has {} of {} bytes", self.length, self.record.len());
            return Err(Problem::Truncated(reason));
        }
        (self.parse)(&self.record).map(Some).map_err(Problem::Malformed)
    }

    fn position(&self) -> Position {
        Position::Record(self.number)
    }

    fn text(&self) -> String {
        self.record[..self.length].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

pub(super) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

pub(super) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from(u16_at(record, at + 2)) << 16 | u32::from(u16_at(record, at))
}

pub(super) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from(u32_at(record, at + 4)) << 32 | u64::from(u32_at(record, at))
}

pub(super) fn scaled(name: &str, number: u64, factor: u64) -> Result<u64, Reason> {
    number.checked_mul(factor).ok_or_else(|| format!("{name} {number} is too large"))
}
