//! File system switches of the project's kernel patches, without knowledge of their sysfs files.

use strobe_types::named;

use crate::job::Step;

use super::{FileSystem, LinuxRun};

named! {
    /// Method of F2FS for moving live blocks out of a cleaned segment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum F2fsCleaning {
        /// Reads and writes.
        Move => "move",
        /// Copy commands of the drive: a logical copy, if the drive supports it.
        Copy => "copy",
    }
}

named! {
    /// Discard of freed blocks by ext4.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Ext4Discard {
        /// At each commit, with up to 64 extents per command, within the drive's range limit.
        Batched => "batched",
        /// At each commit, with one command per extent.
        Single => "single",
        /// No discard.
        Off => "off",
    }
}

/// Requested switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Cleaning method of F2FS.
    pub f2fs_cleaning: Option<F2fsCleaning>,
    /// Discard mode of ext4.
    pub ext4_discard: Option<Ext4Discard>,
}

impl Switches {
    /// Adds the switches to `run`, before other set-up steps. An error if a switch would have no effect.
    pub fn apply(self, run: &mut LinuxRun) -> Result<(), String> {
        let disk = &run.machine.disk;
        let mut steps = Vec::new();
        if let Some(cleaning) = self.f2fs_cleaning {
            if run.file_system != FileSystem::F2fs {
                return Err("--f2fs-cleaning has no effect unless --fs f2fs".into());
            }
            let value = match cleaning {
                F2fsCleaning::Move => "0",
                F2fsCleaning::Copy if disk.copy => "1",
                F2fsCleaning::Copy => {
                    return Err("--f2fs-cleaning copy needs the Copy command: leave out --no-copy".into());
                }
            };
            steps.push(set("f2fs", "gc_logical_copy", value));
        }
        if let Some(discard) = self.ext4_discard {
            let given = || run.mount_options.split(',').find(|option| option.ends_with("discard"));
            if run.file_system != FileSystem::Ext4 {
                return Err("--ext4-discard has no effect unless --fs ext4".into());
            }
            if let Some(option) = given() {
                return Err(format!(
                    "--ext4-discard and --mount-opts {option} set the same option: leave out one of them"
                ));
            }
            if discard != Ext4Discard::Off && disk.discard_segments == 0 {
                return Err(
                    "--ext4-discard needs a drive with discard: set --discard-segments above 0".into()
                );
            }
            // The mount option enables discards. The batch size limits the extents per command.
            let option = if discard == Ext4Discard::Off { "nodiscard" } else { "discard" };
            let separator = if run.mount_options.is_empty() { "" } else { "," };
            run.mount_options = format!("{}{separator}{option}", run.mount_options);
            match discard {
                Ext4Discard::Batched => steps.push(set("ext4", "mb_discard_batch", "64")),
                Ext4Discard::Single => steps.push(set("ext4", "mb_discard_batch", "1")),
                Ext4Discard::Off => {}
            }
        }
        run.setup.splice(0..0, steps);
        Ok(())
    }
}

fn set(kind: &str, name: &str, value: &str) -> Step {
    Step::Set { path: format!("/sys/fs/{kind}/vda/{name}"), value: value.into() }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use crate::Machine;

    use super::*;
    use strobe_lab::Experiment;

    fn run(file_system: FileSystem) -> LinuxRun {
        let experiment = Experiment::from_table(toml::Table::new(), &[], Path::new("")).expect("defaults");
        let machine = Machine::new(PathBuf::from("kernel"));
        let run = LinuxRun::new(experiment, machine, file_system, Vec::new());
        LinuxRun { setup: vec![Step::Sync], ..run }
    }

    const NONE: Switches = Switches { f2fs_cleaning: None, ext4_discard: None };

    #[test]
    fn switches_are_set_first_and_discards_are_asked_for_in_the_mount() {
        for (cleaning, value) in [(F2fsCleaning::Move, "0"), (F2fsCleaning::Copy, "1")] {
            let mut run = run(FileSystem::F2fs);
            run.mount_options = "mode=lfs".into();
            Switches { f2fs_cleaning: Some(cleaning), ..NONE }.apply(&mut run).expect("applies");
            assert_eq!(run.setup, [set("f2fs", "gc_logical_copy", value), Step::Sync]);
            assert_eq!(run.mount_options, "mode=lfs");
        }
        let discards = [
            (Ext4Discard::Batched, "", Some("64"), "discard"),
            (Ext4Discard::Single, "commit=1", Some("1"), "commit=1,discard"),
            (Ext4Discard::Off, "", None, "nodiscard"),
        ];
        for (discard, options, batch, expected) in discards {
            let mut run = run(FileSystem::Ext4);
            run.mount_options = options.into();
            Switches { ext4_discard: Some(discard), ..NONE }.apply(&mut run).expect("applies");
            let mut steps: Vec<Step> =
                batch.map(|batch| set("ext4", "mb_discard_batch", batch)).into_iter().collect();
            steps.push(Step::Sync);
            assert_eq!((run.setup, &run.mount_options[..]), (steps, expected));
        }
    }

    #[test]
    fn switches_that_would_do_nothing_are_refused_with_the_cure() {
        let refused = |file_system, switches: Switches, change: &dyn Fn(&mut LinuxRun)| {
            let mut run = run(file_system);
            change(&mut run);
            let before = (run.setup.clone(), run.mount_options.clone());
            let message = switches.apply(&mut run).expect_err("refused");
            assert_eq!((run.setup, run.mount_options), before, "nothing was changed");
            message
        };
        let copy = Switches { f2fs_cleaning: Some(F2fsCleaning::Copy), ..NONE };
        let batched = Switches { ext4_discard: Some(Ext4Discard::Batched), ..NONE };
        let nothing = |_: &mut LinuxRun| {};
        assert!(refused(FileSystem::Ext4, copy, &nothing).contains("--fs f2fs"));
        assert!(refused(FileSystem::F2fs, batched, &nothing).contains("--fs ext4"));
        assert!(refused(FileSystem::F2fs, copy, &|run| run.machine.disk.copy = false).contains("--no-copy"));
        let none = |run: &mut LinuxRun| run.machine.disk.discard_segments = 0;
        assert!(refused(FileSystem::Ext4, batched, &none).contains("--discard-segments"));
        let twice = |run: &mut LinuxRun| run.mount_options = "noatime,discard".into();
        assert!(refused(FileSystem::Ext4, batched, &twice).contains("--mount-opts discard"));
    }
}
