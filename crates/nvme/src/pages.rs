//! Identify and Get Log Page data (NVMe base specification 2.0, sections 5.16 and 5.17; NVM command set
//! specification 1.0, section 4.1.5).

use strobe_ssd::{CommandKind, RANGES_MAX, Simulated};
use strobe_types::{SECTOR_BYTES, SimTime};

use crate::entry::Status;
use crate::options::{Fabrics, Options};
use crate::registers::{ENTRIES_MAX, VERSION};

/// Memory page size in bytes.
pub const PAGE_BYTES: usize = 4096;
/// Maximum transfer size in pages, as a power of two (MDTS).
const DATA_PAGES_LOG: u8 = 9;
/// Maximum transfer size in bytes.
pub const DATA_BYTES_MAX: usize = PAGE_BYTES << DATA_PAGES_LOG;
pub(crate) const EVENTS_MAX: u32 = 4;
/// Identifier of the only namespace.
pub const NAMESPACE: u32 = 1;
pub(crate) const ALL_NAMESPACES: u32 = u32::MAX;
pub(crate) const ENDURANCE_GROUP: u16 = 1;

/// NVMe qualified name of a host's first drive. It ends like the UUID of the namespace.
pub const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:57b0be00-0000-4000-8000-000000000001";

/// UUID of the namespace.
fn identity(options: &Options) -> [u8; 16] {
    [0x57, 0xb0, 0xbe, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, options.number.saturating_add(1)]
}

pub(crate) struct Page(pub(crate) Vec<u8>);

impl Page {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Writes `text`, padded with spaces to `bytes`.
    fn text(&mut self, at: usize, text: &str, bytes: usize) {
        self.put(at, format!("{text:bytes$}").as_bytes());
    }
}

/// Converts a limit of the drive, where 0 means unlimited, for a field with maximum `most`.
fn within(limit: u64, most: u64) -> u64 {
    if limit == 0 { most } else { limit.min(most) }
}

pub(crate) fn has_handles(drive: &dyn Simulated) -> bool {
    drive.reclaim_units().is_some()
}

/// Identify page. `structure` is the CNS value. `element` is the first endurance group to list.
pub(crate) fn identify(
    drive: &dyn Simulated,
    options: &Options,
    structure: u8,
    element: u16,
    namespace: u32,
) -> Result<Vec<u8>, Status> {
    let mut page = Page::new(PAGE_BYTES);
    match structure {
        // The broadcast identifier requests properties common to all namespaces; there is only one.
        0x00 if [NAMESPACE, ALL_NAMESPACES].contains(&namespace) => {
            describe_namespace(&mut page, drive, options)
        }
        0x01 => describe_controller(&mut page, drive, options),
        // Lists namespaces with identifiers above `namespace`.
        0x02 if namespace < NAMESPACE => {
            page.put(0, &NAMESPACE.to_le_bytes());
        }
        0x02 if namespace < ALL_NAMESPACES - 1 => {}
        // Descriptors: a UUID (type 3, 16 bytes) and the command set NVM (type 4).
        0x03 if namespace == NAMESPACE => {
            page.put(0, &[3, 16]).put(4, &identity(options)).put(20, &[4, 1]);
        }
        // Pages of the NVM command set: empty for the namespace, limits for the controller.
        0x05 if namespace == NAMESPACE => {}
        0x06 => {
            let limits = drive.limits();
            let ranges = within(limits.trim_ranges.into(), options.discard_segments.into());
            // The field has one byte. 256 ranges do not fit and become 0, which means no limit.
            page.put(3, &[u8::try_from(ranges).unwrap_or(0)]);
            page.put(4, &limits.trim_range_sectors.to_le_bytes()).put(8, &limits.trim_sectors.to_le_bytes());
        }
        // Lists endurance groups from number `element`.
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

fn capacity(drive: &dyn Simulated) -> [u8; 16] {
    (u128::from(drive.sectors()) * u128::from(SECTOR_BYTES)).to_le_bytes()
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
        // One endurance group; FDP and directives are supported.
        page.put(96, &(1_u32 << 19 | 1 << 4).to_le_bytes());
        page.put(340, &ENDURANCE_GROUP.to_le_bytes()).put(256, &(1_u16 << 5).to_le_bytes());
    }
    // Controller type: I/O.
    page.put(111, &[1]);
    page.put(259, &[EVENTS_MAX as u8 - 1]);
    // One read-only firmware slot. The commands log and offsets into logs are supported.
    page.put(260, &[0b11, 0b110]);
    // Total capacity, all of it allocated.
    page.put(280, &capacity(drive));
    // Entry sizes: 64 bytes in submission queues, 16 in completion queues.
    page.put(512, &[0x66, 0x44]);
    page.put(516, &NAMESPACE.to_le_bytes());
    // Compare, and if writable Deallocate, Write Zeroes and Copy.
    let trims = u16::from(options.discard_segments > 0) << 2;
    let writes = trims | 1 << 3 | u16::from(options.copy) << 8;
    let commands = 1 | if options.read_only { 0 } else { writes };
    page.put(520, &commands.to_le_bytes());
    // Volatile write cache, if any. Flush accepts the broadcast identifier.
    page.put(525, &[if options.write_cache { 0b111 } else { 0b110 }]);
    // Copy format 0.
    page.put(534, &u16::from(options.copy).to_le_bytes());
    match &options.fabrics {
        None => {
            let [.., last] = identity(options);
            page.put(768, format!("{}{last:02x}", &NQN[..NQN.len() - 2]).as_bytes());
        }
        Some(fabrics) => describe_fabrics(page, fabrics),
    }
}

/// Fills in the fields of fabrics controllers (NVMe over Fabrics, in section 5.17.2.1).
fn describe_fabrics(page: &mut Page, fabrics: &Fabrics) {
    // The subsystem may have several controllers (CMIC).
    page.put(76, &[0b10]).put(78, &fabrics.controller.to_le_bytes());
    // Keep Alive granularity: 100 ms.
    page.put(320, &1_u16.to_le_bytes());
    page.put(514, &(ENTRIES_MAX as u16).to_le_bytes());
    // SGLs are supported, with offsets into the capsule.
    page.put(536, &(1_u32 | 1 << 20).to_le_bytes());
    page.put(768, &fabrics.subsystem.as_bytes()[..fabrics.subsystem.len().min(255)]);
    // Capsule sizes in units of 16 bytes; one SGL descriptor.
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
    // A mapping unit is written and deallocated atomically, also at a power cut. So it is the preferred
    // granularity, the atomic size and the atomic boundary.
    let unit = (drive.geometry().sectors_per_unit() as u16).saturating_sub(1).to_le_bytes();
    page.put(24, &[0b1_0010]).put(48, &capacity(drive));
    for at in [34, 36, 40, 44, 64, 66, 68, 70] {
        page.put(at, &unit);
    }
    // Deallocated sectors read as zeros, and Write Zeroes can deallocate.
    page.put(33, &[0b1001]);
    let range = within(limits.copy_range_sectors.into(), u16::MAX.into()) as u16;
    page.put(74, &range.to_le_bytes());
    page.put(76, &(within(limits.copy_sectors.into(), u32::MAX.into()) as u32).to_le_bytes());
    page.put(80, &[(within(limits.copy_ranges.into(), RANGES_MAX as u64) - 1) as u8]);
    // Fabrics controllers share the namespace. It may be read only.
    page.put(30, &[u8::from(options.fabrics.is_some())]).put(99, &[u8::from(options.read_only)]);
    page.put(104, &identity(options));
    page.put(130, &[SECTOR_BYTES.trailing_zeros() as u8]);
}

pub(crate) fn log(
    drive: &dyn Simulated,
    options: &Options,
    identifier: u8,
    now: SimTime,
) -> Result<Vec<u8>, Status> {
    match identifier {
        // Error log with one empty entry.
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
            // Only PCI has commands to create and delete queues.
            for opcode in [0x00, 0x01, 0x04, 0x05] {
                page.put(4 * opcode, &[u8::from(options.fabrics.is_none())]);
            }
            let is_placed = has_handles(drive);
            page.put(4 * 0x1a, &[u8::from(is_placed)]);
            page.put(4 * 0x18, &[u8::from(options.fabrics.is_some())]);
            // The value 2 marks commands that change data.
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

/// SMART log. Unmodelled values such as the temperature are 0 (not reported). All spare is available.
fn health(drive: &dyn Simulated, now: SimTime) -> Vec<u8> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let stats = drive.stats();
    let host = stats.host;
    let mut page = Page::new(512);
    // Available spare and its threshold, in percent.
    page.put(3, &[100, 10]);
    // Data units are thousands of 512-byte sectors, rounded up.
    let thousands = |kind| host.bytes(kind).div_ceil(1000 * SECTOR_BYTES);
    let changes =
        [CommandKind::Write, CommandKind::WriteZeroes, CommandKind::Copy].map(|kind| host.commands(kind));
    let numbers = [
        (32, thousands(CommandKind::Read)),
        (48, thousands(CommandKind::Write)),
        (64, host.commands(CommandKind::Read)),
        (80, changes.iter().sum()),
        // Power cycles.
        (112, 1),
        (128, now.as_ns() / HOUR_NS),
        (160, stats.uncorrectable_reads),
    ];
    for (at, number) in numbers {
        page.put(at, &number.to_le_bytes());
    }
    page.0
}
