//! A small seeded generator for simulation, sampling and back-off. Not for secrets.

/// A generator of pseudo-random numbers, fully determined by its seed.
///
/// Source: xoshiro256** 1.0 (Blackman, Vigna: "Scrambled linear pseudorandom number generators",
/// ACM TOMS 47, 2021), its state filled by SplitMix64 (Steele, Lea, Flood: OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Makes the generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        Self { state: core::array::from_fn(|_| split_mix(&mut counter)) }
    }

    /// Makes an independent generator for one purpose of the same seed.
    ///
    /// Each effect draws from its own stream of numbers, so that switching one on does not change another.
    #[must_use]
    pub fn for_purpose(seed: u64, purpose: &str) -> Self {
        // FNV-1a (Fowler, Noll, Vo) over the purpose's name keeps purposes apart.
        let hash = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self::new(seed ^ hash)
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Returns a number in `0..bound`, uniformly distributed to within 2⁻⁶⁴.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of a product fits into 64 bits")
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exactly what an f64 holds")]
        let bits = (self.next_u64() >> 11) as f64;
        bits / 9_007_199_254_740_992.0
    }

    /// Returns `true` with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

fn split_mix(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *counter;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let mut first = Random::new(7);
        let mut second = Random::new(7);
        assert!((0..100).all(|_| first.next_u64() == second.next_u64()));
    }

    #[test]
    fn purposes_of_one_seed_are_independent() {
        let mut loss = Random::for_purpose(7, "loss");
        let mut delay = Random::for_purpose(7, "delay");
        assert_ne!(loss.next_u64(), delay.next_u64());
    }

    #[test]
    fn split_mix_matches_its_published_first_value() {
        // First output for seed 1234567, as in the reference implementation's test vectors.
        assert_eq!(split_mix(&mut 1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn chance_keeps_its_probability() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(0.01)).count();
        assert!((900..1_100).contains(&hits), "1 % of 100,000 gave {hits}");
        assert!(!random.chance(0.0));
        assert!(random.chance(1.0));
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut random = Random::new(3);
        assert!((0..10_000).all(|_| random.below(7) < 7));
    }
}
