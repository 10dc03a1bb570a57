use std::path::PathBuf;
use std::time::Duration;

use crate::attached::DiskOptions;

/// Fixed time of day at virtual time 0: 2025-01-01 00:00 UTC, in ns since 1970.
pub const EPOCH_NS: u64 = 1_735_689_600_000_000_000;

/// Clock of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Virtual time: the disk takes the time of the drive's model, and the processor only the costs in
    /// [`CpuCost`].
    Virtual,
    /// Host clock, for kernels without time travel. A request takes the time of the model plus the host's
    /// overhead.
    Real,
}

/// Virtual time charged for system calls and processes of the guest.
///
/// Computation inside programs is free, up to [`Machine::spin_limit`]. All costs default to 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// Cost of a system call in ns, in addition to its waiting time.
    pub syscall_ns: u32,
    /// Cost of a system call in ns per KiB copied between program and kernel.
    pub copy_ns_per_kib: u32,
    /// Cost of a fork and the exit of its process in ns. Loading a program costs three times as much.
    pub process_ns: u32,
}

impl CpuCost {
    /// Costs on a server's processor.
    ///
    /// Measured on a virtual Xeon with mitigations: 0.6 µs for getppid, 1.5 µs for fstat and a cached pread, 2
    /// to 3 µs for stat. A pwrite to cached pages takes 70 to 270 ns per KiB. A fork with its exit takes 190
    /// µs, and 800 µs with an execve of `true` in between.
    pub const TYPICAL: Self = Self { syscall_ns: 1000, copy_ns_per_kib: 100, process_ns: 200_000 };

    /// True if all costs are zero.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Configuration of a guest's machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Kernel: a User-Mode Linux executable.
    pub kernel: PathBuf,
    /// Memory in MiB, default 512.
    pub memory_mib: u32,
    /// Clock.
    pub clock: Clock,
    /// Unix time at guest time 0, in ns.
    pub epoch_ns: u64,
    /// Seed of the kernel's random numbers, default 1.
    pub seed: u64,
    /// Limit of virtual time for a job in ns, default 24 hours.
    pub time_limit_ns: u64,
    /// Wall time without a message or progress after which a job fails, default 300 s.
    pub stall_limit: Duration,
    /// Virtual time charged for the processor's work. The kernel must support it.
    pub cpu: CpuCost,
    /// Host processor time a program may compute without a system call before virtual time continues with it.
    ///
    /// Exceeding it ends repeatability. With `None`, the default, virtual time stands still. The kernel must
    /// support it.
    pub spin_limit: Option<Duration>,
    /// Properties of the disk offered to the guest.
    pub disk: DiskOptions,
    /// Function that returns the free host memory in bytes; `None` disables the check.
    ///
    /// A drive that keeps written data grows as the guest writes. The run ends when less than 256 MiB are left.
    pub memory_left: Option<fn() -> Option<u64>>,
    /// True to report changes of files and the resulting requests on
    /// [`Stream::Changes`](crate::Stream::Changes). The kernel must support it.
    pub file_log: bool,
    /// Syncs that the kernel adds to the system calls of programs. They need [`Self::file_log`], and the kernel
    /// must support them.
    pub added_syncs: AddedSyncs,
    /// Additional kernel arguments.
    pub arguments: Vec<String>,
}

/// Syncs that the kernel adds to system calls that change a file on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddedSyncs {
    /// Before each rename.
    pub before_renames: bool,
    /// After each new, moved or removed name.
    pub after_names: bool,
    /// After each write and truncation.
    pub after_writes: bool,
}

impl AddedSyncs {
    pub(crate) fn mask(self) -> u32 {
        u32::from(self.before_renames) | u32::from(self.after_names) << 1 | u32::from(self.after_writes) << 2
    }
}

impl Machine {
    /// Creates a machine with `kernel` in virtual time.
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
            added_syncs: AddedSyncs::default(),
            arguments: Vec::new(),
        }
    }
}
