//! The earliest start of a request that can't start now: on devices that are free by then for good, as far as is known.
//!
//! Shares are planned as whole devices. Nothing is planned before another reserved start, so that none delays another.

use crate::bitset::BitSet;
use crate::pool::{Pool, Spot};
use crate::request::Locality;
use crate::search::{Layout, PartDemand};
use crate::time::Millis;
use std::collections::BTreeSet;

/// A start and its devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) starts: Millis,
    pub(crate) spots: Vec<Spot>,
}

/// The inputs of planning besides the demand.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) origin: Option<u32>,
    pub(crate) nodes: Option<&'a BitSet>,
    pub(crate) layout: Layout,
}

impl Planner<'_> {
    /// Returns the earliest start of all parts together, with their least counts; none if it is not known.
    pub(crate) fn plan(&self, parts: &[PartDemand]) -> Option<Plan> {
        let mut whole = Plan { starts: Millis(0), spots: Vec::new() };
        let classes: BTreeSet<_> = parts.iter().map(|part| part.class).collect();
        if classes.len() < parts.len() {
            return None;
        }
        if let Layout::Nodes(nodes) = self.layout {
            return self.on_nodes(parts, nodes);
        }
        for part in parts {
            let plan = match self.layout {
                Layout::Any(Locality::Local) => self.on_own(part),
                Layout::Any(_) | Layout::Nodes(_) => self.anywhere(part),
                Layout::Chunks(_) if parts.len() > 1 => None,
                Layout::Chunks(chunks) => self.in_chunks(part, chunks),
            }?;
            whole.starts = whole.starts.max(plan.starts);
            whole.spots.extend(plan.spots);
        }
        Some(whole)
    }

    fn allows(&self, node: u32) -> bool {
        self.pool.step();
        self.nodes.is_none_or(|nodes| nodes.contains(node))
    }

    fn anywhere(&self, part: &PartDemand) -> Option<Plan> {
        let available = self.pool.index[part.class.index()].available.iter();
        let allowed = available.filter(|(_, spot)| self.allows(spot.node));
        let first: Vec<_> = allowed.take(part.count.least as usize).collect();
        if first.len() < part.count.least as usize {
            return None;
        }
        let starts = first.last()?.0;
        Some(Plan { starts, spots: first.into_iter().map(|&(_, spot)| spot).collect() })
    }

    fn on_own(&self, part: &PartDemand) -> Option<Plan> {
        let own = self.origin.filter(|&own| self.allows(own))?;
        self.first_of(own, part, part.count.least)
    }

    /// Returns the first devices of a node that become available.
    fn first_of(&self, node: u32, part: &PartDemand, count: u32) -> Option<Plan> {
        let devices = &self.pool.node(node).devices;
        let mut times: Vec<(Millis, Spot)> = Vec::with_capacity(devices.len());
        for (at, device) in devices.iter().enumerate() {
            let time = device.filed_time();
            if device.class == part.class && time != Millis::NEVER {
                times.push((time, Spot { node, device: u32::try_from(at).ok()? }));
            }
        }
        times.sort_unstable();
        times.truncate(count as usize);
        (times.len() == count as usize).then_some(())?;
        let starts = times.last()?.0;
        Some(Plan { starts, spots: times.into_iter().map(|(_, spot)| spot).collect() })
    }

    fn on_nodes(&self, parts: &[PartDemand], nodes: u32) -> Option<Plan> {
        let counts: Vec<u32> = parts.iter().map(|part| part.count.least.div_ceil(nodes)).collect();
        let first = parts.first()?;
        let by_time = self.pool.index[first.class.index()].chunks.get(counts[0] as usize - 1)?;
        let mut whole = Plan { starts: Millis(0), spots: Vec::new() };
        let mut found = 0;
        for &(_, node) in by_time {
            if found == nodes {
                break;
            }
            if !self.allows(node) {
                continue;
            }
            let plans: Option<Vec<Plan>> =
                parts.iter().zip(&counts).map(|(part, &count)| self.first_of(node, part, count)).collect();
            for plan in plans.into_iter().flatten() {
                whole.starts = whole.starts.max(plan.starts);
                whole.spots.extend(plan.spots);
            }
            found = u32::try_from(whole.spots.len()).ok()? / counts.iter().sum::<u32>();
        }
        (found == nodes).then_some(whole)
    }

    /// As many chunks on each node as it has devices for.
    fn in_chunks(&self, part: &PartDemand, chunks: u32) -> Option<Plan> {
        let count = part.count.least;
        let by_time = self.pool.index[part.class.index()].chunks.get(count as usize - 1)?;
        let mut whole = Plan { starts: Millis(0), spots: Vec::new() };
        let mut left = chunks;
        for &(_, node) in by_time {
            if left == 0 {
                break;
            }
            if !self.allows(node) {
                continue;
            }
            let there = u32::try_from(self.pool.node(node).devices.len()).unwrap_or(u32::MAX);
            let mut fits = left.min(there / count.max(1)).max(1);
            let plan = loop {
                match self.first_of(node, part, count * fits) {
                    Some(plan) => break plan,
                    None if fits > 1 => fits -= 1,
                    None => return None,
                }
            };
            left -= fits;
            whole.starts = whole.starts.max(plan.starts);
            whole.spots.extend(plan.spots);
        }
        (left == 0).then_some(whole)
    }
}
