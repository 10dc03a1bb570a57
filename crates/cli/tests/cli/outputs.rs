//! Destinations of results: no file of the user is destroyed.

use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Folder, finish};

const CAMERA: [&str; 6] = ["files", "camera", "--set", "transactions=1", "--set", "photos=1"];

fn camera(more: &[&str]) -> Vec<String> {
    CAMERA.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn run(folder: &Folder, args: &[String]) -> crate::Ended {
    folder.strobe(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).expect("there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("there").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn is_device(path: &str) -> bool {
    std::fs::metadata(path).expect("Linux has it").file_type().is_char_device()
}

#[test]
fn devices_are_written_through_and_stay_devices() {
    let folder = Folder::new();
    for option in ["--trace", "--json"] {
        run(&folder, &camera(&[option, "/dev/null"])).ok();
        let full = run(&folder, &camera(&[option, "/dev/full"]));
        assert_eq!(full.code, 1, "{full:?}");
        full.says(&["No space left"]);
    }
    folder.strobe(&["run", "tiny.toml", "--quiet", "--json", "/dev/null"]).ok();
    assert!(is_device("/dev/null") && is_device("/dev/full"));
    assert_eq!(names(&folder), ["drive.toml", "tiny.toml"], "nothing is left behind");
}

#[test]
fn a_pipe_stays_a_pipe_and_its_reader_gets_all() {
    let folder = Folder::new();
    let made = Command::new("mkfifo").arg(folder.path().join("pipe")).status().expect("mkfifo");
    assert!(made.success());
    let args = camera(&["--trace", "pipe"]);
    let mut command = folder.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut text = String::new();
    let pipe = std::fs::File::open(folder.path().join("pipe"));
    pipe.and_then(|mut pipe| pipe.read_to_string(&mut text)).expect("read");
    finish(child).ok();
    assert!(text.starts_with("fio version 2 iolog\n") && text.ends_with("close\n"), "{}", text.len());
    let kind = std::fs::metadata(folder.path().join("pipe")).expect("there").file_type();
    assert!(kind.is_fifo(), "{kind:?}");
}

#[test]
fn links_are_followed() {
    let folder = Folder::new();
    symlink("real.fio", folder.path().join("link.fio")).expect("linked");
    symlink("real.json", folder.path().join("link.json")).expect("linked");
    for _ in 0..2 {
        run(&folder, &camera(&["--trace", "link.fio", "--json", "link.json"])).ok();
        for name in ["link.fio", "link.json"] {
            assert!(folder.path().join(name).is_symlink(), "{name} was replaced");
        }
        assert!(folder.read("real.fio").starts_with("fio version 2"));
        assert!(folder.read("real.json").starts_with('{'));
    }
}

#[test]
fn a_dash_is_standard_output_and_nothing_else_is_printed_there() {
    let folder = Folder::new();
    let ended = run(&folder, &camera(&["--trace", "-"])).ok();
    assert!(
        ended.out.starts_with("fio version 2 iolog\n") && ended.out.ends_with("close\n"),
        "{}",
        ended.out.len()
    );
    run(&folder, &camera(&["--json", "-"])).ok().json();
    run(&folder, &camera(&["--trace", "-", "--json", "-"])).refused(&["--json", "--trace", "the same file"]);
    assert_eq!(names(&folder), ["drive.toml", "tiny.toml"], "no file is called -");
    folder.strobe(&["run", "tiny.toml", "--json", "/dev/stdout"]).ok().json();
}

#[test]
fn an_input_is_not_overwritten_by_any_name() {
    let folder = Folder::new();
    folder.write("trace.fio", "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a write 0 4096\n");
    let at = |name: &str| folder.path().join(name);
    for (name, of) in [("hard", "tiny.toml"), ("hard-drive", "drive.toml"), ("hard-trace", "trace.fio")] {
        std::fs::hard_link(at(of), at(name)).expect("linked");
        symlink(of, at(&format!("soft-{of}"))).expect("linked");
    }
    let before = (folder.read("tiny.toml"), folder.read("drive.toml"), folder.read("trace.fio"));
    for target in ["tiny.toml", "hard", "soft-tiny.toml", "./tiny.toml"] {
        folder.strobe(&["run", "tiny.toml", "--json", target]).refused(&["--json", target, "is an input"]);
    }
    for target in ["trace.fio", "hard-trace", "hard-drive", "soft-drive.toml"] {
        folder
            .strobe(&[
                "replay",
                "trace.fio",
                "--format",
                "fio",
                "--closed-loop",
                "--drive",
                "drive.toml",
                "--json",
                target,
            ])
            .refused(&["--json", target, "is an input"]);
    }
    assert_eq!(before, (folder.read("tiny.toml"), folder.read("drive.toml"), folder.read("trace.fio")));
}

#[test]
fn standard_input_and_an_image_to_come_are_inputs_too() {
    let folder = Folder::new();
    let from = |name: &str, args: &[&str]| {
        let file = std::fs::File::open(folder.path().join(name)).expect("there");
        let mut command = folder.command(args);
        command.stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("the program starts"))
    };
    let before = folder.read("tiny.toml");
    from("tiny.toml", &["run", "-", "--json", "tiny.toml"]).refused(&["--json tiny.toml", "is an input"]);
    assert_eq!(folder.read("tiny.toml"), before);
    from("tiny.toml", &["run", "-", "--quiet", "--json", "out.json"]).ok();
    for target in ["new.img", "./new.img"] {
        folder
            .strobe(&["run", "tiny.toml", "--image", "new.img", "--json", target])
            .refused(&["--json", "is an input"]);
    }
    assert!(!folder.path().join("new.img").exists());
}

#[test]
fn a_result_that_cannot_be_written_leaves_what_was_there() {
    let folder = Folder::new();
    folder.write("out.json", "old");
    folder.strobe(&[
        "run",
        "tiny.toml",
        "--quiet",
        "--json",
        "out.json",
        "--set",
        "drive.nand.endurance_pe=1",
    ]);
    assert!(folder.read("out.json").starts_with('{'));
    folder.write("out.fio", "old");
    let full = run(
        &folder,
        &camera(&[
            "--volume",
            "3",
            "--set",
            "photo_max_bytes=9000000",
            "--trace",
            "out.fio",
            "--set",
            "photo_min_bytes=8000000",
        ]),
    );
    assert_eq!(full.code, 1, "{full:?}");
    assert_eq!(folder.read("out.fio"), "old", "half a trace is none");
    for target in ["", "no/folder", "new/", "."] {
        folder.strobe(&["run", "tiny.toml", "--json", target]).refused(&["--json", "an existing folder"]);
        run(&folder, &camera(&["--trace", target])).refused(&["--trace", "an existing folder"]);
    }
    assert!(Path::new("/dev/null").exists());
}
