//! The records of callbacks (OpenACC 3.3, 5.2), in GCC's layout.

use super::place::Place;
use super::site::{Spot, UNKNOWN};
use crate::thread_id;
use accord_runtime::prof::{Handles, Subject};
use std::ffi::{CStr, c_char, c_void};
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

    /// Whether the event ends something, and so calls its callbacks in reverse (5.4).
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

/// The construct of an event (5.2.2), with GCC's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Construct {
    /// Any compute construct, because the calls do not distinguish them.
    Parallel = 0,
    Data = 3,
    EnterData = 4,
    ExitData = 5,
    HostData = 6,
    Declare = 8,
    Update = 12,
    Wait = 14,
    RuntimeApi = 15,
}

impl Construct {
    /// A construct's number in words, for people.
    pub(super) fn words(raw: i32) -> &'static str {
        match raw {
            0 => "compute construct",
            3 => "data construct",
            4 => "enter data",
            5 => "exit data",
            6 => "host_data construct",
            8 => "declare",
            12 => "update",
            14 => "wait",
            _ => "runtime routine",
        }
    }
}

/// `_OPENACC` of the compilers with this layout.
const VERSION: i32 = 201_711;

/// Whether an event has the record of data events.
pub(super) fn is_data(event: i32) -> bool {
    use Event::{Create, DownloadEnd, Free, UploadStart};
    (Create as i32..=Free as i32).contains(&event) || (UploadStart as i32..=DownloadEnd as i32).contains(&event)
}

/// The layout of `acc_prof_info`.
#[repr(C)]
pub(crate) struct ProfInfo {
    pub(super) event_type: i32,
    valid_bytes: i32,
    version: i32,
    device_type: i32,
    device_number: i32,
    thread_id: i32,
    async_: i64,
    async_queue: i64,
    pub(super) src_file: *const c_char,
    pub(super) func_name: *const c_char,
    pub(super) line_no: i32,
    pub(super) end_line_no: i32,
    func_line_no: i32,
    func_end_line_no: i32,
}

impl ProfInfo {
    /// Whether the event starts something that has an end.
    pub(super) fn is_start(&self) -> bool {
        !self.is_end() && !(Event::RuntimeShutdown as i32..=Event::Free as i32).contains(&self.event_type)
    }

    /// Whether the event ends something.
    pub(super) fn is_end(&self) -> bool {
        use Event::{DeviceInitStart, DeviceShutdownEnd, EnterDataStart, WaitEnd};
        let odd = self.event_type % 2 != 0;
        (DeviceInitStart as i32..=DeviceShutdownEnd as i32).contains(&self.event_type) && !odd
            || (EnterDataStart as i32..=WaitEnd as i32).contains(&self.event_type) && odd
    }

    /// Whether the event has the record of data events.
    pub(super) fn is_data(&self) -> bool {
        is_data(self.event_type)
    }

    fn new(event: Event, kind: i32, num: i32, async_: i32, queue: i32, spot: Option<Spot>) -> Self {
        let site = spot.map(|spot| spot.site);
        Self {
            event_type: event as i32,
            valid_bytes: size_of::<Self>() as i32,
            version: VERSION,
            device_type: kind,
            device_number: num,
            thread_id: thread_id::id(),
            async_: i64::from(async_),
            async_queue: i64::from(queue),
            src_file: site.and_then(|site| site.file.as_ref()).map_or(null(), |file| file.as_ptr()),
            func_name: site.and_then(|site| site.function.as_ref()).map_or(null(), |name| name.as_ptr()),
            line_no: spot.map_or(UNKNOWN, |spot| spot.line),
            end_line_no: spot.map_or(UNKNOWN, |spot| spot.end_line),
            func_line_no: site.map_or(UNKNOWN, |site| site.function_lines[0]),
            func_end_line_no: site.map_or(UNKNOWN, |site| site.function_lines[1]),
        }
    }
}

/// The layout of `acc_event_info`: the part common to all events, with space for the longest.
#[repr(C)]
pub(crate) struct EventInfo {
    event_type: i32,
    valid_bytes: i32,
    pub(super) parent_construct: i32,
    pub(super) implicit: i32,
    tool_info: *mut c_void,
    pub(super) rest: [u64; 4],
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

    /// Marks the event as raised by the runtime itself, not for a directive or call.
    pub(super) fn implicit(mut self) -> Self {
        self.implicit = 1;
        self
    }

    /// Adds the fields of `acc_data_event_info`.
    pub(super) fn data(mut self, name: Option<&'static CStr>, bytes: u64, host: usize, device: u64) -> Self {
        self.valid_bytes = Self::LONG_BYTES;
        self.rest = [name.map_or(0, |name| name.as_ptr() as u64), bytes, host as u64, device];
        self
    }

    /// Adds the fields of `acc_launch_event_info`: the kernel's name; gangs, workers and vector length.
    pub(super) fn launch(mut self, name: &'static CStr, [gangs, workers, vector]: [u64; 3]) -> Self {
        self.valid_bytes = Self::LONG_BYTES;
        self.rest = [name.as_ptr() as u64, gangs, workers, vector];
        self
    }
}

/// The layout of `acc_api_info`.
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
    fn new(kind: i32) -> Self {
        Self {
            device_api: Self::NONE,
            valid_bytes: size_of::<Self>() as i32,
            device_type: kind,
            vendor: UNKNOWN,
            device_handle: null(),
            context_handle: null(),
            async_handle: null(),
        }
    }
}

impl ApiInfo {
    /// Returns the driver's context, if there is one.
    pub(super) fn context(&self) -> Option<usize> {
        Some(self.context_handle.expose_provenance()).filter(|context| *context != 0)
    }

    /// `acc_device_api_none`: no handles of another API.
    const NONE: i32 = 0;
    /// `acc_device_api_cuda`.
    const CUDA: i32 = 1;
}

/// The records for one event's callbacks. Start and end of a pair share them, so that a tool finds its `tool_info` again.
pub(crate) struct Records {
    pub(super) prof: ProfInfo,
    pub(super) event: EventInfo,
    pub(super) api: ApiInfo,
    pub(super) place: Place,
}

impl Records {
    /// Creates the records of an event about `subject`; `None` means no device. `async_` is the construct's argument, and `spot`
    /// its place in the program.
    pub(super) fn new(
        event: Event,
        info: EventInfo,
        subject: Option<&Subject>,
        async_: i32,
        spot: Option<Spot>,
    ) -> Self {
        let kind = subject.map_or(0, |subject| subject.device_type as i32);
        let num = subject.and_then(|subject| i32::try_from(subject.device.0).ok()).unwrap_or(UNKNOWN);
        // The queues of GCC's negative async values have equal bits.
        let queue = subject.map_or(async_, |subject| subject.queue.0.cast_signed());
        Self {
            prof: ProfInfo::new(event, kind, num, async_, queue, spot),
            event: info,
            api: ApiInfo::new(kind),
            place: Place::new(subject.and_then(|subject| subject.index), queue),
        }
        .with_handles(subject.and_then(|subject| subject.handles))
    }

    fn with_handles(mut self, handles: Option<Handles>) -> Self {
        if self.place.has_driver() {
            self.api.device_api = ApiInfo::CUDA;
        }
        if let Some(handles) = handles {
            self.place.cuda_device = handles.device;
            self.api.context_handle = handles.context as *const c_void;
            self.api.async_handle = handles.stream as *const c_void;
        }
        self
    }

    /// The records of an event pair's end.
    pub(super) fn set_event(&mut self, event: Event) {
        self.prof.event_type = event as i32;
        self.event.event_type = event as i32;
    }

    /// Makes the records point to each other. They must not move during the callbacks.
    pub(super) fn point(&mut self) {
        if self.place.cuda_device >= 0 {
            self.api.device_handle = (&raw const self.place.cuda_device).cast();
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
