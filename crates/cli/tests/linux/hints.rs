//! Metadata hints: file systems mark their writes, and both drivers pass the mark on.

use std::fs;

use serde_json::Value;

use super::nvme::nvme_kernel;
use super::{has, result};

/// A file of 1 MiB, a folder with 40 empty files, and half of them removed.
const JOB: &str = "yes | head -c 1048576 > data; sync; mkdir many; for i in $(seq 40); do : > many/$i; done; sync; \
                   rm many/1*; sync";

/// Bytes that `job` has written as data and as metadata, and units that went to a cache which takes what is metadata.
fn written(interface: &str, file_system: &str) -> Option<(u64, u64, u64)> {
    // What makes the file system knows nothing of it, and marks nothing.
    let (made, marked, taken) = all_written(interface, file_system, "true")?;
    let (data, metadata, units) = all_written(interface, file_system, JOB)?;
    Some((data - made, metadata - marked, units - taken))
}

fn all_written(interface: &str, file_system: &str, job: &str) -> Option<(u64, u64, u64)> {
    let kernel = nvme_kernel()?;
    if !has(&format!("mkfs.{file_system}")) {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("guest.strobe");
    let trace = path.to_str().expect("UTF-8");
    let cache =
        ["--set", "drive.controller.nvram.bytes=8388608", "--set", "drive.controller.nvram.policy=hint"];
    let guest = ["--interface", interface, "--fs", file_system, "--trace", trace, "--", "sh", "-ec", job];
    let (value, _) = result(&kernel, &[&cache[..], &guest].concat());
    let trace = fs::read_to_string(&path).expect("a trace");
    let bytes = |what: &str| {
        let rows = trace.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let of_kind = rows.filter(|words| words.get(1) == Some(&what));
        of_kind.map(|words| words[3].parse::<u64>().expect("bytes")).sum()
    };
    let units = value.pointer("/nvram/write_units").and_then(Value::as_u64).expect("a cache");
    Some((bytes("write"), bytes("meta"), units))
}

/// Data writes of FAT and exFAT equal the file, to the byte; all others are metadata.
#[test]
fn metadata_is_told_from_data() {
    for interface in ["virtio", "nvme"] {
        for file_system in ["vfat", "exfat"] {
            let Some((data, metadata, units)) = written(interface, file_system) else { continue };
            assert_eq!(data, 1 << 20, "{file_system} on {interface}: {metadata} bytes of metadata");
            assert!(metadata > 40 * 32 && units > 0, "{file_system} on {interface}: {metadata}, {units}");
        }
    }
}

/// A journal is metadata, too.
#[test]
fn file_systems_that_mark_what_they_write_are_heard() {
    for interface in ["virtio", "nvme"] {
        for file_system in ["ext4", "f2fs"] {
            let Some((data, metadata, units)) = written(interface, file_system) else { continue };
            assert!(
                data >= 1_000_000 && metadata >= 8192,
                "{file_system} on {interface}: {data}, {metadata}"
            );
            assert!(units > 0, "{file_system} on {interface}");
        }
    }
}
