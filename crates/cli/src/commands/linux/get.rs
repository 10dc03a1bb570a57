//! `--get`: files copied out of a guest.

use std::fs::File;
use std::io::Seek as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};
use strobe_linux::command::{GuestRoot, LinuxRun};

use super::super::Failure;
use super::RunArgs;
use super::guest::GuestArgs;

pub(super) struct Gets(Vec<String>);

impl Gets {
    /// Refuses paths that would overwrite a file here or cannot be copied out.
    pub(super) fn of(args: &RunArgs, run: &LinuxRun) -> Result<Self, Failure> {
        let wrong = |text: String| Err(Failure::Request(anyhow!("--get {text}")));
        let mut names = std::collections::BTreeSet::new();
        for path in &args.get {
            let Some(name) = Path::new(path).file_name() else {
                return wrong(format!("{path}: no file name; name a file or folder"));
            };
            if !names.insert(name) {
                return wrong(format!("{path}: two requested files are named {}", name.display()));
            }
            if Path::new(name).symlink_metadata().is_ok() {
                return wrong(format!(
                    "{path}: {} exists in this folder and is not overwritten: move it away, or run in another folder",
                    name.display()
                ));
            }
        }
        if !args.get.is_empty() && !matches!(run.root, GuestRoot::Host { .. }) {
            return wrong("needs --root host: a packed root has no tar".into());
        }
        Ok(Self(args.get.clone()))
    }

    pub(super) fn paths(&self, guest: &GuestArgs) -> Vec<String> {
        self.0.iter().map(|path| guest.file_system_path(path)).collect()
    }

    pub(super) fn archive(&self) -> Result<File, Failure> {
        tempfile::tempfile().context("--get: cannot create a temporary file").map_err(Failure::Run)
    }

    /// Unpacks the archive in the current folder. `not_sent` is the reason why a path is missing.
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
