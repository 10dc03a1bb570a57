use strobe_ssd::{Command, CommandError, Simulated};
use strobe_types::{SECTOR_BYTES, SimTime};

use crate::admin::Admin;
use crate::begun::Begun;
use crate::entry::{Entry, Status};
use crate::io::{self, Work};
use crate::options::Options;
use crate::placement::Managed;

/// Kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Admin queue.
    Admin,
    /// I/O queue.
    Io,
}

/// Step that follows the drive's answer.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// No further step.
    Nothing,
    /// Send this many bytes to the host.
    Data(usize),
    /// Compare the data with these bytes.
    Compare(Vec<u8>),
    /// Move these placement handles to empty reclaim units.
    Update(Vec<u16>),
}

/// Command processor of one controller, with the features that its host has set.
pub struct CommandSet {
    options: Options,
    admin: Admin,
}

impl CommandSet {
    /// Creates a command set in its state after reset.
    pub fn new(options: Options) -> Self {
        Self { admin: Admin::new(&options), options }
    }

    /// Resets all features.
    pub fn reset(&mut self) {
        self.admin.reset(&self.options);
    }

    /// True if the volatile write cache is enabled.
    pub fn write_cache(&self) -> bool {
        self.admin.write_cache
    }

    /// Controller properties.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Keep Alive timeout in ms; 0 disables it.
    pub fn keep_alive_ms(&self) -> u32 {
        self.admin.keep_alive_ms
    }

    /// Sets the Keep Alive timeout, as Connect does.
    pub fn set_keep_alive_ms(&mut self, ms: u32) {
        self.admin.keep_alive_ms = ms;
    }

    /// Returns the number of bytes that the host sends with a command.
    ///
    /// Fails above the maximum transfer size.
    pub fn input_bytes(&self, queue: Queue, entry: &Entry) -> Result<usize, Status> {
        match queue {
            Queue::Admin => Ok(self.admin.input_bytes(entry)),
            Queue::Io => io::input_bytes(entry, &self.options),
        }
    }

    /// Starts a command at `now` with the `data` sent by the host.
    pub fn begin(
        &mut self,
        queue: Queue,
        entry: &Entry,
        data: Vec<u8>,
        now: SimTime,
        drive: &mut dyn Simulated,
    ) -> Result<Begun, Status> {
        if queue == Queue::Admin {
            return self.admin.carry_out(entry, &data, now, drive, &self.options);
        }
        match self.admin.placement.manage(entry, &data, drive)? {
            None => {}
            Some(Managed::Nothing) => return Ok(Begun::Done { data: Vec::new(), result: 0 }),
            Some(Managed::Status(data)) => return Ok(Begun::Done { data, result: 0 }),
            Some(Managed::Update(handles)) => {
                return Ok(Begun::Work { work: Work::Update(handles), is_forced: false });
            }
        }
        let mut work = match io::parse(entry, data, &self.options, self.admin.write_cache)? {
            Some(work) => work,
            None => return Ok(Begun::Done { data: Vec::new(), result: 0 }),
        };
        // The directive of a write may name a placement handle. An unknown one is logged if the event is
        // enabled.
        if let Work::Write { tag, .. } = &mut work {
            tag.handle = self.admin.placement.handle_of(entry, now, drive)?;
        }
        let is_forced = io::is_forced(&work, entry, &self.options, self.admin.write_cache);
        Ok(Begun::Work { work, is_forced })
    }

    /// Completes a command with the drive's answer at `now`. Returns the data for the host.
    pub fn finish(
        &mut self,
        after: After,
        result: Result<Vec<u8>, CommandError>,
        now: SimTime,
        drive: &mut dyn Simulated,
    ) -> Result<Vec<u8>, Status> {
        let mut data = result.map_err(|error| Status::of(&error))?;
        match after {
            After::Nothing => Ok(Vec::new()),
            After::Data(bytes) => {
                data.resize(bytes, 0);
                Ok(data)
            }
            After::Compare(expected) if data == expected => Ok(Vec::new()),
            After::Compare(_) => Err(Status::COMPARE_FAILURE),
            After::Update(handles) => {
                self.admin.placement.update(&handles, now, drive)?;
                Ok(Vec::new())
            }
        }
    }
}

impl Work {
    /// Passes the drive command and the data of a write to `submit`. Returns the step that follows the drive's
    /// answer.
    pub fn submit(self, submit: impl FnOnce(Command<'_>, Option<&[u8]>)) -> After {
        let bytes = |sectors: u32| sectors as usize * SECTOR_BYTES as usize;
        match self {
            Work::Flush => submit(Command::Flush, None),
            Work::Read { range } => {
                submit(Command::Read { range }, None);
                return After::Data(bytes(range.sectors));
            }
            Work::Compare { range, data } => {
                submit(Command::Read { range }, None);
                return After::Compare(data);
            }
            Work::Write { range, fua, tag, data } => {
                submit(Command::Write { range, fua, tag }, Some(&data));
            }
            Work::WriteZeroes { range, deallocate } => {
                submit(Command::WriteZeroes { range, deallocate }, None);
            }
            Work::Deallocate(ranges) => submit(Command::Deallocate(&ranges), None),
            Work::Copy { destination, sources } => {
                submit(Command::Copy { destination, sources: &sources }, None);
            }
            // A flush first writes the buffered data to the old reclaim units.
            Work::Update(handles) => {
                submit(Command::Flush, None);
                return After::Update(handles);
            }
        }
        After::Nothing
    }
}
