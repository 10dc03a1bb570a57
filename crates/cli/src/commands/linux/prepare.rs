//! `strobe linux build-kernel` and `strobe linux doctor`: requirements of guests.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use indicatif::ProgressBar;
use strobe_linux::Machine;
use strobe_linux::command::{FileSystem, LinuxRun};
use strobe_linux::kernel::{self, BuildOptions, BuildProgress, Built, Extra, Fragment, KernelError};

use super::super::options::one_of;
use super::super::{Failure, output};
use super::super::{progress, signals};
use super::guest::experiment;

#[derive(Args)]
pub(super) struct BuildArgs {
    /// Tarball or folder with the source of Linux 6.1 or newer [default: the newest linux-source of /usr/src]
    #[arg(long, value_name = "TARBALL|DIR")]
    source: Option<PathBuf>,
    /// Extra features, separated by commas: file systems, or the requirements of test suites (device mapper,
    /// loop, null_blk, quotas, access lists and both file systems). The build takes longer
    #[arg(long, value_name = "EXTRA", value_delimiter = ',', value_parser = one_of(&Extra::ALL, Extra::name))]
    with: Vec<Extra>,
    /// Further options in .config format: built in (=y), off (=n) or with a value (repeatable). The result is
    /// not the default kernel of `strobe linux`: name it with --kernel
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Parallel compilers [default: one per processor]
    #[arg(long, short, value_name = "N", default_value_t = 0, hide_default_value = true)]
    jobs: u32,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn build_kernel(args: &BuildArgs) -> Result<(), Failure> {
    let fragments = args.config.iter().map(|path| Fragment::read(path)).collect::<Result<Vec<_>, _>>();
    let options = BuildOptions {
        source: args.source.clone(),
        extras: args.with.clone(),
        fragments: fragments.map_err(|error| Failure::judged(true, &error))?,
        jobs: args.jobs,
    };
    let show = !args.quiet && std::io::stderr().is_terminal();
    let bar = show.then(|| ProgressBar::new(1));
    if let Some(bar) = &bar {
        progress::restyle(bar, "{msg:12} {wide_bar} {percent:>3} %  {elapsed}");
        bar.enable_steady_tick(Duration::from_millis(500));
    }
    let mut said = String::new();
    let built = kernel::build(&options, &mut |progress| match &bar {
        Some(bar) => {
            bar.set_message(progress.step);
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        }
        None if args.quiet => {}
        // Without a terminal a line is printed only when it changes.
        None => {
            let line = step_line(&progress);
            if line != said {
                output::note(&line);
                said = line;
            }
        }
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    match built {
        Ok(Built { path, lacks }) => {
            if !lacks.is_empty() {
                output::note(&format!("this version of Linux lacks: {}", lacks.join("; ")));
            }
            output::print(&format!("the guest's kernel: {}", path.display()))
        }
        // Missing tools or sources are wrong requests; a failed compiler is a failed run.
        Err(error) => {
            let has_run = matches!(error, KernelError::Failed { .. } | KernelError::Io(_));
            Err(Failure::judged(!has_run, &error))
        }
    }
}

fn step_line(progress: &BuildProgress) -> String {
    let tenths = progress.done * 10 / progress.total.max(1);
    match tenths {
        0 => format!("{} ...", progress.step),
        _ => format!("{} ... {}0 %", progress.step, tenths),
    }
}

pub(super) fn doctor() -> Result<(), Failure> {
    let mut is_ready = true;
    let mut lines = Vec::new();
    let mut say = |good: Result<String, String>, what: &str| {
        let (sign, text) = match &good {
            Ok(text) => ("ok", text),
            Err(text) => ("--", text),
        };
        lines.push(format!("{sign}  {what:22} {text}"));
        good.is_ok()
    };
    let kernel = kernel::installed().and_then(|path| Ok((kernel::inspect(&path)?, path)));
    is_ready &= say(
        match &kernel {
            Ok((info, path)) => Ok(format!("Linux {}, {}", info.version, path.display())),
            Err(error) => Err(error.to_string()),
        },
        "kernel",
    );
    if let Ok((_, path)) = &kernel {
        is_ready &= say(trial(path), "a guest boots");
    }
    let missing = kernel::missing_tools();
    let tools = if missing.is_empty() {
        Ok("complete".to_owned())
    } else {
        Err(KernelError::Tools(missing).to_string())
    };
    let source =
        kernel::find_source().map(|path| path.display().to_string()).map_err(|error| error.to_string());
    let can_build = [say(tools, "kernel build tools"), say(source, "kernel source")] == [true, true];
    // A machine that can build the kernel is ready even before it has one.
    is_ready |= can_build && kernel.is_err();
    for program in [
        "mkfs.ext4",
        "e2fsck",
        "mkfs.f2fs",
        "fsck.f2fs",
        "mkfs.vfat",
        "fsck.fat",
        "mkfs.exfat",
        "fsck.exfat",
        "mkfs.xfs",
        "mkfs.btrfs",
        "fio",
        "dbench",
        "postmark",
    ] {
        // These programs are optional: a missing one does not make the machine unready.
        let found = strobe_linux::find_program(program);
        say(found.map(|path| path.display().to_string()).map_err(|error| error.to_string()), program);
    }
    output::print(&lines.join("\n"))?;
    if is_ready {
        Ok(())
    } else {
        Err(Failure::Run(anyhow!("guests cannot run on this machine yet; see the lines marked --")))
    }
}

fn trial(kernel: &Path) -> Result<String, String> {
    let experiment = experiment("strobe linux", "jasmine-4g", &[], None).map_err(|error| match error {
        Failure::Request(error) | Failure::Run(error) => error.to_string(),
        Failure::Partial(_) | Failure::Command(_) | Failure::Found => String::new(),
    })?;
    let command = vec!["strobe".into(), "--version".into()];
    let run = LinuxRun::new(experiment, Machine::new(kernel.to_owned()), FileSystem::None, command);
    let result = run
        .run(None, &signals::listen_for_long(), &mut |_, _| {}, &mut |_, _| {})
        .map_err(|error| error.to_string())?;
    Ok(format!("and powers off after {:.1} s", result.time.wall_s.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_a_terminal_says_each_tenth_once() {
        let mut lines: Vec<_> =
            (0..=600).map(|done| step_line(&BuildProgress { step: "compiling", done, total: 600 })).collect();
        lines.dedup();
        assert_eq!(lines.len(), 11);
        assert_eq!(
            [&lines[0], &lines[1], &lines[10]],
            ["compiling ...", "compiling ... 10 %", "compiling ... 100 %"]
        );
    }
}
