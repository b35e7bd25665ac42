//! Helpers of all tests of devices.

pub(crate) mod fake;
