//! A request for devices and its text: `4:nvidia/h200:20G + 8:cpu near limit=2h`.
//!
//! The same grammar serves `accord run --devices`, `ACCORD_DEVICES` and the site's default. [`str::parse`] reads it and
//! marks the wrong word in errors; [`ToString`] writes the canonical text.

mod alone;
mod part;
mod read;
#[cfg(test)]
mod tests;
pub mod words;
mod write;

pub use alone::AloneError;

use crate::amount::Amount;
use crate::class::ClassFilter;

/// A number of devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Count {
    /// Least number; never 0.
    pub least: u32,
    /// Largest number. A range has a larger one than `least`, and takes the devices that are free at the start.
    pub most: u32,
}

impl Count {
    /// Returns the count of exactly `count` devices.
    #[must_use]
    pub const fn exactly(count: u32) -> Self {
        Self { least: count, most: count }
    }
}

/// The demanded part of each device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Take {
    /// The whole device, without other holders.
    Exclusive,
    /// At least this part, shared with other jobs. `milli` 0 demands memory alone, with equal weight.
    Shared(Amount),
}

/// Devices of one kind: `4:nvidia/h200:20G`. All are taken from one class.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The number of devices.
    pub count: Count,
    /// The allowed classes.
    pub class: ClassFilter,
    /// The part of each device.
    pub take: Take,
    /// Thousandths of CPU cores of the device's node, for each device.
    pub cores: u64,
    /// Bytes of host memory of the device's node, for each device.
    pub host_memory: u64,
}

/// Parts that are granted together: `2:nvidia + 8:cpu`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Alternative {
    /// The parts, at least one.
    pub parts: Vec<Part>,
}

/// The location of devices relative to the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Locality {
    /// The program's own node first. Otherwise one node, else the fewest nodes, those with the fastest paths first.
    #[default]
    OwnFirst,
    /// The program's own node only.
    Local,
    /// Close to each other, within one rack if possible.
    Near,
    /// On the fewest nodes.
    Pack,
    /// On as many nodes as possible.
    Spread,
}

/// A job's whole request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// The alternatives, at least one, tried in this order: `A else B`.
    pub alternatives: Vec<Alternative>,
    /// The location of the devices.
    pub locality: Locality,
    /// Number of nodes, each with an equal number of devices of each part; `None` for any number.
    pub nodes: Option<u32>,
    /// Labels that nodes must have, with their values.
    pub labels: Vec<(String, String)>,
    /// Names of allowed nodes; empty for all nodes.
    pub only_nodes: Vec<String>,
    /// Names of nodes to avoid.
    pub avoid_nodes: Vec<String>,
    /// The time limit in milliseconds; `None` for the policy's default.
    pub limit_ms: Option<u64>,
    /// Longest wait in milliseconds; `None` for no limit.
    pub wait_ms: Option<u64>,
    /// The priority, within the account's range.
    pub priority: i32,
    /// The requested account; `None` for the user's default. The driver passes the resulting account to
    /// [`crate::Input::Ask`].
    pub account: Option<String>,
    /// The name of the reservation on whose devices the job starts; `None` for any devices.
    pub reservation: Option<String>,
    /// Number of ranks of the gang; 1 for a single program.
    pub ranks: u32,
    /// Whether counts are per rank, with each rank's devices on one node.
    pub per_rank: bool,
}

impl Request {
    /// Creates a request with one part and defaults.
    #[must_use]
    pub fn of(part: Part) -> Self {
        Self {
            alternatives: vec![Alternative { parts: vec![part] }],
            locality: Locality::OwnFirst,
            nodes: None,
            labels: Vec::new(),
            only_nodes: Vec::new(),
            avoid_nodes: Vec::new(),
            limit_ms: None,
            wait_ms: None,
            priority: 0,
            account: None,
            reservation: None,
            ranks: 1,
            per_rank: false,
        }
    }

    /// Whether nodes are chosen by their paths from the program's own node.
    pub(crate) fn goes_by_own_node(&self) -> bool {
        self.per_rank || self.nodes.is_none() && self.locality == Locality::OwnFirst
    }
}

impl Part {
    /// Returns a part of `count` whole devices of the classes that `class` matches.
    #[must_use]
    pub fn whole(count: u32, class: ClassFilter) -> Self {
        Self { count: Count::exactly(count), class, take: Take::Exclusive, cores: 0, host_memory: 0 }
    }
}
