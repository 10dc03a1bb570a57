//! Seeded pseudo-random numbers, identical on every machine.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{StateError, StateReader, StateWriter, Stored};

/// xoshiro256++ seeded from one 64-bit number.
///
/// Each consumer (workload, policy, fault injector) owns a generator derived with [`Prng::derive`]. Enabling
/// one consumer thus does not change the numbers of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prng(Xoshiro256PlusPlus);

impl Prng {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// An independent generator for the consumer `name`.
    pub fn derive(seed: u64, name: &str) -> Self {
        // FNV-1a: stable, unlike std's hasher.
        let tag = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self::new(seed ^ tag)
    }

    /// 64 random bits.
    #[inline(always)]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform number in `0..bound`, without bias. A `bound` of 0 gives 0.
    #[inline(always)]
    pub fn below(&mut self, bound: u32) -> u32 {
        // Lemire 2019: multiply, and reject the few low products that would bias the result.
        let mut product = (self.bits() >> 32) * u64::from(bound);
        if (product as u32) < bound {
            let reject_below = bound.wrapping_neg() % bound.max(1);
            while (product as u32) < reject_below {
                product = (self.bits() >> 32) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }

    /// Uniform number in `0..bound`, without bias, for bounds beyond 32 bits.
    pub fn below_u64(&mut self, bound: u64) -> u64 {
        if let Ok(small) = u32::try_from(bound) {
            return u64::from(self.below(small));
        }
        // Lemire's method with a 128-bit product.
        let reject_below = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= reject_below {
                return (product >> 64) as u64;
            }
        }
    }

    /// Uniform number in `[0, 1)` with 53 random bits.
    #[inline(always)]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`; never for 0, always for 1.
    #[inline(always)]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

impl Stored for Prng {
    fn store(&self, out: &mut StateWriter<'_>) {
        out.put(&self.0.state());
    }

    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let mut state = [0; 32];
        from.take(&mut state)?;
        Ok(Self(Xoshiro256PlusPlus::from_seed(state)))
    }
}

/// A fixed permutation of `0..n`, if `stride` and `n` are coprime.
///
/// Workloads rank addresses by popularity. The permutation spreads neighbouring ranks over the whole drive,
/// like the hash of fio, but without collisions.
#[inline(always)]
pub fn scatter(rank: u32, n: u32, stride: u32) -> u32 {
    ((u64::from(rank) * u64::from(stride)) % u64::from(n.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs for the state from SplitMix64(0). A change here changes every published result.
    #[test]
    fn stream_of_seed_zero_is_frozen() {
        let mut rng = Prng::new(0);
        let got: Vec<u64> = (0..3).map(|_| rng.bits()).collect();
        assert_eq!(got, [0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc]);
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut rng = Prng::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[rng.below(10) as usize] += 1;
        }
        for count in seen {
            assert!((9_500..10_500).contains(&count), "{seen:?}");
        }
        assert_eq!(rng.below(1), 0);
        assert!(rng.below_u64(1 << 40) < 1 << 40);
    }

    #[test]
    fn consumers_get_different_streams() {
        assert_ne!(Prng::derive(1, "workload").bits(), Prng::derive(1, "victim").bits());
    }
}
