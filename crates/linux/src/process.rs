use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::LinuxError;
use crate::interface::Interface;
use crate::machine::{Clock, CpuCost, Machine};
use crate::pin::Pinned;
use crate::program::find_program;
use crate::scratch::Scratch;

/// Source of the guest's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Kernel messages.
    Kernel,
    /// Standard output of the command.
    Output,
    /// Standard error of the command.
    Error,
    /// Reports of the guest's first process.
    Control,
    /// Changes of files and the resulting requests, one per line; see [`Machine::file_log`].
    Changes,
    /// Archive of files; see [`Step::Get`](crate::job::Step::Get).
    Files,
}

impl Stream {
    const ALL: [Stream; 6] =
        [Stream::Kernel, Stream::Output, Stream::Error, Stream::Control, Stream::Files, Stream::Changes];

    /// File descriptor in the guest's process. The kernel's console is its standard output.
    fn fd(self) -> i32 {
        match self {
            Self::Kernel => 1,
            Self::Output => 3,
            Self::Error => 4,
            Self::Control => 5,
            Self::Files => 6,
            Self::Changes => 7,
        }
    }
}

/// End of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest powered off or ended otherwise.
    Off,
    /// The drive's planned power cut happened.
    PowerCut,
}

/// Statistics of a guest that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Reason for the end.
    pub end: End,
    /// Guest time of the end in ns. With a real clock, the time of its detection.
    pub guest_ns: u64,
    /// Number of time messages.
    pub time_messages: u64,
    /// Number of interrupts by the disk.
    pub interrupts: u64,
}

pub(crate) struct Pipe {
    pub(crate) stream: Stream,
    pub(crate) file: Option<File>,
}

pub(crate) struct Sockets {
    pub(crate) disk: UnixListener,
    pub(crate) others: Vec<UnixListener>,
    pub(crate) files: Option<UnixListener>,
    pub(crate) time: Option<UnixListener>,
}

pub(crate) struct Guest {
    child: Child,
    pub(crate) exit: OwnedFd,
    _pinned: Pinned,
    _folder: Scratch,
}

impl Guest {
    pub(crate) fn start(
        machine: &Machine,
        initramfs: &Path,
        has_files: bool,
        handles: u16,
        others: usize,
    ) -> Result<(Self, Sockets, Vec<Pipe>), LinuxError> {
        let failed = |error| LinuxError::Start { path: machine.kernel.display().to_string(), error };
        let folder = Scratch::new("linux")?;
        let path = folder.path();
        let time = match machine.clock {
            Clock::Virtual => Some(UnixListener::bind(path.join(TIME_SOCKET))?),
            Clock::Real => None,
        };
        let files = has_files.then(|| UnixListener::bind(path.join(FILES_SOCKET))).transpose()?;
        let bind = |other| UnixListener::bind(path.join(other_socket(other)));
        let others = (0..others).map(bind).collect::<io::Result<Vec<_>>>()?;
        let sockets = Sockets { disk: UnixListener::bind(path.join(DISK_SOCKET))?, others, files, time };

        std::os::unix::fs::symlink(std::path::absolute(initramfs)?, path.join(ROOT))?;
        let mut command = mortal(&std::path::absolute(&machine.kernel)?);
        command
            .current_dir(path)
            .args(arguments(machine, has_files, handles, sockets.others.len()))
            .env_clear()
            .env("TMPDIR", memory_folder(path, machine.memory_mib));
        // User-Mode Linux has a process for each address space. A process group lets `end` kill all of them.
        command.env("HOME", path).stdin(Stdio::null()).process_group(0);
        let (mut pipes, mut mappings) = (Vec::new(), Vec::new());
        for stream in Stream::ALL.into_iter().filter(|&stream| stream != Stream::Changes || machine.file_log)
        {
            let child_fd = stream.fd();
            let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
            rustix::io::ioctl_fionbio(&ours, true).map_err(io::Error::from)?;
            // Standard error joins the kernel's console.
            if stream == Stream::Kernel {
                mappings.push(FdMapping { parent_fd: theirs.try_clone()?, child_fd: 2 });
            }
            mappings.push(FdMapping { parent_fd: theirs, child_fd });
            pipes.push(Pipe { stream, file: Some(File::from(ours)) });
        }
        command.fd_mappings(mappings).map_err(io::Error::other)?;
        // Pin before the start: the guest's processes inherit the affinity.
        let pinned = Pinned::new();
        let mut child = command.spawn().map_err(failed)?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(exit) => Ok((Self { child, exit, _pinned: pinned, _folder: folder }, sockets, pipes)),
            Err(error) => {
                // Without a pidfd, the end of the process would not be noticed.
                end(&mut child);
                Err(failed(error.into()))
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Returns a command that runs `program` and dies with this process.
fn mortal(program: &Path) -> Command {
    // The parent-death signal also ends a busy guest. Without setpriv (util-linux), only a waiting guest
    // notices that its sockets are closed.
    match find_program("setpriv") {
        Ok(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        Err(_) => Command::new(program),
    }
}

fn end(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

/// Returns the folder for the guest's memory: /dev/shm if it has enough free space, else `folder`. In
/// containers, /dev/shm is often small.
fn memory_folder(folder: &Path, memory_mib: u32) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let is_writable = rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
    let free_bytes = rustix::fs::statvfs(memory).map_or(0, |of| of.f_bavail.saturating_mul(of.f_frsize));
    if is_writable && free_bytes >= u64::from(memory_mib) << 20 {
        memory.to_owned()
    } else {
        folder.to_owned()
    }
}

/// Kernel command line. It is equal in every run, because the kernel takes entropy from it. Paths are
/// relative to the start folder.
fn arguments(machine: &Machine, has_files: bool, handles: u16, others: usize) -> Vec<String> {
    let mut arguments = vec![
        format!("mem={}M", machine.memory_mib),
        format!("initrd={ROOT}"),
        format!("virtio_uml.device={DISK_SOCKET}:{}", machine.disk.interface.virtio_id()),
        "uml_dir=uml".into(),
        "umid=guest".into(),
        "con=null".into(),
        "con0=null,fd:1".into(),
        "con1=null,fd:3".into(),
        "con2=null,fd:4".into(),
        "con3=null,fd:5".into(),
        "con4=null,fd:6".into(),
        // Randomised addresses would add entropy.
        "norandmaps".into(),
        format!("rng_seed={}", machine.seed),
        "panic=-1".into(),
    ];
    let id = machine.disk.interface.virtio_id();
    arguments.extend((0..others).map(|other| format!("virtio_uml.device={}:{id}", other_socket(other))));
    if has_files {
        arguments.push(format!("virtio_uml.device={FILES_SOCKET}:26"));
    }
    if machine.clock == Clock::Virtual {
        // This argument precedes `time-travel`, because the simulator may signal the guest from its first
        // message on.
        arguments.extend(machine.spin_limit.map(|limit| format!("um_spin_ms={}", limit.as_millis())));
        arguments.push(format!("time-travel=ext:1:{TIME_SOCKET}"));
        arguments.push(format!("time-travel-start={}", machine.epoch_ns));
        // A cost of 0 is omitted, because each argument changes the kernel's entropy.
        let CpuCost { syscall_ns, copy_ns_per_kib, process_ns } = machine.cpu;
        let costs = [
            ("um_syscall_ns", syscall_ns),
            ("um_copy_ns_per_kib", copy_ns_per_kib),
            ("um_process_ns", process_ns),
        ];
        arguments.extend(costs.iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name}={ns}")));
        // By default, dirty limits are a share of free memory, and this program occupies memory as the first
        // process. A slightly larger build would then change the requests.
        let bytes = u64::from(machine.memory_mib) << 20;
        arguments.push(format!("sysctl.vm.dirty_background_bytes={}", bytes / DIRTY_BACKGROUND_PART));
        arguments.push(format!("sysctl.vm.dirty_bytes={}", bytes / DIRTY_PART));
    }
    if machine.file_log {
        arguments.push(format!("um_file_log={}", Stream::Changes.fd()));
        arguments.extend(
            Some(machine.added_syncs.mask())
                .filter(|mask| *mask > 0)
                .map(|mask| format!("um_added_syncs={mask}")),
        );
    }
    // Linux 6.12 does not query an NVMe drive's number of handles.
    if machine.disk.interface == Interface::Nvme && handles > 1 {
        arguments.push(format!("nvme_core.life_handles={handles}"));
    }
    arguments.extend(machine.arguments.iter().cloned());
    arguments
}

/// Dirty-page limits as divisors of all memory: start of write-back, and throttling of programs. The shares are
/// Linux's defaults.
const DIRTY_BACKGROUND_PART: u64 = 10;
const DIRTY_PART: u64 = 5;

const ROOT: &str = "root";
const DISK_SOCKET: &str = "disk";
const FILES_SOCKET: &str = "files";

fn other_socket(other: usize) -> String {
    format!("{DISK_SOCKET}{}", other + 2)
}

const TIME_SOCKET: &str = "time";
