//! Files that a guest hands out: `--get`.

use std::fs::File;
use std::io::Seek as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};
use strobe_linux::command::{GuestRoot, LinuxRun};

use super::super::Failure;
use super::RunArgs;
use super::guest::GuestArgs;

/// Files and folders of the guest, checked before the run.
pub(super) struct Gets(Vec<String>);

impl Gets {
    /// Refuses what would overwrite something here, or could not be brought out.
    pub(super) fn of(args: &RunArgs, run: &LinuxRun) -> Result<Self, Failure> {
        let wrong = |text: String| Err(Failure::Request(anyhow!("--get {text}")));
        let mut names = std::collections::BTreeSet::new();
        for path in &args.get {
            let Some(name) = Path::new(path).file_name() else {
                return wrong(format!("{path}: it has no name; name a file or folder"));
            };
            if !names.insert(name) {
                return wrong(format!("{path}: two of them are called {}", name.display()));
            }
            if Path::new(name).symlink_metadata().is_ok() {
                return wrong(format!(
                    "{path}: there is a {} in this folder, which is not overwritten: move it away, or run in another folder",
                    name.display()
                ));
            }
        }
        if !args.get.is_empty() && !matches!(run.root, GuestRoot::Host { .. }) {
            return wrong("counts with --root host only: a packed root has no tar".into());
        }
        Ok(Self(args.get.clone()))
    }

    /// Their paths in the guest.
    pub(super) fn paths(&self, guest: &GuestArgs) -> Vec<String> {
        self.0.iter().map(|path| guest.file_system_path(path)).collect()
    }

    /// A file for the guest's archive, without a name.
    pub(super) fn archive(&self) -> Result<File, Failure> {
        tempfile::tempfile().context("--get: cannot make a file for them").map_err(Failure::Run)
    }

    /// Unpacks here what the guest has sent; `not_sent`: why something is missing.
    pub(super) fn unpack(&self, mut archive: File, not_sent: Option<&str>) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let unpacked = || -> anyhow::Result<()> {
            archive.rewind()?;
            let mut tar = Command::new("tar");
            tar.args(["-x", "-f", "-", "--no-same-owner", "--keep-old-files"]).stdin(archive);
            let output = tar.stdout(Stdio::null()).output().context("cannot run tar")?;
            anyhow::ensure!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
            Ok(())
        };
        let unpacked = unpacked();
        if let Some(reason) = not_sent {
            return Err(Failure::Run(anyhow!(reason.to_owned())));
        }
        unpacked.map_err(|error| Failure::Run(anyhow!("--get: cannot unpack what the guest sent: {error:#}")))
    }
}
