//! Counts of the ledger.

use crate::effect::EndCause;
use serde::{Deserialize, Deserializer, Serialize};

/// Counts since the ledger began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Jobs that started.
    pub started: u64,
    /// Jobs that ended, by [`EndCause::index`].
    #[serde(deserialize_with = "counts")]
    pub ended: [u64; EndCause::WORDS.len()],
}

/// Reads counts by cause. A release with fewer causes has written fewer counts.
fn counts<'de, D: Deserializer<'de>>(reader: D) -> Result<[u64; EndCause::WORDS.len()], D::Error> {
    let saved = Vec::deserialize(reader)?;
    let mut counts = [0; EndCause::WORDS.len()];
    for (count, saved) in counts.iter_mut().zip(saved) {
        *count = saved;
    }
    Ok(counts)
}
