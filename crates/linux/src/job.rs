//! A guest's job: a list of steps, shipped in its root file system.

use serde::{Deserialize, Serialize};

/// Path of the job in the guest's root.
pub(crate) const JOB_PATH: &str = "/job.json";
/// Mount point of the file system under test.
pub const MOUNT_POINT: &str = "/mnt";
/// The drive as a virtio disk, which steps say for the drive whatever it is.
pub const DEVICE: &str = "/dev/vda";

/// Steps of a guest from power-on to power-off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// In this order. If one fails that must not, the guest is switched off.
    pub steps: Vec<Step>,
    /// Environment of every program.
    pub environment: Vec<(String, String)>,
    /// True if the root is the host's, read only, below an overlay in memory. Otherwise it is the packed one.
    pub shows_host: bool,
    /// The name of the block device that steps mount: the drive's, or that of a partition.
    pub device: String,
    /// Names of the drives' block devices, for which the first process waits; empty: `device`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// Period at which the first process reports kernel counters, in ns, counted from each mark; 0: never.
    pub sample_ns: u64,
    /// Links to make in that layer: where, and what they point to.
    pub links: Vec<(String, String)>,
    /// Host files below folders that the guest replaces by its own. File N is shown as [`shown_at`] says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
}

/// Path in the guest of file `number` of [`Job::shown`]. The file is at the top of the host's files and in no
/// listing.
pub fn shown_at(number: usize) -> String {
    format!("/{}", shown_name(number))
}

pub(crate) fn shown_name(number: usize) -> String {
    format!(".strobe-shown-{number}")
}

impl Job {
    /// Adapts the job to a drive with device name `device` instead of the virtio disk. The user's own commands
    /// do not change.
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

/// `word` of a command, with the drive as the guest knows it for [`DEVICE`].
pub fn on_device(word: String, device: &str) -> String {
    if word == DEVICE { format!("/dev/{device}") } else { word }
}

/// One step of a job.
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
        /// Options, separated by commas.
        options: String,
    },
    /// Unmounts it.
    Unmount,
    /// Writes text to a file: a switch of the kernel.
    Set {
        /// File.
        path: String,
        /// Text.
        value: String,
    },
    /// sync(2).
    Sync,
    /// Forgets what the kernel has cached of files.
    DropCaches,
    /// Takes back changes of names on the mounted file system, those of deeper names first.
    Undo(Vec<Undo>),
    /// Tells the host that this point is reached.
    Mark(String),
    /// Sends files and folders of the guest to the host, as an archive.
    Get(Vec<String>),
}

/// A change of names that is taken back. Paths are relative to the top of the file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// The name disappears, with everything below it; a name that is not there is no error.
    Remove(String),
    /// `to` gets its old name `from` back, unless the file system has not moved it or the old name is taken.
    MoveBack {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// True if the output is discarded unless the program fails.
    pub quiet: bool,
    /// Exit codes that do not end the job; empty: all of them.
    pub allowed: Vec<i32>,
    /// Working folder; empty: the mount point, or / if nothing is mounted.
    pub folder: String,
}

impl Run {
    /// A tool that has to succeed and whose output nobody wants.
    pub fn tool<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Step {
        Self::step(argv, true, vec![0])
    }

    /// A program whose output is the user's, and that has to succeed.
    pub fn must_succeed<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Step {
        Self::step(argv, false, vec![0])
    }

    /// A program whose output and exit code are the user's.
    pub fn program<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Step {
        Self::program_in(argv, "")
    }

    /// A step that runs a program in `folder`; empty: in the mount point.
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

/// Kernel counters of a guest since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Bytes of files and of the file system that are in memory only.
    pub dirty_bytes: u64,
    /// Bytes on their way to the drive.
    pub writeback_bytes: u64,
    /// Commits of the file system: transactions of ext4's journal, checkpoints of F2FS; `None` for others.
    pub commits: Option<u64>,
    /// Times that F2FS has cleaned; `None` for others.
    pub cleanings: Option<u64>,
}

/// Report from the guest's first process to the host, one line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// A [`Step::Mark`] is reached.
    Mark {
        /// Name of the mark.
        name: String,
        /// The guest's time in ns.
        at_ns: u64,
    },
    /// Kernel counters.
    Sample {
        /// The guest's time in ns.
        at_ns: u64,
        /// It.
        sample: Sample,
    },
    /// A program has ended.
    Exit {
        /// Its step.
        step: usize,
        /// Its code; 128 and the number of the signal that ended it.
        code: i32,
        /// Output of a quiet program.
        said: String,
    },
    /// A step has failed and the guest is going down.
    Failed {
        /// Its step.
        step: usize,
        /// Why, with what a quiet program has printed.
        reason: String,
    },
    /// Files or folders of a [`Step::Get`] were not sent.
    NotSent {
        /// Why.
        reason: String,
    },
    /// Files were written since the first mark that are not on the drive: they are in the guest's memory.
    Beside {
        /// Number of them.
        files: u64,
        /// The first of them.
        paths: Vec<String>,
    },
    /// All steps are done.
    Done,
}
