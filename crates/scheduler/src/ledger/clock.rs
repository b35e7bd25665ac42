//! The clocks of the ledger.

use crate::time::Millis;

/// Both clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clock {
    /// The scheduler's clock.
    pub now: Millis,
    /// The wall clock: milliseconds since 1970.
    pub unix_ms: u64,
}
