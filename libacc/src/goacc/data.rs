//! `GOACC_data_start` and `GOACC_data_end`: `data` and `host_data` (OpenACC 3.3, 2.6.5, 2.8).

use super::entries;
use crate::{abi_boundary, device_address, prof};

/// Starts a region. Returns device addresses for `use_device` in `hosts`.
///
/// # Safety
/// The arrays must be as GCC passes them: `n` elements each.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOACC_data_start(dev: i32, n: usize, hosts: *mut usize, sizes: *const usize, kinds: *const u16) {
    abi_boundary::enter("data", |runtime, local| {
        // SAFETY: the caller's promise.
        let mut entries = unsafe { entries(n, hosts, sizes, kinds) };
        prof::data_start(dev, &mut entries, runtime, local, |entries, local| runtime.data_start(local, dev, entries))?;
        if entries.use_devices() {
            device_address::gave(runtime, local);
        }
        Ok(())
    });
}

/// The thread's innermost region ends.
#[unsafe(no_mangle)]
extern "C" fn GOACC_data_end() {
    abi_boundary::enter("end of data", |runtime, local| {
        prof::data_end(runtime, local, |local| runtime.data_end(local))
    });
}
