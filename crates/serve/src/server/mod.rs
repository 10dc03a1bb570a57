//! The server: sockets on one side, the drive on the other, in one thread.
//!
//! A turn of the server:
//! 1. Wait until a client connects, sends or is ready to receive, or until the drive's next event is due.
//! 2. Read from clients, and submit all complete requests.
//! 3. Advance the drive's time, and send the answers that are due.
//! 4. Submit requests that had to wait until answers were sent, and repeat step 3 for them.

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
use self::lines::{Form, LineClient};
use self::listen::{Listener, Stream};
use self::spin::Spin;
use crate::clock::Clock;
use crate::control_commands::{ControlCommands, Then};
use crate::engine::Engine;
use crate::nbd::{self, Export};
use crate::nvme_tcp::{self, Subsystem};
use crate::result::{ServeResult, Served};
use crate::vhost;

/// Maximum time between two checks of the stop flag.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Time before a drive event without sleeping.
const AWAKE: Duration = Duration::from_micros(50);
const HANDSHAKE: Duration = Duration::from_secs(20);
const ASKERS_MAX: usize = 16;
/// Time at shutdown for in-flight requests to complete at the model's pace and for answers to be sent.
const GRACE: Duration = Duration::from_secs(5);
/// Pause in accepting after the system ran out of resources. A closed connection ends the pause.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Maximum rounds of submissions in one turn.
const ROUNDS_MAX: usize = 64;

/// Reason why a server cannot start, or why it ended.
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
    /// An unencrypted TCP address is not a loopback address.
    #[error(
        "cannot listen at {0}: unencrypted connections are allowed at loopback addresses only: 127.0.0.1 or [::1]. \
         NBD with --tls-cert and --tls-key is allowed at others"
    )]
    NotLoopback(SocketAddr),
    /// Another server listens on the socket.
    #[error("cannot listen at {}: another server listens there; choose another path", .0.display())]
    InUse(PathBuf),
    /// A file that is not a socket exists at the path.
    #[error("cannot listen at {}: the path exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The certificate or key is unusable.
    #[error("{}: unusable PEM certificate or key: {reason}", .path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Waiting for clients failed.
    #[error("cannot wait for clients: {0}")]
    Wait(#[from] std::io::Error),
    /// The drive has failed.
    #[error("the drive: {0}")]
    Drive(#[from] CommandError),
}

impl ServeError {
    /// True if the request was wrong, not its execution.
    pub fn is_bad_request(&self) -> bool {
        !matches!(self, Self::Wait(_) | Self::Drive(_))
    }
}

struct Ready {
    /// Listeners with a waiting client.
    knocks: Vec<usize>,
    /// Ready connections, each with true if the peer has closed it.
    clients: Vec<(u32, bool)>,
    /// Signalled event files: connection, and number of the file within it.
    signals: Vec<(u32, usize)>,
    /// True if a control or metrics client is ready.
    asks: bool,
}

/// Protocol of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Network Block Device.
    Nbd,
    /// NVMe over TCP.
    NvmeTcp,
    /// Virtio block device of a virtual machine.
    VhostUser,
}

/// Sockets of a server.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// Addresses for clients, with their protocols.
    pub addresses: Vec<(Address, Protocol)>,
    /// Unix socket for commands, accessible to its owner only.
    pub control: Option<PathBuf>,
    /// Loopback TCP address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Certificate for NBD over TCP. Without it, connections are not encrypted.
    pub tls: Option<Tls>,
}

/// Server of a drive.
pub struct Server {
    listeners: Vec<(Listener, Protocol)>,
    engine: Engine,
    export: Arc<Export>,
    tls: Option<Tls>,
    subsystem: Subsystem,
    connections: BTreeMap<u32, Connection>,
    control_commands: ControlCommands,
    /// Control and metrics sockets.
    windows: Vec<(Listener, Form)>,
    line_clients: Vec<LineClient>,
    /// True once a client has requested shutdown.
    ends: bool,
    /// Maximum simultaneous connections. Further clients wait in the listen queue.
    connections_max: usize,
    /// Time before which no client is accepted.
    accepts_from: Duration,
    next_id: u32,
    clock: Clock,
    spin: Spin,
    served: Served,
}

impl Server {
    /// Listens at the addresses of `sockets`. [`Server::serve`] serves the clients.
    pub fn bind(
        sockets: &Sockets,
        engine: Engine,
        export: Export,
        mut subsystem: Subsystem,
        control_commands: ControlCommands,
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
        // The discovery log needs the actual port, which is known only after binding.
        if let Some(Ok(Address::Tcp(address))) = nvme.map(|(listener, _)| listener.address()) {
            subsystem.set_address(address);
        }
        subsystem.set_connections(connections_max);
        Ok(Self {
            windows: control.chain(metrics).map(window).collect::<Result<_, ServeError>>()?,
            line_clients: Vec::new(),
            ends: false,
            control_commands,
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

    /// Listening addresses.
    pub fn addresses(&self) -> Result<Vec<(Address, Protocol)>, ServeError> {
        let address = |(listener, protocol): &(Listener, _)| Ok((listener.address()?, *protocol));
        self.listeners.iter().map(address).collect()
    }

    /// Address of the metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        let listener = self.windows.iter().find(|(_, form)| *form == Form::Metrics);
        match listener?.0.address() {
            Ok(Address::Tcp(address)) => Some(address),
            _ => None,
        }
    }

    /// Counters since the start.
    pub fn result(&self) -> ServeResult {
        self.control_commands.result(&self.engine, self.served)
    }

    /// Serves until `stop` is raised or `is_over` returns true. Both are checked at least every 50 ms when idle.
    ///
    /// Then completes submitted requests, sends the answers and settles the drive.
    pub fn serve(&mut self, stop: &StopFlag, is_over: &mut dyn FnMut() -> bool) -> Result<(), ServeError> {
        // The default timer slack would delay wake-ups by up to 50 µs.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        while !stop.is_raised() && !self.ends && !is_over() {
            self.turn(true)?;
        }
        self.connections.values_mut().for_each(|connection| connection.session.end());
        let end = self.now() + GRACE;
        while self.now() < end && (self.engine.outstanding() > 0 || !self.connections.is_empty()) {
            self.turn(false)?;
        }
        // The grace period is over: the remaining requests complete without waiting for real time.
        let (mut answers, now) = (Vec::new(), self.now());
        let Self { engine, subsystem, connections, .. } = self;
        let mut shared = Shared { engine, subsystem, now };
        shared.engine.finish(&mut answers);
        // Requests already read from a connection are executed as well.
        while hand_over(&mut answers, connections, &mut shared) > 0 {
            shared.engine.finish(&mut answers);
        }
        connections.clear();
        self.engine.settle()?;
        Ok(())
    }

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
        // An answer frees capacity, so a connection may submit further requests. Repeat until no connection
        // does. The limit keeps a busy client from delaying the next read from the others.
        for _ in 0..ROUNDS_MAX {
            shared.engine.advance(&mut answers);
            if hand_over(&mut answers, connections, &mut shared) == 0 {
                break;
            }
        }
        let before = connections.len() + self.line_clients.len();
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
        self.line_clients.retain(|line_client| !line_client.is_over(now));
        if self.connections.len() + self.line_clients.len() < before {
            // A closed connection has released a file descriptor.
            self.accepts_from = Duration::ZERO;
        }
        Ok(())
    }

    fn hear(&mut self) {
        let now = self.now();
        for (listener, form) in &self.windows {
            while has_seat(&self.line_clients, *form) {
                match listener.accept() {
                    Ok(stream) => self.line_clients.push(LineClient::new(stream, *form, now)),
                    Err(error) => {
                        defer_accepting(&error, now, &mut self.accepts_from);
                        break;
                    }
                }
            }
        }
        let mut then = Then::Nothing;
        for line_client in &mut self.line_clients {
            // A command that replaces the drive is the last one of this turn.
            while then == Then::Nothing
                && let Some(question) = line_client.question(now)
            {
                let (engine, control_commands, served) =
                    (&mut self.engine, &mut self.control_commands, self.served);
                let answer = match line_client.form {
                    Form::Metrics => control_commands.metrics(&question, engine, served),
                    Form::Control => {
                        let done = control_commands.carry_out(&question, engine, served);
                        then = done.as_ref().map_or(Then::Nothing, |done| done.then);
                        let answer = done
                            .map_or_else(|error| serde_json::json!({ "error": error }), |done| done.answer);
                        answer.to_string() + "\n"
                    }
                };
                line_client.answer(&answer);
                line_client.send();
            }
            line_client.send();
        }
        match then {
            Then::Nothing => {}
            // All connections are closed, because the clients' caches belong to the old drive.
            Then::OtherDrive => {
                self.connections.clear();
                self.subsystem.clear();
            }
            Then::End => self.ends = true,
        }
    }

    fn wait(&self, accepts: bool) -> Result<Ready, ServeError> {
        // Poll a listener only if its client can be accepted. A waiting client would end every poll at once.
        let is_deferred = self.now() < self.accepts_from;
        let has_space = accepts && !is_deferred && self.connections.len() < self.connections_max;
        let listeners = if has_space { &self.listeners[..] } else { &[] };
        let is_open = |(_, form): &&(Listener, Form)| !is_deferred && has_seat(&self.line_clients, *form);
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
        for line_client in &self.line_clients {
            asks |= line_client.has_question();
            let flags = if line_client.has_output() { PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::new(&line_client.stream, flags));
        }
        let due = if has_pending || asks { Some(0) } else { self.engine.due_in_ns() };
        // The system wakes sleepers late, so the thread stays awake for the last moment before an event.
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
                    // The rings cannot be created: drop the client.
                    Err(_) => continue,
                },
            };
            let mut connection = Connection::new(stream, session, tls, self.now());
            // An NBD server speaks first.
            connection.send();
            self.connections.insert(self.next_id, connection);
            self.next_id = self.next_id.wrapping_add(1);
            self.served.connections += 1;
            self.served.most = self.served.most.max(self.connections.len());
        }
    }
}

fn has_seat(line_clients: &[LineClient], form: Form) -> bool {
    line_clients.iter().filter(|line_client| line_client.form == form).count() < ASKERS_MAX
}

/// Passes answers to connections. Returns the number of requests that these submit in turn.
fn hand_over(
    answers: &mut Vec<(u64, Result<Vec<u8>, CommandError>)>,
    connections: &mut BTreeMap<u32, Connection>,
    shared: &mut Shared<'_>,
) -> usize {
    for (tag, result) in answers.drain(..) {
        // The answers of a closed connection are dropped.
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

/// Pauses accepting if `error` means that the system lacks resources for a connection.
fn defer_accepting(error: &std::io::Error, now: Duration, accepts_from: &mut Duration) {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    // The client stays in the listen queue, so another attempt would fail at once. Any other error concerns
    // one client, or means that no client waits.
    if matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) {
        *accepts_from = now + ACCEPT_RETRY;
    }
}
