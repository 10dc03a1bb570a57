//! Equal partitions of the drive. Only the guest's kernel knows them; the drive holds no partition table.

use crate::job::{Run, Step};

const ALIGNED_SECTORS: u64 = 2048;

pub(super) fn name(disk: &str, number: u32) -> String {
    let infix = if disk.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
    format!("{disk}{infix}{number}")
}

/// Start and length in sectors. The first MiB stays unused.
pub(super) fn places(bytes: u64, count: u32) -> Vec<(u64, u64)> {
    let parts = (bytes / 512 / ALIGNED_SECTORS).saturating_sub(1) / u64::from(count.max(1));
    let sectors = parts * ALIGNED_SECTORS;
    (0..u64::from(count)).map(|number| (ALIGNED_SECTORS + number * sectors, sectors)).collect()
}

pub(super) fn steps(disk: &str, bytes: u64, count: u32) -> Vec<Step> {
    let add = |((start, sectors), number): ((u64, u64), u32)| {
        Run::tool([
            "addpart".to_owned(),
            format!("/dev/{disk}"),
            number.to_string(),
            start.to_string(),
            sectors.to_string(),
        ])
    };
    places(bytes, count).into_iter().zip(1..).map(add).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_one_size_and_do_not_overlap() {
        assert_eq!(places(10 << 20, 2), [(2048, 4 * 2048), (5 * 2048, 4 * 2048)]);
        assert_eq!(places(1 << 20, 2), [(2048, 0), (2048, 0)], "no room");
        assert_eq!([name("vda", 1), name("nvme0n1", 2)], ["vda1", "nvme0n1p2"]);
    }
}
