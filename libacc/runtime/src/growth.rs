//! Maps and unmaps memory for a device's allocator: blocking calls are made without the device's lock.

use crate::device::{Device, PLACES_MAX};
use crate::memory::Range;
use crate::queues::After;
use accord_types::{AddressRange, DevicePtr, Error, ErrorCode, QueueId, Result};

impl Device {
    /// Maps a range that the allocator requested. Returns why the device has no memory for it, if it has none.
    ///
    /// # Errors
    /// Returns all other errors.
    pub(crate) fn grow(&self, range: Range) -> Result<Option<Error>> {
        let epoch = self.epoch();
        let allocates = self.observed_client().allocates();
        let mapped = if allocates {
            self.slab(range.len)
        } else {
            self.client().map(range.start, range.len).map(|()| range.start)
        };
        let mut state = self.lock();
        if self.epoch() != epoch {
            // It was shut down meanwhile, with all its memory.
            if let (true, Ok(start)) = (allocates, &mapped) {
                self.shared.space.remove_slab(*start);
            }
        } else if allocates {
            state.memory.got(range.len, mapped.as_ref().ok().copied());
        } else {
            state.memory.grown(range, mapped.is_ok());
        }
        // Others may have waited for it.
        self.notify_arrival(&state);
        match mapped {
            Ok(_) => Ok(None),
            Err(error) if error.code() == ErrorCode::OutOfMemory => Ok(Some(error)),
            Err(error) => Err(self.place(error)),
        }
    }

    /// Returns memory at the driver's choice, but not where another device of the session, maybe of another process, has some.
    fn slab(&self, len: u64) -> Result<DevicePtr> {
        let mut taken = Vec::new();
        let found = loop {
            let start = match self.client().allocate(len) {
                Ok(start) => start,
                Err(error) => break Err(error),
            };
            match self.shared.space.add_slab(self.index, AddressRange { start, len }) {
                Ok(()) => break Ok(start),
                // The driver does not return the same place while it is allocated.
                Err(error) if taken.len() + 1 == PLACES_MAX => {
                    taken.push(start);
                    break Err(error);
                }
                Err(_) => taken.push(start),
            }
        };
        for start in taken {
            // The device's next call returns its error.
            let _ = self.client().unmap(QueueId::SYNC, start, len);
        }
        found
    }

    /// Returns ranges that the allocator no longer needs, once the synchronous queue gets there.
    ///
    /// # Errors
    /// Returns the errors of the device; the ranges are idle memory again then.
    pub(crate) fn shrink(&self, ranges: &[Range]) -> Result<()> {
        let mut result = Ok(());
        for range in ranges {
            let epoch = self.epoch();
            // The driver may give the place to another device at once.
            let was_slab = self.shared.space.remove_slab(range.start);
            let unmapped = self.client().unmap(QueueId::SYNC, range.start, range.len);
            if was_slab && unmapped.is_err() {
                // It is idle memory again.
                let _ = self.shared.space.add_slab(self.index, AddressRange { start: range.start, len: range.len });
            }
            let mut state = self.lock();
            let mut queues = self.queues();
            if self.epoch() == epoch {
                let after = unmapped.is_ok().then(|| {
                    queues.filled(QueueId::SYNC, false);
                    After { queue: Some(QueueId::SYNC), moment: queues.now() }
                });
                state.memory.unmapped(*range, after);
            }
            result = result.and(unmapped);
        }
        result.map_err(|error| self.place(error))
    }
}
