//! Drives that keep promises of different strength, tried in turn (`--drives`).

use strobe_ssd::DriveConfig;
use strobe_types::named;

named! {
    /// Change of the drive.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum DriveKind {
        /// Writes of 4 KiB are kept whole.
        Whole4k => "4k",
        /// Writes of 16 KiB are kept whole.
        Whole16k => "16k",
        /// Writes of 32 KiB are kept whole.
        Whole32k => "32k",
        /// Completed writes are durable.
        WriteThrough => "write-through",
        /// Flushes are acknowledged, and nothing is flushed.
        Lying => "lying",
    }
}

impl DriveKind {
    /// Keys that change `base`, as for `--set`. The size of the drive and of its blocks stays.
    pub(super) fn sets(self, base: &DriveConfig) -> Vec<String> {
        let unit = match self {
            Self::Whole4k => 4096,
            Self::Whole16k => 16 << 10,
            Self::Whole32k => 32 << 10,
            Self::WriteThrough | Self::Lying => return Vec::new(),
        };
        let pages = u32::div_ceil(unit, base.nand.page_bytes);
        let mut sets = vec![
            format!("drive.ftl.mapping_unit_bytes={unit}"),
            format!("drive.nand.page_bytes={}", base.nand.page_bytes * pages),
            format!("drive.nand.pages_per_block={}", (base.nand.pages_per_block / pages).max(1)),
        ];
        if let Some(units) = base.ftl.logical_pages {
            let units = u64::from(units) * u64::from(base.ftl.mapping_unit_bytes) / u64::from(unit);
            sets.push(format!("drive.ftl.logical_pages={units}"));
        }
        sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_the_size_of_the_drive() {
        let base = DriveConfig::preset("jasmine-4g").expect("a preset");
        assert_eq!(DriveKind::Lying.sets(&base), Vec::<String>::new());
        let sets = DriveKind::Whole32k.sets(&base);
        let wanted = [
            "drive.ftl.mapping_unit_bytes=32768",
            "drive.nand.page_bytes=32768",
            "drive.nand.pages_per_block=32",
            "drive.ftl.logical_pages=131072",
        ];
        assert_eq!(sets, wanted);
        assert!(DriveKind::Whole4k.sets(&base).contains(&"drive.nand.page_bytes=8192".to_owned()));
    }
}
