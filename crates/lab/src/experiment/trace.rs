//! A block trace as workload.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use strobe_ssd::schema::{self, check_name, parse_size};
use strobe_types::{SECTOR_BYTES, is_default, is_one};
use strobe_workload::trace::{self, Action};
use toml::Table;

use super::amount::Amount;
use super::synthetic::HostConfig;
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
    /// The trace file, plain, gzip or zstd, or "-" for standard input; relative to the experiment file.
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
    #[schemars(extend("x-needs" = {
        "pacing": ["open"],
        "because": "--closed-loop ignores the times of the trace"
    }))]
    pub late: Late,
    /// Device of the trace, or "all", which lays all over each other. Several share the drive with an offset
    /// each: `["web.0@0", "web.1@100g"]`; what follows the last @ is one. Default: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Devices>,
    /// Part to leave out at the beginning of the trace: "5000 requests", "10GiB" of requests, or "2h" of its
    /// time. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub skip: Option<Amount>,
    /// Part to replay after that, as skip. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub take: Option<Amount>,
    /// Factor by which the trace is replayed faster, with pacing open: 10 makes ten seconds of the trace one.
    /// Lengths of skip, take, run.warmup and run.measure are of the trace itself. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.000_001, max = 1_000_000.0))]
    #[schemars(extend("x-needs" = {
        "pacing": ["open"],
        "because": "--closed-loop ignores the times of the trace"
    }))]
    pub speed: Option<f64>,
    /// Names of the columns of a csv file, such as "time,op,lbn,len". Default: those of its first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
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
    /// The host.
    #[serde(flatten)]
    pub host: HostConfig,
}

fn once() -> u32 {
    1
}

fn one() -> u32 {
    1
}

impl TraceConfig {
    pub(super) fn read_table(table: Table, folder: &Path) -> Result<Self, KeyError> {
        for key in ["skip", "take"] {
            let Some(value) = table.get(key) else { continue };
            let part = value.as_str().and_then(Amount::parse);
            if !matches!(part, Some(Amount::Requests(_) | Amount::Bytes(_) | Amount::Time(_))) {
                let allowed = "a part of the trace: \"5000 requests\", \"10GiB\" or a time such as \"2h\"";
                return Err(KeyError::value(format!("workload.{key}"), value.to_string(), allowed, ""));
            }
            if key == "take" && part.is_some_and(Amount::is_zero) {
                let allowed =
                    "longer than nothing, such as \"10s\"; leave it out to replay to the end of the trace";
                return Err(KeyError::value("workload.take", value.to_string(), allowed, ""));
            }
        }
        let mut config: Self = schema::read(table, schema::of::<TraceConfig>(), "workload")?;
        let formats: Vec<&str> = trace::FORMATS.iter().map(|format| format.name).collect();
        check_name("workload.format", &config.format, &formats)?;
        if let Some(action) = &config.action {
            check_name("workload.action", action, &Action::ALL.map(Action::letter))?;
        }
        if config.path != "-" {
            config.path = folder.join(&config.path).display().to_string();
        }
        if let Some(devices) = &config.device {
            devices.check()?;
        }
        Ok(config)
    }
}

/// Devices of a trace: a name, "all", or a list of names with an offset each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Devices {
    /// One device, or all.
    One(String),
    /// Devices with the byte of the drive that each begins at: "web.1@100g".
    Placed(Vec<String>),
}

impl Devices {
    /// The name of the only device, or "all".
    pub fn only(&self) -> Option<&str> {
        match self {
            Self::One(name) if offset(name).is_none() => Some(name),
            _ => None,
        }
    }

    /// Devices with their offsets in bytes; none if there is only one without an offset.
    pub fn placed(&self) -> impl Iterator<Item = (&str, u64)> {
        let names = match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Placed(names) => names,
        };
        names.iter().filter_map(|name| offset(name))
    }

    fn check(&self) -> Result<(), KeyError> {
        let refuse = |given: &str, allowed: &str| {
            Err(KeyError::value("workload.device", format!("\"{given}\""), allowed, ""))
        };
        if let Some((device, bytes)) = self.placed().find(|(_, offset)| !offset.is_multiple_of(SECTOR_BYTES))
        {
            let allowed = "at an offset of whole 512-byte sectors; a number without a unit is bytes, so write 100g for 100 GiB";
            return refuse(&format!("{device}@{bytes}"), allowed);
        }
        let Self::Placed(names) = self else { return Ok(()) };
        if names.is_empty() {
            return refuse("[]", "at least one device, such as [\"web.0@0\"]");
        }
        for (at, name) in names.iter().enumerate() {
            let Some((device, _)) = offset(name) else {
                return refuse(name, "a device with its offset on the drive, such as web.1@100g");
            };
            if names[..at].iter().any(|other| offset(other).is_some_and(|(other, _)| other == device)) {
                return refuse(name, "a device that is not in the list yet");
            }
        }
        Ok(())
    }
}

/// Splits "web.1@100g" into the device and its offset in bytes.
fn offset(name: &str) -> Option<(&str, u64)> {
    let (device, offset) = name.rsplit_once('@')?;
    Some((device, u64::try_from(parse_size(offset)?).ok()?))
}

impl JsonSchema for Devices {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Devices".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "array"],
            "items": { "type": "string" },
            "description": "a device, \"all\", or a list of devices with their offsets such as [\"web.0@0\", \"web.1@100g\"]",
        })
    }
}
