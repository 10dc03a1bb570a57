//! Contents and counters of the log-structured file system on drives.

mod experiment;

use std::collections::VecDeque;

use strobe_ftl::gc::Greedy;
use strobe_ftl::{PageMap, PageMapConfig};
use strobe_lab::runner::drive_command;
use strobe_nand::{ByteMedium, Chip, Nand, Untimed, WearConfig};
use strobe_ssd::{CommandError, ControllerConfig, Drive, Simulated};
use strobe_types::{Geometry, GeometrySpec, Prng, SimTime};
use strobe_workload::lfs::{Cleaning, Lfs, LfsCommand, LfsDisk, LfsLayout, Trims};

const SEGMENT_BLOCKS: u32 = 32;
const FILE_BLOCKS: u32 = 640;
const UPDATE_BLOCKS: u32 = 4;

fn layout(cleaning: Cleaning, trims: Trims) -> LfsLayout {
    LfsLayout {
        block_sectors: 8,
        update_blocks: UPDATE_BLOCKS,
        request_blocks: 32,
        copy_ranges: 128,
        trim_ranges: 64,
        segments: 32,
        segment_blocks: SEGMENT_BLOCKS,
        checkpoint_blocks: 4,
        cleaned_segments: 2,
        cleaning,
        trims,
        checkpoint_every: 16,
        sync: false,
    }
}

/// 1024 units with logical copy; the spare space is soon used up.
fn drive(virtual_map_entries: u32) -> Box<dyn Simulated> {
    let spec = GeometrySpec {
        channels: 1,
        dies_per_channel: 2,
        planes_per_die: 1,
        blocks_per_plane: 40,
        pages_per_block: 8,
        page_bytes: 8192,
        unit_bytes: 4096,
    };
    let wear = WearConfig { endurance_pe: None, factory_bad_blocks: 0, program_fail_rate: 0.0 };
    let geometry = Geometry::new(spec).expect("possible");
    let chip = Chip::<_, ByteMedium>::new(geometry, wear, Untimed::default(), 1);
    let policy = Greedy::new(chip.geometry().blocks());
    let config = PageMapConfig { virtual_map_entries, ..PageMapConfig::new(1024) };
    let map = PageMap::new(chip, policy, config).expect("room");
    Box::new(Drive::new(map, &ControllerConfig::default()))
}

fn block(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(512)
}

/// Writes back the data it has read, otherwise new data.
struct Host {
    drive: Box<dyn Simulated>,
    read: VecDeque<u8>,
    stamp: u64,
}

impl LfsDisk for Host {
    type Error = CommandError;

    fn send(&mut self, command: LfsCommand<'_>) -> Result<(), CommandError> {
        let now = SimTime::ZERO;
        match command {
            LfsCommand::Read(range) => {
                let mut bytes = vec![0; range.sectors as usize * 512];
                self.drive.read_bytes(now, range.lba, &mut bytes)?;
                self.read.extend(bytes);
            }
            LfsCommand::Write(range) => {
                let is_new = self.read.is_empty();
                self.stamp += u64::from(is_new);
                let blocks = u64::from(range.sectors / 8);
                let data: Vec<u8> = if is_new {
                    (0..blocks).flat_map(|n| block(100 * self.stamp + n)).collect()
                } else {
                    self.read.drain(..range.sectors as usize * 512).collect()
                };
                self.drive.write_bytes(now, range.lba, &data)?;
            }
            _ => {
                self.drive.execute(now, &drive_command(&command))?;
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), CommandError> {
        Ok(())
    }
}

fn after_many_updates(cleaning: Cleaning, trims: Trims) -> Vec<u64> {
    // Entries for two fully live victims: entries of older victims must have been freed.
    let mut host = Host { drive: drive(2 * SEGMENT_BLOCKS), read: VecDeque::new(), stamp: 0 };
    let mut lfs = Lfs::new(layout(cleaning, trims), FILE_BLOCKS, 7);
    lfs.create(&mut host).expect("runs");
    let mut expected: Vec<u64> = (0..u64::from(FILE_BLOCKS)).map(|n| 100 * (n / 4 + 1) + n % 4).collect();
    let mut rng = Prng::new(3);
    for step in 0..3000 {
        let extent = rng.below(lfs.extents());
        lfs.update(&mut host, extent).expect("runs");
        for block in 0..UPDATE_BLOCKS {
            expected[(extent * UPDATE_BLOCKS + block) as usize] = 100 * host.stamp + u64::from(block);
        }
        if step % 100 == 0 {
            host.drive.check().expect("sound");
        }
    }
    let mut found = Vec::new();
    for number in 0..FILE_BLOCKS {
        let mut bytes = vec![0; 4096];
        let lba = lfs.lba_of(number).expect("written");
        host.drive.read_bytes(SimTime::ZERO, lba, &mut bytes).expect("inside");
        let stamp = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        assert_eq!(bytes, block(stamp));
        found.push(stamp);
    }
    assert_eq!(found, expected, "{cleaning:?}, {trims:?}");
    let stats = host.drive.stats();
    let copied = if cleaning == Cleaning::Copy { lfs.counts().moved } else { 0 };
    assert_eq!(stats.copies.logical_units, copied, "none without an entry");
    // Logical copies leave live blocks in place.
    assert!(cleaning != Cleaning::Copy || stats.gc.units_moved > 0, "the drive must collect, too");
    found
}

#[test]
fn files_hold_what_was_written_however_they_are_cleaned() {
    for trims in Trims::ALL {
        let [moved, copied] =
            [Cleaning::Move, Cleaning::Copy].map(|cleaning| after_many_updates(cleaning, trims));
        assert_eq!(moved, copied);
    }
}
