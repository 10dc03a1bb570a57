use std::path::Path;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use strobe_ssd::schema::{self, check_name};
use strobe_types::{is_default, is_one};
use strobe_workload::lfs::LfsConfig;
use strobe_workload::trace::{self, Action};
use toml::{Table, Value};

use super::fio_names::accept_fio_names;
use super::jobs::JobConfig;
use super::pace::PaceConfig;
use super::synthetic::{HostConfig, SyntheticWorkload};
use crate::fit::{Fit, Late};

/// Issue times of a trace's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PacingName {
    /// At their timestamps, with any number outstanding.
    #[default]
    Open,
    /// As fast as the drive takes them, with `queue_depth` outstanding.
    Closed,
}

/// Kind of a trace workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceKind {
    /// A block trace.
    Trace,
}

/// A block trace as workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceConfig {
    /// Always "trace".
    pub kind: TraceKind,
    /// The trace file, plain or gzip, or "-" for standard input; relative to the experiment file.
    pub path: String,
    /// Format of the trace; see `strobe list formats`.
    pub format: String,
    /// Issue requests at their timestamps (open) or at full speed (closed). Default open.
    #[serde(default)]
    pub pacing: PacingName,
    /// Requests that do not fit the drive: refuse, wrap or clip. Default refuse.
    #[serde(default)]
    pub fit: Fit,
    /// Requests whose timestamp is earlier than a previous one in the file, with pacing open: refuse, or
    /// issue immediately. Default refuse.
    #[serde(default, skip_serializing_if = "is_default")]
    pub late: Late,
    /// Device of the trace, or "all". Default: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Requests to replay from blkparse and blktrace: dispatched (D), queued (Q) or completed (C). Default:
    /// the first of these found in the trace; D from a pipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Nanoseconds per unit of the trace's times, in place of the format's own (`strobe list formats`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub time_unit_ns: Option<u64>,
    /// Maximum number of ranges per trim. Successive trims of the trace become one command, which arrives
    /// with the last of them; adjacent ranges are merged. 1: one command for each, as in the trace. Default
    /// 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 256))]
    pub trim_ranges: u32,
    /// Times to replay the trace, one after the other. Default 1.
    #[serde(default = "once")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub repeat: u32,
    /// The host. Its queue depth has an effect only in closed loop.
    #[serde(flatten)]
    pub host: HostConfig,
}

fn once() -> u32 {
    1
}

fn one() -> u32 {
    1
}

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
            let mut config: TraceConfig = schema::read(table, schema::of::<TraceConfig>(), "workload")?;
            let formats: Vec<&str> = trace::FORMATS.iter().map(|format| format.name).collect();
            check_name("workload.format", &config.format, &formats)?;
            if let Some(action) = &config.action {
                check_name("workload.action", action, &Action::ALL.map(Action::letter))?;
            }
            if config.path != "-" {
                config.path = folder.join(&config.path).display().to_string();
            }
            return Ok(Self::Trace(config));
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
