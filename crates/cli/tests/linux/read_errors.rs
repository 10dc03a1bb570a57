use serde_json::Value;

use super::crash::crash;
use super::nvme::nvme_kernel;
use super::{has, kernel, strobe, text};

fn printed(kernel: &std::path::PathBuf, arguments: &[&str]) -> String {
    let output = strobe(kernel, arguments);
    text(&output.stdout) + &text(&output.stderr)
}

fn fails_until_written(kernel: &std::path::PathBuf, interface: &str, disk: &str, error: &str) {
    let job = format!(
        "yes abc | dd of={disk} bs=4k count=256 iflag=fullblock oflag=direct conv=fsync status=none; \
         try() {{ dd if={disk} of=/dev/null bs=4k count=1 skip=$1 iflag=direct status=none && echo read $1; }}; \
         try 63; try 64; try 65; \
         dd if=/dev/zero of={disk} bs=4k count=1 seek=64 oflag=direct conv=notrunc,fsync status=none; \
         try 64 && echo healed"
    );
    let faults = "drive.nand.faults.at=[{ unit = 64, after_writes = 256 }]";
    let arguments =
        ["--set", faults, "--interface", interface, "--fs", "none", "-q", "--", "sh", "-c", job.as_str()];
    let printed = printed(kernel, &arguments);
    assert!(printed.contains(error), "{interface}: {printed}");
    let lines: Vec<&str> =
        printed.lines().filter(|line| line.starts_with("read ") || *line == "healed").collect();
    assert_eq!(lines, ["read 63", "read 65", "read 64", "healed"], "{interface}: {printed}");
}

#[test]
fn a_lost_block_is_an_input_output_error_until_it_is_overwritten() {
    let Some(kernel) = kernel() else { return };
    fails_until_written(&kernel, "virtio", "/dev/vda", "Input/output error");
}

/// Linux maps medium errors of NVMe drives to the errno of SCSI disks.
#[test]
fn a_lost_block_of_an_nvme_drive_is_a_medium_error() {
    let Some(kernel) = nvme_kernel() else { return };
    fails_until_written(&kernel, "nvme", "/dev/nvme0n1", "No data available");
}

#[test]
fn ext4_remounts_read_only_when_its_metadata_cannot_be_read() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let job = "cd /; mkdir /mnt/d; touch /mnt/f; umount /mnt; mount -o errors=remount-ro /dev/vda /mnt; exec 3<> /mnt/f; \
               echo 3 > /proc/sys/vm/drop_caches; sleep 70; cat /mnt/d/x; dmesg | grep EXT4-fs; chmod 600 /proc/self/fd/3";
    let faults = "drive.nand.faults.at=[{ unit = 2, units = 4096, after_ns = 60_000_000_000 }]";
    let printed = printed(&kernel, &["--set", faults, "--fs", "ext4", "-q", "--", "sh", "-c", job]);
    for words in
        ["/mnt/d/x: Input/output error", "Remounting filesystem read-only", "changing permissions of"]
    {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

/// One place of each kind is unreadable after the program. F2FS has two superblocks; ext4 mounts only with
/// its first. A lost place in a file fails the check, which names the file.
#[test]
fn places_that_cannot_be_read_show_what_depends_on_them() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let job = "mkdir d; for i in 1 2 3; do head -c 100k /dev/zero | tr '\\0' $i > d/$i; sync d/$i; echo saved $i; done";
    let run = |fs: &str, options: &[&str]| -> Value {
        let common = ["--faults=14", "--json=-", "--fs", fs];
        let output = crash(&kernel, folder.path(), &[&common, options, &["--", "sh", "-c", job]].concat());
        assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON alone")
    };
    let of = |report: &Value, kind: &str| -> Vec<Value> {
        let found = report["found"].as_array().expect("places").iter();
        found.filter(|one| one["kind"] == kind).cloned().collect()
    };
    let mut tried = Vec::new();
    if has("mkfs.ext4") {
        let ext4 = run("ext4", &[]);
        assert_eq!(of(&ext4, "superblock")[0]["verdict"], "does-not-mount", "{ext4}");
        assert!(of(&ext4, "journal").iter().all(|one| one["was_read"] == false), "{ext4}");
        tried.push(ext4);
    }
    if has("mkfs.f2fs") {
        let f2fs = run("f2fs", &[]);
        let superblock = &of(&f2fs, "superblock")[0];
        assert!(superblock["verdict"] == "fine" && superblock["was_read"] == true, "{f2fs}");
        tried.push(f2fs);
    }
    for report in &tried {
        let files = of(report, "file");
        assert!(files.len() >= 3, "{report}");
        for file in files {
            let path = file["path"].as_str().expect("a path");
            assert!(
                path.starts_with("/d/") && file["verdict"] == "lost" && file["was_read"] == true,
                "{file}"
            );
            let reason = file["reason"].as_str().expect("text");
            assert!(reason.contains(&format!(".{path}: Input/output error")), "{file}");
        }
    }
    let own =
        run("ext4", &["--check", "cat d/2 > /dev/null && test \"$(wc -l < $STROBE_ACKNOWLEDGED)\" = 3"]);
    for file in of(&own, "file") {
        let depends = file["path"] == "/d/2";
        assert_eq!(file["verdict"] != "fine", depends, "{file}");
    }
}
