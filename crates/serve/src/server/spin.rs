use std::cell::Cell;
use std::num::NonZero;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use strobe_types::SimTime;

use crate::clock::Clock;

const SPIN_MAX: Duration = Duration::from_micros(100);
/// Gap between two clock readings that counts as a preemption. It is shorter than a time slice.
const PREEMPTED: Duration = Duration::from_millis(1);
/// Pause in busy polling after the first preemption. Each further one doubles it.
const BACK_OFF_MIN: Duration = Duration::from_millis(4);
/// Maximum back-off. A preemption this long after the end of a back-off counts as the first.
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// Adaptive busy polling, after KVM's halt polling.
#[derive(Debug)]
pub(super) struct Spin {
    clock: Clock,
    has_cores: bool,
    was_short: Cell<bool>,
    /// Time of the last clock reading while awake.
    polled: Cell<SimTime>,
    back_off: Cell<Duration>,
    spins_from: Cell<SimTime>,
}

impl Spin {
    /// Disables busy polling on a single core, which the client needs.
    pub(super) fn new() -> Self {
        Self {
            clock: Clock::from(SimTime::ZERO),
            has_cores: std::thread::available_parallelism().map_or(1, NonZero::get) > 1,
            was_short: Cell::new(false),
            polled: Cell::new(SimTime::ZERO),
            back_off: Cell::new(Duration::ZERO),
            spins_from: Cell::new(SimTime::ZERO),
        }
    }

    pub(super) fn wait(&self, fds: &mut [PollFd<'_>], timeout: Duration) -> Result<(), Errno> {
        let began = self.poll();
        // Waking a sleeper on an idle core takes longer than serving a request from memory. After a long wait
        // nothing spins: a client that pauses costs one busy poll, an idle server none.
        let is_worthwhile = self.has_cores && self.was_short.get();
        let spin = if is_worthwhile { SPIN_MAX.min(timeout) } else { Duration::ZERO };
        let mut now = began;
        let mut ready = 0;
        // Poll without a timeout. Each clock reading may detect a preemption, which ends the spin.
        while ready == 0 && since(now, began) < spin && now >= self.spins_from.get() {
            ready = poll_for(fds, Duration::ZERO)?;
            now = self.poll();
        }
        if ready == 0 {
            poll_for(fds, timeout.saturating_sub(since(now, began)))?;
            now = self.clock.now();
            // A sleep is no preemption: the gap to the next reading starts here.
            self.polled.set(now);
        }
        self.was_short.set(since(now, began) < SPIN_MAX);
        Ok(())
    }

    /// Starts a back-off if the thread was preempted since the last reading.
    fn poll(&self) -> SimTime {
        let now = self.clock.now();
        self.update_back_off(now);
        now
    }

    fn update_back_off(&self, now: SimTime) {
        // On a busy machine a spinning thread uses up its time slice, while a sleeper is woken at once.
        if since(now, self.polled.replace(now)) > PREEMPTED {
            let is_first = now >= self.spins_from.get() + BACK_OFF_MAX.as_nanos() as u64;
            let doubled = if is_first { BACK_OFF_MIN } else { self.back_off.get() * 2 };
            self.back_off.set(doubled.clamp(BACK_OFF_MIN, BACK_OFF_MAX));
            self.spins_from.set(now + self.back_off.get().as_nanos() as u64);
        }
    }
}

fn since(later: SimTime, earlier: SimTime) -> Duration {
    Duration::from_nanos(later.since(earlier))
}

/// Returns the number of ready files; 0 if a signal came first.
fn poll_for(fds: &mut [PollFd<'_>], timeout: Duration) -> Result<usize, Errno> {
    let timeout = Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
    match poll(fds, Some(&timeout)) {
        Err(Errno::INTR) => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use rustix::event::PollFlags;

    use super::*;

    #[test]
    fn a_wait_ends_when_something_is_ready_and_not_before_its_timeout() {
        let (mut other, link) = UnixStream::pair().expect("a pair");
        let spin = Spin::new();
        let wait = |timeout| {
            let began = spin.clock.now();
            let mut fds = [PollFd::new(&link, PollFlags::IN)];
            spin.wait(&mut fds, timeout).expect("waited");
            (since(spin.clock.now(), began), !fds[0].revents().is_empty())
        };
        for was_short in [false, true] {
            for timeout in [SPIN_MAX / 2, SPIN_MAX * 5] {
                spin.was_short.set(was_short);
                let (waited, is_ready) = wait(timeout);
                assert!(waited >= timeout && !is_ready, "{waited:?} of {timeout:?}");
            }
        }
        other.write_all(b"x").expect("written");
        for was_short in [false, true] {
            spin.was_short.set(was_short);
            assert!(wait(Duration::from_secs(3600)).1);
        }
    }
    #[test]
    fn each_preemption_doubles_the_back_off_until_none_comes_for_a_second() {
        let spin = Spin::new();
        let mut now = SimTime::from_ns(10_000_000_000);
        let mut awake_after = |pause: Duration| {
            now = now + pause.as_nanos() as u64;
            spin.update_back_off(now);
            (spin.back_off.get(), since(spin.spins_from.get(), now))
        };
        for back_off in [4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000].map(Duration::from_millis) {
            assert_eq!(awake_after(PREEMPTED * 2), (back_off, back_off));
        }
        let (back_off, left) = awake_after(PREEMPTED);
        assert_eq!((back_off, left), (BACK_OFF_MAX, BACK_OFF_MAX - PREEMPTED), "not late");
        // A second after the end of the back-off.
        assert_eq!(awake_after(BACK_OFF_MAX * 2).0, BACK_OFF_MIN);
    }
}
