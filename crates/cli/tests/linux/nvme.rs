//! The drive as an NVMe drive of a guest.

use std::path::PathBuf;

use serde_json::Value;
use strobe_testing::{Need, found};

use super::{has, kernel, result, strobe, text};

/// A kernel with the driver; without one the test is skipped.
#[track_caller]
pub(crate) fn nvme_kernel() -> Option<PathBuf> {
    let path = kernel()?;
    let info = strobe_linux::kernel::inspect(&path).expect("a kernel");
    let with_driver = if info.has("BLK_DEV_NVME") { Ok(path) } else { Err("no driver of NVMe drives") };
    found(Need::Kernel, with_driver)
}

#[test]
fn ext4_on_an_nvme_drive_reads_back_and_is_the_same_every_time() {
    let Some(kernel) = nvme_kernel() else { return };
    let job = "seq 200000 > a; sync; cp a b; rm a; fstrim .; sync; echo 3 > /proc/sys/vm/drop_caches; \
               seq 200000 | cmp - b && grep -o '^/dev/nvme0n1 /mnt' /proc/mounts";
    let run = || result(&kernel, &["--interface", "nvme", "--fsck", "--", "sh", "-c", job]);
    let (value, printed) = run();
    assert!(text(&printed).contains("/dev/nvme0n1 /mnt"), "{}", text(&printed));
    assert_eq!(value.pointer("/guest/interface").and_then(Value::as_str), Some("nvme"));
    let mkfs = value.pointer("/guest/mkfs").and_then(Value::as_array).and_then(|words| words.last());
    assert_eq!(mkfs.and_then(Value::as_str), Some("/dev/nvme0n1"));
    assert!(value.pointer("/requests/discard").and_then(Value::as_u64).is_some_and(|discards| discards > 0));
    assert_eq!(text(&run().1), text(&printed));
}

#[test]
fn the_tool_for_nvme_drives_finds_its_commands() {
    let Some(kernel) = nvme_kernel() else { return };
    if !has("nvme") {
        return;
    }
    let job = "set -e; D=/dev/nvme0n1; yes abc | dd of=$D bs=4k count=64 iflag=fullblock oflag=direct; \
               nvme id-ctrl /dev/nvme0 | grep Strobe; nvme dsm $D -n 1 -d 1 -s 0 -b 8; \
               nvme write-zeroes $D -n 1 -s 8 -c 7; nvme copy $D -n 1 -d 1024 -s 16 -b 7; nvme flush $D -n 1; \
               dd if=$D bs=4k count=2 iflag=direct | cmp -n 8192 - /dev/zero; \
               test \"$(dd if=$D bs=4k skip=128 count=1 iflag=direct | head -c 3)\" = abc; \
               nvme smart-log /dev/nvme0; nvme reset /dev/nvme0; dd if=$D of=/dev/null bs=4k count=2 iflag=direct; \
               echo well";
    let (value, printed) = result(&kernel, &["--interface", "nvme", "--fs", "none", "--", "sh", "-c", job]);
    assert!(text(&printed).contains("well"), "{}", text(&printed));
    for kind in ["discard", "write_zeroes", "copy", "flush"] {
        let count = value.pointer(&format!("/requests/{kind}")).and_then(Value::as_u64);
        assert!(count >= Some(1), "{kind}: {count:?}");
    }
}

/// Features of virtio disks work on NVMe drives as well: reopened images, aged drives, packed roots.
#[test]
fn images_old_drives_and_packed_roots_go_with_an_nvme_drive() {
    let Some(kernel) = nvme_kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("drive");
    let image = ["--interface", "nvme", "--image", image.to_str().expect("UTF-8")];
    let said = |options: &[&str], script: &str| {
        let output = strobe(&kernel, &[&["-q"], options, &["--", "sh", "-ec", script]].concat());
        assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    said(&image, "seq 1000 > a");
    assert_eq!(said(&[&image[..], &["--fsck"]].concat(), "wc -l < a; echo more >> a"), "1000\n");
    assert_eq!(
        said(&[&image[..], &["--root", "packed"]].concat(), "wc -l < a; ls /etc | wc -l"),
        "1001\n2\n"
    );

    let script = "yes | head -c 30000000 > a; sync; echo 3 > /proc/sys/vm/drop_caches; cksum a";
    let old = ["--interface", "nvme", "--age=1.5", "--root", "packed", "--fsck", "--", "sh", "-ec", script];
    let (value, printed) = result(&kernel, &old);
    assert!(value["gc"]["victims"].as_u64() > Some(10), "{}", value["gc"]);
    assert_eq!(result(&kernel, &old).1, printed, "the same every time");
}
