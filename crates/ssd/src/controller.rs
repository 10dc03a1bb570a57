//! Firmware and host link: the stages between the host and the mapping scheme.

use strobe_nand::Bus;
use strobe_types::{Prng, SECTOR_BYTES, SimTime, State};

use crate::TrimConfig;
use crate::command::Range;

/// Firmware, which handles commands one by one, and a full-duplex host link.
#[derive(Clone, Debug, State)]
pub(crate) struct Controller {
    #[state(skip)]
    command_ns: u64,
    #[state(skip)]
    range_ns: u64,
    #[state(skip)]
    trim: TrimConfig,
    #[state(skip)]
    link_mb_s: u64,
    #[state(skip)]
    latency_ns: u64,
    #[state(skip)]
    jitter_ns: u64,
    #[state(skip)]
    write_jitter_ns: u64,
    #[state(skip)]
    throttle_ns: u64,
    #[state(skip)]
    throttle_burst: u64,
    /// Sector after the end of the last trimmed range.
    trim_end: Option<u64>,
    chance: Prng,
    firmware_free: SimTime,
    throttled_until: SimTime,
    to_drive: Bus,
    to_host: Bus,
}

impl Controller {
    pub(crate) fn new(config: &crate::ControllerConfig) -> Self {
        Self {
            command_ns: config.command_ns,
            range_ns: config.range_ns,
            trim: config.trim,
            trim_end: None,
            link_mb_s: u64::from(config.link_mb_s),
            latency_ns: config.latency_ns,
            jitter_ns: config.jitter_ns,
            write_jitter_ns: config.write_jitter_ns,
            throttle_ns: config.write_throttle_ns,
            throttle_burst: config.write_throttle_burst.max(1),
            throttled_until: SimTime::ZERO,
            chance: Prng::derive(1, "jitter"),
            firmware_free: SimTime::ZERO,
            to_drive: Bus::default(),
            to_host: Bus::default(),
        }
    }

    pub(crate) fn seed(&mut self, seed: u64) {
        self.chance = Prng::derive(seed, "jitter");
    }

    /// The idle controller after a power cut.
    pub(crate) fn at_rest(&self) -> Self {
        Self {
            trim_end: None,
            firmware_free: SimTime::ZERO,
            throttled_until: SimTime::ZERO,
            to_drive: Bus::default(),
            to_host: Bus::default(),
            ..self.clone()
        }
    }

    /// Returns the time when the firmware has handled a command.
    #[inline]
    pub(crate) fn accept(&mut self, now: SimTime, ranges: u64) -> SimTime {
        self.firmware_free = now.max(self.firmware_free) + (self.command_ns + self.range_ns * ranges);
        self.firmware_free
    }

    /// Returns the time when the firmware has handled a trim.
    pub(crate) fn accept_trim(&mut self, now: SimTime, ranges: &[Range], unit_sectors: u32) -> SimTime {
        let trim = self.trim;
        let mut more_ns = trim.command_ns + trim.range_ns * ranges.len() as u64;
        let mut bytes = 0;
        for range in ranges.iter().filter(|range| range.sectors > 0) {
            let (start, end) = (range.lba.get(), range.lba.get() + u64::from(range.sectors));
            // A range that begins at the end of the previous one has another cost than a jump, also across
            // commands.
            more_ns += match self.trim_end {
                Some(last) if last == start => trim.adjacent_ns,
                _ => trim.jump_ns,
            };
            more_ns += trim.partial_ns * partial_units(start, end, unit_sectors.into());
            bytes += (end - start) * SECTOR_BYTES;
            self.trim_end = Some(end);
        }
        // 128 bits: the product of the largest price and the largest size exceeds 64.
        let covered_ns = (u128::from(trim.mib_ns) * u128::from(bytes)) >> 20;
        more_ns = more_ns.saturating_add(u64::try_from(covered_ns).unwrap_or(u64::MAX));
        self.firmware_free = self.accept(now, ranges.len() as u64) + more_ns;
        self.firmware_free
    }

    #[inline(always)]
    pub(crate) fn takes_time(&self, now: SimTime) -> bool {
        self.command_ns != 0
            || self.range_ns != 0
            || self.link_mb_s != 0
            || self.throttle_ns != 0
            || self.firmware_free > now
    }

    #[inline]
    pub(crate) fn receive(&mut self, now: SimTime, bytes: u64) -> SimTime {
        let duration = self.transfer_ns(bytes);
        self.to_drive.reserve(now, duration)
    }

    #[inline]
    pub(crate) fn throttle(&mut self, now: SimTime) -> SimTime {
        if self.throttle_ns == 0 {
            return now;
        }
        // Token bucket as a virtual clock. Each write advances the clock by `throttle_ns`, and waits until
        // the clock is ahead of time by at most the burst.
        self.throttled_until = now.max(self.throttled_until) + self.throttle_ns;
        let ahead = self.throttled_until.since(now);
        now + ahead.saturating_sub(self.throttle_ns * self.throttle_burst)
    }

    #[inline]
    pub(crate) fn send(&mut self, now: SimTime, bytes: u64) -> SimTime {
        let duration = self.transfer_ns(bytes);
        self.to_host.reserve(now, duration)
    }

    #[inline(always)]
    pub(crate) fn answer(&mut self, done: SimTime, is_write: bool) -> SimTime {
        let write_jitter_ns = if is_write { self.varying(self.write_jitter_ns) } else { 0 };
        done + self.latency_ns + self.varying(self.jitter_ns) + write_jitter_ns
    }

    #[inline(always)]
    fn varying(&mut self, mean: u64) -> u64 {
        match mean {
            0 => 0,
            // Inverse transform of the exponential distribution.
            mean => (-libm::log(1.0 - self.chance.unit()) * mean as f64) as u64,
        }
    }

    #[inline]
    fn transfer_ns(&self, bytes: u64) -> u64 {
        match self.link_mb_s {
            0 => 0,
            rate => (bytes * 1000).div_ceil(rate),
        }
    }
}

fn partial_units(start: u64, end: u64, unit_sectors: u64) -> u64 {
    let (head, tail) = (!start.is_multiple_of(unit_sectors), !end.is_multiple_of(unit_sectors));
    if start / unit_sectors == (end - 1) / unit_sectors {
        u64::from(head || tail)
    } else {
        u64::from(head) + u64::from(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ControllerConfig;
    use strobe_types::Lba;

    fn range(lba: u64, sectors: u32) -> Range {
        Range::new(Lba::new(lba), sectors)
    }

    fn cost(controller: &mut Controller, ranges: &[Range]) -> u64 {
        let free = controller.firmware_free;
        controller.accept_trim(SimTime::ZERO, ranges, 8).since(free)
    }

    #[test]
    fn a_trim_without_costs_of_its_own_costs_its_command_and_ranges() {
        let config = ControllerConfig { command_ns: 20_000, range_ns: 300, ..ControllerConfig::default() };
        let (mut trims, mut others) = (Controller::new(&config), Controller::new(&config));
        for ranges in [&[range(0, 8)][..], &[range(8, 3), range(100, 900)], &[range(7, 1), range(0, 0)]] {
            let expected = others.accept(SimTime::ZERO, ranges.len() as u64);
            assert_eq!(trims.accept_trim(SimTime::ZERO, ranges, 8), expected);
        }
    }

    #[test]
    fn each_property_of_a_range_has_its_price() {
        let trim = TrimConfig {
            command_ns: 1_000_000,
            range_ns: 100_000,
            partial_ns: 10_000,
            jump_ns: 1_000,
            adjacent_ns: 100,
            mib_ns: 1 << 11,
        };
        let config = ControllerConfig { command_ns: 5, range_ns: 1, trim, ..ControllerConfig::default() };
        let mut controller = Controller::new(&config);
        // 8 sectors are 4 KiB, a 256th of a MiB: 8 ns.
        assert_eq!(cost(&mut controller, &[range(0, 8)]), 1_101_000 + 6 + 8);
        assert_eq!(cost(&mut controller, &[range(8, 8)]), 1_100_100 + 6 + 8, "goes on across commands");
        assert_eq!(cost(&mut controller, &[range(8, 8)]), 1_101_000 + 6 + 8, "again the same");
        assert_eq!(cost(&mut controller, &[range(17, 8)]), 1_121_000 + 6 + 8, "head and tail");
        assert_eq!(cost(&mut controller, &[range(25, 7)]), 1_110_100 + 6 + 7, "head only");
        assert_eq!(cost(&mut controller, &[range(33, 2)]), 1_111_000 + 6 + 2, "inside one unit");
        let padded = [range(64, 2048), range(9, 0), range(2112, 2048)];
        assert_eq!(
            cost(&mut controller, &padded),
            1_300_000 + 1_100 + 5 + 3 + 2 * 2048,
            "padding has no place"
        );
    }

    /// The oracle is a token bucket, simulated ns by ns.
    #[test]
    fn writes_are_throttled_as_tokens_come() {
        let mut rng = Prng::new(3);
        for (throttle_ns, burst) in [(100, 1), (100, 4), (7, 30)] {
            let config = ControllerConfig {
                write_throttle_ns: throttle_ns,
                write_throttle_burst: burst,
                ..ControllerConfig::default()
            };
            let mut controller = Controller::new(&config);
            // One token comes every throttle_ns if the bucket has space for it.
            let (mut tokens, mut next, mut clock) = (burst, throttle_ns, 0);
            let mut waiting = std::collections::VecDeque::new();
            let mut now = 0;
            for _ in 0..2000 {
                now += u64::from(rng.below(2 * throttle_ns as u32));
                waiting.push_back((controller.throttle(SimTime::from_ns(now)).as_ns(), now));
            }
            let mut taken = 0;
            let mut coming = waiting.into_iter().peekable();
            while let Some(&(expected, arrived)) = coming.peek() {
                if arrived <= clock && tokens > 0 {
                    assert_eq!((taken, clock), (taken, expected), "{throttle_ns} {burst}");
                    // A full bucket starts to refill when a token is taken from it.
                    if tokens == burst {
                        next = clock + throttle_ns;
                    }
                    tokens -= 1;
                    taken += 1;
                    coming.next();
                    continue;
                }
                clock += 1;
                if clock == next {
                    tokens = (tokens + 1).min(burst);
                    next += throttle_ns;
                }
            }
            assert_eq!(taken, 2000);
        }
    }

    #[test]
    fn the_largest_prices_do_not_overflow() {
        let most = 1_000_000_000_000;
        let trim = TrimConfig {
            command_ns: most,
            range_ns: most,
            partial_ns: most,
            jump_ns: most,
            adjacent_ns: most,
            mib_ns: most,
        };
        let mut controller = Controller::new(&ControllerConfig { trim, ..ControllerConfig::default() });
        let ranges = vec![range(1, u32::MAX); 256];
        assert_eq!(controller.accept_trim(SimTime::ZERO, &ranges, 8), SimTime::from_ns(u64::MAX));
        assert_eq!(controller.accept_trim(SimTime::ZERO, &ranges, 8), SimTime::from_ns(u64::MAX));
    }
}
