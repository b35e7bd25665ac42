//! The place of an event, beyond the specification's records: `accord_prof_place`.

use accord_runtime::ports::DeviceClient;
use accord_types::DeviceKind;
use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The layout of `accord_prof_place_t` in `accord_prof.h`. Only its end may grow; `valid_bytes` holds the size.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Place {
    valid_bytes: i32,
    /// The device's number over all types, as `accord info` shows it; -1 for the host.
    pub(super) device: i32,
    /// The device's number on its node.
    ordinal: i32,
    /// Whether another process drives the device.
    remote: i32,
    /// This process's rank; -1 without MPI.
    pub(super) rank: i32,
    /// The driver's number of a GPU, to which `device_handle` points.
    pub(super) cuda_device: i32,
    /// The queue; negative values are GCC's `acc_async_*`.
    pub(super) queue: i64,
    /// The node's name; null is the host.
    node: *const c_char,
    /// The device's product name; null is the host.
    name: *const c_char,
}

/// One device of the session, for events.
struct EventDevice {
    ordinal: i32,
    remote: bool,
    kind: DeviceKind,
    node: CString,
    name: CString,
}

/// The devices of the session. Never freed: tools keep the names.
static DEVICES: AtomicPtr<Vec<EventDevice>> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// The place of the event whose callback runs on this thread.
    static HERE: Cell<*const Place> = const { Cell::new(null()) };
}

/// Sets the devices by their index.
pub(super) fn set_devices(clients: &[Arc<dyn DeviceClient>]) {
    let known: Vec<EventDevice> = clients
        .iter()
        .map(|client| {
            let info = client.info();
            let text = |text: &str| CString::new(text).unwrap_or_default();
            EventDevice {
                ordinal: i32::try_from(info.id.ordinal).unwrap_or(i32::MAX),
                remote: client.is_remote(),
                kind: info.kind,
                node: text(&info.node_name),
                name: text(&info.name),
            }
        })
        .collect();
    DEVICES.store(Box::into_raw(Box::new(known)), Ordering::Release);
}

impl Place {
    /// Creates the place of the device with this index; `None` is the host.
    pub(super) fn new(index: Option<usize>, queue: i32) -> Self {
        let known = index.and_then(known);
        Self {
            valid_bytes: size_of::<Self>() as i32,
            device: index.filter(|_| known.is_some()).and_then(|index| i32::try_from(index).ok()).unwrap_or(-1),
            ordinal: known.map_or(-1, |known| known.ordinal),
            remote: known.map_or(0, |known| i32::from(known.remote)),
            rank: rank(),
            cuda_device: -1,
            queue: i64::from(queue),
            node: known.map_or(null(), |known| known.node.as_ptr()),
            name: known.map_or(null(), |known| known.name.as_ptr()),
        }
    }

    /// The node's name; empty for the host.
    pub(super) fn node_name(&self) -> &'static str {
        let known = usize::try_from(self.device).ok().and_then(known);
        known.and_then(|known| known.node.to_str().ok()).unwrap_or_default()
    }

    /// Whether the device has a driver of its own, on any node.
    pub(super) fn has_driver(&self) -> bool {
        usize::try_from(self.device)
            .ok()
            .and_then(known)
            .is_some_and(|known| accord_backends::capabilities(known.kind).is_some_and(|able| able.native_handles))
    }
}

fn known(index: usize) -> Option<&'static EventDevice> {
    // SAFETY: lists are never freed.
    unsafe { DEVICES.load(Ordering::Acquire).as_ref() }?.get(index)
}

fn rank() -> i32 {
    static RANK: std::sync::OnceLock<i32> = std::sync::OnceLock::new();
    *RANK.get_or_init(|| crate::settings::rank().and_then(|rank| i32::try_from(rank.rank).ok()).unwrap_or(-1))
}

/// Restores the previous place when it is dropped.
pub(super) struct PlaceGuard(*const Place);

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        HERE.set(self.0);
    }
}

/// A callback of an event at `place` runs until the result is dropped.
pub(super) fn enter(place: &Place) -> PlaceGuard {
    PlaceGuard(HERE.replace(place))
}

/// Returns the place of the event whose callback the calling thread runs; null outside of callbacks.
pub(crate) fn here() -> *const Place {
    HERE.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_layout_is_the_headers() {
        assert_eq!(size_of::<Place>(), 48);
        assert_eq!(offset_of!(Place, rank), 16);
        assert_eq!(offset_of!(Place, queue), 24);
        assert_eq!(offset_of!(Place, name), 40);
    }

    #[test]
    fn a_place_holds_during_its_callback() {
        assert!(here().is_null());
        let (outer, inner) = (Place::new(None, -2), Place::new(None, 3));
        let first = enter(&outer);
        {
            let _second = enter(&inner);
            assert_eq!(here(), &raw const inner);
        }
        assert_eq!(here(), &raw const outer);
        drop(first);
        assert!(here().is_null());
    }
}
