//! Copies in that don't fit into a command: sent by the calling thread where that is possible,
//! else by threads of the link, once the executor is ready for them or at once.
//!
//! Nobody may take the bytes of an eager copy before the executor has got to its command, and its stream to it. Both may
//! wait for whatever the program has put in before, so no copy may have to wait for one that was put in later:
//!
//! * Eager copies get their lanes in the order of their commands.
//! * What the executor asks for, and takes at once, has lanes of its own. No eager copy, however old, is on them.

use super::core::Noise;
use super::line::{Call, Line};
use super::live::Live;
use crate::host_copy;
use accord_fabric::exchange::tell_abandoned;
use accord_fabric::stats::LinkStats;
use accord_fabric::wire::Command;
use accord_runtime::ports::ReadWhen;
use accord_types::{DevicePtr, Error, HostRange, QueueId, Result, TransferId};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Copies that must be read before the call returns, but can't be sent yet, are taken along up to
/// this size; larger ones wait.
const STAGE_MAX: usize = 64 << 10;

/// Transfers to send.
pub(super) struct Bulk {
    state: Mutex<State>,
    /// For the threads of the two lines.
    eager: Condvar,
    asked: Condvar,
}

struct State {
    eager: Line<Job>,
    asked: Line<Job>,
    /// To be sent when the executor asks for them.
    unasked: HashMap<TransferId, (u32, QueueId, Job)>,
    lost: Option<Error>,
}

/// Which line a transfer goes by, and on whose lanes.
#[derive(Clone, Copy)]
enum Way {
    Eager,
    Asked,
}

struct Job {
    transfer: TransferId,
    bytes: Bytes,
    /// Copies out that bring what it reads.
    after: Vec<TransferId>,
    sent: Option<Arc<Sent>>,
}

enum Bytes {
    /// The program's memory, which it leaves alone until it waits.
    Host(HostRange),
    /// A copy of it.
    Staged(Vec<u8>),
}

/// Tells a thread that its bytes were read.
#[derive(Default)]
struct Sent {
    outcome: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Sent {
    fn set(&self, outcome: Result<()>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.changed.notify_all();
    }

    fn wait(&self) -> Result<()> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            outcome = self.changed.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Job {
    fn finish(self, outcome: Result<()>) {
        if let Some(sent) = self.sent {
            sent.set(outcome);
        }
    }
}

impl State {
    fn line(&mut self, way: Way) -> &mut Line<Job> {
        match way {
            Way::Eager => &mut self.eager,
            Way::Asked => &mut self.asked,
        }
    }
}

impl Bulk {
    /// For so many lanes of each kind.
    pub(super) fn new(eager: usize, asked: usize) -> Self {
        let state = State { eager: Line::new(eager), asked: Line::new(asked), unasked: HashMap::new(), lost: None };
        Self { state: Mutex::new(state), eager: Condvar::new(), asked: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, way: Way) -> &Condvar {
        match way {
            Way::Eager => &self.eager,
            Way::Asked => &self.asked,
        }
    }

    /// The link is gone: nothing is sent any more.
    pub(super) fn lose(&self, error: &Error) {
        let mut state = self.lock();
        state.lost.get_or_insert_with(|| error.clone());
        let mut dropped: Vec<Job> = state.eager.leave().collect();
        dropped.extend(state.asked.leave());
        dropped.extend(state.unasked.drain().map(|(_, (_, _, job))| job));
        drop(state);
        self.eager.notify_all();
        self.asked.notify_all();
        dropped.into_iter().for_each(|job| job.finish(Err(error.clone())));
    }
}

impl Live {
    /// Copies more than a store's bytes in.
    ///
    /// # Errors
    /// When the queue, device or link has failed.
    pub(super) fn copy_in(
        self: &Arc<Self>,
        device: u32,
        queue: QueueId,
        dst: DevicePtr,
        src: HostRange,
        when: ReadWhen,
    ) -> Result<()> {
        let now = when == ReadWhen::BeforeReturn;
        let (transfer, len) = (self.spec.transfer(), src.len as u64);
        drop(self.core_with_credit()?);
        // Held over the command and the choice of a lane: both have the same order.
        let mut bulk = self.bulk.lock();
        let mut core = self.core();
        let state = core.device(device)?;
        let quiet = state.quiet(queue, self.spec.streams)?;
        let state = state.queue(queue)?;
        let after: Vec<_> = if now { Vec::new() } else { state.outs.writing(src).collect() };
        let eager = quiet && (now || !state.outs.any_writing(src, |transfer| self.landings.is_open(transfer)));
        state.count(if eager { Noise::Quiet } else { Noise::Noisy });
        // The queue stops here until they have landed.
        state.outs.settle(&after);
        let command = Command::CopyIn { device, queue: queue.0, dst: dst.0, len, transfer: transfer.0, eager };
        core.put(&command, &[])?;
        drop(core);
        if eager
            && now
            && bulk.eager.is_empty()
            && let Some(mut outgoing) = self.eager_outbox.try_begin(transfer, len)?
        {
            drop(bulk);
            self.flush()?;
            return outgoing.send(host_copy::bytes(src)).map_err(|error| self.lose(error.cause()));
        }
        let stage = now && src.len <= STAGE_MAX;
        let bytes = if stage { Bytes::Staged(host_copy::bytes(src).to_vec()) } else { Bytes::Host(src) };
        let sent = (now && !stage).then(Arc::<Sent>::default);
        let job = Job { transfer, bytes, after, sent: sent.clone() };
        if let Some(error) = &bulk.lost {
            return Err(error.clone());
        }
        if eager {
            bulk.eager.join(job);
            self.call(bulk, Way::Eager);
        } else {
            bulk.unasked.insert(transfer, (device, queue, job));
            drop(bulk);
        }
        match sent {
            None => self.send_soon(self.core()),
            Some(sent) => {
                if !eager {
                    LinkStats::add(&self.stats.round_trips, 1);
                }
                self.flush()?;
                sent.wait()
            }
        }
    }

    /// Sees to it that the next transfer of a line is taken.
    fn call(self: &Arc<Self>, mut bulk: MutexGuard<'_, State>, way: Way) {
        let call = bulk.line(way).call();
        drop(bulk);
        match call {
            Some(Call::Wake) => self.bulk.changed(way).notify_one(),
            Some(Call::Start) => self.spawn("accord-copy", move |live| live.send_transfers(way)),
            None => {}
        }
    }

    /// A thread of a line.
    fn send_transfers(self: &Arc<Self>, way: Way) {
        let outbox = match way {
            Way::Eager => &self.eager_outbox,
            Way::Asked => &self.outbox,
        };
        let mut bulk = self.bulk.lock();
        while bulk.lost.is_none() {
            let Some(job) = bulk.line(way).take() else {
                bulk = self.bulk.changed(way).wait(bulk).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(bulk);
            let bytes = match &job.bytes {
                Bytes::Host(range) => host_copy::bytes(*range),
                Bytes::Staged(bytes) => bytes,
            };
            let outgoing = outbox.begin(job.transfer, bytes.len() as u64);
            bulk = self.bulk.lock();
            bulk.line(way).boarded();
            self.call(bulk, way);
            // What the executor has asked for must not wait for commands that it does not read yet.
            let flushed = match way {
                Way::Eager => self.flush(),
                Way::Asked => Ok(()),
            };
            let outcome = flushed.and(outgoing).and_then(|mut outgoing| outgoing.send(bytes));
            let outcome = outcome.map_err(|error| self.lose(error.cause()));
            job.finish(outcome);
            bulk = self.bulk.lock();
            bulk.line(way).ended();
        }
    }

    /// The executor asks for a transfer's bytes.
    ///
    /// # Errors
    /// When that breaks the protocol.
    pub(super) fn ready(self: &Arc<Self>, transfer: TransferId, place: Vec<u8>) -> Result<()> {
        let mut bulk = self.bulk.lock();
        if let Some((_, _, mut job)) = bulk.unasked.remove(&transfer) {
            let after = std::mem::take(&mut job.after);
            if after.is_empty() {
                bulk.asked.join(job);
                self.call(bulk, Way::Asked);
                return Ok(());
            }
            drop(bulk);
            // Not in the line: those behind it may be what they stand behind.
            let live = self.clone();
            if !self.landings.when_landed(after, Box::new(move || live.join_asked(job))) {
                self.wake_sender();
            }
            return Ok(());
        }
        drop(bulk);
        if self.exchange.on_ready(transfer, place)? {
            tell_abandoned(&self.outbox, transfer);
        }
        Ok(())
    }

    /// What a copy in reads is there, or never will be.
    fn join_asked(self: &Arc<Self>, job: Job) {
        let mut bulk = self.bulk.lock();
        if let Some(error) = bulk.lost.clone() {
            drop(bulk);
            return job.finish(Err(error));
        }
        bulk.asked.join(job);
        self.call(bulk, Way::Asked);
    }

    /// Whether queued copies before the next operation of the queue will still write a range of the program's memory.
    ///
    /// # Errors
    /// When the queue, device or link has failed.
    pub(super) fn is_landing(&self, device: u32, queue: QueueId, range: HostRange) -> Result<bool> {
        let open = |transfer| self.landings.is_open(transfer);
        Ok(self.core().device(device)?.queue(queue)?.outs.any_writing(range, open))
    }

    /// The executor will not ask for the bytes of a failed queue, or of all of a device.
    pub(super) fn cancel_transfers(&self, device: u32, queue: Option<QueueId>, error: &Error) {
        let mut bulk = self.bulk.lock();
        let fits = |of: u32, in_queue: QueueId| of == device && queue.is_none_or(|queue| queue == in_queue);
        let cancelled: Vec<_> = bulk.unasked.extract_if(|_, (of, in_queue, _)| fits(*of, *in_queue)).collect();
        drop(bulk);
        for (_, (_, _, job)) in cancelled {
            job.finish(Err(error.clone()));
        }
    }
}
