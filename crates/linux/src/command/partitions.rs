//! Partitions of the drive: of one size, known to the guest's kernel only, so that the drive has no table of them.

use crate::job::{Run, Step};

/// Partitions begin at multiples of this many sectors, 1 MiB.
const ALIGNED_SECTORS: u64 = 2048;

/// The name of a partition of `disk`.
pub(super) fn name(disk: &str, number: u32) -> String {
    let infix = if disk.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
    format!("{disk}{infix}{number}")
}

/// Start and length of each of `count` partitions of a drive of `bytes`, in sectors. The first MiB is in none.
pub(super) fn places(bytes: u64, count: u32) -> Vec<(u64, u64)> {
    let parts = (bytes / 512 / ALIGNED_SECTORS).saturating_sub(1) / u64::from(count.max(1));
    let sectors = parts * ALIGNED_SECTORS;
    (0..u64::from(count)).map(|number| (ALIGNED_SECTORS + number * sectors, sectors)).collect()
}

/// The steps that tell the kernel of `count` partitions of `disk`.
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
