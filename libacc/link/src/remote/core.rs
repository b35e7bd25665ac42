//! What the program knows of a node's devices and queues, and the frames that wait to be sent.

use super::outs::Outs;
use super::sender::Habits;
use accord_fabric::frame;
use accord_fabric::wire::Command;
use accord_types::{Error, ErrorCode, QueueId, Result, TransferId};
use std::collections::HashMap;
use std::ops::Range;

/// State under the link's one lock on its hot path.
#[derive(Default)]
pub(super) struct Core {
    /// Frames in order; the sender takes them.
    pub(super) frames: Vec<u8>,
    pub(super) habits: Habits,
    /// Bytes of commands for which no credit has come back.
    pub(super) in_flight: u64,
    /// Why the link is gone.
    pub(super) lost: Option<Error>,
    devices: HashMap<u32, DeviceState>,
}

/// What a command does to the question whether bytes may be sent eagerly into its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Noise {
    /// It never holds up what comes after it for long.
    Quiet,
    /// It may take its time: nothing after it is eager until it is known to be done.
    Noisy,
}

/// A started device.
#[derive(Default)]
pub(super) struct DeviceState {
    /// Its memory failed, or the executor said that all of it has.
    failed: Option<Error>,
    queues: HashMap<QueueId, QueueState>,
    /// Those among them that share streams if there are more than those.
    numbered: usize,
    /// Functions that the executor knows, by the runtime's key.
    functions: HashMap<u64, u32>,
    functions_named: u32,
    /// Bytes that the program has mapped.
    pub(super) mapped: u64,
}

/// A queue.
#[derive(Default)]
pub(super) struct QueueState {
    /// Operations put in.
    pub(super) last: u64,
    /// Known to be done.
    pub(super) reached: u64,
    /// Position of the last noisy operation.
    noisy: u64,
    failed: Option<Error>,
    /// Copies out whose bytes may not be here yet.
    pub(super) outs: Outs,
}

impl Core {
    pub(super) fn check(&self) -> Result<()> {
        match &self.lost {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    pub(super) fn open(&mut self, device: u32) {
        self.devices.insert(device, DeviceState::default());
    }

    /// Forgets a device. Returns the copies out that nobody will wait for.
    pub(super) fn close(&mut self, device: u32) -> Vec<TransferId> {
        let state = self.devices.remove(&device).unwrap_or_default();
        state.queues.into_values().flat_map(|mut queue| queue.outs.take_own()).collect()
    }

    /// A started device.
    ///
    /// # Errors
    /// When the link or the device has failed, or it is not started.
    pub(super) fn device(&mut self, device: u32) -> Result<&mut DeviceState> {
        self.check()?;
        match self.devices.get_mut(&device) {
            Some(DeviceState { failed: Some(error), .. }) => Err(error.clone()),
            Some(state) => Ok(state),
            None => {
                Err(Error::new(ErrorCode::DeviceUnavailable, "the device is not started")
                    .remedy("call acc_init before"))
            }
        }
    }

    /// Appends a frame.
    pub(super) fn put(&mut self, command: &Command, payload: &[&[u8]]) -> Result<()> {
        self.habits.append();
        self.in_flight += frame::put(&mut self.frames, command, payload)? as u64;
        Ok(())
    }

    /// A queue has failed, or with none all of a device, or with no device all of them.
    /// Returns its copies out.
    pub(super) fn fail(&mut self, device: Option<u32>, queue: Option<QueueId>, error: &Error) -> Vec<TransferId> {
        let mut landings = Vec::new();
        for (ordinal, state) in &mut self.devices {
            if device.is_some_and(|device| device != *ordinal) {
                continue;
            }
            match queue {
                None => {
                    state.failed.get_or_insert_with(|| error.clone());
                    landings.extend(state.queues.values_mut().flat_map(|queue| queue.outs.take_own()));
                }
                Some(queue) => {
                    let state = state.queues.entry(queue).or_default();
                    state.failed.get_or_insert_with(|| error.clone());
                    landings.extend(state.outs.take_own());
                }
            }
        }
        landings
    }
}

impl DeviceState {
    /// A queue, from its first use.
    ///
    /// # Errors
    /// When it has failed.
    pub(super) fn queue(&mut self, queue: QueueId) -> Result<&mut QueueState> {
        let numbered = &mut self.numbered;
        let state = self.queues.entry(queue).or_insert_with(|| {
            *numbered += usize::from(queue < QueueId::INCOMING);
            QueueState::default()
        });
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    /// Whether nothing can hold an eager copy in the queue up, on a device that has so many streams for queues.
    ///
    /// # Errors
    /// When the queue has failed.
    pub(super) fn quiet(&mut self, queue: QueueId, streams: usize) -> Result<bool> {
        let quiet = self.queue(queue)?.quiet();
        // Else it may have its stream together with another one.
        Ok(quiet && self.numbered <= streams)
    }

    /// The number by which the executor knows a function.
    pub(super) fn function(&self, key: u64) -> Option<u32> {
        self.functions.get(&key).copied()
    }

    /// Gives a function its number.
    pub(super) fn name_function(&mut self, key: u64) -> u32 {
        self.functions_named += 1;
        self.functions.insert(key, self.functions_named);
        self.functions_named
    }

    pub(super) fn forget_functions(&mut self, keys: &Range<u64>) {
        self.functions.retain(|key, _| !keys.contains(key));
    }
}

impl QueueState {
    /// Counts an operation. Returns its position.
    pub(super) fn count(&mut self, noise: Noise) -> u64 {
        self.last += 1;
        if noise == Noise::Noisy {
            self.noisy = self.last;
        }
        self.last
    }

    /// Whether nothing in the queue can hold an eager copy up.
    fn quiet(&self) -> bool {
        self.reached >= self.noisy
    }

    /// Whether everything in it is known to be done.
    pub(super) fn drained(&self) -> bool {
        self.reached >= self.last && self.outs.is_empty()
    }

    /// The executor has got this far. Appends the copies out that must be here before the program
    /// may know it.
    pub(super) fn reach(&mut self, seq: u64, landings: &mut Vec<TransferId>) {
        self.reached = self.reached.max(seq);
        landings.extend(self.outs.until(seq));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::HostRange;

    #[test]
    fn a_queue_is_quiet_until_something_noisy_is_put_in_and_again_when_it_is_done() -> Result<()> {
        let mut core = Core::default();
        core.open(0);
        let queue = core.device(0)?.queue(QueueId(1))?;
        queue.count(Noise::Quiet);
        assert!(queue.quiet() && !queue.drained());
        let seq = queue.count(Noise::Noisy);
        assert!(!queue.quiet());
        queue.outs.push(seq, TransferId(4), HostRange { start: 8, len: 8 }, |_| true);
        queue.count(Noise::Quiet);
        let mut landings = Vec::new();
        queue.reach(seq, &mut landings);
        assert_eq!(landings, [TransferId(4)]);
        assert!(queue.quiet() && !queue.drained());
        queue.reach(seq + 1, &mut Vec::new());
        assert!(!queue.drained());
        queue.outs.landed(seq);
        assert!(queue.drained());
        Ok(())
    }

    #[test]
    fn no_queue_is_quiet_where_queues_share_streams() -> Result<()> {
        let mut core = Core::default();
        core.open(0);
        let device = core.device(0)?;
        for queue in [QueueId(0), QueueId::SYNC, QueueId::INCOMING, QueueId(7), QueueId(7)] {
            assert!(device.quiet(queue, 2)?);
        }
        assert!(!device.quiet(QueueId(1), 2)?);
        assert!(!device.quiet(QueueId(0), 2)? && device.quiet(QueueId(0), 3)?);
        Ok(())
    }

    #[test]
    fn failures_are_sticky_and_give_landings_back() -> Result<()> {
        let mut core = Core::default();
        core.open(0);
        core.open(1);
        for device in 0..2 {
            let queue = core.device(device)?.queue(QueueId(1))?;
            let seq = queue.count(Noise::Noisy);
            queue.outs.push(seq, TransferId(device.into()), HostRange { start: 8, len: 8 }, |_| true);
        }
        let error = Error::new(ErrorCode::Execution, "crashed");
        assert_eq!(core.fail(Some(1), Some(QueueId(1)), &error), [TransferId(1)]);
        assert!(core.device(1)?.queue(QueueId(1)).is_err());
        assert!(core.device(1)?.queue(QueueId(2)).is_ok());
        assert_eq!(core.fail(Some(0), None, &error), [TransferId(0)]);
        assert!(core.device(0).is_err());
        core.close(0);
        core.open(0);
        assert!(core.device(0).is_ok());
        Ok(())
    }
}
