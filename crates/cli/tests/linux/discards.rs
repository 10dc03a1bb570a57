//! Discards of freed blocks by ext4: many ranges per command with the patch, one without.

use super::{kernel, result};

const JOB: &str = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); \
                   dd if=/dev/zero of=gone$i bs=8k count=1 2>/dev/null; dd if=/dev/zero of=kept$i bs=4k count=1 \
                   2>/dev/null; done; sync; rm gone*; sync; sleep 30; sync";

fn discards(segments: &str, batch: &str) -> Option<(u64, u64)> {
    let kernel = kernel()?;
    let switch = format!("echo {batch} > /sys/fs/ext4/vda/mb_discard_batch");
    let arguments =
        ["--mount-opts", "discard", "--fsck", "--discard-segments", segments, "--before", &switch, "--"];
    let (value, _) = result(&kernel, &[&arguments[..], &["sh", "-c", JOB]].concat());
    let count = |name: &str| value["requests"][name].as_u64().expect("a count");
    Some((count("discard"), count("discard_ranges")))
}

#[test]
fn freed_extents_go_together_up_to_what_the_drive_takes() {
    let Some((commands, ranges)) = discards("64", "64") else { return };
    assert!(ranges >= 290, "{ranges} ranges");
    assert!(commands <= ranges.div_ceil(64) + 3, "{commands} commands for {ranges} ranges");
    let Some((commands, ranges)) = discards("16", "64") else { return };
    assert!((ranges.div_ceil(16)..=ranges.div_ceil(16) + 5).contains(&commands), "{commands} for {ranges}");
}

#[test]
fn without_the_patch_or_without_ranges_each_goes_alone() {
    for (segments, batch) in [("64", "1"), ("1", "64")] {
        let Some((commands, ranges)) = discards(segments, batch) else { return };
        assert_eq!(commands, ranges, "{segments} segments, batches of {batch}");
    }
}

#[test]
fn a_disk_without_discard_gets_none() {
    let Some(kernel) = kernel() else { return };
    let (value, _) =
        result(&kernel, &["--discard-segments", "0", "--", "sh", "-c", "dd if=/dev/zero of=a count=9; rm a"]);
    assert_eq!(value["requests"]["discard"], 0);
}
