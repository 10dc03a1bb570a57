use std::ops::Range;

/// Streams of a user-defined placement or a formula.
///
/// Stream 0 always takes host writes. Each stream has one open block per plane, which reduces the capacity; each
/// stream of relocated units also reserves one erased block per plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLayout {
    /// Streams of host writes: 0 to `host` - 1.
    pub host: u8,
    /// First stream of relocated units, and the one after the last; may overlap the host's.
    pub copies: (u8, u8),
    /// Placement handles that writes may name.
    pub handles: u8,
}

impl StreamLayout {
    /// Most streams of a placement.
    pub const MOST: u8 = 64;

    /// Streams 0 to `host` - 1 for the host, `copies.0` to `copies.1` - 1 for relocated units; no placement
    /// handles.
    pub const fn new(host: u8, copies: (u8, u8)) -> Self {
        Self { host, copies, handles: 1 }
    }

    /// Streams shared by host writes and relocated units.
    pub const fn shared(streams: u8) -> Self {
        Self::new(streams, (0, streams))
    }

    /// Streams of the host, then of relocated units.
    pub const fn separate(host: u8, copies: u8) -> Self {
        Self::new(host, (host, host + copies))
    }

    /// True if host and relocated units each have a stream, and all numbers are within the limits.
    pub fn is_sound(&self) -> bool {
        let (first, end) = self.copies;
        self.host >= 1 && first < end && end.max(self.host) <= Self::MOST && self.handles >= 1
    }

    pub(crate) fn ranges(&self) -> (Range<u8>, Range<u8>, u8) {
        let (first, end) = self.copies;
        (0..self.host, first..end, end - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_sound_within_its_limits_only() {
        let with = |host, copies, handles| StreamLayout { host, copies, handles }.is_sound();
        for (host, copies) in [(1, (0, 1)), (1, (1, 2)), (64, (0, 64)), (1, (63, 64)), (64, (0, 1))] {
            assert!(with(host, copies, 1), "{host} {copies:?}");
            assert!(!with(host, copies, 0), "without a handle");
        }
        for (host, copies) in [(0, (0, 1)), (1, (1, 1)), (1, (2, 1)), (65, (0, 1)), (1, (63, 65))] {
            assert!(!with(host, copies, 1), "{host} {copies:?}");
        }
    }
}
