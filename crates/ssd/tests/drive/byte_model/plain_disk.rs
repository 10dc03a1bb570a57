//! A plain disk of bytes, and random commands to it and to a drive.

use strobe_ftl::MappingScheme;
use strobe_nand::Timing;
use strobe_ssd::{Command, CommandError, CommandKind, Device, Hint, Inspect, Range};
use strobe_types::{Lba, Op, Prng, Request, SECTOR_BYTES, SimTime};

use super::{ByteDrive, Policy};
use crate::setup::{Host as _, T0};

pub(super) struct Bench<T: Timing, V: Policy> {
    drive: ByteDrive<T, V>,
    disk: Vec<u8>,
    rng: Prng,
    now: SimTime,
    unit: usize,
    commands: [u64; 6],
    bytes: [u64; 6],
    units_written: u64,
    read_modify_writes: u64,
}

impl<T: Timing + Send + 'static, V: Policy> Bench<T, V> {
    pub(super) fn new(drive: ByteDrive<T, V>, seed: u64) -> Self {
        let unit = drive.geometry().unit_bytes() as usize;
        let disk = vec![0; drive.ftl().logical_units() as usize * unit];
        Self {
            drive,
            disk,
            rng: Prng::derive(seed, "byte-model"),
            now: T0,
            unit,
            commands: [0; 6],
            bytes: [0; 6],
            units_written: 0,
            read_modify_writes: 0,
        }
    }

    /// A sector range: whole units, a few sectors, several unaligned units, or up to the very end.
    fn range(&mut self) -> (u64, u64) {
        let per_unit = self.unit as u64 / SECTOR_BYTES;
        let sectors = self.disk.len() as u64 / SECTOR_BYTES;
        // Half of the traffic goes to an eighth of the drive, which hits buffered units.
        let reach = if self.rng.chance(0.5) { (sectors / 8).max(1) } else { sectors };
        let lba = self.rng.below_u64(reach);
        let left = sectors - lba;
        match self.rng.below(5) {
            0 => (lba / per_unit * per_unit, per_unit),
            1 => (lba, 1 + self.rng.below_u64(left.min(per_unit))),
            2 => (lba, 1 + self.rng.below_u64(left.min(per_unit * 9))),
            3 => {
                let units = 1 + self.rng.below_u64((sectors / per_unit - lba / per_unit).min(9));
                (lba / per_unit * per_unit, units * per_unit)
            }
            _ => (sectors - 1 - self.rng.below_u64(sectors.min(per_unit * 3)), 0),
        }
    }

    fn byte_range(&mut self) -> (Lba, std::ops::Range<usize>) {
        let (lba, sectors) = self.range();
        let from = (lba * SECTOR_BYTES) as usize;
        let upto = if sectors == 0 { self.disk.len() } else { from + (sectors * SECTOR_BYTES) as usize };
        (Lba::new(lba), from..upto)
    }

    fn count(&mut self, kind: CommandKind, bytes: usize) {
        self.commands[kind as usize] += 1;
        self.bytes[kind as usize] += bytes as u64;
    }

    fn count_units(&mut self, range: &std::ops::Range<usize>) {
        let (first, last) = (range.start / self.unit, (range.end - 1) / self.unit);
        self.units_written += (last - first + 1) as u64;
        let head = !range.start.is_multiple_of(self.unit);
        let tail = !range.end.is_multiple_of(self.unit);
        self.read_modify_writes +=
            if first == last { u64::from(head || tail) } else { u64::from(head) + u64::from(tail) };
    }

    fn write(&mut self) -> Result<SimTime, CommandError> {
        let (lba, range) = self.byte_range();
        let mut data = vec![0; range.len()];
        // The medium stores nothing for zeros.
        if !self.rng.chance(0.1) {
            data.chunks_mut(8).for_each(|chunk| {
                chunk.copy_from_slice(&self.rng.bits().to_le_bytes());
            });
        }
        self.disk[range.clone()].copy_from_slice(&data);
        self.count(CommandKind::Write, data.len());
        self.count_units(&range);
        let fua = self.rng.chance(0.2);
        let hint = if self.rng.chance(0.3) { Hint::Metadata } else { Hint::None };
        if fua || hint != Hint::None || self.rng.chance(0.2) {
            let range = Range::new(lba, (data.len() as u64 / SECTOR_BYTES) as u32);
            return self.drive.execute_with(
                self.now,
                &Command::Write { range, fua, tag: hint.into() },
                &data,
            );
        }
        self.drive.write_bytes(self.now, lba, &data)
    }

    fn read(&mut self) -> Result<SimTime, CommandError> {
        let (lba, range) = self.byte_range();
        let mut out = vec![0xEE; range.len()];
        self.count(CommandKind::Read, out.len());
        let done = self.drive.read_bytes(self.now, lba, &mut out)?;
        assert!(out == self.disk[range.clone()], "bytes {range:?} differ");
        Ok(done)
    }

    fn whole_units(&self, range: &std::ops::Range<usize>) -> Option<std::ops::Range<usize>> {
        let whole = range.start.next_multiple_of(self.unit)..range.end / self.unit * self.unit;
        (whole.start < whole.end).then_some(whole)
    }

    fn trim(&mut self) -> Result<SimTime, CommandError> {
        let (lba, range) = self.byte_range();
        self.count(CommandKind::Trim, range.len());
        if let Some(whole) = self.whole_units(&range) {
            self.disk[whole].fill(0);
        }
        self.drive.request(self.now, Request::new(Op::Trim, lba, (range.len() as u64 / SECTOR_BYTES) as u32))
    }

    fn ranges(&mut self, most: u32) -> Vec<Range> {
        (0..1 + self.rng.below(most))
            .map(|_| {
                let (lba, bytes) = self.byte_range();
                Range::new(lba, (bytes.len() as u64 / SECTOR_BYTES) as u32)
            })
            .collect()
    }

    fn deallocate(&mut self) -> Result<SimTime, CommandError> {
        let mut ranges = self.ranges(5);
        for range in &ranges {
            let from = (range.lba.get() * SECTOR_BYTES) as usize;
            let bytes = from..from + range.sectors as usize * SECTOR_BYTES as usize;
            if let Some(whole) = self.whole_units(&bytes) {
                self.disk[whole].fill(0);
            }
        }
        let sectors: usize = ranges.iter().map(|range| range.sectors as usize).sum();
        self.count(CommandKind::Trim, sectors * SECTOR_BYTES as usize);
        if self.rng.chance(0.2) {
            ranges.insert(0, Range::new(Lba::new(u64::MAX), 0));
        }
        self.drive.execute(self.now, &Command::Deallocate(&ranges))
    }

    fn write_zeroes(&mut self) -> Result<SimTime, CommandError> {
        let (lba, bytes) = self.byte_range();
        let deallocate = self.rng.chance(0.5);
        self.disk[bytes.clone()].fill(0);
        self.count(CommandKind::WriteZeroes, bytes.len());
        match self.whole_units(&bytes).filter(|_| deallocate) {
            Some(whole) => {
                let parts = u64::from(bytes.start < whole.start) + u64::from(whole.end < bytes.end);
                self.units_written += parts;
                self.read_modify_writes += parts;
            }
            None => self.count_units(&bytes),
        }
        let range = Range::new(lba, (bytes.len() as u64 / SECTOR_BYTES) as u32);
        self.drive.execute(self.now, &Command::WriteZeroes { range, deallocate })
    }

    /// An invalid copy must be rejected by the drive.
    fn copy(&mut self) -> Result<SimTime, CommandError> {
        let disk_sectors = self.disk.len() as u64 / SECTOR_BYTES;
        let per_unit = self.unit as u64 / SECTOR_BYTES;
        let most = 1 + self.rng.below(4);
        let mut sources = self.ranges(most);
        let mut destination = 0;
        let mut allowed = false;
        for _ in 0..8 {
            let sectors: u64 = sources.iter().map(|source| u64::from(source.sectors)).sum();
            destination = self.rng.below_u64(disk_sectors);
            if self.rng.chance(0.6) {
                // Equal alignment within the unit: whole units can be copied.
                destination = destination / per_unit * per_unit + sources[0].lba.get() % per_unit;
            }
            let end = destination + sectors;
            let apart = |source: &Range| {
                source.lba.get() + u64::from(source.sectors) <= destination || end <= source.lba.get()
            };
            allowed = end <= disk_sectors && sources.iter().all(apart);
            if allowed {
                break;
            }
            sources.truncate(sources.len().div_ceil(2));
            sources[0].sectors = sources[0].sectors.div_ceil(2);
        }
        let command = Command::Copy { destination: Lba::new(destination), sources: &sources };
        if !allowed {
            let before = self.drive.stats();
            let error = self.drive.execute(self.now, &command).expect_err("leaves the drive or overlaps");
            let sort = matches!(error, CommandError::OutOfRange { .. } | CommandError::Overlap { .. });
            assert!(sort && self.drive.stats() == before, "{error}");
            return Ok(self.now);
        }
        self.copy_on_disk(destination, &sources);
        self.drive.execute(self.now, &command)
    }

    fn copy_on_disk(&mut self, destination: u64, sources: &[Range]) {
        let per_unit = self.unit as u64 / SECTOR_BYTES;
        // Source range and sector of each copied sector.
        let origin: Vec<(usize, u64)> = (sources.iter().enumerate())
            .flat_map(|(n, source)| (0..u64::from(source.sectors)).map(move |at| (n, source.lba.get() + at)))
            .collect();
        let old = self.disk.clone();
        let bytes = |sector: u64| (sector * SECTOR_BYTES) as usize..((sector + 1) * SECTOR_BYTES) as usize;
        for (to, &(_, from)) in (destination..).zip(&origin) {
            self.disk[bytes(to)].copy_from_slice(&old[bytes(from)]);
        }
        let end = destination + origin.len() as u64;
        for unit in destination / per_unit..end.div_ceil(per_unit) {
            let inside = unit * per_unit >= destination && (unit + 1) * per_unit <= end;
            let whole = inside && {
                let first = (unit * per_unit - destination) as usize;
                let (range, from) = origin[first];
                origin[first + per_unit as usize - 1].0 == range && from.is_multiple_of(per_unit)
            };
            self.units_written += u64::from(!whole);
            self.read_modify_writes += u64::from(!inside);
        }
        self.count(CommandKind::Copy, origin.len() * SECTOR_BYTES as usize);
    }

    fn flush(&mut self) -> Result<SimTime, CommandError> {
        self.count(CommandKind::Flush, 0);
        self.drive.execute(self.now, &Command::Flush)
    }

    fn compare_all(&mut self) {
        let mut out = vec![0xEE; self.disk.len()];
        self.drive.read_bytes(self.now, Lba::new(0), &mut out).expect("whole drive");
        self.count(CommandKind::Read, out.len());
        let differs = out.chunks(512).zip(self.disk.chunks(512)).position(|(a, b)| a != b);
        assert_eq!(differs, None, "first sector that differs");
    }

    pub(super) fn exercise(mut self, commands: u32, check_every: u32) {
        for step in 0..commands {
            let result = match self.rng.below(24) {
                0..=10 => self.write(),
                11..=14 => self.read(),
                15 | 16 => self.trim(),
                17 => self.deallocate(),
                18 => self.write_zeroes(),
                19..=21 => self.copy(),
                _ => self.flush(),
            };
            let done = result.unwrap_or_else(|e| panic!("step {step}: {e}"));
            assert!(done >= self.now, "step {step}: completed before it was issued");
            if self.rng.chance(0.5) {
                self.now = done;
            }
            if step % check_every == 0 {
                self.drive.check().unwrap_or_else(|e| panic!("step {step}: {e}"));
                self.compare_all();
            }
        }
        self.compare_all();
        self.flush().expect("flush");
        self.compare_all();
        self.drive.check().expect("final state");
        self.check_counters();
    }

    fn check_counters(&self) {
        let ftl = self.drive.ftl();
        let host = self.drive.stats().host;
        for kind in CommandKind::ALL {
            assert_eq!(host.commands(kind), self.commands[kind as usize], "{kind:?} commands");
            assert_eq!(host.bytes(kind), self.bytes[kind as usize], "{kind:?} bytes");
        }
        assert_eq!(host.units_written, self.units_written);
        assert_eq!(host.read_modify_writes, self.read_modify_writes);
        assert!(ftl.stats().host_units_written <= self.units_written, "more units on flash than written");
        if let Some(nvram) = self.drive.stats().nvram {
            assert!(nvram.write_units <= self.units_written, "{nvram:?}");
            assert!(nvram.hits + nvram.evicted_units <= nvram.write_units, "{nvram:?}");
        }
    }
}
