//! Sector ranges of a FAT16 volume, read from its boot sector.

use super::device::Class;
use crate::files::FileError;
use std::ops::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    fats_start: u32,
    fat_sectors: u32,
    root_start: u32,
    data_start: u32,
    cluster_sectors: u32,
    pub(super) sectors: u32,
}

impl Layout {
    /// Fields as in Microsoft's FAT specification 1.03, "BPB".
    pub(super) fn read(boot: &[u8; 512]) -> Result<Self, FileError> {
        let bad = |what: &str| Err(FileError::Io(format!("not a FAT16 volume: {what}")));
        let u16_at = |at: usize| u32::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
        if boot[510..] != [0x55, 0xaa] {
            return bad("the boot sector has no signature");
        }
        if u16_at(11) != 512 {
            return bad("its sectors do not have 512 bytes");
        }
        let cluster_sectors = u32::from(boot[13]);
        let (reserved, fats, fat_sectors) = (u16_at(14), u32::from(boot[16]), u16_at(22));
        let sectors = match u16_at(19) {
            0 => u32::from_le_bytes([boot[32], boot[33], boot[34], boot[35]]),
            sectors => sectors,
        };
        if !cluster_sectors.is_power_of_two() || reserved == 0 || fats != 2 || fat_sectors == 0 {
            return bad("clusters, reserved sectors or tables are invalid");
        }
        let root_start = reserved + fats * fat_sectors;
        let data_start = root_start + (u16_at(17) * 32).div_ceil(512);
        let clusters = sectors.saturating_sub(data_start) / cluster_sectors;
        // Fewer is FAT12, more is FAT32 (same specification, "FAT type determination").
        if !(4085..65525).contains(&clusters) || (clusters + 2).div_ceil(256) > fat_sectors {
            return bad("its number of clusters is invalid");
        }
        Ok(Self { fats_start: reserved, fat_sectors, root_start, data_start, cluster_sectors, sectors })
    }

    pub(super) fn fat(&self, copy: u32) -> Range<u32> {
        let start = self.fats_start + copy * self.fat_sectors;
        start..start + self.fat_sectors
    }

    pub(super) fn cluster(&self, number: u32) -> Range<u32> {
        let start = self.data_start + number.saturating_sub(2) * self.cluster_sectors;
        start..start + self.cluster_sectors
    }

    pub(super) fn data_start(&self) -> u32 {
        self.data_start
    }

    pub(super) fn class(&self, sector: u32, payload: bool) -> Class {
        if sector >= self.data_start {
            return if payload { Class::Data } else { Class::Directory };
        }
        match sector {
            _ if sector < self.fats_start => Class::Boot,
            _ if sector < self.root_start => Class::Fat,
            _ => Class::RootDirectory,
        }
    }
}
