//! The specification as a sequential machine, with the order of operations.
//!
//! A program is correct if no two operations on the same block, one of which writes, are unordered. Then every value is
//! the one that the operations yield in the order of their calls. Vector clocks keep the order: one for the host, and
//! one for each queue of each device (OpenACC 3.3, 2.16).

use super::op::{ARRAYS, Act, Affine, BLOCKS, Op, QUEUES, RegionKind, SCALARS, SYNC, Section};

pub(crate) const DEVICES: usize = 2;
/// The host and all queues.
const THREADS: usize = 1 + DEVICES * QUEUES;
pub(crate) const HOST: usize = 0;
/// Bytes of the largest variable that regions are assumed to leave mostly unchanged (docs/design/data.md).
const SCALAR_MAX: usize = 32;

type Clock = [u32; THREADS];
/// The value of all elements of a block; `None` if the specification leaves it open.
type Value = Option<i32>;

/// Data that is present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) s: Section,
    pub(crate) structured: u32,
    pub(crate) dynamic: u32,
    values: [Value; BLOCKS],
}

/// One access to a block or a variable.
#[derive(Clone, Copy, Debug)]
struct Access {
    place: usize,
    write: bool,
    /// Whether the calling thread makes the access, although the operation belongs to a queue.
    at_call: bool,
    /// Whether it is a copy from or to the program's memory that the runtime orders after earlier copies to that
    /// memory, even without a wait.
    forgiven: bool,
}

/// The accesses to a place.
#[derive(Clone, Copy, Default)]
struct Past {
    /// The last writer, with its time.
    written: Option<(usize, u32)>,
    /// Whether the last write was a copy to the program's memory.
    copied: bool,
    /// Each thread's last read.
    read: Clock,
}

/// The state of the machine.
pub(crate) struct Spec {
    host: [[Value; BLOCKS]; ARRAYS],
    scalars: [Value; SCALARS],
    pub(crate) present: [[Option<Entry>; ARRAYS]; DEVICES],
    /// Present pointers by shape, with the array that each is attached to.
    pub(crate) held: [[Option<Held>; ARRAYS / 2]; DEVICES],
    pub(crate) regions: Vec<(usize, Section, RegionKind)>,
    clocks: [Clock; THREADS],
    past: Vec<Past>,
}

/// A present pointer variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) array: usize,
    pub(crate) attached: bool,
}

/// Returns the thread of a queue.
pub(crate) fn thread(device: usize, queue: i32) -> usize {
    if queue == SYNC { HOST } else { 1 + device * QUEUES + queue as usize }
}

/// Returns device and queue of a thread other than the host.
pub(crate) fn queue_of(thread: usize) -> (usize, i32) {
    ((thread - 1) / QUEUES, ((thread - 1) % QUEUES) as i32)
}

fn on_host(array: usize, block: usize) -> usize {
    array * BLOCKS + block
}

fn scalar(x: usize) -> usize {
    ARRAYS * BLOCKS + x
}

fn on_device(device: usize, array: usize, block: usize) -> usize {
    scalar(SCALARS) + (device * ARRAYS + array) * BLOCKS + block
}

fn pointer(device: usize, shape: usize) -> usize {
    on_device(DEVICES, 0, 0) + device * ARRAYS / 2 + shape
}

fn affine(value: Value, by: Affine) -> Value {
    value.map(|value| value.wrapping_mul(by.m).wrapping_add(by.c))
}

fn triple_and(value: Value, other: Value) -> Value {
    Some(value?.wrapping_mul(3).wrapping_add(other?))
}

/// Whether a value certainly changes.
fn is_changed(value: Value, by: Affine) -> bool {
    value.is_some() && affine(value, by) != value
}

impl Spec {
    pub(crate) fn new() -> Self {
        Self {
            host: [[Some(0); BLOCKS]; ARRAYS],
            scalars: [Some(0); SCALARS],
            present: [[None; ARRAYS]; DEVICES],
            held: [[None; ARRAYS / 2]; DEVICES],
            regions: Vec::new(),
            clocks: [[0; THREADS]; THREADS],
            past: vec![Past::default(); pointer(DEVICES, 0)],
        }
    }

    pub(crate) fn host_value(&self, array: usize, block: usize) -> Value {
        self.host[array][block]
    }

    pub(crate) fn scalar_value(&self, x: usize) -> Value {
        self.scalars[x]
    }

    pub(crate) fn device_value(&self, device: usize, array: usize, block: usize) -> Value {
        self.present[device][array].and_then(|entry| entry.values[block])
    }

    /// Whether a region that copies a section of the host both ways certainly changes it.
    pub(crate) fn changes(&self, s: Section, by: Affine) -> bool {
        s.blocks().any(|block| is_changed(self.host[s.array][block], by))
    }

    /// Whether a region that copies a variable both ways certainly changes it.
    pub(crate) fn changes_scalar(&self, x: usize, by: Affine) -> bool {
        is_changed(self.scalars[x], by)
    }

    /// Returns the threads that `op` must follow and does not yet. With `forgetful`, it relies on the runtime's own
    /// ordering.
    pub(crate) fn conflicts(&self, op: &Op, forgetful: bool) -> Vec<usize> {
        let mut found = Vec::new();
        let own = thread(op.device, op.queue);
        let accesses = self.accesses(op);
        for access in &accesses {
            let clock = self.clock(if access.at_call { HOST } else { own });
            let past = &self.past[access.place];
            let mut against = |thread: usize, at: u32| {
                if at > clock[thread] && !found.contains(&thread) {
                    found.push(thread);
                }
            };
            if let Some((thread, at)) = past.written
                && !(forgetful && past.copied && access.forgiven)
            {
                against(thread, at);
            }
            if access.write {
                past.read.iter().enumerate().for_each(|(thread, at)| against(thread, *at));
            }
        }
        found
    }

    /// Returns the clock that a thread's next operation follows.
    fn clock(&self, own: usize) -> Clock {
        let mut clock = self.clocks[own];
        join(&mut clock, &self.clocks[HOST]);
        clock
    }

    /// Applies an operation.
    pub(crate) fn apply(&mut self, op: &Op) {
        let own = thread(op.device, op.queue);
        match op.act {
            Act::Wait { .. } => return self.wait(HOST, own),
            Act::WaitAll => {
                return (0..QUEUES).for_each(|queue| self.wait(HOST, thread(op.device, queue as i32)));
            }
            Act::WaitAsync { other, .. } => return self.wait(own, thread(op.device, other)),
            Act::WaitAllAsync { .. } => {
                return (0..QUEUES).for_each(|queue| self.wait(own, thread(op.device, queue as i32)));
            }
            _ => {}
        }
        let accesses = self.accesses(op);
        for (thread, at_call) in [(own, false), (HOST, true)] {
            let mine = || accesses.iter().filter(|access| access.at_call == at_call);
            if mine().next().is_none() {
                continue;
            }
            let mut clock = self.clock(thread);
            clock[thread] += 1;
            self.clocks[thread] = clock;
            for access in mine() {
                let past = &mut self.past[access.place];
                if access.write {
                    let copied = access.forgiven;
                    *past = Past { written: Some((thread, clock[thread])), copied, read: [0; THREADS] };
                } else {
                    past.read[thread] = clock[thread];
                }
            }
        }
        self.change(op);
    }

    fn wait(&mut self, waiting: usize, waited: usize) {
        let clock = self.clocks[waited];
        join(&mut self.clocks[waiting], &clock);
        let host = self.clocks[HOST];
        join(&mut self.clocks[waiting], &host);
    }

    fn is_present(&self, device: usize, s: Section) -> bool {
        self.present[device][s.array].is_some()
    }

    /// Whether this operation ends the data's last reference, so that the data is deleted.
    fn ends(&self, op: &Op) -> Option<(usize, Section, bool)> {
        let (device, s, out, structured, all) = match op.act {
            Act::Exit { s, out, finalize, .. } => (op.device, s, out, false, finalize),
            Act::EndRegion => {
                let (device, s, kind) = *self.regions.last()?;
                (device, s, kind.writes(), true, false)
            }
            _ => return None,
        };
        let entry = self.present[device][s.array]?;
        let left = match (structured, all) {
            (true, _) => entry.structured - 1 + entry.dynamic,
            (false, true) => entry.structured,
            (false, false) => entry.structured + entry.dynamic - 1,
        };
        (left == 0).then_some((device, s, out))
    }

    fn accesses(&self, op: &Op) -> Vec<Access> {
        let mut list = Vec::new();
        let mut add = |place, write, at_call, forgiven| list.push(Access { place, write, at_call, forgiven });
        let device = op.device;
        let mut of_host = |s: Section, write: bool, copy: bool| {
            s.blocks().for_each(|block| add(on_host(s.array, block), write, false, copy));
        };
        match op.act {
            Act::Enter { s, copy_in: true, .. } if !self.is_present(device, s) => of_host(s, false, true),
            Act::Region { s, kind } if kind.reads() && !self.is_present(device, s) => of_host(s, false, true),
            Act::Update { s, out, .. } => of_host(s, out, true),
            Act::Copied { s, by } if !self.is_present(device, s) => {
                of_host(s, false, true);
                // Data as small as a scalar is copied back only if it was changed, and is awaited by the runtime only
                // if a change is expected.
                of_host(s, true, s.bytes() > SCALAR_MAX || self.changes(s, by));
            }
            Act::CopiedIn { s } if !self.is_present(device, s) => of_host(s, false, true),
            Act::CopiedOut { s, .. } if !self.is_present(device, s) => of_host(s, true, true),
            Act::ToDevice { s } => of_host(s.partner(), false, true),
            Act::FromDevice { s } => of_host(s.partner(), true, true),
            Act::HostFill { s, .. } => of_host(s, true, false),
            Act::Check { s, .. } => of_host(s, false, false),
            _ => {}
        }
        if let Some((_, s, true)) = self.ends(op) {
            of_host(s, true, true);
        }
        let mut of_device = |device: usize, s: Section, write: bool| {
            s.blocks().for_each(|block| add(on_device(device, s.array, block), write, false, false));
        };
        match op.act {
            Act::Enter { s, .. } | Act::Region { s, .. } if !self.is_present(device, s) => of_device(device, s, true),
            Act::Update { s, out, .. } => of_device(device, s, !out),
            Act::Fill { s, .. } | Act::Change { s, .. } | Act::ByValue { s, .. } => of_device(device, s, true),
            Act::ToDevice { s } | Act::Through { s, .. } => of_device(device, s, true),
            Act::Copied { s, .. } | Act::CopiedOut { s, .. } if self.is_present(device, s) => {
                of_device(device, s, true);
            }
            Act::FromDevice { s } => of_device(device, s, false),
            Act::Add { s } | Act::CopiedIn { s } => {
                if self.is_present(device, s) {
                    of_device(device, s, false);
                }
                of_device(device, s.partner(), true);
            }
            Act::Within { s } => {
                of_device(device, s.partner(), false);
                of_device(device, s, true);
            }
            Act::Across { s, to } => {
                of_device(device, s, false);
                of_device(to, s, true);
            }
            _ => {}
        }
        if let Some((device, s, _)) = self.ends(op)
            && let Some(entry) = self.present[device][s.array]
        {
            of_device(device, entry.s, true);
        }
        match op.act {
            Act::Hold { array } | Act::Attach { array } | Act::Detach { array } | Act::Renew { array } => {
                add(pointer(device, array / 2), true, false, false);
            }
            Act::Drop { array } => add(pointer(device, array / 2), true, false, false),
            Act::Through { s, .. } => add(pointer(device, s.array / 2), false, false, false),
            Act::Scalar { x, by } => {
                add(scalar(x), false, false, true);
                add(scalar(x), true, false, self.changes_scalar(x, by));
            }
            // GCC's code reads an integer's value before the call.
            Act::ByValue { x, .. } | Act::CheckScalar { x, .. } => add(scalar(x), false, true, false),
            Act::HostScalar { x, .. } => add(scalar(x), true, true, false),
            _ => {}
        }
        list
    }

    /// Updates values and counters.
    fn change(&mut self, op: &Op) {
        if let Some((device, s, out)) = self.ends(op) {
            let entry = self.present[device][s.array].take();
            if out {
                s.blocks().for_each(|b| self.host[s.array][b] = entry.and_then(|entry| entry.values[b]));
            }
            if op.act == Act::EndRegion {
                self.regions.pop();
            }
            return;
        }
        let device = op.device;
        match op.act {
            Act::Enter { s, copy_in, .. } => self.entry(device, s, copy_in).dynamic += 1,
            Act::Region { s, kind } => {
                self.entry(device, s, kind.reads()).structured += 1;
                self.regions.push((device, s, kind));
            }
            Act::Exit { s, finalize, .. } => {
                if let Some(entry) = &mut self.present[device][s.array] {
                    entry.dynamic = if finalize { 0 } else { entry.dynamic - 1 };
                }
            }
            Act::EndRegion => {
                if let Some((device, s, _)) = self.regions.pop()
                    && let Some(entry) = &mut self.present[device][s.array]
                {
                    entry.structured -= 1;
                }
            }
            Act::Update { s, out: true, .. } => {
                s.blocks().for_each(|b| self.host[s.array][b] = self.device_value(device, s.array, b));
            }
            Act::Update { s, .. } => {
                let host = self.host[s.array];
                self.each(device, s, |block, _| host[block]);
            }
            Act::Fill { s, c } => self.each(device, s, |_, _| Some(c)),
            Act::Change { s, by } | Act::Through { s, by } => self.each(device, s, |_, value| affine(value, by)),
            Act::Add { s } | Act::CopiedIn { s } => {
                let from = match self.present[device][s.array] {
                    Some(entry) => entry.values,
                    None => self.host[s.array],
                };
                self.each(device, s.partner(), |block, value| triple_and(value, from[block]));
            }
            Act::Copied { s, by } if self.is_present(device, s) => self.each(device, s, |_, value| affine(value, by)),
            Act::Copied { s, by } => {
                s.blocks().for_each(|b| self.host[s.array][b] = affine(self.host[s.array][b], by));
            }
            Act::CopiedOut { s, c } if self.is_present(device, s) => self.each(device, s, |_, _| Some(c)),
            Act::CopiedOut { s, c } | Act::HostFill { s, c } => self.host[s.array][s.blocks()].fill(Some(c)),
            Act::Scalar { x, by } => self.scalars[x] = affine(self.scalars[x], by),
            Act::HostScalar { x, c } => self.scalars[x] = Some(c),
            Act::ByValue { s, x } => {
                let x = self.scalars[x];
                self.each(device, s, |_, value| Some(value?.wrapping_add(x?)));
            }
            Act::Across { s, to } => {
                let from = self.present[device][s.array].map_or([None; BLOCKS], |entry| entry.values);
                self.each(to, s, |block, _| from[block]);
            }
            Act::ToDevice { s } => {
                let host = self.host[s.partner().array];
                self.each(device, s, |block, _| host[block]);
            }
            Act::FromDevice { s } => {
                s.blocks().for_each(|b| self.host[s.partner().array][b] = self.device_value(device, s.array, b));
            }
            Act::Within { s } => {
                let from = self.present[device][s.partner().array].map_or([None; BLOCKS], |entry| entry.values);
                self.each(device, s, |block, _| from[block]);
            }
            Act::Hold { array } => self.held[device][array / 2] = Some(Held { array, attached: false }),
            Act::Attach { array } | Act::Detach { array } => {
                if let Some(held) = &mut self.held[device][array / 2] {
                    held.attached = matches!(op.act, Act::Attach { .. });
                }
            }
            Act::Drop { array } => self.held[device][array / 2] = None,
            _ => {}
        }
    }

    /// Returns the entry that holds a section, created if there is none.
    fn entry(&mut self, device: usize, s: Section, copy_in: bool) -> &mut Entry {
        let host = self.host[s.array];
        self.present[device][s.array].get_or_insert_with(|| {
            let mut values = [None; BLOCKS];
            if copy_in {
                values[s.blocks()].copy_from_slice(&host[s.blocks()]);
            }
            Entry { s, structured: 0, dynamic: 0, values }
        })
    }

    fn each(&mut self, device: usize, s: Section, change: impl Fn(usize, Value) -> Value) {
        if let Some(entry) = &mut self.present[device][s.array] {
            s.blocks().for_each(|block| entry.values[block] = change(block, entry.values[block]));
        }
    }
}

fn join(clock: &mut Clock, other: &Clock) {
    clock.iter_mut().zip(other).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
}
