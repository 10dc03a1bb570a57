use std::process::Command;

use serde_json::Value;

use super::nvme::nvme_kernel;
use super::{kernel, result};

#[test]
fn a_trace_of_an_nvme_drive_has_its_name() {
    let Some(kernel) = nvme_kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for (name, device) in [("guest.fio", "/dev/nvme0n1"), ("guest.blkparse", "259,0")] {
        let path = folder.path().join(name);
        let trace = path.to_str().expect("text");
        let job = ["--interface", "nvme", "--fs", "none", "--trace", trace, "--"];
        result(&kernel, &[&job[..], &["dd", "if=/dev/nvme0n1", "of=/dev/null", "bs=4k", "count=5"]].concat());
        let written = std::fs::read_to_string(&path).expect("a trace");
        assert!(
            written.contains(device) && !written.contains("vda") && !written.contains("254,0"),
            "{written}"
        );
    }
}

#[test]
fn both_forms_replay_as_what_the_drive_saw() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for (name, format) in [("guest.blkparse", "blkparse"), ("guest.fio", "fio")] {
        let path = folder.path().join(name);
        let trace = path.to_str().expect("text");
        // Without a file system the window is the whole session.
        let job = "dd if=/dev/zero of=/dev/vda bs=64k count=20 conv=fsync; dd if=/dev/vda of=/dev/null bs=4k count=5 \
                   iflag=direct";
        let (value, _) = result(&kernel, &["--fs", "none", "--trace", trace, "--", "sh", "-c", job]);
        let replay = Command::new(env!("CARGO_BIN_EXE_strobe"))
            .args(["replay", trace, "--format", format, "--drive", "jasmine-4g", "--json", "-"])
            .output()
            .expect("it starts");
        let again: Value = serde_json::from_slice(&replay.stdout).expect("a result");
        assert_eq!(value["host"]["write"], again["host"]["write"], "{format}");
        let reads = |value: &Value| value["host"]["read"]["commands"].as_u64().expect("a count");
        assert_eq!(reads(&value), reads(&again), "{format}");
        assert_eq!(value["host"]["flush"]["commands"], again["host"]["flush"]["commands"], "{format}");
    }
}
