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

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strobe_ssd::CommandError;
use strobe_types::{SimTime, StopFlag};

pub use self::listen::Address;

use self::connection::Connection;
use self::lines::{Asker, Form};
use self::listen::Listener;
use crate::clock::Clock;
use crate::desk::{Desk, Then};
use crate::engine::Engine;
use crate::nbd::{Export, Failed};
use crate::result::{ServeResult, Served};

/// Longest wait without a look at the stop flag.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Time for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// Most clients of the control socket and of the metrics at a time.
const ASKERS_MAX: usize = 16;
/// Time for answers to be taken when the server ends.
const GRACE: Duration = Duration::from_secs(5);

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
        "cannot listen at {0}: connections are not encrypted, so only addresses of this machine are offered: 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// Another server has the socket.
    #[error("cannot listen at {}: another server listens there; give this one another --socket", .0.display())]
    InUse(PathBuf),
    /// A file is in the way.
    #[error("cannot listen at {}: a file that is no socket has this name", .0.display())]
    NotASocket(PathBuf),
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
    /// True if somebody asks about the server.
    asks: bool,
}

/// Sockets of a server.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// Addresses for clients.
    pub addresses: Vec<Address>,
    /// Unix socket that takes commands, for its owner alone.
    pub control: Option<PathBuf>,
    /// TCP address of the metrics, of this machine.
    pub metrics: Option<SocketAddr>,
}

/// A drive offered to clients.
pub struct Server {
    listeners: Vec<Listener>,
    engine: Engine,
    export: Arc<Export>,
    connections: BTreeMap<u32, Connection>,
    desk: Desk,
    /// Sockets of those who ask about the server.
    windows: Vec<(Listener, Form)>,
    askers: Vec<Asker>,
    /// True once somebody has asked for the end.
    ends: bool,
    /// Most connections at a time; others wait.
    connections_max: usize,
    next_id: u32,
    clock: Clock,
    served: Served,
}

impl Server {
    /// Listens at the addresses of `sockets`; clients are served by [`Server::serve`].
    pub fn bind(
        sockets: &Sockets,
        engine: Engine,
        export: Export,
        desk: Desk,
        connections_max: usize,
    ) -> Result<Self, ServeError> {
        let Sockets { addresses, control, metrics } = sockets;
        let control = control.iter().map(|path| (Address::Unix(path.clone()), Form::Control));
        let metrics = metrics.iter().map(|&address| (Address::Tcp(address), Form::Metrics));
        let window = |(address, form)| Ok((Listener::bind(&address)?, form));
        Ok(Self {
            windows: control.chain(metrics).map(window).collect::<Result<_, ServeError>>()?,
            askers: Vec::new(),
            ends: false,
            desk,
            listeners: addresses.iter().map(Listener::bind).collect::<Result<_, _>>()?,
            engine,
            export: Arc::new(export),
            connections: BTreeMap::new(),
            connections_max,
            next_id: 0,
            clock: Clock::from(SimTime::ZERO),
            served: Served::default(),
        })
    }

    /// Addresses at which it listens.
    pub fn addresses(&self) -> Result<Vec<Address>, ServeError> {
        Ok(self.listeners.iter().map(Listener::address).collect::<Result<_, _>>()?)
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
        self.connections.clear();
        self.engine.settle()?;
        Ok(())
    }

    /// Time since the server began.
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now().as_ns())
    }

    fn turn(&mut self, accepts: bool) -> Result<(), ServeError> {
        let Ready { knocks, clients, asks } = self.wait(accepts)?;
        for at in knocks {
            self.accept(at);
        }
        self.engine.tick();
        for (id, is_cut) in clients {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.receive(is_cut);
                connection.submit(id, &mut self.engine);
            }
        }
        let mut answers = Vec::new();
        loop {
            self.engine.advance(&mut answers);
            self.deliver(&mut answers);
            // Who has taken answers may go on.
            let engine = &mut self.engine;
            let waiting = self.connections.iter_mut().map(|(&id, connection)| {
                connection.send();
                connection.submit(id, engine)
            });
            if waiting.sum::<usize>() == 0 {
                break;
            }
        }
        if asks {
            self.hear();
        }
        let now = self.now();
        self.askers.retain(|asker| !asker.is_over(now));
        self.connections.retain(|_, connection| !connection.is_over(now, HANDSHAKE));
        Ok(())
    }

    /// Answers those who ask about the server.
    fn hear(&mut self) {
        let now = self.now();
        for (listener, form) in &self.windows {
            while self.askers.len() < ASKERS_MAX
                && let Ok(stream) = listener.accept()
            {
                self.askers.push(Asker::new(stream, *form, now));
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
            Then::OtherDrive => self.connections.clear(),
            Then::End => self.ends = true,
        }
    }

    fn deliver(&mut self, answers: &mut Vec<(u64, Result<Vec<u8>, Failed>)>) {
        for (tag, result) in answers.drain(..) {
            // Nobody may be there to hear it.
            if let Some(connection) = self.connections.get_mut(&((tag >> 32) as u32)) {
                connection.answer(tag as u32, result);
            }
        }
    }

    /// Waits for something to do.
    fn wait(&self, accepts: bool) -> Result<Ready, ServeError> {
        let has_room = accepts && self.connections.len() < self.connections_max;
        let listeners = if has_room { &self.listeners[..] } else { &[] };
        let mut fds: Vec<_> = listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        let mut ids = Vec::with_capacity(self.connections.len());
        for (&id, connection) in &self.connections {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !connection.session.is_full());
            flags.set(PollFlags::OUT, connection.session.output_bytes() > 0);
            ids.push(id);
            fds.push(PollFd::new(&connection.stream, flags));
        }
        let connected = fds.len();
        fds.extend(self.windows.iter().map(|(listener, _)| PollFd::new(listener, PollFlags::IN)));
        for asker in &self.askers {
            let flags = if asker.has_output() { PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::new(&asker.stream, flags));
        }
        let due = self.engine.due_in_ns().map_or(LOOK_UP, Duration::from_nanos).min(LOOK_UP);
        let timeout = Timespec { tv_sec: 0, tv_nsec: due.as_nanos() as _ };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (clients, others) = fds.split_at(connected);
        let (listening, connected) = clients.split_at(listeners.len());
        let knocks = (0..).zip(listening).filter(|(_, fd)| is_ready(fd)).map(|(at, _)| at).collect();
        let ready = ids.iter().zip(connected).filter(|(_, fd)| is_ready(fd));
        let is_cut = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let clients = ready.map(|(&id, fd)| (id, is_cut(fd))).collect();
        Ok(Ready { knocks, clients, asks: others.iter().any(is_ready) })
    }

    fn accept(&mut self, at: usize) {
        // A client that has gone again, or too many open files: the next turn sees.
        while self.connections.len() < self.connections_max
            && let Ok(stream) = self.listeners[at].accept()
        {
            let mut connection = Connection::new(stream, Arc::clone(&self.export), self.now());
            connection.send();
            self.connections.insert(self.next_id, connection);
            self.next_id = self.next_id.wrapping_add(1);
            self.served.connections += 1;
            self.served.most = self.served.most.max(self.connections.len());
        }
    }
}
