//! One ring of a device with its two files.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use strobe_virtio::{GuestMemoryMmap, Inflight, Ring};

/// A ring, and how guest and device tell each other about it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) ring: Ring,
    /// File by which the guest says that requests wait.
    pub(super) kick: Option<File>,
    /// File by which it is told of completions.
    pub(super) call: Option<File>,
    pub(super) is_placed: bool,
    pub(super) is_enabled: bool,
    /// Requests without an answer.
    pub(super) in_flight: usize,
    /// First descriptors of requests that were in flight in another process, oldest first.
    pub(super) again: Vec<u16>,
    /// True if it was started with the memory for requests in flight.
    pub(super) is_recovered: bool,
    /// True if requests may wait of which the guest will not speak again.
    pub(super) is_pending: bool,
    /// True if the guest is to be told of completions.
    pub(super) is_to_tell: bool,
}

impl Line {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self {
            ring: Ring::new()?,
            kick: None,
            call: None,
            is_placed: false,
            is_enabled: false,
            in_flight: 0,
            again: Vec::new(),
            is_recovered: false,
            is_pending: false,
            is_to_tell: false,
        })
    }

    /// True if requests are taken from it.
    pub(super) fn is_running(&self) -> bool {
        self.kick.is_some() && self.is_placed && self.is_enabled
    }

    /// True if a request may wait that can be taken.
    pub(super) fn can_take(&self) -> bool {
        let has_more = self.is_pending || !self.again.is_empty();
        self.is_running() && has_more && self.in_flight < self.ring.size().into()
    }

    /// Finds requests that were in flight in another process when the ring starts, the one with the number
    /// `at`.
    pub(super) fn recover(
        &mut self,
        at: usize,
        inflight: &mut Inflight,
        memory: &GuestMemoryMmap,
    ) -> Result<(), String> {
        if self.is_recovered || !inflight.has(at) {
            return Ok(());
        }
        let used = self.ring.used(memory)?;
        self.again = inflight.recover(at, used, self.ring.size())?;
        self.ring.resume(used, self.again.len() as u16);
        // The process before may have ended before it told the guest of completions.
        (self.is_recovered, self.is_to_tell) = (true, true);
        Ok(())
    }

    /// Takes the guest's signal.
    pub(super) fn kicked(&mut self) -> Result<(), String> {
        let Some(kick) = &mut self.kick else { return Ok(()) };
        match kick.read(&mut [0; 8]) {
            Ok(8) => self.is_pending = true,
            Ok(_) => return Err("the guest's signal is no event file descriptor".to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(format!("the guest's signal: {error}")),
        }
        Ok(())
    }

    /// Tells the guest of completions, if it wants to know.
    pub(super) fn tell(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_to_tell) {
            return Ok(());
        }
        match self.call.as_mut().map(|call| call.write_all(&1_u64.to_ne_bytes())) {
            None | Some(Ok(())) => Ok(()),
            // The guest has not looked at billions of earlier signals.
            Some(Err(error)) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Some(Err(error)) => Err(format!("the guest cannot be told of completions: {error}")),
        }
    }
}

/// `file` so that nobody waits for it.
pub(super) fn patient(file: OwnedFd) -> Result<File, String> {
    let flags = fcntl_getfl(&file).map_err(|error| error.to_string())?;
    fcntl_setfl(&file, flags | OFlags::NONBLOCK).map_err(|error| error.to_string())?;
    Ok(File::from(file))
}
