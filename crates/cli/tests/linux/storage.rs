//! Drives of any size, and images that outlive their guest.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use strobe_linux::job::{Job, Run};
use strobe_linux::{LinuxError, Machine, Root};
use strobe_types::StopFlag;

use super::endings::small_drive;
use super::{DRIVE, has, kernel, strobe, text};

fn on_image(
    kernel: &std::path::PathBuf,
    image: &Path,
    more: &[&str],
    script: &str,
) -> (Option<i32>, String, String) {
    let image = image.to_str().expect("UTF-8");
    let output = strobe(kernel, &[&["-q", "--image", image], more, &["--", "sh", "-ec", script]].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_drive_on_an_image_goes_on_where_it_was_also_after_a_kill() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("drive");
    let (code, said, errors) =
        on_image(&kernel, &image, &[], "echo first > a; yes | head -c 1000000 > b; cksum b");
    assert_eq!(code, Some(0), "{errors}");
    let sum = said.trim().to_owned();
    let (code, said, errors) = on_image(&kernel, &image, &["--fsck"], "cat a; cksum b");
    assert_eq!((code, said), (Some(0), format!("first\n{sum}\n")), "{errors}");

    // Killed while its guest writes on after a sync.
    let script = "echo second > a; sync; echo ready; while :; do echo more >> c; sync c; done";
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.arg("linux").arg("--kernel").arg(&kernel).args(DRIVE).arg("--image").arg(&image);
    let mut child =
        command.args(["--", "sh", "-ec", script]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready\n");
    child.kill().expect("killed");
    child.wait().expect("gone");
    let (code, said, errors) = on_image(&kernel, &image, &["--fsck"], "cat a; cksum b");
    assert_eq!((code, said), (Some(0), format!("second\n{sum}\n")), "{errors}");

    let (code, _, errors) = on_image(&kernel, &image, &["--mkfs-opts", "-m 1"], "true");
    assert!(code == Some(2) && errors.contains("already has a file system"), "{errors}");
    let (code, _, errors) = on_image(&kernel, &image, &["--set", "drive.nand.blocks_per_plane=90"], "true");
    assert!(code == Some(2) && errors.contains("blocks_per_plane is 80 in the image"), "{errors}");
}

#[test]
fn an_image_gets_a_file_system_even_if_the_first_run_came_to_nothing() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("drive.img");
    let image = path.to_str().expect("text");
    let run = |arguments: &[&str]| strobe(&kernel, &[&["-q", "--image", image], arguments].concat());
    assert_eq!(run(&["--", "nosuchprogram"]).status.code(), Some(2));
    assert!(!path.exists(), "nothing could run on it");
    // A fresh drive has no file system.
    assert!(run(&["--fs", "none", "--", "true"]).status.success());
    let made = run(&["--fs", "ext4", "--", "sh", "-c", "echo kept > file"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert_eq!(text(&run(&["--fs", "ext4", "--", "cat", "file"]).stdout), "kept\n");
}

/// After the first guest's clock plus the recovery time; not from the epoch.
#[test]
fn the_clock_goes_on_with_an_image() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("drive");
    let seconds = |script: &str| -> f64 {
        let (code, said, errors) = on_image(&kernel, &image, &[], script);
        assert_eq!(code, Some(0), "{errors}");
        said.trim().parse().expect("seconds since 1970")
    };
    let first = seconds("echo a > a; sleep 5000; date +%s.%N");
    let second = seconds("date +%s.%N");
    assert!((first..first + 60.0).contains(&second), "{first} and {second}");
    // The age of a file follows the clock.
    let age = seconds("echo $(($(date +%s) - $(stat -c %Y a)))");
    assert!((5000.0..5100.0).contains(&age), "{age}");
}

#[test]
fn a_terabyte_boots_and_keeps_what_is_written() {
    let Some(kernel) = kernel() else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.arg("linux").arg("--kernel").arg(&kernel).args(["--", "sh", "-ec"]);
    let script =
        "yes | head -c 9000000 > a; sync; echo 3 > /proc/sys/vm/drop_caches; cksum a; df -k . | tail -1";
    let output = command.arg(script).output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let words: Vec<&str> = said.split_whitespace().collect();
    // Compared with cksum of the same bytes outside.
    let outside = Command::new("sh").args(["-c", "yes | head -c 9000000 | cksum"]).output().expect("a shell");
    assert_eq!(words[..2].join(" "), text(&outside.stdout).trim());
    let kib: u64 = words[4].parse().expect("KiB of the file system");
    assert!(kib > 900 << 20, "{said}");
    // The default summary is one screen; the default drive is an unchanged preset.
    let summary: Vec<&str> = said.lines().skip(2).collect();
    assert!((9..=18).contains(&summary.len()), "{said}");
    assert!(
        summary.iter().any(|line| line.starts_with("lifetime") && line.contains("no estimate")),
        "{said}"
    );
    assert!(summary.iter().all(|line| line.chars().count() <= 80), "{said}");
    let rates = summary.iter().find(|line| line.starts_with("rates     averages over "));
    assert!(rates.is_some_and(|line| line.ends_with("command and sync, idle time included")), "{said}");
    assert!(said.contains("\ndrive     tlc-nvme-1t, 931.5 GiB, "), "{said}");
    for part in
        ["\nWAF       1.", "\nwrite     ", "\nflash     ", "\nslowest   a ", "--full", "seed 1, root "]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("by cause"), "{said}");
}

#[test]
fn a_run_ends_clearly_when_memory_is_short() {
    let Some(kernel) = kernel() else { return };
    let root = Root::of_host(env!("CARGO_BIN_EXE_strobe").as_ref()).expect("a root");
    let writes = ["dd", "if=/dev/zero", "of=/dev/vda", "bs=4k", "count=400", "oflag=direct"];
    let environment = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let job = Job { steps: vec![Run::program(writes)], environment, ..Job::default() };
    let run = |memory_left: fn() -> Option<u64>| {
        let machine = Machine { memory_left: Some(memory_left), ..Machine::new(kernel.clone()) };
        machine.run(&root, &job, small_drive(), &StopFlag::default(), &mut |_, _| {})
    };
    assert_eq!(run(|| Some(1 << 40)).expect("enough").exit_code(0), Some(0));
    match run(|| Some(5 << 20)).map(|_| ()) {
        Err(error @ LinuxError::StoredData(_)) => {
            assert!(error.to_string().contains("5 MiB left); --image"))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_old_drive_collects_from_the_first_write_on_and_keeps_what_is_written() {
    let Some(kernel) = kernel() else { return };
    let script = "yes | head -c 30000000 > a; sync; echo 3 > /proc/sys/vm/drop_caches; cksum a";
    let run = |age: &[&str]| {
        let output =
            strobe(&kernel, &[&["--json", "-"], age, &["--fsck", "--", "sh", "-ec", script]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
        (result, text(&output.stderr))
    };
    let (new, said_new) = run(&[]);
    let (old, said_old) = run(&["--age=1.5"]);
    assert_eq!(said_new, said_old, "the same bytes");
    assert!(new["aged"].is_null());
    assert_eq!(old["aged"], 1.5);
    let victims = |result: &Value| result["gc"]["victims"].as_u64().expect("a count");
    assert_eq!(victims(&new), 0);
    assert!(victims(&old) > 10, "{}", old["gc"]);
    assert!(old["waf"].as_f64().expect("a number") > 1.2, "{}", old["waf"]);

    let image = ["--age", "--image", "no-such-image", "--", "true"];
    let output = strobe(&kernel, &image);
    assert_eq!(output.status.code(), Some(2));
    let output = strobe(&kernel, &["--age=-1", "--", "true"]);
    assert!(text(&output.stderr).contains("from 0 to 100"), "{}", text(&output.stderr));
}
