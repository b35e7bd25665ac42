//! Keeps the index up to date with the devices of a node, and notes changes for the next pass.

use super::device::{FreeWithin, Use};
use super::{Changes, Pool, Spot, Vacancy, Window, class_index};
use crate::ids::ReservationId;
use crate::time::Millis;
use std::collections::BTreeSet;

impl Pool {
    /// Removes a node's devices from the index and the installed numbers, before a new description.
    pub(super) fn withdraw(&mut self, at: u32) {
        let up = std::mem::replace(&mut self.nodes[at as usize].up, false);
        if up {
            self.refresh(Millis(0), at);
        }
        for device in self.nodes[at as usize].devices.iter().filter(|device| !device.absent) {
            self.index[device.class.index()].installed -= 1;
        }
    }

    /// Updates the index after a change of a node's devices.
    pub(crate) fn refresh(&mut self, now: Millis, at: u32) {
        let node = &mut self.nodes[at as usize];
        let (up, drained) = (node.up, node.drained);
        let left = node.host_resources_free();
        node.settle_claims(&self.steps);
        let mut rescheduled = false;
        for on in &mut node.classes {
            let index = &mut self.index[on.class.index()];
            let (mut bounds, mut partial) = (Vec::new(), false);
            let (mut grown, mut sooner) = (false, false);
            let mut available = Vec::with_capacity(on.available.len());
            for (position, device) in node.devices.iter_mut().enumerate() {
                if device.class != on.class {
                    continue;
                }
                self.steps.count();
                let vacancy = if up { device.vacancy(now, drained) } else { Vacancy::None };
                let from = if up { device.available(drained) } else { Millis::NEVER };
                match vacancy {
                    Vacancy::Whole(until) => bounds.push(until),
                    Vacancy::Part(..) => partial = true,
                    Vacancy::None => {}
                }
                let spot = Spot { node: at, device: u32::try_from(position).unwrap_or(u32::MAX) };
                let in_use = if up { device.usage(drained) } else { Use::default() };
                if in_use != device.filed_use {
                    index.count_use(device.filed_use, in_use);
                    device.filed_use = in_use;
                }
                if vacancy != device.filed {
                    grown |= class_index::grows(device.filed, vacancy);
                    index.refile(spot, device.filed, vacancy);
                    device.filed = vacancy;
                    self.touched.extend(device.claims.iter().map(|claim| (claim.job, Some(at))));
                }
                if from != device.filed_available {
                    sooner |= from < device.filed_available;
                    rescheduled = true;
                    self.touched.extend(device.claims.iter().map(|claim| (claim.job, Some(at))));
                }
                if from != device.filed_available || device.windows != device.filed_windows {
                    let old = (&device.filed_windows[..], device.filed_available);
                    index.reschedule(spot, old, (&device.windows, from));
                    device.filed_available = from;
                    device.filed_windows.clone_from(&device.windows);
                }
                let open = if up { device.open_windows(now, drained) } else { Vec::new() };
                if open != device.filed_within {
                    let of = |all: &[(ReservationId, FreeWithin)], id| {
                        all.iter().find(|(known, _)| *known == id).map(|(_, until)| *until)
                    };
                    let ids: BTreeSet<ReservationId> =
                        device.filed_within.iter().chain(&open).map(|(id, _)| *id).collect();
                    for id in ids {
                        let within = self.within.entry(id).or_default();
                        if within.file(device.class, spot, of(&device.filed_within, id), of(&open, id)) {
                            self.stamp += 1;
                            within.grown = self.stamp;
                        }
                    }
                    device.filed_within = open;
                }
                available.push(from);
            }
            available.sort_unstable();
            if grown {
                self.stamp += 1;
                index.grown = self.stamp;
                self.grown_nodes.insert(at);
            }
            if sooner {
                self.stamp += 1;
                index.sooner = self.stamp;
            }
            let in_use = node.devices.iter().filter(|of| of.class == on.class && of.filed_available != Millis::NEVER);
            let mut windows = in_use.map(|device| &device.windows[..]);
            let first = windows.next().unwrap_or_default();
            let windows = windows.all(|other| other == first).then_some(first);
            if on.available != available || on.windows.as_deref() != windows {
                index.note(at);
                (on.available, on.windows) = (available, windows.map(<[Window]>::to_vec));
            }
            let host_resources = (!bounds.is_empty()).then_some(left);
            if on.host_resources != host_resources {
                index.file_host_resources(at, on.host_resources, host_resources);
                on.host_resources = host_resources;
            }
            let usable = class_index::usable_by_end(bounds);
            if on.usable != usable {
                index.file_usable(at, &on.usable, &usable);
                on.usable = usable;
            }
            index.file_partial(at, partial);
            on.partial = partial;
        }
        if rescheduled {
            self.stamp += 1;
            for on in &node.classes {
                self.index[on.class.index()].rescheduled = self.stamp;
            }
        }
    }

    /// Returns the changes noted since the last pass, for [`Self::forget_changes`].
    pub(crate) fn changes(&mut self) -> Changes {
        let stamps = self.index.iter().map(|index| (index.grown, index.sooner, index.rescheduled)).collect();
        let within = self.within.iter().map(|(id, within)| (*id, within.grown)).collect();
        Changes { stamps, grown_nodes: self.grown_nodes.clone(), touched: self.touched.clone(), within }
    }

    /// Drops notes of changes that have been reverted since.
    pub(crate) fn forget_changes(&mut self, before: Changes) {
        for (index, stamps) in self.index.iter_mut().zip(before.stamps) {
            (index.grown, index.sooner, index.rescheduled) = stamps;
        }
        for (id, grown) in before.within {
            self.within.entry(id).or_default().grown = grown;
        }
        (self.grown_nodes, self.touched) = (before.grown_nodes, before.touched);
    }

    /// Notes that starts on devices of a set of classes may be planned sooner, because a reserved start yields to more
    /// others.
    pub(crate) fn note_sooner(&mut self, classes: u128) {
        self.stamp += 1;
        for (_, index) in self.index.iter_mut().enumerate().filter(|(at, _)| classes >> at & 1 == 1) {
            index.sooner = self.stamp;
        }
    }

    /// Schedules a check of the reserved starts on a node's devices.
    pub(crate) fn touch_claims(&mut self, at: u32) {
        let claims = self.nodes[at as usize].devices.iter().flat_map(|device| &device.claims);
        self.touched.extend(claims.map(|claim| (claim.job, Some(at))));
    }

    /// Notes that a node has more free cores or host memory, so that failed searches are repeated.
    pub(super) fn has_grown(&mut self, at: u32) {
        self.stamp += 1;
        self.grown_nodes.insert(at);
        for on in &self.nodes[at as usize].classes {
            self.index[on.class.index()].grown = self.stamp;
        }
        self.beside_is_sooner(at);
        for (id, _) in self.nodes[at as usize].devices.iter().flat_map(|device| &device.filed_within) {
            self.within.entry(*id).or_default().grown = self.stamp;
        }
    }

    /// Notes that starts on a node may be planned sooner, because it will have more cores or host memory.
    pub(crate) fn beside_is_sooner(&mut self, at: u32) {
        self.stamp += 1;
        for on in &self.nodes[at as usize].classes {
            self.index[on.class.index()].sooner = self.stamp;
        }
    }

    /// Brings the index for planning chunks up to date.
    pub(crate) fn settle_chunks(&mut self) {
        let nodes = &self.nodes;
        for (at, index) in self.index.iter_mut().enumerate() {
            index.settle_chunks(|node| {
                let mut classes = nodes[node as usize].classes.iter();
                let on = classes.find(|on| on.class.index() == at);
                on.map_or((&[], None), |on| (&on.available, on.windows.as_deref()))
            });
        }
    }
}
