//! The machine that a guest runs on.

use std::path::PathBuf;
use std::time::Duration;

use crate::attached::DiskOptions;

/// The time of day at virtual time 0: a fixed one, 2025-01-01 00:00 UTC, in ns since 1970.
pub const EPOCH_NS: u64 = 1_735_689_600_000_000_000;

/// Clock of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Virtual: the guest's processor takes no time, its disk what the drive's model says.
    Virtual,
    /// The host's own clock, for kernels without time travel. Requests take as long as the model says, and
    /// what the host needs for them.
    Real,
}

/// Virtual time charged for work of the guest's processor: a cost model of system calls and processes.
/// Computation inside programs costs nothing, up to [`Machine::spin_limit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// ns of every system call, beside what it waits for.
    pub syscall_ns: u32,
    /// ns of a system call for every KiB that it copies between a program and the kernel.
    pub copy_ns_per_kib: u32,
    /// ns of a fork and the end of its process. Loading a program costs three times as much.
    pub process_ns: u32,
}

impl CpuCost {
    /// Costs on a server's processor. Measured on a virtual Xeon with mitigations: 0.6 µs for getppid, 1.5 µs for
    /// fstat and a cached pread, 2 to 3 µs for stat; 70 to 270 ns for each KiB of a pwrite to cached pages; 190 µs for
    /// a fork with its exit, 800 µs with an execve of `true` between them.
    pub const TYPICAL: Self = Self { syscall_ns: 1000, copy_ns_per_kib: 100, process_ns: 200_000 };

    /// True if all costs are zero.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// The machine that a job runs on.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel: an executable, User-Mode Linux.
    pub kernel: PathBuf,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Clock.
    pub clock: Clock,
    /// Unix time at which the guest's time begins, in ns.
    pub epoch_ns: u64,
    /// Seed of the kernel's random numbers.
    pub seed: u64,
    /// Virtual time that a job may take, in ns.
    pub time_limit_ns: u64,
    /// Wall time without a sign of life after which a job has failed.
    pub stall_limit: Duration,
    /// Virtual time charged for the processor's work. The kernel must support it.
    pub cpu: CpuCost,
    /// Processor time of the host for which a program may compute without a system call before virtual time goes
    /// on with it, which ends repeatability. None: virtual time stands still. The kernel must support it.
    pub spin_limit: Option<Duration>,
    /// Properties of the disk offered to the guest.
    pub disk: DiskOptions,
    /// Returns the free memory of the host in bytes. A drive that keeps written data takes more as the guest
    /// writes. The run ends when almost none is left. None: no check.
    pub memory_left: Option<fn() -> Option<u64>>,
    /// True to report changes of files and the requests that follow from them, as
    /// [`Stream::Changes`](crate::Stream::Changes). The kernel must support it.
    pub file_log: bool,
    /// More arguments of the kernel.
    pub arguments: Vec<String>,
}

impl Machine {
    /// A machine with `kernel` in virtual time.
    pub fn new(kernel: PathBuf) -> Self {
        Self {
            kernel,
            memory_mib: 512,
            clock: Clock::Virtual,
            epoch_ns: EPOCH_NS,
            seed: 1,
            time_limit_ns: 24 * 3_600_000_000_000,
            stall_limit: Duration::from_secs(300),
            cpu: CpuCost::default(),
            spin_limit: None,
            disk: DiskOptions::default(),
            memory_left: None,
            file_log: false,
            arguments: Vec::new(),
        }
    }
}
