//! Copies in that don't fit into a command: sent by the calling thread where that is possible,
//! else by the bulk thread, once the executor is ready for them or at once.

use super::core::Noise;
use super::live::Live;
use crate::host_copy;
use accord_fabric::exchange::tell_abandoned;
use accord_fabric::stats::LinkStats;
use accord_fabric::wire::Command;
use accord_runtime::ports::ReadWhen;
use accord_types::{DevicePtr, Error, HostRange, QueueId, Result, TransferId};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Copies that must be read before the call returns, but can't be sent yet, are taken along up to
/// this size; larger ones wait.
const STAGE_MAX: usize = 64 << 10;

/// Transfers to send.
#[derive(Default)]
pub(super) struct Bulk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// To be sent in this order.
    jobs: VecDeque<Job>,
    /// Eager ones among them that have no lane yet. No other eager transfer may overtake them: lanes carry
    /// what the executor takes in the order of its streams.
    eager: usize,
    /// To be sent when the executor asks for them.
    asked: HashMap<TransferId, (u32, QueueId, Job)>,
    started: bool,
    lost: Option<Error>,
}

struct Job {
    transfer: TransferId,
    bytes: Bytes,
    eager: bool,
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

impl Bulk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link is gone: nothing is sent any more.
    pub(super) fn lose(&self, error: &Error) {
        let mut state = self.lock();
        state.lost.get_or_insert_with(|| error.clone());
        let mut dropped: Vec<Job> = state.jobs.drain(..).collect();
        dropped.extend(state.asked.drain().map(|(_, (_, _, job))| job));
        drop(state);
        self.changed.notify_all();
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
        let state = core.device(device)?.queue(queue)?;
        let eager = state.quiet();
        state.count(if eager { Noise::Quiet } else { Noise::Noisy });
        let command = Command::CopyIn { device, queue: queue.0, dst: dst.0, len, transfer: transfer.0, eager };
        core.put(&command, &[])?;
        drop(core);
        if eager
            && now
            && bulk.eager == 0
            && let Some(mut outgoing) = self.outbox.try_begin(transfer, len)?
        {
            drop(bulk);
            self.flush()?;
            return outgoing.send(host_copy::bytes(src)).map_err(|error| self.lose(error.cause()));
        }
        let stage = now && src.len <= STAGE_MAX;
        let bytes = if stage { Bytes::Staged(host_copy::bytes(src).to_vec()) } else { Bytes::Host(src) };
        let sent = (now && !stage).then(Arc::<Sent>::default);
        let job = Job { transfer, bytes, eager, sent: sent.clone() };
        if let Some(error) = &bulk.lost {
            return Err(error.clone());
        }
        if eager {
            bulk.eager += 1;
            bulk.jobs.push_back(job);
        } else {
            bulk.asked.insert(transfer, (device, queue, job));
        }
        let started = std::mem::replace(&mut bulk.started, true);
        drop(bulk);
        if !started {
            self.spawn("accord-copy", |live| live.send_transfers());
        }
        self.bulk.changed.notify_one();
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

    /// The bulk thread.
    fn send_transfers(&self) {
        loop {
            let mut bulk = self.bulk.lock();
            let job = loop {
                if bulk.lost.is_some() {
                    return;
                }
                if let Some(job) = bulk.jobs.pop_front() {
                    break job;
                }
                bulk = self.bulk.changed.wait(bulk).unwrap_or_else(PoisonError::into_inner);
            };
            drop(bulk);
            let bytes = match &job.bytes {
                Bytes::Host(range) => host_copy::bytes(*range),
                Bytes::Staged(bytes) => bytes,
            };
            let outgoing = self.outbox.begin(job.transfer, bytes.len() as u64);
            if job.eager {
                self.bulk.lock().eager -= 1;
            }
            let outcome = self.flush().and(outgoing).and_then(|mut outgoing| outgoing.send(bytes));
            let outcome = outcome.map_err(|error| self.lose(error.cause()));
            job.finish(outcome);
        }
    }

    /// The executor asks for a transfer's bytes.
    ///
    /// # Errors
    /// When that breaks the protocol.
    pub(super) fn ready(&self, transfer: TransferId, place: Vec<u8>) -> Result<()> {
        let mut bulk = self.bulk.lock();
        if let Some((_, _, job)) = bulk.asked.remove(&transfer) {
            bulk.jobs.push_back(job);
            drop(bulk);
            self.bulk.changed.notify_one();
            return Ok(());
        }
        drop(bulk);
        if self.exchange.on_ready(transfer, place)? {
            tell_abandoned(&self.outbox, transfer);
        }
        Ok(())
    }

    /// The executor will not ask for the bytes of a failed queue, or of all of a device.
    pub(super) fn cancel_transfers(&self, device: u32, queue: Option<QueueId>, error: &Error) {
        let mut bulk = self.bulk.lock();
        let fits = |of: u32, in_queue: QueueId| of == device && queue.is_none_or(|queue| queue == in_queue);
        let cancelled: Vec<_> = bulk.asked.extract_if(|_, (of, in_queue, _)| fits(*of, *in_queue)).collect();
        drop(bulk);
        for (_, (_, _, job)) in cancelled {
            job.finish(Err(error.clone()));
        }
    }

}
