//! First process of the guest: this program, running inside the guest.

mod busy;
mod outside;
mod root;
mod sampler;
mod undo;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::system::{RebootCommand, reboot};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use rustix::time::{ClockId, Timespec, clock_gettime};

use sampler::Sampler;
pub use undo::take_back;

use crate::job::{DEVICE, JOB_PATH, Job, MOUNT_POINT, Report, Run, Step, Undo};

/// True if this process is a guest's first one, which should call [`main`].
pub fn is_first_process() -> bool {
    std::process::id() == 1
        && std::env::args_os().next().is_some_and(|name| name == "/init")
        && Path::new(JOB_PATH).exists()
}

/// Executes the job and powers the guest off.
pub fn main() -> ! {
    if let Err(error) = job().and_then(|job| prepare(&job).and_then(|layer| Init::new(job, layer)?.work())) {
        eprintln!("strobe: the guest's first process failed: {error}");
    }
    let _ = reboot(RebootCommand::PowerOff);
    // The kernel panics if its first process ends.
    loop {
        std::thread::park();
    }
}

fn job() -> io::Result<Job> {
    Ok(serde_json::from_slice(&fs::read(JOB_PATH)?)?)
}

fn prepare(job: &Job) -> io::Result<Option<File>> {
    let mut layer = None;
    if job.shows_host {
        let entered = root::enter();
        layer = Some(
            entered.map_err(|error| io::Error::new(error.kind(), format!("the host's files: {error}")))?,
        );
        mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), Some(c"mode=755"))?;
    }
    for (kind, path) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/dev/shm")] {
        fs::create_dir_all(path)?;
        mount(kind, path, kind, MountFlags::empty(), None)?;
    }
    root::complete(job)?;
    // Not every kernel has debugfs.
    let _ = mount("debugfs", "/sys/kernel/debug", "debugfs", MountFlags::empty(), None);
    fs::create_dir_all(MOUNT_POINT)?;
    Ok(layer)
}

fn terminal(path: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut settings = tcgetattr(&file)?;
    settings.make_raw();
    tcsetattr(&file, OptionalActions::Now, &settings)?;
    Ok(file)
}

struct Init {
    job: Job,
    output: File,
    error: File,
    control: File,
    is_mounted: bool,
    sampler: Sampler,
    layer: Option<File>,
    began: Option<Timespec>,
}

impl Init {
    fn new(job: Job, layer: Option<File>) -> io::Result<Self> {
        let (output, error) = (terminal("/dev/tty1")?, terminal("/dev/tty2")?);
        let device = if job.device.is_empty() { DEVICE } else { &job.device };
        let sampler = Sampler::new(job.sample_ns, device);
        let control = terminal("/dev/tty3")?;
        Ok(Self { job, output, error, control, is_mounted: false, sampler, layer, began: None })
    }

    fn device(&self) -> String {
        match &*self.job.device {
            "" => DEVICE.to_owned(),
            name => format!("/dev/{name}"),
        }
    }

    /// Waits for the drives, because some drivers probe after the first process has started. Virtual time
    /// passes.
    fn await_devices(&self) -> io::Result<()> {
        const TRIES: u32 = 1000;
        let devices: Vec<_> = match &*self.job.disks {
            [] => vec![self.device()],
            disks => disks.iter().map(|disk| format!("/dev/{disk}")).collect(),
        };
        for _ in 0..TRIES {
            if devices.iter().all(|device| Path::new(device).exists()) {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let error = format!("{}: not found by the kernel", devices.join(", "));
        Err(io::Error::new(io::ErrorKind::NotFound, error))
    }

    fn work(&mut self) -> io::Result<()> {
        if !(self.job.device.is_empty() && self.job.disks.is_empty())
            && let Err(error) = self.await_devices()
        {
            return self.report(&Report::Failed { step: 0, reason: error.to_string() });
        }
        for (number, step) in std::mem::take(&mut self.job.steps).into_iter().enumerate() {
            if let Err(error) = self.step(number, &step) {
                let reason = format!("{}: {error}", describe(&step));
                return self.report(&Report::Failed { step: number, reason });
            }
        }
        // The scan takes virtual time, so it comes last.
        if let (Some(layer), Some(began)) = (&self.layer, self.began) {
            let path = format!("/proc/self/fd/{}", layer.as_raw_fd());
            if let Some(outside) = outside::report(Path::new(&path), began) {
                self.report(&outside)?;
            }
        }
        self.report(&Report::Done)
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        let mut line = serde_json::to_vec(report)?;
        line.push(b'\n');
        self.control.write_all(&line)
    }

    fn step(&mut self, number: usize, step: &Step) -> io::Result<()> {
        match step {
            Step::Module(path) => {
                let module = File::open(path)?;
                Ok(rustix::system::finit_module(module.as_fd(), c"", 0)?)
            }
            Step::Run(run) => self.run(number, run),
            Step::Mount { kind, options } => {
                let (flags, data) = mount_options(options);
                let data = std::ffi::CString::new(data).map_err(io::Error::other)?;
                mount(self.device(), MOUNT_POINT, kind.as_str(), flags, Some(data.as_c_str()))?;
                self.is_mounted = true;
                Ok(())
            }
            Step::Unmount => {
                let busy = |error: rustix::io::Errno| match busy::users_of(Path::new(MOUNT_POINT)) {
                    Some(users) if error == rustix::io::Errno::BUSY => io::Error::other(users),
                    _ => error.into(),
                };
                unmount(MOUNT_POINT, UnmountFlags::empty()).map_err(busy)?;
                self.is_mounted = false;
                Ok(())
            }
            Step::Set { path, value } => {
                // A missing file is an error and not created: the kernel then lacks the switch.
                OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
            }
            Step::Sync => {
                rustix::fs::sync();
                Ok(())
            }
            Step::DropCaches => {
                rustix::fs::sync();
                fs::write("/proc/sys/vm/drop_caches", "3")
            }
            Step::Undo(changes) => match take_back(Path::new(MOUNT_POINT), changes)? {
                Some(Undo::MoveBack { from, to }) => writeln!(
                    self.error,
                    "strobe: neither {from} nor {to} exists: unsynced names are left unchanged"
                ),
                _ => Ok(()),
            },
            Step::Get(paths) => match get(paths) {
                Ok(()) => Ok(()),
                // The command may have failed before it created the files. The job continues, so the
                // command's result is kept.
                Err(error) => {
                    let reason = format!("{}: {error}", describe(step));
                    self.report(&Report::NotSent { reason })
                }
            },
            Step::Mark(name) => {
                let at_ns = now_ns();
                self.began.get_or_insert_with(outside::file_time);
                self.report(&Report::Mark { name: name.clone(), at_ns })?;
                self.sampler.begin(at_ns, self.control.try_clone()?)
            }
        }
    }

    fn run(&mut self, number: usize, run: &Run) -> io::Result<()> {
        let Some((program, arguments)) = run.argv.split_first() else {
            return Err(io::Error::other("no program"));
        };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(self.job.environment.iter().cloned()).stdin(Stdio::null());
        let folder = match (&*run.folder, self.is_mounted) {
            ("", true) => MOUNT_POINT,
            ("", false) => "/",
            (folder, _) => folder,
        };
        if !Path::new(folder).is_dir() {
            return Err(io::Error::other(format!("the guest has no folder {folder}{}", folders_there())));
        }
        command.current_dir(folder);
        if self.job.shows_host {
            // The environment taken from the host has no PWD.
            command.env("PWD", folder);
        }
        let (status, said) = if run.quiet {
            let output = command.output().map_err(|error| cannot_run(program, &error))?;
            (output.status, String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
        } else {
            command.stdout(self.output.try_clone()?).stderr(self.error.try_clone()?);
            (command.status().map_err(|error| cannot_run(program, &error))?, String::new())
        };
        let code = code(status);
        let refused = !run.allowed.is_empty() && !run.allowed.contains(&code);
        let reason = format!("exit code {code}\n{said}");
        // The exit is reported even if its code ends the job.
        self.report(&Report::Exit { step: number, code, said })?;
        if refused { Err(io::Error::other(reason)) } else { Ok(()) }
    }
}

fn folders_there() -> String {
    let entries = fs::read_dir(MOUNT_POINT).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir() && entry.file_name() != "lost+found");
    let mut names: Vec<_> =
        folders.map(|entry| entry.path().display().to_string()).take(FOLDERS_NAMED).collect();
    names.sort();
    if names.is_empty() { String::new() } else { format!("; there is {}", names.join(", ")) }
}

const FOLDERS_NAMED: usize = 8;

const FILES_TERMINAL: &str = "/dev/tty4";

/// Sends `paths` to the host, each under its last component. Existing paths are sent even if others are
/// missing.
fn get(paths: &[String]) -> io::Result<()> {
    let mut command = Command::new("tar");
    // The archive bypasses standard output, because tar refuses a terminal there.
    let _raw = terminal(FILES_TERMINAL)?;
    command.args(["-c", "-f", FILES_TERMINAL]).stdin(Stdio::null());
    let mut missing = Vec::new();
    for path in paths.iter().map(Path::new) {
        let (Some(folder), Some(name), true) = (path.parent(), path.file_name(), path.exists()) else {
            missing.push(path.display().to_string());
            continue;
        };
        command.arg("-C").arg(folder).arg(Path::new(".").join(name));
    }
    if missing.len() < paths.len() {
        let status = command.status().map_err(|error| cannot_run("tar", &error))?;
        if !status.success() {
            return Err(io::Error::other(format!("exit code {}", code(status))));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("the guest has no file or folder {}", missing.join(", "))))
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn cannot_run(program: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the guest cannot run {program}: {error}"))
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn describe(step: &Step) -> String {
    match step {
        Step::Module(path) => format!("cannot load module {path}"),
        Step::Run(run) => run.argv.join(" "),
        Step::Mount { kind, options } if options.is_empty() => format!("cannot mount {kind}"),
        Step::Mount { kind, options } => format!("cannot mount {kind} with {options}"),
        Step::Unmount => "cannot unmount".into(),
        Step::Set { path, value } => format!("cannot write {value} to {path}"),
        Step::Sync => "sync".into(),
        Step::DropCaches => "cannot drop caches".into(),
        Step::Undo(_) => "cannot undo unsynced names".into(),
        Step::Mark(name) => format!("mark {name}"),
        Step::Get(paths) => format!("--get {}", paths.join(" --get ")),
    }
}

fn mount_options(options: &str) -> (MountFlags, String) {
    let mut flags = MountFlags::empty();
    let mut rest = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        flags |= match option {
            "ro" => MountFlags::RDONLY,
            "sync" => MountFlags::SYNCHRONOUS,
            "dirsync" => MountFlags::DIRSYNC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            "strictatime" => MountFlags::STRICTATIME,
            "lazytime" => MountFlags::LAZYTIME,
            "rw" | "defaults" => MountFlags::empty(),
            other => {
                rest.push(other);
                continue;
            }
        };
    }
    (flags, rest.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_data_of_mount_options_are_told_apart() {
        let (flags, data) = mount_options("sync,discard,,noatime,commit=1");
        assert_eq!(flags, MountFlags::SYNCHRONOUS | MountFlags::NOATIME);
        assert_eq!(data, "discard,commit=1");
    }
}
