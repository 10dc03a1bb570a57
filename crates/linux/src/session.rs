//! One guest from power-on to power-off: its clock, its disk and what it prints.
//!
//! Everything happens on one thread. In virtual time either the guest runs or we do, never both, so the
//! order of all that happens is the same in every run.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::LinuxError;
use crate::calendar::{Calendar, Served};
use crate::disk::Disk;
use crate::link::{gone, receive};
use crate::machine::{Clock, Machine};
use crate::process::{EPOCH_NS, Guest, Pipe, Sockets, Stream};
use crate::ring::Ring;
use crate::vhost::{self, Request};

/// Who hears what the guest says.
pub trait Listener {
    /// The guest has printed `bytes`. All requests that it sent before have been carried out, none that
    /// it sends later.
    fn hears(&mut self, stream: Stream, bytes: &[u8], disk: &mut Disk) -> Result<(), LinuxError>;
}

/// How a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was switched off, or ended otherwise.
    Off,
    /// The power cut that was planned for the drive has happened.
    PowerCut,
}

/// What a guest that has ended leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub end: End,
    /// When, in its own time; in real time, when that was noticed.
    pub guest_ns: u64,
    /// Messages about time.
    pub time_messages: u64,
    /// Interrupts by the disk.
    pub interrupts: u64,
}

/// Most of what the kernel said that is kept for errors.
const LOG_BYTES_MAX: usize = 16 << 10;
const LOG_LINES_QUOTED: usize = 12;
/// How long to wait at most before looking whether to stop.
const LOOK_UP: Duration = Duration::from_millis(200);
/// The only ring of the disk.
const RING: u32 = 0;
/// How far the guest may run without a word if the disk has nothing to do: so we learn that it is alive, and
/// whether its time is up.
const QUANTUM_NS: u64 = 1_000_000_000;

/// Boots a guest with `root`, a cpio archive, on `disk`; returns when it has ended. Setting `stop` ends it.
pub fn boot(
    machine: &Machine,
    root: &Path,
    disk: &mut Disk,
    listener: &mut dyn Listener,
    stop: &AtomicBool,
) -> Result<Ended, LinuxError> {
    let (guest, sockets, pipes) = Guest::start(machine, root)?;
    let mut session = Session {
        disk,
        listener,
        pipes,
        sockets,
        calendar: None,
        clock: machine.clock,
        started: RealTime::start(),
        disk_link: None,
        backend: None,
        ring: Ring::new().map_err(LinuxError::Protocol)?,
        waiting: false,
        interrupts: 0,
        log: Vec::new(),
        stop,
        time_limit_ns: machine.time_limit_ns,
        stall_limit: machine.stall_limit,
    };
    let end = session.run(guest.exit.as_fd());
    drop(guest);
    // What it printed last.
    let heard = session.hear_everything();
    match end {
        // A kernel that panics may take the rest with it in any way.
        _ if session.log_says("Kernel panic") => Err(LinuxError::Panic(session.last_words())),
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
    listener: &'a mut dyn Listener,
    pipes: Vec<Pipe>,
    sockets: Sockets,
    clock: Clock,
    calendar: Option<Calendar>,
    started: RealTime,
    disk_link: Option<UnixStream>,
    /// Where our interrupts go.
    backend: Option<UnixStream>,
    ring: Ring,
    /// The guest waits: time is ours.
    waiting: bool,
    interrupts: u64,
    log: Vec<u8>,
    stop: &'a AtomicBool,
    time_limit_ns: u64,
    stall_limit: Duration,
}

/// The host's clock.
#[allow(clippy::disallowed_types, reason = "real time is what is asked for, or how long the guest is silent")]
struct RealTime(std::time::Instant);

impl RealTime {
    #[allow(clippy::disallowed_types, reason = "as above")]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Where something has come.
#[derive(Clone, Copy)]
enum Source {
    Pipe(usize),
    Disk,
    Time,
    Exit,
}

/// What became of the guest when a message was served.
type Turn = Result<Option<End>, LinuxError>;

impl Session<'_> {
    /// The guest's time.
    fn now(&self) -> u64 {
        match (&self.calendar, self.clock) {
            (Some(calendar), _) => calendar.now(),
            (None, Clock::Virtual) => 0,
            (None, Clock::Real) => u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// How far the guest may run from `now` on without asking.
    fn free_until(&self, now: u64) -> u64 {
        let quantum = now.saturating_add(QUANTUM_NS);
        self.disk.next_event().map_or(quantum, |next| next.max(now).min(quantum))
    }

    fn run(&mut self, exit: BorrowedFd<'_>) -> Result<End, LinuxError> {
        let mut silent = RealTime::start();
        loop {
            while self.waiting {
                self.decide()?;
                if self.disk.target().drive().was_cut() {
                    return Ok(End::PowerCut);
                }
            }
            if self.clock == Clock::Real {
                self.complete_until(self.now())?;
                if self.now() > self.time_limit_ns {
                    return Err(LinuxError::TimeLimit {
                        limit_ns: self.time_limit_ns,
                        log: self.last_words(),
                    });
                }
            }
            let ready = self.wait(exit)?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(LinuxError::Interrupted);
            }
            if ready.is_empty() && self.clock == Clock::Virtual && silent.elapsed() > self.stall_limit {
                let seconds = silent.elapsed().as_secs();
                return Err(LinuxError::Stalled { seconds, log: self.last_words() });
            }
            for source in ready {
                let end = match source {
                    Source::Pipe(pipe) => self.hear(pipe).map(|()| None)?,
                    Source::Disk => self.serve_disk()?,
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

    /// Waits until something comes; returns what, in the order in which it is to be served. What the
    /// guest prints comes first: it printed that before it sent the message that is there too.
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
        add(Source::Disk, self.disk_link.as_ref().map_or(self.sockets.disk.as_fd(), AsFd::as_fd));
        match (&self.calendar, &self.sockets.time) {
            (Some(calendar), _) => add(Source::Time, calendar.link()),
            (None, Some(socket)) => add(Source::Time, socket.as_fd()),
            (None, None) => {}
        }
        add(Source::Exit, exit);
        let mut patience = LOOK_UP;
        if let (Clock::Real, Some(next)) = (self.clock, self.disk.next_event()) {
            patience = patience.min(Duration::from_nanos(next.saturating_sub(self.now())));
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos() as _ };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(&source, _)| source).collect())
    }

    /// Serves one message about time.
    fn serve_time(&mut self) -> Turn {
        match (&mut self.calendar, &self.sockets.time) {
            (Some(calendar), _) => match calendar.serve()? {
                Served::Nothing => {}
                Served::Waits => self.waiting = true,
                Served::Gone => return Ok(Some(End::Off)),
            },
            (None, Some(socket)) => {
                let calendar = Calendar::new(socket.accept()?.0, EPOCH_NS)?;
                // A guest that asks nothing of its disk has to look up now and then, too.
                calendar.limit(self.free_until(0));
                self.calendar = Some(calendar);
            }
            (None, None) => {}
        }
        Ok(None)
    }

    /// The guest waits: what is next, a completion or the guest's own next event? At the same time,
    /// the completion.
    fn decide(&mut self) -> Result<(), LinuxError> {
        let Some(calendar) = &self.calendar else { return Ok(()) };
        match (self.disk.next_event(), calendar.request()) {
            (Some(at), request) if request.is_none_or(|request| at <= request) => {
                calendar.advance(at);
                self.complete_until(at)
            }
            (_, Some(request)) => {
                if request > self.time_limit_ns {
                    return Err(LinuxError::TimeLimit {
                        limit_ns: self.time_limit_ns,
                        log: self.last_words(),
                    });
                }
                let until = self.free_until(request);
                self.waiting = false;
                self.calendar.as_mut().map_or(Ok(()), |calendar| calendar.run(request, until))
            }
            _ => Err(LinuxError::Deadlock { at_ns: self.now(), log: self.last_words() }),
        }
    }

    /// Gives back all requests that are complete at `now`, and tells the guest if it wants to know.
    fn complete_until(&mut self, now: u64) -> Result<(), LinuxError> {
        let tell = self.ring.give_back(self.disk, now).map_err(LinuxError::Protocol)?;
        if tell { self.interrupt() } else { Ok(()) }
    }

    /// Interrupts the guest. In virtual time it must have taken note before time goes on, which it
    /// does by asking to run at this time; meanwhile it may send other messages about time.
    fn interrupt(&mut self) -> Result<(), LinuxError> {
        let Some(backend) = &mut self.backend else {
            return Err(LinuxError::Protocol("the guest's disk has no channel for interrupts".into()));
        };
        self.interrupts += 1;
        let is_virtual = self.clock == Clock::Virtual;
        backend.write_all(&vhost::vring_call(RING, is_virtual)).map_err(gone)?;
        if !is_virtual {
            return Ok(());
        }
        let silent = RealTime::start();
        loop {
            let Some(backend) = &self.backend else { return Ok(()) };
            let Some(calendar) = &self.calendar else { return Ok(()) };
            let mut fds = [
                PollFd::from_borrowed_fd(backend.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(calendar.link(), PollFlags::IN),
            ];
            let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) if silent.elapsed() > self.stall_limit => {
                    let seconds = silent.elapsed().as_secs();
                    return Err(LinuxError::Stalled { seconds, log: self.last_words() });
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let [acknowledged, time] = fds.map(|fd| !fd.revents().is_empty());
            if time && self.serve_time()? == Some(End::Off) {
                return Err(LinuxError::Ended(self.last_words()));
            }
            if acknowledged {
                let mut ack = [0; vhost::ACK_BYTES];
                let Some(backend) = &mut self.backend else { return Ok(()) };
                backend.read_exact(&mut ack).map_err(gone)?;
                return match vhost::is_positive(ack) {
                    true => Ok(()),
                    false => Err(LinuxError::Protocol("it refuses an interrupt of its disk".into())),
                };
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(LinuxError::Interrupted);
            }
        }
    }

    /// Serves one message to the disk.
    fn serve_disk(&mut self) -> Turn {
        let Some(link) = &mut self.disk_link else {
            self.disk_link = Some(self.sockets.disk.accept()?.0);
            return Ok(None);
        };
        let Some((header, payload, files)) = receive(link)? else {
            // The guest is going down.
            return Ok(Some(End::Off));
        };
        let request = Request::parse(header.request, &payload).map_err(LinuxError::Protocol)?;
        let mut answer = None;
        match request {
            Request::GetFeatures => answer = Some(self.disk.offered_features() | vhost::F_PROTOCOL_FEATURES),
            Request::GetProtocolFeatures => answer = Some(vhost::protocol::OFFERED),
            Request::SetFeatures(features) => self.disk.set_features(features),
            Request::SetOwner => {}
            Request::SetProtocolFeatures(features) => {
                if features & vhost::protocol::OFFERED != vhost::protocol::OFFERED {
                    let what = format!("its driver of vhost-user disks lacks features ({features:#x})");
                    return Err(LinuxError::Protocol(what));
                }
            }
            Request::SetMemory(regions) => self.ring.map(regions, files).map_err(LinuxError::Protocol)?,
            Request::SetVringSize { size, .. } => self.ring.set_size(size).map_err(LinuxError::Protocol)?,
            Request::SetVringAddress { descriptors, used, available, .. } => {
                self.ring.set_addresses(descriptors, used, available).map_err(LinuxError::Protocol)?;
            }
            Request::SetVringBase { base, .. } => self.ring.set_base(base),
            Request::EnableVring { enable, .. } => self.ring.enable(enable, self.disk.uses_event_index()),
            Request::SetBackendChannel => {
                let Some(file) = files.into_iter().next() else {
                    return Err(LinuxError::Protocol("a channel for interrupts without a file".into()));
                };
                self.backend = Some(UnixStream::from(file));
            }
            Request::GetConfig { message, .. } => {
                let space = self.disk.config_space();
                return self.answer(&vhost::config_reply(&message, &space));
            }
            Request::SetConfig { offset, bytes } => self.disk.set_config(offset, &bytes),
            Request::Kick(_) => {
                self.kicked()?;
                if self.disk.target().drive().was_cut() {
                    return Ok(Some(End::PowerCut));
                }
            }
        }
        match (answer, header.needs_reply) {
            (Some(answer), _) => self.answer(&vhost::reply(header.request, &answer.to_le_bytes())),
            (None, true) => self.answer(&vhost::reply(header.request, &0_u64.to_le_bytes())),
            (None, false) => Ok(None),
        }
    }

    fn answer(&mut self, message: &[u8]) -> Turn {
        match &mut self.disk_link {
            Some(link) => link.write_all(message).map_err(gone).map(|()| None),
            None => Ok(None),
        }
    }

    /// There is something in the ring. Only when its completions are known may the guest go on.
    fn kicked(&mut self) -> Result<(), LinuxError> {
        let now = self.now();
        self.ring.take_all(self.disk, now).map_err(LinuxError::Protocol)?;
        let until = self.free_until(now);
        if let Some(calendar) = &self.calendar {
            calendar.limit(until);
        }
        Ok(())
    }

    /// Takes what the guest has printed to one of the pipes.
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
                self.log.extend_from_slice(bytes);
                let excess = self.log.len().saturating_sub(LOG_BYTES_MAX);
                self.log.drain(..excess);
            }
            self.listener.hears(stream, bytes, self.disk)?;
        }
    }

    fn hear_everything(&mut self) -> Result<(), LinuxError> {
        (0..self.pipes.len()).try_for_each(|pipe| self.hear(pipe))
    }

    fn log_says(&self, what: &str) -> bool {
        String::from_utf8_lossy(&self.log).contains(what)
    }

    /// The last lines of the kernel; from where it begins to panic if it does.
    fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.log);
        let from =
            text.find("Kernel panic").map_or(0, |at| text[..at].rfind('\n').map_or(0, |line| line + 1));
        let lines: Vec<_> = text[from..].lines().collect();
        let shown = match from {
            0 => &lines[lines.len().saturating_sub(LOG_LINES_QUOTED)..],
            _ => &lines[..lines.len().min(LOG_LINES_QUOTED)],
        };
        shown.join("\n")
    }
}
