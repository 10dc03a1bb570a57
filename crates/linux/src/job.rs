//! Job of a guest: a list of steps, shipped in its root file system.

use serde::{Deserialize, Serialize};

pub(crate) const JOB_PATH: &str = "/job.json";
/// Mount point of the file system under test.
pub const MOUNT_POINT: &str = "/mnt";
/// Device path of the drive in steps, for either interface.
pub const DEVICE: &str = "/dev/vda";

/// Steps of a guest from power-on to power-off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Steps in order. A failed mandatory step powers the guest off.
    pub steps: Vec<Step>,
    /// Environment of every program.
    pub environment: Vec<(String, String)>,
    /// True if the root is the host's, read only, below an overlay in memory. Otherwise it is the packed one.
    pub shows_host: bool,
    /// Name of the block device to mount: the drive's or a partition's.
    pub device: String,
    /// Names of block devices the first process waits for. If empty, it waits for `device`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// Period of kernel counter reports in ns, counted from each mark; 0 disables them.
    pub sample_ns: u64,
    /// Links to create in the overlay: path and target.
    pub links: Vec<(String, String)>,
    /// Host files that a folder of the guest hides. File N is shown at [`shown_at`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
}

/// Guest path of file `number` of [`Job::shown`]. The file is in the root folder, but in no listing.
pub fn shown_at(number: usize) -> String {
    format!("/{}", shown_name(number))
}

pub(crate) fn shown_name(number: usize) -> String {
    format!(".strobe-shown-{number}")
}

impl Job {
    /// Adapts the job to a drive with device name `device` instead of the virtio disk. User commands do not
    /// change.
    #[must_use]
    pub fn on_device(mut self, device: &str) -> Self {
        device.clone_into(&mut self.device);
        for step in &mut self.steps {
            match step {
                Step::Run(run) if run.quiet => {
                    for word in &mut run.argv {
                        *word = on_device(std::mem::take(word), device);
                    }
                }
                Step::Set { path, .. } => *path = path.replace("/vda/", &format!("/{device}/")),
                _ => {}
            }
        }
        self
    }
}

/// Replaces [`DEVICE`] in a command's `word` by the guest's device path.
pub fn on_device(word: String, device: &str) -> String {
    if word == DEVICE { format!("/dev/{device}") } else { word }
}

/// Step of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Loads a kernel module.
    Module(String),
    /// Runs a program.
    Run(Run),
    /// Mounts the drive.
    Mount {
        /// File system.
        kind: String,
        /// Mount options, separated by commas.
        options: String,
    },
    /// Unmounts the drive.
    Unmount,
    /// Writes text to a file, such as a kernel switch.
    Set {
        /// File.
        path: String,
        /// Text.
        value: String,
    },
    /// Calls sync(2).
    Sync,
    /// Drops the kernel's file caches.
    DropCaches,
    /// Undoes changes of names on the mounted file system, deepest names first.
    Undo(Vec<Undo>),
    /// Reports to the host that this point is reached.
    Mark(String),
    /// Sends files and folders of the guest to the host as an archive.
    Get(Vec<String>),
}

/// Undo of a changed name. Paths are relative to the file system's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// Removes the name with everything below it. A missing name is no error.
    Remove(String),
    /// Moves `to` back to its old name `from`, unless the move did not happen or the old name is taken.
    MoveBack {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
}

/// Program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// True to discard the output unless the program fails.
    pub quiet: bool,
    /// Exit codes that do not end the job. If empty, all are allowed.
    pub allowed: Vec<i32>,
    /// Working folder; if empty, the mount point, or / without a mounted file system.
    pub folder: String,
}

impl Run {
    /// Step for a tool that must succeed, without output.
    pub fn tool<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Step {
        Self::step(argv, true, vec![0])
    }

    /// Step for a program that must succeed, with output for the user.
    pub fn must_succeed<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Step {
        Self::step(argv, false, vec![0])
    }

    /// Step for a program with any exit code and output for the user.
    pub fn program<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Step {
        Self::program_in(argv, "")
    }

    /// Step for a program in `folder`, or in the mount point if empty.
    pub fn program_in<S: Into<String>>(argv: impl IntoIterator<Item = S>, folder: &str) -> Step {
        let argv = argv.into_iter().map(Into::into).collect();
        Step::Run(Self { argv, quiet: false, allowed: Vec::new(), folder: folder.to_owned() })
    }

    fn step<S: Into<String>>(argv: impl IntoIterator<Item = S>, quiet: bool, allowed: Vec<i32>) -> Step {
        Step::Run(Self {
            argv: argv.into_iter().map(Into::into).collect(),
            quiet,
            allowed,
            folder: String::new(),
        })
    }
}

/// Kernel counters since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Dirty bytes of files and file system metadata, in memory only.
    pub dirty_bytes: u64,
    /// Bytes being written back.
    pub writeback_bytes: u64,
    /// File system commits: ext4 journal transactions or F2FS checkpoints; `None` for other file systems.
    pub commits: Option<u64>,
    /// Number of F2FS cleanings; `None` for other file systems.
    pub cleanings: Option<u64>,
}

/// Report from the guest's first process to the host, one per line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// A [`Step::Mark`] is reached.
    Mark {
        /// Name of the mark.
        name: String,
        /// Guest time in ns.
        at_ns: u64,
    },
    /// Kernel counters.
    Sample {
        /// Guest time in ns.
        at_ns: u64,
        /// Counters.
        sample: Sample,
    },
    /// A program has ended.
    Exit {
        /// Index of its step.
        step: usize,
        /// Exit code; 128 plus the signal number if a signal ended it.
        code: i32,
        /// Output of a quiet program.
        said: String,
    },
    /// A step has failed, and the guest powers off.
    Failed {
        /// Index of the step.
        step: usize,
        /// Reason, with the output of a quiet program.
        reason: String,
    },
    /// Files or folders of a [`Step::Get`] were not sent.
    NotSent {
        /// Reason.
        reason: String,
    },
    /// Files were written outside the drive since the first mark, into the guest's memory.
    Outside {
        /// Number of files.
        files: u64,
        /// Some of their paths.
        paths: Vec<String>,
    },
    /// All steps are done.
    Done,
}
