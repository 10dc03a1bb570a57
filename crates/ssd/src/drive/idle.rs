//! Detection of an idle host, for mapping schemes that work in idle time.

use strobe_ftl::{BACKGROUND, Inspectable};
use strobe_types::{SimTime, Stored};

use super::Drive;

/// Token of the idle timer: the last one before the tokens of the mapping scheme.
pub(super) const IDLE: u64 = BACKGROUND - 1;

#[derive(Clone, Copy, Debug, Default, Stored)]
pub(super) struct Idle {
    last: SimTime,
    /// True if the timer is set. A timer that is due is set again if commands have arrived since.
    has_timer: bool,
    is_idle: bool,
}

impl<F: Inspectable> Drive<F> {
    #[inline(always)]
    pub(super) fn on_host_command(&mut self, now: SimTime) {
        if let Some(after_ns) = self.idle_after_ns {
            self.host_is_back(now, after_ns);
        }
    }

    fn host_is_back(&mut self, now: SimTime, after_ns: u64) {
        let idle = self.events.idle();
        idle.last = now;
        let was_idle = std::mem::take(&mut idle.is_idle);
        if !std::mem::replace(&mut idle.has_timer, true) {
            self.events.set(now + after_ns, IDLE);
        }
        if was_idle {
            self.ftl.set_idle(false);
        }
    }

    pub(super) fn check_idle(&mut self) {
        let Some(after_ns) = self.idle_after_ns else { return };
        let now = self.events.now();
        let idle = self.events.idle();
        let due = idle.last + after_ns;
        // Commands do not move a timer that is set. It is set again here.
        if now < due {
            return self.events.set(due, IDLE);
        }
        (idle.has_timer, idle.is_idle) = (false, true);
        self.ftl.set_idle(true);
    }
}
