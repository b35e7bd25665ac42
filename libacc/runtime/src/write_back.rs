//! Small variables of queued constructs on one device: `construct/write_back.rs` says why they have places there.

use crate::memory::Allocator;
use crate::plan::Step;
use crate::ports::{CHAIN_BYTES_MAX, Chain, Changes, RegionEffect};
use crate::queues::{After, Moment, Queues};
use accord_types::{DevicePtr, HostRange, QueueId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Largest value that is treated so: scalars, complex and extended ones included.
pub(crate) const WRITE_BACK_BYTES_MAX: usize = CHAIN_BYTES_MAX;

/// A value as the program had it.
pub(crate) type Value = [u8; WRITE_BACK_BYTES_MAX];

/// The place of the value that counts from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counts {
    /// In the place on the device.
    Here,
    /// A later copy takes something else to a part of the variable.
    PartlyHere,
    /// In the program's memory, or it will be: the program has waited for the region, or a later copy goes to all of the variable. The
    /// place is still the queue's.
    Elsewhere,
}

/// A variable's place on the device for one queue.
#[derive(Clone, Debug)]
pub(crate) struct WriteBack {
    pub(crate) queue: QueueId,
    pub(crate) range: HostRange,
    pub(crate) device: DevicePtr,
    /// The program's value at its last call.
    pub(crate) sent: Value,
    /// [`crate::ports::DeviceClient::changes`] then.
    pub(crate) changes: Changes,
    /// The moment when its last region was put in, if it was already.
    pub(crate) moment: Option<Moment>,
    pub(crate) counts: Counts,
    /// Queues that were made to wait for what was done to it last.
    pub(crate) followers: Vec<QueueId>,
    /// The chain of the regions that go on from the last one's values.
    pub(crate) chain: Arc<Chain>,
    /// The effect of the last region.
    pub(crate) effect: Arc<RegionEffect>,
}

/// Regions and entries of which it is remembered what they do.
pub(crate) const EFFECTS_MAX: usize = 4_096;

/// The effects of regions on their small variables, by the region's address and the entry's number.
#[derive(Default)]
pub(crate) struct EffectCache(HashMap<(usize, usize), Arc<RegionEffect>>);

impl EffectCache {
    /// Beyond the bound nothing is known of any.
    pub(crate) fn of(&mut self, function: usize, entry: usize) -> Arc<RegionEffect> {
        if self.0.len() >= EFFECTS_MAX && !self.0.contains_key(&(function, entry)) {
            return Arc::default();
        }
        self.0.entry((function, entry)).or_default().clone()
    }

    /// An object with regions in this range of addresses is gone: another one's may be there next.
    pub(crate) fn forget(&mut self, functions: &Range<u64>) {
        self.0.retain(|(function, _), _| !functions.contains(&(*function as u64)));
    }
}

impl WriteBack {
    /// A place in which nothing is yet.
    pub(crate) fn new(queue: QueueId, range: HostRange, device: DevicePtr) -> Self {
        let (sent, changes, followers) = (Value::default(), Changes::default(), Vec::new());
        let (counts, chain, effect) = (Counts::Elsewhere, Arc::default(), Arc::default());
        Self { queue, range, device, sent, changes, moment: None, counts, followers, chain, effect }
    }

    /// A region that uses it is put in, with this value of the program; with `new` it does not go on from what the last one left.
    /// Returns the region's chain.
    pub(crate) fn send(
        &mut self,
        value: Value,
        changes: Changes,
        new: Option<Arc<Chain>>,
        effect: Arc<RegionEffect>,
    ) -> Arc<Chain> {
        (self.sent, self.changes, self.moment, self.counts) = (value, changes, None, Counts::Here);
        self.followers.clear();
        if let Some(chain) = new {
            self.chain = chain;
        }
        self.chain.expect(effect.clone());
        self.effect = effect;
        self.chain.clone()
    }

    /// Whether this is the value in effect, provided that the program has not written to its memory since the last call.
    pub(crate) fn holds(&self, value: &Value) -> bool {
        self.counts == Counts::Here && self.sent == *value
    }
}

/// The write-backs of one device.
#[derive(Default)]
pub(crate) struct WriteBacks(pub(crate) Vec<WriteBack>);

impl WriteBacks {
    /// `queue` waits for what is in `others` now, and so for what those were made to wait for.
    pub(crate) fn follow(&mut self, queue: QueueId, others: &[QueueId]) {
        let comes_before = |write_back: &&mut WriteBack| {
            others.contains(&write_back.queue) || write_back.followers.iter().any(|follower| others.contains(follower))
        };
        for write_back in self.0.iter_mut().filter(comes_before) {
            if !write_back.followers.contains(&queue) {
                write_back.followers.push(queue);
            }
        }
    }

    /// The place in which a queue that `queue` waits for leaves this unchanged variable. That queue gets a
    /// new one when it comes to the variable again: nothing may write there any more.
    pub(crate) fn pass_on(&mut self, queue: QueueId, range: HostRange, value: &Value) -> Option<WriteBack> {
        let passed = |write_back: &WriteBack| {
            write_back.range == range && write_back.holds(value) && write_back.followers.contains(&queue)
        };
        let at = self.0.iter().position(passed)?;
        Some(self.0.swap_remove(at))
    }

    /// A command went into its queue at `now`. The variable that it may change, if it is a region's that brings one back.
    pub(crate) fn put_in(&mut self, step: &Step, now: Moment) -> Option<HostRange> {
        match *step {
            Step::OutChanged { src, chain: Some(_), .. } => {
                let write_back = self.0.iter_mut().find(|write_back| write_back.device == src)?;
                (write_back.moment, write_back.counts) = (Some(now), Counts::Here);
                return Some(write_back.range).filter(|_| write_back.effect.may_change());
            }
            Step::Out { dst, .. } | Step::OutSpaced { dst, .. } => {
                let gaps = matches!(step, Step::OutSpaced { .. });
                for WriteBack { range, counts, .. } in
                    self.0.iter_mut().filter(|write_back| write_back.range.overlaps(dst))
                {
                    let all = !gaps && dst.start <= range.start && range.start + range.len <= dst.start + dst.len;
                    *counts = match counts {
                        Counts::Here | Counts::PartlyHere if !all => Counts::PartlyHere,
                        _ => Counts::Elsewhere,
                    };
                }
            }
            _ => {}
        }
        None
    }

    /// Whether what `queue` brings to a range is of a variable that a region in `by` finds on the device.
    pub(crate) fn passes(&self, queue: QueueId, range: HostRange, by: QueueId) -> bool {
        let passes =
            |write_back: &WriteBack| write_back.queue == queue && (queue == by || write_back.followers.contains(&by));
        self.0.iter().any(|write_back| passes(write_back) && write_back.range.overlaps(range))
    }

    /// Gives the places of queues without work left back. What was waited for in the others is the program's again.
    pub(crate) fn forget(&mut self, memory: &mut Allocator, queues: &Queues) {
        self.0.retain_mut(|write_back| {
            if write_back.moment.is_some_and(|moment| queues.has_passed(write_back.queue, moment)) {
                write_back.counts = Counts::Elsewhere;
            }
            let drained = queues.drained(write_back.queue);
            if drained {
                memory.give_back(write_back.device, After::NOTHING, queues);
            }
            !drained
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_an_object_that_is_gone_say_nothing_of_those_that_come_there() {
        let mut effects = EffectCache::default();
        let keeps = |effects: &mut EffectCache, function| {
            let chain = Chain::default();
            chain.expect(effects.of(function, 0));
            assert!(!chain.is_changed(&[1], &[1]));
            assert!(!effects.of(function, 0).may_change());
        };
        keeps(&mut effects, 0x1000);
        keeps(&mut effects, 0x2000);
        effects.forget(&(0x1000..0x2000));
        assert!(effects.of(0x1000, 0).may_change() && !effects.of(0x2000, 0).may_change());
    }

    #[test]
    fn a_queue_that_waits_again_and_again_is_noted_once() {
        let (queue, device) = (QueueId(1), DevicePtr(64));
        let range = HostRange { start: 8, len: 4 };
        let write_back = WriteBack::new(queue, range, device);
        let mut write_backs = WriteBacks::default();
        write_backs.0.push(write_back);
        (0..100).for_each(|_| write_backs.follow(QueueId(2), &[queue]));
        write_backs.follow(QueueId(3), &[QueueId(4)]);
        assert_eq!(write_backs.0[0].followers, [QueueId(2)]);
        // By way of queue 2.
        write_backs.follow(QueueId(5), &[QueueId(2)]);
        assert_eq!(write_backs.0[0].followers, [QueueId(2), QueueId(5)]);
    }
}
