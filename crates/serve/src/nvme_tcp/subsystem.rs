//! The subsystem: its controllers, and the commands by which hosts connect (NVMe base specification 2.0, chapter 6).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use strobe_nvme::{
    CommandSet, DATA_BYTES_MAX, ENTRIES_MAX, Effect, Entry, Fabrics, Options, Registers, Status,
};

use super::wire::{CAPSULE_DATA_BYTES, half};

/// Name of the subsystem in which every target lists its others.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Length of the data of Connect.
pub(super) const CONNECT_BYTES: usize = 1024;
/// Identifier by which a host leaves the choice to the subsystem.
const ANY: u16 = 0xffff;
/// Highest controller identifier that is given.
const CONTROLLER_MAX: u16 = 0xffef;
/// Most I/O queues of a controller.
const IO_QUEUES_MAX: u16 = 64;
/// Time beyond that of Keep Alive before a host counts as gone.
const GRACE: Duration = Duration::from_secs(1);

const CONTROLLER_CONFIGURATION: u32 = 0x14;

/// A controller: a host's view of the drive.
pub(super) struct Controller {
    pub(super) commands: CommandSet,
    pub(super) registers: Registers,
    /// I/O queues that are connected.
    queues: BTreeSet<u16>,
    /// Time of the server at which its host was last heard of.
    pub(super) heard: Duration,
}

impl Controller {
    fn is_discovery(&self) -> bool {
        self.commands.options().fabrics.as_ref().is_some_and(|fabrics| fabrics.is_discovery)
    }

    /// True if its host has been silent for longer than it promised.
    pub(super) fn is_deserted(&self, now: Duration) -> bool {
        let most = Duration::from_millis(self.commands.keep_alive_ms().into());
        !most.is_zero() && now.saturating_sub(self.heard) > most + GRACE
    }
}

/// A queue as Connect asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) controller: u16,
    /// Number of the queue; 0: for administration.
    pub(super) queue: u16,
    pub(super) entries: u32,
    /// True if completions say how far the queue is consumed.
    pub(super) has_flow_control: bool,
}

/// Outcome of a property being set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PropertySet {
    Done,
    /// The data is to be made durable first.
    Flush,
}

/// The drive's name among hosts, and its controllers.
pub struct Subsystem {
    nqn: String,
    options: Options,
    /// I/O queues of a controller.
    io_queues: u16,
    /// Address that the discovery log names.
    address: Option<SocketAddr>,
    controllers: BTreeMap<u16, Controller>,
    next: u16,
}

impl Subsystem {
    /// A subsystem named `nqn` with no controllers, of which each begins with `options`.
    pub fn new(nqn: &str, options: Options) -> Self {
        let nqn = nqn.to_owned();
        let io_queues = IO_QUEUES_MAX;
        Self { nqn, options, io_queues, address: None, controllers: BTreeMap::new(), next: 1 }
    }

    /// NVMe qualified name.
    pub fn nqn(&self) -> &str {
        &self.nqn
    }

    /// Says in the discovery log that hosts connect at `address`.
    pub fn set_address(&mut self, address: SocketAddr) {
        self.address = Some(address);
    }

    /// Gives a controller no more queues than a host can connect, of `connections` that the server takes.
    #[cfg(target_os = "linux")]
    pub(crate) fn set_connections(&mut self, connections: usize) {
        // One is for the admin queue; the number of I/O queues is at least 1.
        let queues = u16::try_from(connections.saturating_sub(1)).unwrap_or(u16::MAX);
        self.io_queues = queues.clamp(1, IO_QUEUES_MAX);
    }

    /// Number of controllers.
    pub fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// Forgets all controllers: their connections end.
    pub fn clear(&mut self) {
        self.controllers.clear();
    }

    pub(super) fn get(&mut self, controller: u16) -> Option<&mut Controller> {
        self.controllers.get_mut(&controller)
    }

    /// The connection of a queue is closed: the controller of an admin queue ends with it.
    pub(super) fn disconnect(&mut self, controller: u16, queue: u16) {
        if queue == 0 {
            self.controllers.remove(&controller);
        } else if let Some(of) = self.controllers.get_mut(&controller) {
            of.queues.remove(&queue);
        }
    }

    /// Connects a queue, of a new controller if it is an admin queue. The error has dword 0 of the completion: the offset
    /// of the wrong parameter, and bit 16 if it is in the data.
    pub(super) fn connect(
        &mut self,
        entry: &Entry,
        data: &[u8],
        now: Duration,
    ) -> Result<Connected, (Status, u32)> {
        const IN_DATA: u32 = 1 << 16;
        let wrong = |at: u32| (Status::CONNECT_PARAMETERS, at);
        if half(&entry.0, 40) != 0 {
            return Err((Status::CONNECT_FORMAT, 0));
        }
        let (queue, entries) = (half(&entry.0, 42), u32::from(half(&entry.0, 44)) + 1);
        let wants_discovery = match name(&data[256..512]) {
            named if named == self.nqn.as_bytes() => false,
            named if named == DISCOVERY_NQN.as_bytes() => true,
            _ => return Err(wrong(256 | IN_DATA)),
        };
        if !(2..=ENTRIES_MAX).contains(&entries) {
            return Err(wrong(44));
        }
        let has_flow_control = entry.0[46] & 4 == 0;
        let asked = half(data, 16);
        if queue == 0 {
            if asked != ANY {
                return Err(wrong(16 | IN_DATA));
            }
            let controller = self.add(wants_discovery, entry.dword(12), now).ok_or(wrong(42))?;
            return Ok(Connected { controller, queue, entries, has_flow_control });
        }
        let of = self.controllers.get_mut(&asked).filter(|of| of.is_discovery() == wants_discovery);
        let of = of.ok_or(wrong(16 | IN_DATA))?;
        if queue > of.commands.options().io_queues || of.is_discovery() || !of.registers.is_ready() {
            return Err(wrong(42));
        }
        if !of.queues.insert(queue) {
            return Err((Status::SEQUENCE_ERROR, 0));
        }
        Ok(Connected { controller: asked, queue, entries, has_flow_control })
    }

    fn add(&mut self, is_discovery: bool, keep_alive_ms: u32, now: Duration) -> Option<u16> {
        let used = |id: &u16| !self.controllers.contains_key(id);
        let id = (self.next..=CONTROLLER_MAX).chain(1..self.next).find(used)?;
        self.next = if id == CONTROLLER_MAX { 1 } else { id + 1 };
        let subsystem = if is_discovery { DISCOVERY_NQN } else { &self.nqn };
        let fabrics = Fabrics {
            controller: id,
            subsystem: subsystem.to_owned(),
            capsule_data_bytes: CAPSULE_DATA_BYTES,
            is_discovery,
        };
        let options = Options { fabrics: Some(fabrics), io_queues: self.io_queues, ..self.options.clone() };
        let mut commands = CommandSet::new(options);
        commands.set_keep_alive_ms(keep_alive_ms);
        let (registers, queues) = (Registers::default(), BTreeSet::new());
        self.controllers.insert(id, Controller { commands, registers, queues, heard: now });
        Some(id)
    }

    /// Value of the property that `entry` names.
    pub(super) fn property(&self, controller: u16, entry: &Entry) -> Result<u64, Status> {
        let of = self.controllers.get(&controller).ok_or(Status::SEQUENCE_ERROR)?;
        let bytes = match entry.0[40] & 7 {
            0 => 4,
            1 => 8,
            _ => return Err(Status::INVALID_FIELD),
        };
        let value = of.registers.read(entry.dword(11).into(), bytes);
        Ok(value.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
    }

    /// Sets the property that `entry` names.
    pub(super) fn set_property(&mut self, controller: u16, entry: &Entry) -> Result<PropertySet, Status> {
        let of = self.controllers.get_mut(&controller).ok_or(Status::SEQUENCE_ERROR)?;
        if entry.0[40] & 7 != 0 || entry.dword(11) != CONTROLLER_CONFIGURATION {
            return Err(Status::INVALID_FIELD);
        }
        match of.registers.write(CONTROLLER_CONFIGURATION.into(), entry.dword(12)) {
            Effect::Enable => of.registers.set_ready(),
            Effect::Reset => {
                of.commands.reset();
                of.queues.clear();
            }
            Effect::Shutdown => return Ok(PropertySet::Flush),
            Effect::Nothing | Effect::Submission { .. } | Effect::Completion { .. } => {}
        }
        Ok(PropertySet::Done)
    }

    /// The part of the discovery log that `entry` asks for; `None` if it asks for something else.
    pub(super) fn discovery_log(&self, controller: u16, entry: &Entry) -> Option<Result<Vec<u8>, Status>> {
        let of = self.controllers.get(&controller)?;
        if !of.is_discovery() || entry.opcode() != 0x02 || entry.dword(10) as u8 != 0x70 {
            return None;
        }
        let dwords = u64::from(entry.dword(10) >> 16 | entry.dword(11) << 16) + 1;
        let bytes = usize::try_from(4 * dwords).unwrap_or(usize::MAX);
        let from = usize::try_from(entry.qword(12)).unwrap_or(usize::MAX);
        let log = self.log();
        let part = log.get(from..).filter(|_| bytes <= DATA_BYTES_MAX && from.is_multiple_of(4));
        Some(part.ok_or(Status::INVALID_FIELD).map(|part| {
            let mut part = part.to_vec();
            part.resize(bytes, 0);
            part
        }))
    }

    /// Discovery log: a header, and an entry for the subsystem if its address is known.
    fn log(&self) -> Vec<u8> {
        let mut log = vec![0; 1024];
        log[0] = 1;
        let Some(address) = self.address else { return log };
        log[8] = 1;
        let mut entry = vec![0; 1024];
        let family = if address.is_ipv4() { 1 } else { 2 };
        // TCP; an NVM subsystem; not secured, flow control may be turned off; any controller; 32 entries of the admin queue.
        entry[..12].copy_from_slice(&[3, family, 2, 0b110, 1, 0, 0xff, 0xff, 32, 0, 0, 0]);
        // Fields of text: the port, padded with spaces; the name; the address, padded with spaces.
        let (port, ip) = (format!("{:<32}", address.port()), format!("{:<256}", address.ip().to_string()));
        entry[32..64].copy_from_slice(port.as_bytes());
        entry[256..256 + self.nqn.len()].copy_from_slice(self.nqn.as_bytes());
        entry[512..768].copy_from_slice(ip.as_bytes());
        log.extend(entry);
        log
    }
}

/// Text that ends with a zero byte.
fn name(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or(&[])
}
