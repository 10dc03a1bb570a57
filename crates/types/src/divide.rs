//! Exact division of 32-bit numbers by a divisor known only at run time.

/// A divisor prepared once, so each division costs one multiplication.
///
/// Blocks of 192, 384 or 1152 pages exist, so shifts cannot convert addresses. A hardware division would slow
/// every simulated program. Exact for every 32-bit dividend (Lemire, Kaser, Kurz 2019, "Faster remainder by
/// direct computation").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    divisor: u32,
    /// ceil(2^64 / divisor); 0 for a divisor of 1, where it would overflow.
    reciprocal: u64,
}

impl Divisor {
    /// Prepares `divisor`.
    ///
    /// # Panics
    /// If `divisor` is zero.
    pub const fn new(divisor: u32) -> Self {
        assert!(divisor != 0, "division by zero");
        let reciprocal = if divisor == 1 { 0 } else { u64::MAX / divisor as u64 + 1 };
        Self { divisor, reciprocal }
    }

    /// The divisor.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.divisor
    }

    /// `n / divisor`, rounded down.
    #[inline(always)]
    pub const fn quotient(self, n: u32) -> u32 {
        if self.reciprocal == 0 {
            return n;
        }
        ((self.reciprocal as u128 * n as u128) >> 64) as u32
    }

    /// `n % divisor`.
    #[inline(always)]
    pub const fn remainder(self, n: u32) -> u32 {
        n - self.quotient(n) * self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use proptest::prelude::*;

    #[test]
    fn agrees_with_hardware_division_at_the_edges() {
        let divisors = [1, 2, 3, 5, 7, 96, 192, 256, 384, 1152, u32::MAX / 2, u32::MAX - 1, u32::MAX];
        for d in divisors {
            let fast = Divisor::new(d);
            for n in [0, 1, d - 1, d, d.wrapping_add(1), u32::MAX - 1, u32::MAX] {
                assert_eq!(fast.quotient(n), n / d, "{n} / {d}");
                assert_eq!(fast.remainder(n), n % d, "{n} % {d}");
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_hardware_division(n: u32, d in 1u32..) {
            prop_assert_eq!(Divisor::new(d).quotient(n), n / d);
        }
    }
}
