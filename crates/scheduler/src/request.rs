//! A request for devices, and how it is written: `4:nvidia/h200:20G + 8:cpu near limit=2h`.
//!
//! There is one grammar for `accord run --devices`, `ACCORD_DEVICES` and the site's default. [`str::parse`] reads it, and points at
//! the wrong word in its errors; [`ToString`] writes the canonical text.

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
    /// Largest number; more than `least` for a range, which takes the devices that are free at the start.
    pub most: u32,
}

impl Count {
    /// Exactly `count`.
    #[must_use]
    pub const fn exactly(count: u32) -> Self {
        Self { least: count, most: count }
    }
}

/// A share of each device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Take {
    /// The whole device, without other holders.
    Exclusive,
    /// At least this of it, beside others. `milli` 0: memory alone, with equal weight.
    Shared(Amount),
}

/// Devices of one kind: `4:nvidia/h200:20G`. All of them are taken from one class.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The number of devices.
    pub count: Count,
    /// The allowed classes.
    pub class: ClassFilter,
    /// The share of each.
    pub take: Take,
    /// Thousandths of CPU cores of the device's node, for each device.
    pub cores: u64,
    /// Bytes of host memory of the device's node, for each device.
    pub host_memory: u64,
}

/// Parts that are given together: `2:nvidia + 8:cpu`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Alternative {
    /// The parts, at least one.
    pub parts: Vec<Part>,
}

/// The place of devices, as seen from the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Locality {
    /// The program's own node first; else one node, else the fewest, those first to which paths are fastest.
    #[default]
    OwnFirst,
    /// The program's own node only.
    Local,
    /// Near to each other: within one rack if one has enough.
    Near,
    /// On the fewest nodes.
    Pack,
    /// On as many nodes as possible.
    Spread,
}

/// All that a job asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// Tried in this order: `A else B`. At least one.
    pub alternatives: Vec<Alternative>,
    /// The place of the devices.
    pub locality: Locality,
    /// Number of nodes, each with an equal number of devices of each part; `None` for a gang's own choice.
    pub nodes: Option<u32>,
    /// Labels that nodes must have, with their values.
    pub labels: Vec<(String, String)>,
    /// Nodes that may be used, by name; empty: all.
    pub only_nodes: Vec<String>,
    /// Nodes that are avoided, by name.
    pub avoid_nodes: Vec<String>,
    /// The time limit in milliseconds; none: the policy's default.
    pub limit_ms: Option<u64>,
    /// Longest wait of the request, in milliseconds; `None`: without end.
    pub wait_ms: Option<u64>,
    /// Its priority among those that the account may use.
    pub priority: i32,
    /// The account that it names; none: the user's default. The driver finds the account of [`crate::Input::Ask`] by it.
    pub account: Option<String>,
    /// The reservation, by name, on whose devices the job starts; none: the job starts where it can.
    pub reservation: Option<String>,
    /// Ranks of the gang; 1 for a program alone.
    pub ranks: u32,
    /// Whether counts are for each rank: each rank's devices are of one node.
    pub per_rank: bool,
}

impl Request {
    /// A request of one alternative with one part, and nothing else said.
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

    /// Whether nodes are chosen by the paths to them from the program's own node.
    pub(crate) fn goes_by_own_node(&self) -> bool {
        self.per_rank || self.nodes.is_none() && self.locality == Locality::OwnFirst
    }
}

impl Part {
    /// `count` whole devices of the classes that `class` matches.
    #[must_use]
    pub fn whole(count: u32, class: ClassFilter) -> Self {
        Self { count: Count::exactly(count), class, take: Take::Exclusive, cores: 0, host_memory: 0 }
    }
}
