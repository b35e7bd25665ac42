//! The declared type of a Fortran array's elements.

use super::{call, frames, info, on_helper_thread_within, with_known};
use crate::loader;
use accord_debuginfo::{Elements, Frame, ProcessMemory};
use std::time::Duration;

/// Longest search: longer than for a message, because a result depends on it, and only once per place.
const LOOKUP_MAX: Duration = Duration::from_secs(60);
/// Most places that are kept.
const KEPT_MAX: usize = 100_000;

/// Returns the declared elements of the array whose descriptor is at `descriptor`, entry `entry` of the construct of the program's call. Returns `None` if
/// the debug information has no such variable. A repeated query for the same place is a look-up.
pub(crate) fn elements(descriptor: usize, entry: usize) -> Option<Elements> {
    let key = call().map(|call| (call, entry));
    let kept = key.and_then(|key| with_known(|known| known.elements.get_or_insert_default().get(&key).copied()));
    if let Some(kept) = kept {
        return kept;
    }
    let frames = frames();
    let found = on_helper_thread_within(LOOKUP_MAX, move || find_value(descriptor, &frames)).flatten();
    if let Some(key) = key {
        with_known(|known| {
            let elements = known.elements.get_or_insert_default();
            if elements.len() < KEPT_MAX {
                elements.insert(key, found);
            }
        });
    }
    found
}

fn find_value(descriptor: usize, frames: &[Frame]) -> Option<Elements> {
    let memory = ProcessMemory::open();
    if let Some(object) = loader::holding(descriptor) {
        return info(&object)?.global_elements(object.base as u64, descriptor as u64, &memory);
    }
    frames.iter().find_map(|frame| {
        let object = loader::holding(usize::try_from(frame.code).ok()?)?;
        info(&object)?.local_elements(object.base as u64, frame, descriptor as u64, &memory)
    })
}
