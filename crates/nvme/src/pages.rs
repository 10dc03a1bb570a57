//! Pages of Identify and Get Log Page, which describe the controller (NVMe base specification 2.0, sections
//! 5.16 and 5.17, NVM command set specification 1.0, section 4.1.5).

use strobe_ssd::{CommandKind, RANGES_MAX, Simulated};
use strobe_types::{SECTOR_BYTES, SimTime};

use crate::entry::Status;
use crate::options::{Fabrics, Options};
use crate::registers::{ENTRIES_MAX, VERSION};

/// Bytes of a page of the host's memory.
pub const PAGE_BYTES: usize = 4096;
/// The largest data of a command as a power of two of pages (MDTS).
const DATA_PAGES_LOG: u8 = 9;
/// Maximum data of a command, in bytes.
pub const DATA_BYTES_MAX: usize = PAGE_BYTES << DATA_PAGES_LOG;
/// Asynchronous event requests that may wait.
pub(crate) const EVENTS_MAX: u32 = 4;
/// The only namespace.
pub const NAMESPACE: u32 = 1;
/// The name for all namespaces.
pub(crate) const ALL_NAMESPACES: u32 = u32::MAX;
/// The only endurance group, on a drive with placement handles.
pub(crate) const ENDURANCE_GROUP: u16 = 1;

/// NVMe qualified name of a host's first drive. It ends in the last byte of the namespace's identifier.
pub const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:57b0be00-0000-4000-8000-000000000001";

/// Identifier of the namespace, a UUID.
fn identity(options: &Options) -> [u8; 16] {
    [0x57, 0xb0, 0xbe, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, options.number.saturating_add(1)]
}

/// Bytes of a page, filled from left to right or anywhere.
pub(crate) struct Page(pub(crate) Vec<u8>);

impl Page {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Text, with spaces behind it.
    fn text(&mut self, at: usize, text: &str, bytes: usize) {
        self.put(at, format!("{text:bytes$}").as_bytes());
    }
}

/// A limit of the drive, of which 0 is none, in a field that holds `most`.
fn within(limit: u64, most: u64) -> u64 {
    if limit == 0 { most } else { limit.min(most) }
}

/// True if `drive` has placement handles, for which it offers Flexible Data Placement.
pub(crate) fn has_handles(drive: &dyn Simulated) -> bool {
    drive.reclaim_units().is_some()
}

/// The page of Identify that `structure` (CNS) names; a list of endurance groups begins with `element`.
pub(crate) fn identify(
    drive: &dyn Simulated,
    options: &Options,
    structure: u8,
    element: u16,
    namespace: u32,
) -> Result<Vec<u8>, Status> {
    let mut page = Page::new(PAGE_BYTES);
    match structure {
        // For all namespaces: what is the same in each. There is no such thing here but the format.
        0x00 if [NAMESPACE, ALL_NAMESPACES].contains(&namespace) => {
            describe_namespace(&mut page, drive, options)
        }
        0x01 => describe_controller(&mut page, drive, options),
        // The namespaces with higher numbers than this.
        0x02 if namespace < NAMESPACE => {
            page.put(0, &NAMESPACE.to_le_bytes());
        }
        0x02 if namespace < ALL_NAMESPACES - 1 => {}
        // An identifier of 16 bytes: a UUID; and the command set: NVM.
        0x03 if namespace == NAMESPACE => {
            page.put(0, &[3, 16]).put(4, &identity(options)).put(20, &[4, 1]);
        }
        // What the NVM command set adds: nothing about namespaces, limits of the controller.
        0x05 if namespace == NAMESPACE => {}
        0x06 => {
            let limits = drive.limits();
            let ranges = within(limits.trim_ranges.into(), options.discard_segments.into());
            // 256 is what the format holds: no limit.
            page.put(3, &[u8::try_from(ranges).unwrap_or(0)]);
            page.put(4, &limits.trim_range_sectors.to_le_bytes()).put(8, &limits.trim_sectors.to_le_bytes());
        }
        // The endurance groups with this number and higher ones.
        0x19 if has_handles(drive) => {
            if element <= ENDURANCE_GROUP {
                page.put(0, &1_u16.to_le_bytes()).put(2, &ENDURANCE_GROUP.to_le_bytes());
            }
        }
        0x00 | 0x02 | 0x03 | 0x05 => return Err(Status::INVALID_NAMESPACE),
        _ => return Err(Status::INVALID_FIELD),
    }
    Ok(page.0)
}

fn describe_controller(page: &mut Page, drive: &dyn Simulated, options: &Options) {
    page.put(0, &0x5354_u16.to_le_bytes()).put(2, &0x5354_u16.to_le_bytes());
    let serial = match options.number {
        0 => "strobe".to_owned(),
        number => format!("strobe-{}", u32::from(number) + 1),
    };
    page.text(4, &serial, 20);
    page.text(24, "Strobe simulated drive", 40);
    page.text(64, "1", 8);
    page.put(77, &[DATA_PAGES_LOG]);
    page.put(80, &VERSION.to_le_bytes());
    if has_handles(drive) {
        // Endurance groups, of which there is one, and Flexible Data Placement in it; directives.
        page.put(96, &(1_u32 << 19 | 1 << 4).to_le_bytes());
        page.put(340, &ENDURANCE_GROUP.to_le_bytes()).put(256, &(1_u16 << 5).to_le_bytes());
    }
    // An I/O controller.
    page.put(111, &[1]);
    page.put(259, &[EVENTS_MAX as u8 - 1]);
    // One slot for firmware, read only; the log of commands, and parts of logs.
    page.put(260, &[0b11, 0b110]);
    page.put(512, &[0x66, 0x44]);
    page.put(516, &NAMESPACE.to_le_bytes());
    let trims = u16::from(options.discard_segments > 0) << 2;
    let commands = 1 | trims | 1 << 3 | u16::from(options.copy) << 8;
    page.put(520, &commands.to_le_bytes());
    // A volatile write cache, if any; a flush of all namespaces is a flush.
    page.put(525, &[if options.write_cache { 0b111 } else { 0b110 }]);
    // Copies in format 0.
    page.put(534, &u16::from(options.copy).to_le_bytes());
    match &options.fabrics {
        None => {
            let [.., last] = identity(options);
            page.put(768, format!("{}{last:02x}", &NQN[..NQN.len() - 2]).as_bytes());
        }
        Some(fabrics) => describe_fabrics(page, fabrics),
    }
}

/// Fields of controllers of a fabric (NVMe over Fabrics, in section 5.17.2.1).
fn describe_fabrics(page: &mut Page, fabrics: &Fabrics) {
    // Other controllers may have the same namespaces.
    page.put(76, &[0b10]).put(78, &fabrics.controller.to_le_bytes());
    // Timers of Keep Alive count in units of 100 ms.
    page.put(320, &1_u16.to_le_bytes());
    page.put(514, &(ENTRIES_MAX as u16).to_le_bytes());
    // Data is described by SGLs, in capsules by an offset.
    page.put(536, &(1_u32 | 1 << 20).to_le_bytes());
    page.put(768, &fabrics.subsystem.as_bytes()[..fabrics.subsystem.len().min(255)]);
    // Commands and completions in units of 16 bytes; one descriptor each.
    let command = (64 + fabrics.capsule_data_bytes) / 16;
    page.put(1792, &command.to_le_bytes()).put(1796, &1_u32.to_le_bytes()).put(1803, &[1]);
    if fabrics.is_discovery {
        page.put(111, &[2]).put(516, &0_u32.to_le_bytes()).put(520, &0_u16.to_le_bytes()).put(525, &[0]);
    }
}

fn describe_namespace(page: &mut Page, drive: &dyn Simulated, options: &Options) {
    if has_handles(drive) {
        page.put(102, &ENDURANCE_GROUP.to_le_bytes());
    }
    let limits = drive.limits();
    let sectors = drive.sectors().to_le_bytes();
    page.put(0, &sectors).put(8, &sectors).put(16, &sectors);
    // A unit is written and unmapped as a whole or not at all, also at a power cut, wherever in it a write begins:
    // that is how large writes should be, and how large atomic ones are, with a boundary at each unit.
    let unit = (drive.geometry().sectors_per_unit() as u16).saturating_sub(1).to_le_bytes();
    page.put(24, &[0b1_0010]);
    for at in [34, 36, 40, 44, 64, 66, 68, 70] {
        page.put(at, &unit);
    }
    // What is unmapped reads as zeros, and write zeroes can unmap.
    page.put(33, &[0b1001]);
    let range = within(limits.copy_range_sectors.into(), u16::MAX.into()) as u16;
    page.put(74, &range.to_le_bytes());
    page.put(76, &(within(limits.copy_sectors.into(), u32::MAX.into()) as u32).to_le_bytes());
    page.put(80, &[(within(limits.copy_ranges.into(), RANGES_MAX as u64) - 1) as u8]);
    // Several controllers of a fabric share it; it may be read only.
    page.put(30, &[u8::from(options.fabrics.is_some())]).put(99, &[u8::from(options.read_only)]);
    page.put(104, &identity(options));
    page.put(130, &[SECTOR_BYTES.trailing_zeros() as u8]);
}

/// The log page `identifier`, as the drive is at `now`.
pub(crate) fn log(
    drive: &dyn Simulated,
    options: &Options,
    identifier: u8,
    now: SimTime,
) -> Result<Vec<u8>, Status> {
    match identifier {
        // Errors: there is room for one, and none is there.
        0x01 => Ok(vec![0; 64]),
        0x02 => Ok(health(drive, now)),
        0x03 => {
            let mut page = Page::new(512);
            page.put(0, &[1]).text(8, "1", 8);
            Ok(page.0)
        }
        0x05 => {
            let mut page = Page::new(PAGE_BYTES);
            for opcode in [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c] {
                page.put(4 * opcode, &[1]);
            }
            // Queues are made and deleted by commands on PCI alone.
            for opcode in [0x00, 0x01, 0x04, 0x05] {
                page.put(4 * opcode, &[u8::from(options.fabrics.is_none())]);
            }
            let is_placed = has_handles(drive);
            page.put(4 * 0x1a, &[u8::from(is_placed)]);
            page.put(4 * 0x18, &[u8::from(options.fabrics.is_some())]);
            // Those that change data say so.
            for (opcode, is_there, changes) in [
                (0x00, true, 0),
                (0x01, true, 2),
                (0x02, true, 0),
                (0x05, true, 0),
                (0x08, true, 2),
                (0x09, options.discard_segments > 0, 2),
                (0x12, is_placed, 0),
                (0x19, options.copy, 2),
                (0x1d, is_placed, 0),
            ] {
                page.put(1024 + 4 * opcode, &[if is_there { 1 | changes } else { 0 }]);
            }
            Ok(page.0)
        }
        _ => Err(Status::INVALID_LOG),
    }
}

/// SMART page with the drive's counters. Values that are not modelled, such as the temperature, are 0, which
/// means not reported. All spare is available.
fn health(drive: &dyn Simulated, now: SimTime) -> Vec<u8> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let stats = drive.stats();
    let host = stats.host;
    let mut page = Page::new(512);
    page.put(3, &[100, 10]);
    let thousands = |kind| host.bytes(kind).div_ceil(1000 * SECTOR_BYTES);
    let changes =
        [CommandKind::Write, CommandKind::WriteZeroes, CommandKind::Copy].map(|kind| host.commands(kind));
    let numbers = [
        (32, thousands(CommandKind::Read)),
        (48, thousands(CommandKind::Write)),
        (64, host.commands(CommandKind::Read)),
        (80, changes.iter().sum()),
        (112, 1),
        (128, now.as_ns() / HOUR_NS),
        (160, stats.uncorrectable_reads),
    ];
    for (at, number) in numbers {
        page.put(at, &number.to_le_bytes());
    }
    page.0
}
