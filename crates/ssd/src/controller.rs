//! What happens between the host's wire and the mapping scheme: firmware and link.

use strobe_nand::Bus;
use strobe_types::SimTime;

/// Firmware costs and link rate, ready to use.
///
/// The firmware handles one command at a time; a full-duplex link moves data to and from the
/// host. All zero costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    command_ns: u64,
    range_ns: u64,
    link_mb_s: u64,
    firmware_free: SimTime,
    to_drive: Bus,
    to_host: Bus,
}

impl Controller {
    pub(crate) fn new(config: &crate::ControllerConfig) -> Self {
        Self {
            command_ns: config.command_ns,
            range_ns: config.range_ns,
            link_mb_s: u64::from(config.link_mb_s),
            firmware_free: SimTime::ZERO,
            to_drive: Bus::default(),
            to_host: Bus::default(),
        }
    }

    /// The firmware takes up a command with `ranges` address ranges; returns when it is done
    /// with it.
    #[inline]
    pub(crate) fn accept(&mut self, now: SimTime, ranges: u64) -> SimTime {
        self.firmware_free = now.max(self.firmware_free) + (self.command_ns + self.range_ns * ranges);
        self.firmware_free
    }

    #[inline]
    pub(crate) fn receive(&mut self, now: SimTime, bytes: u64) -> SimTime {
        let duration = self.transfer_ns(bytes);
        self.to_drive.reserve(now, duration) + duration
    }

    #[inline]
    pub(crate) fn send(&mut self, now: SimTime, bytes: u64) -> SimTime {
        let duration = self.transfer_ns(bytes);
        self.to_host.reserve(now, duration) + duration
    }

    #[inline]
    fn transfer_ns(&self, bytes: u64) -> u64 {
        match self.link_mb_s {
            0 => 0,
            rate => (bytes * 1000).div_ceil(rate),
        }
    }
}
