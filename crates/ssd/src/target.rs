//! A drive behind a block server: requests of any protocol, each of one or more commands.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use strobe_types::{SimTime, counters};

use crate::command::{Command, CommandKind};
use crate::device::{Completion, Simulated};
use crate::error::CommandError;

counters! {
    /// Host requests by kind, including rejected ones.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct Requests {
        /// Reads.
        pub read: u64,
        /// Writes.
        pub write: u64,
        /// Flushes.
        pub flush: u64,
        /// Discards.
        pub discard: u64,
        /// Ranges of all discards.
        pub discard_ranges: u64,
        /// Write-zeroes requests.
        pub write_zeroes: u64,
        /// Copy requests.
        pub copy: u64,
        /// Ranges of all copies.
        pub copy_ranges: u64,
        /// Other requests: the serial number, and unknown ones.
        pub other: u64,
        /// Rejected or failed requests.
        pub failed: u64,
    }
}

impl Requests {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.read + self.write + self.flush + self.discard + self.write_zeroes + self.copy + self.other
    }

    fn add(&mut self, commands: &[Command<'_>]) {
        let Some(first) = commands.first() else {
            self.other += 1;
            return;
        };
        let ranges = |command: &Command<'_>| match *command {
            Command::Deallocate(ranges) | Command::Copy { sources: ranges, .. } => ranges.len() as u64,
            _ => 0,
        };
        let ranges: u64 = commands.iter().map(ranges).sum();
        match first.kind() {
            CommandKind::Read => self.read += 1,
            CommandKind::Write => self.write += 1,
            CommandKind::Flush => self.flush += 1,
            CommandKind::Trim => {
                (self.discard, self.discard_ranges) = (self.discard + 1, self.discard_ranges + ranges)
            }
            CommandKind::WriteZeroes => self.write_zeroes += 1,
            CommandKind::Copy => (self.copy, self.copy_ranges) = (self.copy + 1, self.copy_ranges + ranges),
        }
    }
}

struct Job {
    tag: u64,
    commands: usize,
    at: SimTime,
    result: Result<Vec<u8>, CommandError>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Tag that the host gave the request.
    pub tag: u64,
    /// Completion time of the last command of the request.
    pub at: SimTime,
    /// Data of a read, if the drive stores any; or the error of one of the commands.
    pub result: Result<Vec<u8>, CommandError>,
}

/// A drive and the requests of its host. A request consists of one or more commands. It is answered when all
/// of them are complete.
pub struct Target {
    drive: Box<dyn Simulated>,
    /// Requests by number. The number is the tag of the request's commands.
    jobs: BTreeMap<u64, Job>,
    /// Answers by time, then by number.
    answers: BTreeMap<(SimTime, u64), Answer>,
    submitted: u64,
    requests: Requests,
    first_error: Option<String>,
}

impl Target {
    /// A target for the requests of a new host.
    pub fn new(drive: Box<dyn Simulated>) -> Self {
        Self {
            drive,
            jobs: BTreeMap::new(),
            answers: BTreeMap::new(),
            submitted: 0,
            requests: Requests::default(),
            first_error: None,
        }
    }

    /// The drive.
    pub fn drive(&self) -> &dyn Simulated {
        &*self.drive
    }

    /// The drive, for inspection and preparation. Commands must use [`Target::submit`].
    pub fn drive_mut(&mut self) -> &mut dyn Simulated {
        &mut *self.drive
    }

    /// Replaces the drive and drops the requests in flight. Counts and the first error stay.
    pub fn replace_drive(&mut self, drive: Box<dyn Simulated>) {
        self.drive = drive;
        self.jobs.clear();
        self.answers.clear();
    }

    /// Returns the drive.
    pub fn into_drive(self) -> Box<dyn Simulated> {
        self.drive
    }

    /// Requests received so far.
    pub fn requests(&self) -> Requests {
        self.requests
    }

    /// First error that a command of the drive returned.
    pub fn first_error(&self) -> Option<&str> {
        self.first_error.as_deref()
    }

    /// Submits a request at `now`: all its `commands`, of one kind, with the `data` of a write.
    pub fn submit(&mut self, now: SimTime, tag: u64, commands: &[Command<'_>], data: Option<&[u8]>) {
        self.requests.add(commands);
        let number = self.submitted;
        self.submitted += 1;
        self.jobs.insert(number, Job { tag, commands: commands.len(), at: now, result: Ok(Vec::new()) });
        for command in commands {
            self.drive.submit(now, number, command, data);
        }
    }

    /// Answers a request at `now` that is not for the drive, or that no command can execute.
    pub fn answer(&mut self, now: SimTime, tag: u64, result: Result<Vec<u8>, CommandError>) {
        self.requests.other += 1;
        self.finish(self.submitted, Job { tag, commands: 0, at: now, result });
        self.submitted += 1;
    }

    fn finish(&mut self, number: u64, Job { tag, at, result, .. }: Job) {
        self.requests.failed += u64::from(result.is_err());
        self.answers.insert((at, number), Answer { tag, at, result });
    }

    /// Time of the next answer or drive event; `None` if nothing is pending.
    pub fn next_event(&self) -> Option<SimTime> {
        let answer = self.answers.keys().next().map(|&(at, _)| at);
        [answer, self.drive.next_event()].into_iter().flatten().min()
    }

    /// Advances virtual time to `until` and appends the answers due by then, ordered by time, then by
    /// submission.
    pub fn advance(&mut self, until: SimTime, answers: &mut Vec<Answer>) {
        let mut completions = Vec::new();
        self.drive.advance(until, &mut completions);
        // A request completes with its last command, and fails if one of its commands fails.
        for Completion { tag: number, at, result, .. } in completions {
            let Some(job) = self.jobs.get_mut(&number) else { continue };
            job.commands -= 1;
            job.at = job.at.max(at);
            match result {
                Ok(data) if job.result.is_ok() => job.result = Ok(data),
                Ok(_) => {}
                Err(error) => {
                    self.first_error.get_or_insert_with(|| error.to_string());
                    job.result = Err(error);
                }
            }
            if job.commands == 0
                && let Some(job) = self.jobs.remove(&number)
            {
                self.finish(number, job);
            }
        }
        while let Some(first) = self.answers.first_entry()
            && first.key().0 <= until
        {
            answers.push(first.remove());
        }
    }
}
