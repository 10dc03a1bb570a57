//! A link that is asked in the order of time.

use strobe_types::SimTime;

/// Something that carries one transfer at a time, first come, first served.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bus {
    free: SimTime,
}

strobe_types::stored! { struct Bus { free } }

impl Bus {
    /// Books `duration_ns` at the first free time from `now` on; returns the end.
    #[inline]
    pub fn reserve(&mut self, now: SimTime, duration_ns: u64) -> SimTime {
        if duration_ns == 0 {
            return now;
        }
        self.free = self.free.max(now) + duration_ns;
        self.free
    }
}
