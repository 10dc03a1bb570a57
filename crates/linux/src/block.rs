use strobe_ssd::{Command, CommandError};
use strobe_types::SimTime;
use strobe_virtio::{BlockOptions, Chain, GuestMemoryMmap, Host, Returned};

use crate::attached::{Attached, DiskOptions};
use crate::port::Device;

pub(crate) struct Block {
    pub(crate) drive: Attached,
    device: strobe_virtio::Block,
}

struct At<'a> {
    drive: &'a mut Attached,
    now: SimTime,
}

impl Host for At<'_> {
    fn send(&mut self, tag: u64, commands: &[Command<'_>], data: Option<&[u8]>) {
        self.drive.send(self.now, tag, commands, data);
    }

    fn answer(&mut self, tag: u64, result: Result<Vec<u8>, CommandError>) {
        self.drive.answer(self.now, tag, result);
    }
}

impl Block {
    pub(crate) fn new(drive: Attached, options: DiskOptions) -> Self {
        let device = strobe_virtio::Block::new(BlockOptions {
            discard_segments: options.discard_segments,
            copy: options.copy,
            hints: true,
            write_cache: options.write_cache,
            handles: drive.handles(),
            ..BlockOptions::default()
        });
        Self { drive, device }
    }

    fn switch_cache(&mut self) {
        let waits = !self.device.is_forced();
        self.drive.target.drive_mut().set_write_cache(waits);
    }
}

impl Device for Block {
    fn rings(&self) -> usize {
        1
    }

    fn offered_features(&self) -> u64 {
        self.device.offered_features()
    }

    fn set_features(&mut self, features: u64) {
        self.device.set_features(features);
        self.switch_cache();
    }

    fn uses_event_index(&self) -> bool {
        self.device.uses_event_index()
    }

    fn config_space(&self) -> Vec<u8> {
        self.device.config_space(self.drive.target.drive())
    }

    fn set_config(&mut self, offset: u32, bytes: &[u8]) {
        self.device.set_config(offset, bytes);
        self.switch_cache();
    }

    fn take(
        &mut self,
        ring: usize,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        chain: Chain<'_>,
    ) -> Result<(), String> {
        let (tag, now) = (self.drive.new_tag(), self.drive.time(guest_ns));
        self.device.take(ring, memory, chain, tag, &mut At { drive: &mut self.drive, now })
    }

    fn next_event(&self) -> Option<u64> {
        self.drive.next_event()
    }

    /// Advances the drive. Completions are dropped while the driver has not set up a ring.
    fn advance(&mut self, guest_ns: u64, memory: Option<&GuestMemoryMmap>) -> Result<Vec<Returned>, String> {
        let answers = self.drive.advance(guest_ns).into_iter();
        answers.filter_map(|answer| self.device.finish(answer.tag, answer.result, memory)).collect()
    }
}

#[cfg(test)]
mod tests {
    use strobe_ssd::{Command, DriveConfig, Hint, Range};
    use strobe_types::Lba;

    use super::*;

    #[test]
    fn a_drive_goes_on_before_the_guest_has_a_ring() {
        let config = serde_json::json!({
            "nand": {
                "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 64, "pages_per_block": 32,
                "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
                "endurance_pe": 1000, "data": "bytes",
            },
            "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": 1700, "copy_mode": "logical" },
            "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536 },
        });
        let config: DriveConfig = serde_json::from_value(config).expect("a configuration");
        let drive = strobe_ssd::build(&config, true, 1).expect("a drive");
        let mut disk = Block::new(Attached::new(drive, SimTime::ZERO), DiskOptions::default());
        // Writes complete in the write buffer while flash is still busy.
        for lpn in 0..64 {
            let range = Range::new(Lba::new(8 * lpn), 8);
            let write = Command::Write { range, fua: false, tag: Hint::None.into() };
            disk.drive.target.submit(SimTime::ZERO, lpn, &[write], None);
        }
        let mut last = 0;
        while let Some(next) = disk.next_event() {
            assert!(next >= last);
            last = next;
            assert_eq!(disk.advance(next, None), Ok(Vec::new()));
        }
        assert!(last > 10_000, "programs take so long: {last}");
    }
}
