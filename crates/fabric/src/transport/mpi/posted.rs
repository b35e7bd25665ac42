//! Posted receives into device memory, see `streams/posted.rs`: their addresses, and the notification when a message
//! has been received.

use super::exposed_memory::{ReceiveBuffer, SendBuffer};
use super::message::LaneKey;
use super::posted_receives::ReceiveTarget;
use super::posts::{Posted, Sent};
use super::shared::{LaneTable, Shared};
use crate::transport::remote_memory::{PostedReceive, PostedSend, ReceiveEnded};
use accord_types::NativeRange;
use accord_types::short_lock::ShortGuard;
use accord_types::signal::{SharedSpinPolicy, Signal};
use accord_types::spin_policy::SpinPolicy;
use accord_types::threads;
use std::io::{self, ErrorKind};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Instant;

/// Most bytes of such a message. A message whose receive was abandoned is received into host memory and discarded.
const RECEIVE_BYTES_MAX: usize = 16 << 20;

/// A posted receive of a lane.
#[derive(Debug)]
struct LaneReceive {
    shared: Arc<Shared>,
    id: u64,
}

impl PostedReceive for LaneReceive {
    fn withdraw(&self) -> bool {
        let mut state = self.shared.lock();
        let is_free = state.streams.withdraw(self.id);
        let space = if is_free { state.posts.receives.remove(&self.id) } else { None };
        drop(state);
        // Dropped without the lock, because that may take long.
        drop(space);
        is_free
    }

    fn abandon(&self) {
        self.shared.lock().streams.abandon(self.id);
    }

    fn has_ended(&self) -> bool {
        !self.shared.lock().streams.is_posted(self.id)
    }

    fn await_free(&self) {
        let mut state = self.shared.lock();
        while !state.streams.abandon(self.id) {
            let changed = state.posts.changed.clone();
            // MPI completes the receive, or the world ends.
            state = match changed.wait(state, None) {
                Ok(state) => state,
                Err(_) => return,
            };
        }
    }
}

impl Drop for LaneReceive {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.streams.abandon(self.id);
        let space = state.posts.receives.remove(&self.id);
        drop(state);
        drop(space);
    }
}

impl LaneTable {
    /// Returns the buffer for an arrived message.
    pub(super) fn space_for(&mut self, from: u32, tag: u16, len: usize) -> io::Result<ReceiveBuffer> {
        let none = || io::Error::new(ErrorKind::InvalidData, "there is no room for a message that was asked for");
        match self.streams.comes(from, tag, len)? {
            ReceiveTarget::Reader(lane) => {
                self.receives.get(&lane).copied().filter(|space| space.len() == len).ok_or_else(none)
            }
            ReceiveTarget::Posted(id) => self.posts.receives.get(&id).map(|posted| posted.space).ok_or_else(none),
            ReceiveTarget::Abandoned => {
                let mut waste = Vec::new();
                waste.try_reserve_exact(len).map_err(|_| ErrorKind::OutOfMemory)?;
                waste.resize(len, 0);
                let space = ReceiveBuffer::of(&mut waste);
                self.posts.waste.insert(tag, waste);
                Ok(space)
            }
        }
    }

    /// Queues the notifications of receives and sends that are over.
    pub(super) fn end_posts(&mut self) {
        let Self { streams, posts, .. } = self;
        while let Some((id, filled)) = streams.next_ended_receive() {
            posts.ended.extend(posts.receives.remove(&id).map(|posted| (posted.reported, filled)));
            posts.changed.raise();
        }
        while let Some(id) = streams.next_sent() {
            if let Some(sent) = posts.sending.get_mut(&id) {
                sent.is_sent = true;
                sent.notify();
            }
        }
        while let Some((id, landed)) = streams.next_landed() {
            if let Some(sent) = posts.sending.get_mut(&id) {
                sent.landed = Some(landed);
                sent.notify();
            }
        }
    }
}

impl Shared {
    /// Posts a receive on a lane.
    pub(super) fn post(
        self: &Arc<Self>,
        key: LaneKey,
        space: NativeRange,
        reported: ReceiveEnded,
    ) -> Option<(NonZeroU16, Arc<dyn PostedReceive>)> {
        if space.len == 0 || space.len > RECEIVE_BYTES_MAX || !self.takes_native() {
            return None;
        }
        let mut state = self.lock();
        if !std::mem::replace(&mut state.posts.has_thread, true) {
            let shared = self.clone();
            drop(state);
            if threads::spawn("accord-mpi-room", move || notify_receives(&shared)).is_err() {
                self.lock().posts.has_thread = false;
                return None;
            }
            state = self.lock();
        }
        let (id, tag) = state.streams.post(key, space.len as u64)?;
        let tag = NonZeroU16::new(tag)?;
        state.posts.receives.insert(id, Posted { space: ReceiveBuffer::native(space), reported });
        // The notifying thread polls from now on.
        state.posts.changed.raise();
        drop(state);
        Some((tag, Arc::new(LaneReceive { shared: self.clone(), id })))
    }

    /// Sends bytes to a receive that a lane's peer has posted.
    pub(super) fn send_posted(
        self: &Arc<Self>,
        key: LaneKey,
        tag: u16,
        bytes: SendBuffer,
        spin: &Arc<SharedSpinPolicy>,
    ) -> io::Result<Sending> {
        let mut state = self.lock_to_write();
        state.check()?;
        let id = state.streams.send_posted(key, tag, bytes.len())?;
        let changed = Arc::<Signal>::default();
        let sent = Sent { bytes, changed: changed.clone(), is_sent: false, landed: None, is_let_go: false };
        state.posts.sending.insert(id, sent);
        let seen = changed.raised();
        self.has_changed(state);
        Ok(Sending {
            shared: self.clone(),
            id,
            changed,
            seen,
            spin: spin.clone(),
            begun: Instant::now(),
            is_over: false,
        })
    }
}

/// Bytes in flight to another rank's posted receive.
#[derive(Debug)]
pub(super) struct Sending {
    shared: Arc<Shared>,
    id: u64,
    changed: Arc<Signal>,
    /// The signal's count when the send was enqueued.
    seen: u32,
    spin: Arc<SharedSpinPolicy>,
    begun: Instant,
    /// Whether the caller has the outcome.
    is_over: bool,
}

impl PostedSend for Sending {
    fn wait(&mut self) -> io::Result<bool> {
        self.changed.spin_until(self.seen, &self.spin);
        let mut state = self.until(|sent| sent.is_sent && sent.landed.is_some())?;
        self.spin.waited(self.begun);
        let (sent, checked) = (state.posts.sending.remove(&self.id), state.check());
        drop(state);
        self.is_over = true;
        checked?;
        Ok(sent.and_then(|sent| sent.landed) == Some(true))
    }
}

impl Sending {
    /// Blocks until `is_so` holds. Without a time limit, because MPI may be reading the bytes.
    fn until(&self, is_so: impl Fn(&Sent) -> bool) -> io::Result<ShortGuard<'_, LaneTable>> {
        let mut state = self.shared.lock();
        while state.posts.sending.get(&self.id).is_some_and(|sent| !is_so(sent)) {
            state = self.changed.wait(state, None)?;
        }
        Ok(state)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(sent) = self.shared.lock().posts.sending.get_mut(&self.id) {
            sent.is_let_go = true;
        }
        // A dropped send has no caller that could get an error.
        if let Ok(mut state) = self.until(|sent| sent.is_sent) {
            state.streams.forget_completion(self.id);
            state.posts.sending.remove(&self.id);
        }
    }
}

/// Notifies the owners of receives that are over, until the thread has left MPI.
fn notify_receives(shared: &Shared) {
    let mut spin = SpinPolicy::long_spin();
    loop {
        let mut state = shared.lock();
        if let Some((reported, filled)) = state.posts.ended.pop_front() {
            drop(state);
            reported(filled);
            continue;
        }
        if state.has_left {
            return;
        }
        let changed = state.posts.changed.clone();
        if state.posts.receives.is_empty() {
            // Time spent without a posted receive does not count as transfer time.
            drop(changed.wait(state, None));
        } else {
            drop(shared.spin_then_wait(&changed, state, &mut spin));
        }
    }
}
