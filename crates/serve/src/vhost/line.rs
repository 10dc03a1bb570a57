use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use strobe_virtio::{GuestMemoryMmap, Inflight, Ring};

#[derive(Debug)]
pub(super) struct Line {
    pub(super) ring: Ring,
    /// Event file on which the guest announces requests.
    pub(super) kick: Option<File>,
    /// Event file that notifies the guest of completions.
    pub(super) call: Option<File>,
    pub(super) is_placed: bool,
    pub(super) is_enabled: bool,
    pub(super) in_flight: usize,
    /// Heads of requests left in flight by an earlier server process, oldest first.
    pub(super) again: Vec<u16>,
    /// True if the ring was started with the in-flight memory.
    pub(super) is_recovered: bool,
    /// True if the ring may hold requests that the guest has already announced.
    pub(super) is_pending: bool,
    /// True if the guest needs a notification of completions.
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

    pub(super) fn is_running(&self) -> bool {
        self.kick.is_some() && self.is_placed && self.is_enabled
    }

    /// True if the ring may hold a request and can take one more.
    pub(super) fn can_take(&self) -> bool {
        let has_more = self.is_pending || !self.again.is_empty();
        self.is_running() && has_more && self.in_flight < self.ring.size().into()
    }

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
        // Entries from `used` on are either in `again` or were never taken. The ring continues after those in
        // `again`.
        self.ring.resume(used, self.again.len() as u16);
        // The old process may have ended before it notified the guest of completions.
        (self.is_recovered, self.is_to_tell) = (true, true);
        Ok(())
    }

    pub(super) fn kicked(&mut self) -> Result<(), String> {
        let Some(kick) = &mut self.kick else { return Ok(()) };
        match kick.read(&mut [0; 8]) {
            Ok(8) => self.is_pending = true,
            Ok(_) => return Err("the guest's notification file is not an event file descriptor".to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(format!("the guest's notification file: {error}")),
        }
        Ok(())
    }

    pub(super) fn tell(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_to_tell) {
            return Ok(());
        }
        match self.call.as_mut().map(|call| call.write_all(&1_u64.to_ne_bytes())) {
            None | Some(Ok(())) => Ok(()),
            // The event counter is full, so the guest has a notification anyway.
            Some(Err(error)) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Some(Err(error)) => Err(format!("cannot notify the guest of completions: {error}")),
        }
    }
}

// Makes an event file non-blocking: a read without an event must not stop the server.
pub(super) fn patient(file: OwnedFd) -> Result<File, String> {
    let flags = fcntl_getfl(&file).map_err(|error| error.to_string())?;
    fcntl_setfl(&file, flags | OFlags::NONBLOCK).map_err(|error| error.to_string())?;
    Ok(File::from(file))
}
