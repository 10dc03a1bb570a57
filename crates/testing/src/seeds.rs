//! Seeds of test suites with generated cases. A failing case prints its seed.
//!
//! `STROBE_SLICE=FIRST,SECONDS` runs a slice of a long or endless suite: it begins FIRST seeds after the
//! suite's first one and ends after SECONDS.

// A slice is limited in real time; the number of cases in it is not part of any result.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::ops::Range;
use std::time::{Duration, Instant};

/// Seeds of a suite, in ascending order.
#[derive(Debug)]
pub struct Seeds {
    left: Range<u64>,
    until: Option<Instant>,
}

/// Seeds of `all`. With `STROBE_SLICE`, seeds from the first of the slice until its time is over.
///
/// # Panics
///
/// If `STROBE_SLICE` is not two numbers.
pub fn seeds(all: Range<u64>) -> Seeds {
    let Ok(slice) = std::env::var("STROBE_SLICE") else { return Seeds { left: all, until: None } };
    let (first, seconds) = parsed(&slice)
        .unwrap_or_else(|| panic!("STROBE_SLICE={slice}: give two numbers, FIRST,SECONDS, such as 12345,20"));
    let until = Instant::now() + Duration::from_secs(seconds);
    // A slice has no last seed: only the time limits it.
    Seeds { left: all.start + first..u64::MAX, until: Some(until) }
}

fn parsed(slice: &str) -> Option<(u64, u64)> {
    let (first, seconds) = slice.split_once(',')?;
    // The remainder keeps `all.start + first` from overflowing.
    Some((first.parse::<u64>().ok()? % (1 << 40), seconds.parse().ok()?))
}

impl Seeds {
    /// True if the run takes all seeds, not a slice. Only then must a suite meet its coverage goals.
    pub fn is_whole(&self) -> bool {
        self.until.is_none()
    }

    /// Seed of the next case.
    pub fn next_seed(&self) -> u64 {
        self.left.start
    }
}

impl Iterator for Seeds {
    type Item = Seed;

    fn next(&mut self) -> Option<Seed> {
        let is_over = self.until.is_some_and(|until| Instant::now() >= until);
        if is_over {
            return None;
        }
        self.left.next().map(Seed)
    }
}

/// Seed of the running case. A panic during the case prints it after the panic message.
#[derive(Debug)]
pub struct Seed(u64);

impl Seed {
    /// The seed as a number.
    pub fn get(&self) -> u64 {
        self.0
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            eprintln!("{}: the seed of this failure is {}", thread.name().unwrap_or("a test"), self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_two_numbers() {
        assert_eq!(parsed("12,30"), Some((12, 30)));
        assert_eq!(parsed("18446744073709551615,1"), Some(((1 << 40) - 1, 1)));
        for wrong in ["", "12", "12,", "a,1", "1,-1", "1,2,3"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_slice_ends_with_its_time_and_all_seeds_with_the_last() {
        let over = Seeds { left: 5..9, until: Some(Instant::now()) };
        assert_eq!(over.count(), 0);
        let drawn: Vec<u64> = Seeds { left: 5..9, until: None }.map(|seed| seed.get()).collect();
        assert_eq!(drawn, [5, 6, 7, 8]);
    }
}
