//! Several drives, partitions, files copied out.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::{DRIVE, has, kernel, result, strobe, text};

#[test]
fn further_drives_are_there_and_counted_the_same_every_time() {
    let Some(kernel) = kernel() else { return };
    let script = "dd if=/dev/zero of=/dev/vdb bs=64k count=16 conv=fsync 2>/dev/null; echo a > a";
    for (interface, device) in [("virtio", "vdb"), ("nvme", "nvme1n1")] {
        let script = script.replace("vdb", device);
        let drives = ["--drive", "jasmine-4g", "--drive", "jasmine-4g", "--interface", interface];
        let arguments = [&drives[..], &["--", "sh", "-ec", &script]].concat();
        let (value, first) = result(&kernel, &arguments);
        let other = &value["other_drives"][0];
        assert_eq!(other["device"], device);
        assert_eq!(other["host"]["write"]["bytes"], 1 << 20, "{other}");
        assert_eq!(value["guest"]["file_system"], "ext4", "on the first");
        let (_, again) = result(&kernel, &arguments);
        assert!(first == again, "the same every time");
    }
    let nine: Vec<&str> = (0..9).flat_map(|_| ["--drive", "jasmine-4g"]).collect();
    let output = strobe(&kernel, &[&nine[..], &["--", "true"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("9 drives given; allowed are 1 to 8"), "{}", text(&output.stderr));
}

#[test]
fn the_first_of_two_partitions_has_the_file_system() {
    let Some(kernel) = kernel() else { return };
    if !has("addpart") {
        return;
    }
    for (interface, disk, first) in [("virtio", "vda", "vda1"), ("nvme", "nvme0n1", "nvme0n1p1")] {
        let script = format!(
            "findmnt -no SOURCE /mnt; cat /sys/block/{disk}/{disk}*/size | uniq -c | wc -l; ls -d /sys/block/{disk}/{disk}* | wc -l"
        );
        let arguments =
            ["--interface", interface, "--partitions", "2", "-q", "--fsck", "--", "sh", "-ec", &script];
        let output = strobe(&kernel, &arguments);
        assert_eq!(text(&output.stdout), format!("/dev/{first}\n1\n2\n"), "{}", text(&output.stderr));
    }
}

fn in_folder(kernel: &PathBuf, folder: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.arg("linux").arg("--kernel").arg(kernel).args(DRIVE).arg("-q").args(arguments);
    command.current_dir(folder).output().expect("it starts")
}

#[test]
fn files_come_out_and_overwrite_nothing() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("it came out");
    let script = "mkdir -p log/sub; seq 30000 > log/sub/numbers; echo other > /tmp/other";
    let arguments = ["--get", "log", "--get", "/tmp/other", "--", "sh", "-ec", script];
    let output = in_folder(&kernel, folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(read("log/sub/numbers").lines().count(), 30_000);
    assert_eq!(read("log/sub/numbers").lines().last(), Some("30000"));
    assert_eq!(read("other"), "other\n");
    let output = in_folder(&kernel, folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is not overwritten"), "{}", text(&output.stderr));
    let output = in_folder(&kernel, folder.path(), &["--get", "nothing", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no file or folder /mnt/nothing"), "{}", text(&output.stderr));
}

#[test]
fn a_file_that_was_not_made_hides_neither_the_exit_code_nor_the_result() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let run = |code: &str| {
        let script = format!("echo made > made-{code}; exit {code}");
        let (made, json) = (format!("made-{code}"), format!("{code}.json"));
        let options = ["--get", "log", "--get", &made, "--json", &json, "--", "sh", "-c", &script];
        let output = in_folder(&kernel, folder.path(), &options);
        let errors = text(&output.stderr);
        assert!(errors.contains("the guest has no file or folder /mnt/log"), "{errors}");
        assert_eq!(std::fs::read_to_string(folder.path().join(made)).expect("it came out"), "made\n");
        let json = std::fs::read(folder.path().join(json)).expect("written");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json["guest"]["exit_code"].to_string(), code);
        output.status.code()
    };
    assert_eq!((run("3"), run("0")), (Some(3), Some(1)));
}

#[test]
fn what_is_put_under_another_name_than_the_folder_asked_for_is_named() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("mine")).expect("a folder");
    let output =
        in_folder(&kernel, &folder.path().join("mine"), &["--put", ".", "--dir", "project", "--", "true"]);
    let said = text(&output.stderr);
    assert!(said.contains("no folder /mnt/project; there is /mnt/mine"), "{said}");
    std::fs::write(folder.path().join("big"), "big\n").expect("written");
    let before = ["--before", "cp \"$OLDPWD/big\" .", "--", "cat", "big"];
    let output = in_folder(&kernel, folder.path(), &before);
    assert_eq!(text(&output.stdout), "big\n", "{}", text(&output.stderr));
}

/// nvme-cli maps the registers of a drive, which a guest's kernel does not offer.
#[test]
fn nvme_tools_that_want_registers_do_not_crash() {
    let Some(kernel) = kernel() else { return };
    if !has("nvme") {
        return;
    }
    for tool in ["effects-log", "show-regs"] {
        let script = format!("nvme {tool} /dev/nvme0 > /dev/null 2>&1; test $? -lt 128");
        let output =
            strobe(&kernel, &["--interface", "nvme", "--fs", "none", "-q", "--", "sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(0), "{tool}: {}", text(&output.stderr));
    }
}
