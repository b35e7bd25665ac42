//! Which start of an agent this is: the boot of its machine, and how long after that it was started. Setting a clock
//! has no effect on it.

/// Bits that are milliseconds since the boot: 34 years. Those above name the boot.
const TIME_BITS: u32 = 40;

/// The incarnation of an agent that starts now. `boot_id` is the kernel's name for the machine's boot.
pub fn incarnation(boot_id: &str, since_boot_ms: u64) -> u64 {
    // FNV-1a: two boots of one name are no harm, as then the later start counts.
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
