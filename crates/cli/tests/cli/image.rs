//! `--image` and `strobe fsck`: the drive in a file outlives the process, however it ends.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::{Ended, Folder, assert_causes_add_up};

/// With space for a map on flash.
const DRIVE: [&str; 2] = ["--set", "drive.nand.blocks_per_plane=64"];

fn run(folder: &Folder, more: &[&str]) -> Ended {
    folder.strobe(
        &[&["run", "tiny.toml", "--image", "a.img", "--quiet", "--json", "-"], &DRIVE[..], more].concat(),
    )
}

fn endless(folder: &Folder) -> Child {
    let args =
        [&["run", "tiny.toml", "--image", "a.img", "--quiet", "--set", "run.measure=100000000x"], &DRIVE[..]];
    let mut command = folder.command(&args.concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

#[test]
fn a_drive_goes_on_where_it_was_left() {
    let folder = Folder::new();
    let first = run(&folder, &[]).ok().json();
    assert!(first["image"]["recovery"].is_null(), "a new one");
    assert_causes_add_up(&first);
    let second = run(&folder, &["--check"]).ok().json();
    assert!(second["image"]["recovery"]["log_pages"].as_u64() > Some(0), "{}", second["image"]);
    assert!(second["wear"]["erase_mean"].as_f64() > first["wear"]["erase_mean"].as_f64());
    assert_causes_add_up(&second);
    // A used drive is not prefilled, unless requested.
    let writes = |result: &super::Json| result["smart"]["host_write_commands"].as_u64().expect("a count");
    assert_eq!((writes(&first), writes(&second)), (160 * 7, 160 * 6));
    let third = run(&folder, &["--set", "run.prefill=true"]).ok().json();
    assert_eq!(writes(&third), 160 * 7);
    let text = folder.strobe(&[&["run", "tiny.toml", "--image", "a.img"], &DRIVE[..]].concat()).ok().out;
    assert!(text.contains("\nrecovered in "), "{text}");
    assert!(super::Folder::new().tiny(&[]).ok().json().get("image").is_none(), "nothing without --image");
}

#[test]
fn runs_on_images_are_reproducible() {
    let results = [(); 2].map(|()| {
        let folder = Folder::new();
        let runs = [(); 2].map(|()| run(&folder, &["--reproducible"]).ok().out);
        (runs, fs::read(folder.path().join("a.img")).expect("reads"))
    });
    assert!(results[0] == results[1], "the same results and the same bytes in the file");
}

#[test]
fn a_killed_run_leaves_a_whole_drive() {
    let folder = Folder::new();
    run(&folder, &["--set", "run.measure=1x"]).ok();
    for round in 0..12 {
        let mut child = endless(&folder);
        std::thread::sleep(Duration::from_millis(20 + 17 * round));
        if round == 3 {
            let busy = "image a.img: another process has it open";
            folder.strobe(&["fsck", "a.img"]).refused(&[busy]);
            run(&folder, &[]).refused(&[busy]);
        }
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        let checked = folder.strobe(&["fsck", "a.img"]).ok();
        assert!(
            checked.out.contains("every invariant holds") && checked.out.ends_with("clean\n"),
            "{checked:?}"
        );
        assert!(checked.out.contains("160 of 160 mapping units hold data"), "{checked:?}");
    }
    run(&folder, &["--check", "--set", "run.measure=1x"]).ok();
}

#[test]
fn a_kill_during_the_first_run_leaves_a_blank_file_or_a_whole_drive() {
    let mut whole = 0;
    for delay in (0..15).chain((15..).map(|late| late * 10)).take_while(|&delay| delay < 3_000) {
        if delay >= 15 && whole >= 3 {
            break;
        }
        let folder = Folder::new();
        let mut child = endless(&folder);
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        if !folder.path().join("a.img").exists() {
            continue;
        }
        let checked = folder.strobe(&["fsck", "a.img"]);
        match checked.code {
            0 => {
                run(&folder, &["--set", "run.measure=1x"]).ok().json();
                whole += 1;
            }
            _ => checked.refused(&["it is blank"]),
        };
    }
    assert!(whole >= 3, "{whole} drives were whole");
}

#[test]
fn what_was_written_can_be_extracted() {
    let folder = Folder::new();
    run(&folder, &[]).ok();
    folder.strobe(&["fsck", "a.img", "--extract", "disk.raw"]).ok();
    let disk = fs::read(folder.path().join("disk.raw")).expect("reads");
    assert_eq!(disk.len(), 160 * 4096);
    // Every unit repeats the stamp of its write; all stamps differ.
    let mut stamps: Vec<&[u8]> = disk.chunks(4096).map(|unit| &unit[..8]).collect();
    for unit in disk.chunks(4096) {
        assert!(unit.chunks(8).all(|stamp| stamp == &unit[..8]) && unit[..8] != [0; 8]);
    }
    stamps.sort_unstable();
    stamps.dedup();
    assert_eq!(stamps.len(), 160);
    folder
        .strobe(&["fsck", "a.img", "--extract", "disk.raw"])
        .says(&["cannot extract to disk.raw", "exists"]);
    assert_eq!(fs::read(folder.path().join("disk.raw")).expect("reads"), disk, "nothing is overwritten");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_fails_the_run_and_leaves_a_whole_drive() {
    let folder = Folder::new();
    run(&folder, &["--set", "run.prefill=false", "--set", "run.warmup=0", "--set", "run.measure=20"]).ok();
    // Limits files to about 1 MB, in blocks of 512 bytes; the trap turns the signal into an error.
    let script = r#"trap '' XFSZ; ulimit -f 2000; exec "$0" "$@""#;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_strobe"), "run", "tiny.toml", "--image", "a.img"]);
    command.args(DRIVE).current_dir(folder.path()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let ended = super::finish(child.expect("sh starts"));
    assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{ended:?}");
    ended.says(&["strobe: the image could not be written: ", "too large"]);
    let checked = folder.strobe(&["fsck", "a.img"]).ok();
    assert!(checked.out.ends_with("clean\n"), "{checked:?}");
    run(&folder, &["--check"]).ok();
}

#[test]
fn a_damaged_image_is_refused_and_named() {
    let folder = Folder::new();
    run(&folder, &[]).ok();
    let image = fs::read(folder.path().join("a.img")).expect("reads");
    let tables = image.len() - 64 * 8 * 4096;
    // One bit in each region: 4096 bytes of header, 4096 of configuration, 64 · 256 of block table, 512 · 32
    // of records, 512 · 8 of units, contents.
    let blocks = tables - 4096 - 512 * 32 - 64 * 256;
    let cases: [(usize, i32, &str); 5] = [
        (100, 1, "image a.img: its header is damaged: it does not match its checksum"),
        (4100, 1, "its header is damaged: the configuration does not match its checksum"),
        (blocks + 256, 1, "block 1: its entry in the block table is damaged"),
        (blocks + 64 * 256 + 9 * 32, 1, "block 1 page 1: its record is damaged"),
        (0, 2, "image a.img: it is not an image of a Strobe drive"),
    ];
    for (at, code, message) in cases {
        let mut damaged = image.clone();
        damaged[at] ^= 4;
        folder.write("a.img", &damaged);
        let checked = folder.strobe(&["fsck", "a.img"]);
        assert_eq!(checked.code, code, "{checked:?}");
        assert!(format!("{}{}", checked.out, checked.err).contains(message), "{message}: {checked:?}");
        run(&folder, &[]).refused(&["image a.img: ", message.trim_start_matches("image a.img: ")]);
        assert_eq!(fs::read(folder.path().join("a.img")).expect("reads"), damaged, "it is left as it is");
    }
}

#[test]
fn damaged_contents_are_named_and_fail_the_run() {
    let folder = Folder::new();
    run(&folder, &[]).ok();
    let mut image = fs::read(folder.path().join("a.img")).expect("reads");
    let stored = image.len() - 64 * 8 * 4096;
    // In every page, to include the newest versions.
    image[stored..]
        .chunks_mut(4096)
        .filter(|page| page.iter().any(|&b| b != 0))
        .for_each(|page| page[5] ^= 1);
    folder.write("a.img", &image);
    let ended = folder.strobe(&["fsck", "a.img", "--extract", "rest.raw"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.says(&["a.img is damaged in ", "nothing can be extracted without the map"]);
    assert!(!folder.path().join("rest.raw").exists());
    assert!(ended.out.contains("is damaged\n") && ended.out.contains("DAMAGED in "), "{ended:?}");
    assert!(!ended.out.contains("clean"));
    run(&folder, &[]).refused(&["image a.img: it is damaged: block "]);

    // Damaged contents are found only when read, here by the checker.
    let folder = Folder::new();
    run(&folder, &[]).ok();
    let whole = fs::read(folder.path().join("a.img")).expect("reads");
    let stamped = |page: &&mut [u8]| page.chunks(8).all(|stamp| stamp == &page[..8]) && page[..8] != [0; 8];
    let mut image = whole.clone();
    image[stored..].chunks_mut(4096).filter(stamped).for_each(|page| page[5] ^= 1);
    folder.write("a.img", &image);
    let ended = run(&folder, &["--check", "--set", "run.warmup=0", "--set", "run.measure=1"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{ended:?}");
    ended.says(&["strobe: the image is damaged: block ", "is not as it was written"]);
    let ended = folder.strobe(&["fsck", "a.img"]);
    assert!(ended.code == 1 && ended.out.contains("the content of mapping unit "), "{ended:?}");
}

#[test]
fn a_truncated_image_is_refused_and_named() {
    let folder = Folder::new();
    run(&folder, &[]).ok();
    let image = fs::read(folder.path().join("a.img")).expect("reads");
    for (length, code, message) in [
        (0, 2, "it is blank"),
        (7, 2, "it is not an image"),
        (500, 1, "it is truncated: 500 of 4096 bytes are left"),
        (20_000, 1, "it is truncated: 20000 of"),
        (image.len() - 1, 1, "bytes, not "),
    ] {
        folder.write("a.img", &image[..length]);
        let checked = folder.strobe(&["fsck", "a.img"]);
        assert_eq!(checked.code, code, "{length}: {checked:?}");
        assert!(format!("{}{}", checked.out, checked.err).contains(message), "{length}: {checked:?}");
        run(&folder, &[]).refused(&["image a.img: ", message]);
    }
}

#[test]
fn what_is_no_image_of_this_drive_is_refused() {
    let folder = Folder::new();
    run(&folder, &[]).ok();
    let geometry = [
        "it holds a drive of another geometry: ",
        "it opens only as the drive that it was made for: give that with --drive, or in [drive] of the experiment; ",
        "pages_per_block is 8 in the image, but 16 was requested",
    ];
    run(&folder, &["--set", "drive.nand.pages_per_block=16"]).refused(&geometry);
    run(&folder, &["--set", "drive.ftl.logical_pages=150"])
        .refused(&["the capacity in mapping units is 160 in the image, but 150 was requested"]);
    run(&folder, &["--set", "drive.controller.nvram.bytes=8192"])
        .refused(&["drive.controller.nvram.bytes must be 0"]);
    run(&folder, &["--cut", "100"]).refused(&["--cut with --image"]);
    let onto_itself = ["run", "tiny.toml", "--image", "a.img", "--json", "a.img"];
    folder
        .strobe(&[&onto_itself, &DRIVE[..]].concat())
        .refused(&["--json a.img: this file is an input of the run"]);
    let mut newer = fs::read(folder.path().join("a.img")).expect("reads");
    newer[8] = 5;
    folder.write("newer.img", newer);
    let version = "image newer.img: it has format version 5, this program reads version 4";
    folder.strobe(&["fsck", "newer.img"]).refused(&[version]);
    for (file, message) in [
        ("tiny.toml", "it is not an image of a Strobe drive"),
        (".", "it is not a regular file"),
        ("missing", "cannot open it"),
    ] {
        folder.strobe(&["fsck", file]).refused(&[message]);
    }
    let untouched = folder.read("tiny.toml");
    for (file, message) in
        [("tiny.toml", "it is not an image"), (".", "it is not a regular file"), ("no/a", "cannot create it")]
    {
        folder.strobe(&["run", "tiny.toml", "--image", file]).refused(&["image ", message]);
    }
    assert_eq!(folder.read("tiny.toml"), untouched);
}
