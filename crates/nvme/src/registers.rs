//! Controller registers (NVMe base specification 2.0, section 3.1.3).

/// Maximum entries of a queue (CAP.MQES plus 1).
///
/// A doorbell on PCI is a message that the guest does not wait for. The guest's driver holds 256 such
/// messages, drops further ones, and frees messages only on an interrupt. Queues therefore have fewer
/// entries.
pub const ENTRIES_MAX: u32 = 128;

/// Offset of the doorbells, four bytes each.
const DOORBELLS: u64 = 0x1000;
const CC: u64 = 0x14;
const AQA: u64 = 0x24;
const ASQ: u64 = 0x28;
const ACQ: u64 = 0x30;
pub(crate) const VERSION: u32 = 0x0002_0000;

/// Controller action after a register write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No action.
    Nothing,
    /// Enable the controller.
    Enable,
    /// Delete all queues.
    Reset,
    /// Make all data durable.
    Shutdown,
    /// A submission queue has new commands up to `tail`.
    Submission {
        /// Queue number.
        queue: u16,
        /// Index after the last command.
        tail: u32,
    },
    /// The host has consumed a completion queue up to `head`.
    Completion {
        /// Queue number.
        queue: u16,
        /// Index of the first unconsumed entry.
        head: u32,
    },
}

/// Controller registers.
#[derive(Debug, Default)]
pub struct Registers {
    configuration: u32,
    is_ready: bool,
    is_fatal: bool,
    /// CSTS.SHST.
    shutdown: u32,
    admin_sizes: u32,
    admin_bases: [u64; 2],
}

impl Registers {
    /// Reads `bytes` bytes at `address`. Undefined registers read as zeros.
    pub fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        // Capabilities: contiguous queues, ready within ten seconds, NVM command set.
        let capabilities = u64::from(ENTRIES_MAX - 1) | 1 << 16 | 20 << 24 | 1 << 37;
        let status = u32::from(self.is_ready) | u32::from(self.is_fatal) << 1 | self.shutdown << 2;
        let mut all = [0; 0x40];
        let mut put = |at: usize, bytes: &[u8]| all[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &capabilities.to_le_bytes());
        put(8, &VERSION.to_le_bytes());
        put(CC as usize, &self.configuration.to_le_bytes());
        put(0x1c, &status.to_le_bytes());
        put(AQA as usize, &self.admin_sizes.to_le_bytes());
        put(ASQ as usize, &self.admin_bases[0].to_le_bytes());
        put(ACQ as usize, &self.admin_bases[1].to_le_bytes());
        let from = usize::try_from(address).unwrap_or(usize::MAX);
        (0..bytes).map(|at| from.checked_add(at).and_then(|at| all.get(at)).copied().unwrap_or(0)).collect()
    }

    /// Writes a four-byte register.
    pub fn write(&mut self, address: u64, value: u32) -> Effect {
        let part = |base: u64, is_high: bool| {
            if is_high {
                base & 0xffff_ffff | u64::from(value) << 32
            } else {
                base & !0xffff_ffff | u64::from(value)
            }
        };
        match address {
            CC => return self.configure(value),
            AQA => self.admin_sizes = value & 0x0fff_0fff,
            // Queues are page aligned.
            ASQ | 0x2c => self.admin_bases[0] = part(self.admin_bases[0], address != ASQ) & !0xfff,
            ACQ | 0x34 => self.admin_bases[1] = part(self.admin_bases[1], address != ACQ) & !0xfff,
            DOORBELLS.. if address.is_multiple_of(4) => {
                let number = (address - DOORBELLS) / 4;
                let Ok(queue) = u16::try_from(number / 2) else { return Effect::Nothing };
                return if number.is_multiple_of(2) {
                    Effect::Submission { queue, tail: value & 0xffff }
                } else {
                    Effect::Completion { queue, head: value & 0xffff }
                };
            }
            _ => {}
        }
        Effect::Nothing
    }

    fn configure(&mut self, value: u32) -> Effect {
        let before = std::mem::replace(&mut self.configuration, value);
        let shuts_down = |value: u32| value >> 14 & 3 != 0;
        // CC.EN rises: enable. CC.EN falls: reset. CC.SHN becomes non-zero: shutdown.
        match (before & 1, value & 1) {
            (0, 1) => Effect::Enable,
            (1, 0) => {
                (self.is_ready, self.is_fatal, self.shutdown) = (false, false, 0);
                Effect::Reset
            }
            _ if shuts_down(value) && !shuts_down(before) => {
                self.shutdown = 1;
                Effect::Shutdown
            }
            _ => Effect::Nothing,
        }
    }

    /// Returns entries and address of the admin submission and completion queue.
    ///
    /// `None` if the guest selects an unsupported command set, page size or arbitration.
    pub fn admin(&self) -> Option<[(u32, u64); 2]> {
        let is_plain = self.configuration >> 4 & 0x3ff == 0;
        let entries = |shift: u32| (self.admin_sizes >> shift & 0xfff) + 1;
        is_plain.then(|| [(entries(0), self.admin_bases[0]), (entries(16), self.admin_bases[1])])
    }

    /// Reports the controller as ready.
    pub fn set_ready(&mut self) {
        self.is_ready = true;
    }

    /// True if the controller is ready and has had no fatal error.
    pub fn is_ready(&self) -> bool {
        self.is_ready && !self.is_fatal
    }

    /// Reports a fatal error, which only a reset clears.
    pub fn set_fatal(&mut self) {
        self.is_fatal = true;
    }

    /// Reports a completed shutdown.
    pub fn set_shut_down(&mut self) {
        self.shutdown = 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(registers: &Registers, at: u64) -> u32 {
        u32::from_le_bytes(registers.read(at, 4).try_into().expect("four bytes"))
    }

    #[test]
    fn a_controller_is_enabled_rung_shut_down_and_reset() {
        let mut registers = Registers::default();
        assert_eq!(word(&registers, 0) & 0xffff, ENTRIES_MAX - 1);
        assert_eq!(word(&registers, 8), VERSION);
        registers.write(AQA, 0x001f_001f);
        registers.write(ASQ, 0x1234_5000);
        registers.write(ASQ + 4, 1);
        registers.write(ACQ, 0x2000);
        assert_eq!(registers.write(CC, 0x0046_0001), Effect::Enable);
        assert_eq!(registers.admin(), Some([(32, 0x1_1234_5000), (32, 0x2000)]));
        registers.set_ready();
        assert_eq!(word(&registers, 0x1c), 1);
        assert_eq!(registers.write(0x1000, 3), Effect::Submission { queue: 0, tail: 3 });
        assert_eq!(registers.write(0x100c, 7), Effect::Completion { queue: 1, head: 7 });
        assert_eq!(registers.write(CC, 0x0046_4001), Effect::Shutdown);
        registers.set_shut_down();
        assert_eq!(word(&registers, 0x1c) >> 2, 2);
        assert_eq!(registers.write(CC, 0x0046_0000), Effect::Reset);
        assert_eq!(word(&registers, 0x1c), 0);
        registers.write(CC, 0x10);
        assert_eq!(registers.admin(), None, "other commands");
        assert_eq!(registers.write(u64::MAX, 1), Effect::Nothing);
        assert_eq!(registers.read(u64::MAX, 2), [0, 0]);
    }
}
