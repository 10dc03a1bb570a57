//! When the requests of a generator come: rates that change, arrivals at random, pauses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use strobe_types::{defaults, is_one};
use strobe_workload::arrivals::{RatePoint, RateProcess};
use toml::{Table, Value};

use super::time::Time;

/// A point of a rate that changes with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateAt {
    /// Time since the job began.
    pub at: Time,
    /// Requests per second from here on.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub iops: u32,
}

defaults! {
    /// When requests come, beyond a constant rate.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct PaceConfig {
        /// Arrival process of rate_iops or rate_points: at equal distances (linear), or independent with
        /// exponential gaps (poisson). Default linear. fio: `rate_process`.
        #[serde(skip_serializing_if = "is_linear")]
        pub rate_process: RateProcess = RateProcess::Linear;
        /// A rate that changes: a list of points, each a time since the job began and requests per second. Between two
        /// points the rate goes in a straight line (a ramp), two points at one time are a step (a burst), behind the
        /// last it stays. Instead of rate_iops. Default none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub rate_points: Vec<RateAt> = Vec::new();
        /// The points of rate_points begin again after so long, which is later than the last one. Default: they do not.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rate_repeat: Option<Time> = None;
        /// Pause of the job after every thinktime_blocks requests, from when all it has issued are complete. Default
        /// none. fio: `thinktime`, which has no unit there and means microseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub thinktime: Option<Time> = None;
        /// Requests between two pauses. Default 1, which makes a larger queue_depth useless. fio: `thinktime_blocks`.
        #[serde(skip_serializing_if = "is_one")]
        #[schemars(range(min = 1, max = 4_294_967_295u32))]
        pub thinktime_blocks: u32 = 1;
    }
}

fn is_linear(process: &RateProcess) -> bool {
    *process == RateProcess::Linear
}

impl PaceConfig {
    /// True if this is a plain closed loop without pauses.
    pub fn is_plain(&self) -> bool {
        self.rate_points.is_empty() && self.thinktime.is_none_or(|time| time.as_ns() == 0)
    }

    /// The points of a rate that changes.
    pub(crate) fn points(&self) -> Vec<RatePoint> {
        let point = |point: &RateAt| RatePoint { at_ns: point.at.as_ns(), iops: f64::from(point.iops) };
        self.rate_points.iter().map(point).collect()
    }

    /// Refuses what is no time, in the table that is to become one of these.
    pub(super) fn check_table(table: &Table, path: &str) -> Result<(), KeyError> {
        Time::check(table, &["thinktime", "rate_repeat"], path)?;
        let points = table.get("rate_points").and_then(Value::as_array).into_iter().flatten();
        for (number, point) in points.enumerate() {
            if let Some(point) = point.as_table() {
                Time::check(point, &["at"], &format!("{path}.rate_points[{number}]"))?;
            }
        }
        Ok(())
    }

    /// Refuses rates that say nothing, or two things.
    pub(super) fn check(&self, rate_iops: u32, path: &str) -> Result<(), KeyError> {
        let wrong = |key: &str, given: String, allowed: &str| {
            Err(KeyError::value(format!("{path}.{key}"), given, allowed, ""))
        };
        let Some(last) = self.rate_points.last() else { return Ok(()) };
        if rate_iops > 0 {
            let allowed = "left out, or rate_points left out: both say how many requests come";
            return wrong("rate_iops", rate_iops.to_string(), allowed);
        }
        if let Some(pair) = self.rate_points.windows(2).find(|pair| pair[0].at > pair[1].at) {
            let given = format!("\"{}\" behind \"{}\"", pair[1].at, pair[0].at);
            return wrong("rate_points", given, "points in ascending order of their times");
        }
        // Only what lasts has requests: points at one time are a step.
        let lasts = |at: usize| match self.rate_points.get(at + 1) {
            Some(next) => next.at > self.rate_points[at].at,
            None => true,
        };
        let comes = |at: usize| {
            let ramps_up = self.rate_points.get(at + 1).is_some_and(|next| next.iops > 0);
            lasts(at) && (self.rate_points[at].iops > 0 || ramps_up)
        };
        let leads_in = self.rate_points[0].at.as_ns() > 0 && self.rate_points[0].iops > 0;
        if !leads_in && !(0..self.rate_points.len()).any(comes) {
            return wrong(
                "rate_points",
                "no requests at any time".to_owned(),
                "a rate above 0 for some time",
            );
        }
        match self.rate_repeat {
            Some(repeat) if repeat <= last.at => {
                let allowed = format!("later than the last of rate_points, at \"{}\"", last.at);
                wrong("rate_repeat", format!("\"{repeat}\""), &allowed)
            }
            _ => Ok(()),
        }
    }
}
