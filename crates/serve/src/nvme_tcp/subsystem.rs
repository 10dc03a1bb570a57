//! Subsystem: controllers, and commands to connect hosts (NVMe base specification 2.0, chapter 6).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use strobe_nvme::{
    CommandSet, DATA_BYTES_MAX, ENTRIES_MAX, Effect, Entry, Fabrics, Options, Registers, Status,
};

use super::wire::{CAPSULE_DATA_BYTES, half};

/// Name of the discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
pub(super) const CONNECT_BYTES: usize = 1024;
/// Controller identifier that leaves the choice to the subsystem.
const ANY: u16 = 0xffff;
const CONTROLLER_MAX: u16 = 0xffef;
const IO_QUEUES_MAX: u16 = 64;
/// Tolerance after the Keep Alive timeout.
const GRACE: Duration = Duration::from_secs(1);

const CONTROLLER_CONFIGURATION: u32 = 0x14;

/// One host's view of the drive.
pub(super) struct Controller {
    pub(super) commands: CommandSet,
    pub(super) registers: Registers,
    queues: BTreeSet<u16>,
    /// Identifier and name of the host that connected the admin queue.
    host: Vec<u8>,
    /// Server time of the last PDU from the host.
    pub(super) heard: Duration,
}

impl Controller {
    fn is_discovery(&self) -> bool {
        self.commands.options().fabrics.as_ref().is_some_and(|fabrics| fabrics.is_discovery)
    }

    pub(super) fn is_deserted(&self, now: Duration) -> bool {
        let most = Duration::from_millis(self.commands.keep_alive_ms().into());
        !most.is_zero() && now.saturating_sub(self.heard) > most + GRACE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) controller: u16,
    /// Queue number; 0 is the admin queue.
    pub(super) queue: u16,
    pub(super) entries: u32,
    /// True if completions report the submission queue head.
    pub(super) has_flow_control: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PropertySet {
    Done,
    /// The host requests a shutdown, which completes after a flush.
    Flush,
}

/// NVMe subsystem with the drive and its controllers.
pub struct Subsystem {
    nqn: String,
    options: Options,
    io_queues: u16,
    address: Option<SocketAddr>,
    controllers: BTreeMap<u16, Controller>,
    next: u16,
}

impl Subsystem {
    /// Creates a subsystem named `nqn` without controllers. New controllers start with `options`.
    pub fn new(nqn: &str, options: Options) -> Self {
        let nqn = nqn.to_owned();
        let io_queues = IO_QUEUES_MAX;
        Self { nqn, options, io_queues, address: None, controllers: BTreeMap::new(), next: 1 }
    }

    /// NVMe qualified name.
    pub fn nqn(&self) -> &str {
        &self.nqn
    }

    /// Sets the address in the discovery log.
    pub fn set_address(&mut self, address: SocketAddr) {
        self.address = Some(address);
    }

    /// Limits the I/O queues of a controller to the server's maximum of `connections`.
    #[cfg(target_os = "linux")]
    pub(crate) fn set_connections(&mut self, connections: usize) {
        // One connection is the admin queue. There is at least one I/O queue.
        let queues = u16::try_from(connections.saturating_sub(1)).unwrap_or(u16::MAX);
        self.io_queues = queues.clamp(1, IO_QUEUES_MAX);
    }

    /// Number of controllers.
    pub fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// Removes all controllers, which ends their connections.
    pub fn clear(&mut self) {
        self.controllers.clear();
    }

    pub(super) fn get(&mut self, controller: u16) -> Option<&mut Controller> {
        self.controllers.get_mut(&controller)
    }

    pub(super) fn disconnect(&mut self, controller: u16, queue: u16) {
        if queue == 0 {
            self.controllers.remove(&controller);
        } else if let Some(of) = self.controllers.get_mut(&controller) {
            of.queues.remove(&queue);
        }
    }

    /// Connects a queue. An error includes dword 0 of the completion: the offset of the wrong parameter. Bit
    /// 16 marks an offset into the data.
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
        let host = [&data[..16], name(&data[512..768])].concat();
        let asked = half(data, 16);
        if queue == 0 {
            // Dynamic controller model: the subsystem creates controllers on demand, so a host cannot choose
            // one.
            if asked != ANY {
                return Err(wrong(16 | IN_DATA));
            }
            let controller = self.add(wants_discovery, entry.dword(12), host, now).ok_or(wrong(42))?;
            return Ok(Connected { controller, queue, entries, has_flow_control });
        }
        let of = self.controllers.get_mut(&asked).filter(|of| of.is_discovery() == wants_discovery);
        let of = of.ok_or(wrong(16 | IN_DATA))?;
        // Another host would share the controller's commands and keep-alive.
        if of.host != host {
            return Err((Status::CONNECT_HOST, 0));
        }
        if queue > of.commands.options().io_queues || of.is_discovery() || !of.registers.is_ready() {
            return Err(wrong(42));
        }
        // A queue number stays in use until its connection ends.
        if !of.queues.insert(queue) {
            return Err((Status::SEQUENCE_ERROR, 0));
        }
        Ok(Connected { controller: asked, queue, entries, has_flow_control })
    }

    fn add(&mut self, is_discovery: bool, keep_alive_ms: u32, host: Vec<u8>, now: Duration) -> Option<u16> {
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
        self.controllers.insert(id, Controller { commands, registers, queues, host, heard: now });
        Some(id)
    }

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

    /// Returns the part of the discovery log that `entry` requests; `None` for other commands.
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
        // TCP; NVM subsystem; not secured, flow control optional; any controller; 32 admin queue entries.
        entry[..12].copy_from_slice(&[3, family, 2, 0b110, 1, 0, 0xff, 0xff, 32, 0, 0, 0]);
        // Text fields: port and address padded with spaces, and the name.
        let (port, ip) = (format!("{:<32}", address.port()), format!("{:<256}", address.ip().to_string()));
        entry[32..64].copy_from_slice(port.as_bytes());
        entry[256..256 + self.nqn.len()].copy_from_slice(self.nqn.as_bytes());
        entry[512..768].copy_from_slice(ip.as_bytes());
        log.extend(entry);
        log
    }
}

/// Text up to a zero byte.
fn name(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or(&[])
}
