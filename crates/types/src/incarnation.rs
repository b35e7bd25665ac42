//! The incarnation of an agent: the boot of its machine, and the time from that boot to the agent's start. Setting a
//! clock does not change it.

/// Bits of the milliseconds since boot, enough for 34 years. The bits above identify the boot.
const TIME_BITS: u32 = 40;

/// Returns the incarnation of an agent that starts now. `boot_id` is the kernel's name for the machine's boot.
pub fn incarnation(boot_id: &str, since_boot_ms: u64) -> u64 {
    // FNV-1a. Colliding boots are harmless, because the later start then counts.
    let hash = boot_id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash >> TIME_BITS << TIME_BITS | since_boot_ms & ((1 << TIME_BITS) - 1)
}

/// Returns the part that is the same for all agents of one boot.
pub fn boot_of(incarnation: u64) -> u64 {
    incarnation >> TIME_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_starts_of_one_boot_are_higher_and_boots_differ() {
        let (first, second) = (incarnation("ab-1", 10), incarnation("ab-1", 11));
        assert!(first < second && boot_of(first) == boot_of(second));
        assert_ne!(boot_of(first), boot_of(incarnation("ab-2", 10)));
    }
}
