//! Checks for device addresses where a construct means another device's, or the program's memory.

use super::map::{Mapping, Mode, Stop};
use accord_types::HostRange;

impl Mapping<'_, '_> {
    /// Checks that data to be made present is not in device memory.
    pub(super) fn check_program_memory(&self, range: HostRange) -> Result<(), Stop> {
        match self.device.shared.space.owner(range.start as u64) {
            None => Ok(()),
            Some(owner) => Err(self
                .device
                .shared
                .space
                .elsewhere(range.start, owner, "name device addresses in a deviceptr clause")
                .into()),
        }
    }

    /// Checks that the memory of a `deviceptr` clause is this device's: the address in a pointer variable at `host`, in
    /// Fortran `host`.
    pub(super) fn check_device_ptr(&self, host: usize, fortran: bool) -> Result<(), Stop> {
        let mut address = host;
        if self.mode == Mode::Enter {
            return Ok(());
        }
        if !fortran {
            let mut value = [0; size_of::<usize>()];
            self.host.read(host, &mut value);
            address = usize::from_ne_bytes(value);
        }
        match self.device.shared.space.owner(address as u64).filter(|owner| *owner != self.device.index) {
            None => Ok(()),
            Some(owner) => {
                let remedy = "call acc_set_device_num before the construct, or copy the data by acc_memcpy_d2d";
                Err(self.device.shared.space.elsewhere(address, owner, remedy).into())
            }
        }
    }
}
