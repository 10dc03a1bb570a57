//! Location of FAT metadata, from the boot sector of the volume.

pub(crate) const BOOT_BYTES: usize = 512;

/// Sectors of 512 bytes before the data area of a FAT12, FAT16 or FAT32 volume: boot sectors, allocation
/// tables, and the root directory of FAT12 and FAT16. `None` if `boot`, the first sector of the volume, is
/// not a FAT boot sector. The fields are named in Microsoft's FAT specification 1.03, "BPB".
pub(crate) fn metadata_sectors(boot: &[u8]) -> Option<u64> {
    let boot: &[u8; BOOT_BYTES] = boot.get(..BOOT_BYTES)?.try_into().ok()?;
    let u16_at = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
    let u32_at = |at: usize| u16_at(at) | u16_at(at + 2) << 16;
    let or = |short: u64, long: u64| if short == 0 { long } else { short };
    let sector_bytes = u16_at(11);
    let (cluster_sectors, fats) = (boot[13], u64::from(boot[16]));
    let (reserved, root_entries) = (u16_at(14), u16_at(17));
    let (fat_sectors, sectors) = (or(u16_at(22), u32_at(36)), or(u16_at(19), u32_at(32)));
    // Partition tables have the same signature, so the fields of the BPB are checked as well.
    let is_fat = boot[510..] == [0x55, 0xaa]
        && matches!(boot[0], 0xeb | 0xe9)
        && matches!(sector_bytes, 512 | 1024 | 2048 | 4096)
        && cluster_sectors.is_power_of_two()
        && reserved > 0
        && matches!(fats, 1..=4)
        && fat_sectors > 0;
    let data = reserved + fats * fat_sectors + (root_entries * 32).div_ceil(sector_bytes.max(1));
    (is_fat && data < sectors).then_some(data * sector_bytes / 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(bytes: u16, reserved: u16, fats: u8, root: u16, fat16: u16, fat32: u32, sectors: u32) -> Vec<u8> {
        let mut boot = vec![0; BOOT_BYTES];
        boot[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
        boot[11..13].copy_from_slice(&bytes.to_le_bytes());
        (boot[13], boot[16]) = (4, fats);
        boot[14..16].copy_from_slice(&reserved.to_le_bytes());
        boot[17..19].copy_from_slice(&root.to_le_bytes());
        boot[22..24].copy_from_slice(&fat16.to_le_bytes());
        boot[32..36].copy_from_slice(&sectors.to_le_bytes());
        boot[36..40].copy_from_slice(&fat32.to_le_bytes());
        boot[510..].copy_from_slice(&[0x55, 0xaa]);
        boot
    }

    #[test]
    fn the_data_area_begins_where_the_specification_says() {
        // 1 + 2 · 200 tables, 512 entries of 32 bytes in the root directory.
        assert_eq!(metadata_sectors(&boot(512, 1, 2, 512, 200, 0, 204_800)), Some(1 + 400 + 32));
        // FAT32: 32 reserved sectors, no root directory at a fixed place.
        assert_eq!(metadata_sectors(&boot(512, 32, 2, 0, 0, 1000, 4_000_000)), Some(32 + 2000));
        // Each sector of 4 KiB is eight of the drive's.
        assert_eq!(metadata_sectors(&boot(4096, 1, 1, 128, 10, 0, 60_000)), Some((1 + 10 + 1) * 8));
    }

    #[test]
    fn what_is_no_boot_sector_is_none() {
        let good = boot(512, 1, 2, 512, 200, 0, 204_800);
        assert_eq!(metadata_sectors(&good[..511]), None);
        assert_eq!(metadata_sectors(&[0; 512]), None);
        for (at, value) in [(0, 0), (11, 1), (13, 3), (13, 0), (14, 0), (16, 0), (16, 5), (22, 0), (510, 0)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(metadata_sectors(&bad), None, "byte {at} = {value}");
        }
        assert_eq!(metadata_sectors(&boot(512, 1, 2, 512, 200, 0, 433)), None, "no data area");
        // Random bytes with a valid signature.
        let mut rng = strobe_types::Prng::new(1);
        for _ in 0..20_000 {
            let mut any: Vec<u8> = (0..512).map(|_| rng.bits() as u8).collect();
            any[510..].copy_from_slice(&[0x55, 0xaa]);
            let _ = metadata_sectors(&any);
        }
    }
}
