//! Hints: file systems mark metadata, programs and F2FS announce data lifetimes, and both drivers forward
//! them.

use std::fs;

use serde_json::Value;

use super::nvme::nvme_kernel;
use super::{has, result};

const JOB: &str = "yes | head -c 1048576 > data; sync; mkdir many; for i in $(seq 40); do : > many/$i; done; sync; \
                   rm many/1*; sync";

/// As data and as metadata, and units taken by a cache for metadata.
fn written(interface: &str, file_system: &str) -> Option<(u64, u64, u64)> {
    // mkfs marks nothing as metadata: its writes are subtracted.
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

/// Data writes of FAT and exFAT equal the file, to the byte.
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

fn by_handle(interface: &str, file_system: &str, job: &[&str]) -> Option<Vec<u64>> {
    let kernel = nvme_kernel()?;
    if !has(&format!("mkfs.{file_system}")) {
        return None;
    }
    let placed = ["--set", "drive.ftl.placement.scheme=handles", "--set", "drive.ftl.placement.handles=6"];
    let guest = ["--drive", "generic-8g", "--interface", interface, "--fs", file_system, "--"];
    let (value, _) = result(&kernel, &[&placed[..], &guest, job].concat());
    let handles = value.pointer("/placement_handles/handles").and_then(Value::as_array).expect("handles");
    Some(handles.iter().map(|handle| handle["host_bytes"].as_u64().expect("bytes")).collect())
}

/// Six logs: warm, hot and cold data and nodes. Each has a lifetime, and handles follow the order of
/// lifetimes.
#[test]
fn logs_of_f2fs_go_to_handles_of_their_own() {
    // File names decide what is cold and hot: pictures, databases.
    let job = "for file in cold.jpg hot.db warm; do yes | head -c 1048576 > $file; done; sync";
    for interface in ["virtio", "nvme"] {
        let written = |job: &str| by_handle(interface, "f2fs", &["sh", "-ec", job]);
        let Some((made, with_files)) = written("sync").zip(written(job)) else { continue };
        let more: Vec<u64> = with_files.iter().zip(&made).map(|(with, without)| with - without).collect();
        // Not set: warm data; short: hot data including the folder; extreme: cold data.
        for (handle, bytes) in [(0, 1 << 20), (2, (1 << 20) + 4096), (5, 1 << 20)] {
            assert_eq!(more[handle], bytes, "{interface}, handle {handle}: {more:?}");
        }
        // None: checkpoint and folder nodes; medium: file nodes.
        assert!(more[1] > 0 && more[3] > 0, "{interface}: {more:?}");
    }
}

#[test]
fn programs_tell_how_long_their_data_lives() {
    let program = "
import fcntl, mmap, os, struct
unit = mmap.mmap(-1, 65536)
for life in range(2, 6):
    file = os.open(f'file-{life}', os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    fcntl.fcntl(file, 1036, struct.pack('Q', life))
    for _ in range(life):
        os.write(file, unit)
    os.close(file)
";
    if !has("python3") {
        return;
    }
    for interface in ["virtio", "nvme"] {
        let Some(written) = by_handle(interface, "ext4", &["python3", "-c", program]) else { continue };
        assert_eq!(written[2..], [2 << 16, 3 << 16, 4 << 16, 5 << 16], "{interface}");
        assert!(written[0] > 0, "{interface}: the file system itself has no hint");
    }
}
