//! One guest from power-on to power-off: clock, disks and output.
//!
//! 1. `wait` polls the output, the devices and the clock.
//! 2. After a kick, the device takes its requests, and the calendar lets the guest run up to the next device
//!    event.
//! 3. When the guest waits, `decide` advances to the next device event or the guest's request, whichever is
//!    earlier.
//!
//! One thread does all this. In virtual time, either the guest or the simulator runs, never both. The order
//! of events is therefore equal in every run.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};
use strobe_types::StopFlag;
use strobe_virtio::message;

use crate::LinuxError;
use crate::calendar::{Calendar, Served};
use crate::disk::Disk;
use crate::host::HostFiles;
use crate::kernel_log::KernelLog;
use crate::link::gone;
use crate::machine::{Clock, Machine};
use crate::port::{Device, Heard, Port};
use crate::process::{End, Ended, Guest, Pipe, Sockets, Stream};
use crate::real_time::RealTime;

/// Receiver of the guest's output.
pub trait Listener {
    /// Receives `bytes` printed by the guest. The disk has received all requests sent before them, and none
    /// sent after.
    fn hears(&mut self, stream: Stream, bytes: &[u8], disk: &mut Disk) -> Result<(), LinuxError>;
}

// Interval of checks for a stop request and a silent guest.
const LOOK_UP: Duration = Duration::from_millis(200);
/// Minimum free host memory in bytes.
const MEMORY_LEFT_MIN: u64 = 256 << 20;
// Kicks between two checks of free memory. A kick announces at most 256 requests.
const KICKS_PER_LOOK: u64 = 64;
/// Maximum virtual time in ns that the guest runs without a message. It bounds the delay in detecting a hang
/// or the time limit.
const QUANTUM_NS: u64 = 1_000_000_000;

/// Boots a guest with `root`, a cpio archive, on `disk` and `others`, with host `files`. Returns when the
/// guest has ended. Raising `stop` ends the guest.
pub fn boot(
    machine: &Machine,
    root: &Path,
    disk: &mut Disk,
    others: &mut [Disk],
    files: Option<&mut HostFiles>,
    listener: &mut dyn Listener,
    stop: &StopFlag,
) -> Result<Ended, LinuxError> {
    let (guest, sockets, pipes) = Guest::start(machine, root, files.is_some(), disk.handles(), others.len())?;
    let Sockets { disk: disk_socket, others: other_sockets, files: files_socket, time } = sockets;
    let mut further = Vec::new();
    for (socket, disk) in other_sockets.into_iter().zip(others) {
        further.push((Port::new(socket, disk.device().rings())?, disk));
    }
    let files = match (files, files_socket) {
        (Some(files), Some(socket)) => Some((Port::new(socket, files.rings())?, files)),
        _ => None,
    };
    let mut session = Session {
        disk_port: Port::new(disk_socket, disk.device().rings())?,
        disk,
        others: further,
        files,
        listener,
        pipes,
        time_socket: time,
        calendar: None,
        clock: machine.clock,
        epoch_ns: machine.epoch_ns,
        started: RealTime::start(),
        waiting: false,
        interrupts: 0,
        log: KernelLog::default(),
        stop,
        time_limit_ns: machine.time_limit_ns,
        stall_limit: machine.stall_limit,
        watches_spin: machine.spin_limit.is_some(),
        memory_left: machine.memory_left,
        kicks: 0,
    };
    let end = session.run(guest.exit.as_fd());
    drop(guest);
    // Read the output that the guest printed before its end.
    let heard = session.hear_everything();
    match end {
        // A panicking kernel may end in any way, so its log takes precedence.
        _ if session.log.says("Kernel panic") => Err(LinuxError::Panic(session.log.last_words())),
        Ok(end) => heard.map(|()| Ended {
            end,
            guest_ns: session.now(),
            time_messages: session.calendar.as_ref().map_or(0, Calendar::messages),
            interrupts: session.interrupts,
        }),
        Err(error) => Err(error),
    }
}

struct Session<'a> {
    disk: &'a mut Disk,
    disk_port: Port,
    others: Vec<(Port, &'a mut Disk)>,
    files: Option<(Port, &'a mut HostFiles)>,
    listener: &'a mut dyn Listener,
    pipes: Vec<Pipe>,
    time_socket: Option<UnixListener>,
    clock: Clock,
    epoch_ns: u64,
    calendar: Option<Calendar>,
    started: RealTime,
    waiting: bool,
    interrupts: u64,
    log: KernelLog,
    stop: &'a StopFlag,
    time_limit_ns: u64,
    stall_limit: Duration,
    /// True if the guest's kernel advances virtual time with programs beyond the spin limit.
    watches_spin: bool,
    memory_left: Option<fn() -> Option<u64>>,
    kicks: u64,
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Files,
    Disk,
    Other(usize),
}

#[derive(Clone, Copy)]
enum Source {
    Pipe(usize),
    Device(Which),
    Time,
    Exit,
}

type Turn = Result<Option<End>, LinuxError>;

impl Session<'_> {
    fn now(&self) -> u64 {
        match (&self.calendar, self.clock) {
            (Some(calendar), _) => calendar.now(),
            (None, Clock::Virtual) => 0,
            (None, Clock::Real) => u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    fn next_event(&self) -> Option<(u64, Which)> {
        let files = self.files.as_ref().and_then(|(_, files)| files.next_event());
        let others = self.others.iter().enumerate();
        let others = others.map(|(other, (_, disk))| (disk.next_event(), Which::Other(other)));
        let all = [(files, Which::Files), (self.disk.next_event(), Which::Disk)].into_iter().chain(others);
        all.filter_map(|(at, which)| Some((at?, which))).min_by_key(|&(at, _)| at)
    }

    fn free_until(&self, now: u64) -> u64 {
        let quantum = now.saturating_add(QUANTUM_NS);
        self.next_event().map_or(quantum, |(next, _)| next.max(now).min(quantum))
    }

    fn device(&mut self, which: Which) -> Option<(&mut Port, &mut dyn Device)> {
        match which {
            Which::Disk => Some((&mut self.disk_port, self.disk.device())),
            Which::Other(other) => self.others.get_mut(other).map(|(port, disk)| (port, disk.device())),
            Which::Files => self.files.as_mut().map(|(port, files)| (port, &mut **files as &mut dyn Device)),
        }
    }

    fn run(&mut self, exit: BorrowedFd<'_>) -> Result<End, LinuxError> {
        let mut silent = RealTime::start();
        let mut seen_ns = 0;
        loop {
            // While the guest waits, only completions and its own next event advance time.
            while self.waiting {
                if self.stop.is_raised() {
                    return Err(LinuxError::Interrupted);
                }
                self.decide()?;
                if self.disk.target().drive().was_cut() {
                    return Ok(End::PowerCut);
                }
            }
            // With the host's clock, completions do not wait for the guest: deliver all that are due.
            if self.clock == Clock::Real {
                self.complete_until(Which::Files, self.now())?;
                self.complete_until(Which::Disk, self.now())?;
                let others = 0..self.others.len();
                others
                    .into_iter()
                    .try_for_each(|other| self.complete_until(Which::Other(other), self.now()))?;
                if self.now() > self.time_limit_ns {
                    return Err(LinuxError::TimeLimit { limit_ns: self.time_limit_ns });
                }
            }
            let ready = self.wait(exit)?;
            if self.stop.is_raised() {
                return Err(LinuxError::Interrupted);
            }
            if ready.is_empty() && self.clock == Clock::Virtual {
                // System calls advance time without a message. A guest whose time moves is not silent.
                if self.now() != seen_ns {
                    (seen_ns, silent) = (self.now(), RealTime::start());
                }
                self.look_at_silent(&silent, exit)?;
            }
            for source in ready {
                let end = match source {
                    Source::Pipe(pipe) => self.hear(pipe).map(|()| None)?,
                    Source::Device(which) => self.serve_device(which)?,
                    Source::Time => self.serve_time()?,
                    Source::Exit => Some(End::Off),
                };
                if let Some(end) = end {
                    return Ok(end);
                }
                silent = RealTime::start();
            }
        }
    }

    /// Signals a silent guest, whose kernel then looks for a computing program. An error after the stall
    /// limit.
    fn look_at_silent(&self, silent: &RealTime, guest: BorrowedFd<'_>) -> Result<(), LinuxError> {
        if silent.elapsed() > self.stall_limit {
            let seconds = silent.elapsed().as_secs();
            return Err(LinuxError::Stalled { seconds, log: self.log.last_words() });
        }
        // Before its first message, the guest does not handle the signal.
        if self.watches_spin && self.calendar.is_some() {
            match pidfd_send_signal(guest, Signal::USR2) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    /// Returns the ready sources in the order of service. Output comes first, because the guest printed it
    /// before it sent its message.
    fn wait(&self, exit: BorrowedFd<'_>) -> io::Result<Vec<Source>> {
        let mut sources = Vec::with_capacity(8);
        let mut fds = Vec::with_capacity(8);
        let mut add = |source: Source, fd| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        };
        for (index, pipe) in self.pipes.iter().enumerate() {
            if let Some(file) = &pipe.file {
                add(Source::Pipe(index), file.as_fd());
            }
        }
        add(Source::Device(Which::Disk), self.disk_port.fd());
        for (other, (port, _)) in self.others.iter().enumerate() {
            add(Source::Device(Which::Other(other)), port.fd());
        }
        if let Some((port, _)) = &self.files {
            add(Source::Device(Which::Files), port.fd());
        }
        match (&self.calendar, &self.time_socket) {
            (Some(calendar), _) => add(Source::Time, calendar.link()),
            (None, Some(socket)) => add(Source::Time, socket.as_fd()),
            (None, None) => {}
        }
        add(Source::Exit, exit);
        let mut wait = LOOK_UP;
        // In real time, the next completion ends the wait as well.
        if let (Clock::Real, Some((next, _))) = (self.clock, self.next_event()) {
            wait = wait.min(Duration::from_nanos(next.saturating_sub(self.now())));
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as _ };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(&source, _)| source).collect())
    }

    fn serve_time(&mut self) -> Turn {
        match (&mut self.calendar, &self.time_socket) {
            (Some(calendar), _) => match calendar.serve()? {
                Served::Nothing => {}
                Served::Waits => self.waiting = true,
                Served::Gone => return Ok(Some(End::Off)),
            },
            (None, Some(socket)) => {
                let calendar = Calendar::new(socket.accept()?.0, self.epoch_ns)?;
                // Without a limit, a guest that sends no disk request would never return control.
                calendar.limit(self.free_until(0));
                self.calendar = Some(calendar);
            }
            (None, None) => {}
        }
        Ok(None)
    }

    /// At equal times, the device event comes before the guest's request.
    fn decide(&mut self) -> Result<(), LinuxError> {
        let Some(calendar) = &self.calendar else { return Ok(()) };
        match (self.next_event(), calendar.request()) {
            (Some((at, which)), request) if request.is_none_or(|request| at <= request) => {
                calendar.advance(at);
                self.complete_until(which, at)
            }
            (_, Some(request)) => {
                if request > self.time_limit_ns {
                    return Err(LinuxError::TimeLimit { limit_ns: self.time_limit_ns });
                }
                let until = self.free_until(request);
                self.waiting = false;
                self.calendar.as_mut().map_or(Ok(()), |calendar| calendar.run(request, until))
            }
            // The guest waits for an interrupt, but no device has an event that could cause one.
            _ => Err(LinuxError::Deadlock { at_ns: self.now(), log: self.log.last_words() }),
        }
    }

    fn complete_until(&mut self, which: Which, now: u64) -> Result<(), LinuxError> {
        let Some((port, device)) = self.device(which) else { return Ok(()) };
        let tell = port.give_back(device, now).map_err(LinuxError::Protocol)?;
        tell.into_iter().try_for_each(|ring| self.interrupt(which, ring))
    }

    /// In virtual time, time stands still until the guest acknowledges the interrupt. Before that, the guest
    /// may send time messages, such as a request to run now.
    fn interrupt(&mut self, which: Which, ring: u32) -> Result<(), LinuxError> {
        self.interrupts += u64::from(which == Which::Disk);
        // The wait serves time messages and needs all of `self`, so the channel is taken out for its
        // duration.
        let Some(mut backend) = self.device(which).and_then(|(port, _)| port.backend.take()) else {
            return Err(LinuxError::Protocol("the guest's device has no channel for interrupts".into()));
        };
        let notified = self.interrupt_by(&mut backend, ring);
        if let Some((port, _)) = self.device(which) {
            port.backend = Some(backend);
        }
        notified
    }

    fn interrupt_by(&mut self, backend: &mut UnixStream, ring: u32) -> Result<(), LinuxError> {
        let is_virtual = self.clock == Clock::Virtual;
        backend.write_all(&message::vring_call(ring, is_virtual)).map_err(gone)?;
        if !is_virtual {
            return Ok(());
        }
        let silent = RealTime::start();
        let (mut ack, mut got) = ([0; message::ACK_BYTES], 0);
        // A guest that shares the calendar rarely sends a time message before its acknowledgement. A direct
        // read then saves a poll.
        let mut may_read = self.calendar.as_ref().is_none_or(Calendar::is_shared);
        loop {
            if may_read {
                match backend.read(&mut ack[got..]) {
                    Ok(0) => return Err(gone(io::ErrorKind::UnexpectedEof.into())),
                    Ok(more) => got += more,
                    Err(error) if is_late(&error) => {}
                    Err(error) => return Err(gone(error)),
                }
            }
            if got == ack.len() {
                return if message::is_positive(ack) {
                    Ok(())
                } else {
                    Err(LinuxError::Protocol("it rejected an interrupt of its device".into()))
                };
            }
            let Some(calendar) = &self.calendar else { return Ok(()) };
            let mut fds = [
                PollFd::from_borrowed_fd(backend.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(calendar.link(), PollFlags::IN),
            ];
            let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) if silent.elapsed() > self.stall_limit => {
                    let seconds = silent.elapsed().as_secs();
                    return Err(LinuxError::Stalled { seconds, log: self.log.last_words() });
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let [answer, time] = fds.map(|fd| !fd.revents().is_empty());
            may_read = answer || !time;
            if time && self.serve_time()? == Some(End::Off) {
                return Err(LinuxError::Ended(self.log.last_words()));
            }
            if self.stop.is_raised() {
                return Err(LinuxError::Interrupted);
            }
        }
    }

    fn serve_device(&mut self, which: Which) -> Turn {
        let now = self.now();
        let Some((port, device)) = self.device(which) else { return Ok(None) };
        match port.serve(device)? {
            Heard::Nothing => Ok(None),
            Heard::Gone => Ok(Some(End::Off)),
            Heard::Kick { ring, needs_reply } => {
                port.take_all(device, ring, now)?;
                port.answer_at_once(device)?;
                // The guest continues after the reply, so the new completion times must limit it before.
                let until = self.free_until(now);
                if let Some(calendar) = &self.calendar {
                    calendar.limit(until);
                }
                if self.disk.target().drive().was_cut() {
                    return Ok(Some(End::PowerCut));
                }
                self.check_storage()?;
                if needs_reply && let Some((port, _)) = self.device(which) {
                    port.acknowledge_kick()?;
                }
                Ok(None)
            }
        }
    }

    /// Returns an error if a drive cannot store more data. Otherwise the guest would only see errors, or the
    /// host would kill this process.
    fn check_storage(&mut self) -> Result<(), LinuxError> {
        let disks = [&*self.disk].into_iter().chain(self.others.iter().map(|(_, disk)| &**disk));
        if let Some(reason) = disks.filter_map(|disk| disk.target().drive().failure()).next() {
            return Err(LinuxError::Drive(reason.to_owned()));
        }
        self.kicks += 1;
        let Some(memory_left) = self.memory_left.filter(|_| self.kicks.is_multiple_of(KICKS_PER_LOOK)) else {
            return Ok(());
        };
        match memory_left() {
            Some(left) if left < MEMORY_LEFT_MIN => Err(LinuxError::StoredData(left)),
            _ => Ok(()),
        }
    }

    fn hear(&mut self, pipe: usize) -> Result<(), LinuxError> {
        let mut buffer = [0; 16 << 10];
        loop {
            let Pipe { stream, file } = &mut self.pipes[pipe];
            let Some(open) = file else { return Ok(()) };
            let bytes = match open.read(&mut buffer) {
                Ok(0) => {
                    *file = None;
                    return Ok(());
                }
                Ok(length) => &buffer[..length],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let stream = *stream;
            if stream == Stream::Kernel {
                self.log.add(bytes);
            }
            self.listener.hears(stream, bytes, self.disk)?;
        }
    }

    fn hear_everything(&mut self) -> Result<(), LinuxError> {
        (0..self.pipes.len()).try_for_each(|pipe| self.hear(pipe))
    }
}
