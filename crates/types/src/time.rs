//! Virtual time.

use crate::Stored;
use std::fmt;
use std::ops::Add;

/// A point in virtual time, in nanoseconds since the start of the simulation.
///
/// Durations are plain `u64` nanoseconds with the unit in their name (`read_ns`). The range is 584 years.
/// Arithmetic saturates, so external input cannot wrap time.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
#[repr(transparent)]
pub struct SimTime(u64);

impl SimTime {
    /// Start of the simulation.
    pub const ZERO: Self = Self(0);

    /// A time `ns` nanoseconds after the start.
    #[inline(always)]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    #[inline(always)]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`; zero if `earlier` is later.
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for SimTime {
    type Output = Self;

    #[inline(always)]
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl fmt::Debug for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}
