//! Identifiers of the scheduler. Those of nodes and devices are in `accord-types`.

use std::fmt;

/// A job, numbered by the scheduler in the order of requests, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A reservation, numbered by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReservationId(pub u64);

/// The position of an account in [`crate::policy::Policy::accounts`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AccountId(pub u32);

impl AccountId {
    /// The root of the tree: the site.
    pub const SITE: Self = Self(0);

    /// Returns the position.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A class of equal devices, numbered by the scheduler in the order of their first appearance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u16);

impl ClassId {
    /// Returns the number as a position in a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
