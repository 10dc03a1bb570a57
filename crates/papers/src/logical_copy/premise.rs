//! The paper's premise: small random writes cannot use all banks of the drive.

use strobe_lab::RunError;
use strobe_ssd::{DriveConfig, HostQueue, Pacing, build};
use strobe_types::{Lba, Op, Prng, Request, SimTime};

use super::{MODELS, Model};
use crate::{Figure, Options, PaperError, Row, View};

/// Random update and long sequential write, in sectors.
const UPDATE: u32 = 32;
const LONG: u32 = 256;
/// Bytes written in each test, too few for collection.
const BYTES: u64 = 128 << 20;
const DEPTH: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Premise {
    pub(super) model: Model,
    random_mb_s: f64,
    sequential_mb_s: f64,
}

impl Premise {
    /// Speed of random updates as a share of long sequential writes.
    pub(super) fn share(&self) -> f64 {
        self.random_mb_s / self.sequential_mb_s
    }
}

fn requests(sectors: u32, drive_sectors: u64, seed: u64, is_random: bool) -> Vec<Request> {
    let mut rng = Prng::derive(seed, "premise");
    let places = drive_sectors / u64::from(sectors);
    (0..BYTES / 512 / u64::from(sectors))
        .map(|at| if is_random { rng.below_u64(places) } else { at })
        .map(|at| Request::new(Op::Write, Lba::new(at * u64::from(sectors)), sectors))
        .collect()
}

fn speed(config: &DriveConfig, requests: &[Request], seed: u64) -> Result<f64, RunError> {
    let mut drive = build(config, true, seed)?;
    let mut queue = HostQueue::new(Pacing::Closed { depth: DEPTH, interval_ns: 0 }, SimTime::ZERO);
    drive.run(requests, &[], &mut queue).map_err(|(_, error)| RunError::Command(error))?;
    Ok(BYTES as f64 * 1e3 / queue.finished().as_ns() as f64)
}

pub(super) fn measure(options: &Options) -> Result<Vec<Premise>, PaperError> {
    let failed = |error: RunError| PaperError::Run { run: "premise".to_owned(), error: Box::new(error) };
    MODELS
        .into_iter()
        .map(|model| {
            let config = crate::drive(model.preset, options, |drive| {
                drive.ftl.durable_map = model.map.unwrap_or(drive.ftl.durable_map);
                (drive.nand.blocks_per_plane, drive.ftl.logical_pages) = (140, Some(262_144));
            })?;
            let sectors = config.logical_bytes() / 512;
            let of = |sectors_each, is_random| {
                let requests = requests(sectors_each, sectors, options.seed, is_random);
                speed(&config, &requests, options.seed).map_err(failed)
            };
            Ok(Premise { model, random_mb_s: of(UPDATE, true)?, sequential_mb_s: of(LONG, false)? })
        })
        .collect()
}

pub(super) fn figure(premises: &[Premise]) -> Figure {
    let mut rows = Vec::new();
    for premise in premises {
        for (quantity, unit, value) in [
            ("random, 16 KB", "MB/s", premise.random_mb_s),
            ("sequential, 128 KB", "MB/s", premise.sequential_mb_s),
            ("random over sequential", "times", premise.share()),
        ] {
            rows.push(Row::new(
                &[("quantity", quantity), ("model", premise.model.name), ("unit", unit)],
                Some(value),
            ));
        }
    }
    Figure::new(
        "premise",
        "writes to a new drive at queue depth 32",
        View::Table { down: &["quantity"], across: "model" },
        rows,
    )
    .noted("shipped firmware: the address of a page decides its bank, and a page for a busy bank blocks all pages after it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;
    use crate::logical_copy::SHIPPED;

    #[test]
    fn only_the_shipped_firmware_is_slow_at_random() {
        for premise in measure(&Options::new(Scale::Tiny, 1)).expect("runs") {
            let expected = if premise.model == SHIPPED { 0.2..0.7 } else { 0.85..1.1 };
            assert!(expected.contains(&premise.share()), "{premise:?}");
        }
    }
}
