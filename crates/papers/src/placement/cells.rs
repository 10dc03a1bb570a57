//! Write sequences used with published code, drawn from splitmix64 so that any program can reproduce them.
//!
//! 1. Two generators start at `seed` and `seed + 1000`.
//! 2. The first shuffles the addresses; the second draws ranks.
//! 3. Every address is written once in order, then the measured writes follow.

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    seed: u64,
    draw: Draw,
}

#[derive(Clone, Copy, Debug)]
enum Draw {
    Zipf(f64),
    /// Zipf of exponent 1. The first fifth of the ranks is reshuffled each time a hundredth of all addresses
    /// was written.
    Shifting,
    /// Nine of ten writes hit the first tenth of the ranks.
    HotCold,
    Uniform,
}

pub(super) const CELLS: [Cell; 5] = [
    Cell { name: "Z08", what: "zipf 0.8", seed: 108, draw: Draw::Zipf(0.8) },
    Cell { name: "Z10", what: "zipf 1.0", seed: 110, draw: Draw::Zipf(1.0) },
    Cell { name: "H90", what: "90 % of writes to 10 %", seed: 190, draw: Draw::HotCold },
    Cell { name: "S10", what: "zipf 1.0, shifting", seed: 210, draw: Draw::Shifting },
    Cell { name: "U", what: "uniform", seed: 101, draw: Draw::Uniform },
];

pub(super) const SSD_IQ: [Cell; 3] = [
    Cell { name: "2r U", what: "uniform", seed: 401, draw: Draw::Uniform },
    Cell { name: "2r Z08", what: "zipf 0.8", seed: 408, draw: Draw::Zipf(0.8) },
    Cell { name: "2r H90", what: "90 % of writes to 10 %", seed: 490, draw: Draw::HotCold },
];

pub(super) const MIDAS: [Cell; 2] = [
    Cell { name: "MiDAS Z10", what: "zipf 1.0", seed: 310, draw: Draw::Zipf(1.0) },
    Cell { name: "MiDAS H90", what: "90 % of writes to 10 %", seed: 390, draw: Draw::HotCold },
];

pub(super) struct SplitMix(u64);

impl SplitMix {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Next number in [0, 1).
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn shuffle(&mut self, addresses: &mut [u32]) {
        for at in (1..addresses.len()).rev() {
            addresses.swap(at, self.below(at + 1));
        }
    }
}

/// Addresses of a cell after the fill.
pub(super) struct Addresses {
    places: SplitMix,
    ranks: SplitMix,
    draw: Draw,
    /// Address of each rank.
    address: Vec<u32>,
    /// Cumulative weights of the ranks; empty without weights.
    sums: Vec<f64>,
    drawn: usize,
}

impl Cell {
    pub(super) fn addresses(&self, addresses: u32) -> Addresses {
        let mut places = SplitMix(self.seed);
        let mut address: Vec<u32> = (0..addresses).collect();
        places.shuffle(&mut address);
        let exponent = match self.draw {
            Draw::Zipf(exponent) => Some(exponent),
            Draw::Shifting => Some(1.0),
            Draw::HotCold | Draw::Uniform => None,
        };
        let mut sum = 0.0;
        let weighed = |exponent| {
            let weight = |rank: u32| 1.0 / libm::pow(f64::from(rank + 1), exponent);
            let sums = (0..addresses).map(|rank| {
                sum += weight(rank);
                sum
            });
            sums.collect()
        };
        let sums = exponent.map_or_else(Vec::new, weighed);
        let ranks = SplitMix(self.seed + 1000);
        Addresses { places, ranks, draw: self.draw, address, sums, drawn: 0 }
    }
}

impl Iterator for Addresses {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let addresses = self.address.len();
        let rank = match self.draw {
            Draw::Zipf(_) | Draw::Shifting => {
                let x = self.ranks.fraction() * self.sums.last()?;
                self.sums.partition_point(|&sum| sum <= x).min(addresses - 1)
            }
            Draw::HotCold => {
                let hot = addresses / 10;
                if self.ranks.fraction() < 0.9 {
                    self.ranks.below(hot)
                } else {
                    hot + self.ranks.below(addresses - hot)
                }
            }
            Draw::Uniform => self.ranks.below(addresses),
        };
        // Reshuffle between draws, so that the hottest ranks move to other addresses.
        if let Draw::Shifting = self.draw
            && self.drawn > 0
            && self.drawn.is_multiple_of(addresses / 100)
        {
            self.places.shuffle(&mut self.address[..addresses / 5]);
        }
        self.drawn += 1;
        Some(self.address[rank])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Sums over the first 200,000 writes of files with the MD5 of those used with the published code.
    #[test]
    fn cells_are_those_that_the_simulators_have_seen() {
        let sums = CELLS.map(|cell| {
            let addresses = cell.addresses(1 << 18).take(200_000);
            addresses.zip(1..).map(|(address, number)| u64::from(address) * number).sum::<u64>()
        });
        let of_files =
            [2605556582029786, 2572173688375068, 2615627148956861, 2646466805581122, 2621126257576038];
        assert_eq!(sums, of_files);
    }
}
