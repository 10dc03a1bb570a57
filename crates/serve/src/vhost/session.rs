use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use strobe_ssd::{Command, CommandError, Simulated};
use strobe_virtio::message::{self, InflightArea, Request, protocol};
use strobe_virtio::{Block, BlockOptions, Chain, GuestMemoryMmap, Host, Inflight, Memory, Message};

use super::line::{Line, patient};
use crate::engine::Engine;
use crate::session::{Buffers, Session as _};

/// Maximum rings of a device.
pub const RINGS: u16 = 64;
/// Maximum in-flight requests.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Data bytes of in-flight requests above which no request is taken.
pub const OWED_BYTES_MAX: usize = 32 << 20;
/// Bytes of unsent answers at which no further message is handled.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;
const REQUEST_BYTES_MAX: usize = 32 << 20;
const OFFERED: u64 = protocol::MQ | protocol::REPLY_ACK | protocol::CONFIG | protocol::INFLIGHT;

/// Connection of a guest.
#[derive(Debug)]
pub struct Session {
    buffers: Buffers,
    is_owned: bool,
    memory: Memory,
    lines: Vec<Line>,
    block: Block,
    inflight: Option<Inflight>,
    file: Option<OwnedFd>,
    last_slot: u32,
}

struct To<'a> {
    engine: &'a mut Engine,
    id: u32,
    is_forced: bool,
}

impl To<'_> {
    fn tag(&self, slot: u64) -> u64 {
        u64::from(self.id) << 32 | slot
    }
}

impl Host for To<'_> {
    fn send(&mut self, slot: u64, commands: &[Command<'_>], data: Option<&[u8]>) {
        // A write carries FUA itself. Trim and Write Zeroes need a flush after them.
        let leaves_holes =
            matches!(commands.first(), Some(Command::Deallocate(_) | Command::WriteZeroes { .. }));
        self.engine.send(self.tag(slot), commands, data, self.is_forced && leaves_holes);
    }

    fn answer(&mut self, slot: u64, result: Result<Vec<u8>, CommandError>) {
        self.engine.answer(self.tag(slot), result);
    }
}

impl crate::session::Session for Session {
    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    fn is_ready(&self) -> bool {
        self.is_owned
    }

    fn is_busy(&self) -> bool {
        self.output_bytes() >= OUTPUT_BYTES_MAX
    }

    fn in_flight(&self) -> usize {
        self.block.in_flight()
    }

    fn sent(&mut self, count: usize) {
        if count > 0 {
            self.file = None;
        }
        self.buffers.output.consume(count);
    }
}

impl Session {
    /// Creates a session for an accepted connection. Fails if the rings cannot be created.
    pub fn new(read_only: bool) -> Result<Self, String> {
        let options =
            BlockOptions { rings: RINGS, read_only, bytes_max: REQUEST_BYTES_MAX, ..BlockOptions::default() };
        Ok(Self {
            buffers: Buffers::default(),
            is_owned: false,
            memory: Memory::default(),
            lines: (0..RINGS).map(|_| Line::new()).collect::<Result<_, _>>()?,
            block: Block::new(options),
            inflight: None,
            file: None,
            last_slot: 0,
        })
    }

    /// File to send with the first byte of the output.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd)
    }

    /// True if a ring may hold requests that were already announced and can be taken.
    pub fn has_pending(&self) -> bool {
        !self.has_ended() && has_space(&self.block) && self.lines.iter().any(Line::can_take)
    }

    /// Event files on which the guest announces requests, with ring numbers.
    pub fn kicks(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        let lines = self.lines.iter().enumerate();
        lines.filter_map(|(at, line)| Some((at, line.kick.as_ref()?.as_fd()))).collect()
    }

    /// Handles a notification of `ring`.
    pub fn kicked(&mut self, ring: usize) -> Result<(), String> {
        self.lines.get_mut(ring).map_or(Ok(()), Line::kicked)
    }

    fn line(&mut self, index: u32) -> Result<&mut Line, String> {
        let line = self.lines.get_mut(index as usize);
        line.ok_or_else(|| format!("ring {index} of a device that has {RINGS}"))
    }

    /// Handles a message. Returns the message if it must wait for drive answers, or until output is sent.
    pub fn hear(&mut self, message: Message, drive: &dyn Simulated) -> Result<Option<Message>, String> {
        let (header, payload, files) = message;
        let mut answer = None;
        let long = |value: u64| Some(message::reply(header.request, &value.to_le_bytes()));
        match Request::parse(header.request, &payload)? {
            Request::GetFeatures => {
                answer = long(self.block.offered_features() | message::F_PROTOCOL_FEATURES);
            }
            Request::SetFeatures(features) => {
                self.block.set_features(features);
                // Without protocol features, the front-end never enables a ring, so each ring starts enabled.
                let is_enabled = features & message::F_PROTOCOL_FEATURES == 0;
                self.lines.iter_mut().for_each(|line| line.is_enabled |= is_enabled);
            }
            Request::SetOwner => self.is_owned = true,
            Request::GetProtocolFeatures => answer = long(OFFERED),
            Request::SetProtocolFeatures(features) if features & !OFFERED != 0 => {
                return Err(format!("protocol features {features:#x} set, but only {OFFERED:#x} offered"));
            }
            Request::SetProtocolFeatures(_) | Request::SetVringError => {}
            Request::GetQueueCount => answer = long(RINGS.into()),
            Request::SetMemory(regions) => self.memory.map(regions, files)?,
            Request::GetConfig { message, .. } => {
                answer = Some(message::config_reply(&message, &self.block.config_space(drive)));
            }
            Request::SetConfig { offset, bytes } => {
                self.block.set_config(offset, &bytes);
                self.store_write_cache()?;
            }
            // The file must be sent with the first byte of its answer, so earlier output goes first.
            Request::GetInflight(_) if self.output_bytes() > 0 => return Ok(Some((header, payload, files))),
            Request::GetInflight(area) => {
                let (file, area) = Inflight::create(area, RINGS)?;
                self.file = Some(file);
                answer = Some(message::inflight_reply(area, payload.len()));
            }
            Request::SetInflight(area) => self.set_inflight(area, files.into_iter().next())?,
            Request::GetVringBase(index) => {
                let line = self.line(index)?;
                // The ring stops now. The index of its next entry is final when no request is in flight.
                line.kick = None;
                if line.in_flight > 0 {
                    return Ok(Some((header, payload, Vec::new())));
                }
                answer = Some(message::base_reply(index, line.ring.base()));
            }
            Request::SetBackendChannel | Request::Kick(_) => {
                return Err(format!("vhost-user message {}, whose feature was not offered", header.request));
            }
            request => self.set_ring(request, files.into_iter().next())?,
        }
        self.start_rings()?;
        match answer {
            Some(answer) => self.buffers.output.add(|out| out.extend(answer)),
            None if header.needs_reply => {
                let done = message::reply(header.request, &0_u64.to_le_bytes());
                self.buffers.output.add(|out| out.extend(done));
            }
            None => {}
        }
        Ok(None)
    }

    fn set_inflight(&mut self, area: InflightArea, file: Option<OwnedFd>) -> Result<(), String> {
        if self.lines.iter().any(|line| line.is_running() || line.in_flight > 0) {
            return Err("memory for in-flight requests of running rings".to_owned());
        }
        let file = file.ok_or("memory for in-flight requests without its file")?;
        // The memory may come from an earlier server process, with requests in flight.
        let inflight = Inflight::open(file, area, RINGS)?;
        // The guest does not repeat its choice of the write cache to a new process.
        if inflight.is_write_through()? {
            self.block.set_write_cache(false);
        }
        self.inflight = Some(inflight);
        self.lines.iter_mut().for_each(|line| line.is_recovered = false);
        self.store_write_cache()
    }

    fn store_write_cache(&self) -> Result<(), String> {
        let inflight = self.inflight.as_ref();
        inflight.map_or(Ok(()), |inflight| inflight.set_write_through(!self.block.has_write_cache()))
    }

    fn set_ring(&mut self, request: Request, file: Option<std::os::fd::OwnedFd>) -> Result<(), String> {
        let file_of = |index: u32| {
            let file = file.ok_or_else(|| format!("the file for ring {index} is missing"));
            file.and_then(patient)
        };
        match request {
            Request::SetVringSize { index, size } => self.line(index)?.ring.set_size(size),
            Request::SetVringAddress { index, descriptors, used, available } => {
                self.line(index)?;
                let line = &mut self.lines[index as usize];
                line.is_placed = true;
                line.ring.set_addresses(&self.memory, [descriptors, used, available])
            }
            Request::SetVringBase { index, base } => {
                self.line(index)?.ring.set_base(base);
                Ok(())
            }
            Request::SetVringKick { index, has_file: false } => {
                Err(format!("ring {index} requires polling, which this device does not support"))
            }
            Request::SetVringKick { index, .. } => {
                self.line(index)?.kick = Some(file_of(index)?);
                Ok(())
            }
            Request::SetVringCall { index, has_file } => {
                let has_inflight = self.inflight.is_some();
                let line = self.line(index)?;
                line.call = has_file.then(|| file_of(index)).transpose()?;
                // If the server was restarted, the guest may have missed a notification.
                line.is_to_tell |= has_inflight;
                Ok(())
            }
            Request::EnableVring { index, enable } => {
                self.line(index)?.is_enabled = enable;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Starts rings whose set-up is complete, and stops the others.
    fn start_rings(&mut self) -> Result<(), String> {
        let event_index = self.block.uses_event_index();
        let Self { lines, memory, inflight, .. } = self;
        for (at, line) in lines.iter_mut().enumerate() {
            let is_running = line.is_running() && memory.mapped().is_some();
            line.ring.enable(is_running, event_index);
            line.is_pending = is_running;
            match (memory.mapped(), &mut *inflight) {
                (Some(memory), Some(inflight)) if is_running => line.recover(at, inflight, memory)?,
                _ => line.is_recovered &= is_running,
            }
        }
        Ok(())
    }

    /// Takes waiting requests and submits them to `engine`, with tags of connection `id`. Returns their number.
    pub fn take(&mut self, id: u32, engine: &mut Engine) -> Result<usize, String> {
        let Self { lines, memory, block, inflight, last_slot, .. } = self;
        let mut count = 0;
        for (at, line) in lines.iter_mut().enumerate() {
            if !line.can_take() || !has_space(block) {
                continue;
            }
            let Line { ring, in_flight, again, is_pending, .. } = line;
            let most = usize::from(ring.size());
            let mut take = |memory: &GuestMemoryMmap, chain: Chain<'_>| {
                // Slots count up. After the counter wraps, slots that are still in use are skipped.
                let slot = loop {
                    *last_slot = last_slot.wrapping_add(1);
                    if !block.is_used((*last_slot).into()) {
                        break *last_slot;
                    }
                };
                if let Some(inflight) = inflight.as_mut().filter(|inflight| inflight.has(at)) {
                    inflight.take(at, chain.head_index())?;
                }
                let mut to = To { engine: &mut *engine, id, is_forced: block.is_forced() };
                block.take(at, memory, chain, slot.into(), &mut to)?;
                *in_flight += 1;
                count += 1;
                Ok(*in_flight < most && has_space(block))
            };
            // Requests left in flight by an earlier server process come before newer ones.
            let (taken, has_space) =
                if again.is_empty() { (0, true) } else { ring.take_again(memory, again, &mut take)? };
            again.drain(..taken);
            if has_space {
                *is_pending = !ring.take_all(memory, &mut take)?;
            }
        }
        Ok(count)
    }

    /// Writes the answer to the request in `slot` to the guest's memory.
    pub fn finish(&mut self, slot: u32, result: Result<Vec<u8>, CommandError>) -> Result<(), String> {
        let Some(memory) = self.memory.mapped() else { return Ok(()) };
        let Some(returned) = self.block.finish(slot.into(), result, Some(memory)) else { return Ok(()) };
        let returned = returned?;
        let line = &mut self.lines[returned.ring];
        line.in_flight -= 1;
        // A crash may come between any two of the next steps: record the head, add the used entry, clear the
        // record.
        let inflight = self.inflight.as_ref().filter(|inflight| inflight.has(returned.ring));
        if let Some(inflight) = inflight {
            inflight.begin_return(returned.ring, returned.head)?;
        }
        line.is_to_tell |= line.ring.give_back(memory, returned)?;
        match inflight {
            Some(inflight) => inflight.end_return(returned.ring, returned.head, line.ring.next_used()),
            None => Ok(()),
        }
    }

    /// Notifies the guest of completions.
    pub fn tell(&mut self) -> Result<(), String> {
        self.lines.iter_mut().try_for_each(Line::tell)
    }
}

fn has_space(block: &Block) -> bool {
    block.in_flight() < IN_FLIGHT_MAX && block.owed_bytes() <= OWED_BYTES_MAX
}
