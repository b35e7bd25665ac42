//! The interface of comparisons to their surroundings.

use super::elements::Elements;
use crate::ports::DeviceClient;
use accord_types::{DeviceInfo, HostRange, Result};
use std::sync::Arc;
use std::time::Duration;

/// The surroundings of comparisons: further CPU devices, the program's source, the user.
pub trait ComparisonHost: Send + Sync {
    /// Creates the client of one more CPU device of this process, which can have `addresses` addresses. It is no device of the session.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if there can be none.
    fn mirror(&self, device: &DeviceInfo, addresses: u64) -> Result<Arc<dyn DeviceClient>>;

    /// Returns the time since some moment.
    fn now(&self) -> Duration;

    /// Describes the array at a range of the program's memory, from the program's call that the thread is in.
    fn array(&self, range: HostRange) -> ArrayDescription;

    /// Prints one line for the user.
    fn report(&self, line: &str);
}

/// An array in the program's source.
pub struct ArrayDescription {
    /// Its name, or its address.
    pub name: String,
    /// The place of its declaration; empty if unknown.
    pub declared: String,
    /// Its elements, if their type is known.
    pub elements: Option<Elements>,
    /// Returns the index of an element, by its number.
    pub index: Box<dyn Fn(u64) -> String>,
}
