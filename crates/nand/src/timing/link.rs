use strobe_types::{SimTime, Stored};

/// A link with one transfer in progress, first come, first served.
#[derive(Clone, Copy, Debug, Default, Stored)]
pub struct Bus {
    free: SimTime,
}

impl Bus {
    /// Reserves `duration_ns` at the first free time from `now` on and returns the end.
    #[inline]
    pub fn reserve(&mut self, now: SimTime, duration_ns: u64) -> SimTime {
        if duration_ns == 0 {
            return now;
        }
        self.free = self.free.max(now) + duration_ns;
        self.free
    }
}
