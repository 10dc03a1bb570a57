//! Kernels that lack a requested feature: the message names the fix, before any work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use strobe_linux::kernel;

use super::{has, kernel, result, strobe, text};

fn pretend(folder: &Path, options: &[&str]) -> PathBuf {
    let path = folder.join("kernel");
    let config: String =
        ["UML"].iter().chain(options).map(|option| format!("echo CONFIG_{option}=y;")).collect();
    let script = format!("#!/bin/sh\ncase $1 in --version) echo 6.12.0;; --showconfig) {config};; esac\n")
        .replace(";;;", ";;");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    path
}

const BASE: [&str; 2] = ["UML_TIME_TRAVEL_SUPPORT", "EXT4_FS"];
const HOST: [&str; 3] = ["VIRTIO_FS", "OVERLAY_FS", "TMPFS_XATTR"];

#[test]
fn what_a_kernel_lacks_is_said_with_the_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = [&BASE[..], &HOST].concat();
    for (options, arguments, cure) in [
        (&BASE[..], &["--root", "host"][..], "use --root packed"),
        (&all, &["--fs", "btrfs"], "build-kernel --with btrfs"),
        (&all, &["--fs", "xfs"], "build-kernel --with xfs"),
        (&all, &["--fs", "exfat"], "is built without exfat"),
        (&all, &["--interface", "nvme"], "build a kernel with `strobe linux build-kernel`"),
        (&all, &["--syscall-ns", "1000"], "cannot charge system calls"),
        (&["EXT4_FS"], &[], "use --real-time"),
    ] {
        let output = strobe(&pretend(folder.path(), options), &[arguments, &["--", "true"]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(cure), "{arguments:?}: {said}");
    }
}

#[test]
fn btrfs_works_with_a_kernel_that_has_it() {
    let Some(path) = kernel() else { return };
    let info = kernel::inspect(&path).expect("a kernel");
    if !info.has_file_system("btrfs") {
        let output = strobe(&path, &["--fs", "btrfs", "--", "true"]);
        assert!(text(&output.stderr).contains("build-kernel --with btrfs"), "{}", text(&output.stderr));
        return;
    }
    if !has("mkfs.btrfs") {
        return;
    }
    let script =
        "yes | head -c 3000000 > a; sync; echo 3 > /proc/sys/vm/drop_caches; cksum a; rm a; sync; sleep 60";
    let arguments = ["--fs", "btrfs", "--fsck", "--", "sh", "-ec", script];
    let (value, first) = result(&path, &arguments);
    assert_eq!(value["guest"]["file_system"], "btrfs");
    assert!(value["requests"]["discard"].as_u64() > Some(0), "it discards by itself: {}", value["requests"]);
    let (_, again) = result(&path, &arguments);
    assert!(first == again, "the same every time");
}

/// One processor and so one queue, as `docs/how-to/linux.md` says.
#[test]
fn the_block_layer_uses_one_queue() {
    let Some(path) = kernel() else { return };
    let script = "grep -c ^processor /proc/cpuinfo; ls /sys/block/vda/mq; cat /sys/block/vda/mq/0/nr_tags";
    let output = strobe(&path, &["-q", "--fs", "none", "--", "sh", "-ec", script]);
    assert_eq!(text(&output.stdout), "1\n0\n256\n", "{}", text(&output.stderr));
}

#[test]
fn a_guest_is_a_machine_of_its_own() {
    let Some(path) = kernel() else { return };
    if !has("python3") {
        return;
    }
    let script = "cat /proc/sys/kernel/hostname; zcat /proc/config.gz | grep -c ^CONFIG_UML_CPU_SPIN=y; \
                  grep -c ^host /proc/cpuinfo; grep ^flags /proc/cpuinfo | wc -w; \
                  python3 -c 'import mmap; m = mmap.mmap(-1, 8 << 40, flags=0x4022, prot=0); print(len(m) >> 40)'";
    let output = strobe(&path, &["-q", "--fs", "none", "--", "sh", "-c", script]);
    assert_eq!(text(&output.stdout), "strobe\n1\n0\n14\n8\n", "{}", text(&output.stderr));
}
