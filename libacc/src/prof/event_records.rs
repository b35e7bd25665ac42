//! Accord's own tools' access to an event's records, which are those of any tool.

use super::info::{Event, EventInfo, ProfInfo};
use super::place::{self, Place};
use std::ffi::{CStr, c_char, c_void};

/// The records of one event, during its callback.
#[derive(Clone, Copy)]
pub(super) struct EventRecords<'a> {
    pub(super) prof: &'a ProfInfo,
    pub(super) event: &'a EventInfo,
    pub(super) place: Option<&'a Place>,
}

impl EventRecords<'_> {
    /// Runs `body` with the records of a callback.
    ///
    /// # Safety
    /// The pointers must be those of a callback that has not returned.
    pub(super) unsafe fn with(prof: *mut c_void, event: *mut c_void, body: impl FnOnce(EventRecords<'_>)) {
        // SAFETY: by the caller's guarantee these are records in their layouts, and the place of this thread's event.
        let (prof, event, place) =
            unsafe { (&*prof.cast::<ProfInfo>(), &*event.cast::<EventInfo>(), place::here().as_ref()) };
        // A panic must not unwind into the program or tool that raises events. The hook reports it.
        let reported = EventRecords { prof, event, place };
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(reported))));
    }

    /// Whether the event is `event`.
    pub(super) fn is(&self, event: Event) -> bool {
        self.prof.event_type == event as i32
    }

    pub(super) fn file(&self) -> &'static str {
        text(self.prof.src_file)
    }

    pub(super) fn function(&self) -> &'static str {
        text(self.prof.func_name)
    }

    /// Returns the variable of a data event.
    pub(super) fn variable(&self) -> &'static str {
        text(self.event.rest[0] as *const c_char)
    }

    /// Returns the bytes of a data event.
    pub(super) fn bytes(&self) -> u64 {
        self.event.rest[1]
    }

    /// Returns the kernel of a launch.
    pub(super) fn kernel(&self) -> &'static str {
        text(self.event.rest[0] as *const c_char)
    }

    /// Returns the dimensions of a launch.
    pub(super) fn dims(&self) -> [u64; 3] {
        [self.event.rest[1], self.event.rest[2], self.event.rest[3]]
    }

    /// Returns the index of the device.
    pub(super) fn device(&self) -> Option<usize> {
        usize::try_from(self.place?.device).ok()
    }
}

/// Returns a text of the records, empty if unknown.
fn text(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: texts in events are terminated and stay until the program ends.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}
