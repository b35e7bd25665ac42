//! The records that callbacks get (OpenACC 3.3, 5.2), as GCC lays them out.

use std::ffi::{c_char, c_void};
use std::ptr::null;

/// Events (5.1), with GCC's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Event {
    DeviceInitStart = 1,
    DeviceInitEnd = 2,
    DeviceShutdownStart = 3,
    DeviceShutdownEnd = 4,
    RuntimeShutdown = 5,
    Create = 6,
    Delete = 7,
    Alloc = 8,
    Free = 9,
    EnterDataStart = 10,
    EnterDataEnd = 11,
    ExitDataStart = 12,
    ExitDataEnd = 13,
    UpdateStart = 14,
    UpdateEnd = 15,
    ComputeStart = 16,
    ComputeEnd = 17,
    LaunchStart = 18,
    LaunchEnd = 19,
    UploadStart = 20,
    UploadEnd = 21,
    DownloadStart = 22,
    DownloadEnd = 23,
    WaitStart = 24,
    WaitEnd = 25,
}

impl Event {
    /// One more than the highest event number.
    pub(crate) const COUNT: i32 = 26;

    /// Events that end something call their callbacks in reverse (5.3).
    pub(super) fn is_end(self) -> bool {
        matches!(
            self,
            Self::DeviceInitEnd
                | Self::DeviceShutdownEnd
                | Self::EnterDataEnd
                | Self::ExitDataEnd
                | Self::UpdateEnd
                | Self::ComputeEnd
                | Self::LaunchEnd
                | Self::UploadEnd
                | Self::DownloadEnd
                | Self::WaitEnd
        )
    }
}

/// What an event belongs to (5.2.2), with GCC's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Construct {
    /// Any compute construct: the calls don't tell them apart.
    Parallel = 0,
    Data = 3,
    EnterData = 4,
    ExitData = 5,
    Update = 12,
    Wait = 14,
    RuntimeApi = 15,
}

/// `_OPENACC` of the compilers whose layout this is.
const VERSION: i32 = 201_711;
/// An unknown number.
pub(super) const UNKNOWN: i32 = -1;

/// `acc_prof_info`.
#[repr(C)]
pub(crate) struct ProfInfo {
    event_type: i32,
    valid_bytes: i32,
    version: i32,
    device_type: i32,
    device_number: i32,
    thread_id: i32,
    async_: i64,
    async_queue: i64,
    src_file: *const c_char,
    func_name: *const c_char,
    line_no: i32,
    end_line_no: i32,
    func_line_no: i32,
    func_end_line_no: i32,
}

impl ProfInfo {
    pub(super) fn new(event: Event, kind: i32, num: i32, async_: i32) -> Self {
        Self {
            event_type: event as i32,
            valid_bytes: size_of::<Self>() as i32,
            version: VERSION,
            device_type: kind,
            device_number: num,
            // SAFETY: has no preconditions.
            thread_id: unsafe { libc::gettid() },
            async_: i64::from(async_),
            async_queue: i64::from(async_),
            src_file: null(),
            func_name: null(),
            line_no: UNKNOWN,
            end_line_no: UNKNOWN,
            func_line_no: UNKNOWN,
            func_end_line_no: UNKNOWN,
        }
    }

    pub(super) fn set_event(&mut self, event: Event) {
        self.event_type = event as i32;
    }
}

/// `acc_event_info`: the part that all events have, with room for the longest.
#[repr(C)]
pub(crate) struct EventInfo {
    event_type: i32,
    valid_bytes: i32,
    parent_construct: i32,
    implicit: i32,
    tool_info: *mut c_void,
    rest: [u64; 4],
}

impl EventInfo {
    /// Bytes of `acc_other_event_info`.
    const OTHER_BYTES: i32 = 24;
    /// Bytes of `acc_data_event_info` and of `acc_launch_event_info`.
    const LONG_BYTES: i32 = 56;

    pub(super) fn new(event: Event, construct: Construct) -> Self {
        Self {
            event_type: event as i32,
            valid_bytes: Self::OTHER_BYTES,
            parent_construct: construct as i32,
            implicit: 0,
            tool_info: std::ptr::null_mut(),
            rest: [0; 4],
        }
    }

    /// Raised by the runtime on its own, not by a directive or call for it.
    pub(super) fn implicit(mut self) -> Self {
        self.implicit = 1;
        self
    }

    /// As `acc_data_event_info`; the variable's name is not known.
    pub(super) fn data(mut self, bytes: u64, host: usize, device: u64) -> Self {
        self.valid_bytes = Self::LONG_BYTES;
        self.rest = [0, bytes, host as u64, device];
        self
    }

    /// As `acc_launch_event_info`: gangs, workers and vector length. The kernel's name is not known here.
    pub(super) fn launch(mut self, [gangs, workers, vector]: [u64; 3]) -> Self {
        self.valid_bytes = Self::LONG_BYTES;
        self.rest = [0, gangs, workers, vector];
        self
    }

    pub(super) fn set_event(&mut self, event: Event) {
        self.event_type = event as i32;
    }
}

/// `acc_api_info`.
#[repr(C)]
pub(crate) struct ApiInfo {
    device_api: i32,
    valid_bytes: i32,
    device_type: i32,
    vendor: i32,
    device_handle: *const c_void,
    context_handle: *const c_void,
    async_handle: *const c_void,
}

impl ApiInfo {
    pub(super) fn new(kind: i32) -> Self {
        /// `acc_device_api_none`: there are no handles of another API.
        const API_NONE: i32 = 0;
        Self {
            device_api: API_NONE,
            valid_bytes: size_of::<Self>() as i32,
            device_type: kind,
            vendor: UNKNOWN,
            device_handle: null(),
            context_handle: null(),
            async_handle: null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_layouts_are_gccs() {
        assert_eq!(size_of::<ProfInfo>(), 72);
        assert_eq!(offset_of!(ProfInfo, async_), 24);
        assert_eq!(offset_of!(ProfInfo, src_file), 40);
        assert_eq!(offset_of!(ProfInfo, func_end_line_no), 68);
        assert_eq!(size_of::<EventInfo>(), 56);
        assert_eq!(offset_of!(EventInfo, tool_info), 16);
        assert_eq!(size_of::<ApiInfo>(), 40);
        assert_eq!(offset_of!(ApiInfo, device_handle), 16);
    }
}
