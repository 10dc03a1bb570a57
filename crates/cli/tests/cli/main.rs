//! The `strobe` program as users see it: arguments, files and signals in; exit codes, JSON and messages out.
//! Every test runs the real program, without a shell.

mod bad_input;
mod brief;
mod commands;
mod contract;
mod control;
mod determinism;
mod diff;
mod endings;
mod events;
mod files;
mod fio_streams;
mod first_hour;
mod hostile;
mod image;
mod jobs;
mod loads;
mod measure_drive;
mod numbers;
mod nvme_tcp;
mod nvram;
mod outputs;
mod paper;
mod paper_from;
mod pictures;
mod power;
mod report;
mod result;
mod schema;
mod serve;
mod signals;
mod slips;
mod state_layout;
mod states;
mod sweep;
mod trace_formats;
mod trace_parts;
mod traces;
mod twin;
mod vhost;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value as Json;
use tempfile::TempDir;

/// One die, 32 blocks of 8 pages, 160 logical units of 4 KiB.
pub(crate) const TINY: &str = "\
seed = 1
[drive.nand]
blocks_per_plane = 32
pages_per_block = 8
[drive.ftl]
logical_pages = 160
[workload]
kind = \"uniform\"
[run]
warmup = \"2x\"
measure = \"4x\"
";

pub(crate) const TINY_DRIVE: &str = "\
[nand]
blocks_per_plane = 32
pages_per_block = 8
[ftl]
logical_pages = 160
";

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn refused(&self, parts: &[&str]) {
        assert_eq!(self.code, 2, "{self:?}");
        assert_eq!(self.out, "", "a refusal prints no result");
        self.says(parts);
    }

    #[track_caller]
    pub(crate) fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.err.contains(part), "\"{part}\" is missing in: {}", self.err);
        }
        assert!(!self.err.trim_end().is_empty());
        assert!(self.err.len() < 10_000, "a message of {} bytes", self.err.len());
    }
}

/// Arguments are relative to it: results do not depend on its location.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = Self(TempDir::new().expect("a temporary folder"));
        folder.write("tiny.toml", TINY).write("drive.toml", TINY_DRIVE);
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path().join(name), content).expect("a writable folder");
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("a file was written")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
        command
    }

    #[track_caller]
    pub(crate) fn strobe(&self, args: &[&str]) -> Ended {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("the program starts"))
    }

    #[track_caller]
    pub(crate) fn tiny(&self, sets: &[&str]) -> Ended {
        let mut args = vec!["run", "tiny.toml", "--quiet", "--json", "-"];
        args.extend(sets.iter().flat_map(|set| ["--set", set]));
        self.strobe(&args)
    }

    #[track_caller]
    pub(crate) fn replay(&self, file: &str, format: &str, more: &[&str]) -> Ended {
        let mut args =
            vec!["replay", file, "--format", format, "--drive", "drive.toml", "--quiet", "--json", "-"];
        args.extend(more);
        self.strobe(&args)
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
pub(crate) fn finish(child: Child) -> Ended {
    finish_with(child, Duration::from_secs(120))
}

#[track_caller]
pub(crate) fn finish_with(mut child: Child, limit: Duration) -> Ended {
    #[allow(clippy::disallowed_methods, reason = "a full pipe must not block the program under test")]
    fn collect(pipe: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes).expect("a pipe");
            }
            String::from_utf8(bytes).expect("the program prints text")
        })
    }
    let out = collect(child.stdout.take());
    let err = collect(child.stderr.take());
    let mut status = None;
    for _ in 0..limit.as_millis() / 10 {
        status = child.try_wait().expect("our own child");
        if status.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let Some(status) = status else {
        child.kill().expect("our own child");
        panic!("hangs: {}", err.join().expect("read"));
    };
    let (out, err) = (out.join().expect("read"), err.join().expect("read"));
    assert!(!err.contains("panicked") && !err.contains("overflowed its stack"), "{err}");
    let code = status.code().unwrap_or_else(|| panic!("died: {status}: {err}"));
    assert!([0, 1, 2, 129, 130, 143].contains(&code), "exit code {code}: {err}");
    Ended { code, out, err }
}

/// Programs that `scripts/qemu_host.py` needs to boot a distribution's kernel.
pub(crate) fn has_qemu_host() -> bool {
    let needed = [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("nvme", "nvme-cli"),
        ("fio", "fio"),
        ("busybox", "busybox-static"),
        ("mkfs.f2fs", "f2fs-tools"),
        ("cpio", "cpio"),
        ("apt-get", "apt"),
    ];
    needed.iter().all(|(name, package)| strobe_testing::program(name, package).is_some())
}

#[track_caller]
pub(crate) fn assert_causes_add_up(result: &Json) {
    for op in ["program", "read", "erase"] {
        let by_cause = result["nand"][op]["by_cause"].as_object().expect("a table of causes");
        assert_eq!(by_cause.len(), 11, "{by_cause:?}");
        let sum: u64 = by_cause.values().map(|n| n.as_u64().expect("a count")).sum();
        assert_eq!(result["nand"][op]["total"].as_u64(), Some(sum), "{op}");
    }
}
