//! `ACCORD_COMPARE`: runs each region on a CPU device too, on the same data, and compares what both have made of it.
//!
//! The device's mirror has memory at the same addresses as the device (`mirror`), so that the region gets the same arguments. Data that it reaches from
//! them, through whatever pointers, is copied there when all queues of the device are done. Then it runs on both, and all of that data is compared
//! (`elements`). A program without the setting has no [`Comparison`].

mod comparison;
mod elements;
mod findings;
mod host;
mod launch;
mod mirror;

pub(crate) use comparison::{Comparison, ComparisonObserver};
pub use elements::{Elements, Field, Scalar};
pub use host::{ArrayDescription, ComparisonHost};
