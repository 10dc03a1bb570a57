//! Runs guest and simulator on one processor.
//!
//! Guest and simulator never run at the same time, because each waits for the other. A context switch on one
//! processor costs half of a wake-up on another one.

use std::fs::{File, OpenOptions};

use rustix::fs::{FlockOperation, flock};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Pins this thread and the processes it starts to one processor until dropped.
///
/// If other guests claim all processors, nothing is pinned. Pinning affects only speed.
pub(crate) struct Pinned {
    before: Option<CpuSet>,
    _claim: Option<File>,
}

impl Pinned {
    pub(crate) fn new() -> Self {
        let Ok(before) = sched_getaffinity(None) else { return Self { before: None, _claim: None } };
        let here = sched_getcpu();
        let allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| before.is_set(cpu));
        // The current processor comes first.
        let mut candidates: Vec<_> = allowed.collect();
        candidates.sort_by_key(|&cpu| cpu != here);
        if candidates.len() < 2 {
            return Self { before: None, _claim: None };
        }
        for cpu in candidates {
            let Some(claim) = claim(cpu) else { continue };
            let mut one = CpuSet::new();
            one.set(cpu);
            if sched_setaffinity(None, &one).is_ok() {
                return Self { before: Some(before), _claim: Some(claim) };
            }
        }
        Self { before: None, _claim: None }
    }
}

fn claim(cpu: usize) -> Option<File> {
    let path = std::env::temp_dir().join(format!("strobe-cpu-{cpu}.lock"));
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}
