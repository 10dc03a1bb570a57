//! Requests that are made up: the prefill, and those of a generator.

use strobe_ssd::{Command, DriveConfig};
use strobe_types::{Lba, Op, Range, Request, SECTOR_BYTES};
use strobe_workload::synthetic::{Synthetic, SyntheticConfig, Workload as _, WorkloadError};

use super::host::{BATCH, BATCH_PAGES, Host, Stop};
use super::issuer::Issuer;

/// Writes the whole drive once, a flash page of data at a time.
pub(super) fn prefill(host: &mut Host<'_>) -> Result<(), Stop> {
    let step = u64::from(host.drive.geometry().page_bytes()) / SECTOR_BYTES;
    let mut batch = Vec::with_capacity(BATCH);
    let sectors = host.drive.sectors();
    let mut lba = 0;
    while lba < sectors {
        batch.clear();
        while batch.len() < BATCH && lba < sectors {
            let count = step.min(sectors - lba);
            batch.push(Request::new(Op::Write, Lba::new(lba), count as u32));
            lba += count;
        }
        host.issue(&batch, &[])?;
    }
    Ok(())
}

/// A generator, with flushes between its requests.
pub(super) struct Generator {
    requests: Synthetic,
    pages_per_request: f64,
    /// A flush follows so many requests; 0: none does.
    flush_every: u32,
    /// Requests since the last flush.
    unflushed: u32,
    /// Requests made for [`Generator::next`], and how many of them it has given.
    ready: (Vec<Request>, usize),
    /// How many are made at a time.
    ready_most: usize,
}

strobe_types::state! { Generator { requests, unflushed, ready } made { pages_per_request, flush_every, ready_most } }

/// Requests made at a time when they are taken one by one.
const READY: usize = 256;

impl Generator {
    /// The generator that `config` describes, on `drive`.
    pub(super) fn new(
        config: &SyntheticConfig,
        flush_every: u32,
        drive: &DriveConfig,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let requests = config.build(drive.logical_bytes(), seed)?;
        Ok(Self {
            // A trim of several ranges asks for the others when it is the last request made.
            ready_most: if requests.trim_ranges() > 1 { 1 } else { READY },
            requests,
            pages_per_request: config.mean_bytes() / f64::from(drive.ftl.mapping_unit_bytes),
            flush_every,
            unflushed: 0,
            ready: (Vec::new(), 0),
        })
    }

    /// So many requests, some of which are trims of several ranges.
    fn issue_one_by_one(&mut self, host: &mut Host<'_>, mut left: u64) -> Result<(), Stop> {
        let (mut batch, mut ranges) = (Vec::with_capacity(BATCH), Vec::new());
        let (mut pages, mut result) = (0, Ok(()));
        while (left > 0 || self.next_is_flush()) && result.is_ok() {
            let request = self.next();
            left -= u64::from(request.op != Op::Flush);
            self.ranges(&request, &mut ranges);
            if ranges.len() > 1 {
                result = issue_batch(host, &mut batch, &mut pages).and_then(|()| {
                    let pages = ranges.iter().map(|range| host.pages_in(range.sectors)).sum();
                    host.send(&Command::Deallocate(&ranges), None, pages)
                });
                continue;
            }
            pages += host.pages_of(&request);
            batch.push(request);
            if batch.len() >= BATCH || pages >= BATCH_PAGES {
                result = issue_batch(host, &mut batch, &mut pages);
            }
        }
        result.and_then(|()| issue_batch(host, &mut batch, &mut pages))
    }

    /// Whether some requests are trims of several ranges.
    #[inline]
    pub(super) fn has_ranges(&self) -> bool {
        self.ready_most == 1
    }

    /// The ranges of `request`, which [`Generator::next`] has just given.
    pub(super) fn ranges(&mut self, request: &Request, ranges: &mut Vec<Range>) {
        ranges.clear();
        ranges.push(Range::new(request.lba, request.sectors));
        if request.op == Op::Trim {
            self.requests.further_trims(ranges);
        }
    }

    /// The next request, alone.
    #[inline]
    pub(super) fn next(&mut self) -> Request {
        self.make_ready();
        let (ready, given) = &mut self.ready;
        *given += 1;
        ready[*given - 1]
    }

    /// Whether [`Generator::next`] is a flush.
    #[inline]
    pub(super) fn next_is_flush(&self) -> bool {
        let (ready, given) = &self.ready;
        ready.get(*given).is_some_and(|request| request.op == Op::Flush)
    }

    /// Makes requests if none is left. A flush is never the first of those: it stands behind another request.
    #[inline]
    fn make_ready(&mut self) {
        if self.ready.1 == self.ready.0.len() {
            let mut batch = std::mem::take(&mut self.ready.0);
            self.requests.fill(&mut batch, self.ready_most);
            self.add_flushes(&mut batch);
            self.ready = (batch, 0);
        }
    }

    /// Puts a flush behind every so many requests.
    fn add_flushes(&mut self, batch: &mut Vec<Request>) {
        if self.flush_every == 0 {
            return;
        }
        for request in std::mem::take(batch) {
            batch.push(request);
            self.unflushed += 1;
            if self.unflushed >= self.flush_every {
                self.unflushed = 0;
                batch.push(Request::new(Op::Flush, Lba::new(0), 0));
            }
        }
    }
}

impl Issuer for Generator {
    fn issue(&mut self, host: &mut Host<'_>, pages: u64) -> Result<(), Stop> {
        let mut left = (pages as f64 / self.pages_per_request).ceil() as u64;
        if self.has_ranges() {
            return self.issue_one_by_one(host, left);
        }
        let most = ((BATCH_PAGES as f64 / self.pages_per_request) as u64).clamp(1, BATCH as u64);
        let mut batch = Vec::with_capacity(BATCH);
        while left > 0 {
            let count = left.min(most);
            self.requests.fill(&mut batch, count as usize);
            self.add_flushes(&mut batch);
            host.issue(&batch, &[])?;
            left -= count;
        }
        Ok(())
    }
}

fn issue_batch(host: &mut Host<'_>, batch: &mut Vec<Request>, pages: &mut u64) -> Result<(), Stop> {
    let result = if batch.is_empty() { Ok(()) } else { host.issue(batch, &[]) };
    batch.clear();
    *pages = 0;
    result
}
