//! What jobs are charged.

use serde::{Deserialize, Serialize};

/// The charge of a job for each unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Thousandths of devices.
    pub milli: u64,
    /// The same times the billing weights of their classes: millionths of devices.
    pub billed: u64,
}

/// The exact sum of an account's charges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Thousandths of devices times milliseconds.
    pub milli_ms: u128,
    /// The same times the billing weights of the classes in thousandths: millionths of a device for a millisecond.
    pub billed: u128,
}

impl Usage {
    /// Adds what a rate amounts to in a time.
    pub(crate) fn add(&mut self, rate: Rate, ms: u64) {
        self.milli_ms += u128::from(rate.milli) * u128::from(ms);
        self.billed += u128::from(rate.billed) * u128::from(ms);
    }
}
