use std::io;

/// Reason why a guest did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinuxError {
    /// A host operation failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A required program is missing.
    #[error(transparent)]
    Missing(#[from] crate::program::MissingProgram),
    /// The guest cannot see a host file.
    #[error(
        "{}: the guest's {folder} hides this machine's; {}", .path.display(), cure(.path, *.can_be_put)
    )]
    Hidden {
        /// File.
        path: std::path::PathBuf,
        /// Folder of the guest that hides the file.
        folder: &'static str,
        /// True if the guest can be shown the file at another path.
        can_be_put: bool,
    },
    /// A library of a program is missing.
    #[error("{} needs the library {library}, which is not installed", .program.display())]
    Library {
        /// Program.
        program: std::path::PathBuf,
        /// Library.
        library: String,
    },
    /// The kernel could not be started.
    #[error("cannot start the kernel {path}: {error}")]
    Start {
        /// Path of the kernel.
        path: String,
        /// Reason.
        error: io::Error,
    },
    /// The guest violated a protocol.
    #[error("protocol violation by the guest: {0}")]
    Protocol(String),
    /// The guest ended before its work was done.
    #[error("the guest ended before its job was complete{}", quoted(.0))]
    Ended(String),
    /// The kernel panicked.
    #[error("the guest's kernel panicked{}", quoted(.0))]
    Panic(String),
    /// Neither the guest nor the drive has anything to do.
    #[error(
        "deadlock at {} of virtual time: the guest waits, and the drive is idle{}", seconds(*.at_ns),
        quoted(.log)
    )]
    Deadlock {
        /// Guest time in ns.
        at_ns: u64,
        /// Last lines printed by the kernel.
        log: String,
    },
    /// The limit of virtual time was reached.
    #[error("the guest has not finished after {} of virtual time; raise --time-limit", seconds(*.limit_ns))]
    TimeLimit {
        /// Time limit in ns.
        limit_ns: u64,
    },
    /// The guest computes and virtual time stands still.
    #[error(
        "the guest has computed for {seconds} s without virtual time passing: a program may be waiting in a loop. \
         --spin-limit 2 and --syscall-ns 1000, the defaults if the kernel supports them, let time continue with \
         such a program; --stall-limit raises the limit{}",
        quoted(.log)
    )]
    Stalled {
        /// Wall time in seconds.
        seconds: u64,
        /// Last lines printed by the kernel.
        log: String,
    },
    /// Host memory ran out because of the data stored on the drive.
    #[error(
        "the data stored on the drive fills this machine's memory ({} MiB left); --image FILE stores it on disk",
        .0 >> 20
    )]
    StoredData(
        /// Bytes left.
        u64,
    ),
    /// A step failed, and the guest then ended abnormally.
    #[error("{}", .0.trim_end())]
    Step(String),
    /// Storing the drive's data failed.
    #[error("{0}")]
    Drive(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl LinuxError {
    /// Returns the reason of an earlier `failed` step, if any, because the later end of the guest is a
    /// consequence.
    pub(crate) fn after(self, failed: Option<(usize, String)>) -> Self {
        match (self, failed) {
            (Self::Interrupted, _) => Self::Interrupted,
            (_, Some((_, reason))) => Self::Step(reason),
            (error, None) => error,
        }
    }
}

fn cure(path: &std::path::Path, can_be_put: bool) -> String {
    match (can_be_put, path.file_name()) {
        (true, Some(name)) => {
            let (path, name) = (path.display(), name.display());
            format!(
                "--put {path} copies it to the drive, where it is ./{name} (a program: -- sh -c ./{name})"
            )
        }
        _ => "copy it to another folder first".to_owned(),
    }
}

fn quoted(log: &str) -> String {
    match log.trim_end() {
        "" => String::new(),
        log => format!("; last kernel messages:\n{log}"),
    }
}

fn seconds(ns: u64) -> String {
    format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_failed_is_the_reason_however_the_guest_goes_down() {
        let limit = || LinuxError::TimeLimit { limit_ns: 86_400_000_000_000 };
        let failed = || Some((3, "make: the guest has no folder /mnt/nonexist\n".to_owned()));
        assert_eq!(limit().after(failed()).to_string(), "make: the guest has no folder /mnt/nonexist");
        assert!(limit().after(None).to_string().contains("not finished after 86400"));
        assert!(matches!(LinuxError::Interrupted.after(failed()), LinuxError::Interrupted));
        let stalled = LinuxError::Stalled { seconds: 300, log: String::new() }.to_string();
        assert!(
            stalled.contains("--syscall-ns 1000")
                && stalled.contains("--spin-limit 2")
                && stalled.contains("--stall-limit"),
            "{stalled}"
        );
    }
}
