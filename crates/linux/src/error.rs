use std::io;

/// Why a guest could not be run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinuxError {
    /// Something of the host failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A program is needed that is not there.
    #[error(transparent)]
    Missing(#[from] crate::program::MissingProgram),
    /// A file of the host that the guest cannot see.
    #[error(
        "{}: the guest has a {folder} of its own, which hides this machine's; {}", .path.display(), cure(.path, *.can_be_put)
    )]
    Hidden {
        /// The file.
        path: std::path::PathBuf,
        /// The folder that hides it.
        folder: &'static str,
        /// True if the guest can be shown the file at another path.
        can_be_put: bool,
    },
    /// A library of a program is not there.
    #[error("{} needs the library {library}, which is not installed", .program.display())]
    Library {
        /// The program.
        program: std::path::PathBuf,
        /// The library.
        library: String,
    },
    /// The kernel could not be started.
    #[error("cannot start the kernel {path}: {error}")]
    Start {
        /// The kernel.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The guest breaks a protocol.
    #[error("the guest breaks the protocol: {0}")]
    Protocol(String),
    /// The guest ended before its work was done.
    #[error("the guest ended before its work was done{}", quoted(.0))]
    Ended(String),
    /// The kernel panicked.
    #[error("the guest's kernel panicked{}", quoted(.0))]
    Panic(String),
    /// Nobody has anything to do any more.
    #[error(
        "deadlock at {} of virtual time: the guest waits for ever and the drive has nothing to do{}", seconds(*.at_ns),
        quoted(.log)
    )]
    Deadlock {
        /// When, in the guest's time.
        at_ns: u64,
        /// Last lines printed by the kernel.
        log: String,
    },
    /// The virtual time that was allowed has passed.
    #[error("the guest is not done after {} of virtual time; --time-limit allows more", seconds(*.limit_ns))]
    TimeLimit {
        /// Time limit in ns.
        limit_ns: u64,
    },
    /// The guest computes and virtual time stands still.
    #[error(
        "the guest has computed for {seconds} s and let no virtual time pass: does a program of it wait in a loop? \
         --spin-limit 2 and --syscall-ns 1000, which are the defaults where the kernel can do it, let time go on with \
         such a program; --stall-limit allows more{}",
        quoted(.log)
    )]
    Stalled {
        /// Wall time.
        seconds: u64,
        /// Last lines printed by the kernel.
        log: String,
    },
    /// Host memory ran out: the data stored on the drive has taken it.
    #[error(
        "what is stored on the drive has taken the memory of this machine, {} MiB are left; --image FILE stores it on \
         disk", .0 >> 20
    )]
    StoredData(
        /// Bytes left.
        u64,
    ),
    /// A step of the guest failed, and the guest did not come to its end.
    #[error("{}", .0.trim_end())]
    Step(String),
    /// The storage of the drive's data failed.
    #[error("{0}")]
    Drive(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl LinuxError {
    /// The reason of a step that had `failed` before this, if one had: how a guest goes down then is no news.
    pub(crate) fn after(self, failed: Option<(usize, String)>) -> Self {
        match (self, failed) {
            (Self::Interrupted, _) => Self::Interrupted,
            (_, Some((_, reason))) => Self::Step(reason),
            (error, None) => error,
        }
    }
}

/// Suggests how to give the guest a file that it cannot see.
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
        log => format!("; the kernel said last:\n{log}"),
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
        assert!(limit().after(None).to_string().contains("not done after 86400"));
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
