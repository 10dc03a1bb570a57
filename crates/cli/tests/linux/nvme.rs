use std::path::PathBuf;

use serde_json::Value;
use strobe_testing::{Need, found};

use super::{has, kernel, result, strobe, text};

#[track_caller]
pub(crate) fn nvme_kernel() -> Option<PathBuf> {
    let path = kernel()?;
    let info = strobe_linux::kernel::inspect(&path).expect("a kernel");
    let with_driver = if info.has("BLK_DEV_NVME") { Ok(path) } else { Err("no NVMe driver") };
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

#[test]
fn the_tool_for_nvme_drives_places_data_by_handle() {
    let Some(kernel) = nvme_kernel() else { return };
    if !has("nvme") {
        return;
    }
    // Twelve units with handle 1, one with an invalid handle, one without.
    let job = "set -e; D=/dev/nvme0n1; C=/dev/nvme0; yes abc | head -c 4096 > /tmp/unit; \
               put() { nvme write $D -s $1 -c 7 -z 4096 -d /tmp/unit $2; }; \
               nvme fdp configs $C -e 1; nvme fdp usage $C -e 1; \
               nvme fdp set-events $D -n 1 -p 0 -t 0x3 -e; nvme fdp set-events $D -n 1 -p 1 -t 0x0 -e; \
               for i in 0 1 2 3 4 5 6 7 8 9 10 11; do put $((8 * i)) '--dir-type=2 --dir-spec=1'; done; \
               put 96 '--dir-type=2 --dir-spec=7'; put 104 ''; \
               echo before; nvme fdp status $D -n 1; nvme fdp update $D -n 1 -p 1; echo after; nvme fdp status $D -n 1; \
               nvme fdp events $C -e 1 -E; nvme fdp stats $C -e 1; \
               if nvme fdp update $D -n 1 -p 3; then exit 1; fi; \
               nvme io-passthru $D -o 1 -n 1 -l 4096 -w -i /tmp/unit --cdw12=$((2 << 20 | 7)) --cdw13=$((2 << 16)); \
               dd if=$D bs=4k skip=5 count=1 iflag=direct | cmp - /tmp/unit; echo well";
    let placement = ["scheme=handles", "handles=3", "isolation=persistent"];
    let sets = placement.map(|set| format!("--set=drive.ftl.placement.{set}"));
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let start = ["--drive", "generic-8g", "--interface", "nvme", "--fs", "none"];
    let (value, printed) = result(&kernel, &[&start, &sets[..], &["--", "sh", "-c", job]].concat());
    let printed = text(&printed);
    for line in [
        "Number of Reclaim Groups: 1",
        "Number of Reclaim Unit Handles: 3",
        "[2]: Persistently Isolated",
        "Reclaim Unit Handle 2 Attributes: 0x1 (Host Specified)",
        "Event Type: 0x3 (Invalid Placement Identifier)",
        "Event Type: 0x0 (Reclaim Unit Not Fully Written)",
        "Host Bytes with Metadata Written (HBMW): ",
        "\nwell",
    ] {
        assert!(printed.contains(line), "{line:?} is not in {printed}");
    }
    // Remaining sectors of each handle's reclaim unit, before its update and after.
    let left = |from: &str| -> Vec<u64> {
        let after = printed.lines().skip_while(|line| line.trim() != from);
        let field = "Reclaim Unit Available Media Writes (RUAMW): ";
        let lines = after.filter_map(|line| line.trim().strip_prefix(field));
        lines.take(3).map(|left| left.parse().expect("a number")).collect()
    };
    let (before, after) = (left("before"), left("after"));
    let unit = before[2];
    assert_eq!(before, [unit - 2 * 8, unit - 12 * 8, unit]);
    assert_eq!(after, [unit - 2 * 8, unit, unit]);
    let number = |path: &str| value.pointer(path).and_then(Value::as_u64).expect(path);
    let unit_bytes = number("/placement_handles/unit_bytes");
    assert_eq!(unit_bytes, 512 * unit);
    assert_eq!(number("/placement_handles/handles/1/media_bytes"), unit_bytes, "a unit that was padded");
    assert_eq!(number("/placement_handles/handles/1/host_bytes"), 12 * 4096);
}

#[test]
fn the_tool_for_nvme_drives_places_data_by_reclaim_group() {
    let Some(kernel) = nvme_kernel() else { return };
    if !has("nvme") {
        return;
    }
    // Three units with handle 1 of group 1, two with handle 0 of group 0.
    let job = "set -e; D=/dev/nvme0n1; C=/dev/nvme0; yes abc | head -c 4096 > /tmp/unit; \
               put() { nvme write $D -s $1 -c 7 -z 4096 -d /tmp/unit --dir-type=2 --dir-spec=$2; }; \
               nvme fdp configs $C -e 1; nvme fdp usage $C -e 1; \
               for i in 0 1 2; do put $((8 * i)) 32769; done; for i in 3 4; do put $((8 * i)) 0; done; \
               echo before; nvme fdp status $D -n 1; nvme fdp update $D -n 1 -p 32769; echo after; nvme fdp status $D -n 1; \
               nvme fdp stats $C -e 1; if nvme fdp update $D -n 1 -p 2; then exit 1; fi; \
               dd if=$D bs=4k skip=2 count=1 iflag=direct | cmp - /tmp/unit; echo well";
    let sets =
        ["placement.scheme=handles", "placement.handles=2", "placement.groups=2", "gc.mode=stop-the-world"];
    let sets = sets.map(|set| format!("--set=drive.ftl.{set}"));
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let start = [
        "--drive",
        "generic-8g",
        "--set=drive.nand.dies_per_channel=2",
        "--interface",
        "nvme",
        "--fs",
        "none",
    ];
    let (value, printed) = result(&kernel, &[&start, &sets[..], &["--", "sh", "-c", job]].concat());
    let printed = text(&printed);
    for line in [
        "Number of Reclaim Groups: 2",
        "Number of Reclaim Unit Handles: 2",
        "[1]: Initially Isolated",
        "Placement Identifier 32769",
        "\nwell",
    ] {
        assert!(printed.contains(line), "{line:?} is not in {printed}");
    }
    // Remaining sectors of each handle in each group.
    let left = |from: &str| -> Vec<u64> {
        let after = printed.lines().skip_while(|line| line.trim() != from);
        let field = "Reclaim Unit Available Media Writes (RUAMW): ";
        let lines = after.filter_map(|line| line.trim().strip_prefix(field));
        lines.take(4).map(|left| left.parse().expect("a number")).collect()
    };
    let before = left("before");
    let unit = before[1];
    assert_eq!(before, [unit - 2 * 8, unit, unit, unit - 3 * 8]);
    assert_eq!(left("after"), [unit - 2 * 8, unit, unit, unit]);
    let handles = value.pointer("/placement_handles").expect("handles");
    assert_eq!((&handles["groups"], &handles["redirected_bytes"]), (&2.into(), &0.into()));
    assert_eq!(handles["handles"][3]["host_bytes"], 3 * 4096);
    assert_eq!(handles["handles"][3]["media_bytes"], 512 * unit, "padded");
}
