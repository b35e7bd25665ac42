//! Charges of jobs.

use serde::{Deserialize, Serialize};

/// The charge of a job per millisecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Thousandths of devices.
    pub milli: u64,
    /// Thousandths of devices times the billing weights of their classes: millionths of devices.
    pub billed: u64,
}

/// The exact sum of charges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Thousandths of devices times milliseconds.
    pub milli_ms: u128,
    /// The billed usage, with weights in thousandths: millionths of devices times milliseconds.
    pub billed: u128,
}

impl Usage {
    /// Adds the charge of a rate over a time.
    pub(crate) fn add(&mut self, rate: Rate, ms: u64) {
        self.milli_ms += u128::from(rate.milli) * u128::from(ms);
        self.billed += u128::from(rate.billed) * u128::from(ms);
    }

    /// Subtracts other usage, down to none. Returns the rest of the other usage.
    pub(crate) fn subtract(&mut self, other: Self) -> Self {
        let rest = Self {
            milli_ms: other.milli_ms.saturating_sub(self.milli_ms),
            billed: other.billed.saturating_sub(self.billed),
        };
        self.milli_ms = self.milli_ms.saturating_sub(other.milli_ms);
        self.billed = self.billed.saturating_sub(other.billed);
        rest
    }
}
