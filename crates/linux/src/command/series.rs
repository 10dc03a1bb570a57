use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::Watch;
use crate::job::Sample;
use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::{Command, CommandKind, Simulated};
use strobe_types::{Op, SimTime};

use super::{BEGIN, END};
use strobe_lab::timeline::{self, AtEnd, Interval, Timeline};

/// Activity of the drive and the guest's kernel in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GuestInterval {
    /// Drive activity, as in the intervals of a run.
    #[serde(flatten)]
    pub drive: Interval,
    /// Copy requests per second.
    pub copy_iops: f64,
    /// Kernel counters at the end of the interval; null before the first mark.
    pub kernel: Option<KernelInterval>,
}

/// Kernel activity in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KernelInterval {
    /// Dirty bytes, in memory only, at the end of the interval.
    pub dirty_bytes: u64,
    /// Bytes being written back at the end of the interval.
    pub writeback_bytes: u64,
    /// File system commits in the interval: ext4 journal transactions or F2FS checkpoints; null for other file
    /// systems.
    pub commits: Option<u64>,
    /// Number of F2FS cleanings in the interval; null for other file systems.
    pub cleanings: Option<u64>,
}

struct Outstanding {
    sent: SimTime,
    op: Option<Op>,
    bytes: u64,
}

struct Taker {
    timeline: Timeline,
    outstanding: BTreeMap<u64, Outstanding>,
    copies: Vec<SimTime>,
    samples: Vec<(SimTime, Sample)>,
    measuring: bool,
}

impl Taker {
    fn close(&mut self, now: SimTime, drive: &dyn Simulated) {
        self.timeline.close(now, AtEnd::of(drive, now, 0, self.measuring));
    }
}

/// Shared handle of a series. One clone observes the drive; the other returns the series at the end.
#[derive(Clone)]
pub(super) struct Series(Rc<RefCell<Taker>>);

impl Series {
    pub(super) fn new(length_ns: u64, drive: &dyn Simulated, start: SimTime) -> Self {
        Self(Rc::new(RefCell::new(Taker {
            timeline: Timeline::new(length_ns, start, drive.stats_at(start)),
            outstanding: BTreeMap::new(),
            copies: Vec::new(),
            samples: Vec::new(),
            measuring: false,
        })))
    }

    pub(super) fn finish(self, now: SimTime, drive: &dyn Simulated) -> Vec<GuestInterval> {
        let mut taker = self.0.borrow_mut();
        taker.close(now, drive);
        let (intervals, _) = taker.timeline.take_intervals();
        joined(intervals, &taker.copies, &taker.samples)
    }
}

fn joined(intervals: Vec<Interval>, copies: &[SimTime], samples: &[(SimTime, Sample)]) -> Vec<GuestInterval> {
    let within = |drive: &Interval| {
        let until = |ns: u64| copies.partition_point(|at| at.as_ns() < ns);
        until(drive.end_ns) - until(drive.start_ns)
    };
    // Last sample up to a time.
    let sample_at = |ns: u64| {
        let count = samples.partition_point(|(at, _)| at.as_ns() <= ns);
        count.checked_sub(1).map(|last| samples[last])
    };
    let kernel = |drive: &Interval| {
        let (at, end) = sample_at(drive.end_ns)?;
        // Without a sample at the start of the interval, its counters count from boot.
        let begin = sample_at(drive.start_ns).map(|(_, sample)| sample);
        if at.as_ns() <= drive.start_ns {
            return None;
        }
        let more = |end: Option<u64>, begin: Option<Option<u64>>| {
            end.map(|end| end.saturating_sub(begin.flatten().unwrap_or(0)))
        };
        Some(KernelInterval {
            dirty_bytes: end.dirty_bytes,
            writeback_bytes: end.writeback_bytes,
            commits: more(end.commits, begin.map(|begin| begin.commits)),
            cleanings: more(end.cleanings, begin.map(|begin| begin.cleanings)),
        })
    };
    intervals
        .into_iter()
        .map(|drive| GuestInterval {
            copy_iops: within(&drive) as f64 * 1e9 / (drive.end_ns - drive.start_ns) as f64,
            kernel: kernel(&drive),
            drive,
        })
        .collect()
}

/// Formats the intervals as CSV: the columns of [`timeline::csv`] and further ones. Unknown values are empty.
pub fn series_csv(intervals: &[GuestInterval]) -> String {
    let names = ",copy_iops,dirty_bytes,writeback_bytes,commits,cleanings\n";
    let mut out = timeline::CSV_NAMES.to_owned() + names;
    let whole = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    for interval in intervals {
        let of = |field: fn(&KernelInterval) -> Option<u64>| whole(interval.kernel.as_ref().and_then(field));
        let [dirty, writeback] =
            [of(|kernel| Some(kernel.dirty_bytes)), of(|kernel| Some(kernel.writeback_bytes))];
        let [commits, cleanings] = [of(|kernel| kernel.commits), of(|kernel| kernel.cleanings)];
        let row = timeline::csv_row(&interval.drive);
        out += &format!("{row},{},{dirty},{writeback},{commits},{cleanings}\n", interval.copy_iops);
    }
    out
}

impl Watch for Series {
    fn due(&self) -> SimTime {
        self.0.borrow().timeline.due()
    }

    fn observe(&mut self, drive: &dyn Simulated) {
        let mut taker = self.0.borrow_mut();
        let now = taker.timeline.due();
        taker.close(now, drive);
    }

    fn sent(&mut self, now: SimTime, tag: u64, commands: &[Command<'_>]) {
        let mut taker = self.0.borrow_mut();
        let op = commands.first().and_then(|first| first.kind().op());
        let bytes = commands.iter().map(Command::bytes).sum();
        if commands.first().is_some_and(|first| op.is_some() || first.kind() == CommandKind::Copy) {
            taker.outstanding.insert(tag, Outstanding { sent: now, op, bytes });
        }
        let outstanding = taker.outstanding.len() as u32;
        taker.timeline.outstanding(now, outstanding);
    }

    fn complete(&mut self, at: SimTime, tag: u64, is_ok: bool) {
        let mut taker = self.0.borrow_mut();
        // Requests that `sent` does not track complete as well.
        let Some(request) = taker.outstanding.remove(&tag) else { return };
        let outstanding = taker.outstanding.len() as u32;
        taker.timeline.outstanding(at, outstanding);
        match request.op {
            Some(op) if is_ok => taker.timeline.complete(op, request.bytes, at.since(request.sent)),
            None if is_ok => taker.copies.push(at),
            _ => {}
        }
    }

    fn mark(&mut self, now: SimTime, name: &str, drive: &dyn Simulated) {
        let mut taker = self.0.borrow_mut();
        taker.close(now, drive);
        match name {
            BEGIN => taker.measuring = true,
            END => taker.measuring = false,
            _ => {}
        }
    }

    fn sample(&mut self, now: SimTime, sample: &Sample) {
        self.0.borrow_mut().samples.push((now, *sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strobe_lab::timeline::IntervalOp;

    fn interval(start_ns: u64, end_ns: u64) -> Interval {
        let [read, write, trim, sync] = [IntervalOp::default(); 4];
        let (queue_depth, backlog, waf, free_blocks, busy_dies, collecting) = (0.0, 0, None, 0, 0.0, 0.0);
        let measured = true;
        Interval {
            start_ns,
            end_ns,
            measured,
            read,
            write,
            trim,
            sync,
            queue_depth,
            backlog,
            waf,
            free_blocks,
            busy_dies,
            collecting,
        }
    }

    #[test]
    fn samples_and_copies_are_in_the_interval_that_they_belong_to() {
        let sample = |at: u64, dirty_bytes, commits| {
            (SimTime::from_ns(at), Sample { dirty_bytes, commits, ..Sample::default() })
        };
        let intervals = vec![interval(0, 100), interval(100, 200), interval(200, 300), interval(300, 310)];
        let samples = [sample(100, 1, Some(5)), sample(200, 2, Some(7)), sample(300, 3, Some(7))];
        let copies = [SimTime::from_ns(150), SimTime::from_ns(199), SimTime::from_ns(200)];
        let found = joined(intervals, &copies, &samples);
        let kernels: Vec<_> =
            found.iter().map(|of| of.kernel.map(|kernel| (kernel.dirty_bytes, kernel.commits))).collect();
        // Commits before the first sample belong to its interval. The last interval has no sample.
        assert_eq!(kernels, [Some((1, Some(5))), Some((2, Some(2))), Some((3, Some(0))), None]);
        assert_eq!(found.iter().map(|of| of.copy_iops).collect::<Vec<_>>(), [0.0, 2e7, 1e7, 0.0]);
        let csv = series_csv(&found);
        assert_eq!(csv.lines().nth(2).map(|line| line.ends_with(",20000000,2,0,2,")), Some(true), "{csv}");
        assert_eq!(csv.lines().last().map(|line| line.ends_with(",0,,,,")), Some(true), "{csv}");
        let columns = |line: &str| line.split(',').count();
        assert!(csv.lines().all(|line| columns(line) == columns(csv.lines().next().unwrap_or(""))), "{csv}");
    }
}
