//! Streams of a placement.

use std::ops::Range;

/// Streams that a placement of your own, or a formula, chooses from.
///
/// Stream 0 is the host's. Each stream has open blocks of its own, one on each plane, which are taken off the capacity. For
/// each stream of relocated units an erased block is kept on each plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLayout {
    /// Streams of host writes: 0 to `host` - 1.
    pub host: u8,
    /// First stream of relocated units, and the one behind the last. They may be the host's.
    pub copies: (u8, u8),
    /// Placement handles that writes may name.
    pub handles: u8,
}

impl StreamLayout {
    /// Most streams of a placement.
    pub const MOST: u8 = 64;

    /// Streams 0 to `host` - 1 for the host, `copies.0` to `copies.1` - 1 for relocated units, and no placement handles.
    pub const fn new(host: u8, copies: (u8, u8)) -> Self {
        Self { host, copies, handles: 1 }
    }

    /// Streams that take both host writes and relocated units.
    pub const fn shared(streams: u8) -> Self {
        Self::new(streams, (0, streams))
    }

    /// Streams of the host, and behind them those of relocated units.
    pub const fn separate(host: u8, copies: u8) -> Self {
        Self::new(host, (host, host + copies))
    }

    /// True if host and relocated units have a stream each, and there are not too many.
    pub fn is_sound(&self) -> bool {
        let (first, end) = self.copies;
        self.host >= 1 && first < end && end.max(self.host) <= Self::MOST && self.handles >= 1
    }

    pub(crate) fn ranges(&self) -> (Range<u8>, Range<u8>, u8) {
        let (first, end) = self.copies;
        (0..self.host, first..end, end - first)
    }
}
