//! The demand of a search, and its result.

use crate::amount::{Amount, WHOLE};
use crate::class::DeviceClass;
use crate::ids::ClassId;
use crate::pool::{FirmClaim, HostResources, Pool, Spot};
use crate::request::{Count, Locality, Take};
use crate::time::Millis;
use accord_types::DeviceType;
use std::collections::BTreeMap;

/// A part of a request with a chosen class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartDemand {
    pub(crate) class: ClassId,
    pub(crate) count: Count,
    pub(crate) take: Take,
    pub(crate) cores: u64,
    /// Bytes of the node's memory for each device, including a CPU device's own memory.
    pub(crate) host_memory: u64,
}

impl PartDemand {
    /// Returns what each device of the part takes of its node beside the device.
    pub(crate) fn host_resources(&self) -> HostResources {
        HostResources { memory: self.host_memory, cores: self.cores }
    }
}

/// A device that a search has chosen for a part of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pick {
    pub(crate) part: usize,
    pub(crate) spot: Spot,
    pub(crate) amount: Amount,
    pub(crate) exclusive: bool,
}

/// The placement of devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Layout {
    /// Anywhere, on the fewest nodes.
    Any(Locality),
    /// On this many nodes, each with an equal part.
    Nodes(u32),
    /// In this many chunks, each on one node.
    Chunks(u32),
}

/// Returns the bytes of host memory that a part of a device takes, because CPU devices and host memory share one pool.
pub(crate) fn host_memory_of(class: &DeviceClass, take: Take) -> u64 {
    match take {
        _ if class.kind != DeviceType::Cpu => 0,
        Take::Exclusive => class.memory,
        Take::Shared(amount) => amount.memory,
    }
}

/// Returns the pick of a device for a part.
pub(crate) fn pick_of(pool: &Pool, parts: &[PartDemand], part: usize, spot: Spot) -> Pick {
    let (amount, exclusive) = match parts[part].take {
        Take::Exclusive => (Amount { milli: WHOLE, memory: pool.device(spot).memory }, true),
        Take::Shared(amount) => (amount, false),
    };
    Pick { part, spot, amount, exclusive }
}

/// Whether the nodes have enough cores and host memory for all picks from now until a time, besides the claims that count.
pub(crate) fn carries(
    pool: &Pool,
    parts: &[PartDemand],
    picks: &[Pick],
    lease: (Millis, Millis),
    counts: impl Fn(&FirmClaim) -> bool,
) -> bool {
    if parts.iter().all(|part| part.host_resources() == HostResources::default()) {
        return true;
    }
    let mut used: BTreeMap<u32, HostResources> = BTreeMap::new();
    for pick in picks {
        let of = used.entry(pick.spot.node).or_default();
        *of = of.plus(parts[pick.part].host_resources(), 1);
    }
    used.iter().all(|(&node, &needed)| pool.host_resources_beside(node, lease, &counts).covers(needed))
}
