//! The devices of a class, indexed by their availability for new jobs, now and later.

use super::device::{Spot, Use, Vacancy, Window};
use super::host_resources::HostResources;
use crate::amount::Amount;
use crate::bitset::BitSet;
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// Most devices of a chunk that is planned by the index.
pub(crate) const CHUNK_MAX: usize = 16;

/// The index of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassIndex {
    /// Number of devices of known nodes, up or not.
    pub(crate) installed: u32,
    /// Number of devices that work and are not drained.
    pub(crate) sound: u64,
    /// Number of these that jobs with limits longer than the quantum hold.
    pub(crate) long: u64,
    /// Number of free devices, including those in `bounded_devices`.
    pub(crate) whole: u64,
    /// Number of free devices without a bound.
    pub(crate) open: u64,
    /// Nodes by their number of usable devices and the ends of jobs that may use so many.
    usable: Vec<BTreeMap<Ends, BitSet>>,
    /// Free devices that are bounded by a reserved start, a reservation or a drain, by that time.
    pub(crate) bounded_devices: BTreeMap<Millis, BTreeSet<Spot>>,
    /// Nodes with room on shared devices.
    pub(crate) partial_nodes: BitSet,
    /// Nodes with free devices, by the memory that they have left.
    free_memory: BTreeSet<(u64, u32)>,
    /// The same nodes, by the cores that they have left.
    free_cores: BTreeSet<(u64, u32)>,
    /// Shared devices with room.
    pub(crate) partial: BTreeSet<(Amount, Spot)>,
    /// Devices that will be available, by their reservations and the time.
    pub(crate) available: BTreeMap<Vec<Window>, BTreeSet<(Millis, Spot)>>,
    /// Nodes whose devices have the same reservations. At index k - 1 they are ordered by the time at which their first
    /// k devices are available.
    pub(crate) chunks: BTreeMap<Vec<Window>, Vec<BTreeSet<(Millis, u32)>>>,
    /// Nodes whose devices have different reservations.
    pub(crate) mixed: BitSet,
    /// The entry of each node in `chunks`.
    filed_chunks: Vec<Chunks>,
    /// Nodes whose entries in `chunks` and `mixed` are out of date.
    stale: BitSet,
    /// The pool's stamp at which this class last gained free capacity.
    pub(crate) grown: u64,
    /// The pool's stamp at which a device of this class last became available sooner than planned.
    pub(crate) sooner: u64,
    /// The pool's stamp at which a node with devices of this class last had a device that became available sooner or later.
    pub(crate) rescheduled: u64,
}

/// When the first devices of a node are available.
#[derive(Clone, Debug, Default)]
struct Chunks {
    times: Vec<Millis>,
    /// The reservations of all devices, if they are the same.
    windows: Option<Vec<Window>>,
}

/// A range of ends of jobs that may use the same devices of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ends {
    /// The latest end, the bound of the next device.
    last: Millis,
    /// The bound of the previous device. All ends are later.
    after: Option<Millis>,
}

impl Ends {
    pub(crate) fn covers(self, until: Millis) -> bool {
        self.after < Some(until) && until <= self.last
    }
}

/// Returns the numbers of usable devices of a node by the ends of jobs. `bounds` are the times until which devices are
/// free.
pub(super) fn usable_by_end(mut bounds: Vec<Millis>) -> Vec<(Ends, u32)> {
    bounds.sort_unstable();
    let (mut usable, mut after) = (Vec::new(), None);
    for (last, left) in bounds.iter().copied().zip((1..=bounds.len()).rev()) {
        if after != Some(last) {
            usable.push((Ends { last, after }, u32::try_from(left).unwrap_or(u32::MAX)));
            after = Some(last);
        }
    }
    usable
}

/// Whether `new` allows a job that `old` did not.
pub(super) fn grows(old: Vacancy, new: Vacancy) -> bool {
    match (old, new) {
        (_, Vacancy::None) => false,
        (Vacancy::None, _) | (Vacancy::Part(..), Vacancy::Whole(_)) => true,
        (Vacancy::Whole(before), Vacancy::Whole(now) | Vacancy::Part(_, now)) => now > before,
        (Vacancy::Part(less, before), Vacancy::Part(more, now)) => !less.covers(more) || now > before,
    }
}

impl ClassIndex {
    /// Returns free devices whose bound is before a time, the latest bound first.
    pub(crate) fn set_aside_before(&self, until: Millis) -> impl Iterator<Item = Spot> {
        self.bounded_devices.range(..until).rev().flat_map(|(_, spots)| spots.iter().rev()).copied()
    }

    pub(super) fn refile(&mut self, spot: Spot, old: Vacancy, new: Vacancy) {
        match old {
            Vacancy::Whole(until) => {
                self.whole -= 1;
                if until == Millis::NEVER {
                    self.open -= 1;
                } else if let Some(spots) = self.bounded_devices.get_mut(&until) {
                    spots.remove(&spot);
                    if spots.is_empty() {
                        self.bounded_devices.remove(&until);
                    }
                }
            }
            Vacancy::Part(left, _) => {
                self.partial.remove(&(left, spot));
            }
            Vacancy::None => {}
        }
        match new {
            Vacancy::Whole(until) => {
                self.whole += 1;
                if until == Millis::NEVER {
                    self.open += 1;
                } else {
                    self.bounded_devices.entry(until).or_default().insert(spot);
                }
            }
            Vacancy::Part(left, _) => {
                self.partial.insert((left, spot));
            }
            Vacancy::None => {}
        }
    }

    pub(super) fn count_use(&mut self, old: Use, new: Use) {
        self.sound = self.sound - u64::from(old.sound) + u64::from(new.sound);
        self.long = self.long - u64::from(old.long) + u64::from(new.long);
    }

    /// Whether `count` devices are free for a job that lasts until a time.
    pub(crate) fn has_free(&self, count: u64, until: Millis) -> bool {
        let mut missing = count.saturating_sub(self.open);
        let mut later = self.bounded_devices.range(until..);
        while missing > 0 {
            let Some((_, spots)) = later.next() else { return false };
            missing = missing.saturating_sub(spots.len() as u64);
        }
        true
    }

    /// Updates the time at which a device is available, by its reservations.
    pub(super) fn reschedule(&mut self, spot: Spot, old: (&[Window], Millis), new: (&[Window], Millis)) {
        if old.1 != Millis::NEVER
            && let Some(times) = self.available.get_mut(old.0)
        {
            times.remove(&(old.1, spot));
            if times.is_empty() {
                self.available.remove(old.0);
            }
        }
        if new.1 == Millis::NEVER {
            return;
        }
        match self.available.get_mut(new.0) {
            Some(times) => times.insert((new.1, spot)),
            None => self.available.entry(new.0.to_vec()).or_default().insert((new.1, spot)),
        };
    }

    /// Updates the numbers of usable devices of a node.
    pub(super) fn file_usable(&mut self, node: u32, old: &[(Ends, u32)], new: &[(Ends, u32)]) {
        for (ends, count) in old {
            let by_end = &mut self.usable[*count as usize];
            let Some(nodes) = by_end.get_mut(ends) else { continue };
            nodes.remove(node);
            if nodes.next(0).is_none() {
                by_end.remove(ends);
            }
        }
        for (ends, count) in new {
            if self.usable.len() <= *count as usize {
                self.usable.resize_with(*count as usize + 1, BTreeMap::new);
            }
            self.usable[*count as usize].entry(*ends).or_default().insert(node);
        }
    }

    /// Returns an upper bound for the number of usable devices of a node.
    pub(crate) fn usable_max(&self) -> u32 {
        u32::try_from(self.usable.len().saturating_sub(1)).unwrap_or(u32::MAX - 1)
    }

    /// Returns sets of nodes with exactly `count` devices for a job that lasts until a time. Some sets are for other
    /// ends.
    pub(crate) fn usable_nodes(&self, count: u32, until: Millis) -> impl Iterator<Item = (&Ends, &BitSet)> {
        let by_end = self.usable.get(count as usize).into_iter();
        by_end.flat_map(move |by_end| by_end.range(Ends { last: until, after: None }..))
    }

    /// Files what a node with free devices has left beside these.
    pub(super) fn file_host_resources(&mut self, node: u32, old: Option<HostResources>, new: Option<HostResources>) {
        if let Some(old) = old {
            self.free_memory.remove(&(old.memory, node));
            self.free_cores.remove(&(old.cores, node));
        }
        if let Some(new) = new {
            self.free_memory.insert((new.memory, node));
            self.free_cores.insert((new.cores, node));
        }
    }

    /// Returns the most memory and the most cores that allowed nodes with free devices have left, if among the `max` first ones of each are any.
    pub(crate) fn most_host_resources(&self, max: usize, is_allowed: impl Fn(u32) -> bool) -> Option<HostResources> {
        let most = |of: &BTreeSet<(u64, u32)>| {
            of.iter().rev().take(max).find(|(_, node)| is_allowed(*node)).map(|(most, _)| *most)
        };
        Some(HostResources { memory: most(&self.free_memory)?, cores: most(&self.free_cores)? })
    }

    /// Returns the nodes with free devices, those with the most cores left first, or if no cores are `needed`, those with the most memory.
    pub(crate) fn most_host_resources_first(&self, needed: HostResources) -> impl Iterator<Item = u32> {
        let of = if needed.cores > 0 { &self.free_cores } else { &self.free_memory };
        of.iter().rev().map(|(_, node)| *node)
    }

    pub(super) fn file_partial(&mut self, node: u32, partial: bool) {
        if partial {
            self.partial_nodes.insert(node);
        } else {
            self.partial_nodes.remove(node);
        }
    }

    /// Notes that the times of a node have changed.
    pub(super) fn note(&mut self, node: u32) {
        self.stale.insert(node);
    }

    /// Brings `chunks` up to date. `now` returns the sorted times of a node, and the reservations of its devices.
    pub(super) fn settle_chunks<'a>(&mut self, now: impl Fn(u32) -> (&'a [Millis], Option<&'a [Window]>)) {
        while let Some(node) = self.stale.next(0) {
            self.stale.remove(node);
            if self.filed_chunks.len() <= node as usize {
                self.filed_chunks.resize(node as usize + 1, Chunks::default());
            }
            let old = std::mem::take(&mut self.filed_chunks[node as usize]);
            self.unfile_chunks(node, &old);
            let (times, windows) = now(node);
            let ahead = times.iter().copied().take(CHUNK_MAX).take_while(|&time| time != Millis::NEVER);
            let new = Chunks { times: ahead.collect(), windows: windows.map(<[Window]>::to_vec) };
            self.file_chunks(node, &new);
            self.filed_chunks[node as usize] = new;
        }
    }

    fn unfile_chunks(&mut self, node: u32, old: &Chunks) {
        self.mixed.remove(node);
        let Some(windows) = &old.windows else { return };
        let Some(chunks) = self.chunks.get_mut(windows) else { return };
        for (time, nodes) in old.times.iter().zip(&mut *chunks) {
            nodes.remove(&(*time, node));
        }
        if chunks.iter().all(BTreeSet::is_empty) {
            self.chunks.remove(windows);
        }
    }

    fn file_chunks(&mut self, node: u32, new: &Chunks) {
        if new.times.is_empty() {
            return;
        }
        let Some(windows) = &new.windows else { return self.mixed.insert(node) };
        if !self.chunks.contains_key(windows) {
            self.chunks.insert(windows.clone(), Vec::new());
        }
        let Some(chunks) = self.chunks.get_mut(windows) else { return };
        if chunks.len() < new.times.len() {
            chunks.resize_with(new.times.len(), BTreeSet::new);
        }
        for (time, nodes) in new.times.iter().zip(chunks) {
            nodes.insert((*time, node));
        }
    }
}
