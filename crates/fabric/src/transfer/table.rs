//! All copies between devices that one process pushes or expects. Methods take events and return effects, without I/O,
//! threads or clock. [`super::Exchange`] and the simulations carry out the effects.

mod record;
mod source;
mod target;

pub use record::{Offer, PushStep, TRANSFERS_MAX};

use crate::peer::PeerId;
use crate::transfer::control::ControlMessage;
use accord_types::{Error, Result, TransferId};
use record::{Side, Transfer, TransferState};
use std::collections::HashMap;

/// The transfers of one process. `T` is what the caller keeps with each: the waiter at the source, the bytes' destination at the target.
pub struct TransferTable<T> {
    transfers: HashMap<(Side, TransferId), Transfer<T>>,
    pushes: Tally,
    expects: Tally,
    /// Bytes of the handles in `transfers`.
    handles_bytes: usize,
    /// Peers with a lane to this process.
    present: Vec<PeerId>,
    /// By process, the last lane that is no longer read, for at most [`TRANSFERS_MAX`] processes.
    last_lost: HashMap<PeerId, u32>,
    /// By process, the last lane that is lost for pushes, and the error.
    lost: HashMap<PeerId, (u32, Error)>,
    closed: Option<Error>,
    /// Number of finished copies that are reported at once; `None` if they are not reported.
    step: Option<u32>,
    effects: Vec<TransferEffect<T>>,
}

/// The transfers of one side.
#[derive(Default)]
struct Tally {
    /// Transfers in the table.
    open: usize,
    /// Removed transfers that were not reported yet.
    over: u32,
}

/// An action for the caller, which carries out several in their order.
#[derive(Debug)]
pub enum TransferEffect<T> {
    /// The waiter of a push, which is announced with this value, calls [`TransferTable::step`] again.
    Wake(TransferId, Option<T>),
    /// The bytes of a transfer may be sent: the caller prepares to receive them, then notifies the source.
    Ready {
        /// The source.
        peer: PeerId,
        /// The transfer.
        transfer: TransferId,
        /// The value that was announced with the transfer.
        value: T,
    },
    /// Notify the source of a transfer's end.
    Tell(PeerId, ControlMessage),
    /// Notify the ready target that no bytes will be sent on a lane.
    Abandon(PeerId, TransferId),
    /// A source that was allowed to send these transfers is gone. Values are those of [`TransferTable::keep`].
    Gone(PeerId, Vec<(TransferId, Option<T>)>),
    /// The transfer of this value will not take place.
    Drop(T),
    /// So many copies are over since the last report to the program.
    Over {
        /// Copies pushed from here.
        pushes: u32,
        /// Copies expected here.
        expects: u32,
    },
}

impl<T> TransferEffect<T> {
    /// Returns the source that the effect concerns, if there is one.
    pub fn peer(&self) -> Option<PeerId> {
        match *self {
            Self::Ready { peer, .. } | Self::Tell(peer, _) | Self::Gone(peer, _) => Some(peer),
            Self::Wake(..) | Self::Abandon(..) | Self::Drop(_) | Self::Over { .. } => None,
        }
    }
}

impl<T: Clone> TransferTable<T> {
    /// Creates a table without peers. It reports finished copies in steps of `step`, if given.
    pub fn new(step: Option<u32>) -> Self {
        Self {
            transfers: HashMap::new(),
            pushes: Tally::default(),
            expects: Tally::default(),
            handles_bytes: 0,
            present: Vec::new(),
            last_lost: HashMap::new(),
            lost: HashMap::new(),
            closed: None,
            step,
            effects: Vec::new(),
        }
    }

    /// Returns the effects since the last call.
    pub fn effects(&mut self) -> impl Iterator<Item = TransferEffect<T>> + '_ {
        self.effects.drain(..)
    }

    /// Returns the number of pushes that are tracked.
    pub fn pushes(&self) -> usize {
        self.pushes.open
    }

    /// Returns the number of expected transfers that are tracked.
    pub fn expects(&self) -> usize {
        self.expects.open
    }

    /// Checks that transfers may still start.
    ///
    /// # Errors
    /// Returns the error of [`TransferTable::close`] once it was called.
    pub fn check(&self) -> Result<()> {
        self.closed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Closes the table; pushes fail with `error`.
    pub fn close(&mut self, error: &Error) {
        self.closed.get_or_insert_with(|| error.clone());
        self.handles_bytes = 0;
        for ((side, transfer), record) in &mut self.transfers {
            match side {
                Side::Source => {
                    if let TransferState::Ready(offer) = &mut record.state {
                        *offer = Offer::Lane;
                    }
                    self.effects.push(TransferEffect::Wake(*transfer, record.value.clone()));
                }
                Side::Target => self.effects.extend(record.value.take().map(TransferEffect::Drop)),
            }
        }
    }

    /// Removes a transfer, which is over.
    fn remove(&mut self, side: Side, transfer: TransferId) -> Option<Transfer<T>> {
        let record = self.transfers.remove(&(side, transfer))?;
        if let TransferState::Ready(offer) = &record.state {
            self.handles_bytes -= offer.bytes();
        }
        let tally = match side {
            Side::Source => &mut self.pushes,
            Side::Target => &mut self.expects,
        };
        tally.open -= 1;
        tally.over += 1;
        Some(record)
    }

    /// Reports finished copies once there are enough.
    fn report(&mut self) {
        let enough = |tally: &Tally| self.step.is_some_and(|step| tally.over >= step);
        if enough(&self.pushes) || enough(&self.expects) {
            let [pushes, expects] = [&mut self.pushes, &mut self.expects].map(|tally| std::mem::take(&mut tally.over));
            self.effects.push(TransferEffect::Over { pushes, expects });
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
