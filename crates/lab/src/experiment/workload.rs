use std::path::Path;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::KeyError;
use strobe_ssd::schema;
use strobe_workload::lfs::LfsConfig;
use toml::{Table, Value};

use super::fio_names::accept_fio_names;
use super::jobs::JobConfig;
use super::pace::PaceConfig;
use super::synthetic::SyntheticWorkload;
use super::trace::{PacingName, TraceConfig};

/// Source of requests.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WorkloadConfig {
    /// A generator.
    Synthetic(SyntheticWorkload),
    /// A block trace.
    Trace(TraceConfig),
    /// A log-structured file system.
    Lfs(LfsConfig),
    /// Several generators in parallel: `[[jobs]]`.
    #[schemars(skip)]
    Jobs(Vec<JobConfig>),
}

impl WorkloadConfig {
    pub(super) fn read(mut table: Table, folder: &Path) -> Result<Self, KeyError> {
        if table.get("kind").and_then(Value::as_str) == Some("trace") {
            return Ok(Self::Trace(TraceConfig::read_table(table, folder)?));
        }
        accept_fio_names(&mut table, "workload")?;
        if table.get("kind").and_then(Value::as_str) == Some("lfs") {
            return Ok(Self::Lfs(schema::read(table, schema::of::<LfsConfig>(), "workload")?));
        }
        PaceConfig::check_table(&table, "workload")?;
        static SCHEMA: OnceLock<serde_json::Value> = OnceLock::new();
        let schema = SCHEMA.get_or_init(|| {
            let mut schema = schema::of::<SyntheticWorkload>().clone();
            // The error about an unknown kind should list every kind.
            if let Some(kinds) = schema["$defs"]["Kind"]["oneOf"].as_array_mut() {
                kinds.extend(["trace", "lfs"].map(|kind| serde_json::json!({ "const": kind })));
            }
            schema
        });
        Ok(Self::Synthetic(schema::read(table, schema, "workload")?))
    }

    pub(super) fn check(&self) -> Result<(), KeyError> {
        match self {
            Self::Synthetic(workload) => {
                workload.check("workload")?;
                workload.check_outstanding(workload.outstanding_bytes(), "workload")
            }
            Self::Jobs(jobs) => JobConfig::check_all(jobs),
            Self::Trace(_) | Self::Lfs(_) => Ok(()),
        }
    }

    /// True if the drive is prefilled by default. Traces and file systems write all the data that they need.
    pub fn wants_prefill(&self) -> bool {
        match self {
            Self::Synthetic(_) | Self::Jobs(_) => true,
            Self::Trace(_) | Self::Lfs(_) => false,
        }
    }

    /// Most requests outstanding; 0 for a trace at its own times.
    pub(crate) fn queue_depth(&self) -> u64 {
        match self {
            Self::Trace(trace) if trace.pacing == PacingName::Open => 0,
            Self::Trace(trace) => trace.host.queue_depth.into(),
            Self::Lfs(config) => config.queue_depth.into(),
            Self::Synthetic(_) | Self::Jobs(_) => {
                let depths = self.generators().into_iter().map(|(_, one)| u64::from(one.host.queue_depth));
                depths.sum()
            }
        }
    }

    pub(crate) fn generators(&self) -> Vec<(String, &SyntheticWorkload)> {
        match self {
            Self::Synthetic(workload) => vec![("workload".to_owned(), workload)],
            Self::Jobs(jobs) => {
                jobs.iter().enumerate().map(|(at, job)| (format!("jobs[{at}]"), &job.workload)).collect()
            }
            Self::Trace(_) | Self::Lfs(_) => Vec::new(),
        }
    }
}
