use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use strobe_virtio::message::{self, Request};
use strobe_virtio::{Chain, GuestMemoryMmap, Memory, Received, Receiver, Returned, Ring};

use crate::LinuxError;
use crate::link::gone;

/// Timeout of a read of an interrupt's acknowledgement; then other messages of the guest are served.
const ACK_TIMEOUT: Duration = Duration::from_millis(10);

pub(crate) trait Device {
    fn rings(&self) -> usize;
    fn offered_features(&self) -> u64;
    fn set_features(&mut self, features: u64);
    /// True if notifications are suppressed by event indexes.
    fn uses_event_index(&self) -> bool;
    fn config_space(&self) -> Vec<u8>;
    fn set_config(&mut self, offset: u32, bytes: &[u8]);
    /// Takes a request. An error if the guest violates the protocol.
    fn take(
        &mut self,
        ring: usize,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        chain: Chain<'_>,
    ) -> Result<(), String>;
    /// Completions due before the kick is acknowledged.
    fn answered(&mut self) -> Vec<Returned> {
        Vec::new()
    }
    fn next_event(&self) -> Option<u64>;
    /// Advances to `guest_ns` and returns the completions. Without `memory` they are dropped.
    fn advance(&mut self, guest_ns: u64, memory: Option<&GuestMemoryMmap>) -> Result<Vec<Returned>, String>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    /// A ring has requests to take before the answer.
    Kick {
        ring: u32,
        needs_reply: bool,
    },
    Gone,
}

pub(crate) struct Port {
    socket: UnixListener,
    link: Option<UnixStream>,
    receiver: Receiver,
    pub(crate) backend: Option<UnixStream>,
    memory: Memory,
    rings: Vec<Ring>,
}

impl Port {
    pub(crate) fn new(socket: UnixListener, rings: usize) -> Result<Self, LinuxError> {
        let rings =
            (0..rings).map(|_| Ring::new()).collect::<Result<_, _>>().map_err(LinuxError::Protocol)?;
        Ok(Self {
            socket,
            link: None,
            receiver: Receiver::default(),
            backend: None,
            memory: Memory::default(),
            rings,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.link.as_ref().map_or(self.socket.as_fd(), AsFd::as_fd)
    }

    fn ring(&mut self, index: u32) -> Result<&mut Ring, LinuxError> {
        let rings = self.rings.len();
        let ring = self.rings.get_mut(index as usize);
        ring.ok_or_else(|| LinuxError::Protocol(format!("ring {index} of a device that has {rings}")))
    }

    /// Handles one message. For a kick, the session calls [`take_all`](Self::take_all) and
    /// [`acknowledge_kick`](Self::acknowledge_kick).
    pub(crate) fn serve(&mut self, device: &mut dyn Device) -> Result<Heard, LinuxError> {
        let Some(link) = &mut self.link else {
            self.link = Some(self.socket.accept()?.0);
            return Ok(Heard::Nothing);
        };
        // A message may be read in parts. The guest sends whole messages and waits for the answers.
        let (header, payload, files) = loop {
            match self.receiver.receive(&*link)? {
                Received::Message(message) => break message,
                Received::Part => {}
                Received::Closed => return Ok(Heard::Gone),
                Received::Broken(what) => return Err(LinuxError::Protocol(what)),
            }
        };
        let request = Request::parse(header.request, &payload).map_err(LinuxError::Protocol)?;
        let mut answer = None;
        match request {
            Request::GetFeatures => answer = Some(device.offered_features() | message::F_PROTOCOL_FEATURES),
            Request::GetProtocolFeatures => answer = Some(message::protocol::VIRTUAL_TIME),
            Request::SetFeatures(features) => device.set_features(features),
            Request::SetOwner => {}
            Request::SetProtocolFeatures(features) => {
                if features & message::protocol::VIRTUAL_TIME != message::protocol::VIRTUAL_TIME {
                    let what = format!("its vhost-user driver lacks features ({features:#x})");
                    return Err(LinuxError::Protocol(what));
                }
            }
            Request::SetMemory(regions) => self.memory.map(regions, files).map_err(LinuxError::Protocol)?,
            request @ (Request::SetVringSize { .. }
            | Request::SetVringAddress { .. }
            | Request::SetVringBase { .. }
            | Request::EnableVring { .. }) => self.set_ring(request, device.uses_event_index())?,
            Request::SetBackendChannel => {
                let Some(file) = files.into_iter().next() else {
                    return Err(LinuxError::Protocol("a channel for interrupts without a file".into()));
                };
                let backend = UnixStream::from(file);
                backend.set_read_timeout(Some(ACK_TIMEOUT))?;
                self.backend = Some(backend);
            }
            Request::GetConfig { message, .. } => {
                self.answer(&message::config_reply(&message, &device.config_space()))?;
                return Ok(Heard::Nothing);
            }
            Request::SetConfig { offset, bytes } => device.set_config(offset, &bytes),
            Request::GetVringBase(_)
            | Request::SetVringKick { .. }
            | Request::SetVringCall { .. }
            | Request::SetVringError
            | Request::GetQueueCount
            | Request::GetInflight(_)
            | Request::SetInflight(_) => {
                let what = format!("vhost-user message {} is not supported in virtual time", header.request);
                return Err(LinuxError::Protocol(what));
            }
            Request::Kick(ring) => {
                self.ring(ring)?;
                return Ok(Heard::Kick { ring, needs_reply: header.needs_reply });
            }
        }
        match (answer, header.needs_reply) {
            (Some(answer), _) => self.answer(&message::reply(header.request, &answer.to_le_bytes()))?,
            (None, true) => self.answer(&message::reply(header.request, &0_u64.to_le_bytes()))?,
            (None, false) => {}
        }
        Ok(Heard::Nothing)
    }

    fn set_ring(&mut self, request: Request, event_index: bool) -> Result<(), LinuxError> {
        match request {
            Request::SetVringSize { index, size } => {
                self.ring(index)?.set_size(size).map_err(LinuxError::Protocol)?;
            }
            Request::SetVringAddress { index, descriptors, used, available } => {
                self.ring(index)?;
                let ring = &mut self.rings[index as usize];
                let set = ring.set_addresses(&self.memory, [descriptors, used, available]);
                set.map_err(LinuxError::Protocol)?;
            }
            Request::SetVringBase { index, base } => self.ring(index)?.set_base(base),
            Request::EnableVring { index, enable } => self.ring(index)?.enable(enable, event_index),
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self, message: &[u8]) -> Result<(), LinuxError> {
        match &mut self.link {
            Some(link) => link.write_all(message).map_err(gone),
            None => Ok(()),
        }
    }

    pub(crate) fn take_all(
        &mut self,
        device: &mut dyn Device,
        ring: u32,
        guest_ns: u64,
    ) -> Result<(), LinuxError> {
        let at = ring as usize;
        self.ring(ring)?;
        let taken = self.rings[at].take_all(&self.memory, &mut |memory, chain| {
            device.take(at, guest_ns, memory, chain).map(|()| true)
        });
        taken.map(drop).map_err(LinuxError::Protocol)
    }

    /// Returns completions that the guest polls for, so no notification is needed.
    pub(crate) fn answer_at_once(&mut self, device: &mut dyn Device) -> Result<(), LinuxError> {
        let Some(memory) = self.memory.mapped() else { return Ok(()) };
        for returned in device.answered() {
            let ring = self.rings.get_mut(returned.ring);
            let ring = ring.ok_or_else(|| LinuxError::Protocol("a request of a missing ring".into()))?;
            ring.give_back(memory, returned).map_err(LinuxError::Protocol)?;
        }
        Ok(())
    }

    pub(crate) fn acknowledge_kick(&mut self) -> Result<(), LinuxError> {
        self.answer(&message::reply(message::KICK, &0_u64.to_le_bytes()))
    }

    pub(crate) fn give_back(&mut self, device: &mut dyn Device, guest_ns: u64) -> Result<Vec<u32>, String> {
        let mut tell = Vec::new();
        let done = device.advance(guest_ns, self.memory.mapped())?;
        let Some(memory) = self.memory.mapped() else { return Ok(tell) };
        for returned in done {
            let ring = self.rings.get_mut(returned.ring).ok_or("a request of a missing ring")?;
            let index = returned.ring as u32;
            if ring.give_back(memory, returned)? && !tell.contains(&index) {
                tell.push(index);
            }
        }
        Ok(tell)
    }
}
