//! The `[[jobs]]` tables: several workloads on one drive.
//!
//! `[workload]` holds the keys that all jobs share, as fio's `[global]` does. Each job adds keys or overrides
//! them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use strobe_ssd::schema;
use strobe_types::{is_default, is_one};
use toml::{Table, Value};

use super::fio_names::accept_fio_names;
use super::pace::PaceConfig;
use super::synthetic::SyntheticWorkload;
use super::time::Time;

const JOBS_MAX: u64 = 256;

/// A job: a workload with a name, its start and its own statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobConfig {
    /// Name of the job in results, unique among the jobs. It must not be a number or contain dots, so `--set
    /// jobs.NAME.KEY=VALUE` finds it.
    pub name: String,
    /// Number of copies of the job, which run in parallel. Each has its own random numbers and statistics,
    /// and is called NAME.0, NAME.1 and so on. Default 1. fio: `numjobs`.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 256))]
    pub numjobs: u32,
    /// Delay of the job's start, from the first request of the warm-up, or of the measurement if there is no
    /// warm-up. Default: no delay. fio: `startdelay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startdelay: Option<Time>,
    /// Virtual time during which the job issues requests. Default: to the end of the run. fio: `runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Time>,
    /// Bytes after which the job ends; the request that reaches this number is the last. Default: no limit.
    /// fio: `io_size`, and `size` without `time_based`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 512))]
    pub io_bytes: Option<u64>,
    /// Flush when the job has ended by its runtime or io_bytes and all of its requests are complete. Default
    /// false. fio: `end_fsync`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_flush: bool,
    /// Begin when all jobs before this one in the file have ended; startdelay counts from there. Default
    /// false. fio: `stonewall`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stonewall: bool,
    /// Workload of the job.
    #[serde(flatten)]
    pub workload: SyntheticWorkload,
}

fn one() -> u32 {
    1
}

impl JobConfig {
    pub(super) fn read_all(mut shared: Table, given: &Value) -> Result<Vec<Self>, KeyError> {
        let meaning = "The jobs that run on the drive in parallel.";
        let tables = given.as_array().filter(|tables| !tables.is_empty());
        let tables = tables.ok_or_else(|| {
            KeyError::value("jobs", given.to_string(), "tables: write [[jobs]] before each", meaning)
        })?;
        if let Some(kind) = shared.get("kind").filter(|kind| matches!(kind.as_str(), Some("trace" | "lfs"))) {
            let allowed = "a generator with [[jobs]]: traces and file systems run alone";
            return Err(KeyError::value("workload.kind", kind.to_string(), allowed, ""));
        }
        accept_fio_names(&mut shared, "workload")?;
        PaceConfig::check_table(&shared, "workload")?;
        schema::check(&mut shared, schema::of::<SyntheticWorkload>(), "workload")?;
        let mut owns = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            let path = format!("jobs[{at}]");
            let own = table.as_table().cloned();
            let mut own = own.ok_or_else(|| KeyError::value(&path, table.to_string(), "a table", meaning))?;
            accept_fio_names(&mut own, &path)?;
            Time::check(&own, &["startdelay", "runtime"], &path)?;
            PaceConfig::check_table(&own, &path)?;
            schema::check(&mut own, schema::of::<Self>(), &path)?;
            owns.push(own);
        }
        if let Some(key) = shared.keys().find(|key| owns.iter().all(|own| own.contains_key(*key))) {
            let allowed = "left out: every job has its own";
            return Err(KeyError::value(format!("workload.{key}"), shared[key].to_string(), allowed, ""));
        }
        let jobs = owns.into_iter().enumerate().map(|(at, own)| {
            let mut table = shared.clone();
            // Of two exclusive keys, the job's own overrides the shared one.
            for (one, other) in [("rate_iops", "rate_points"), ("block_bytes", "block_split")] {
                for (own_key, shared_key) in [(one, other), (other, one)] {
                    if own.contains_key(own_key) {
                        table.remove(shared_key);
                    }
                }
            }
            table.extend(own);
            schema::read(table, schema::of::<Self>(), &format!("jobs[{at}]"))
        });
        jobs.collect()
    }

    pub(super) fn check_all(jobs: &[Self]) -> Result<(), KeyError> {
        let mut names = BTreeSet::new();
        for (at, job) in jobs.iter().enumerate() {
            let path = format!("jobs[{at}]");
            let is_name = !job.name.is_empty()
                && !job.name.contains(['.', '=', '[', ']'])
                && job.name.parse::<u64>().is_err();
            if !is_name || !names.insert(&job.name) {
                let allowed = "a name that no other job has, not a number and without dots, brackets and =";
                return Err(KeyError::value(
                    format!("{path}.name"),
                    format!("\"{}\"", job.name),
                    allowed,
                    "",
                ));
            }
            if job.runtime.is_some_and(|runtime| runtime.as_ns() == 0) {
                let allowed = "longer than 0, or left out";
                return Err(KeyError::value(format!("{path}.runtime"), "\"0s\"", allowed, ""));
            }
            if job.io_bytes.is_some() && job.workload.generator.trim_ranges > 1 {
                let allowed = "1 with io_bytes, which counts requests of one range";
                let given = job.workload.generator.trim_ranges.to_string();
                return Err(KeyError::value(format!("{path}.trim_ranges"), given, allowed, ""));
            }
            let has_end = job.runtime.is_some() || job.io_bytes.is_some();
            if job.end_flush && !has_end {
                let allowed = "false, or a job with a runtime or io_bytes: it flushes when it has ended";
                return Err(KeyError::value(format!("{path}.end_flush"), "true", allowed, ""));
            }
            // A follower would wait forever for a job without an end.
            if let Some(follower) = jobs[at + 1..].iter().find(|follower| follower.stonewall && !has_end) {
                let allowed =
                    format!("given, or io_bytes: job {} waits until this one has ended", follower.name);
                return Err(KeyError::value(format!("{path}.runtime"), "left out", allowed, ""));
            }
            job.workload.check(&path)?;
        }
        Self::check_trims(jobs)?;
        let count: u64 = jobs.iter().map(|job| u64::from(job.numjobs)).sum();
        if count > JOBS_MAX {
            let allowed = format!("at most {JOBS_MAX} together, copies (numjobs) included");
            return Err(KeyError::value("jobs", format!("{count} jobs"), allowed, ""));
        }
        Self::check_outstanding(jobs)
    }

    /// Refuses jobs that together have more bytes outstanding than a run takes.
    fn check_outstanding(jobs: &[Self]) -> Result<(), KeyError> {
        let mut bytes = 0;
        for (at, job) in jobs.iter().enumerate() {
            // A stonewall job starts after all earlier jobs have ended, so their requests are complete.
            bytes = if job.stonewall { 0 } else { bytes };
            bytes += u64::from(job.numjobs) * job.workload.outstanding_bytes();
            job.workload.check_outstanding(bytes, &format!("jobs[{at}]"))?;
        }
        Ok(())
    }

    /// Refuses a trimming job whose region another job changes: a trimming job tracks which blocks hold data.
    fn check_trims(jobs: &[Self]) -> Result<(), KeyError> {
        let region = |job: &Self| {
            let generator = &job.workload.generator;
            let size = generator.size_bytes.unwrap_or(u64::MAX);
            (generator.offset_bytes, generator.offset_bytes.saturating_add(size))
        };
        let changes = |job: &Self| {
            let generator = &job.workload.generator;
            generator.write_fraction > 0.0 || generator.trim_fraction > 0.0
        };
        for (at, job) in jobs.iter().enumerate() {
            if job.workload.generator.trim_fraction == 0.0 {
                continue;
            }
            let wrong = |what: String| {
                let allowed = format!("0, or a region (offset_bytes, size_bytes) for the job alone: {what}");
                let given = job.workload.generator.trim_fraction.to_string();
                Err(KeyError::value(format!("jobs[{at}].trim_fraction"), given, allowed, ""))
            };
            if job.numjobs > 1 {
                return wrong("copies (numjobs) share one region".to_owned());
            }
            let (start, end) = region(job);
            let overlaps = |other: &Self| region(other).0 < end && start < region(other).1;
            let others = jobs.iter().enumerate().filter(|(other, _)| *other != at);
            if let Some((_, other)) = others.into_iter().find(|(_, other)| changes(other) && overlaps(other))
            {
                return wrong(format!("job {} writes or trims part of it, too", other.name));
            }
        }
        Ok(())
    }

    /// Names of the job's copies.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.numjobs).map(|copy| match self.numjobs {
            1 => self.name.clone(),
            _ => format!("{}.{copy}", self.name),
        })
    }
}
