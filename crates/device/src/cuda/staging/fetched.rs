//! Bytes that the device copies to a place before their sink takes them.

use super::slot_pool::Slot;
use crate::cuda::driver::DriverError;

/// A slot that the device fills, or has filled. It may be dropped meanwhile.
pub(crate) struct Fetched {
    slot: Option<Slot>,
    place: FetchedPlace,
}

/// The place of fetched bytes.
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

    /// Has the device fill it.
    pub(crate) fn filled_by(&self, fill: impl FnOnce(&Slot) -> Result<(), DriverError>) -> Result<(), DriverError> {
        self.slot.as_ref().map_or(Ok(()), fill)
    }

    /// The slot, once it is filled.
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
