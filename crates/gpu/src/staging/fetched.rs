//! Bytes that the device copies to a slot before their sink reads them.

use super::slot_pool::Slot;
use crate::driver::DriverError;

/// A slot that the device fills, or has filled. It may be dropped in between.
pub(crate) struct Fetched {
    slot: Option<Slot>,
    place: FetchedPlace,
}

/// The kind of memory of fetched bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FetchedPlace {
    /// Memory of the host.
    Host,
    /// Memory of the device.
    Device,
}

impl Fetched {
    pub(crate) fn new(slot: Slot, place: FetchedPlace) -> Self {
        Self { slot: Some(slot), place }
    }

    pub(crate) fn place(&self) -> FetchedPlace {
        self.place
    }

    /// Lets the device fill the slot.
    pub(crate) fn filled_by(&self, fill: impl FnOnce(&Slot) -> Result<(), DriverError>) -> Result<(), DriverError> {
        self.slot.as_ref().map_or(Ok(()), fill)
    }

    /// Blocks until the slot is filled, and returns it.
    pub(crate) fn wait(mut self) -> Result<Option<Slot>, DriverError> {
        if let Some(slot) = &self.slot {
            match self.place {
                FetchedPlace::Host => slot.wait(),
                FetchedPlace::Device => slot.synchronize(),
            }?;
        }
        Ok(self.slot.take())
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.release_after();
        }
    }
}
