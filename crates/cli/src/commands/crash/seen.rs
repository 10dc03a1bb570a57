//! Kinds of cut points that were fine in earlier runs (`--seen`).

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use strobe_crash::{Explorer, Found, Verdict};

use super::super::Failure;
use super::CrashArgs;

/// Content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    runs: Vec<Run>,
}

/// Kinds that were fine under the same conditions. The program may differ: its changes are what is looked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    conditions: Conditions,
    fine: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conditions {
    strobe_version: String,
    program: Vec<String>,
    before: Vec<String>,
    check: Option<String>,
    file_system: String,
    mount_options: String,
    /// Hash of the drive.
    drive: String,
    /// Machine, steps and options.
    options: Vec<String>,
}

impl Conditions {
    fn of(args: &CrashArgs, explorer: &Explorer) -> Self {
        let run = &explorer.run;
        let options =
            [("twice", args.twice), ("lying-flushes", explorer.lies), ("strict-names", args.strict_names)];
        let machine = &run.machine;
        let more = [
            format!("seed {}", run.experiment.seed),
            format!("mkfs {:?}", run.mkfs_options),
            format!("steps {:?} {:?}", run.before_mount, run.setup),
            format!("disk {:?}, memory {} MiB, {:?}", machine.disk, machine.memory_mib, machine.cpu),
            format!("kernel {:?} {:?}", machine.kernel.file_name(), machine.arguments),
            format!("limit {} ns, partitions {}", explorer.check_limit_ns, run.partitions),
        ];
        Self {
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            program: run.command.clone(),
            before: args.guest.before.clone(),
            check: args.check.clone(),
            file_system: run.file_system.kernel_name().unwrap_or_default().to_owned(),
            mount_options: run.mount_options.clone(),
            drive: run.experiment.config_hash(),
            options: options
                .into_iter()
                .filter(|(_, is_on)| *is_on)
                .map(|(name, _)| name.to_owned())
                .chain(more)
                .collect(),
        }
    }
}

impl Seen {
    /// Reads the file; a missing one is empty.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |reason: String| {
            let text = format!("--seen {}: {reason}; remove the file or name another", path.display());
            Failure::Request(anyhow!(text))
        };
        match fs::read_to_string(path) {
            Ok(text) => {
                serde_json::from_str(&text).map_err(|error| wrong(format!("not written by --seen: {error}")))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Kinds that were fine under the conditions of `explorer`.
    pub(super) fn fine(&self, args: &CrashArgs, explorer: &Explorer) -> BTreeSet<String> {
        let conditions = Conditions::of(args, explorer);
        let run = self.runs.iter().find(|run| run.conditions == conditions);
        run.map(|run| run.fine.clone()).unwrap_or_default()
    }

    /// Adds the kinds at which all cuts were fine, and removes those at which one was not.
    pub(super) fn add(&mut self, args: &CrashArgs, explorer: &Explorer, found: &[Found]) {
        let conditions = Conditions::of(args, explorer);
        let index = self.runs.iter().position(|run| run.conditions == conditions).unwrap_or_else(|| {
            self.runs.push(Run { conditions, fine: BTreeSet::new() });
            self.runs.len() - 1
        });
        let fine = &mut self.runs[index].fine;
        // The end of the program has no kind.
        for one in found.iter().filter(|one| !one.kind.is_empty()) {
            fine.insert(one.kind.clone());
        }
        for one in found.iter().filter(|one| one.verdict != Verdict::Fine) {
            fine.remove(&one.kind);
        }
    }
}
