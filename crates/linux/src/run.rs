use std::collections::BTreeSet;
use std::path::Path;

use strobe_ssd::{DriveStats, EventLog, Latency, Requests, Simulated};
use strobe_types::{SimTime, StopFlag};

use crate::attached::DiskOptions;
use crate::disk::Disk;
use crate::host::{HostFiles, HostUse};
use crate::job::{Job, Report};
use crate::machine::Machine;
use crate::process::{End, Ended, Stream};
use crate::record::Recorder;
use crate::session::{self, Listener};
use crate::watch::Watch;
use crate::{LinuxError, Root};

/// [`Step::Mark`](crate::job::Step::Mark) that the guest has reached.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Name.
    pub name: String,
    /// Guest time in ns.
    pub at_ns: u64,
    /// Counters of the drive.
    pub stats: DriveStats,
    /// Requests sent by the guest.
    pub requests: Requests,
    /// Latencies since the previous mark.
    pub latency: Latency,
}

/// Exit of a program run by a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Index of the step.
    pub step: usize,
    /// Exit code; 128 plus the signal number if a signal ended it.
    pub code: i32,
    /// Output of a quiet program.
    pub said: String,
}

/// Outcome of a job.
pub struct Outcome {
    /// Drive at the end of the guest. Restart it after a power cut.
    pub drive: Box<dyn Simulated>,
    /// End of the guest.
    pub ended: Ended,
    /// Drive time at the end.
    pub at: SimTime,
    /// Reached marks.
    pub marks: Vec<Mark>,
    /// Exits of programs.
    pub exits: Vec<Exit>,
    /// Failed step and the reason.
    pub failed: Option<(usize, String)>,
    /// Reason why files or folders were not copied out.
    pub not_sent: Option<String>,
    /// First drive error that the guest has seen.
    pub drive_error: Option<String>,
    /// Requests sent by the guest.
    pub requests: Requests,
    /// Further drives.
    pub others: Vec<OtherOutcome>,
    /// Host files shown to the guest, if the root is the host's.
    pub host: Option<HostUse>,
    /// True if the kernel killed a program because memory ran out.
    pub out_of_memory: bool,
    /// Programs that exceeded [`Machine::spin_limit`]; virtual time then advanced with their processor time.
    pub spun: Vec<String>,
    /// Number of files written outside the drive since the first mark, and the first of their paths.
    pub outside: (u64, Vec<String>),
}

/// Further drive at the end of the guest.
pub struct OtherOutcome {
    /// Drive.
    pub drive: Box<dyn Simulated>,
    /// Requests sent by the guest, from power-on to power-off.
    pub requests: Requests,
    /// First drive error that the guest has seen.
    pub drive_error: Option<String>,
}

impl OtherOutcome {
    fn of(disk: Disk) -> Self {
        let (requests, error) = (disk.target().requests(), disk.target().first_error().map(str::to_owned));
        Self { drive: disk.into_drive(), requests, drive_error: error }
    }
}

impl Outcome {
    /// Exit code of the program of step `step`.
    pub fn exit_code(&self, step: usize) -> Option<i32> {
        self.exits.iter().find(|exit| exit.step == step).map(|exit| exit.code)
    }

    /// Returns the mark `name`.
    pub fn mark(&self, name: &str) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.name == name)
    }
}

/// Drive to power on with a guest.
pub struct PoweredDrive {
    /// Drive, which must keep contents.
    pub drive: Box<dyn Simulated>,
    /// Drive time at guest time 0.
    pub start: SimTime,
    /// Recorder of the guest's requests.
    pub recorder: Option<Recorder>,
    /// Observer of the run.
    pub watch: Option<Box<dyn Watch>>,
    /// Event log, and the marks that open and close it.
    pub log: Option<(EventLog, [&'static str; 2])>,
    /// Further drives, in their state at time 0.
    pub others: Vec<Box<dyn Simulated>>,
}

impl PoweredDrive {
    /// Creates a drive in its state at `start`.
    pub fn new(drive: Box<dyn Simulated>, start: SimTime) -> Self {
        Self { drive, start, recorder: None, watch: None, log: None, others: Vec::new() }
    }
}

impl Machine {
    /// Runs `job` with `root` on `drive`. `hears` receives the guest's output. Raising `stop` ends the run.
    ///
    /// A failed step is an outcome, not an error. A guest that ends without a report is an error.
    pub fn run(
        &self,
        root: &Root,
        job: &Job,
        drive: PoweredDrive,
        stop: &StopFlag,
        hears: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Outcome, LinuxError> {
        let file = root.archive_file(job)?;
        let mut simulated = drive.drive;
        simulated.set_stop(stop.clone());
        let mut disk = Disk::new(simulated, drive.start, self.disk.clone());
        if let Some(recorder) = drive.recorder {
            disk.record(recorder);
        }
        if let Some(watch) = drive.watch {
            disk.watch(watch);
        }
        // Further drives are new, so their time equals the guest's. Only the first drive may start at a later
        // time.
        let disk_of =
            |(number, drive)| Disk::new(drive, SimTime::ZERO, DiskOptions { number, ..self.disk.clone() });
        let mut others: Vec<_> = (1..).zip(drive.others).map(disk_of).collect();
        let mut notes = Notes {
            hears,
            events: drive.log,
            control: Vec::new(),
            marks: Vec::new(),
            exits: Vec::new(),
            failed: None,
            not_sent: None,
            is_done: false,
            out_of_memory: false,
            spun: BTreeSet::new(),
            outside: (0, Vec::new()),
            log: String::new(),
        };
        let mut files = root.shows_host().then(|| HostFiles::new(Path::new("/"), job)).transpose()?;
        let files_shown = files.as_mut();
        let ended = session::boot(self, &file.path(), &mut disk, &mut others, files_shown, &mut notes, stop);
        // A failed step explains a later abnormal end.
        let ended = ended.map_err(|error| error.after(notes.failed.take()))?;
        // A guest that powers off in order has reported Done or a failed step.
        if ended.end == End::Off && !notes.is_done && notes.failed.is_none() {
            return Err(LinuxError::Ended(notes.log));
        }
        if let Some(recorder) = disk.take_recorder() {
            recorder.finish()?;
        }
        Ok(Outcome {
            ended,
            at: disk.time(ended.guest_ns),
            marks: notes.marks,
            exits: notes.exits,
            failed: notes.failed,
            not_sent: notes.not_sent,
            drive_error: disk.target().first_error().map(str::to_owned),
            requests: disk.target().requests(),
            others: others.into_iter().map(OtherOutcome::of).collect(),
            host: files.map(|files| files.shown()),
            out_of_memory: notes.out_of_memory,
            spun: notes.spun.into_iter().collect(),
            outside: notes.outside,
            drive: disk.into_drive(),
        })
    }
}

struct Notes<'a> {
    hears: &'a mut dyn FnMut(Stream, &[u8]),
    events: Option<(EventLog, [&'static str; 2])>,
    control: Vec<u8>,
    marks: Vec<Mark>,
    exits: Vec<Exit>,
    failed: Option<(usize, String)>,
    not_sent: Option<String>,
    is_done: bool,
    out_of_memory: bool,
    spun: BTreeSet<String>,
    outside: (u64, Vec<String>),
    log: String,
}

const LOG_BYTES_MAX: usize = 4096;

fn spun(line: &str) -> Option<&str> {
    line.strip_prefix("time-travel: ")?.strip_suffix(" computes, time goes on with it")
}

impl Listener for Notes<'_> {
    fn hears(&mut self, stream: Stream, bytes: &[u8], disk: &mut Disk) -> Result<(), LinuxError> {
        (self.hears)(stream, bytes);
        match stream {
            Stream::Kernel => {
                self.log.push_str(&String::from_utf8_lossy(bytes));
                // The log is searched before it is cut, so a message that arrives in pieces is found.
                self.out_of_memory |= self.log.contains("Out of memory: Killed");
                self.spun.extend(self.log.lines().filter_map(spun).map(str::to_owned));
                // Keep the end of the log, cut at a character boundary.
                let excess = self.log.len().saturating_sub(LOG_BYTES_MAX);
                let from = (excess..).find(|&at| self.log.is_char_boundary(at)).unwrap_or(0);
                self.log.drain(..from);
            }
            Stream::Control => {
                // A report is a line of JSON. It may arrive in pieces.
                for &byte in bytes {
                    if byte != b'\n' {
                        self.control.push(byte);
                        continue;
                    }
                    let line = std::mem::take(&mut self.control);
                    self.report(&line, disk)?;
                }
            }
            Stream::Output | Stream::Error | Stream::Files | Stream::Changes => {}
        }
        Ok(())
    }
}

impl Notes<'_> {
    fn report(&mut self, line: &[u8], disk: &mut Disk) -> Result<(), LinuxError> {
        let report = serde_json::from_slice(line).map_err(|error| {
            let text = String::from_utf8_lossy(line).into_owned();
            LinuxError::Protocol(format!("invalid report {text:?} of its first process: {error}"))
        })?;
        match report {
            Report::Sample { at_ns, sample } => disk.heard().sample(at_ns, &sample),
            Report::Mark { name, at_ns } => {
                disk.heard().mark(at_ns, &name);
                let now = disk.time(at_ns);
                let (requests, drive) = (disk.target().requests(), disk.target_mut().drive_mut());
                let (stats, latency) = (drive.stats(), drive.latency().clone());
                // Latencies of a mark start at the previous mark.
                drive.clear_latency();
                if let Some((events, [begin, end])) = &self.events {
                    if name == *begin {
                        events.open(now);
                        drive.set_log(events.clone());
                    } else if name == *end {
                        drive.set_log(EventLog::OFF);
                        events.close(now);
                    }
                }
                self.marks.push(Mark { name, at_ns, stats, requests, latency });
            }
            Report::Exit { step, code, said } => self.exits.push(Exit { step, code, said }),
            Report::Failed { step, reason } => self.failed = Some((step, reason)),
            Report::NotSent { reason } => self.not_sent = Some(reason),
            Report::Outside { files, paths } => self.outside = (files, paths),
            Report::Done => self.is_done = true,
        }
        Ok(())
    }
}
