use strobe_ssd::{Answer, Command, CommandError, Simulated, Target};
use strobe_types::{SimTime, defaults};

use crate::interface::Interface;
use crate::job::Sample;
use crate::record::Recorder;
use crate::watch::Watch;

defaults! {
    /// Properties of the disk offered to the guest.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DiskOptions {
        /// Interface of the disk.
        pub interface: Interface = Interface::Virtio;
        /// Maximum ranges of one discard, 1 to 256. 0 disables discard. The drive may have a lower limit.
        pub discard_segments: u32 = 64;
        /// True to offer Copy within the device.
        pub copy: bool = true;
        /// True to enable the volatile write cache. Otherwise each write is durable on completion. The guest
        /// can change this.
        pub write_cache: bool = true;
        /// Index of the disk in its guest, from 0. Names of NVMe drives depend on it.
        pub number: u8 = 0;
    }
}

pub(crate) struct Attached {
    pub(crate) target: Target,
    start: SimTime,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) watch: Option<Box<dyn Watch>>,
    submitted: u64,
}

impl Attached {
    /// Number of placement handles; 1 if the drive has none.
    pub(crate) fn handles(&self) -> u16 {
        // The lowest placement identifiers are the handles of reclaim group 0.
        self.target.drive().reclaim_units().map_or(1, |units| units.handles())
    }

    pub(crate) fn new(drive: Box<dyn Simulated>, start: SimTime) -> Self {
        Self { target: Target::new(drive), start, recorder: None, watch: None, submitted: 0 }
    }

    pub(crate) fn time(&self, guest_ns: u64) -> SimTime {
        self.start + guest_ns
    }

    pub(crate) fn new_tag(&mut self) -> u64 {
        self.submitted += 1;
        self.submitted
    }

    pub(crate) fn send(&mut self, now: SimTime, tag: u64, commands: &[Command<'_>], data: Option<&[u8]>) {
        if let Some(recorder) = &mut self.recorder {
            commands.iter().for_each(|command| recorder.command(now, command));
        }
        if let Some(watch) = &mut self.watch {
            watch.sent(now, tag, commands);
        }
        self.target.submit(now, tag, commands, data);
    }

    pub(crate) fn answer(&mut self, now: SimTime, tag: u64, result: Result<Vec<u8>, CommandError>) {
        self.target.answer(now, tag, result);
    }

    pub(crate) fn next_event(&self) -> Option<u64> {
        self.target.next_event().map(|at| at.since(self.start))
    }

    pub(crate) fn advance(&mut self, guest_ns: u64) -> Vec<Answer> {
        let (until, mut answers) = (self.time(guest_ns), Vec::new());
        let Some(watch) = &mut self.watch else {
            self.target.advance(until, &mut answers);
            return answers;
        };
        // Number of answers already reported to the watch.
        let mut sent = 0;
        let mut tell = |watch: &mut Box<dyn Watch>, answers: &[Answer]| {
            for answer in &answers[sent..] {
                watch.complete(answer.at, answer.tag, answer.result.is_ok());
            }
            sent = answers.len();
        };
        while watch.due() <= until {
            // Events at the time of the observation belong to the next interval, so stop 1 ns before.
            let before = SimTime::from_ns(watch.due().as_ns().saturating_sub(1));
            self.target.advance(before, &mut answers);
            tell(watch, &answers);
            watch.observe(self.target.drive());
        }
        self.target.advance(until, &mut answers);
        tell(watch, &answers);
        answers
    }

    pub(crate) fn mark(&mut self, guest_ns: u64, name: &str) {
        let now = self.time(guest_ns);
        if let Some(watch) = &mut self.watch {
            watch.mark(now, name, self.target.drive());
        }
    }

    pub(crate) fn sample(&mut self, guest_ns: u64, sample: &Sample) {
        let now = self.time(guest_ns);
        if let Some(watch) = &mut self.watch {
            watch.sample(now, sample);
        }
    }
}
