//! Prefill, and requests of synthetic workloads.

use strobe_ssd::{Command, DriveConfig};
use strobe_types::{Lba, Op, Range, Request, SECTOR_BYTES, State};
use strobe_workload::synthetic::{Synthetic, SyntheticConfig, Workload as _, WorkloadError};

use crate::experiment::HostConfig;

use super::host::{BATCH, BATCH_PAGES, Host, Stop};
use super::issuer::Issuer;

/// Writes the drive in order, one flash page per request.
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

#[derive(State)]
pub(super) struct Generator {
    requests: Synthetic,
    /// Requests between two flushes; 0: no flushes.
    #[state(skip)]
    flush_every: u32,
    #[state(skip)]
    handle: u16,
    unflushed: u32,
    /// Generated requests, and the number of them already issued.
    ready: (Vec<Request>, usize),
    /// Ranges of the last trim, if trims have several; requests are then generated one by one.
    ranges: Vec<Range>,
    #[state(skip)]
    ready_most: usize,
}

impl Generator {
    pub(super) fn new(
        config: &SyntheticConfig,
        host: &HostConfig,
        drive: &DriveConfig,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let requests = config.build(drive.logical_bytes(), seed)?;
        let pages_per_request = config.mean_bytes() / f64::from(drive.ftl.mapping_unit_bytes);
        Ok(Self {
            // The further ranges of a trim can be drawn only while the trim is the last request generated.
            ready_most: if requests.trim_ranges() > 1 {
                1
            } else {
                ((BATCH_PAGES as f64 / pages_per_request) as usize).clamp(1, BATCH)
            },
            requests,
            flush_every: host.flush_every,
            handle: host.placement_handle,
            unflushed: 0,
            ready: (Vec::new(), 0),
            ranges: Vec::new(),
        })
    }

    fn issue_one(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        self.make_ready();
        let request = self.ready.0[self.ready.1];
        // A batch holds requests of one range. A trim of several ranges is a separate command.
        let is_sent = match self.ranges_of(&request) {
            Some(ranges) => host.send(&Command::Deallocate(ranges), None)?,
            None => host.issue(&[request], &[])? == 1,
        };
        self.ready.1 += usize::from(is_sent);
        Ok(())
    }

    #[inline]
    fn has_ranges(&self) -> bool {
        self.ready_most == 1
    }

    /// Ranges of the last generated request; `None` unless it is a trim of several ranges.
    #[inline]
    pub(super) fn ranges_of(&self, request: &Request) -> Option<&[Range]> {
        (request.op == Op::Trim && self.ranges.len() > 1).then_some(&self.ranges[..])
    }

    #[inline]
    pub(super) fn next(&mut self) -> Request {
        self.make_ready();
        let (ready, given) = &mut self.ready;
        *given += 1;
        ready[*given - 1]
    }

    #[inline]
    pub(super) fn next_is_flush(&self) -> bool {
        let (ready, given) = &self.ready;
        ready.get(*given).is_some_and(|request| request.op == Op::Flush)
    }

    /// No batch starts with a flush, which shares the batch of its request.
    #[inline]
    fn make_ready(&mut self) {
        if self.ready.1 == self.ready.0.len() {
            let mut batch = std::mem::take(&mut self.ready.0);
            self.requests.fill(&mut batch, self.ready_most);
            if self.handle > 0 {
                batch.iter_mut().for_each(|request| *request = request.placed(self.handle));
            }
            if self.has_ranges() {
                self.ranges = batch.iter().map(|request| Range::new(request.lba, request.sectors)).collect();
                if batch.iter().any(|request| request.op == Op::Trim) {
                    self.requests.further_trims(&mut self.ranges);
                }
            }
            self.add_flushes(&mut batch);
            self.ready = (batch, 0);
        }
    }

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
    fn issue(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        while !host.is_reached() {
            if self.has_ranges() {
                self.issue_one(host)?;
                continue;
            }
            self.make_ready();
            let (ready, given) = &mut self.ready;
            *given += host.issue(&ready[*given..], &[])?;
        }
        Ok(())
    }
}
