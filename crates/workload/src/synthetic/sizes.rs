use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Lba, Prng, Request, SECTOR_BYTES, State};

use super::draw::{CURSORS, cursor};
use super::map::RandomMap;

/// A request size and its share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockShare {
    /// Request size in bytes, a multiple of 512, at least 512.
    #[schemars(range(min = 512), extend("multipleOf" = 512))]
    pub block_bytes: u32,
    /// Share of all requests in per cent. Greater than 0; the shares add up to 100.
    #[schemars(range(max = 100.0), extend("exclusiveMinimum" = 0.0))]
    pub percent: f64,
}

#[derive(Clone, Debug, State)]
pub(super) struct Sizes {
    /// Sectors and cumulative probability, ascending to 1.
    #[state(skip)]
    sizes: Vec<(u32, f64)>,
    #[state(skip)]
    first_sector: u64,
    #[state(skip)]
    end_sector: u64,
    next: Option<[u64; CURSORS]>,
    draws: Prng,
}

impl Sizes {
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
            next: is_sequential.then_some([first_sector; CURSORS]),
            draws: Prng::derive(seed, "workload size"),
        }
    }

    pub(super) fn apply(&mut self, batch: &mut [Request]) {
        for request in batch {
            let sectors = self.draw(request);
            let last_start = self.end_sector - u64::from(sectors);
            // A random request that would cross the end of the range begins earlier and ends with the range;
            // a sequential one is shortened.
            (request.lba, request.sectors) = match &mut self.next {
                Some(next) => {
                    let next = &mut next[cursor(request.op)];
                    let (start, end) = (*next, (*next + u64::from(sectors)).min(self.end_sector));
                    *next = if end == self.end_sector { self.first_sector } else { end };
                    (Lba::new(start), (end - start) as u32)
                }
                None => (Lba::new(request.lba.get().min(last_start)), sectors),
            };
        }
    }

    pub(super) fn apply_mapped(&mut self, request: &mut Request, slot: u32, map: &mut RandomMap) {
        let (drawn, slot_sectors) = (self.draw(request), request.sectors);
        // The request ends before the next visited slot.
        let slots = 1 + map.visit_run(slot + 1, drawn.div_ceil(slot_sectors) - 1);
        request.sectors = drawn.min(slots * slot_sectors);
    }

    fn draw(&mut self, request: &Request) -> u32 {
        let draw = self.draws.unit();
        let found = self.sizes.iter().find(|(_, up_to)| draw < *up_to).or(self.sizes.last());
        found.map_or(request.sectors, |&(sectors, _)| sectors)
    }
}
