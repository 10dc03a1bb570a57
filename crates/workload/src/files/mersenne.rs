const LENGTH: usize = 624;
const MIDDLE: usize = 397;

/// MT19937 with the seeding of its authors' version of October 1999, replaced in 2002.
#[derive(Clone, Debug)]
pub(super) struct Mersenne {
    state: [u32; LENGTH],
    next: usize,
}

impl Mersenne {
    pub(super) fn new(mut seed: u32) -> Self {
        let mut upper_half = || {
            let half = seed >> 16;
            seed = seed.wrapping_mul(69069).wrapping_add(1);
            half
        };
        // Each word has two upper halves of a linear congruential sequence.
        let state = std::array::from_fn(|_| upper_half() << 16 | upper_half());
        Self { state, next: LENGTH }
    }

    pub(super) fn bits(&mut self) -> u32 {
        if self.next == LENGTH {
            for i in 0..LENGTH {
                let joined = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % LENGTH] & 0x7fff_ffff);
                let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + MIDDLE) % LENGTH] ^ (joined >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut bits = self.state[self.next];
        self.next += 1;
        bits ^= bits >> 11;
        bits ^= (bits << 7) & 0x9d2c_5680;
        bits ^= (bits << 15) & 0xefc6_0000;
        bits ^ (bits >> 18)
    }

    /// PostMark's `RND(bound)`: the remainder by `bound`, slightly biased. `bound` must not be 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.bits() % bound
    }
}
