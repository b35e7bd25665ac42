//! Enters a construct, with as many attempts as needed.

use super::ConstructExit;
use super::entries::Entries;
use super::map::{EnterAttempts, Mapping, Mode, Stop};
use super::region::Scratch;
use crate::bounds::no_guards;
use crate::device::{Device, DeviceData};
use crate::ports::HostMemory;
use accord_types::short_lock::ShortGuard;
use accord_types::{QueueId, Result};

/// One construct on one device.
#[derive(Clone, Copy)]
pub(crate) struct ConstructEnter<'a> {
    pub(crate) device: &'a Device,
    /// All devices of the session.
    pub(crate) all: &'a [Device],
    pub(crate) host: &'a dyn HostMemory,
    pub(crate) queue: QueueId,
    pub(crate) mode: Mode,
}

impl ConstructEnter<'_> {
    /// Fills `scratch` with what the construct holds and the commands for the device.
    /// A compute construct also leaves at once: its end is part of the plan.
    ///
    /// # Errors
    /// Returns the errors of the specification's data clauses (OpenACC 3.3, 2.7.3). Nothing is held then.
    pub(crate) fn decide(&self, entries: &mut Entries<'_>, scratch: &mut Scratch) -> Result<()> {
        self.plan(entries, scratch, |mapping| mapping.run())
    }

    /// Does the same for any other use of the present table: calls `act` under the lock until nothing
    /// stops it.
    ///
    /// # Errors
    /// Returns the errors of `act`.
    pub(crate) fn plan(
        &self,
        entries: &mut Entries<'_>,
        scratch: &mut Scratch,
        mut act: impl FnMut(&mut Mapping<'_, '_>) -> Result<(), Stop>,
    ) -> Result<()> {
        if self.device.rules.notes_origins {
            scratch.region.call = self.host.call();
        }
        let mut state = self.device.lock();
        let ticket = state.ticket();
        match self.attempt(&mut state, ticket, &EnterAttempts::default(), entries, scratch, &mut act) {
            Ok(()) => Ok(()),
            Err(stop) => self.again((state, stop), ticket, entries, scratch, &mut act),
        }
    }

    /// Handles what stopped the first attempt, and repeats until nothing does.
    #[cold]
    fn again<'s>(
        &'s self,
        (mut state, mut stop): (ShortGuard<'s, DeviceData>, Stop),
        ticket: u64,
        entries: &mut Entries<'_>,
        scratch: &mut Scratch,
        act: &mut dyn FnMut(&mut Mapping<'_, '_>) -> Result<(), Stop>,
    ) -> Result<()> {
        let mut tried = EnterAttempts::default();
        loop {
            state = match stop {
                Stop::Fail(error) => return Err(self.device.place(error)),
                Stop::Arrival => self.device.wait_for_arrival(state),
                Stop::Resolve(host) => {
                    drop(state);
                    self.device.resolve(host)?;
                    self.device.lock()
                }
                Stop::Wait(queues) => {
                    drop(state);
                    self.device.wait_each_observed(&queues)?;
                    tried.waited.extend(queues);
                    tried.refused = None;
                    self.device.lock()
                }
                Stop::Grow(range) => {
                    drop(state);
                    tried.refused = self.device.grow(range)?;
                    let mut state = self.device.lock();
                    if state.memory.lacks_guards() {
                        drop(state);
                        self.host.report_no_guards(&self.device.place(no_guards()));
                        state = self.device.lock();
                    }
                    state
                }
                Stop::Shrink(ranges) => {
                    drop(state);
                    self.device.shrink(&ranges)?;
                    self.device.wait_observed(QueueId::SYNC)?;
                    tried.refused = None;
                    self.device.lock()
                }
                Stop::WaitElsewhere(queues) => {
                    drop(state);
                    queues.iter().try_for_each(|(device, queue)| self.all[*device].wait_observed(*queue))?;
                    tried.waited_elsewhere = true;
                    self.device.lock()
                }
            };
            match self.attempt(&mut state, ticket, &tried, entries, scratch, &mut *act) {
                Ok(()) => return Ok(()),
                Err(next) => stop = next,
            }
        }
    }

    /// Attempts once under the lock. Undoes all of it if something stops it.
    #[inline]
    fn attempt(
        &self,
        state: &mut DeviceData,
        ticket: u64,
        tried: &EnterAttempts,
        entries: &mut Entries<'_>,
        scratch: &mut Scratch,
        mut act: impl FnMut(&mut Mapping<'_, '_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Scratch { plan, region, block, names, .. } = scratch;
        region.device = self.device.index;
        region.epoch = self.device.epoch();
        plan.begin(self.device.is_watched());
        plan.ticket = ticket;
        region.clear();
        let mut queues = self.device.queues();
        let mut mapping = Mapping {
            device: self.device,
            host: self.host,
            state: &mut *state,
            queues: &mut queues,
            queue: self.queue,
            tried,
            mode: self.mode,
            entries,
            plan: &mut *plan,
            region: &mut *region,
            block,
            names,
        };
        let counter = mapping.counter();
        if let Err(stop) = act(&mut mapping) {
            ConstructExit { state, plan, counter }.undo(region, &queues);
            return Err(stop);
        }
        if self.mode == Mode::Launch {
            ConstructExit { state, plan, counter }.launch(region, self.host);
        }
        // Queried now, as the lock is held.
        plan.follow(self.queue, &mut queues);
        Ok(())
    }
}
