//! The setting of the host memory for suspended jobs.

use accord_types::settings::parse_bytes;
use std::str::FromStr;

/// The word behind the bytes of memory that the agent keeps from its start on.
const KEPT: &str = ",kept";
/// The least memory that can be kept, a large page. Files of kept memory have whole ones.
pub(crate) const KEPT_MIN: u64 = 2 << 20;

/// The host memory that suspended jobs may take together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuspendMemory {
    /// The most bytes.
    pub bytes: u64,
    /// Whether the agent takes them at its start.
    pub is_kept: bool,
}

impl FromStr for SuspendMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (bytes, is_kept) = text.strip_suffix(KEPT).map_or((text, false), |bytes| (bytes, true));
        let bytes = parse_bytes(bytes)
            .ok_or_else(|| "a number of bytes such as 512M or 2G is needed, with ,kept behind it if the agent takes them at its start".to_owned())?;
        if is_kept && bytes < KEPT_MIN {
            return Err("at least 2M can be kept".to_owned());
        }
        Ok(Self { bytes, is_kept })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_may_be_kept() {
        assert_eq!("2G".parse(), Ok(SuspendMemory { bytes: 2 << 30, is_kept: false }));
        assert_eq!("3M,kept".parse(), Ok(SuspendMemory { bytes: 3 << 20, is_kept: true }));
        for text in ["", ",kept", "1K,kept", "2G, kept", "2G,locked", "two"] {
            assert!(text.parse::<SuspendMemory>().is_err(), "{text}");
        }
    }
}
