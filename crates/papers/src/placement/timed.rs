//! Latencies of the schemes on a drive with timing: effect of a lower write amplification.
//!
//! Requests arrive in an open loop at the same rate for every scheme, so a slow drive does not lower its
//! load. A scheme with fewer copies leaves more die time to the host.

use serde::{Deserialize, Serialize};
use strobe_lab::points::{Stoppable, Watch};
use strobe_lab::{
    Amount, Experiment, HostConfig, PaceConfig, RunConfig, SyntheticWorkload, WorkloadConfig, runner,
};
use strobe_ssd::SchemeName;
use strobe_workload::arrivals::RateProcess;
use strobe_workload::synthetic::{Kind, SyntheticConfig};

use super::{SCHEMES, Scheme};
use crate::{Figure, Options, PaperError, Row, Scale, View};

/// Preset modelled on a real drive; only a share of its dies is simulated.
const PRESET: &str = "p5520-like";
/// Dies of the preset per simulated die.
const SHARE: u32 = 8;

const VICTIMS: [&str; 3] = ["greedy", "cost-benefit", "(1-u)/u*sqrt(age_closed)"];

#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    scheme: &'static str,
    victim: &'static str,
    hash: String,
    #[serde(skip)]
    experiment: Experiment,
}

/// Write amplification, and latencies from arrival in ns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Timing {
    waf: Option<f64>,
    read_p99: Option<u64>,
    read_p99_9: Option<u64>,
    write_p99: Option<u64>,
}

impl Point {
    pub(super) fn all(options: &Options) -> Result<Vec<Self>, PaperError> {
        let mut points = Vec::new();
        for victim in VICTIMS {
            for scheme in SCHEMES {
                // FK needs the future writes, which are unknown with a generator.
                if scheme.scheme != SchemeName::Fk {
                    points.push(Self::new(options, scheme, victim)?);
                }
            }
        }
        Ok(points)
    }

    fn new(options: &Options, scheme: Scheme, victim: &'static str) -> Result<Self, PaperError> {
        let (blocks, pages, warmup, measure) = match options.scale {
            Scale::Full => (256, 288, 3.0, 1.0),
            Scale::Quick => (256, 96, 2.0, 0.5),
            Scale::Tiny => (256, 12, 0.5, 0.25),
        };
        let mut capacity_share = 0.0;
        let drive = crate::drive(PRESET, options, |drive| {
            let of_preset = f64::from(drive.nand.blocks_per_plane) * f64::from(drive.nand.pages_per_block);
            capacity_share = f64::from(blocks) * f64::from(pages) / of_preset / f64::from(SHARE);
            drive.nand.channels = 2;
            drive.nand.dies_per_channel = 2;
            drive.nand.blocks_per_plane = blocks;
            drive.nand.pages_per_block = pages;
            let units = f64::from(drive.ftl.logical_pages.unwrap_or_default());
            drive.ftl.logical_pages = Some((units * capacity_share) as u32);
            // Shared resources shrink with the dies, or each die would have more than in the real drive.
            drive.ftl.gc.victims /= SHARE;
            drive.ftl.gc.victim = victim.to_owned();
            drive.ftl.gc.stream = scheme.stream;
            drive.ftl.placement.scheme = scheme.scheme.into();
            drive.controller.write_buffer_bytes /= u64::from(SHARE);
            drive.controller.write_throttle_ns *= u64::from(SHARE);
        })?;
        let generator = SyntheticConfig {
            kind: Kind::Zipf,
            theta: 1.0,
            write_fraction: 0.3,
            ..SyntheticConfig::default()
        };
        let host = HostConfig { queue_depth: 64, rate_iops: 12_000, ..HostConfig::default() };
        let pace = PaceConfig { rate_process: RateProcess::Poisson, ..PaceConfig::default() };
        let workload = SyntheticWorkload { generator, host, pace };
        let run = RunConfig {
            warmup: Amount::Capacities(warmup),
            measure: Some(Amount::Capacities(measure)),
            ..RunConfig::default()
        };
        let experiment = Experiment::new(drive, WorkloadConfig::Synthetic(workload));
        let experiment = Experiment { seed: options.seed, run, ..experiment };
        Ok(Self { scheme: scheme.label, victim, hash: experiment.config_hash(), experiment })
    }

    pub(super) fn measure(&self, watch: &dyn Watch) -> Result<Timing, PaperError> {
        let result = runner::run(&self.experiment, &mut Stoppable(watch)).map_err(|error| {
            PaperError::Run { run: format!("{} {}", self.scheme, self.victim), error: Box::new(error) }
        })?;
        let job = result.jobs.first();
        let read = |percentile: &str| job.and_then(|job| job.read.lat_ns.as_ref()?.percentile(percentile));
        let write_p99 = job.and_then(|job| job.write.lat_ns.as_ref()?.percentile("99.000000"));
        Ok(Timing { waf: result.waf, read_p99: read("99.000000"), read_p99_9: read("99.900000"), write_p99 })
    }
}

pub(super) fn figure(points: &[Point], timings: &[Timing]) -> Figure {
    let mut rows = Vec::new();
    for (point, timing) in points.iter().zip(timings) {
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        for (quantity, value) in [
            ("write amplification", timing.waf),
            ("read p99, µs", us(timing.read_p99)),
            ("read p99.9, µs", us(timing.read_p99_9)),
            ("write p99, µs", us(timing.write_p99)),
        ] {
            let at = [("victim", point.victim), ("scheme", point.scheme), ("quantity", quantity)];
            rows.push(Row::new(&at, value));
        }
    }
    Figure::new(
        "latency",
        "write amplification and latency under the same load, on a drive modelled on a D7-P5520",
        View::Table { down: &["victim", "scheme"], across: "quantity" },
        rows,
    )
    .noted(
        "not in the paper: an eighth of the dies, with smaller blocks; 12,000 requests a second at random times, zipf \
         1.0, 30 % writes; latency from arrival",
    )
}
