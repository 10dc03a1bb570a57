use crate::files::FileWorkloadError;
use crate::files::error::check_range;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::defaults;

defaults! {
    /// Sizes of a FAT16 volume. The default is the NVRAM paper's: 32 MiB in clusters of 2 KiB, two tables of 64
    /// sectors and 32 sectors of root directory, about 80 KB of metadata.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct FatFormat {
        /// Sectors of the volume. 4,200 to 4,194,304 (2 GiB), default 65,536. FAT16 needs 4,085 to 65,524
        /// clusters.
        #[schemars(range(min = 4200, max = 4_194_304))]
        pub volume_sectors: u32 = 65_536;
        /// Sectors per cluster: a power of two from 1 to 64, default 4.
        #[schemars(range(min = 1, max = 64))]
        pub cluster_sectors: u32 = 4;
        /// Slots of the root directory. A multiple of 16 from 16 to 65,520, default 512. An entry takes two
        /// slots, or more if its name exceeds 13 characters.
        #[schemars(range(min = 16, max = 65520), extend("multipleOf" = 16))]
        pub root_slots: u16 = 512;
        /// Partition offset: sectors of the device before the volume. Default 0. Values below an erase block
        /// shift clusters relative to erase blocks.
        pub offset_sectors: u32 = 0;
        /// Serial number in the boot sector. Default 0x5354524f.
        pub volume_id: u32 = 0x5354_524f;
    }
}

impl FatFormat {
    pub(super) fn check(&self, device_sectors: u64) -> Result<(), FileWorkloadError> {
        let refused = |key, value: u32, allowed: String| {
            Err(FileWorkloadError::OutOfRange { key, value: value.to_string(), allowed })
        };
        check_range("volume_sectors", self.volume_sectors, 4200..=4_194_304)?;
        if !self.cluster_sectors.is_power_of_two() || self.cluster_sectors > 64 {
            return refused("cluster_sectors", self.cluster_sectors, "a power of two from 1 to 64".into());
        }
        if self.root_slots == 0 || !self.root_slots.is_multiple_of(16) {
            let allowed = "a multiple of 16 from 16 to 65520".into();
            return refused("root_slots", self.root_slots.into(), allowed);
        }
        let end = u64::from(self.offset_sectors) + u64::from(self.volume_sectors);
        if end > device_sectors {
            let sectors = device_sectors.saturating_sub(self.offset_sectors.into());
            let allowed = format!("at most {sectors}, the sectors of the device after offset_sectors");
            return refused("volume_sectors", self.volume_sectors, allowed);
        }
        // The number of clusters alone decides between FAT12, FAT16 and FAT32.
        let clusters = self.clusters();
        if !(4085..65_525).contains(&clusters) {
            let allowed = format!("a value that gives 4085 to 65524 clusters; this one gives {clusters}");
            return refused("cluster_sectors", self.cluster_sectors, allowed);
        }
        Ok(())
    }

    fn clusters(&self) -> u32 {
        let root = u32::from(self.root_slots) / 16;
        let available = self.volume_sectors.saturating_sub(1 + root);
        // A cluster takes its sectors and two bytes in each table. Both tables, with two reserved entries,
        // have whole sectors.
        let mut clusters = available / self.cluster_sectors;
        while clusters > 0 && clusters * self.cluster_sectors + 2 * (clusters + 2).div_ceil(256) > available {
            clusters -= 1;
        }
        clusters
    }

    pub(super) fn options(&self) -> fatfs::FormatVolumeOptions {
        fatfs::FormatVolumeOptions::new()
            .total_sectors(self.volume_sectors)
            .bytes_per_cluster(self.cluster_sectors * 512)
            .fat_type(fatfs::FatType::Fat16)
            .max_root_dir_entries(self.root_slots)
            .volume_id(self.volume_id)
    }
}
