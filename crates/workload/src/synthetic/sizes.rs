//! Requests of several sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Lba, Prng, Request, SECTOR_BYTES, State};

/// A size of requests, and how many have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockShare {
    /// Bytes of these requests, a multiple of 512 from 512 on.
    #[schemars(range(min = 512), extend("multipleOf" = 512))]
    pub block_bytes: u32,
    /// Their share of all requests in per cent. Greater than 0; those of all sizes add up to 100.
    #[schemars(range(max = 100.0), extend("exclusiveMinimum" = 0.0))]
    pub percent: f64,
}

/// Gives each request of a stream its size. Its slots have the smallest one.
#[derive(Clone, Debug, State)]
pub(super) struct Sizes {
    /// Sectors, and the probability of this size or one before it; ascending to 1.
    #[state(skip)]
    sizes: Vec<(u32, f64)>,
    /// Sectors of the range: first, and behind the last.
    #[state(skip)]
    first_sector: u64,
    #[state(skip)]
    end_sector: u64,
    /// Start of the next request, if requests are sequential.
    cursor: Option<u64>,
    draws: Prng,
}

impl Sizes {
    /// Sizes by `split`, of which none is larger than the range from `first_sector` to `end_sector`.
    pub(super) fn new(
        split: &[BlockShare],
        (first_sector, end_sector): (u64, u64),
        is_sequential: bool,
        seed: u64,
    ) -> Self {
        let mut sum = 0.0;
        let sizes = split.iter().map(|share| {
            sum += share.percent / 100.0;
            ((u64::from(share.block_bytes) / SECTOR_BYTES) as u32, sum)
        });
        Self {
            sizes: sizes.collect(),
            first_sector,
            end_sector,
            cursor: is_sequential.then_some(first_sector),
            draws: Prng::derive(seed, "workload size"),
        }
    }

    /// Gives sizes to `batch`. A request that would leave the range begins so much earlier that it ends with it; one
    /// that follows another begins at the start of the range instead.
    pub(super) fn apply(&mut self, batch: &mut [Request]) {
        for request in batch {
            let draw = self.draws.unit();
            let found = self.sizes.iter().find(|(_, up_to)| draw < *up_to).or(self.sizes.last());
            let sectors = found.map_or(request.sectors, |&(sectors, _)| sectors);
            let last_start = self.end_sector - u64::from(sectors);
            let start = match &mut self.cursor {
                Some(cursor) => {
                    let start = if *cursor > last_start { self.first_sector } else { *cursor };
                    *cursor = start + u64::from(sectors);
                    start
                }
                None => request.lba.get().min(last_start),
            };
            (request.lba, request.sectors) = (Lba::new(start), sectors);
        }
    }
}
