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
    /// Requests per second at that time.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub iops: u32,
}

defaults! {
    /// Varying arrival rates, arrival processes and pauses.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct PaceConfig {
        /// Arrival process of rate_iops or rate_points: at equal distances (linear), or independent with
        /// exponential gaps (poisson). Default linear. fio: `rate_process`.
        #[serde(skip_serializing_if = "is_linear")]
        #[schemars(extend("x-needs" = {"rate_iops": "set", "rate_points": "set"}))]
        pub rate_process: RateProcess = RateProcess::Linear;
        /// A varying rate: a list of points, each with the time since the job began (at) and requests per
        /// second (iops). Between two points the rate is interpolated linearly (a ramp); two points at the
        /// same time are a step (a burst). After the last point the rate is constant. Excludes rate_iops.
        /// Default none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub rate_points: Vec<RateAt> = Vec::new();
        /// Period after which rate_points start again; longer than the time of the last point. Default: no
        /// repetition.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-needs" = {"rate_points": "set"}))]
        pub rate_repeat: Option<Time> = None;
        /// Pause of the job after every thinktime_blocks requests. It starts when all issued requests are
        /// complete. Default none. fio: `thinktime`, whose bare numbers are microseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub thinktime: Option<Time> = None;
        /// Requests between two pauses. Limits the requests outstanding, so the default makes a queue_depth
        /// above 1 useless. Default 1. fio: `thinktime_blocks`.
        #[serde(skip_serializing_if = "is_one")]
        #[schemars(range(min = 1, max = 4_294_967_295u32))]
        #[schemars(extend("x-needs" = {"thinktime": "set"}))]
        pub thinktime_blocks: u32 = 1;
    }
}

fn is_linear(process: &RateProcess) -> bool {
    *process == RateProcess::Linear
}

impl PaceConfig {
    /// True without a varying rate and without pauses.
    pub fn is_plain(&self) -> bool {
        self.rate_points.is_empty() && self.thinktime.is_none_or(|time| time.as_ns() == 0)
    }

    pub(crate) fn points(&self) -> Vec<RatePoint> {
        let point = |point: &RateAt| RatePoint { at_ns: point.at.as_ns(), iops: f64::from(point.iops) };
        self.rate_points.iter().map(point).collect()
    }

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

    pub(super) fn check(&self, rate_iops: u32, path: &str) -> Result<(), KeyError> {
        let wrong = |key: &str, given: String, allowed: &str| {
            Err(KeyError::value(format!("{path}.{key}"), given, allowed, ""))
        };
        let Some(last) = self.rate_points.last() else { return Ok(()) };
        if rate_iops > 0 {
            let allowed = "left out, or rate_points left out: both set the request rate";
            return wrong("rate_iops", rate_iops.to_string(), allowed);
        }
        if let Some(pair) = self.rate_points.windows(2).find(|pair| pair[0].at > pair[1].at) {
            let given = format!("\"{}\" behind \"{}\"", pair[1].at, pair[0].at);
            return wrong("rate_points", given, "points in ascending order of their times");
        }
        // Points at the same time are a step. Only the last of them lasts for some time and can give
        // requests.
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
