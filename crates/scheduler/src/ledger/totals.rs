//! Counts of the ledger.

use crate::effect::EndCause;
use serde::{Deserialize, Serialize};

/// Counts since the ledger began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Jobs that started.
    pub started: u64,
    /// Jobs that ended, by [`EndCause::index`].
    pub ended: [u64; EndCause::WORDS.len()],
}
