//! Enters a construct, however many tries it takes.

use super::Leaving;
use super::entries::Entries;
use super::map::{Mapping, Mode, Stop};
use super::region::Scratch;
use crate::device::Device;
use crate::ports::HostMemory;
use accord_types::{QueueId, Result};

/// One construct on one device.
#[derive(Clone, Copy)]
pub(crate) struct Entering<'a> {
    pub(crate) device: &'a Device,
    /// All devices of the session.
    pub(crate) all: &'a [Device],
    pub(crate) host: &'a dyn HostMemory,
    pub(crate) queue: QueueId,
    pub(crate) mode: Mode,
}

impl Entering<'_> {
    /// Fills `scratch` with what the construct holds and what has to be told to the device.
    /// A compute construct also leaves at once: its end is part of the plan.
    ///
    /// # Errors
    /// Those of the specification's data clauses (OpenACC 3.3, 2.7.3). Nothing is held then.
    pub(crate) fn decide(&self, entries: &mut Entries<'_>, scratch: &mut Scratch) -> Result<()> {
        self.plan(entries, scratch, |mapping| mapping.run())
    }

    /// The same for anything else that looks data up: `act` is called under the lock until it
    /// can do what it is for.
    ///
    /// # Errors
    /// Those of `act`.
    pub(crate) fn plan(
        &self,
        entries: &mut Entries<'_>,
        scratch: &mut Scratch,
        mut act: impl FnMut(&mut Mapping<'_, '_>) -> Result<(), Stop>,
    ) -> Result<()> {
        let Scratch { plan, region, block, names, .. } = scratch;
        let mut state = self.device.lock();
        region.device = self.device.index;
        region.epoch = self.device.epoch();
        let ticket = state.ticket();
        let (mut waited, mut waited_elsewhere) = (Vec::new(), false);
        let mut refused = None;
        loop {
            plan.begin(self.device.is_watched());
            plan.ticket = ticket;
            region.clear();
            let mut queues = self.device.queues();
            let mut mapping = Mapping {
                device: self.device,
                host: self.host,
                state: &mut state,
                queues: &mut queues,
                queue: self.queue,
                waited: &waited,
                waited_elsewhere,
                refused: refused.as_ref(),
                mode: self.mode,
                entries: &mut *entries,
                plan: &mut *plan,
                region: &mut *region,
                block: &mut *block,
                names: &mut *names,
            };
            let counter = mapping.counter();
            let stop = match act(&mut mapping) {
                Ok(()) => {
                    if self.mode == Mode::Launch {
                        Leaving { state: &mut state, plan, counter }.launch(region, self.host);
                    }
                    return Ok(());
                }
                Err(stop) => stop,
            };
            Leaving { state: &mut state, plan, counter }.undo(region, &queues);
            drop(queues);
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
                    self.device.wait_told_each(&queues)?;
                    waited.extend(queues);
                    refused = None;
                    self.device.lock()
                }
                Stop::Grow(range) => {
                    drop(state);
                    refused = self.device.grow(range)?;
                    self.device.lock()
                }
                Stop::Shrink(ranges) => {
                    drop(state);
                    self.device.shrink(&ranges)?;
                    self.device.wait_told(QueueId::SYNC)?;
                    refused = None;
                    self.device.lock()
                }
                Stop::WaitElsewhere(queues) => {
                    drop(state);
                    queues.iter().try_for_each(|(device, queue)| self.all[*device].wait_told(*queue))?;
                    waited_elsewhere = true;
                    self.device.lock()
                }
            };
        }
    }
}
