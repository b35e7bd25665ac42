//! What the tests of devices share.

pub(crate) mod fake;
