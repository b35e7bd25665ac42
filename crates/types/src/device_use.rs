//! A session's use of a device, as agents report it.

use crate::DeviceFault;

/// The use of one device by one session so far. The counters only grow, so that lost or repeated reports are harmless.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceUse {
    /// Milliseconds in which the session's queues on the device were sampled as not empty; `None` if unknown.
    pub busy_ms: Option<u64>,
    /// Bytes copied to the device.
    pub bytes_in: u64,
    /// Bytes copied from the device.
    pub bytes_out: u64,
    /// Bytes of the device's memory that the session holds now: a gauge, not a counter.
    pub held: u64,
    /// The fault that the device reported to the session. A device's own fault replaces one that a region may have
    /// caused.
    pub fault: Option<DeviceFault>,
}

impl DeviceUse {
    /// Returns the sum of this use and that of an earlier executor, whose memory has been freed.
    #[must_use]
    pub fn after(self, before: Self) -> Self {
        Self {
            busy_ms: self.busy_ms.zip(before.busy_ms).map(|(own, before)| before.saturating_add(own)),
            bytes_in: before.bytes_in.saturating_add(self.bytes_in),
            bytes_out: before.bytes_out.saturating_add(self.bytes_out),
            held: self.held,
            fault: self.fault.or(before.fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_use_adds_the_predecessors_totals_except_its_memory() {
        let before = DeviceUse { busy_ms: Some(5), bytes_in: u64::MAX, bytes_out: 7, held: 100, fault: None };
        let own = DeviceUse { busy_ms: Some(1), bytes_in: 2, bytes_out: 3, held: 4, fault: None };
        let both = DeviceUse { busy_ms: Some(6), bytes_in: u64::MAX, bytes_out: 10, held: 4, fault: None };
        assert_eq!(own.after(before), both);
        let fault = DeviceFault::cuda(700);
        assert_eq!(own.after(DeviceUse { fault, ..before }).fault, fault);
        assert_eq!(own.after(DeviceUse { busy_ms: None, ..before }).busy_ms, None);
    }
}
