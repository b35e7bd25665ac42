//! A plausibility check of secrets. No test can tell a good key from a known one. This one finds keys that were
//! invented, typed, or drawn where there are no random numbers.

/// Length of the shortest secret that can be judged.
const LEN_MIN: usize = 32;

/// Whether these bytes may have been drawn at random: they have many values, no even steps, no repetition, and are no
/// text. Rejects fewer than one in 10^13 random secrets of 32 bytes.
pub fn may_be_random(secret: &[u8]) -> bool {
    let many = |values: &mut dyn Iterator<Item = u8>| {
        let mut seen = [false; 256];
        values.for_each(|value| seen[usize::from(value)] = true);
        seen.iter().filter(|seen| **seen).count() > secret.len().min(256) * 3 / 8
    };
    let mut steps = secret.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    let repeats = (1..=secret.len() / 2).any(|period| secret[period..] == secret[..secret.len() - period]);
    let is_text = secret.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t'));
    secret.len() >= LEN_MIN && many(&mut secret.iter().copied()) && many(&mut steps) && !repeats && !is_text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_secrets_are_refused() {
        let counting: Vec<u8> = (0..32).collect();
        let in_threes: Vec<u8> = (0..48).map(|n| 200_u8.wrapping_sub(3 * n)).collect();
        let small = [&[0; 28][..], &[1, 2, 3, 4]].concat();
        let long_period: Vec<u8> = (0..32_u32).map(|n| (n % 16).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let text = b"correct horse battery staple, so";
        let hexadecimal = b"8d969eef6ecad3c29a3a629280e686cf";
        for made_up in [&[][..], &[9; 31], &[0; 32], &[0xff; 48], &counting, &in_threes, &small, &long_period] {
            assert!(!may_be_random(made_up), "{made_up:?}");
        }
        assert!(!may_be_random(text) && !may_be_random(hexadecimal));
    }

    /// Returns a number of splitmix64, which stands for a random source.
    fn drawn(seed: &mut u64) -> u8 {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 56) as u8
    }

    #[test]
    fn random_keys_are_accepted_and_repeating_ones_refused() {
        let mut seed = 7;
        for _ in 0..20_000 {
            for len in [32, 48, 66] {
                let key: Vec<u8> = (0..len).map(|_| drawn(&mut seed)).collect();
                assert!(may_be_random(&key), "{key:?}");
                let period = 1 + usize::from(drawn(&mut seed)) % len;
                let repeated: Vec<u8> = key[..period].iter().cycle().take(2 * period.max(16)).copied().collect();
                assert!(!may_be_random(&repeated), "{repeated:?}");
            }
        }
    }
}
