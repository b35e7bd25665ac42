//! What a construct decided under its device's lock, and doing it without the lock.

use crate::construct::{Loan, Spaced};
use crate::device::{Device, State};
use crate::ports::{Chain, HostMemory, Landing, Part, ReadWhen};
use crate::present::EntryId;
use crate::prof::Happening;
use crate::queues::{After, Moment, QueueSet, Queues};
use accord_types::{DevicePtr, HostRange, QueueId, Result};
use std::sync::Arc;

/// Most bytes that travel inside a command.
pub(crate) const STORE_MAX: usize = 4096;
/// Copies of single variables have a buffer of their own.
const SMALL_STORE_MAX: usize = 64;

/// Largest constant of the program that is looked at when it would be copied out: a region can change one only behind the
/// compiler's back, and a large one is not worth the way.
const COMPARED_MAX: usize = 64 << 10;

/// One command to a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Writes bytes that the construct made: pointers, descriptors.
    Bytes {
        dst: DevicePtr,
        /// Where in [`Plan::bytes`].
        at: usize,
        len: usize,
    },
    /// Copies from the program's memory.
    In { dst: DevicePtr, src: HostRange, when: ReadWhen },
    /// Copies to the program's memory.
    Out { src: DevicePtr, dst: HostRange },
    /// Copies elements of a range to the program's memory, and nothing that lies between.
    OutSpaced { src: DevicePtr, dst: HostRange, spaced: Spaced },
    /// Copies what has changed of a block to the program's memory.
    OutChanged {
        src: DevicePtr,
        /// Where in [`Plan::bytes`] is what it was filled with.
        at: usize,
        len: usize,
        /// From where to where in [`Plan::parts`].
        parts: (usize, usize),
        /// Where in [`Plan::chains`].
        chain: Option<usize>,
    },
    /// Copies within the device.
    Copy { dst: DevicePtr, src: DevicePtr, len: u64 },
}

impl Step {
    /// Whether it copies to the program's memory.
    fn copies_out(&self) -> bool {
        matches!(self, Self::Out { .. } | Self::OutSpaced { .. } | Self::OutChanged { .. })
    }
}

/// A part of [`crate::prof::Notice`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Happened {
    pub(crate) what: Happening,
    pub(crate) host: usize,
    pub(crate) address: DevicePtr,
    pub(crate) bytes: u64,
}

/// The commands of one construct, in order.
#[derive(Default)]
pub(crate) struct Plan {
    /// Marks the entries that arrive with this construct.
    pub(crate) ticket: u64,
    /// The queue waits for these first: they may still use memory that was given to this construct.
    pub(crate) waits: Vec<QueueId>,
    /// Before the launch, or all.
    pub(crate) before: Vec<Step>,
    /// After the launch.
    pub(crate) after: Vec<Step>,
    /// Contents of [`Step::Bytes`], and of blocks that come back.
    pub(crate) bytes: Vec<u8>,
    /// Places of those.
    pub(crate) parts: Vec<Part>,
    /// Chains of small variables.
    pub(crate) chains: Vec<Arc<Chain>>,
    /// Blocks that nobody needs once the commands are done.
    pub(crate) frees: Vec<DevicePtr>,
    /// Some of them may still be in use by queues other than this construct's.
    pub(crate) frees_shared: bool,
    /// Queues that have used data that the commands copy out for the last time.
    pub(crate) copied_used_by: QueueSet,
    /// Somebody wants to know what the plan does.
    pub(crate) watched: bool,
    /// What becomes present, and device memory that is taken; filled if watched.
    pub(crate) begins: Vec<Happened>,
    /// What stops being present, likewise.
    pub(crate) ends: Vec<Happened>,
    /// Arrays whose pages may be locked and need not be any more, and whether the commands copy to them.
    pub(crate) unlocks: Vec<(HostRange, bool)>,
    /// Entries whose first bytes these commands carry.
    pub(crate) arrivals: Vec<EntryId>,
    /// Blocks that the launch gets a copy of.
    pub(crate) loans: Vec<Loan>,
}

impl Plan {
    /// Empties the plan, keeping its storage.
    pub(crate) fn clear(&mut self) {
        self.waits.clear();
        self.before.clear();
        self.after.clear();
        self.bytes.clear();
        self.parts.clear();
        self.chains.clear();
        self.frees.clear();
        self.frees_shared = false;
        self.copied_used_by = QueueSet::default();
        self.unlocks.clear();
        self.arrivals.clear();
        self.begins.clear();
        self.ends.clear();
        self.loans.clear();
    }

    /// Empties the plan for a construct on `device`.
    pub(crate) fn begin(&mut self, device: &Device) {
        self.clear();
        self.watched = device.watch.is_active();
    }

    /// Whether there is nothing to tell the device.
    pub(crate) fn is_silent(&self) -> bool {
        self.waits.is_empty() && self.before.is_empty() && self.after.is_empty()
    }

    /// Adds the store of a pointer.
    pub(crate) fn pointer(&mut self, dst: DevicePtr, value: u64) {
        self.bytes(dst, &value.to_ne_bytes());
    }

    /// Adds a store of these bytes.
    pub(crate) fn bytes(&mut self, dst: DevicePtr, bytes: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.before.push(Step::Bytes { dst, at, len: bytes.len() });
    }

    /// After the launch, brings back what has changed of the block at `src`: the bytes from `at` on, the last ones of
    /// [`Plan::bytes`], for the last `count` parts, or the next value of a chain.
    pub(crate) fn brings_back(&mut self, src: DevicePtr, at: usize, count: usize, chain: Option<Arc<Chain>>) {
        let parts = (self.parts.len() - count, self.parts.len());
        let chain = chain.map(|chain| {
            self.chains.push(chain);
            self.chains.len() - 1
        });
        self.after.push(Step::OutChanged { src, at, len: self.bytes.len() - at, parts, chain });
    }

    /// Whether a copy to the program's memory is among the commands.
    pub(crate) fn copies_out(&self) -> bool {
        self.before.iter().chain(&self.after).any(Step::copies_out)
    }
}

/// Puts commands into one queue of a device and keeps the books.
pub(crate) struct Issue<'a> {
    pub(crate) device: &'a Device,
    pub(crate) host: &'a dyn HostMemory,
    pub(crate) queue: QueueId,
}

impl Issue<'_> {
    /// Makes the queue come after what a plan needs to be done first.
    pub(crate) fn join_for(&self, plan: &Plan) -> Result<()> {
        self.join(&plan.waits)?;
        self.after_arrivals(plan)
    }

    /// Makes the queue come after what has to be done first.
    pub(crate) fn join(&self, waits: &[QueueId]) -> Result<()> {
        // The synchronous queue has nothing to join: itself comes first anyway.
        let due = if self.queue == QueueId::SYNC { None } else { self.device.queues().due(self.queue) };
        if let Some(due) = due {
            // Noted when it is done: another thread that finds this noted must find it done.
            self.device.client().wait_queue(self.queue, QueueId::SYNC).map_err(|e| self.place(e))?;
            self.device.queues().joined(self.queue, due);
        }
        let follow = |other: &QueueId| self.device.queue_follows(self.queue, *other, true);
        waits.iter().try_for_each(follow).map_err(|error| error.queue(self.queue))
    }

    /// Makes what the plan copies out come after what other queues bring into the same memory: the later copy stays.
    fn after_arrivals(&self, plan: &Plan) -> Result<()> {
        let Device { arrivals, index, .. } = self.device;
        if !arrivals.any(*index) {
            return Ok(());
        }
        for step in plan.before.iter().chain(&plan.after) {
            let (Step::Out { dst, .. } | Step::OutSpaced { dst, .. }) = step else { continue };
            for one in arrivals.here(*index, *dst).iter().filter(|one| !one.unknown) {
                if self.device.queues().comes_after(self.queue, one.queue, one.moment) {
                    continue;
                }
                if self.queue == QueueId::SYNC {
                    // By the host: a queue that has failed must not take the synchronous one along.
                    self.device.wait_told(one.queue)?;
                } else {
                    self.device.queue_follows(self.queue, one.queue, true).map_err(|error| error.queue(self.queue))?;
                }
            }
        }
        Ok(())
    }

    /// Tells the observer what a watched plan began or ended.
    pub(crate) fn tell(&self, all: &[Happened]) {
        for happened in all {
            self.device.tell(happened.what, |notice| {
                notice.queue = self.queue;
                notice.host = happened.host;
                notice.address = happened.address.0;
                notice.bytes = happened.bytes;
            });
        }
    }

    /// Puts commands of the plan in: those before the launch, or after it.
    pub(crate) fn steps(&self, steps: &[Step], plan: &Plan) -> Result<()> {
        let put = |step: &Step| {
            if plan.watched { self.step_told(*step, plan) } else { self.step(*step, plan) }
        };
        steps.iter().try_for_each(put).map_err(|e| self.place(e))
    }

    /// Notes that commands went in, at the moment that is returned. `left_behind`: the caller does not wait for them.
    pub(crate) fn filled(&self, steps: &[Step], left_behind: bool) -> Moment {
        let mut queues = self.device.queues();
        queues.filled(self.queue, left_behind);
        // Those of the synchronous queue are waited for at once.
        if self.queue != QueueId::SYNC {
            for step in steps {
                if let Step::Out { dst, .. } | Step::OutSpaced { dst, .. } = step {
                    self.device.arrivals.add(self.device.index, self.queue, *dst, queues.now());
                }
            }
        }
        queues.now()
    }

    /// Everything after the commands went in, or failed to: others may use what arrived, blocks become free.
    /// `tell`: the observer was not told yet what ended.
    pub(crate) fn settle(&self, plan: &Plan, after_queue: Option<QueueId>, tell: bool) -> Result<()> {
        if tell && plan.watched {
            self.tell(&plan.ends);
        }
        let unlocked = self.unlock(plan);
        if plan.frees.is_empty() && plan.arrivals.is_empty() {
            return unlocked;
        }
        let mut guard = self.device.lock();
        let state: &mut State = &mut guard;
        for id in &plan.arrivals {
            if let Some(entry) = state.table.get_mut(*id) {
                entry.arriving = None;
            }
        }
        if !plan.arrivals.is_empty() {
            self.device.notify_arrival(state);
        }
        let queues = self.device.queues();
        let after = After { queue: after_queue, moment: queues.now() };
        give_back(state, &plan.frees, after, &queues);
        let idle = state.memory.trim(&queues);
        drop((queues, guard));
        unlocked.and(self.device.shrink(&idle))
    }

    /// The program may free its arrays when this construct is over: now, or for those that a queue copies to when that is waited for.
    fn unlock(&self, plan: &Plan) -> Result<()> {
        let mut result = Ok(());
        for (range, copied) in &plan.unlocks {
            let after = (*copied && self.queue != QueueId::SYNC).then_some(self.queue);
            result = result.and(self.device.client().unregister_pages(after, *range).map_err(|e| self.place(e)));
        }
        result
    }

    /// The same for an observer.
    fn step_told(&self, step: Step, plan: &Plan) -> Result<()> {
        use Happening::{DownloadEnd, DownloadStart, UploadEnd, UploadStart};
        let (start, end, host, address, len) = match step {
            Step::Bytes { dst, len, .. } => (UploadStart, UploadEnd, 0, dst, len),
            Step::In { dst, src, .. } => (UploadStart, UploadEnd, src.start, dst, src.len),
            Step::Out { src, dst } | Step::OutSpaced { src, dst, .. } => {
                (DownloadStart, DownloadEnd, dst.start, src, dst.len)
            }
            Step::OutChanged { src, len, parts: (first, _), .. } => {
                let host = plan.parts.get(first).map_or(0, |part| part.dst.start);
                (DownloadStart, DownloadEnd, host, src, len)
            }
            Step::Copy { .. } => return self.step(step, plan),
        };
        let happened = |what| [Happened { what, host, address, bytes: len as u64 }];
        self.tell(&happened(start));
        let put = self.step(step, plan);
        self.tell(&happened(end));
        put
    }

    fn step(&self, step: Step, plan: &Plan) -> Result<()> {
        let client = self.device.client();
        match step {
            Step::Bytes { dst, at, len } => {
                let mut done = 0;
                for piece in plan.bytes[at..at + len].chunks(STORE_MAX) {
                    client.store(self.queue, dst.offset(done), piece)?;
                    done += piece.len() as u64;
                }
                Ok(())
            }
            Step::In { dst, src, when } => {
                self.host.check_source(src)?;
                if src.len > STORE_MAX || when == ReadWhen::InOrder {
                    return client.copy_in(self.queue, dst, src, when);
                }
                let store = |piece: &mut [u8]| {
                    self.host.read(src.start, piece);
                    client.store(self.queue, dst, piece)
                };
                // To clear the large one costs more than the rest of a small copy.
                if src.len <= SMALL_STORE_MAX {
                    store(&mut [0; SMALL_STORE_MAX][..src.len])
                } else {
                    store(&mut [0; STORE_MAX][..src.len])
                }
            }
            Step::Out { src, dst } => match self.host.check_target(dst)? {
                Landing::Writable => client.copy_out(self.queue, src, dst),
                Landing::Constant if dst.len > COMPARED_MAX => Ok(()),
                Landing::Constant | Landing::ReadOnly => client.compare(self.queue, src, dst),
            },
            Step::OutSpaced { src, dst, spaced } => {
                let landing = self.host.check_target(dst)?;
                for offset in (0..dst.len).step_by(spaced.every) {
                    let element = HostRange { start: dst.start + offset, len: spaced.len };
                    let src = src.offset(offset as u64);
                    match landing {
                        Landing::Writable => client.copy_out(self.queue, src, element)?,
                        Landing::Constant | Landing::ReadOnly => client.compare(self.queue, src, element)?,
                    }
                }
                Ok(())
            }
            Step::OutChanged { src, at, len, parts: (first, end), chain } => {
                let (sent, parts) = (&plan.bytes[at..at + len], &plan.parts[first..end]);
                client.copy_out_changed(self.queue, src, sent, parts, chain.map(|chain| &plan.chains[chain]))
            }
            Step::Copy { dst, src, len } => client.copy(self.queue, dst, src, len),
        }
    }

    fn place(&self, error: accord_types::Error) -> accord_types::Error {
        self.device.place(error).queue(self.queue)
    }
}

/// Frees blocks.
pub(crate) fn give_back(state: &mut State, blocks: &[DevicePtr], after: After, queues: &Queues) {
    for block in blocks {
        state.memory.give_back(*block, after, queues);
    }
}

/// The largest frame of the caller that is treated as one.
pub(crate) const FRAME_MAX: usize = 1 << 20;

/// When a copy of `src` has to have read it, in an asynchronous construct whose arrays of entries lie at
/// `near`: what lies close to them is in the caller's frame, and may be a compiler temporary that its next construct
/// uses again. What queued copies will still write can only be read in order.
pub(crate) fn read_when(src: HostRange, near: usize, arriving: bool) -> ReadWhen {
    /// GCC passes large `firstprivate` aggregates by their own address, like `copyin`; the program may change them
    /// at once. Up to this size taking them along costs less than most launches.
    const VALUE_MAX: usize = 128 << 10;
    let temporary = src.start.abs_diff(near) < FRAME_MAX || src.len <= VALUE_MAX;
    if !arriving && temporary { ReadWhen::BeforeReturn } else { ReadWhen::InOrder }
}
