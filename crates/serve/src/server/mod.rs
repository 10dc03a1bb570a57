//! The server: sockets on one side, the drive on the other, and one thread between them.
//!
//! A turn:
//! 1. Wait until a client connects, sends or can be sent to, or until the drive's next event is due.
//! 2. Read from those that have sent, and submit all requests that are whole.
//! 3. Let the drive's time pass, and send the answers that are due.
//! 4. Requests that waited for answers to be sent follow; then the next turn.

mod connection;
mod lines;
mod listen;
mod spin;
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use strobe_ssd::CommandError;
use strobe_types::{SimTime, StopFlag};

pub use self::listen::Address;
pub use self::tls::Tls;

use self::connection::{Connection, Guest, Shared};
use self::lines::{Asker, Form};
use self::listen::{Listener, Stream};
use self::spin::Spin;
use crate::clock::Clock;
use crate::desk::{Desk, Then};
use crate::engine::Engine;
use crate::nbd::{self, Export};
use crate::nvme_tcp::{self, Subsystem};
use crate::result::{ServeResult, Served};
use crate::vhost;

/// Longest wait without a look at the stop flag.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Time before an event of the drive that is spent awake.
const AWAKE: Duration = Duration::from_micros(50);
/// Time for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// Most clients of the control socket at a time, and of the metrics.
const ASKERS_MAX: usize = 16;
/// Time in which requests are done as the model says, and answers taken, when the server ends.
const GRACE: Duration = Duration::from_secs(5);
/// Time without accepting after the system had no resources for a connection, unless one closes earlier.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Requests are submitted so often in one turn, before others are looked after.
const ROUNDS_MAX: usize = 64;

/// Why there is no server, or why it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The operating system refuses the address.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        source: std::io::Error,
    },
    /// Anybody could connect.
    #[error(
        "cannot listen at {0}: connections are not encrypted, so only addresses of this machine are offered: 127.0.0.1 or [::1]. \
         NBD with --tls-cert and --tls-key is offered at others"
    )]
    NotLoopback(SocketAddr),
    /// Another server has the socket.
    #[error("cannot listen at {}: another server listens there; give this one another path", .0.display())]
    InUse(PathBuf),
    /// A file is in the way.
    #[error("cannot listen at {}: a file that is no socket has this name", .0.display())]
    NotASocket(PathBuf),
    /// Certificate or key are of no use.
    #[error("{}: not a certificate or key in PEM that can be used: {reason}", .path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Waiting failed.
    #[error("cannot wait for clients: {0}")]
    Wait(#[from] std::io::Error),
    /// The drive has failed.
    #[error("the drive: {0}")]
    Drive(#[from] CommandError),
}

impl ServeError {
    /// True if the request was wrong, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        !matches!(self, Self::Wait(_) | Self::Drive(_))
    }
}

/// Sockets that are ready.
struct Ready {
    /// Listeners at which somebody knocks.
    knocks: Vec<usize>,
    /// Connections that can go on, each with true if its other end is closed.
    clients: Vec<(u32, bool)>,
    /// Files by which clients have signalled, each with its number in the connection.
    signals: Vec<(u32, usize)>,
    /// True if somebody asks about the server.
    asks: bool,
}

/// Protocol spoken at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Network Block Device.
    Nbd,
    /// NVMe over TCP.
    NvmeTcp,
    /// A virtio block device for a virtual machine.
    VhostUser,
}

/// Sockets of a server.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// Addresses for clients, with their protocols.
    pub addresses: Vec<(Address, Protocol)>,
    /// Unix socket that takes commands, for its owner alone.
    pub control: Option<PathBuf>,
    /// TCP address of the metrics, of this machine.
    pub metrics: Option<SocketAddr>,
    /// Certificate with which NBD at TCP addresses is encrypted.
    pub tls: Option<Tls>,
}

/// A drive offered to clients.
pub struct Server {
    listeners: Vec<(Listener, Protocol)>,
    engine: Engine,
    export: Arc<Export>,
    tls: Option<Tls>,
    subsystem: Subsystem,
    connections: BTreeMap<u32, Connection>,
    desk: Desk,
    /// Sockets of those who ask about the server.
    windows: Vec<(Listener, Form)>,
    askers: Vec<Asker>,
    /// True once somebody has asked for the end.
    ends: bool,
    /// Most connections at a time; others wait.
    connections_max: usize,
    /// Time before which no client is accepted.
    accepts_from: Duration,
    next_id: u32,
    clock: Clock,
    spin: Spin,
    served: Served,
}

impl Server {
    /// Listens at the addresses of `sockets`; clients are served by [`Server::serve`].
    pub fn bind(
        sockets: &Sockets,
        engine: Engine,
        export: Export,
        mut subsystem: Subsystem,
        desk: Desk,
        connections_max: usize,
    ) -> Result<Self, ServeError> {
        let Sockets { addresses, control, metrics, tls } = sockets;
        let control = control.iter().map(|path| (Address::Unix(path.clone()), Form::Control));
        let metrics = metrics.iter().map(|&address| (Address::Tcp(address), Form::Metrics));
        let window = |(address, form)| Ok((Listener::bind(&address, false)?, form));
        let listener = |(address, protocol): &_| {
            let is_encrypted = tls.is_some() && *protocol == Protocol::Nbd;
            Ok((Listener::bind(address, is_encrypted)?, *protocol))
        };
        let listeners: Vec<_> = addresses.iter().map(listener).collect::<Result<_, ServeError>>()?;
        let nvme = listeners.iter().find(|(_, protocol)| *protocol == Protocol::NvmeTcp);
        if let Some(Ok(Address::Tcp(address))) = nvme.map(|(listener, _)| listener.address()) {
            subsystem.set_address(address);
        }
        subsystem.set_connections(connections_max);
        Ok(Self {
            windows: control.chain(metrics).map(window).collect::<Result<_, ServeError>>()?,
            askers: Vec::new(),
            ends: false,
            desk,
            listeners,
            engine,
            export: Arc::new(export),
            tls: tls.clone(),
            subsystem,
            connections: BTreeMap::new(),
            connections_max,
            accepts_from: Duration::ZERO,
            next_id: 0,
            clock: Clock::from(SimTime::ZERO),
            spin: Spin::new(),
            served: Served::default(),
        })
    }

    /// Addresses at which it listens.
    pub fn addresses(&self) -> Result<Vec<(Address, Protocol)>, ServeError> {
        let address = |(listener, protocol): &(Listener, _)| Ok((listener.address()?, *protocol));
        self.listeners.iter().map(address).collect()
    }

    /// Address at which metrics are had.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        let listener = self.windows.iter().find(|(_, form)| *form == Form::Metrics);
        match listener?.0.address() {
            Ok(Address::Tcp(address)) => Some(address),
            _ => None,
        }
    }

    /// Counters so far.
    pub fn result(&self) -> ServeResult {
        self.desk.result(&self.engine, self.served)
    }

    /// Serves until `stop` is raised or `is_over` says so, at the latest a moment after; then finishes what was
    /// submitted, sends the answers and settles the drive.
    pub fn serve(&mut self, stop: &StopFlag, is_over: &mut dyn FnMut() -> bool) -> Result<(), ServeError> {
        // The system would wake us up to 50 µs late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        while !stop.is_raised() && !self.ends && !is_over() {
            self.turn(true)?;
        }
        self.connections.values_mut().for_each(|connection| connection.session.end());
        let end = self.now() + GRACE;
        while self.now() < end && (self.engine.outstanding() > 0 || !self.connections.is_empty()) {
            self.turn(false)?;
        }
        // The rest is done too, in no real time.
        let (mut answers, now) = (Vec::new(), self.now());
        let Self { engine, subsystem, connections, .. } = self;
        let mut shared = Shared { engine, subsystem, now };
        shared.engine.finish(&mut answers);
        // What was read of a connection goes on.
        while hand_over(&mut answers, connections, &mut shared) > 0 {
            shared.engine.finish(&mut answers);
        }
        connections.clear();
        self.engine.settle()?;
        Ok(())
    }

    /// Time since the server began.
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now().as_ns())
    }

    fn turn(&mut self, accepts: bool) -> Result<(), ServeError> {
        let Ready { knocks, clients, signals, asks } = self.wait(accepts)?;
        for at in knocks {
            self.accept(at);
        }
        self.engine.tick();
        let now = self.now();
        let Self { engine, subsystem, connections, .. } = self;
        let mut shared = Shared { engine, subsystem, now };
        for (id, is_cut) in clients {
            if let Some(connection) = connections.get_mut(&id) {
                connection.receive(is_cut);
                connection.session.submit(id, &mut shared);
            }
        }
        for (id, number) in signals {
            if let Some(connection) = connections.get_mut(&id) {
                connection.session.signalled(number);
                connection.session.submit(id, &mut shared);
            }
        }
        let mut answers = Vec::new();
        for _ in 0..ROUNDS_MAX {
            shared.engine.advance(&mut answers);
            if hand_over(&mut answers, connections, &mut shared) == 0 {
                break;
            }
        }
        let before = connections.len() + self.askers.len();
        connections.retain(|_, connection| {
            let is_over = connection.check_over(&mut shared, HANDSHAKE);
            if is_over {
                connection.session.leave(&mut shared);
            }
            !is_over
        });
        if asks {
            self.hear();
        }
        self.askers.retain(|asker| !asker.is_over(now));
        if self.connections.len() + self.askers.len() < before {
            // A connection has closed, so there is a file descriptor again.
            self.accepts_from = Duration::ZERO;
        }
        Ok(())
    }

    /// Answers those who ask about the server.
    fn hear(&mut self) {
        let now = self.now();
        for (listener, form) in &self.windows {
            while has_seat(&self.askers, *form) {
                match listener.accept() {
                    Ok(stream) => self.askers.push(Asker::new(stream, *form, now)),
                    Err(error) => {
                        defer_accepting(&error, now, &mut self.accepts_from);
                        break;
                    }
                }
            }
        }
        let mut then = Then::Nothing;
        for asker in &mut self.askers {
            // What changes the drive comes alone.
            while then == Then::Nothing
                && let Some(question) = asker.question(now)
            {
                let (engine, desk, served) = (&mut self.engine, &mut self.desk, self.served);
                let answer = match asker.form {
                    Form::Metrics => desk.metrics(&question, engine, served),
                    Form::Control => {
                        let done = desk.carry_out(&question, engine, served);
                        then = done.as_ref().map_or(Then::Nothing, |done| done.then);
                        let answer = done
                            .map_or_else(|error| serde_json::json!({ "error": error }), |done| done.answer);
                        answer.to_string() + "\n"
                    }
                };
                asker.answer(&answer);
                asker.send();
            }
            asker.send();
        }
        match then {
            Then::Nothing => {}
            // As if the cable had been pulled: what clients have cached is of another drive.
            Then::OtherDrive => {
                self.connections.clear();
                self.subsystem.clear();
            }
            Then::End => self.ends = true,
        }
    }

    /// Waits for something to do.
    fn wait(&self, accepts: bool) -> Result<Ready, ServeError> {
        // A listener that is polled but not accepted from would end every wait at once.
        let is_deferred = self.now() < self.accepts_from;
        let has_room = accepts && !is_deferred && self.connections.len() < self.connections_max;
        let listeners = if has_room { &self.listeners[..] } else { &[] };
        let is_open = |(_, form): &&(Listener, Form)| !is_deferred && has_seat(&self.askers, *form);
        let windows = self.windows.iter().filter(is_open);
        let mut fds: Vec<_> =
            listeners.iter().map(|(listener, _)| PollFd::new(listener, PollFlags::IN)).collect();
        let mut ids = Vec::with_capacity(self.connections.len());
        let mut signals = Vec::new();
        let (mut has_pending, mut buffered) = (false, Vec::with_capacity(self.connections.len()));
        for (&id, connection) in &self.connections {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !connection.session.is_full());
            let has_output = connection.session.output_bytes() > 0 || connection.stream.has_output();
            flags.set(PollFlags::OUT, has_output);
            ids.push(id);
            fds.push(PollFd::new(&connection.stream, flags));
            let has_buffered = connection.stream.has_buffered() && !connection.session.is_full();
            buffered.push(has_buffered);
            has_pending |= has_buffered || connection.session.has_pending();
            signals.extend(connection.session.signals().into_iter().map(|(number, file)| (id, number, file)));
        }
        let connected = fds.len();
        fds.extend(signals.iter().map(|(.., file)| PollFd::from_borrowed_fd(*file, PollFlags::IN)));
        let signalling = fds.len();
        fds.extend(windows.map(|(listener, _)| PollFd::new(listener, PollFlags::IN)));
        let mut asks = false;
        for asker in &self.askers {
            asks |= asker.has_question();
            let flags = if asker.has_output() { PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::new(&asker.stream, flags));
        }
        let due = if has_pending || asks { Some(0) } else { self.engine.due_in_ns() };
        // The system wakes a sleeper late, so the last moment before an event is spent awake.
        let due = due.map_or(LOOK_UP, |ns| Duration::from_nanos(ns).saturating_sub(AWAKE)).min(LOOK_UP);
        self.spin.wait(&mut fds, due).map_err(std::io::Error::from)?;
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (clients, others) = fds.split_at(signalling);
        let (clients, signalled) = clients.split_at(connected);
        let (listening, connected) = clients.split_at(listeners.len());
        let knocks = (0..).zip(listening).filter(|(_, fd)| is_ready(fd)).map(|(at, _)| at).collect();
        let ready = ids.iter().zip(connected).zip(buffered);
        let ready = ready.filter(|((_, fd), has_buffered)| *has_buffered || is_ready(fd));
        let is_cut = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let clients = ready.map(|((&id, fd), _)| (id, is_cut(fd))).collect();
        let signalled = signals.iter().zip(signalled).filter(|(_, fd)| is_ready(fd));
        let signals = signalled.map(|(&(id, number, _), _)| (id, number)).collect();
        Ok(Ready { knocks, clients, signals, asks: asks || others.iter().any(is_ready) })
    }

    fn accept(&mut self, at: usize) {
        while self.connections.len() < self.connections_max {
            let stream = match self.listeners[at].0.accept() {
                Ok(stream) => stream,
                Err(error) => return defer_accepting(&error, self.now(), &mut self.accepts_from),
            };
            let (protocol, export) = (self.listeners[at].1, Arc::clone(&self.export));
            let is_encrypted = protocol == Protocol::Nbd && matches!(stream, Stream::Tcp(_));
            let tls = self.tls.clone().filter(|_| is_encrypted);
            let session: Box<dyn connection::Client> = match protocol {
                Protocol::Nbd if tls.is_some() => Box::new(nbd::Session::to_be_encrypted(export)),
                Protocol::Nbd => Box::new(nbd::Session::new(export)),
                Protocol::NvmeTcp => Box::new(nvme_tcp::Session::new()),
                Protocol::VhostUser => match vhost::Session::new(self.export.read_only) {
                    Ok(session) => Box::new(Guest::new(session)),
                    Err(_) => continue,
                },
            };
            let mut connection = Connection::new(stream, session, tls, self.now());
            connection.send();
            self.connections.insert(self.next_id, connection);
            self.next_id = self.next_id.wrapping_add(1);
            self.served.connections += 1;
            self.served.most = self.served.most.max(self.connections.len());
        }
    }
}

/// True if another client that asks in this form is accepted beside `askers`.
fn has_seat(askers: &[Asker], form: Form) -> bool {
    askers.iter().filter(|asker| asker.form == form).count() < ASKERS_MAX
}

/// Hands `answers` to the connections that they are for. Who has taken answers may go on: returns how many
/// requests follow.
fn hand_over(
    answers: &mut Vec<(u64, Result<Vec<u8>, CommandError>)>,
    connections: &mut BTreeMap<u32, Connection>,
    shared: &mut Shared<'_>,
) -> usize {
    for (tag, result) in answers.drain(..) {
        // Nobody may be there to hear it.
        if let Some(connection) = connections.get_mut(&((tag >> 32) as u32)) {
            connection.session.answer(tag as u32, result, shared);
        }
    }
    let waiting = connections.iter_mut().map(|(&id, connection)| {
        connection.send();
        connection.session.submit(id, shared)
    });
    waiting.sum()
}

/// Moves `accepts_from` if `error` says that the system has no resources for a connection. The client stays
/// in the queue, so that another attempt would fail at once. Other errors concern one client, or say that
/// none waits.
fn defer_accepting(error: &std::io::Error, now: Duration, accepts_from: &mut Duration) {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    if matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) {
        *accepts_from = now + ACCEPT_RETRY;
    }
}
