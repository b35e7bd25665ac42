//! The coordinator's state over restarts: the last value of each key, in a file or in etcd.
//!
//! A [`Store`] knows keys and values only: what they mean is the core's ([`accord_cluster::Record`]).

mod clock;
mod error;
mod etcd_changes;
mod etcd_store;
#[cfg(test)]
mod etcd_tests;
mod file;
mod file_store;
mod format;
mod location;
#[cfg(test)]
mod tests;
mod uptime;

pub use error::StoreError;
pub use etcd_store::{EtcdStore, Leadership};
pub use file_store::FileStore;
pub use location::StateLocation;

use accord_cluster::{Millis, Records, Restart};
use std::collections::BTreeMap;

/// Changes of keys, each with its last value.
pub type Changes = BTreeMap<String, Option<Vec<u8>>>;

/// Storage of records.
pub trait Store: Send {
    /// Makes changes durable, all or none of them. `unix_ms` is the wall clock.
    ///
    /// # Errors
    /// Returns why they are not durable. The same changes may be tried again, unless the error says that another coordinator leads.
    fn commit(&mut self, changes: &Changes, now: Millis, unix_ms: u64) -> Result<(), StoreError>;

    /// Returns the error of records that contradict themselves.
    fn damaged(&self, why: String) -> StoreError;
}

/// An open store, and its contents.
pub struct Opened<S> {
    /// The open store, for later changes.
    pub store: S,
    /// All values.
    pub records: Records,
    /// The time and epoch with which this coordinator starts.
    pub restart: Restart,
}
